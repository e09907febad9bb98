"""Augmentation keeps geometry true: what it returns still warps, for dense and for sparse ground truth."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import cv2
import numpy as np
import pytest
from tests.data import scenes
from tests.data.checks import assert_disparity_warps, comparable, warping_error

from linstereo.data.augmentation import AugmentationSettings, augment, resize_disparity
from linstereo.data.sample import StereoSample
from linstereo.errors import InputError

GEOMETRY_ONLY = AugmentationSettings(
    crop_height=96,
    crop_width=128,
    vertical_jitter=0,
    asymmetric_probability=0,
    brightness=0,
    contrast=0,
    saturation=(1, 1),
    hue=0,
    gamma=(1, 1),
    eraser_probability=0,
)
COLOUR_ONLY = AugmentationSettings(
    crop_height=120, crop_width=160, log2_scale=(0, 0), stretch_probability=0, vertical_jitter=0, eraser_probability=0
)


def rng_for(seed: int, epoch: int, index: int) -> np.random.Generator:
    return np.random.default_rng((seed, epoch, index))


def pair(seed: int = 0, height: int = 120, width: int = 160) -> StereoSample:
    return scenes.render_pair(height, width, seed=seed)


def same(first: StereoSample, second: StereoSample) -> bool:
    return all(
        np.array_equal(getattr(first, field), getattr(second, field))
        for field in ("left", "right", "disparity", "valid", "occluded")
    )


@pytest.mark.parametrize("index", range(12))
def test_geometry_holds_after_scaling_and_cropping(index: int) -> None:
    sample = pair(index)
    settings = replace(GEOMETRY_ONLY, vertical_flip_probability=0.5)
    result = augment(sample, rng=rng_for(0, 0, index), settings=settings)
    assert result.left.shape == result.right.shape == (96, 128, 3)
    assert result.disparity.shape == result.valid.shape == result.occluded.shape == (96, 128)
    errors = assert_disparity_warps(result)
    assert errors["truth"] < 6
    assert errors["unwarped"] > 4 * errors["truth"]
    where = comparable(result)
    for wrong in (0.97, 1.03):  # a disparity that was not multiplied by the exact scale would be off by this much
        assert warping_error(result, wrong * result.disparity, where=where) > errors["truth"]


@pytest.mark.parametrize("index", range(6))
def test_sparse_ground_truth_stays_exact(index: int) -> None:
    """Isolated pixels with known disparity are neither lost nor smeared into unknown ones."""
    dense = pair(index)
    sparse = scenes.with_holes(dense, seed=index, fraction=0.9)
    result = augment(sparse, rng=rng_for(1, 0, index), settings=GEOMETRY_ONLY)
    reference = augment(dense, rng=rng_for(1, 0, index), settings=GEOMETRY_ONLY)
    np.testing.assert_array_equal(result.left, reference.left)
    assert 0.05 < result.valid.mean() < 0.15
    assert not result.disparity[~result.valid].any()
    assert (result.disparity[result.valid] > 0).all()
    difference = np.abs(result.disparity - reference.disparity)[result.valid]
    assert np.median(difference) < 0.1
    assert (difference < 0.3).mean() > 0.98
    assert errors_of(result) < 8


def errors_of(sample: StereoSample) -> float:
    return warping_error(sample, sample.disparity, where=comparable(sample))


@pytest.mark.parametrize(("height", "width"), [(240, 320), (180, 200), (97, 251), (120, 160)])
def test_disparity_is_multiplied_by_the_exact_scale_of_the_width(height: int, width: int) -> None:
    disparity = np.full((120, 160), 10, dtype=np.float32)
    result, valid = resize_disparity(disparity, disparity > 0, height=height, width=width)
    assert result.shape == valid.shape == (height, width)
    assert valid.all()
    np.testing.assert_allclose(result, 10 * width / 160, rtol=1e-6)


@pytest.mark.parametrize(("height", "width"), [(240, 320), (180, 200), (97, 251)])
def test_smooth_disparity_is_resized_as_opencv_does(height: int, width: int) -> None:
    y, x = np.mgrid[:120, :160].astype(np.float32)
    disparity = 5 + 0.1 * x + 0.05 * y
    result, _ = resize_disparity(disparity, disparity > 0, height=height, width=width)
    expected = cv2.resize(disparity, (width, height), interpolation=cv2.INTER_LINEAR) * width / 160
    np.testing.assert_allclose(result, expected, atol=2e-3)


def test_no_disparity_arises_between_two_surfaces() -> None:
    disparity = np.full((60, 80), 4, dtype=np.float32)
    disparity[:, 40:] = 20
    disparity[20:30] = 0
    result, valid = resize_disparity(disparity, disparity > 0, height=91, width=160)
    assert set(np.unique(result)) == {0.0, 8.0, 40.0}
    assert not result[~valid].any()


@pytest.mark.parametrize(("height", "width"), [(52, 71), (23, 31), (40, 57)])
def test_sparse_pixels_are_taken_from_where_they_were(height: int, width: int) -> None:
    """Against a loop: each pixel of the result has the value of the pixel in which its centre lies."""
    rng = np.random.default_rng(0)
    valid = rng.random((40, 57)) < 0.3
    valid[1:, 1:] &= ~(valid[:-1, 1:] | valid[1:, :-1] | valid[:-1, :-1])  # no full square of known pixels
    disparity = (rng.uniform(1, 50, size=valid.shape) * valid).astype(np.float32)
    result, result_valid = resize_disparity(disparity, valid, height=height, width=width)
    for row in range(height):
        for column in range(width):
            source = int((row + 0.5) * 40 / height), int((column + 0.5) * 57 / width)
            assert result_valid[row, column] == valid[source]
            assert result[row, column] == pytest.approx(disparity[source] * width / 57, rel=1e-5)


def test_a_part_of_the_resized_map_is_that_part_of_the_whole() -> None:
    sample = scenes.with_holes(pair(), seed=0)
    whole, whole_valid = resize_disparity(sample.disparity, sample.valid, height=131, width=190)
    rows, columns = slice(17, 90), slice(40, 160)
    part, part_valid = resize_disparity(
        sample.disparity, sample.valid, height=131, width=190, rows=rows, columns=columns
    )
    np.testing.assert_array_equal(part, whole[rows, columns])
    np.testing.assert_array_equal(part_valid, whole_valid[rows, columns])


def test_occlusion_follows_the_image() -> None:
    """Occluded pixels do not match after the change either."""
    result = augment(pair(3), rng=rng_for(0, 0, 3), settings=GEOMETRY_ONLY)
    y, x = np.mgrid[:96, :128].astype(np.float32)
    warped = cv2.remap(result.right, x - result.disparity, y, cv2.INTER_LINEAR).astype(float)
    difference = np.abs(warped - result.left).mean(axis=2)
    inside = x - result.disparity >= 0
    assert difference[result.occluded & inside].mean() > 5 * difference[comparable(result)].mean()


@pytest.mark.parametrize("size", [(320, 640), (96, 128), (40, 600)])
def test_the_crop_has_its_size_even_if_the_image_is_too_small(size: tuple[int, int]) -> None:
    settings = replace(GEOMETRY_ONLY, crop_height=size[0], crop_width=size[1], vertical_jitter=2)
    for index in range(5):
        result = augment(pair(1, 50, 70), rng=rng_for(0, 0, index), settings=settings)
        assert result.left.shape == result.right.shape == (*size, 3)
        assert result.disparity.shape == size
        assert result.disparity.min() >= size[1] / 70 * pair(1, 50, 70).disparity.min() - 1e-4


def test_vertical_jitter_shifts_only_the_right_image() -> None:
    settings = replace(GEOMETRY_ONLY, vertical_jitter=2, log2_scale=(0, 0), stretch_probability=0)
    shifts = set()
    for index in range(40):
        result = augment(pair(), rng=rng_for(0, 0, index), settings=settings)
        where = comparable(result)
        where[:4] = where[-4:] = False
        errors = {
            shift: warping_error(
                replace(result, right=np.roll(result.right, shift, axis=0)), result.disparity, where=where
            )
            for shift in range(-3, 4)
        }
        best = min(errors, key=errors.get)
        assert errors[best] < 2
        shifts.add(best)
    assert shifts == {-2, -1, 0, 1, 2}


@pytest.mark.parametrize("asymmetric", [0.0, 1.0])
def test_colours_change_but_not_the_ground_truth(asymmetric: float) -> None:
    sample = scenes.with_holes(pair(), seed=1)
    settings = replace(COLOUR_ONLY, asymmetric_probability=asymmetric)
    for index in range(5):
        result = augment(sample, rng=rng_for(0, 0, index), settings=settings)
        for field in ("disparity", "valid", "occluded"):
            np.testing.assert_array_equal(getattr(result, field), getattr(sample, field))
        assert not np.array_equal(result.left, sample.left)
        assert not np.array_equal(result.right, sample.right)
        matched = warping_error(result, result.disparity, where=comparable(result))
        if asymmetric == 0:  # a point has the same colour in both images
            assert matched < 6
        else:
            assert matched > 6


def test_colour_changes_agree_with_opencv() -> None:
    """Brightness and saturation alone, against their definition in OpenCV's grey conversion."""
    sample = pair()
    neutral = replace(
        COLOUR_ONLY, asymmetric_probability=0, brightness=0, contrast=0, saturation=(1, 1), hue=0, gamma=(1, 1)
    )
    assert np.array_equal(augment(sample, rng=rng_for(0, 0, 0), settings=neutral).left, sample.left)
    grey = augment(sample, rng=rng_for(0, 0, 0), settings=replace(neutral, saturation=(0, 0))).left
    expected = cv2.cvtColor(sample.left, cv2.COLOR_RGB2GRAY)
    assert np.abs(grey.astype(int) - expected[..., None]).max() <= 1
    dark = augment(sample, rng=rng_for(0, 0, 0), settings=replace(neutral, gamma=(2, 2))).left
    np.testing.assert_allclose(dark, 255 * (sample.left / 255) ** 2, atol=0.51)


def test_erasers_touch_the_right_image_only() -> None:
    sample = pair()
    settings = replace(GEOMETRY_ONLY, eraser_probability=1, eraser_size=(20, 30))
    for index in range(8):
        clean = augment(sample, rng=rng_for(0, 0, index), settings=GEOMETRY_ONLY)
        result = augment(sample, rng=rng_for(0, 0, index), settings=settings)
        np.testing.assert_array_equal(result.left, clean.left)
        np.testing.assert_array_equal(result.disparity, clean.disparity)
        changed = (result.right != clean.right).any(axis=2)
        assert 0 < changed.sum() <= 2 * 30 * 30
        assert len(np.unique(result.right[changed], axis=0)) == 1
        np.testing.assert_allclose(result.right[changed][0], clean.right.mean(axis=(0, 1)), atol=1)


def test_shading_darkens_the_right_image_evenly_towards_a_side() -> None:
    sample = pair()
    settings = replace(GEOMETRY_ONLY, shading_probability=1, shading=0.6)
    angles, losses = [], []
    for index in range(8):
        clean = augment(sample, rng=rng_for(0, 0, index), settings=GEOMETRY_ONLY)
        result = augment(sample, rng=rng_for(0, 0, index), settings=settings)
        np.testing.assert_array_equal(result.left, clean.left)
        np.testing.assert_array_equal(result.disparity, clean.disparity)
        bright = (clean.right >= 60).all(axis=2)
        y, x = np.nonzero(bright)
        light = result.right[bright].sum(axis=1) / clean.right[bright].sum(axis=1)  # what is left of it
        system = np.stack([x, y, np.ones(len(x))], axis=1)
        plane, *_ = np.linalg.lstsq(system, light, rcond=None)
        assert np.abs(light - system @ plane).max() < 0.02
        assert light.max() <= 1
        assert light.min() >= 0.4 - 0.02
        angles.append(np.arctan2(plane[1], plane[0]))
        losses.append(1 - light.min())
    assert np.ptp(angles) > 1
    assert max(losses) > 0.3
    never = replace(settings, shading_probability=0)
    np.testing.assert_array_equal(augment(sample, rng=rng_for(0, 0, 7), settings=never).right, clean.right)


def augmented(arguments: tuple[int, int, int]) -> StereoSample:
    seed, epoch, index = arguments
    return augment(pair(index), rng=rng_for(seed, epoch, index), settings=AugmentationSettings())


def test_the_same_sample_in_whatever_process() -> None:
    arguments = [(7, 2, index) for index in range(4)]
    here = [augmented(item) for item in arguments]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        there = list(pool.map(augmented, reversed(arguments)))[::-1]
    assert all(same(first, second) for first, second in zip(here, there, strict=True))


def test_seed_epoch_and_index_all_matter() -> None:
    results = [
        augment(pair(), rng=rng_for(*numbers), settings=GEOMETRY_ONLY)
        for numbers in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    ]
    assert not any(same(results[a], results[b]) for a in range(4) for b in range(a))


def test_the_sample_given_is_not_changed() -> None:
    sample = pair(2)
    copies = {field: getattr(sample, field).copy() for field in ("left", "right", "disparity", "valid", "occluded")}
    for index in range(4):
        augment(sample, rng=rng_for(0, 0, index))
    for field, copy in copies.items():
        np.testing.assert_array_equal(getattr(sample, field), copy)


def test_scales_and_positions_cover_their_range() -> None:
    disparity = np.full((400, 900), 100, dtype=np.float32)
    image = np.zeros((400, 900, 3), dtype=np.uint8)
    sample = StereoSample(name="flat", left=image, right=image, disparity=disparity, valid=disparity > 0)
    settings = replace(GEOMETRY_ONLY, log2_scale=(-0.2, 0.4), log2_stretch=0.2, stretch_probability=1)
    scales = np.array(
        [np.log2(augment(sample, rng=rng_for(0, 0, i), settings=settings).disparity[0, 0] / 100) for i in range(150)]
    )
    assert scales.min() == pytest.approx(-0.4, abs=0.12)
    assert scales.max() == pytest.approx(0.6, abs=0.12)
    assert scales.mean() == pytest.approx(0.1, abs=0.06)


def test_bad_input() -> None:
    with pytest.raises(InputError, match="no ground truth"):
        augment(scenes.without_truth(pair()), rng=rng_for(0, 0, 0))
    with pytest.raises(InputError, match="crop to 0 x 640"):
        AugmentationSettings(crop_height=0)
    with pytest.raises(InputError, match="eraser_probability is 2"):
        AugmentationSettings(eraser_probability=2)
