"""Pictures of maps: which colour goes where."""

import numpy as np
import pytest

from linstereo.visualize import (
    MIN_BAR_HEIGHT,
    colour_bar,
    colourise,
    colourise_depth,
    depth_picture,
    disparity_picture,
    round_values,
)

FIRST, LAST = (48, 18, 59), (122, 4, 3)  # the two ends of the turbo map, as its authors published it


def test_the_ends_of_the_range_have_the_ends_of_the_colours():
    values = np.array([[0.0, 1, 5, 9, 10]])
    picture = colourise(values, low=1, high=9)
    assert picture.dtype == np.uint8
    assert picture.shape == (1, 5, 3)
    for column, colour in ((0, FIRST), (1, FIRST), (3, LAST), (4, LAST)):
        np.testing.assert_allclose(picture[0, column], colour, atol=3)
    reversed_picture = colourise(values, low=1, high=9, reverse=True).astype(int)
    np.testing.assert_allclose(reversed_picture, colourise(10 - values, low=1, high=9).astype(int), atol=3)


def test_unknown_values_are_black_and_do_not_count():
    values = np.array([[1.0, 2, 3, np.nan, np.inf, 1000]], np.float32)
    valid = np.array([[True] * 5 + [False]])
    picture = colourise(values, valid=valid)
    assert (picture[0, 3:] == 0).all()
    np.testing.assert_array_equal(picture[:, :3], colourise(values[:, :3]))
    assert (colourise(np.full((2, 2), np.nan)) == 0).all()


@pytest.mark.parametrize("max_depth", [None, 10.0])
def test_depth_is_red_near_and_blue_far(max_depth):
    depth = np.linspace(1, 5, 200, dtype=np.float32).reshape(10, 20)
    picture = colourise_depth(depth, max_depth=max_depth)
    np.testing.assert_allclose(picture[0, 0], LAST, atol=3)
    np.testing.assert_allclose(picture[-1, -1], FIRST, atol=3)


def test_a_far_sky_does_not_take_the_colours_of_the_rest():
    depth = np.full((20, 20), 1e6, np.float32)
    depth[10:] = np.linspace(1, 5, 200).reshape(10, 20)
    depth[0] = np.inf
    picture = colourise_depth(depth, max_depth=50)
    assert (picture[0] == 0).all()
    np.testing.assert_allclose(picture[1:10], np.broadcast_to(FIRST, (9, 20, 3)), atol=3)
    assert len(np.unique(picture[10:].reshape(-1, 3), axis=0)) > 100
    assert (colourise_depth(np.full((2, 2), np.inf), max_depth=50) == 0).all()


@pytest.mark.parametrize("size", [(40, 50), (300, 200), (1080, 64)])
def test_pictures_have_a_bar_beside_the_map_and_the_map_stays_as_it_is(size):
    values = np.random.default_rng(0).uniform(2, 80, size)
    values[0, 0] = np.inf
    height, width = size
    for picture, raw in (
        (disparity_picture(values), colourise(values)),
        (depth_picture(values), colourise_depth(values)),
    ):
        np.testing.assert_array_equal(picture[:height, :width], raw)
        assert picture.shape[0] == max(height, MIN_BAR_HEIGHT)
        bar = picture[:, width:]
        assert (bar[:, 0] == 255).all()  # white between map and bar
        assert (bar[:, -1] == 255).all()  # no text is cut off
        assert (bar.max(axis=2) < 100).any()  # dark text
    nothing = np.full(size, np.inf)
    assert disparity_picture(nothing).shape == (*size, 3)


def test_the_bar_shows_the_colours_of_the_values():
    bar = colour_bar(400, low=10, high=50, unit="px")
    column = bar[:, bar.shape[1] // 4]
    coloured = np.flatnonzero(np.ptp(column, axis=1) > 30)
    shown = column[coloured[0] : coloured[-1] + 1].astype(int)
    levels = np.linspace(50, 10, len(shown))[:, None]
    expected = colourise(levels, low=10, high=50)[:, 0].astype(int)
    assert np.median(np.abs(shown - expected).max(axis=1)) < 12
    flipped = colour_bar(400, low=10, high=50, unit="px", reverse=True)
    assert (flipped != bar).any()
    pointed = colour_bar(400, low=10, high=50, unit="px", above=True)
    assert (pointed[: coloured[0]] != bar[: coloured[0]]).any()
    np.testing.assert_array_equal(pointed[coloured[0] + 2 :], bar[coloured[0] + 2 :])


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (10.3, 62.1, 6, [20, 30, 40, 50, 60]),
        (2.1, 4.6, 5, [2.5, 3, 3.5, 4, 4.5]),
        (0.0, 1.0, 6, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.012, 0.019, 4, [0.012, 0.014, 0.016, 0.018]),
        (900, 70_000, 3, [20_000, 40_000, 60_000]),
        (7.25, 7.25, 5, [7.25]),
    ],
)
def test_round_values(low, high, most, expected):
    np.testing.assert_allclose(round_values(low, high, most=most), expected)
