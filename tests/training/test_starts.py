"""Starts of every quality, made from the truth."""

import dataclasses

import torch
from tests.model.tiny import TINY, TinyBackbone, synthetic_pairs

from linstereo.model.presets import build
from linstereo.training.batches import Batch
from linstereo.training.objective import Objective, counts_of
from linstereo.training.recipe import Stage
from linstereo.training.starts import NOISE, disturbed_truth


def slope(batch=1, height=64, width=128):
    return torch.linspace(8, 40, width).expand(batch, 1, height, width).clone()


def test_errors_are_smooth_and_of_every_size():
    truth = slope()
    expected = truth[..., 1::4, :].unfold(-1, 4, 4).mean(dim=-1) / 4  # [1, 1, 16, 32]
    errors = []
    for seed in range(60):
        start = disturbed_truth(truth, torch.ones_like(truth, dtype=torch.bool), seed=seed)
        assert start.shape == expected.shape
        error = (start - expected)[..., 4:-4, 4:-4]
        errors.append(float(error.abs().mean()))
    assert min(errors) < 0.1
    assert max(errors) > 1.0
    assert max(errors) < 4 * NOISE[1]


def test_the_seed_decides():
    truth = slope(2)
    known = torch.ones_like(truth, dtype=torch.bool)
    torch.testing.assert_close(disturbed_truth(truth, known, seed=3), disturbed_truth(truth, known, seed=3))
    assert not torch.equal(disturbed_truth(truth, known, seed=3), disturbed_truth(truth, known, seed=4))


def test_unknown_pixels_do_not_spoil_it():
    truth = slope()
    known = torch.ones_like(truth, dtype=torch.bool)
    known[..., :32, 64:] = False
    spoilt = torch.where(known, truth, torch.inf)
    start = disturbed_truth(spoilt, known, seed=0)
    assert start.isfinite().all()
    assert (start >= 0).all()
    known[:] = False
    assert disturbed_truth(spoilt, known, seed=0).isfinite().all()


def test_a_share_of_the_steps_starts_from_the_disturbed_truth(monkeypatch):
    torch.manual_seed(0)
    config = dataclasses.replace(TINY, start="correlation", coarse_iterations=1)
    model = build(config, backbone=TinyBackbone())
    left, right, disparity = synthetic_pairs(2)
    known = torch.ones_like(disparity, dtype=torch.bool)
    batch = Batch(left, right, disparity, known, ~known, ("a", "b"), (), None, ())
    seen = []
    prepare = model.prepare
    monkeypatch.setattr(model, "prepare", lambda *a, **k: seen.append(k["coarse"]) or prepare(*a, **k))
    for share, expected in ((0.0, {False}), (1.0, {True}), (0.5, {False, True})):
        stage = Stage(iterations=1, true_starts=share)
        seen.clear()
        for seed in range(12):
            with torch.no_grad():
                Objective(model, stage)(batch, counts_of(batch, stage), seed=seed)
        assert {start is not None for start in seen} == expected
