"""The camera's faults against their models: noise statistics, exposure limits, bounds of the rectification error."""

import dataclasses
import math

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.synthesis.sensor import (
    MAX_HORIZONTAL_ERROR,
    MAX_VERTICAL_ERROR,
    CameraFaults,
    CameraKinds,
    PairFaults,
    common_gains,
    expose,
    expose_pair,
    margin_mask,
    mosaic,
    noise,
    random_faults,
    rectification_error,
    tone_curve,
)


def textured(seed: int, *, scale: float = 1.0, height: int = 96, width: int = 160) -> NDArray[np.float32]:
    """A smooth random scene, mean about `scale` / 2."""
    values = np.random.default_rng(seed).random((height, width, 3)).astype(np.float32)
    smooth = cv2.GaussianBlur(values, (0, 0), 2.5)
    return np.asarray((smooth - smooth.min()) / (smooth.max() - smooth.min()) * scale, np.float32)


def linear(rgb: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The inverse of sRGB, written down independently."""
    value = rgb / 255.0
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def test_a_faultless_camera_only_encodes() -> None:
    scene = textured(0)
    image = expose(scene, CameraFaults(), np.random.default_rng(0))
    assert image.dtype == np.uint8
    assert image.shape == scene.shape
    step = np.gradient(linear(np.arange(256, dtype=np.uint8)))[image]
    assert (np.abs(linear(image) - scene) <= 0.55 * step + 1 / 16384).all()


def test_tone_curve_has_its_ends_and_rises() -> None:
    curve = tone_curve(1.1)
    assert (curve[0], curve[-1]) == (0, 255)
    assert (np.diff(curve.astype(int)) >= 0).all()


@pytest.mark.parametrize("level", [0.02, 0.3, 0.9])
def test_noise_has_the_variance_of_the_model(level: float) -> None:
    faults = CameraFaults(full_well=2000.0, read_noise=9.0)
    drawn = noise(np.full((700, 700), level, np.float32), faults, np.random.default_rng(3))
    expected = level / 2000.0 + (9.0 / 2000.0) ** 2
    assert drawn.var() == pytest.approx(expected, rel=0.02)
    assert abs(drawn.mean()) < 5 * math.sqrt(expected / drawn.size)


def test_noise_reaches_the_image() -> None:
    scene = np.full((300, 300, 3), 0.4, np.float32)
    faults = CameraFaults(full_well=4000.0, read_noise=5.0)
    image = linear(expose(scene, faults, np.random.default_rng(0)))
    quantised = (np.gradient(linear(np.arange(256, dtype=np.uint8)))[170] ** 2) / 12
    assert image.var() == pytest.approx(0.4 / 4000.0 + (5.0 / 4000.0) ** 2 + quantised, rel=0.05)
    assert image.mean() == pytest.approx(0.4, abs=1e-3)


@pytest.mark.parametrize("scale", [1e-4, 0.02, 1.0, 300.0])
def test_exposure_suits_any_radiance(scale: float) -> None:
    """Neither black nor burnt out, in the deep sea as in the sun."""
    rng = np.random.default_rng(1)
    for seed in range(8):
        left, right = expose_pair(
            textured(seed, scale=scale), textured(seed + 50, scale=scale), random_faults(rng, underwater=True), rng
        )
        for image in (left, right):
            assert 25 < image.mean() < 190
            assert (image == 255).mean() < 0.04


def test_exposure_spares_highlights() -> None:
    scene = np.full((100, 100, 3), 0.001, np.float32)
    scene[:10] = 1.0
    exposure, *_ = common_gains(scene, scene, brightness=0.3, white_balance=0.0)
    assert exposure * 1.0 <= 1.0 + 1e-6
    scene[:10] = 0.001
    exposure, *_ = common_gains(scene, scene, brightness=0.3, white_balance=0.0)
    assert exposure * 0.001 == pytest.approx(0.3)


def test_white_balance_brings_channels_together() -> None:
    scene = textured(4) * np.array([0.05, 0.5, 0.8], np.float32)
    means = scene.mean(axis=(0, 1))
    assert common_gains(scene, scene, brightness=0.2, white_balance=0.0)[1:] == (1.0, 1.0, 1.0)
    half = np.array(common_gains(scene, scene, brightness=0.2, white_balance=0.5)[1:])
    assert half == pytest.approx(np.minimum((means.max() / means) ** 0.5, 5.0), rel=0.05)
    assert max(common_gains(scene, scene, brightness=0.2, white_balance=1.0)[1:]) == 5.0


def test_exposure_is_shared_by_both_cameras() -> None:
    """A scene seen by both at the same brightness comes out the same; each camera's own factor acts on it alone."""
    scene = textured(2)
    rng = np.random.default_rng(0)
    left, right = expose_pair(scene, scene, PairFaults(left=CameraFaults(), right=CameraFaults()), rng)
    assert np.array_equal(left, right)
    brighter = PairFaults(left=CameraFaults(), right=CameraFaults(exposure=1.1))
    left2, right2 = expose_pair(scene, scene, brighter, rng)
    assert np.array_equal(left, left2)
    inside = (right2 < 255).all(axis=2)
    assert linear(right2)[inside].mean() / linear(left2)[inside].mean() == pytest.approx(1.1, rel=0.01)


def test_vignetting_dims_the_corners() -> None:
    scene = np.full((81, 121, 3), 0.5, np.float32)
    image = linear(expose(scene, CameraFaults(vignetting=0.4), np.random.default_rng(0)))
    assert image[40, 60] == pytest.approx(0.5, abs=0.01)
    for corner in (image[0, 0], image[0, -1], image[-1, 0], image[-1, -1]):
        assert corner == pytest.approx(0.3, abs=0.01)


def test_blur_and_defocus_keep_the_brightness() -> None:
    scene = np.zeros((61, 61, 3), np.float32)
    scene[30, 30] = 1.0
    for faults, width in ((CameraFaults(blur=1.0), 1.0), (CameraFaults(defocus=1.6), 0.8)):
        image = linear(expose(scene * 3.0, faults, np.random.default_rng(0)))[..., 0]
        assert image.sum() == pytest.approx(3.0, rel=0.05)
        offsets = np.arange(61) - 30.0
        spread = math.sqrt((image.sum(axis=0) * offsets**2).sum() / image.sum())
        assert spread == pytest.approx(width, rel=0.15)


def test_rectification_error_moves_the_image_by_itself() -> None:
    scene = textured(9, height=120, width=200)
    faults = CameraFaults(vertical_error=(0.3, -0.4, 0.2), horizontal_error=(0.1, 0.05))
    right, low = rectification_error(120, 200, faults)
    assert (right[0, 0], right[-1, 0]) == (pytest.approx(0.05), pytest.approx(0.15))
    assert (low[0, 0], low[0, -1]) == (pytest.approx(0.5), pytest.approx(-0.3))
    image = linear(expose(scene, faults, np.random.default_rng(0)))
    rows, columns = np.arange(120, dtype=np.float32)[:, None], np.arange(200, dtype=np.float32)
    back = cv2.remap(image.astype(np.float32), columns + right, rows + low, cv2.INTER_CUBIC)
    inner = (slice(4, -4), slice(4, -4))
    assert np.abs(back - scene)[inner].max() < 0.02
    assert np.abs(image - scene)[inner].max() > 0.03


def test_random_errors_stay_in_their_bounds_and_spare_the_left_image() -> None:
    rng = np.random.default_rng(11)
    vertical = []
    for _ in range(400):
        faults = random_faults(rng, underwater=False)
        assert not any(faults.left.vertical_error + faults.left.horizontal_error)
        right, low = rectification_error(24, 32, faults.right)
        assert np.abs(right).max() <= MAX_HORIZONTAL_ERROR + 1e-6
        vertical.append(float(np.abs(low).max()))
    assert max(vertical) <= MAX_VERTICAL_ERROR + 1e-6
    assert max(vertical) > 0.8
    assert float(np.median(vertical)) < 0.3


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_kinds_of_cameras_have_their_shares(share: float) -> None:
    rng = np.random.default_rng(3)
    kinds = CameraKinds(grey=share, noisy=share, margins=share)
    pairs = [random_faults(rng, underwater=False, kinds=kinds) for _ in range(400)]
    for of_kind in (
        [pair.grey is not None for pair in pairs],
        [pair.left.gain_pattern > 0 for pair in pairs],
        [any(pair.left.margins) for pair in pairs],
    ):
        assert np.mean(of_kind) == pytest.approx(share, abs=0.08)
    assert np.mean([pair.left.full_well < 10**3.5 for pair in pairs]) >= share


@pytest.mark.parametrize("name", ["grey", "noisy", "margins"])
def test_shares_outside_of_0_to_1_are_refused(name: str) -> None:
    for share in (-0.1, 1.1, math.nan):
        with pytest.raises(InputError, match=name):
            CameraKinds(**{name: share})


def test_fixed_patterns_have_their_strength() -> None:
    scene = np.full((400, 500, 3), 0.3, np.float32)
    clean = CameraFaults(full_well=1e9)
    pixels = linear(expose(scene, dataclasses.replace(clean, gain_pattern=0.05), np.random.default_rng(0)))
    assert pixels.std() == pytest.approx(0.3 * 0.05, rel=0.1)
    assert np.corrcoef(pixels[..., 0].ravel(), pixels[..., 2].ravel())[0, 1] > 0.95  # the same in every channel
    columns = dataclasses.replace(clean, full_well=1000.0, column_pattern=20.0)
    image = linear(expose(scene, columns, np.random.default_rng(0))).mean(axis=2)
    assert image.mean(axis=0).std() == pytest.approx(20 / 1000, rel=0.15)
    assert image.mean(axis=1).std() < 0.2 * image.mean(axis=0).std()


def test_grey_cameras_weigh_the_channels() -> None:
    scene = textured(3)
    faults = PairFaults(left=CameraFaults(), right=CameraFaults(), grey=(0.2, 0.7, 0.1), brightness=0.2)
    left, right = expose_pair(scene, scene, faults, np.random.default_rng(0))
    assert np.array_equal(left, right)
    assert (left == left[..., :1]).all()
    weighed = scene @ np.array([0.2, 0.7, 0.1])
    values = linear(left)[..., 0]
    assert np.corrcoef(values.ravel(), weighed.ravel())[0, 1] > 0.999
    assert values.mean() == pytest.approx(0.2, rel=0.02)


def test_a_mosaic_sensor_gives_colours_back_where_they_change_slowly() -> None:
    scene = np.zeros((120, 200, 3), np.float32)
    scene[:, :100] = (0.6, 0.3, 0.1)
    scene[:, 100:] = (0.05, 0.2, 0.5)
    image = expose(scene, CameraFaults(mosaic=True), np.random.default_rng(0), gains=(1.0, 1.0, 1.3, 1.5))
    without = expose(scene, CameraFaults(), np.random.default_rng(0), gains=(1.0, 1.0, 1.3, 1.5))
    inside = np.abs(np.arange(200) - 99.5) > 3
    assert np.abs(image[:, inside].astype(int) - without[:, inside]).max() <= 1
    assert (image != without).any()  # at the edge


def test_a_mosaic_sensor_has_one_noisy_value_a_pixel() -> None:
    scene = np.full((300, 300, 3), 0.4, np.float32)
    faults = CameraFaults(full_well=1000.0, read_noise=5.0)
    variance = 0.4 / 1000 + (5 / 1000) ** 2
    of_three = linear(expose(scene, faults, np.random.default_rng(0))).mean(axis=2)
    assert of_three.var() == pytest.approx(variance / 3, rel=0.1)
    colours = linear(expose(scene, dataclasses.replace(faults, mosaic=True), np.random.default_rng(0)))
    assert colours.mean() == pytest.approx(0.4, abs=2e-3)
    seen = mosaic([np.ascontiguousarray(plane, np.float32) for plane in np.moveaxis(colours, 2, 0)])
    assert seen[2:-2, 2:-2].var() == pytest.approx(variance, rel=0.1)  # where a colour was seen it is as it was
    # The same light is worth a third: red and blue come from a quarter of the pixels, green from half of them.
    blocks = [cv2.resize(image[2:-2, 2:-2], (37, 37), interpolation=cv2.INTER_AREA) for image in (of_three, colours)]
    assert blocks[1].mean(axis=2).var() / blocks[0].var() == pytest.approx((4 + 2 + 4) / 3, rel=0.2)


def test_small_colour_cameras_have_a_mosaic() -> None:
    rng = np.random.default_rng(4)
    for noisy, grey in ((1.0, 0.0), (1.0, 1.0), (0.0, 0.0)):
        faults = random_faults(rng, underwater=False, kinds=CameraKinds(noisy=noisy, grey=grey))
        assert faults.left.mosaic == faults.right.mosaic == (noisy > grey)


def test_margins_are_black_and_bow_inwards_at_the_corners() -> None:
    faults = CameraFaults(margins=(0.1, 0.0, 0.05, 0.0, 0.2))
    image = expose(np.full((100, 200, 3), 0.4, np.float32), faults, np.random.default_rng(0))
    black = (image == 0).all(axis=2)
    assert np.array_equal(black, margin_mask(100, 200, faults.margins))
    assert black[50].sum() == 20
    assert black[90].sum() > 30
    assert black[:, 100].sum() == 5
    assert not black[50:, 150:].any()
    assert not margin_mask(100, 200, (0.0, 0.0, 0.0, 0.0, 0.2)).any()


def test_smeared_margins_repeat_the_pixel_beside_them() -> None:
    scene = np.random.default_rng(1).uniform(0.1, 0.9, (100, 200, 3)).astype(np.float32)
    faults = CameraFaults(margins=(0.0, 0.1, 0.05, 0.0, 0.02))
    black, smeared, whole = (
        expose(scene, dataclasses.replace(faults, **change), np.random.default_rng(0))
        for change in ({}, {"smeared": True}, {"margins": (0.0,) * 5})
    )
    margin = margin_mask(100, 200, faults.margins)
    assert (black[margin] == 0).all()
    np.testing.assert_array_equal(smeared[~margin], whole[~margin])
    for row in range(10, 100):
        last = np.flatnonzero(~margin[row])[-1]
        assert last < 181
        assert (smeared[row, last:] == whole[row, last]).all()
    for column in (20, 100):
        first = np.flatnonzero(~margin.all(axis=1))[0]
        assert first >= 4
        assert (smeared[:first, column] == smeared[first, column]).all()


def test_half_of_the_margins_are_smeared_and_seldom_the_same_in_both_images() -> None:
    rng = np.random.default_rng(6)
    kinds = CameraKinds(margins=1.0)
    pairs = [random_faults(rng, underwater=False, kinds=kinds) for _ in range(400)]
    smeared = [pair for pair in pairs if pair.left.smeared]
    assert all(pair.left.smeared == pair.right.smeared for pair in pairs)
    assert 150 < len(smeared) < 250
    sides = {state: [np.not_equal(np.sign(p.left.margins[:4]), np.sign(p.right.margins[:4])).any() for p in pairs
                     if p.left.smeared is state] for state in (True, False)}  # fmt: skip
    assert np.mean(sides[True]) > 0.5
    assert not any(sides[False])


def test_most_pairs_are_nearly_clean_and_some_are_hard() -> None:
    rng = np.random.default_rng(2)
    pairs = [random_faults(rng, underwater=True, kinds=CameraKinds(noisy=0.0)) for _ in range(500)]
    noisy = np.mean([pair.left.full_well < 10**3.4 for pair in pairs])
    assert 0.1 < noisy < 0.3
    compressed = np.mean([pair.left.jpeg_quality > 0 for pair in pairs])
    assert 0.2 < compressed < 0.4
    ratios = np.abs(np.log([pair.left.exposure / pair.right.exposure for pair in pairs]))
    assert np.median(ratios) < 0.05 < ratios.max() < 0.6


def test_everything_follows_from_the_seed() -> None:
    scene = textured(1)

    def shot(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        rng = np.random.default_rng(seed)
        return expose_pair(scene, scene, random_faults(rng, underwater=True), rng)

    for seed in range(5):
        first, second = shot(seed), shot(seed)
        assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))
    assert not np.array_equal(shot(0)[0], shot(1)[0])


def test_compression_leaves_its_traces() -> None:
    scene = textured(6)
    clean, poor = (expose(scene, CameraFaults(jpeg_quality=quality), np.random.default_rng(0)) for quality in (0, 40))
    difference = np.abs(clean.astype(int) - poor)
    assert 0.2 < difference.mean() < 12
