"""The readers on files as the benchmarks publish them."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from linstereo.data.formats.calibration_files import read_kitti_calibration, read_middlebury_calibration
from linstereo.data.formats.disparity import read_disparity, write_disparity
from linstereo.data.formats.images import read_image
from linstereo.data.formats.npy import read_npy
from linstereo.data.formats.pfm import read_pfm, write_pfm
from linstereo.data.formats.png import read_png_values
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth import disparity_to_depth


def test_every_picture_is_what_opencv_reads(stereo_data: Path) -> None:
    pictures = sorted(stereo_data.rglob("*.png"))
    assert len(pictures) > 40
    for path in pictures:
        stored = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        expected = cv2.imread(str(path), cv2.IMREAD_COLOR)[..., ::-1]
        image = read_image(path)
        if stored.dtype == np.uint16:  # OpenCV drops the lower byte instead of scaling by the bits that are used
            white = 2 ** int(stored.max()).bit_length() - 1
            expected = np.repeat(np.rint(stored * (255 / white))[..., None], 3, axis=2)
        np.testing.assert_array_equal(image, expected, err_msg=str(path))


@pytest.mark.parametrize(
    ("scene", "shape", "unknown", "largest"),
    [("Motorcycle", (497, 741), 7684, 62.877350), ("Recycle", (486, 720), 5853, 55.851624)],
)
def test_middlebury_disparity(
    stereo_data: Path, tmp_path: Path, scene: str, shape: tuple[int, int], unknown: int, largest: float
) -> None:
    path = stereo_data / "middlebury_v3/trainingQ" / scene / "disp0GT.pfm"
    stored = read_pfm(path)
    assert stored.shape == shape
    assert int(np.isinf(stored).sum()) == unknown
    # OpenCV divides by the scale in the header, 0.003922, which Middlebury does not mean that way
    np.testing.assert_allclose(stored, cv2.imread(str(path), cv2.IMREAD_UNCHANGED) * 0.003922, rtol=1e-6)
    disparity = read_disparity(path)
    np.testing.assert_array_equal(disparity == 0, np.isinf(stored))
    assert disparity.max() == pytest.approx(largest)
    mask = read_png_values(path.with_name("mask0nocc.png"))
    assert set(np.unique(mask)) == {0, 128, 255}
    assert (disparity[mask == 255] > 0).all()
    write_pfm(tmp_path / "back.pfm", stored)
    np.testing.assert_array_equal(read_pfm(tmp_path / "back.pfm"), stored)


def test_sceneflow_disparity(stereo_data: Path) -> None:
    path = stereo_data / "sceneflow/dmb_demo_0/disparity/left/0.pfm"
    disparity = read_disparity(path)
    assert disparity.shape == (540, 960)
    assert (disparity > 0).all()
    values = np.fromfile(path, dtype="<f4", offset=path.stat().st_size - 4 * disparity.size)
    np.testing.assert_array_equal(disparity, np.flipud(values.reshape(disparity.shape)))


def test_kitti_disparity(stereo_data: Path, tmp_path: Path) -> None:
    path = stereo_data / "kitti_devkit_2015/disp_gt.png"
    stored = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    disparity = read_disparity(path)
    np.testing.assert_array_equal(disparity, stored / 256)
    assert int((disparity > 0).sum()) == 111_326
    write_disparity(tmp_path / "back.png", disparity)
    np.testing.assert_array_equal(cv2.imread(str(tmp_path / "back.png"), cv2.IMREAD_UNCHANGED), stored)


def test_tartanair_npy(stereo_data: Path) -> None:
    path = stereo_data / "tartanair_v1/OldTown_Easy_P000_001116/001116_left_disp.npy"
    values = read_npy(path)
    assert values.shape == (480, 640)
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, np.load(path, allow_pickle=False))
    np.testing.assert_array_equal(read_disparity(path), values)


@pytest.mark.parametrize("folder", ["cones", "tsukuba", "venus"])
def test_middlebury_disparities_stored_as_rgb(stereo_data: Path, folder: str) -> None:
    path = stereo_data / "middlebury_2001_2003" / folder / "disp2.png"
    values = read_png_values(path)
    assert values.dtype == np.uint8
    np.testing.assert_array_equal(values, cv2.imread(str(path), cv2.IMREAD_UNCHANGED)[..., 1])


def test_middlebury_calibration(stereo_data: Path) -> None:
    calibration = read_middlebury_calibration(stereo_data / "middlebury_v3/trainingQ/Motorcycle/calib.txt")
    assert calibration == StereoCalibration(focal=999.421, baseline=0.193001, cx=294.182, cy=252.932, doffs=32.778)
    disparity = read_disparity(stereo_data / "middlebury_v3/trainingQ/Motorcycle/disp0GT.pfm")
    depth = disparity_to_depth(disparity, calibration)[disparity > 0]
    assert 1.5 < depth.min() < depth.max() < 6, "a motorcycle in a workshop, seen from a few metres"
    recycle = read_middlebury_calibration(stereo_data / "middlebury_v3/trainingQ/Recycle/calib.txt")
    assert (recycle.focal, recycle.baseline, recycle.doffs) == (746.775, 0.178232, 44.112)


def test_eth3d_calibration(stereo_data: Path) -> None:
    path = stereo_data / "eth3d_pairs_noGT/two_view_training/delivery_area_1l/calib.txt"
    assert read_middlebury_calibration(path) == StereoCalibration(
        focal=541.764, baseline=0.0599101, cx=553.869, cy=232.396
    )


def test_kitti_calibration(stereo_data: Path) -> None:
    path = stereo_data / "kitti2015/training/calib_cam_to_cam/000002.txt"
    colour, grey = read_kitti_calibration(path), read_kitti_calibration(path, grey=True)
    assert colour.baseline == pytest.approx((44.85728 + 339.5242) / 721.5377)
    assert colour.baseline == pytest.approx(0.5327, abs=1e-4)
    assert grey.baseline == pytest.approx(0.5372, abs=1e-4)
    assert (colour.focal, colour.cx, colour.cy, colour.doffs) == (721.5377, 609.5593, 172.854, 0.0)
