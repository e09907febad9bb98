"""Two processes with half of each batch against one with all of it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.training.tiny import run_training, tiny_recipe, write_folder
from tests.waiting import PATIENCE

from linstereo.training.metrics_log import read_metrics
from linstereo.training.recipe_files import recipe_to_json
from linstereo.training.state import load_state

ROOT = Path(__file__).parents[2]


def in_two_processes(recipe, out, *, steps):
    command = [sys.executable, "-m", "tests.training.two_processes", str(out), str(steps), recipe_to_json(recipe)]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("fields", [{}, {"objective": "matching"}, {"warm_iterations": 2}])
def test_the_same_gradients_weights_and_figures_as_one_process(tmp_path, fields):
    """Ground truth is sparser in some pairs than in others, so that a mean of the processes' means would be wrong."""
    folder = write_folder(tmp_path / "pairs", known=0.8)
    recipe = tiny_recipe(
        folder,
        steps=10,
        batch=4,
        accumulate=2,
        clip_norm=1e9,
        validation=[f"folder={folder}"],
        validation_count=3,
        validate_every=3,
        **fields,
    )
    run_training(recipe, tmp_path / "one", stop_after=3)
    in_two_processes(recipe, tmp_path / "two", steps=3)
    logs = [read_metrics(tmp_path / run / "metrics.jsonl") for run in ("one", "two")]
    assert [entry["step"] for entry in logs[0]] == [0, 1, 2, 3, 3]
    for one, two in zip(*logs, strict=True):
        for name, value in one.items():
            if isinstance(value, float) and name != "seconds_per_step":
                assert value == pytest.approx(two[name], rel=2e-4), (one["step"], name)
    states = [load_state(tmp_path / run / "training.safetensors") for run in ("one", "two")]
    largest = max(float(moment.abs().max()) for moment in states[0].first_moment.values())
    compared = 0
    for name, moment in states[0].first_moment.items():
        torch.testing.assert_close(moment, states[1].first_moment[name], rtol=1e-3, atol=1e-5 * largest)
        # Where the gradient is nothing but rounding (a bias before a normalisation), AdamW makes steps of any sign.
        real = states[0].second_moment[name].sqrt() > 1e-4 * largest
        compared += int(real.sum())
        weights = [state.weights[name][real] for state in states]
        torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-5)
    assert compared > 1000


def test_gradients_of_the_first_step_are_the_same_to_float_precision(tmp_path):
    folder = write_folder(tmp_path / "pairs", known=0.5)
    recipe = tiny_recipe(folder, steps=2, batch=4, clip_norm=1e9)
    run_training(recipe, tmp_path / "one", stop_after=1)
    in_two_processes(recipe, tmp_path / "two", steps=1)
    entries = [read_metrics(tmp_path / run / "metrics.jsonl")[0] for run in ("one", "two")]
    assert entries[0]["gradient_norm"] == pytest.approx(entries[1]["gradient_norm"], rel=1e-5)
    assert entries[0]["total"] == pytest.approx(entries[1]["total"], rel=1e-6)
    states = [load_state(tmp_path / run / "training.safetensors") for run in ("one", "two")]
    for name, moment in states[0].first_moment.items():
        scale = 0.1 * entries[0]["gradient_norm"]  # AdamW's first moment is a tenth of the first gradient
        torch.testing.assert_close(moment, states[1].first_moment[name], rtol=1e-4, atol=1e-6 * scale)
