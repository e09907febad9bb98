"""Edges where points would fly: found where surfaces part, and not on surfaces, however they slope."""

import numpy as np
import pytest

from linstereo.geometry.depth_edges import flying_edges


def test_what_is_blended_between_two_surfaces_is_an_edge():
    disparity = np.full((20, 40), 4.0, np.float32)
    disparity[:, 22:] = 16.0
    disparity[:, 20], disparity[:, 21] = 8.0, 12.0  # half-way, as upsampling leaves it
    edges = flying_edges(disparity)
    assert edges[:, 19:23].all()
    assert not edges[:, :16].any()
    assert not edges[:, 26:].any()
    np.testing.assert_array_equal(flying_edges(disparity.T), edges.T)


@pytest.mark.parametrize("slope", [0.0, 0.1, 0.19, -0.19])
def test_a_slanted_surface_has_no_edges(slope):
    column = np.arange(60, dtype=np.float32)
    disparity = np.tile(30 + slope * column, (10, 1)).astype(np.float32)
    assert not flying_edges(disparity).any()


def test_steps_below_two_percent_are_no_edges():
    for step, expected in ((1.5, False), (2.5, True)):
        disparity = np.full((8, 20), 100.0, np.float32)
        disparity[:, 10:] += step
        assert flying_edges(disparity).any() == expected


def test_a_value_that_is_not_finite_is_an_edge():
    disparity = np.full((9, 9), 5.0, np.float32)
    disparity[4, 4] = np.nan
    assert flying_edges(disparity)[3:6, 3:6].all()
