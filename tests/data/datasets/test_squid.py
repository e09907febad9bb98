"""SQUID's pairs are rectified when they are read, and their depth with them."""

from pathlib import Path

import numpy as np
import pytest
from tests.data import layouts
from tests.data.checks import assert_dataset, assert_disparity_warps, chosen
from tests.data.scenes import HEIGHT, WIDTH
from tests.data.writers import write_mat, write_rgb

from linstereo.data.datasets.catalogue import open_dataset
from linstereo.errors import InputError


@pytest.mark.parametrize("points", [False, True])
def test_a_rig_that_needs_no_rectification(tmp_path: Path, points: bool) -> None:
    known = layouts.make_squid(tmp_path, sets_per_site=2, points=points)
    dataset = open_dataset("squid", tmp_path)
    assert_dataset(dataset, known, tolerance=1e-5)
    assert_dataset(open_dataset("squid", tmp_path, "satil"), chosen(known, "Satil"), tolerance=1e-5)


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("degrees", [-2.0, 3.0])
def test_a_turned_camera(tmp_path: Path, degrees: float, points: bool) -> None:
    known = layouts.make_squid(tmp_path, degrees=degrees, points=points)
    dataset = open_dataset("squid", tmp_path)
    for index in range(len(dataset)):
        sample = dataset[index]
        before = known[sample.name]
        assert sample.calibration.baseline == pytest.approx(layouts.SQUID_BASELINE, rel=1e-6)
        assert not np.array_equal(sample.left, before.left)
        assert_disparity_warps(sample, margin=8)
        implied = sample.calibration.focal * sample.calibration.baseline / sample.disparity[sample.valid]
        np.testing.assert_allclose(sample.depth[sample.valid], implied, rtol=1e-5)
        # the cameras see the same scene, so its depths stay what they were but for the small turn of the axis
        median = np.median(before.depth[before.valid])
        assert np.median(sample.depth[sample.valid]) == pytest.approx(median, rel=0.05)


def test_distances_instead_of_points(tmp_path: Path) -> None:
    known = layouts.make_squid(tmp_path, points=True)
    for path in tmp_path.glob("*/*/xyzPoints.mat"):
        path.write_bytes(b"not a MATLAB file")
    assert_dataset(open_dataset("squid", tmp_path, "all-distance"), known, tolerance=1e-5)
    with pytest.raises(InputError, match=r"xyzPoints\.mat"):
        open_dataset("squid", tmp_path)[0]


def test_points_of_another_camera_are_refused(tmp_path: Path) -> None:
    layouts.make_squid(tmp_path, points=True)
    path = tmp_path / "Katzaa" / "image_set_01" / "xyzPoints.mat"
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    write_mat(path, xyzPointsLeft=np.stack([x * 0.01, y * 0.01, 2.0 + 0 * x], axis=-1))
    with pytest.raises(InputError, match=r"px \(median\) beside their pixels.*-distance"):
        open_dataset("squid", tmp_path)[0]


def test_a_size_that_is_not_the_calibrated_one(tmp_path: Path) -> None:
    layouts.make_squid(tmp_path)
    folder = tmp_path / "Katzaa" / "image_set_01"
    for name in ("LFT_4001resizedUndistort.tif", "RGT_3001resizedUndistort.tif"):
        write_rgb(folder / name, np.zeros((60, 80, 3), dtype=np.uint16))
    with pytest.raises(InputError, match=r"80 x 60 px but .*stereoParams0\.5\.mat is for images of 160 x 120 px"):
        open_dataset("squid", tmp_path)[0]
    write_rgb(folder / "RGT_3001resizedUndistort.tif", np.zeros((50, 80, 3), dtype=np.uint16))
    with pytest.raises(InputError, match=r"LFT_4001.*one size|RGT_3001.*one size"):
        open_dataset("squid", tmp_path)[0]


def test_a_missing_site_or_calibration(tmp_path: Path) -> None:
    layouts.make_squid(tmp_path)
    (tmp_path / "Satil").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="Satil is missing"):
        open_dataset("squid", tmp_path)
    assert len(open_dataset("squid", tmp_path, "katzaa")) == 1
    (tmp_path / "Katzaa" / "stereoParams0.5.mat").unlink()
    with pytest.raises(InputError, match=r"stereoParams0\.5\.mat"):
        open_dataset("squid", tmp_path, "katzaa")
