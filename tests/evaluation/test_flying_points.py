"""Flying points against brute force over all true points."""

import numpy as np
import pytest

from linstereo.errors import InputError
from linstereo.evaluation.flying_points import flying_points
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.point_cloud import point_cloud

CAMERA = StereoCalibration(focal=120.0, baseline=0.1, cx=22.0, cy=14.0, doffs=0.5, aspect=1.1)


def test_it_is_brute_force_over_all_true_points():
    rng = np.random.default_rng(0)
    truth = np.full((30, 44), 6.0, np.float32)
    truth[:, 20:] = 9.0
    truth[:3] = 0  # unknown
    disparity = np.where(truth > 0, truth, 6) * rng.uniform(0.95, 1.05, truth.shape)
    disparity[:, 18:22] = np.linspace(6, 9, 4)
    disparity[5, 5] = 0
    disparity = disparity.astype(np.float32)
    image = np.zeros((30, 44, 3), np.uint8)
    surface = point_cloud(truth, image, CAMERA, valid=truth > 0, max_depth=np.inf).points
    points = point_cloud(disparity, image, CAMERA, max_depth=np.inf).points
    assert len(points) == truth.size  # doffs keeps the last one finite
    nearest = np.linalg.norm(points[:, None] - surface[None], axis=2).min(axis=1)
    expected = (nearest > 0.02 * points[:, 2]).reshape(truth.shape)
    found = flying_points(disparity, truth, CAMERA)
    np.testing.assert_array_equal(found, expected)
    assert 0.05 < expected.mean() < 0.95
    some = rng.random(truth.shape) < 0.3
    np.testing.assert_array_equal(flying_points(disparity, truth, CAMERA, counted=some), expected & some)


def test_the_truth_does_not_fly_and_what_has_no_depth_does():
    truth = np.full((20, 30), 5.0, np.float32)
    assert not flying_points(truth, truth, CAMERA).any()
    lost = np.full((20, 30), np.nan, np.float32)
    assert flying_points(lost, truth, CAMERA).all()
    with pytest.raises(InputError, match="give equal ones"):
        flying_points(truth, truth.T, CAMERA)
