"""The confidence head: what it sees and says, and that nothing else depends on it."""

import dataclasses

import numpy as np
import pytest
import torch

from linstereo import StereoPredictor
from linstereo.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from linstereo.checkpoints.summary import summarise
from linstereo.errors import InputError
from linstereo.evaluation.confidence_metrics import right_disparities
from linstereo.geometry.depth import PIXELS
from linstereo.model.confidence import ConfidenceHead, Outcome, is_right
from linstereo.model.presets import LinStereoConfig, build, preset
from tests.model.tiny import TINY, TinyBackbone, synthetic_pairs

SURE = dataclasses.replace(TINY, confidence=8)


def networks():
    """The same weights without and with a head, whose own are random."""
    torch.manual_seed(0)
    plain = build(TINY, backbone=TinyBackbone()).eval()
    torch.manual_seed(0)
    sure = build(SURE, backbone=TinyBackbone()).eval()
    torch.nn.init.normal_(sure.confidence_head.out.weight)
    return plain, sure


@pytest.fixture(scope="module")
def pair():
    left, right, _ = synthetic_pairs(1, height=61, width=90)
    return [(image[0].permute(1, 2, 0) * 255).round().numpy().astype(np.uint8) for image in (left, right)]


def test_disparities_are_the_same_to_the_last_bit(pair):
    plain, sure = (StereoPredictor(model, device="cpu") for model in networks())
    without, with_head = plain.predict(*pair, iters=3), sure.predict(*pair, iters=3)
    np.testing.assert_array_equal(without.disparity, with_head.disparity)
    assert without.confidence is None
    assert sure.gives_confidence
    assert not plain.gives_confidence
    assert with_head.confidence.shape == (61, 90)
    assert with_head.confidence.dtype == np.float32
    assert 0 <= with_head.confidence.min() < with_head.confidence.max() <= 1


@pytest.mark.parametrize("scale", [1.0, 1.5, 0.7])
def test_at_any_scale_the_map_has_the_input_size(pair, scale):
    sure = StereoPredictor(networks()[1], device="cpu")
    seen = []
    sure.model.confidence_head.register_forward_pre_hook(lambda _, given: seen.append(given[1]))
    assert sure.predict(*pair, iters=1, scale=scale).confidence.shape == (61, 90)
    assert seen == [pytest.approx(scale, abs=0.02)]  # 1 px of the input, in px as run


def test_it_sees_how_refinement_ended(pair):
    model = networks()[1]
    seen = []
    model.confidence_head.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    result = StereoPredictor(model, device="cpu").predict(*pair, iters=3)
    outcome = seen[0]
    left, right = (torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255 for image in pair)
    with torch.inference_mode():
        evidence = model.prepare(left, right)
        states = list(model.iterate(evidence, 3))
    torch.testing.assert_close(outcome.hidden, states[2].hidden[0])
    torch.testing.assert_close(outcome.last_update, states[2].disparity - states[1].disparity)
    torch.testing.assert_close(outcome.all_updates, states[2].disparity - evidence.disparity)
    torch.testing.assert_close(outcome.correlation, evidence.volumes[0].lookup(states[2].disparity))
    torch.testing.assert_close(outcome.cues, evidence.cues)
    np.testing.assert_allclose(outcome.full[0, 0, :61, :90].clamp(min=0), result.disparity, atol=1e-5)


def outcome(**changes):
    generator = torch.Generator().manual_seed(0)
    values = {
        "hidden": torch.randn(1, 6, 5, 7, generator=generator),
        "correlation": torch.randn(1, 4, 5, 7, generator=generator),
        "disparity": 3 * torch.rand(1, 1, 5, 7, generator=generator),
        "last_update": torch.randn(1, 1, 5, 7, generator=generator),
        "all_updates": torch.randn(1, 1, 5, 7, generator=generator),
        "full": 12 * torch.rand(1, 1, 20, 28, generator=generator),
        "cues": torch.rand(1, 2, 5, 7, generator=generator),
    }
    return Outcome(**values | changes)


def test_before_training_it_says_nothing():
    head = ConfidenceHead(hidden=6, samples=4, cues=2, width=5)
    assert (head(outcome(), 1.0) == 0).all()


def test_every_input_and_the_tolerance_have_a_say():
    torch.manual_seed(0)
    head = ConfidenceHead(hidden=6, samples=4, cues=2, width=5)
    torch.nn.init.normal_(head.out.weight)
    base = head(outcome(), 1.0)
    assert base.shape == (1, 1, 20, 28)
    for name in Outcome._fields:
        changed = outcome(**{name: getattr(outcome(), name) + 0.5})
        assert (head(changed, 1.0) - base).abs().max() > 1e-4, name
    assert (head(outcome(), 2.0) - base).abs().max() > 1e-4


def test_a_head_without_cues_does_without_them():
    head = ConfidenceHead(hidden=6, samples=4, cues=0, width=5)
    torch.nn.init.normal_(head.out.weight)
    assert torch.equal(head(outcome(), 1.0), head(outcome(cues=outcome().cues + 0.5), 1.0))
    assert ConfidenceHead(hidden=6, samples=4, cues=2, width=5).inputs == head.inputs + 2


@pytest.mark.parametrize(
    ("changes", "cues"),
    [({}, 0), ({"start": "correlation"}, 2), ({"start": "correlation", "coarse_iterations": 1}, 4)],
)
def test_the_head_sees_the_cues_of_every_start(pair, changes, cues):
    torch.manual_seed(0)
    config = dataclasses.replace(SURE, **changes)
    without = build(config, backbone=TinyBackbone()).confidence_head.inputs
    model = build(dataclasses.replace(config, confidence_cues=True), backbone=TinyBackbone())
    assert model.confidence_head.inputs == without + cues
    confidence = StereoPredictor(model, device="cpu").predict(*pair, iters=1).confidence
    assert (confidence == 0.5).all()  # before training


def test_huge_values_stay_finite():
    head = ConfidenceHead(hidden=6, samples=4, cues=2, width=5)
    torch.nn.init.normal_(head.out.weight)
    huge = outcome(last_update=torch.full((1, 1, 5, 7), 1e6), disparity=torch.full((1, 1, 5, 7), -1e6))
    assert head(huge, 1.0).isfinite().all()


def test_right_is_within_the_tolerance_or_five_percent():
    truth = torch.tensor([10.0, 10.0, 100.0, 100.0])
    found = truth + torch.tensor([1.9, -2.1, 4.9, -5.1])
    assert is_right(found, truth, 2.0).tolist() == [True, False, True, False]


def test_checkpoints_with_and_without_a_head(tmp_path, pair):
    plain, sure = networks()
    for model, name in ((plain, "plain"), (sure, "sure")):
        save_checkpoint(model, tmp_path / f"{name}.safetensors")
        again = load_checkpoint(tmp_path / f"{name}.safetensors", backbone=TinyBackbone())
        assert (again.confidence_head is None) == (name == "plain")
        first, second = (StereoPredictor(m, device="cpu").predict(*pair, iters=1) for m in (model, again))
        np.testing.assert_array_equal(first.disparity, second.disparity)
        if name == "sure":
            np.testing.assert_array_equal(first.confidence, second.confidence)


def test_the_head_is_a_part_of_its_own_and_is_not_trained_with_the_rest():
    model = networks()[1]
    assert not any(name.startswith("confidence_head") for name in model.trained_parameters())
    config = dataclasses.replace(preset("compact"), confidence=32)
    parts = {part.name: part for part in summarise(config, height=64, width=96).parts}
    assert parts["confidence head"].parameters > 10_000
    assert parts["confidence head"].trained == 0
    assert parts["confidence head"].gflops > 0


@pytest.mark.parametrize("width", [-1, 513, 1.5, True])
def test_an_impossible_width_is_refused(width):
    with pytest.raises(InputError, match="confidence is"):
        LinStereoConfig(confidence=width)


def test_the_head_and_the_metrics_mean_the_same_by_right():
    generator = np.random.default_rng(0)
    truth = generator.uniform(1, 80, 5000).astype(np.float32)
    found = truth + generator.normal(0, 2, 5000).astype(np.float32)
    of_head = is_right(torch.from_numpy(found), torch.from_numpy(truth), PIXELS).numpy()
    np.testing.assert_array_equal(of_head, right_disparities(found, truth))
