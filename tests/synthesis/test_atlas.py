"""Texture look-ups against a slow twin that takes one pixel at a time."""

import math

import numpy as np
import pytest

from linstereo.errors import InputError
from linstereo.synthesis.atlas import LINEAR_LIGHT, Atlas


def pyramid(texture):
    """Linear levels of a texture in double precision, each the mean of 2 x 2 texels of the one before."""
    value = texture / 255.0
    levels = [np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)]
    while len(levels[-1]) > 1:
        side = len(levels[-1]) // 2
        levels.append(levels[-1].reshape(side, 2, side, 2, 3).mean(axis=(1, 3)))
    return levels


def bilinear(level, u, v):
    side = len(level)
    x, y = u * side - 0.5, v * side - 0.5
    column, row = math.floor(x), math.floor(y)
    total = np.zeros(3)
    for dy, wy in ((0, 1 - (y - row)), (1, y - row)):
        for dx, wx in ((0, 1 - (x - column)), (1, x - column)):
            total += wy * wx * level[(row + dy) % side, (column + dx) % side]
    return total


def one_pixel(texture, u, v, footprint):
    levels = pyramid(texture)
    level = min(max(math.log2(footprint * len(texture)), 0), len(levels) - 1) if footprint > 0 else 0
    low = math.floor(level)
    high = min(low + 1, len(levels) - 1)
    return (1 - (level - low)) * bilinear(levels[low], u, v) + (level - low) * bilinear(levels[high], u, v)


def test_sampling_is_trilinear_and_periodic():
    rng = np.random.default_rng(0)
    textures = [rng.integers(0, 256, (side, side, 3), dtype=np.uint8) for side in (32, 1, 8, 64, 2, 32)]
    atlas = Atlas(textures)
    count = 1500
    index = rng.integers(0, len(textures), count).astype(np.int32)
    u, v = rng.uniform(-3, 3, (2, count)).astype(np.float32)
    footprint = np.exp(rng.uniform(np.log(1e-3), np.log(4), count)).astype(np.float32)
    footprint[:5] = 0
    found = atlas.sample(index, u, v, footprint)
    assert found.shape == (3, count)
    assert found.dtype == np.float32
    for i in range(count):
        expected = one_pixel(textures[index[i]], float(u[i]), float(v[i]), float(footprint[i]))
        np.testing.assert_allclose(found[:, i], expected, atol=1.5e-4)


def test_textures_never_mix():
    rng = np.random.default_rng(1)
    colours = rng.integers(0, 256, (40, 3), dtype=np.uint8)
    sides = 2 ** rng.integers(0, 9, 40)
    atlas = Atlas([np.broadcast_to(c, (s, s, 3)).copy() for c, s in zip(colours, sides, strict=True)])
    index = rng.integers(0, 40, 20_000).astype(np.int32)
    u, v = rng.uniform(-2, 2, (2, 20_000)).astype(np.float32)
    footprint = np.exp(rng.uniform(-12, 2, 20_000)).astype(np.float32)
    found = atlas.sample(index, u, v, footprint)
    expected = LINEAR_LIGHT[colours[index]].T / 65535
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_linear_light_is_srgb():
    """Values of IEC 61966-2-1: a mid grey of 188 reflects half the light, 119 a little less than a fifth."""
    assert LINEAR_LIGHT[0] == 0
    assert LINEAR_LIGHT[255] == 65535
    assert LINEAR_LIGHT[188] / 65535 == pytest.approx(0.5029, abs=1e-4)
    assert LINEAR_LIGHT[119] / 65535 == pytest.approx(0.1845, abs=1e-4)


def test_a_face_seen_edge_on_gets_some_colour():
    atlas = Atlas([np.full((8, 8, 3), 200, np.uint8)])
    nothing = np.array([np.nan, np.inf, -np.inf, 0.5], np.float32)
    with np.errstate(invalid="ignore"):
        found = atlas.sample(np.zeros(4, np.int32), nothing, nothing, nothing)
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    "texture",
    [np.zeros((8, 16, 3), np.uint8), np.zeros((12, 12, 3), np.uint8), np.zeros((8, 8, 3)), np.zeros((8, 8), np.uint8)],
)
def test_bad_textures_are_refused(texture):
    with pytest.raises(InputError, match="power of two"):
        Atlas([texture])


def test_too_many_textures_are_refused():
    with pytest.raises(InputError, match="do not fit"):
        Atlas([np.zeros((2048, 2048, 3), np.uint8)] * 20)
