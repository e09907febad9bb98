"""The camera moves as its path says: points seen in one frame are where the poses put them in another."""

import numpy as np
import pytest

from linstereo.errors import InputError
from linstereo.synthesis.sequences import StereoSequence

HEIGHT, WIDTH = 96, 160


@pytest.fixture(scope="module")
def sequence():
    return StereoSequence(5, kind="tabletop", height=HEIGHT, width=WIDTH)


def test_geometry_follows_the_poses(sequence):
    calibration = sequence.scene.rig.calibration
    one, other = sequence.frame(0), sequence.frame(6)
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    depth = one.depth.astype(np.float64)
    rays = np.stack([(columns - calibration.cx), (rows - calibration.cy), np.full(depth.shape, calibration.focal)], -1)
    points = rays / calibration.focal * depth[..., None]
    start, end = sequence.pose(0), sequence.pose(6)
    world = points @ start.rotation + start.position
    moved = (world - end.position) @ end.rotation.T
    x = np.rint(moved[..., 0] / moved[..., 2] * calibration.focal + calibration.cx).astype(int)
    y = np.rint(moved[..., 1] / moved[..., 2] * calibration.focal + calibration.cy).astype(int)
    seen = (x >= 0) & (x < WIDTH) & (y >= 0) & (y < HEIGHT)
    found = other.depth[y[seen], x[seen]]
    close = np.abs(found / moved[..., 2][seen] - 1) < 0.02
    assert close.mean() > 0.85  # the others are hidden, or at an edge
    assert np.hypot(x - columns, y - rows)[seen].mean() > 1.5  # the camera did move
    assert one.calibration == other.calibration


def test_frames_depend_on_the_seed_and_the_index_alone(sequence):
    again = StereoSequence(5, kind="tabletop", height=HEIGHT, width=WIDTH).frame(3)
    once = sequence.frame(3)
    np.testing.assert_array_equal(once.left, again.left)
    np.testing.assert_array_equal(once.disparity, again.disparity)
    assert np.abs(sequence.pose(100).position - sequence.pose(0).position).max() < 1e-9


def test_bad_numbers_are_refused(sequence):
    with pytest.raises(InputError, match="index"):
        sequence.frame(-1)
    with pytest.raises(InputError, match="seed"):
        StereoSequence(-1)
