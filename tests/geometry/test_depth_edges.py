"""Edges where points would fly: found where surfaces part, and not on surfaces, however they slope."""

import numpy as np
import pytest

from linstereo.geometry.depth_edges import flying_edges, sharpened


def test_what_is_blended_between_two_surfaces_is_an_edge():
    disparity = np.full((20, 40), 4.0, np.float32)
    disparity[:, 22:] = 16.0
    disparity[:, 20], disparity[:, 21] = 8.0, 12.0  # half-way, as upsampling leaves it
    edges = flying_edges(disparity)
    assert edges[:, 19:23].all()
    assert not edges[:, :19].any()
    assert not edges[:, 23:].any()
    np.testing.assert_array_equal(flying_edges(disparity.T), edges.T)


@pytest.mark.parametrize("slope", [0.0, 0.1, 0.49, -0.49])
def test_a_slanted_surface_has_no_edges(slope):
    column = np.arange(60, dtype=np.float32)
    disparity = np.tile(30 + slope * column, (10, 1)).astype(np.float32)
    assert not flying_edges(disparity).any()


def test_steps_below_five_percent_are_no_edges():
    for step, expected in ((4.5, False), (5.5, True)):
        disparity = np.full((8, 20), 100.0, np.float32)
        disparity[:, 10:] += step
        assert flying_edges(disparity).any() == expected


def test_it_agrees_with_a_loop_over_pixels():
    disparity = np.random.default_rng(3).uniform(0, 40, (9, 7)).astype(np.float32).round(-1) + 1  # many equal ones
    height, width = disparity.shape
    expected = np.zeros((height, width), bool)
    for y in range(height):
        for x in range(width):
            left, right = disparity[y, max(x - 1, 0)], disparity[y, min(x + 1, width - 1)]
            above, below = disparity[max(y - 1, 0), x], disparity[min(y + 1, height - 1), x]
            expected[y, x] = max(abs(right - left), abs(below - above)) > max(1.0, 0.05 * disparity[y, x])
    assert expected.sum() > 0
    np.testing.assert_array_equal(flying_edges(disparity), expected)


def test_a_value_that_is_not_finite_is_an_edge():
    disparity = np.full((9, 9), 5.0, np.float32)
    disparity[4, 4] = np.nan
    edges = flying_edges(disparity)
    assert edges[4, 3:6].all()
    assert edges[3:6, 4].all()


def test_what_is_blended_goes_to_the_nearer_surface():
    disparity = np.full((20, 40), 4.0, np.float32)
    disparity[:, 22:] = 16.0
    disparity[:, 20], disparity[:, 21] = 8.0, 13.0
    expected = np.where(np.arange(40) < 21, 4.0, 16.0) * np.ones((20, 1))
    expected[:, 20], expected[:, 21] = 4.0, 16.0  # 8 px lies between 4 and 13, 13 px between 8 and 16
    np.testing.assert_array_equal(sharpened(disparity), expected)
    np.testing.assert_array_equal(sharpened(disparity.T), expected.T)


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.9, -1.9])
def test_slopes_and_small_steps_stay_as_they_are(slope):
    disparity = np.tile(100 + slope * np.arange(40, dtype=np.float32), (10, 1)).astype(np.float32)
    disparity[:, 20:] += 3.0
    np.testing.assert_array_equal(sharpened(disparity), disparity)


def test_sharpening_agrees_with_a_loop_over_pixels():
    disparity = np.random.default_rng(4).uniform(0, 60, (9, 12)).astype(np.float32)
    disparity[5:] = disparity[5:] / 20 + 40  # mostly small steps
    expected = disparity.copy()
    for y, x in np.ndindex(disparity.shape):
        around = disparity[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2]
        own, low, high = disparity[y, x], around.min(), around.max()
        if high - low > max(4, 0.1 * own) and own - low > 1 and high - own > 1:
            expected[y, x] = high if high - own < own - low else low
    assert 20 < (expected != disparity).sum() < 80
    np.testing.assert_allclose(sharpened(disparity), expected, rtol=1e-6)
