"""What the loss of a step is made of."""

import torch
from tests.model.tiny import TINY, TinyBackbone, synthetic_pairs

from linstereo.model.presets import build
from linstereo.training.batches import Batch
from linstereo.training.edges import step_weights
from linstereo.training.loss import sequence_loss
from linstereo.training.objective import Objective, counts_of
from linstereo.training.recipe import Stage


def test_warm_iterations_come_first_and_without_a_gradient():
    torch.manual_seed(0)
    model = build(TINY, backbone=TinyBackbone())
    left, right, disparity = synthetic_pairs(2)
    known = torch.ones_like(disparity, dtype=torch.bool)
    batch = Batch(left, right, disparity, known, ~known, ("a", "b"), (), None, ())
    stage = Stage(iterations=2, warm_iterations=3)
    with torch.no_grad():
        states = model(left, right, iters=5, all_iterations=True)
    expected = [sequence_loss(states[k : k + 2], disparity, known, left).total for k in range(4)]
    assert min((a - b).abs() for i, a in enumerate(expected) for b in expected[:i]) > 1e-4
    seen = set()
    for seed in range(40):
        model.zero_grad()
        total = Objective(model, stage)(batch, counts_of(batch, stage), seed=seed)["total"]
        total.backward()
        warm = min(range(4), key=lambda k: abs(float(total.detach() - expected[k])))
        torch.testing.assert_close(total.detach(), expected[warm], rtol=1e-5, atol=1e-6)
        assert (model.hidden_projection[0].weight.grad is None) == (warm > 0)
        assert model.residual_head.out.weight.grad.abs().max() > 0
        seen.add(warm)
    assert seen == {0, 1, 2, 3}


def test_hidden_pixels_count_more_in_the_loss():
    torch.manual_seed(0)
    model = build(TINY, backbone=TinyBackbone())
    left, right, disparity = synthetic_pairs(2)
    known = torch.ones_like(disparity, dtype=torch.bool)
    hidden = torch.zeros_like(known)
    hidden[..., 40:60] = True
    with torch.no_grad():
        predictions = model(left, right, iters=2, all_iterations=True)
    totals = []
    for occluded in (hidden, ~known):
        batch = Batch(left, right, disparity, known, occluded, ("a", "b"), (), None, ())
        stage = Stage(iterations=2, edge_weight=2.0)
        weights = step_weights(disparity, known, edge_weight=2.0, occluded=occluded)
        expected = sequence_loss(predictions, disparity, known, left, weights=weights).total
        with torch.no_grad():
            totals.append(Objective(model, stage)(batch, counts_of(batch, stage), seed=0)["total"])
        torch.testing.assert_close(totals[-1], expected)
    assert abs(totals[0] - totals[1]) > 1e-3
