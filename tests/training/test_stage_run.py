"""One optimiser step."""

import pytest
import torch
from tests.model.tiny import TINY, TinyBackbone, synthetic_pairs

from linstereo.model.presets import build
from linstereo.processes import Worker
from linstereo.training.batches import Batch
from linstereo.training.muon import suits
from linstereo.training.recipe import Stage
from linstereo.training.stage_run import StageRun


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_all_weights_move_at_the_rate_of_the_step(optimizer):
    torch.manual_seed(0)
    model = build(TINY, backbone=TinyBackbone())
    left, right, disparity = synthetic_pairs(2)
    known = torch.ones_like(disparity, dtype=torch.bool)
    images = [(image * 255).to(torch.uint8) for image in (left, right)]
    batch = Batch(*images, disparity, known, ~known, ("a", "b"), (), None, ())
    stage = Stage(iterations=1, optimizer=optimizer, learning_rate=0.1)
    run = StageRun(model, stage, trainable=frozenset(model.trained_parameters()), worker=Worker())
    assert {suits(p) for p in run.parameters.values()} == {True, False}
    before = {name: p.detach().clone() for name, p in run.parameters.items()}
    run.step([batch], rate=0.0, seed=0)
    for name, parameter in run.parameters.items():
        assert torch.equal(parameter, before[name]), name
    run.step([batch], rate=1e-3, seed=0)
    trained = [name for name, p in run.parameters.items() if p.grad.abs().max() > 1e-6]
    moved = [float((run.parameters[name].detach() - before[name]).abs().max()) for name in trained]
    assert 0 < min(moved) <= max(moved) < 0.02
