"""Pictures of maps: which colour goes where."""

import numpy as np
import pytest

from linstereo.visualize import colorize, colorize_depth

FIRST, LAST = (48, 18, 59), (122, 4, 3)  # the two ends of the turbo map, as its authors published it


def test_the_ends_of_the_range_have_the_ends_of_the_colours():
    values = np.array([[0.0, 1, 5, 9, 10]])
    picture = colorize(values, low=1, high=9)
    assert picture.dtype == np.uint8
    assert picture.shape == (1, 5, 3)
    for column, colour in ((0, FIRST), (1, FIRST), (3, LAST), (4, LAST)):
        np.testing.assert_allclose(picture[0, column], colour, atol=3)
    reversed_picture = colorize(values, low=1, high=9, reverse=True).astype(int)
    np.testing.assert_allclose(reversed_picture, colorize(10 - values, low=1, high=9).astype(int), atol=3)


def test_unknown_values_are_black_and_do_not_count():
    values = np.array([[1.0, 2, 3, np.nan, np.inf, 1000]], np.float32)
    valid = np.array([[True] * 5 + [False]])
    picture = colorize(values, valid=valid)
    assert (picture[0, 3:] == 0).all()
    np.testing.assert_array_equal(picture[:, :3], colorize(values[:, :3]))
    assert (colorize(np.full((2, 2), np.nan)) == 0).all()


@pytest.mark.parametrize("max_depth", [None, 10.0])
def test_depth_is_red_near_and_blue_far(max_depth):
    depth = np.linspace(1, 5, 200, dtype=np.float32).reshape(10, 20)
    picture = colorize_depth(depth, max_depth=max_depth)
    np.testing.assert_allclose(picture[0, 0], LAST, atol=3)
    np.testing.assert_allclose(picture[-1, -1], FIRST, atol=3)


def test_a_far_sky_does_not_take_the_colours_of_the_rest():
    depth = np.full((20, 20), 1e6, np.float32)
    depth[10:] = np.linspace(1, 5, 200).reshape(10, 20)
    depth[0] = np.inf
    picture = colorize_depth(depth, max_depth=50)
    assert (picture[0] == 0).all()
    np.testing.assert_allclose(picture[1:10], np.broadcast_to(FIRST, (9, 20, 3)), atol=3)
    assert len(np.unique(picture[10:].reshape(-1, 3), axis=0)) > 100
    assert (colorize_depth(np.full((2, 2), np.inf), max_depth=50) == 0).all()
