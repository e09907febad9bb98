"""The start from correlations, against brute force and against known scenes."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from linstereo.model import correlation_start as module
from linstereo.model.correlation_start import (
    CorrelationStart,
    aggregate,
    by_disparity,
    correlation_start,
    fill_from_background,
    left_right_agreement,
    matching_cost,
    start_scale,
    to_scale,
    with_coarse_pass,
)
from linstereo.model.starts import StartingPoint


def test_by_disparity_reads_the_column_a_disparity_points_to():
    correlation = torch.rand(2, 3, 8, 8)
    scores = by_disparity(correlation)
    assert scores.shape == (2, 3, 8, 6)
    assert torch.isneginf(scores[..., 5]).all()
    for x in range(8):
        for d in range(5):
            if d > x:
                assert torch.isneginf(scores[:, :, x, d]).all()
            else:
                assert torch.equal(scores[:, :, x, d], correlation[:, :, x, x - d])


def path_costs_by_definition(cost, order, small, large):
    """Semi-global matching along one line, pixel by pixel and disparity by disparity."""
    count = cost.shape[-1]
    out = np.zeros_like(cost)
    previous = None
    for i in order:
        for d in range(count):
            if previous is None:
                out[i, d] = cost[i, d]
                continue
            ways = [previous[e] + (0 if e == d else small if abs(e - d) == 1 else large) for e in range(count)]
            out[i, d] = cost[i, d] + min(ways) - previous.min()
        previous = out[i]
    return out


def test_aggregation_equals_its_definition():
    cost = torch.rand(2, 5, 6, 7, dtype=torch.float64) * 4
    found = aggregate(F.pad(cost, (0, 1), value=torch.inf), small_step=0.3, large_step=1.1)
    assert found[..., -1].isposinf().all()
    expected = np.zeros(cost.shape)
    for b in range(2):
        for y in range(5):
            for order in (range(6), range(5, -1, -1)):
                expected[b, y] += path_costs_by_definition(cost[b, y].numpy(), order, 0.3, 1.1)
        for x in range(6):
            for order in (range(5), range(4, -1, -1)):
                expected[b, :, x] += path_costs_by_definition(cost[b, :, x].numpy(), order, 0.3, 1.1)
    np.testing.assert_allclose(found[..., :-1].numpy(), expected, rtol=0, atol=1e-12)


def test_agreement_equals_a_loop_over_right_pixels():
    total = F.pad(torch.rand(1, 4, 9, 5, dtype=torch.float64), (0, 1), value=torch.inf)
    column = torch.arange(9)[:, None]
    total = total.masked_fill(torch.arange(6) > column, torch.inf)
    best = total.argmin(dim=-1)
    agree = left_right_agreement(total, best)
    for y in range(4):
        for x in range(9):
            match = x - int(best[0, y, x])
            own = min((float(total[0, y, match + d, d]), d) for d in range(5) if match + d < 9)[1]
            assert bool(agree[0, y, x]) == (abs(own - int(best[0, y, x])) <= 1)


def test_holes_take_the_farther_neighbour():
    disparity = torch.tensor([[[9.0, 5.0, 7.0, 8.0, 3.0, 1.0]]])
    trusted = torch.tensor([[[False, True, False, False, True, False]]])
    assert fill_from_background(disparity, trusted).tolist() == [[[5.0, 5.0, 3.0, 3.0, 3.0, 3.0]]]
    nowhere = torch.zeros_like(trusted)
    assert torch.equal(fill_from_background(disparity, nowhere), disparity)


def scene_correlations(disparity, width, *, sharpness, noise, seed=0):
    """Correlations whose best match is the true one, with random scores added."""
    generator = torch.Generator().manual_seed(seed)
    position = torch.arange(width) - disparity  # [h, w]
    distance = torch.arange(width) - position.unsqueeze(-1)  # [h, w, w]
    scores = -sharpness * distance.abs() + noise * torch.randn(distance.shape, generator=generator)
    return scores.unsqueeze(0)


@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_a_slanted_surface_is_found_between_cells(noise):
    true = torch.linspace(3, 9, 32).expand(20, 32)
    start = correlation_start(scene_correlations(true, 32, sharpness=2.0, noise=noise))
    visible = torch.arange(32) - true >= 1
    error = (start.disparity[0, 0] - true).abs()[visible]
    assert start.cues.shape == (1, CorrelationStart().cues, 20, 32)
    assert error.mean() < (0.15 if noise == 0 else 0.7)
    alone = by_disparity(scene_correlations(true, 32, sharpness=2.0, noise=noise)).argmax(dim=-1)[0]
    if noise:
        assert error.mean() < 0.7 * (alone - true).abs()[visible].mean()  # neighbours help each other


def test_what_only_the_left_camera_sees_gets_the_background():
    """A near bar hides a strip of the background to its left from the right camera."""
    width, near, far = 40, 9.0, 2.0
    true = torch.full((16, width), far)
    true[:, 24:30] = near
    hidden = torch.zeros(width, dtype=torch.bool)
    hidden[24 - int(near - far) : 24] = True
    scores = scene_correlations(true, width, sharpness=3.0, noise=0.3)
    scores[:, :, hidden] = 0.1 * torch.randn(1, 16, int(hidden.sum()), width)  # nothing there matches anything
    start = correlation_start(scores)
    assert (start.disparity[0, 0][:, hidden] - far).abs().mean() < 0.3
    assert (start.disparity[0, 0][:, 25:29] - near).abs().max() < 0.6
    assert start.cues[0, 1][:, hidden].mean() < 0.5 * start.cues[0, 1][:, 32:].mean()


def test_costs_are_the_logarithms_of_probabilities():
    correlation = torch.randn(2, 3, 12, 12, dtype=torch.float64)
    score, cost = by_disparity(correlation)[..., :-1], matching_cost(correlation)
    assert cost[..., -1].isposinf().all()
    cost = cost[..., :-1]
    torch.testing.assert_close((-cost).exp().sum(dim=-1), torch.ones(2, 3, 12, dtype=torch.float64))
    complete = slice(score.shape[-1] - 1, None)  # columns all of whose candidates are inside
    torch.testing.assert_close(cost[:, :, complete], -score[:, :, complete].log_softmax(dim=-1))
    outside = torch.arange(score.shape[-1]) > torch.arange(12)[:, None]
    assert torch.equal(outside.expand_as(score), score.isneginf())
    assert (cost[:, :, 3][..., 4:].diff(dim=-1).abs() < 1e-9).all()  # matches outside share what is left


def test_volumes_that_are_views_and_any_number_of_rows_at_a_time(monkeypatch):
    """Rows fit into the cache, or not; the memory of the correlations may hold more than them."""
    memory = torch.randn(2, 7, 15, 20) * 5
    expected = correlation_start(memory[..., 3:18].contiguous())
    for rows in (1, 3):
        monkeypatch.setattr(module, "CHUNK", rows * 2 * 15 * 9)
        found = correlation_start(memory[..., 3:18])
        assert torch.equal(found.disparity, expected.disparity)
        assert torch.equal(found.cues, expected.cues)


def test_the_nearest_of_equal_matches_is_not_taken():
    """Of several disparities that cost the same, the smallest is chosen."""
    start = correlation_start(torch.zeros(1, 4, 10, 10))
    assert (start.disparity == 0).all()


def test_at_the_left_border_a_surface_goes_on_beyond_the_right_image():
    """The first columns of a wall have their matches outside of the right image, and only poor ones inside."""
    true = torch.full((12, 40), 7.0)
    start = correlation_start(scene_correlations(true, 40, sharpness=3.0, noise=0.5))
    assert (start.disparity[0, 0] - true).abs().max() < 0.5
    assert start.cues[0, 0][:, :6].sum() == 0  # what has no partner is not trusted


def test_starts_are_finite_and_in_range():
    start = correlation_start(torch.randn(2, 6, 10, 10) * 5)
    assert (start.disparity >= 0).all()
    assert (start.disparity <= 5).all()
    assert start.disparity.isfinite().all()
    assert ((start.cues >= 0) & (start.cues <= 1 + 1e-6)).all()


def test_large_images_start_from_a_coarser_volume():
    assert start_scale([(120, 160), (60, 80), (30, 40)]) == 0
    assert start_scale([(270, 480), (135, 240), (68, 120)]) == 1
    assert start_scale([(4000, 4000), (2000, 2000)]) == 1


def test_disparities_grow_with_the_map():
    start = correlation_start(torch.randn(1, 6, 10, 10))
    twice = to_scale(start, (12, 20))
    assert twice.disparity.shape == (1, 1, 12, 20)
    assert twice.cues.shape == (1, CorrelationStart().cues, 12, 20)
    flat = start._replace(disparity=torch.full_like(start.disparity, 3.0))
    assert torch.allclose(to_scale(flat, (12, 20)).disparity, torch.tensor(6.0))
    assert torch.allclose(to_scale(flat, (3, 5)).disparity, torch.tensor(1.5))


def test_the_coarse_pass_fills_in_where_correlations_are_unsure():
    torch.manual_seed(0)
    disparity = 10 * torch.rand(1, 1, 12, 40)
    coarse = 10 * torch.rand(1, 1, 12, 40)
    sure = torch.zeros(1, 2, 12, 40)
    sure[..., :20] = 1.0
    start = with_coarse_pass(StartingPoint(disparity, sure), coarse)
    torch.testing.assert_close(start.disparity[..., :17], disparity[..., :17])
    torch.testing.assert_close(start.disparity[..., 23:], coarse[..., 23:])
    assert start.cues.shape == (1, CorrelationStart(coarse_iterations=1).cues, 12, 40)
    torch.testing.assert_close(start.cues[:, :2], sure)
    assert (start.cues[:, 2, :, :17] == 1).all()
    assert (start.cues[:, 2, :, 23:] == 0).all()
    assert ((start.cues[:, 3:] > 0) == (coarse > disparity)).all()


def test_a_pass_without_a_coarser_one_trusts_its_correlations():
    disparity, cues = torch.rand(1, 1, 4, 8), torch.rand(1, 2, 4, 8)
    start = with_coarse_pass(StartingPoint(disparity, cues), None)
    torch.testing.assert_close(start.disparity, disparity)
    assert (start.cues[:, 2] == 1).all()
    assert (start.cues[:, 3] == 0).all()
