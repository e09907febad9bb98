"""The network as a whole, on a tiny backbone that is handed in."""

import dataclasses

import numpy as np
import pytest
import torch

from linstereo.checkpoints.summary import summarise
from linstereo.errors import InputError
from linstereo.geometry.sparse_matches import match_sparse
from linstereo.model.cost_volume import build_volume
from linstereo.model.linstereo import LinStereo
from linstereo.model.presets import PRESETS, LinStereoConfig, build, preset
from linstereo.training.loss import sequence_loss
from tests.model.tiny import TINY, TinyBackbone, synthetic_pairs


@pytest.fixture
def model():
    torch.manual_seed(0)
    return build(TINY, backbone=TinyBackbone()).eval()


def test_gives_one_disparity_map_of_the_input_size(model):
    left, right, _ = synthetic_pairs(2)
    with torch.no_grad():
        assert model(left, right, iters=2).shape == (2, 1, 64, 96)


@pytest.mark.parametrize("size", [(32, 32), (33, 47), (65, 97), (40, 130)])
def test_any_size_from_32_px_on_is_padded_and_cut_back(model, size):
    with torch.no_grad():
        assert model(torch.rand(1, 3, *size), torch.rand(1, 3, *size), iters=1).shape == (1, 1, *size)
    (shape, _), *_ = model.backbone.calls
    assert all(side % 32 == 0 and side - 32 < s <= side for side, s in zip(shape[-2:], size, strict=True))


def test_all_iterations_on_request_and_each_equals_stopping_there(model):
    left, right, _ = synthetic_pairs(1)
    with torch.no_grad():
        everything = model(left, right, iters=4, all_iterations=True)
        assert len(everything) == 4
        for t, disparity in enumerate(everything, start=1):
            torch.testing.assert_close(model(left, right, iters=t), disparity)
        assert not torch.allclose(everything[0], everything[3])


def test_refining_by_hand_is_what_a_call_does(model):
    left, right, _ = synthetic_pairs(1)
    with torch.no_grad():
        evidence = model.prepare(left, right)
        states = list(model.iterate(evidence, 3))
        assert len(states) == 3
        torch.testing.assert_close(model.upsample(states[-1], evidence), model(left, right, iters=3))


def test_upsampling_runs_only_when_its_output_is_used(model, monkeypatch):
    left, right, _ = synthetic_pairs(1)
    runs = []
    original = model.upsampler.forward
    monkeypatch.setattr(model.upsampler, "forward", lambda *a: runs.append(1) or original(*a))
    with torch.no_grad():
        model(left, right, iters=4)
        assert len(runs) == 1
        model(left, right, iters=4, all_iterations=True)
    assert len(runs) == 1 + 4


def test_each_iteration_adds_its_residual_to_the_disparity(model):
    left, right, _ = synthetic_pairs(1)
    with torch.no_grad():
        evidence = model.prepare(left, right)
        assert torch.all(evidence.disparity == 0)
        hidden, first = model.step(evidence, evidence.disparity, evidence.hidden)
        _, second = model.step(evidence, first, hidden)
        states = list(model.iterate(evidence, 2))
    torch.testing.assert_close(states[0].disparity, first)
    torch.testing.assert_close(states[1].disparity, first + second)


def test_hidden_states_start_from_left_features_and_volumes_match_left_with_right(model):
    left, right, _ = synthetic_pairs(2)
    with torch.no_grad():
        evidence = model.prepare(left, right)
        left_features = model.backbone(left).pyramid
        right_features = model.backbone(right).pyramid
        for i in range(3):
            hidden = torch.tanh(model.hidden_projection[i](left_features[i]))
            torch.testing.assert_close(evidence.hidden[i], hidden)
            project = model.cost_volumes.project[i]
            volume = build_volume(project(left_features[i]), project(right_features[i]), levels=2, radius=3)
            disparity = torch.full((2, 1, *hidden.shape[-2:]), 1.5)
            torch.testing.assert_close(evidence.volumes[i].lookup(disparity), volume.lookup(disparity))


def test_every_scale_looks_up_the_disparity_in_its_own_pixels(model):
    class Recorder:
        def lookup(self, disparity):
            self.seen = disparity
            return torch.zeros(1, 14, *disparity.shape[-2:])

    volumes = [Recorder() for _ in range(3)]
    disparity = torch.rand(1, 1, 16, 24)
    model.encode_motion(volumes, disparity, 3)
    assert torch.equal(volumes[0].seen, disparity)
    for i, factor in ((1, 2), (2, 4)):
        expected = disparity.unfold(2, factor, factor).unfold(3, factor, factor).mean(dim=(-1, -2)) / factor
        torch.testing.assert_close(volumes[i].seen, expected)


def test_no_gradient_flows_through_the_disparity_from_one_iteration_to_the_next(model):
    left, right, _ = synthetic_pairs(1)
    evidence = model.prepare(left, right)
    start = evidence.disparity.requires_grad_()
    first, second = model.iterate(evidence, 2)
    assert torch.autograd.grad(second.disparity.sum(), start, allow_unused=True, retain_graph=True) == (None,)
    assert torch.autograd.grad(second.disparity.sum(), first.disparity, allow_unused=True) == (None,)


def test_both_volumes_give_the_same_disparity_and_the_same_gradients(model):
    left, right, target = synthetic_pairs(1)
    grads = []
    for kind in ("stored", "on_the_fly"):
        model.zero_grad()
        out = model(left, right, iters=2, all_iterations=True, volume=kind)
        sequence_loss(out, target, target > 0, left).total.backward()
        grads.append([p.grad.clone() for p in model.trained_parameters().values()])
    assert any(g.abs().max() > 0 for g in grads[0])
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_pairs_of_a_batch_do_not_influence_each_other(model):
    left, right, _ = synthetic_pairs(2)
    with torch.no_grad():
        together = model(left, right, iters=2)
        alone = torch.cat([model(left[i : i + 1], right[i : i + 1], iters=2) for i in range(2)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_the_depth_prior_is_the_start_in_quarter_pixels():
    config = LinStereoConfig(hidden=32, heads=2, feature_width=32, levels=2, radius=3)
    left, right, disparity = synthetic_pairs(1, height=128, width=256)
    # relative depth whose inverse is an affine function of the true disparity
    backbone = TinyBackbone(depth=50.0 / (disparity + 6.0))
    model = build(config, backbone=backbone).eval()
    with torch.no_grad():
        evidence = model.prepare(left, right)
    (report,) = evidence.prior
    assert not report.fell_back
    assert report.alpha == pytest.approx(50, rel=0.05)
    assert report.beta == pytest.approx(-6, abs=0.6)
    coarse = torch.nn.functional.avg_pool2d(disparity, 4)
    assert (4 * evidence.disparity - coarse).abs().median() < 0.3
    assert backbone.calls[0][1] == 1  # depth only of the left image


def test_a_share_of_inliers_is_asked_for_only_if_the_settings_say_so():
    assert all(config.prior_inlier_share == 0 for config in PRESETS.values())
    left, right, disparity = synthetic_pairs(1, height=128, width=256)
    matches = match_sparse(*(_pixels(image) for image in (left, right)))
    matches = dataclasses.replace(matches, negative=4 * len(matches.disparity))  # so a fifth of them is right
    fell_back = {}
    for share in (0.0, 0.25):
        config = LinStereoConfig(hidden=32, heads=2, feature_width=32, levels=2, radius=3, prior_inlier_share=share)
        model = build(config, backbone=TinyBackbone(depth=50.0 / (disparity + 6.0))).eval()
        with torch.no_grad():
            (report,) = model.prepare(left, right, matches=[matches]).prior
        fell_back[share] = report.fell_back
    assert fell_back == {0.0: False, 0.25: True}


def _pixels(image):
    return (image[0].permute(1, 2, 0) * 255).round().numpy().astype(np.uint8)


def test_without_the_depth_prior_no_depth_is_asked_for_and_the_start_is_zero():
    backbone = TinyBackbone(depth=torch.ones(1, 1, 8, 8))
    model = build(TINY, backbone=backbone).eval()
    left, right, _ = synthetic_pairs(1)
    with torch.no_grad():
        evidence = model.prepare(left, right)
    assert backbone.calls == [((2, 3, 64, 96), 0)]
    assert evidence.prior == []
    assert torch.all(evidence.disparity == 0)


def test_a_backbone_without_depth_cannot_start_from_depth():
    with pytest.raises(InputError, match="monocular depth"):
        build(LinStereoConfig(), backbone=TinyBackbone())


@pytest.mark.parametrize("shapes", [((1, 3, 64, 64), (1, 3, 64, 96)), ((1, 1, 64, 64), (1, 1, 64, 64))])
def test_mismatched_or_colourless_tensors_are_refused(model, shapes):
    with pytest.raises(ValueError, match="must be"):
        model(*(torch.rand(s) for s in shapes))


def test_iterations_below_one_are_refused(model):
    left, right, _ = synthetic_pairs(1)
    with pytest.raises(ValueError, match="iters is 0"):
        model(left, right, iters=0)


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_preset_runs_forward_and_backward(name):
    model = build(preset(name), backbone=TinyBackbone(depth=torch.rand(1, 1, 28, 28) + 1))
    left, right, target = synthetic_pairs(1, height=32, width=64)
    out = model(left, right, iters=2, all_iterations=True)
    sequence_loss(out, target, target > 0, left).total.backward()
    assert out[-1].shape == (1, 1, 32, 64)
    without_gradient = [n for n, p in model.trained_parameters().items() if p.grad is None]
    assert without_gradient == []


def test_presets_cover_every_row_of_every_ablation_table():
    assert len({name for name in PRESETS if name.startswith("components-")}) == 9
    values = {
        "levels": [2, 3, 4],
        "scales": [1, 2, 3],
        "blocks": [1, 2, 3],
        "heads": [1, 2, 4, 8],
        "hidden": [64, 96, 128, 256],
        "iterations": [2, 4, 8, 12, 16],
    }
    for field, choices in values.items():
        for value in choices:
            assert getattr(preset(f"{field}-{value}"), field) == value
    for name in ("components-hscv-dpi-pala", "pala-d", "levels-4", "scales-3", "blocks-1", "heads-4", "hidden-128"):
        assert preset(name) == preset("paper")
    assert preset("components-none") == LinStereoConfig(cost_volume="single", start="zero", update="convgru")
    steps = [preset(f"pala-{x}") for x in "abcd"]
    flags = [(p.position_encoding, p.local_encoding, p.context_gate) for p in steps]
    assert flags == [(False, False, False), (True, False, False), (True, True, False), (True, True, True)]


def test_unknown_preset_names_the_known_ones():
    with pytest.raises(InputError, match=r"no preset 'papr'.*paper, small"):
        preset("papr")


@pytest.mark.parametrize(
    "change",
    [
        {"scales": 4},
        {"hidden": 100},
        {"levels": 0},
        {"iterations": 0},
        {"backbone": "vitl"},
        {"cost_volume": "none"},
        {"update": "gru"},
        {"prior_inlier_share": 1.5},
        {"prior_inlier_share": float("nan")},
    ],
)
def test_impossible_settings_are_refused(change):
    with pytest.raises(InputError, match=next(iter(change))):
        LinStereoConfig(**change)


def test_the_paper_preset_trains_about_seven_million_parameters():
    summary = summarise(preset("paper"))
    assert 6.5e6 < summary.trained < 7.5e6
    assert summary.parameters - summary.trained == 98_287_458  # the part of DA3-BASE that is used, frozen


def test_the_summary_counts_what_the_network_holds_and_does():
    summary = summarise(preset("small"), height=96, width=160, iterations=3)
    model = build(preset("small"))
    assert summary.trained == sum(p.numel() for p in model.trained_parameters().values())
    assert summary.parameters == sum(p.numel() for p in model.parameters())
    once = {p.name: p.gflops for p in summarise(preset("small"), height=96, width=160, iterations=1).parts}
    parts = {p.name: p.gflops for p in summary.parts}
    assert parts["updaters"] == pytest.approx(3 * once["updaters"])
    # the gate's convolution alone, by hand: three scales, 256 -> 128 channels, 3 x 3, two operations per product
    positions = 24 * 40 + 12 * 20 + 6 * 10
    assert once["updaters"] > positions * 256 * 128 * 9 * 2 / 1e9
    assert isinstance(model, LinStereo)


@pytest.mark.parametrize("update", ["pala", "convgru"])
def test_it_learns_two_pairs_from_random_weights(update):
    torch.manual_seed(0)
    model = build(dataclasses.replace(TINY, update=update), backbone=TinyBackbone())
    left, right, target = synthetic_pairs(2)
    valid = torch.ones_like(target, dtype=torch.bool)
    steps = 80
    optimizer = torch.optim.AdamW(model.trained_parameters().values(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps, pct_start=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = sequence_loss(model(left, right, iters=4, all_iterations=True), target, valid, left)
        loss.total.backward()
        torch.nn.utils.clip_grad_norm_(model.trained_parameters().values(), 1.0)
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        error = (model.eval()(left, right, iters=4) - target).abs().mean()
    assert error < 1.0
