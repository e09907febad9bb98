"""What tests of datasets check again and again: that samples are the same, and that a disparity is right.

The proof of a disparity is by warping: the right image sampled at x - d must look like the left one, best for d itself.
"""

import cv2
import numpy as np
import pytest

from linstereo.data.sample import StereoDataset, StereoSample


def assert_same(found: StereoSample, expected: StereoSample, *, tolerance: float = 0.0) -> None:
    assert found.name == expected.name
    for field in ("left", "right", "disparity", "valid", "occluded", "depth"):
        actual, wanted = getattr(found, field), getattr(expected, field)
        assert (actual is None) == (wanted is None), field
        if wanted is not None:
            assert actual.dtype == wanted.dtype, field
            np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=0, err_msg=field)
    assert (found.calibration is None) == (expected.calibration is None)
    if expected.calibration is not None:
        for field in ("focal", "baseline", "cx", "cy", "doffs", "aspect"):
            assert getattr(found.calibration, field) == pytest.approx(getattr(expected.calibration, field), rel=1e-9)


def assert_dataset(dataset: StereoDataset, known: dict[str, StereoSample], *, tolerance: float = 0.0) -> None:
    names = [dataset.sample_name(index) for index in range(len(dataset))]
    assert sorted(names) == sorted(known)
    assert names == sorted(names) or len(names) == 1
    for index, name in enumerate(names):
        assert_same(dataset[index], known[name], tolerance=tolerance)
    with pytest.raises(IndexError):
        dataset[len(dataset)]


def chosen(known: dict[str, StereoSample], *starts: str) -> dict[str, StereoSample]:
    return {name: pair for name, pair in known.items() if name.startswith(starts)}


def warping_error(sample: StereoSample, disparity: np.ndarray, *, where: np.ndarray) -> float:
    """Mean absolute difference of the left image and the right one sampled at x - `disparity`, over `where`."""
    y, x = np.mgrid[: disparity.shape[0], : disparity.shape[1]].astype(np.float32)
    warped = cv2.remap(
        sample.right, x - disparity.astype(np.float32), y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return float(np.abs(warped.astype(np.float64) - sample.left)[where].mean())


def comparable(sample: StereoSample, *, margin: int = 0) -> np.ndarray:
    """Pixels with ground truth, seen by both cameras as far as is known, whose match is inside the right image."""
    columns = np.arange(sample.disparity.shape[1])
    where = sample.valid & (columns - sample.disparity >= margin)
    if sample.occluded is not None:
        where &= ~sample.occluded
    if margin:
        inner = np.zeros_like(where)
        inner[margin:-margin, margin:-margin] = True
        where &= inner
    return where


def warping_errors(sample: StereoSample, *, margin: int = 0) -> dict[str, float]:
    """Warping error for the ground truth and for four wrong readings of it."""
    where = comparable(sample, margin=margin)
    candidates = {"truth": 1.0, "unwarped": 0.0, "sign flipped": -1.0, "halved": 0.5, "doubled": 2.0}
    return {name: warping_error(sample, factor * sample.disparity, where=where) for name, factor in candidates.items()}


def assert_disparity_warps(sample: StereoSample, *, margin: int = 0) -> dict[str, float]:
    """Fail unless the disparity explains the left image better than all wrong readings of it."""
    errors = warping_errors(sample, margin=margin)
    assert comparable(sample, margin=margin).mean() > 0.1
    for name, error in errors.items():
        assert name == "truth" or errors["truth"] < error, (sample.name, errors)
    return errors
