"""Rendered pictures of the target that several tests look at; each is made once."""

import functools

import numpy as np

from linstereo.geometry.calibration import StereoCalibration
from linstereo.synthesis.scene import IdealStereoRig
from linstereo.synthesis.sensor import CameraFaults, PairFaults
from linstereo.synthesis.water import WATER_TYPES
from linstereo.tank.pose import Pose
from linstereo.tank.scene import TankView, photograph_target, random_pose
from linstereo.tank.target import make_target

TARGET = make_target()
RIG = IdealStereoRig(480, 640, StereoCalibration(focal=560.0, baseline=0.08, cx=319.5, cy=239.5))
CALIBRATION = RIG.calibration
_CAMERA = CameraFaults(blur=0.5, full_well=8000.0, read_noise=4.0)
CLEAN = PairFaults(_CAMERA, _CAMERA, brightness=0.25, white_balance=0.3)


@functools.cache
def straight_view() -> TankView:
    """The target nearly straight ahead at 0.8 m in clear water, both images."""
    angle = 0.2
    turn = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
    pose = Pose(turn, np.array([0.02, 0.10, 0.8]))
    return photograph_target(TARGET, pose, np.random.default_rng(1), water_type="IB", rig=RIG, faults=CLEAN, right=True)


@functools.cache
def random_view(index: int) -> TankView:
    """The target from a random side at 0.4 to 1.2 m, with random faults, in one type of water after the other."""
    rng = np.random.default_rng((3, index))
    pose = random_pose(rng, TARGET, RIG, distance=(0.4, 1.2))
    return photograph_target(TARGET, pose, rng, water_type=WATER_TYPES[index % 7], rig=RIG, right=False)
