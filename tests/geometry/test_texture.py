"""What counts as plain."""

import numpy as np
import pytest

from linstereo.geometry.texture import MOSTLY, mostly_plain, plain_pixels


def wall(*, noise, seed=0):
    """A grey wall that gets brighter slowly to the right, with noise."""
    rng = np.random.default_rng(seed)
    light = np.linspace(90, 150, 160)[None, :, None] + rng.normal(0, noise, (96, 160, 3))
    return np.clip(light, 0, 255).astype(np.uint8)


def stripes(wide):
    """The wall with black stripes of 4 px in its first `wide` columns."""
    image = wall(noise=2)
    for column in range(0, wide, 8):
        image[:, column : column + 4] = 0
    return image


@pytest.mark.parametrize("noise", [0, 4, 8])
def test_a_wall_is_plain_in_spite_of_its_noise(noise):
    assert plain_pixels(wall(noise=noise)).mean() > 0.95
    assert mostly_plain(wall(noise=noise))


def test_only_changes_along_the_row_count():
    across, down = stripes(160), np.ascontiguousarray(stripes(160).swapaxes(0, 1))
    assert not plain_pixels(across)[:, 8:-8].any()
    assert plain_pixels(down).all()


def test_the_share_of_plain_pixels_decides():
    shares = {wide: plain_pixels(stripes(wide)).mean() for wide in (24, 64)}
    assert shares[64] < MOSTLY < shares[24]
    assert mostly_plain(stripes(24))
    assert not mostly_plain(stripes(64))


def test_what_is_dark_is_not_plain():
    assert not mostly_plain((0.2 * wall(noise=1)).astype(np.uint8))
    assert mostly_plain((0.5 * wall(noise=1)).astype(np.uint8))


def test_it_is_the_mean_over_a_window():
    """Against sums written out, inside of the image."""
    rng = np.random.default_rng(1)
    rough = 128 + np.linspace(0, 60, 60) * rng.normal(0, 1, (40, 60))  # more and more to the right
    image = np.repeat(np.clip(rough, 0, 255).astype(np.uint8)[..., None], 3, axis=2)
    taps = np.exp(-(np.arange(-9, 10) ** 2) / (2 * 1.5**2))
    taps /= taps.sum()
    smooth = np.apply_along_axis(np.convolve, 0, image[..., 0].astype(float), taps, mode="same")
    smooth = np.apply_along_axis(np.convolve, 1, smooth, taps, mode="same")
    step = np.zeros_like(smooth)
    step[:, 1:-1] = np.abs(smooth[:, 2:] - smooth[:, :-2])
    found = plain_pixels(image)
    checked = 0
    for y, x in np.ndindex(4, 24):
        row, column = 18 + y, 18 + x
        mean = step[row - 7 : row + 8, column - 7 : column + 8].mean()
        if abs(mean - 3) > 0.02:
            assert found[row, column] == (mean < 3)
            checked += 1
    assert checked > 60
    assert 0 < found[18:22, 18:42].mean() < 1
