"""`linstereo train` as the user calls it."""

import os
import signal
import subprocess
import sys

import pytest
import torch

from linstereo.checkpoints.checkpoint import load_checkpoint
from linstereo.cli import main
from linstereo.training.metrics_log import read_metrics
from linstereo.training.state import load_state
from tests.training.tiny import write_folder
from tests.waiting import PATIENCE, wait_until

RECIPE = """
preset = "compact"
batch = 2
crop = [32, 64]
iterations = 1
log_every = 1
checkpoint_every = 1
validation_count = 1
[model]
hidden = 16
coarse_hidden = 16
heads = 2
feature_width = 16
levels = 2
[[stage]]
name = "features"
objective = "matching"
steps = 2
[[stage]]
name = "decoder"
frozen = ["backbone", "cost_volumes"]
steps = 2
"""


@pytest.fixture
def recipe(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(RECIPE)
    return str(file)


@pytest.fixture
def pairs(tmp_path):
    return f"folder={write_folder(tmp_path / 'pairs', count=3)}"


def test_train_then_go_on_then_fine_tune(recipe, pairs, tmp_path, capsys):
    out = tmp_path / "run"
    command = ["train", "--config", recipe, "--data", pairs, "--validation", pairs, "--out", str(out), "--workers", "1"]
    assert main([*command, "--stop-after", "3"]) == 0
    assert "stopped; the same command resumes" in capsys.readouterr().err
    assert load_state(out / "training.safetensors").progress.total_steps == 3
    assert main(command) == 0
    told = capsys.readouterr().err
    assert "after step 3" in told
    assert f"done: {out / 'linstereo.safetensors'}" in told
    assert [e["step"] for e in read_metrics(out / "metrics.jsonl") if e["kind"] == "validation"] == [0, 2, 4]
    trained = load_checkpoint(out)
    assert trained.config.hidden == 16

    tuned = tmp_path / "tuned"
    fine = ["train", "--from", str(out), "--data", pairs, "--out", str(tuned), "--workers", "0"]
    small = [f"--set={change}" for change in ("steps=1", "crop=32x64", "batch=1", "iterations=1")]
    assert main([*fine, *small]) == 0
    other = load_checkpoint(tuned)
    assert other.config == trained.config
    moved = [not torch.equal(a, b) for a, b in zip(trained.parameters(), other.parameters(), strict=True)]
    assert any(moved)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--config", "papr"], "there is no recipe 'papr'"),
        ([], "--config"),
        (["--config", "paper"], "there is no training data"),
        (["--config", "compact", "--set", "bath=3"], "'bath'"),
        (["--config", "compact", "--data", "kitty=/x"], "there is no dataset 'kitty'"),
        (["--config", "compact", "--stop-after", "0"], "--stop-after"),
        (["--config", "compact", "--threads", "0"], "--threads"),
        (["--config", "compact", "--workers", "-1"], "--workers"),
        (["--from", "/does/not/exist.safetensors", "--data", "folder=/x"], "/does/not/exist.safetensors"),
        (["--config", "compact", "--device", "abacus"], "abacus"),
    ],
)
def test_mistakes_are_told_in_one_sentence(options, expected, tmp_path, capsys, monkeypatch):
    if options == ["--config", "paper"]:
        options = [*options, "--set", "preset=compact"]  # whose backbone needs no download
    assert main(["train", "--out", str(tmp_path / "run"), *options]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert expected in told[-1]
    assert told[-1].startswith("linstereo: ")


def test_a_file_in_place_of_the_folder(recipe, pairs, tmp_path, capsys):
    (tmp_path / "run").write_text("")
    assert main(["train", "--config", recipe, "--data", pairs, "--out", str(tmp_path / "run")]) == 2
    assert "is a file; give a folder" in capsys.readouterr().err


def test_the_fields_of_a_recipe_can_be_listed(recipe, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", "--config", recipe, "--out", str(out), "--set", "decoder.batch=6", "--list-fields"]) == 0
    printed = capsys.readouterr().out
    assert "[decoder]" in printed
    assert "batch = 6" in printed
    assert not out.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_run_whose_processes_are_all_told_to_end_keeps_its_last_step(recipe, pairs, tmp_path, number):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "linstereo.cli", "train", "--config", recipe, "--data", pairs, "--out", str(out)]
    options = ["--set", "features.steps=100000", "--set", "checkpoint_every=100000", "--workers", "1", "--threads", "1"]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True, start_new_session=True)
    log = out / "metrics.jsonl"
    wait_until(lambda: process.poll() is not None or (log.exists() and len(log.read_text().splitlines()) >= 3))
    assert process.poll() is None, process.communicate()
    os.killpg(process.pid, number)  # as a terminal or a job scheduler does, to the loading processes too
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number, told  # so that `train && deploy` does not go on
    assert "the same command resumes" in told
    assert load_state(out / "training.safetensors").progress.total_steps == len(log.read_text().splitlines())
