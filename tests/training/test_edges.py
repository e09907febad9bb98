"""Pixels near steps of the disparity, against a plain loop."""

import pytest
import torch

from linstereo.training.edges import near_steps, step_weights
from linstereo.training.loss import l1_term, sequence_loss
from linstereo.training.matching_loss import soft_match_loss


@pytest.fixture
def maps():
    torch.manual_seed(0)
    disparity = torch.rand(2, 1, 9, 40, dtype=torch.float64) * 3
    disparity[..., 16:] = 1.0
    valid = torch.rand(2, 1, 9, 40) < 0.6
    valid[1] = False
    disparity[~valid] = torch.nan
    return disparity, valid


def test_near_steps_equals_the_plain_loop(maps):
    disparity, valid = maps
    found = near_steps(disparity, valid, radius=2, step=2.4)
    seen = set()
    for b, _, y, x in torch.cartesian_prod(*(torch.arange(n) for n in disparity.shape)).tolist():
        window = (b, 0, slice(max(y - 2, 0), y + 3), slice(max(x - 2, 0), x + 3))
        values = disparity[window][valid[window]]
        expected = bool(len(values) and values.max() - values.min() > 2.4)
        assert bool(found[b, 0, y, x]) == expected
        seen.add(expected)
    assert seen == {True, False}


def test_weights_are_zero_where_nothing_is_known_and_larger_near_steps(maps):
    disparity, valid = maps
    weights = step_weights(disparity, valid, edge_weight=1.5)
    assert torch.equal(weights > 0, valid)
    assert torch.equal(weights[valid], 1 + 1.5 * near_steps(disparity, valid)[valid])
    assert torch.equal(step_weights(disparity, valid, edge_weight=0.0), valid.double())


def test_what_something_hides_counts_more_and_what_is_out_of_view_a_little_more():
    disparity = torch.full((1, 1, 1, 6), 3.0)
    valid = torch.tensor([True, True, True, True, True, False]).view(1, 1, 1, 6)
    occluded = torch.tensor([True, True, False, True, False, True]).view(1, 1, 1, 6)
    weights = step_weights(disparity, valid, edge_weight=2.0, occluded=occluded)
    assert weights.flatten().tolist() == pytest.approx([5 / 3, 5 / 3, 1, 3, 1, 0])


def test_a_weighted_loss_is_the_weighted_mean(maps):
    disparity, valid = maps
    prediction = torch.rand_like(disparity).requires_grad_()
    image = torch.rand(2, 3, 9, 40, dtype=torch.float64)
    weights = step_weights(disparity, valid, edge_weight=2.0)
    loss = sequence_loss([prediction], disparity, valid, image, weights=weights)
    error = (prediction - disparity).abs()
    expected = (weights[valid] * error[valid]).sum() / weights.sum()
    torch.testing.assert_close(loss.l1, expected)
    plain = l1_term(prediction, torch.where(valid, disparity, 0.0), valid)
    assert not torch.isclose(loss.l1, plain)
    loss.total.backward()
    assert prediction.grad.isfinite().all()


def test_a_weighted_match_is_the_weighted_mean():
    torch.manual_seed(0)
    correlation, disparity = torch.randn(1, 1, 4, 4), torch.zeros(1, 1, 4)
    each = torch.stack([soft_match_loss(correlation, disparity, torch.eye(4)[i].view(1, 1, 4)) for i in range(4)])
    weights = torch.tensor([1.0, 3.0, 0.0, 2.0])
    found = soft_match_loss(correlation, disparity, weights.view(1, 1, 4))
    torch.testing.assert_close(found, (weights * each).sum() / weights.sum())
