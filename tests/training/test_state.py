"""The state of a run on disk: exact, readable after a kill, and intact when the disk is full."""

import contextlib
import json
import resource
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.training.tiny import run_training, tiny_recipe, write_folder
from tests.waiting import PATIENCE

from linstereo.checkpoints.checkpoint_file import read_header
from linstereo.errors import InputError
from linstereo.training import state as state_module
from linstereo.training.state import TrainingProgress, TrainingState, load_state, save_state

ROOT = Path(__file__).parents[2]


def test_everything_comes_back_as_it_was(tmp_path):
    state = TrainingState(
        progress=TrainingProgress(stage=1, step=7, total_steps=19, average_updates=7, best=0.1 + 0.2, skipped=3),
        recipe='{"seed": 1}',
        config="{}",
        weights={"a.b": torch.randn(3, 4), "empty": torch.zeros(0)},
        average={"a.b": torch.randn(3, 4).to(memory_format=torch.contiguous_format)},
        first_moment={"a.b": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)},
        second_moment={"a.b": torch.tensor(1e-30)},
        adam_steps={"a.b": torch.tensor(7.0)},
    )
    save_state(state, tmp_path / "training.safetensors")
    found = load_state(tmp_path / "training.safetensors")
    assert (found.progress, found.recipe, found.config) == (state.progress, state.recipe, state.config)
    for group in ("weights", "average", "first_moment", "second_moment", "adam_steps"):
        expected, read = getattr(state, group), getattr(found, group)
        assert expected.keys() == read.keys()
        assert all(torch.equal(expected[name], read[name]) for name in expected)


def test_twenty_kills_at_random_moments_change_nothing(tmp_path):
    command = [sys.executable, "-m", "tests.training.kill_and_resume", str(tmp_path), "20"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith("20 kills")


@contextlib.contextmanager
def largest_file(size):
    """As if the disk had room for files of `size` bytes only."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def stopped_run(tmp_path):
    recipe = tiny_recipe(write_folder(tmp_path / "pairs"), steps=6, checkpoint_every=2)
    run_training(recipe, tmp_path / "run", stop_after=2)
    return recipe, tmp_path / "run"


def test_a_full_disk_leaves_the_last_good_checkpoint(stopped_run, tmp_path):
    recipe, run = stopped_run
    before = (run / "training.safetensors").read_bytes()
    with largest_file(len(before) // 2), pytest.raises(InputError) as told:
        run_training(recipe, run)
    text = str(told.value)
    assert "\n" not in text
    assert f"the last good checkpoint, of step 2, is intact in {run / 'training.safetensors'}" in text
    assert (run / "training.safetensors").read_bytes() == before
    assert not list(run.glob(".*.safetensors"))
    assert run_training(recipe, run)[0]
    run_training(recipe, tmp_path / "whole")
    for name, weight in load_state(tmp_path / "whole" / "training.safetensors").weights.items():
        assert torch.equal(weight, load_state(run / "training.safetensors").weights[name])


def test_a_disk_that_fills_while_the_file_is_written(stopped_run, monkeypatch):
    recipe, run = stopped_run

    def fails(tensors, path, metadata):
        Path(path).write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state_module, "save_file", fails)
    with pytest.raises(InputError, match=r"No space left on device.*of step 2, is intact"):
        run_training(recipe, run)
    assert load_state(run / "training.safetensors").progress.total_steps == 2


def test_a_disk_that_is_full_from_the_start(tmp_path):
    recipe = tiny_recipe(write_folder(tmp_path / "pairs"), steps=2)
    with largest_file(1 << 14), pytest.raises(InputError, match="there is no checkpoint"):
        run_training(recipe, tmp_path / "run")


def test_half_written_files_of_a_killed_process_are_removed(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    for name in (".training-0123456789abcdef.safetensors", ".hidden", ".lock"):
        (run / name).write_bytes(b"half")
    run_training(tiny_recipe(write_folder(tmp_path / "pairs"), steps=1), run)
    hidden = [file.name for file in run.iterdir() if file.name.startswith(".")]
    assert hidden == [".hidden"]
    assert load_state(run / "training.safetensors").progress.total_steps == 1


def test_other_files_are_refused(tmp_path):
    file = tmp_path / "training.safetensors"
    save_file({"a": torch.zeros(2)}, file)
    with pytest.raises(InputError, match="not the state of a training run"):
        load_state(file)
    file.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="safetensors"):
        load_state(file)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"config": {"hidden": 10_000_000}}, "hidden is 10000000; use a whole number"),
        ({"config": {"hidden": 1024}}, "another network or backbone"),
        ({"config": {"heads": 0}}, "heads is 0"),
        ({"progress": {"stage": 0, "steps": 3}}, "is damaged"),
        ({"progress": "[" * 100_000}, "is damaged"),
        ({"recipe": "[" * 100_000}, "recipe that the run has stored is damaged"),
        ({"recipe": []}, "recipe that the run has stored is damaged"),
        ({"tensors": {"strange/a": torch.zeros(1)}}, "is damaged"),
        ({"tensors": {"weights/a": torch.zeros(1)}}, "another network or backbone"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_a_forged_state_is_refused_before_a_network_is_built(stopped_run, monkeypatch, changes, complaint):
    recipe, run = stopped_run
    file = run / "training.safetensors"
    metadata, tensors = read_header(file).metadata, load_file(file)
    for name, value in changes.items():
        if name == "tensors":
            tensors |= value
        elif name == "config":
            metadata[name] = json.dumps(json.loads(metadata[name]) | value)
        else:
            metadata[name] = value if isinstance(value, str) else json.dumps(value)
    save_file(tensors, file, metadata=metadata)
    monkeypatch.setattr("linstereo.training.run._build", Mock(side_effect=AssertionError("it was built")))
    with pytest.raises(InputError, match=complaint) as told:
        run_training(recipe, run)
    assert "\n" not in str(told.value)
