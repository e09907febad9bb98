"""`linstereo ablate`, as a user calls it."""

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from linstereo.checkpoints.checkpoint import save_checkpoint
from linstereo.cli import main
from linstereo.model.presets import LinStereoConfig, build
from tests.data import layouts
from tests.waiting import PATIENCE

MODEL = {
    "feature_width": 16,
    "hidden": 16,
    "coarse_hidden": 0,
    "heads": 2,
    "levels": 2,
    "radius": 2,
    "context": 0,
    "fine": 0,
}
STAGE = {"steps": 3, "batch": 2, "crop": "64x96", "iterations": 2, "validation_count": 2, "checkpoint_every": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Pairs, and a checkpoint whose features every row starts from."""
    root = tmp_path_factory.mktemp("ablate")
    layouts.make_folder(root / "pairs", pairs=3)
    torch.manual_seed(3)
    model = build(LinStereoConfig(backbone="compact", start="correlation", **MODEL))
    save_checkpoint(model, root / "features.safetensors")
    return root


def arguments(folder: Path, out: Path | str, *more: str) -> list[str]:
    settings = [f"model.{name}={value}" for name, value in MODEL.items()]
    settings += [f"{name}={value}" for name, value in STAGE.items()]
    return [
        "ablate",
        *("--config", "compact", "--stages", "decoder", "--from", str(folder / "features.safetensors")),
        *("--data", f"folder={folder / 'pairs'}", "--validation", f"folder={folder / 'pairs'}"),
        *("--workers", "0", "--threads", "1", "--device", "cpu", "--out", str(out)),
        *[part for setting in settings for part in ("--set", setting)],
        *more,
    ]


def test_some_rows_of_a_table_end_in_three_files(folder, tmp_path, capsys):
    command = arguments(folder, tmp_path, "--table", "components", "--rows", "none,hscv-pala", "--steps", "2")
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "# Ablation: components" in out
    assert f"written: {tmp_path / 'components.md'}, {tmp_path / 'components.csv'}" in out
    assert (tmp_path / "components.md").read_text() in out
    assert "components/none: takes backbone, cost_volumes.project.0 from" in err
    rows = list(csv.DictReader((tmp_path / "components.csv").open()))
    assert [row["variant"] for row in rows if row["EPE"]] == ["none", "hscv-pala"]
    stage = json.loads((tmp_path / "components.json").read_text())["base"]["stages"]
    assert [(s["name"], s["steps"], s["batch"]) for s in stage] == [("decoder", 2, 2)]

    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "takes" not in err
    assert "# Ablation: components" in out
    assert main([*command[:-1], "3"]) == 2
    assert "steps was 2, is 3" in capsys.readouterr().err


def test_with_a_checkpoint_only_the_stages_of_the_decoder_are_run(folder, tmp_path):
    command = arguments(folder, tmp_path, "--table", "components", "--rows", "none", "--steps", "5")
    index = command.index("--stages")
    assert main(command[:index] + command[index + 2 :]) == 0
    stages = json.loads((tmp_path / "components.json").read_text())["base"]["stages"]
    assert [(s["name"], s["steps"]) for s in stages] == [("decoder", 2), ("joint", 1), ("surfaces", 2)]


INTERRUPTED = """
import os, signal, sys
from linstereo.cli import main
from linstereo.training.metrics_log import MetricsLog

write = MetricsLog.scalars

def write_and_interrupt(self, kind, **values):
    write(self, kind, **values)
    if kind == "train" and values["step"] == 1:
        os.kill(os.getpid(), signal.SIGINT)

MetricsLog.scalars = write_and_interrupt
sys.exit(main(sys.argv[1:]))
"""


def test_it_stops_when_asked_and_goes_on_to_the_same_weights(folder, tmp_path):
    rows = ("--table", "components", "--rows", "none,pala", "--set", "steps=8", "--set", "log_every=1")
    assert main(arguments(folder, tmp_path / "whole", *rows)) == 0
    command = [sys.executable, "-c", INTERRUPTED, *arguments(folder, tmp_path / "stopped", *rows)]
    process = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    assert process.returncode == 128 + signal.SIGINT
    assert "stopped; the same command resumes from here" in process.stderr
    assert not (tmp_path / "stopped/components/pala").exists()
    assert not (tmp_path / "stopped/components/none/result.json").exists()
    assert main(arguments(folder, tmp_path / "stopped", *rows)) == 0
    for row in ("none", "pala"):
        first, second = (
            load_file(tmp_path / out / "components" / row / "linstereo.safetensors") for out in ("whole", "stopped")
        )
        assert all(torch.equal(first[name], second[name]) for name in first)


def test_list_shows_the_rows_of_all_tables(capsys):
    assert main(["ablate", "--config", "compact", "--list"]) == 0
    out = capsys.readouterr().out
    for table in ("components:", "pala:", "training:", "hscv:", "updater-size:"):
        assert table in out
    assert "hscv-dpi-pala     HSCV yes, start from correlations yes, PALA yes" in out
    assert "heads 8" in out or "heads, value 8 (not for this base: hidden is 48" in out
    assert main(["ablate", "--config", "paper", "--list", "--table", "training", "--rows", "lr-2x"]) == 0
    assert "learning rate 0.0004, batch 8, T 8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--table", "component"], "there is no ablation table 'component'; choose among components, pala"),
        (["--table", "pala", "--rows", "e"], "there is no row 'e'; choose among a, b, c, d, symmetric-rope"),
        (["--steps", "0"], "0 steps are too few"),
        (["--stages", "final"], "the recipe has no stage 'final'; choose among features, decoder, joint"),
        (["--set", "bach=2"], "there is no field 'bach'"),
        (["--workers", "-1"], "--workers is -1; give 0 to 256"),
        (["--threads", "0"], "--threads is 0; give 1 to"),
        (["--from", "nothing.safetensors"], "there is no checkpoint 'nothing.safetensors'"),
        (["--benchmark", "kitti"], "--benchmark 'kitti' is not understood"),
        (["--set", "data=[]"], "there is no training data for stage 'decoder'; add --data"),
        (["--set", "validation=[]"], "there are no pairs to measure the variants on; add --validation"),
    ],
)
def test_bad_input_is_one_sentence(folder, tmp_path, capsys, more, message):
    command = arguments(folder, tmp_path / "out", *more)
    if any(text.startswith(("data=", "validation=")) for text in more):
        for option in ("--data", "--validation"):
            if more[1].startswith(option[2:]):
                index = command.index(option)
                command = command[:index] + command[index + 2 :]
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("linstereo: ")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_where_the_results_go_is_checked_first(folder, tmp_path, capsys):
    command = arguments(folder, "OUT", "--table", "pala")
    index = command.index("--out")
    assert main(command[:index] + command[index + 2 :]) == 2
    assert "add --out DIR" in capsys.readouterr().err
    (tmp_path / "file").write_text("x")
    assert main(arguments(folder, tmp_path / "file")) == 2
    assert "is a file; give a folder" in capsys.readouterr().err


def test_random_features_are_not_frozen(folder, tmp_path, capsys):
    command = arguments(folder, tmp_path, "--table", "components")
    index = command.index("--from")
    assert main(command[:index] + command[index + 2 :]) == 2
    assert "freezes 'backbone', which nothing has trained; give --from CHECKPOINT" in capsys.readouterr().err
