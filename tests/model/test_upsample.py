"""Convex upsampling against a plain loop."""

import torch
import torch.nn.functional as F

from linstereo.model.upsample import ConvexUpsampler, ImageGuide, convex_upsample


def test_equals_the_plain_loop():
    torch.manual_seed(0)
    disparity = torch.rand(2, 1, 3, 5, dtype=torch.float64) * 20
    weights = torch.randn(2, 9 * 16, 3, 5, dtype=torch.float64)
    fine = convex_upsample(disparity, weights, factor=4)
    scores = weights.view(2, 9, 4, 4, 3, 5)
    for b in range(2):
        for y in range(12):
            for x in range(20):
                i, j = y // 4, x // 4
                score = scores[b, :, y % 4, x % 4, i, j].exp()
                value = 0.0
                for n in range(9):
                    row, column = min(max(i + n // 3 - 1, 0), 2), min(max(j + n % 3 - 1, 0), 4)
                    value += score[n] / score.sum() * 4 * disparity[b, 0, row, column]
                torch.testing.assert_close(fine[b, 0, y, x], value)


def test_a_constant_map_stays_constant_and_grows_with_the_image():
    upsampler = ConvexUpsampler(8)
    fine = upsampler(torch.full((1, 1, 4, 6), 2.5), torch.randn(1, 8, 4, 6))
    assert fine.shape == (1, 1, 16, 24)
    torch.testing.assert_close(fine, torch.full((1, 1, 16, 24), 10.0))


def test_never_leaves_the_range_of_the_neighbourhood():
    torch.manual_seed(1)
    disparity = torch.rand(1, 1, 6, 6) * 50
    fine = convex_upsample(disparity, 10 * torch.randn(1, 144, 6, 6), factor=4)
    assert fine.min() >= 4 * disparity.min() - 1e-4
    assert fine.max() <= 4 * disparity.max() + 1e-4


def test_before_training_it_interpolates_bilinearly():
    torch.manual_seed(0)
    upsampler = ConvexUpsampler(8)
    disparity = torch.rand(2, 1, 5, 7)
    expected = 4 * F.interpolate(disparity, scale_factor=4, mode="bilinear", align_corners=False)
    fine = upsampler(disparity, torch.zeros(2, 8, 5, 7))
    assert (fine - expected).abs().max() < 0.4  # of at most 4 px; all nine alike would be off by more than a pixel
    assert (fine - expected).abs().mean() < 0.1


def test_the_guide_sees_detail_inside_cells_but_not_their_colour():
    torch.manual_seed(0)
    guide = ImageGuide(6, factor=4)
    cells = torch.rand(1, 3, 3, 5)
    flat = F.interpolate(cells, scale_factor=4, mode="nearest")
    plain = guide(torch.zeros(1, 3, 12, 20))
    torch.testing.assert_close(guide(flat), plain)
    flat[0, 1, 6, 9] += 0.5
    assert not torch.allclose(guide(flat)[0, :, 1, 2], plain[0, :, 1, 2])


def test_the_guide_changes_the_weights():
    torch.manual_seed(0)
    upsampler = ConvexUpsampler(8, guide=4)
    disparity, hidden = torch.rand(1, 1, 3, 5), torch.randn(1, 8, 3, 5)
    fine = [upsampler(disparity, hidden, upsampler.guide(torch.rand(1, 3, 12, 20))) for _ in range(2)]
    assert not torch.allclose(*fine)
