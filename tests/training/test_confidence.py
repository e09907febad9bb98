"""Training the confidence: it learns what is right, leaves everything else alone, and resumes to the same bits."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from tests.training.tiny import write_folder

from linstereo.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from linstereo.cli import main
from linstereo.data.datasets.catalogue import open_dataset
from linstereo.errors import InputError
from linstereo.model.confidence import ConfidenceHead
from linstereo.model.presets import LinStereoConfig, build, build_confidence_head
from linstereo.predictor import StereoPredictor
from linstereo.training import confidence_states
from linstereo.training.confidence import ConfidenceRecipe, ConfidenceSession, run_settings, train_confidence
from linstereo.training.confidence_states import CROPS, CapturedState, capture, load_captured, save_captured

NETWORK = LinStereoConfig(
    backbone="compact", start="correlation", feature_width=16, hidden=16, heads=2, levels=2, radius=2, iterations=2
)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A network that starts from its best correlations, so it is right in places, and pairs with ground truth."""
    folder = tmp_path_factory.mktemp("confidence")
    torch.manual_seed(0)
    save_checkpoint(build(NETWORK), folder / "plain.safetensors", dtype=torch.float16)
    write_folder(folder / "pairs", count=6, known=0.9)
    return folder


def recipe(world, **fields):
    return ConfidenceRecipe(**{"data": (f"folder={world / 'pairs'}",), "pairs": 6, "steps": 6, "batch": 2, **fields})


def session(folder, **fields):
    return ConfidenceSession(folder=folder, device=torch.device("cpu"), **fields)


def weights(path):
    return load_checkpoint(path).state_dict()


def test_all_other_weights_stay_as_they_are_and_so_does_the_precision(world, tmp_path):
    error = train_confidence(world / "plain.safetensors", recipe(world), session(tmp_path))
    assert 0 <= error <= 1
    before, after = weights(world / "plain.safetensors"), weights(tmp_path / "linstereo.safetensors")
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    new = after.keys() - before.keys()
    assert new
    assert all(name.startswith("confidence_head.") for name in new)
    plain, sure = ((world / "plain.safetensors").stat().st_size, (tmp_path / "linstereo.safetensors").stat().st_size)
    head = sum(after[name].numel() for name in new)
    assert sure - plain == pytest.approx(2 * head, abs=2000)  # 16 bits each, and the header


def test_it_learns_which_disparities_are_right(world, tmp_path):
    rng = np.random.default_rng(0)
    learn = recipe(world, pairs=20, steps=160)
    inputs = build_confidence_head(dataclasses.replace(NETWORK, confidence=8, confidence_cues=True)).inputs
    for number in range(20):  # states whose first four channels say by how much the disparity is off
        features = rng.normal(size=(inputs, 8, 12)).astype(np.float16)
        features[1:4] = features[0]
        off = np.kron(features[0] > 0, np.ones((4, 4))).astype(np.float32) * 3
        state = CapturedState(
            features=torch.from_numpy(features),
            disparity=torch.from_numpy(20 + off),
            truth=torch.full((32, 48), 20.0),
            scale=torch.tensor(1.0),
        )
        save_captured([state], tmp_path / f"states/{number:06d}.safetensors")
    (tmp_path / "settings.json").write_text(json.dumps(run_settings(learn, world / "plain.safetensors")))
    losses = []
    error = train_confidence(
        world / "plain.safetensors", learn, session(tmp_path, on_step=lambda step, loss: losses.append(loss))
    )
    assert losses[0] == pytest.approx(np.log(2), abs=1e-5)  # it knows nothing
    assert np.mean(losses[-10:]) < 0.15
    assert error < 0.1


def test_steps_do_without_some_features_and_measurements_with_all(world, tmp_path, monkeypatch):
    learned, measured = [], []  # shares of the features that are 0 everywhere
    logits = ConfidenceHead.logits

    def watched(head, features, tolerance):
        empty = (features == 0).all(dim=(2, 3)).float().mean().item()
        (learned if torch.is_grad_enabled() else measured).append(empty)
        return logits(head, features, tolerance)

    monkeypatch.setattr(ConfidenceHead, "logits", watched)
    train_confidence(world / "plain.safetensors", recipe(world, steps=30), session(tmp_path))
    assert 0.05 < np.mean(learned) - np.mean(measured) < 0.15


def test_a_stopped_run_resumes_to_the_same_bits(world, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train_confidence(world / "plain.safetensors", recipe(world), session(whole))
    done = []
    stops = [lambda: len(done) >= 3, lambda: len(done) >= 8, lambda: False]  # among the pairs, among the steps, never
    for stop in stops:
        result = train_confidence(
            world / "plain.safetensors",
            recipe(world),
            session(parts, on_pair=done.append, on_step=lambda step, loss: done.append(step), stopping=stop),
        )
        assert (result is None) == (stop is not stops[-1])
    first, second = (weights(folder / "linstereo.safetensors") for folder in (whole, parts))
    assert all(torch.equal(second[name], tensor) for name, tensor in first.items())


def test_a_run_of_other_weights_or_settings_is_not_resumed(world, tmp_path):
    train_confidence(world / "plain.safetensors", recipe(world), session(tmp_path))
    with pytest.raises(InputError, match="started with other settings"):
        train_confidence(world / "plain.safetensors", recipe(world, steps=7), session(tmp_path))
    torch.manual_seed(1)
    save_checkpoint(build(NETWORK), tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="the content of weights has changed"):
        train_confidence(tmp_path / "other.safetensors", recipe(world), session(tmp_path))


def test_a_head_is_replaced_by_a_new_one(world, tmp_path):
    train_confidence(world / "plain.safetensors", recipe(world), session(tmp_path / "first"))
    trained = tmp_path / "first/linstereo.safetensors"
    train_confidence(trained, recipe(world), session(tmp_path / "second"))
    first, second = weights(trained), weights(tmp_path / "second/linstereo.safetensors")
    assert all(torch.equal(second[name], tensor) for name, tensor in first.items())


def test_what_is_stored_is_what_the_head_will_see(world, tmp_path):
    train_confidence(world / "plain.safetensors", recipe(world), session(tmp_path))
    model = load_checkpoint(tmp_path / "linstereo.safetensors")
    model.config = dataclasses.replace(model.config, sharp_steps=True)
    predictor = StereoPredictor(model, device="cpu")
    head = predictor.model.confidence_head
    sample = open_dataset("folder", world / "pairs", None)[2]
    state, *others = capture(predictor, head, sample, rng=np.random.default_rng(1))
    assert len(others) == CROPS - 1
    assert float(state.scale) == 1  # at its own size, which is all of the crop
    logits = head.logits(state.features[None].float(), state.scale[None])
    expected = predictor.predict(sample.left, sample.right)
    np.testing.assert_allclose(logits[0, 0].sigmoid(), expected.confidence, atol=2e-3)  # stored in 16 bits
    np.testing.assert_allclose(state.disparity, expected.disparity, atol=1e-5)
    np.testing.assert_array_equal(state.truth, np.where(sample.valid, sample.disparity, 0))
    save_captured([state, *others], tmp_path / "again.safetensors")
    for stored, kept in zip(load_captured(tmp_path / "again.safetensors"), [state, *others], strict=True):
        assert all(torch.equal(getattr(stored, f.name), getattr(kept, f.name)) for f in dataclasses.fields(kept))
    enlarged = capture(predictor, head, sample, rng=np.random.default_rng(2))[0]
    assert enlarged.scale > 1
    assert float(enlarged.truth.max()) == pytest.approx(float(enlarged.scale) * sample.disparity.max(), rel=1e-5)


def test_crops_lie_anywhere_in_the_pair(world, monkeypatch):
    predictor = StereoPredictor(load_checkpoint(world / "plain.safetensors"), device="cpu")
    head = build_confidence_head(dataclasses.replace(predictor.config, confidence=8))
    sample = open_dataset("folder", world / "pairs", None)[2]
    monkeypatch.setattr(confidence_states, "CROP", (3, 4))
    crops = [crop for seed in range(4) for crop in capture(predictor, head, sample, rng=np.random.default_rng(seed))]
    assert {crop.features.shape[1:] for crop in crops} == {(3, 4)}
    assert len({crop.truth.numpy().tobytes() for crop in crops}) > CROPS  # not the same place each time
    whole = np.where(sample.valid, sample.disparity, 0).astype(np.float32)
    for crop in (crop for crop in crops if crop.scale == 1):
        windows = np.lib.stride_tricks.sliding_window_view(whole, crop.truth.shape)[::4, ::4]
        assert (windows == crop.truth.numpy()).all(axis=(2, 3)).any()


@pytest.mark.parametrize("fields", [{"pairs": 1}, {"steps": 0}, {"batch": 0}])
def test_impossible_numbers_are_refused(fields):
    with pytest.raises(InputError, match="the number of"):
        ConfidenceRecipe(**fields)


def test_the_command_and_fine_tuning_afterwards(world, tmp_path, capsys):
    command = ["confidence", "--from", str(world / "plain.safetensors"), "--data", f"folder={world / 'pairs'}"]
    command += ["--pairs", "4", "--steps", "2", "--device", "cpu", "--out", str(tmp_path / "run")]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "expected calibration error 0." in told
    assert "linstereo.safetensors" in told
    tune = ["train", "--from", str(tmp_path / "run"), "--data", f"folder={world / 'pairs'}", "--device", "cpu"]
    tune += ["--set", "steps=1", "--set", "crop=[32, 64]", "--set", "batch=1", "--workers", "0", "--out"]
    assert main([*tune, str(tmp_path / "tuned")]) == 0
    assert "confidence is left out" in capsys.readouterr().err
    tuned = load_checkpoint(tmp_path / "tuned")
    assert tuned.confidence_head is None
    assert tuned.config == dataclasses.replace(NETWORK, confidence=0)
    assert main([*tune, str(tmp_path / "never"), "--config", "compact", "--set", "model.confidence=8"]) == 2
    assert not (tmp_path / "never").exists()
