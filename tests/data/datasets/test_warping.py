"""Every reader proven on real pairs: the right image, warped by the ground truth that was read, gives the left one.

A wrong sign, scale, byte order, row order or mask cannot pass: the ground truth must beat no disparity at all, the
flipped sign, half and twice the disparity. Where the real files are only part of a dataset, its official layout is
built from links to them.
"""

from pathlib import Path

import cv2
import numpy as np
import pytest
from tests.data.checks import assert_disparity_warps, comparable

from linstereo.data.datasets.catalogue import open_dataset
from linstereo.data.datasets.tartanair import open_tartanair_uw
from linstereo.data.sample import StereoDataset
from linstereo.errors import InputError


def link(target: Path, source: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(source)


def assert_all_warp(dataset: StereoDataset, *, pairs: int, gain: float = 2.0) -> None:
    """All pairs warp, and the ground truth is at least `gain` times better than no warping."""
    assert len(dataset) == pairs
    for index in range(pairs):
        errors = assert_disparity_warps(dataset[index])
        assert gain * errors["truth"] < errors["unwarped"], (dataset.sample_name(index), errors)


def test_middlebury_v3(stereo_data: Path) -> None:
    dataset = open_dataset("middlebury", stereo_data / "middlebury_v3", "trainingQ")
    assert_all_warp(dataset, pairs=2)
    motorcycle = dataset[0]
    assert motorcycle.name == "trainingQ/Motorcycle"
    assert int(motorcycle.valid.sum()) == 319078 + 41515
    assert int(motorcycle.occluded.sum()) == 41515
    assert motorcycle.calibration.doffs == 32.778
    assert motorcycle.calibration.baseline == 0.193001


def test_occlusion_mask_of_middlebury(stereo_data: Path) -> None:
    """Points marked as occluded do not match, the others do."""
    sample = open_dataset("middlebury", stereo_data / "middlebury_v3", "trainingQ")[0]
    y, x = np.mgrid[: sample.left.shape[0], : sample.left.shape[1]].astype(np.float32)
    warped = cv2.remap(sample.right, x - sample.disparity, y, cv2.INTER_LINEAR).astype(float)
    difference = np.abs(warped - sample.left).mean(axis=2)
    inside = x - sample.disparity >= 0
    assert difference[sample.occluded & inside].mean() > 3 * difference[comparable(sample)].mean()


def test_middlebury_2005_and_2006(stereo_data: Path, tmp_path: Path) -> None:
    real = stereo_data / "middlebury_2005_2006_third"
    for year, scenes in ((2005, ["Reindeer"]), (2006, ["Aloe", "Baby1", "Cloth1"])):
        for scene in scenes:
            link(tmp_path / str(year) / scene, real / scene)
        assert_all_warp(open_dataset(f"middlebury{year}", tmp_path / str(year), "third"), pairs=len(scenes))
    with pytest.raises(InputError, match="choose the split 'third'"):
        open_dataset("middlebury2006", tmp_path / "2006", "full")[0]


def test_middlebury_2001_and_2003(stereo_data: Path, tmp_path: Path) -> None:
    real = stereo_data / "middlebury_2001_2003"
    for year, scenes in ((2001, ["tsukuba", "venus"]), (2003, ["cones"])):
        for scene in scenes:
            link(tmp_path / str(year) / scene, real / scene)
        assert_all_warp(open_dataset(f"middlebury{year}", tmp_path / str(year)), pairs=len(scenes), gain=1.5)


def test_kitti2015(stereo_data: Path, tmp_path: Path) -> None:
    """One frame is complete; of the others only the ground truth without, or only that with occlusions is there."""
    real = stereo_data / "kitti2015" / "training"
    frames = {"000002": ("disp_occ_0", "disp_noc_0"), "000010": ("disp_noc_0", "disp_noc_0")}
    for frame, (occ, noc) in frames.items():
        training = tmp_path / "both" / "training"
        for folder in ("image_2", "image_3"):
            link(training / folder / f"{frame}_10.png", real / folder / f"{frame}_10.png")
        link(training / "disp_occ_0" / f"{frame}_10.png", real / occ / f"{frame}_10.png")
        link(training / "disp_noc_0" / f"{frame}_10.png", real / noc / f"{frame}_10.png")
    link(tmp_path / "both" / "training" / "calib_cam_to_cam", real / "calib_cam_to_cam")
    dataset = open_dataset("kitti2015", tmp_path / "both")
    assert_all_warp(dataset, pairs=2)
    first = dataset[0]
    assert int(first.valid.sum()) == 100480
    assert int(first.occluded.sum()) == 355
    assert first.calibration.focal == pytest.approx(721.5377)
    assert first.calibration.baseline == pytest.approx(0.5327, abs=1e-3)
    assert dataset[1].calibration is None

    for folder in ("image_2", "image_3", "disp_occ_0"):
        link(tmp_path / "occ" / "training" / folder / "000046_10.png", real / folder / "000046_10.png")
    dataset = open_dataset("kitti2015", tmp_path / "occ")
    assert_all_warp(dataset, pairs=1)
    assert dataset[0].occluded is None


def test_sceneflow(stereo_data: Path, tmp_path: Path) -> None:
    real = stereo_data / "sceneflow" / "dmb_demo_0"
    base = tmp_path / "FlyingThings3D"
    for side in ("left", "right"):
        link(base / f"frames_finalpass/TEST/A/0000/{side}/0006.png", real / "images" / side / "0.png")
    link(base / "disparity/TEST/A/0000/left/0006.pfm", real / "disparity" / "left" / "0.pfm")
    dataset = open_dataset("sceneflow", tmp_path, "test")
    assert_all_warp(dataset, pairs=1)
    assert dataset[0].valid.all()


def tartanair(tmp_path: Path, *, environment: str, left: Path, right: Path, disparity: np.ndarray) -> StereoDataset:
    folder = tmp_path / environment / "Easy" / "P000"
    link(folder / "image_left" / "000000_left.png", left)
    link(folder / "image_right" / "000000_right.png", right)
    (folder / "depth_left").mkdir()
    with np.errstate(divide="ignore"):
        np.save(folder / "depth_left" / "000000_left_depth.npy", (80 / disparity).astype(np.float32))
    return open_tartanair_uw(tmp_path, "easy", environment=environment)


def test_tartanair(stereo_data: Path, tmp_path: Path) -> None:
    """The real file holds disparity, from which the depth that the official layout has is made."""
    real = stereo_data / "tartanair_v1" / "OldTown_Easy_P000_001116"
    disparity = np.load(real / "001116_left_disp.npy", allow_pickle=False)
    dataset = tartanair(
        tmp_path,
        environment="oldtown",
        left=real / "001116_left.png",
        right=real / "001116_right.png",
        disparity=disparity,
    )
    assert_all_warp(dataset, pairs=1, gain=1.3)
    sample = dataset[0]
    np.testing.assert_allclose(sample.disparity, disparity, rtol=1e-5)
    assert sample.calibration.focal * sample.calibration.baseline == 80


def test_tartanair_ocean(stereo_data: Path, tmp_path: Path) -> None:
    """An underwater pair whose ground truth is only approximate: it warps all the same."""
    real = stereo_data / "tartanair_uw_visGT" / "ocean_Easy_P000_000000"
    disparity = cv2.imread(str(real / "approx_disp_x256_u16.png"), cv2.IMREAD_UNCHANGED) / 256
    dataset = tartanair(
        tmp_path, environment="ocean", left=real / "left.png", right=real / "right.png", disparity=disparity
    )
    assert len(open_dataset("tartanair-uw", tmp_path, "easy")) == 1
    assert_all_warp(dataset, pairs=1, gain=1.2)


def test_eth3d_images(stereo_data: Path, tmp_path: Path) -> None:
    """A pair without ground truth: its images and calibration are read as those of a test scene."""
    real = stereo_data / "eth3d_pairs_noGT"
    with pytest.raises(InputError, match="two_view_training_gt"):
        open_dataset("eth3d", real)
    link(tmp_path / "two_view_testing", real / "two_view_training")
    sample = open_dataset("eth3d", tmp_path, "test")[0]
    assert sample.left.shape == sample.right.shape == (489, 942, 3)
    assert sample.disparity is None
    assert sample.calibration.focal == 541.764
    assert sample.calibration.baseline == pytest.approx(0.0599101)
