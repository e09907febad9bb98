"""The left-right check against scenes whose occlusion follows from their geometry."""

import numpy as np
import pytest

from linstereo.errors import InputError
from linstereo.geometry.occlusion import left_right_difference, occluded_pixels

FAR, NEAR = 4.0, 12.0


def card(height=20, width=80, start=40, end=60):
    """Disparities of both views of a card in front of a wall, and what of the left one the right does not see."""
    left, right = np.full((2, height, width), FAR, np.float32)
    left[:, start:end] = NEAR
    right[:, start - int(NEAR) : end - int(NEAR)] = NEAR
    column = np.arange(width)
    hidden = (column < FAR) | ((column >= start - (NEAR - FAR)) & (column < start))  # outside, or behind the card
    return left, right, np.tile(hidden, (height, 1))


def test_the_band_behind_a_card_and_the_margin_are_occluded():
    left, right, hidden = card()
    np.testing.assert_array_equal(occluded_pixels(left, right), hidden)


def test_the_difference_is_that_of_brute_force():
    rng = np.random.default_rng(0)
    left, right = rng.uniform(0, 10, (2, 9, 31)).astype(np.float32)
    difference = left_right_difference(left, right)
    for y in range(9):
        for x in range(31):
            match = float(x) - float(left[y, x])
            if abs(match % 1 - 0.5) < 0.02:
                continue  # half-way between two pixels either may count
            expected = abs(left[y, x] - right[y, round(match)]) if match >= 0 else np.inf
            assert difference[y, x] == pytest.approx(expected, abs=1e-5), (y, x)


def test_it_tolerates_a_pixel_or_five_percent():
    for disparity, off, expected in ((8.0, 0.9, False), (8.0, 1.2, True), (40.0, 1.9, False), (40.0, 2.2, True)):
        left, right = np.full((4, 90), disparity, np.float32), np.full((4, 90), disparity + off, np.float32)
        assert (occluded_pixels(left, right)[:, 60:] == expected).all()


def test_what_is_not_finite_is_occluded():
    left, right, hidden = card()
    left[0, 70], right[1, 30] = np.nan, np.inf
    found = occluded_pixels(left, right)
    assert found[0, 70]
    assert found[1, 42]  # of the card, 12 px to the right
    assert found.sum() == hidden.sum() + 2


def test_maps_of_two_sizes_are_refused():
    with pytest.raises(InputError, match=r"shapes \(4, 5\) and \(5, 4\)"):
        occluded_pixels(np.ones((4, 5), np.float32), np.ones((5, 4), np.float32))
