"""The loop: what a run does, what it leaves in its folder, and how it goes on."""

import json
import sys

import pytest
import torch
from tests.model.tiny import TinyBackbone
from tests.training.tiny import NETWORK, PLAIN, final_weights, run_training, tiny_recipe, write_folder

from linstereo.checkpoints.checkpoint import load_checkpoint, stored_weights
from linstereo.data.formats.images import read_image
from linstereo.errors import InputError
from linstereo.training import trainer as trainer_module
from linstereo.training.metrics_log import read_metrics
from linstereo.training.recipe_files import recipe_from
from linstereo.training.run import train
from linstereo.training.state import load_state
from linstereo.training.trainer import Session


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("data") / "pairs", known=0.8)


def assert_same_weights(one, other):
    expected, found = final_weights(one), final_weights(other)
    assert expected.keys() == found.keys()
    for name in expected:
        assert torch.equal(expected[name], found[name]), name


def difference(one, other):
    expected, found = final_weights(one), final_weights(other)
    return max(float((expected[name] - found[name]).abs().max()) for name in expected)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_stopping_and_going_on_changes_nothing(folder, tmp_path, optimizer):
    recipe = tiny_recipe(
        folder,
        stages=({"objective": "matching", "steps": 3}, {"steps": 5}),
        checkpoint_every=100,
        optimizer=optimizer,
    )
    assert run_training(recipe, tmp_path / "whole")[0]
    for stop in (2, 1, 3):
        done, said = run_training(recipe, tmp_path / "parts", stop_after=stop)
        assert not done
    assert any("after step 3" in text for text in said)
    assert run_training(recipe, tmp_path / "parts", loaders=1)[0]
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")
    logs = [
        [{k: v for k, v in entry.items() if k != "seconds_per_step"} for entry in read_metrics(run / "metrics.jsonl")]
        for run in (tmp_path / "whole", tmp_path / "parts")
    ]
    assert logs[0] == logs[1]
    assert [entry["step"] for entry in logs[0]] == list(range(1, 9))


def test_a_finished_run_has_nothing_left_to_do(folder, tmp_path):
    recipe = tiny_recipe(folder, steps=2)
    run_training(recipe, tmp_path)
    before = (tmp_path / "training.safetensors").read_bytes()
    steps = []
    assert run_training(recipe, tmp_path, on_step=lambda *_: steps.append(1))[0]
    assert not steps
    assert (tmp_path / "training.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    "fields",
    [
        {"objective": "sequence"},
        {"objective": "matching"},
        {"matching_weight": 0.3, "robust": 3.0, "edge_weight": 2.0},
        {"warm_iterations": 9},
    ],
)
def test_accumulated_gradients_equal_those_of_the_large_batch(folder, tmp_path, fields):
    """Ground truth is sparser in some pairs than in others, so that a mean of means would be another number."""
    recipes = [
        tiny_recipe(folder, steps=2, batch=6, accumulate=parts, ema_decay=0.0, clip_norm=1e9, **fields)
        for parts in (1, 3)
    ]
    for i, recipe in enumerate(recipes):
        run_training(recipe, tmp_path / str(i), stop_after=1)
    logs = [read_metrics(tmp_path / str(i) / "metrics.jsonl")[0] for i in range(2)]
    assert logs[0]["total"] > 0
    if "matching_weight" in fields:
        matching = sum(value for name, value in logs[0].items() if name.startswith("match_"))
        sequence = logs[0]["l1"] + 0.001 * logs[0]["smoothness"] + 0.01 * logs[0]["gradient"]
        assert logs[0]["total"] == pytest.approx(sequence + 0.3 * matching, rel=1e-5)
    for name, value in logs[0].items():
        if isinstance(value, float) and name != "seconds_per_step":
            assert value == pytest.approx(logs[1][name], rel=1e-5), name
    states = [load_state(tmp_path / str(i) / "training.safetensors") for i in range(2)]
    for name, moment in states[0].first_moment.items():  # after one step a tenth of the gradient
        torch.testing.assert_close(moment, states[1].first_moment[name], rtol=1e-4, atol=1e-7)


def test_frozen_parts_stay_and_the_others_move(folder, tmp_path):
    content = {
        "preset": "compact",
        "model": {"hidden": 16, "coarse_hidden": 16, "heads": 2, "feature_width": 16},
        "data": [f"folder={folder}"],
        "batch": 2,
        "crop": [32, 64],
        "iterations": 1,
        "stage": [
            {"name": "a", "objective": "matching", "steps": 2},
            {"name": "b", "steps": 2, "frozen": ["backbone", "cost_volumes"]},
        ],
    }
    session = Session(folder=tmp_path, device=torch.device("cpu"), say=lambda _: None)
    weights = []
    for stop in (1, 1, 1, 1):
        train(recipe_from(content), Session(**{**vars(session), "stop_after": stop}))
        weights.append(dict(final_weights(tmp_path)))

    def moved(first, second):
        return {name.split(".")[0] for name in first if not torch.equal(first[name], second[name])}

    assert moved(weights[0], weights[1]) == {"backbone", "cost_volumes"}
    rest = {name.split(".")[0] for name in weights[0]} - {"backbone", "cost_volumes"}
    assert moved(weights[1], weights[2]) == rest
    assert moved(weights[2], weights[3]) == rest


def test_what_cannot_be_frozen(folder, tmp_path):
    with pytest.raises(InputError, match=r"freezes 'backbon'.*its parts are cost_volumes"):
        run_training(tiny_recipe(folder, frozen=["backbon"]), tmp_path / "a")
    parts = [*{name.split(".")[0] for name in stored_names(folder, tmp_path)}]
    with pytest.raises(InputError, match="freezes everything"):
        run_training(tiny_recipe(folder, frozen=parts), tmp_path / "b")


def stored_names(folder, tmp_path):
    run_training(tiny_recipe(folder, steps=1), tmp_path / "names")
    return final_weights(tmp_path / "names")


def test_a_stage_starts_from_the_average_of_the_one_before(folder, tmp_path):
    recipe = tiny_recipe(folder, stages=({"steps": 3}, {"steps": 3}), ema_decay=0.9)
    run_training(recipe, tmp_path, stop_after=2)
    state = load_state(tmp_path / "training.safetensors")
    assert any(not torch.equal(state.weights[name], state.average[name]) for name in state.average)
    run_training(recipe, tmp_path, stop_after=1)  # the last step of the first stage
    between = load_state(tmp_path / "training.safetensors")
    assert (between.progress.stage, between.progress.step) == (1, 0)
    stored = stored_weights(load_checkpoint(tmp_path, backbone=TinyBackbone()))
    assert all(torch.equal(between.weights[name], stored[name]) for name in stored)
    run_training(tiny_recipe(folder, stages=({"steps": 3},), ema_decay=0.0), tmp_path / "last_step")
    for name, weight in final_weights(tmp_path / "last_step").items():
        expected = 0.25 * state.average[name] + 0.75 * weight  # the third update: 0.25 = (1 + 2) / (10 + 2)
        torch.testing.assert_close(between.weights[name], expected)


def test_the_loss_goes_down(folder, tmp_path):
    recipe = tiny_recipe(
        folder,
        steps=60,
        augmentation=PLAIN,
        crop=[64, 96],
        batch=3,
        learning_rate=3e-3,
        validation=[f"folder={folder}"],
    )
    run_training(recipe, tmp_path)
    log = read_metrics(tmp_path / "metrics.jsonl")
    losses = [entry["total"] for entry in log if entry["kind"] == "train"]
    assert sum(losses[-5:]) < 0.6 * sum(losses[:5])
    assert [entry for entry in log if entry["kind"] == "validation"][-1]["EPE"] < 5


def test_validation_figures_pictures_and_the_best_network(folder, tmp_path):
    recipe = tiny_recipe(
        folder,
        stages=({"objective": "matching", "steps": 2}, {"steps": 4}),
        validation=[f"folder={folder}"],
        validation_count=3,
        validation_crop=[32, 64],
        validate_every=2,
        picture_every=4,
    )
    done, said = run_training(recipe, tmp_path)
    assert done
    entries = [entry for entry in read_metrics(tmp_path / "metrics.jsonl") if entry["kind"] == "validation"]
    assert [entry["step"] for entry in entries] == [0, 2, 4, 6]
    assert all(0 < entry["EPE"] < 100 and 0 <= entry["bad3"] <= 100 for entry in entries)
    assert sum("validation EPE" in text for text in said) == 4
    pictures = sorted(file.name for file in (tmp_path / "pictures").iterdir())
    assert pictures == ["00000002.png", "00000006.png"]
    picture = read_image(tmp_path / "pictures" / pictures[0])
    assert picture.shape == (3 * (120 + 4), 4 * 240, 3)
    assert list((tmp_path / "tensorboard").iterdir())
    load_checkpoint(tmp_path, backbone=TinyBackbone())


def test_training_goes_on_in_the_same_way_after_a_validation(folder, tmp_path):
    """Averaged weights are put in for measuring and taken out again."""
    run_training(tiny_recipe(folder, steps=4), tmp_path / "without")
    run_training(
        tiny_recipe(folder, steps=4, validation=[f"folder={folder}"], validation_count=1, validate_every=1),
        tmp_path / "with",
    )
    assert_same_weights(tmp_path / "without", tmp_path / "with")


class Poisoned(TinyBackbone):
    """Gives NaN in one call."""

    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, images, *, depth_images=0):
        features = super().forward(images, depth_images=depth_images)
        if len(self.calls) == self.call:
            features.pyramid[0].fill_(torch.nan)
        return features


def test_a_loss_that_is_not_finite_stops_and_names_the_batch(folder, tmp_path):
    recipe = tiny_recipe(folder, steps=6, checkpoint_every=1)
    with pytest.raises(InputError) as told:
        run_training(recipe, tmp_path / "run", backbone=Poisoned(4))
    text = str(told.value)
    assert "step 4 (stage 'stage0')" in text
    assert "loss nan" in text
    assert "\n" not in text
    state = load_state(tmp_path / "run" / "training.safetensors")
    assert state.progress.total_steps == 3
    assert all(tensor.isfinite().all() for tensor in state.weights.values())
    named = text.split("with the pairs ")[1].split(";")[0].split(", ")
    assert len(named) == 4
    assert set(named) <= {f"{i:03d}" for i in range(6)}
    run_training(recipe, tmp_path / "run")
    run_training(recipe, tmp_path / "whole")
    assert_same_weights(tmp_path / "run", tmp_path / "whole")


def test_a_damaged_pair_is_counted_when_skipped(tmp_path):
    folder = write_folder(tmp_path / "pairs")
    (folder / "right" / "004.png").write_bytes(b"nothing")
    recipe = tiny_recipe(folder, steps=3)
    with pytest.raises(InputError, match=r"004\.png"):
        run_training(recipe, tmp_path / "stops")
    done, said = run_training(recipe, tmp_path / "skips", skip_bad=True)
    assert done
    assert load_state(tmp_path / "skips" / "training.safetensors").progress.skipped == 2
    assert "2 times a pair could not be read" in said[-1]
    assert any("004.png" in text for text in said)


def test_another_recipe_in_the_same_folder_is_refused(folder, tmp_path):
    run_training(tiny_recipe(folder, steps=4), tmp_path, stop_after=2)
    with pytest.raises(InputError, match=r"stage stage0\.batch was 4, is 2.*--allow-changes"):
        run_training(tiny_recipe(folder, steps=4, batch=2), tmp_path)
    with pytest.raises(InputError, match="seed"):
        run_training(tiny_recipe(folder, steps=4, seed=3), tmp_path)
    with pytest.raises(InputError, match="another network"):
        run_training(tiny_recipe(folder, steps=4, model={**NETWORK, "hidden": 24}), tmp_path)
    # what no weight depends on may change, and so may stages that have not begun
    recipe = tiny_recipe(folder, stages=({}, {"name": "more", "steps": 1}), log_every=3, checkpoint_every=1)
    assert run_training(recipe, tmp_path)[0]


@pytest.mark.parametrize("order", [("adamw", "muon"), ("muon", "adamw")])
def test_going_on_with_another_optimiser(folder, tmp_path, order):
    first, second = (tiny_recipe(folder, optimizer=optimizer) for optimizer in order)
    run_training(first, tmp_path, stop_after=2)
    assert run_training(second, tmp_path, allow_changes=True)[0]


def test_changes_are_accepted_if_asked_for(folder, tmp_path):
    run_training(tiny_recipe(folder, steps=4), tmp_path, stop_after=2)
    assert run_training(tiny_recipe(folder, steps=5, batch=2), tmp_path, allow_changes=True)[0]
    assert load_state(tmp_path / "training.safetensors").progress.total_steps == 5


def test_two_processes_cannot_train_in_one_folder(folder, tmp_path):
    import os

    recipe = tiny_recipe(folder, steps=2)

    def on_step(*_):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                run_training(recipe, tmp_path)
            except InputError as error:
                code = 7 if "another run is writing to" in str(error) else 1
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

    assert run_training(recipe, tmp_path, on_step=on_step)[0]


def test_without_tensorboard_the_figures_are_still_written(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    done, said = run_training(tiny_recipe(folder, steps=2), tmp_path)
    assert done
    assert sum("TensorBoard is not installed" in text for text in said) == 1
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == 2


def test_a_log_that_was_cut_short_is_mended(folder, tmp_path):
    recipe = tiny_recipe(folder, steps=4, checkpoint_every=2)
    run_training(recipe, tmp_path, stop_after=2)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "train", "step": 3}) + '\n{"kind": "tr')
    run_training(recipe, tmp_path)
    assert [entry["step"] for entry in read_metrics(tmp_path / "metrics.jsonl")] == [1, 2, 3, 4]


def test_reduced_precision_trains_much_the_same(folder, tmp_path):
    for precision in ("float32", "bfloat16"):
        run_training(tiny_recipe(folder, steps=3, precision=precision), tmp_path / precision)
    assert 0 < difference(tmp_path / "float32", tmp_path / "bfloat16") < 1e-2
    losses = [read_metrics(tmp_path / p / "metrics.jsonl")[0]["total"] for p in ("float32", "bfloat16")]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


def test_a_request_to_stop_is_honoured_after_the_step(folder, tmp_path):
    steps = []
    done, _ = run_training(
        tiny_recipe(folder), tmp_path, on_step=lambda *_: steps.append(1), stopping=lambda: len(steps) >= 2
    )
    assert not done
    assert load_state(tmp_path / "training.safetensors").progress.total_steps == len(steps) == 3


def test_opencv_threads_are_given_back(folder, tmp_path):
    before = trainer_module.cv2.getNumThreads()
    run_training(tiny_recipe(folder, steps=1), tmp_path)
    assert trainer_module.cv2.getNumThreads() == before
