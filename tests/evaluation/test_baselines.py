"""SGBM with its exact settings, the filling of its holes, and predictions read from files."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from tests.data.scenes import render_pair
from tests.data.writers import write_npy, write_pfm, write_values

from linstereo.data.sample import StereoSample
from linstereo.errors import InputError
from linstereo.evaluation.baselines import (
    FolderMethod,
    SgbmMethod,
    disparity_range,
    fill_rows,
    read_prediction,
    sgbm_disparity,
)


@pytest.mark.parametrize(
    ("width", "count"),
    [(32, 64), (256, 64), (257, 80), (320, 80), (321, 96), (741, 192), (1024, 256), (1025, 256), (5000, 256)],
)
def test_searched_range_is_a_quarter_of_the_width(width: int, count: int) -> None:
    assert disparity_range(width) == count


def test_filling_takes_the_farther_of_the_two_nearest_known_pixels() -> None:
    rng = np.random.default_rng(0)
    disparity = rng.uniform(0, 50, (40, 30)).astype(np.float32)
    known = rng.random(disparity.shape) < rng.uniform(0, 0.6, (40, 1))
    known[3], known[4] = False, True
    filled = fill_rows(disparity, known=known)
    assert filled.dtype == np.float32
    for y, x in np.ndindex(disparity.shape):
        row = known[y]
        if row[x]:
            expected = disparity[y, x]
        else:
            nearest = [next((c for c in columns if row[c]), None) for columns in (range(x, -1, -1), range(x, 30))]
            expected = min((disparity[y, c] for c in nearest if c is not None), default=0)
        assert filled[y, x] == expected


def test_known_pixels_are_those_of_opencv_with_the_documented_settings() -> None:
    pair = render_pair(seed=1)
    wide = [np.concatenate([np.repeat(view[:, :1], 64, axis=1), view], axis=1) for view in (pair.left, pair.right)]
    # positional: minDisparity, numDisparities, blockSize, P1, P2, disp12MaxDiff, preFilterCap, uniqueness, speckles
    expected = cv2.StereoSGBM_create(0, 64, 5, 600, 2400, 1, 0, 10, 100, 2).compute(*wide)[:, 64:] / 16.0
    found = expected >= 0
    assert 0.8 < found.mean() < 1
    np.testing.assert_array_equal(sgbm_disparity(pair.left, pair.right)[found], expected[found])


def test_sgbm_is_dense_and_right_up_to_the_left_border() -> None:
    pair = render_pair(seed=2)
    disparity = SgbmMethod().predict(pair)
    assert disparity.dtype == np.float32
    assert np.isfinite(disparity).all()
    assert disparity.min() >= 0
    visible = ~pair.occluded
    error = np.abs(disparity - pair.disparity)
    assert error[visible].mean() < 0.4
    border = visible.copy()
    border[:, 64:] = False
    assert border.sum() > 3000
    assert error[border].mean() < 0.6


def test_sgbm_on_images_smaller_than_its_range() -> None:
    image = np.random.default_rng(0).integers(0, 255, (20, 33, 3), np.uint8)
    disparity = sgbm_disparity(image, image)
    assert disparity.shape == (20, 33)
    assert np.median(disparity) == 0


def sample(name: str, shape: tuple[int, int] = (4, 6)) -> StereoSample:
    image = np.zeros((*shape, 3), np.uint8)
    return StereoSample(name=name, left=image, right=image)


def prediction(value: float) -> np.ndarray:
    return np.full((4, 6), value, np.float32)


def test_folder_by_name_by_last_part_and_by_benchmark(tmp_path: Path) -> None:
    write_pfm(tmp_path / "training" / "a.pfm", prediction(1))
    write_npy(tmp_path / "b.npy", prediction(2))
    write_values(tmp_path / "kitti2012" / "a.png", (prediction(3) * 256).astype(np.uint16))
    method = FolderMethod(tmp_path)
    assert method.title == tmp_path.name
    found = method.for_benchmark("kitti2015", ["training/a", "training/b"])
    assert found.predict(sample("training/a")).max() == 1
    assert found.predict(sample("training/b")).max() == 2
    assert found.sources("training/b") == (tmp_path / "b.npy",)
    assert method.for_benchmark("kitti2012", ["training/a"]).predict(sample("training/a")).min() == 3


def test_folder_prefers_floating_point_files(tmp_path: Path) -> None:
    write_values(tmp_path / "a.png", np.zeros((4, 6), np.uint8))  # a mere picture
    write_npy(tmp_path / "a.npy", prediction(2))
    write_pfm(tmp_path / "a.pfm", prediction(1))
    names = ["a"]
    assert FolderMethod(tmp_path).for_benchmark("x", names).sources("a")[0].suffix == ".pfm"
    (tmp_path / "a.pfm").unlink()
    assert FolderMethod(tmp_path).for_benchmark("x", names).sources("a")[0].suffix == ".npy"


def test_folder_does_not_mix_up_scenes_with_the_same_last_part(tmp_path: Path) -> None:
    write_pfm(tmp_path / "im0.pfm", prediction(1))
    with pytest.raises(InputError, match=r"looked for \S+/Bath/im0 with .pfm, .npy, .exr, .png \(2 of 2 .*missing\)"):
        FolderMethod(tmp_path).for_benchmark("booster", ["Bath/im0", "Washer/im0"])


def test_missing_prediction_says_what_was_looked_for(tmp_path: Path) -> None:
    write_pfm(tmp_path / "a.pfm", prediction(1))
    with pytest.raises(InputError) as told:
        FolderMethod(tmp_path).for_benchmark("eth3d", ["two_view_training/a", "two_view_training/b"])
    message = str(told.value)
    assert f"{tmp_path}/two_view_training/b or {tmp_path}/b with .pfm" in message
    assert "\n" not in message
    with pytest.raises(InputError, match=r"there is no folder .*nowhere"):
        FolderMethod(tmp_path / "nowhere")


def test_prediction_of_another_size_says_how_to_resize(tmp_path: Path) -> None:
    write_pfm(tmp_path / "a.pfm", prediction(1))
    method = FolderMethod(tmp_path).for_benchmark("x", ["a"])
    with pytest.raises(InputError, match=r"a.pfm is 6 x 4 px, but the left image of a is 12 x 8 px; resize"):
        method.predict(sample("a", (8, 12)))


@pytest.mark.parametrize(("suffix", "write"), [(".pfm", write_pfm), (".npy", write_npy)])
def test_what_is_not_finite_or_negative_stays(tmp_path: Path, suffix: str, write: object) -> None:
    """Unlike in ground truth: an infinite prediction is wrong, not unknown, and a negative one is just off."""
    values = prediction(5)
    values[0, :4] = np.nan, np.inf, -np.inf, -2.5
    values[1, 0] = 0
    write(tmp_path / f"a{suffix}", values)
    np.testing.assert_array_equal(read_prediction(tmp_path / f"a{suffix}"), values)


def test_opposite_sign_and_pictures_are_refused(tmp_path: Path) -> None:
    write_pfm(tmp_path / "a.pfm", prediction(-5))
    with pytest.raises(InputError, match="only negative disparities"):
        read_prediction(tmp_path / "a.pfm")
    write_values(tmp_path / "b.png", np.zeros((4, 6), np.uint8))
    with pytest.raises(InputError, match="8-bit PNG"):
        read_prediction(tmp_path / "b.png")
    write_pfm(tmp_path / "c.pfm", prediction(0))
    assert read_prediction(tmp_path / "c.pfm").max() == 0
