"""The loss that trains features alone."""

import math

import torch

from linstereo.model.presets import build, preset
from linstereo.training.matching_loss import matching_loss, soft_match_loss


def test_equals_a_loop_over_pixels():
    torch.manual_seed(0)
    correlation = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    disparity = torch.rand(2, 3, 6, dtype=torch.float64) * 4
    disparity[0, 0, 2] = 0.0
    valid = torch.rand(2, 3, 6) < 0.8
    total, count = 0.0, 0
    for b in range(2):
        for y in range(3):
            for x in range(6):
                position = x - float(disparity[b, y, x])
                if not valid[b, y, x] or position < 0:
                    continue
                scores = [math.exp(float(correlation[b, y, x, v])) for v in range(x + 1)]
                base = math.floor(position)
                target = [0.0] * (x + 2)
                target[base] += 1 - (position - base)
                target[base + 1] += position - base
                total -= sum(t * math.log(s / sum(scores)) for t, s in zip(target, scores, strict=False) if t)
                count += 1
    found = soft_match_loss(correlation, disparity, valid)
    torch.testing.assert_close(float(found), total / count)


def test_unknown_pixels_do_not_matter_and_may_be_anything():
    correlation = torch.randn(1, 2, 5, 5)
    disparity = torch.ones(1, 2, 5)
    valid = torch.ones(1, 2, 5, dtype=torch.bool)
    valid[0, 0, 3] = False
    reference = soft_match_loss(correlation, disparity, valid)
    disparity[0, 0, 3] = torch.nan
    assert torch.equal(soft_match_loss(correlation, disparity, valid), reference)
    assert soft_match_loss(correlation, disparity, torch.zeros_like(valid)) == 0


def test_a_few_steps_make_the_true_cell_likely():
    torch.manual_seed(0)
    model = build(preset("compact"))
    right = torch.rand(1, 3, 64, 128 + 16)
    left, right = right[..., :128], right[..., 16:]  # the left image shows what is 16 px to the right in the right one
    left, right = right.roll(16, dims=-1), right
    disparity = torch.full((1, 1, 64, 128), 16.0)
    valid = torch.ones(1, 1, 64, 128, dtype=torch.bool)
    valid[..., :16] = False
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(15):
        terms = matching_loss(model.cost_volumes(model.backbone(torch.cat([left, right])).pyramid), disparity, valid)
        optimiser.zero_grad()
        terms["total"].backward()
        optimiser.step()
        losses.append(float(terms["total"].detach()))
    assert set(terms) == {"total", "match_1_4", "match_1_8", "match_1_16"}
    assert losses[-1] < 0.3 * losses[0]
