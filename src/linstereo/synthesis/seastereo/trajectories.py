"""The seven camera trajectories, and the poses of both cameras along them.

Each is a curve over the sea floor in the frame of the scene (see `terrain`): the left camera's place and the point that
it looks at, with heights above the floor. They are varied by the configuration: mirrored, turned about the middle of
the scene, and scaled a little. The rig stays level.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from linstereo.synthesis.seastereo.terrain import Floats, Terrain

CLEARANCE = 0.45
"""Metres that the cameras keep from the floor, at least, in every direction."""

Curve = Callable[[float], tuple[tuple[float, float, float], tuple[float, float, float]]]
"""From 0 (first frame) to 1 (last): place and target, each x, y and height above the floor, metres."""


def _approach(u: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    return (0.0, -6.0 + 2.7 * u, 1.7 - 0.5 * u), (0.0, 0.6, 0.45)


def _orbit(u: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    angle = math.radians(-48 + 96 * u)
    return (4.3 * math.sin(angle), -4.3 * math.cos(angle), 1.45), (0.0, 0.0, 0.5)


def _truck(u: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    x = -2.0 + 4.0 * u
    return (x, -4.3, 1.25), (0.75 * x, 1.0, 0.55)


def _descent(u: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    return (0.6 - 0.9 * u, -4.9 + 1.0 * u, 3.1 - 2.1 * u), (0.0, 0.4, 0.3 + 0.2 * u)


def _retreat(u: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    return (-0.8 + 1.2 * u, -3.4 - 2.8 * u, 0.95 + 1.2 * u), (0.0, 0.8, 0.5)


def _weave(u: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    swing = math.sin(2 * math.pi * u)
    return (1.1 * swing, -6.2 + 2.6 * u, 1.35 + 0.2 * math.cos(2 * math.pi * u)), (0.35 * swing, 1.0, 0.5)


def _pan(u: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    angle = math.radians(-24 + 48 * u)
    x, y = -0.4 + 0.8 * u, -4.4 - 0.3 * u
    return (x, y, 1.4), (x + 5.0 * math.sin(angle), y + 5.0 * math.cos(angle), 0.55)


CURVES: Mapping[int, tuple[str, Curve]] = MappingProxyType(
    {
        1: ("approach", _approach),
        2: ("orbit", _orbit),
        3: ("truck", _truck),
        4: ("descent", _descent),
        5: ("retreat", _retreat),
        6: ("weave", _weave),
        7: ("pan", _pan),
    }
)
"""By number: name and curve."""


@dataclass(frozen=True, eq=False)
class CameraPath:
    """Where the cameras are in each frame.

    Args:
        left: [F, 4, 4] poses of the left camera: from its frame (x right, y down, z ahead) to that of the scene.
        baseline: metres from the left to the right camera, along the left one's x axis.
    """

    left: Floats
    baseline: float

    @property
    def right(self) -> Floats:
        """[F, 4, 4] poses of the right camera."""
        poses = self.left.copy()
        poses[:, :3, 3] += self.baseline * poses[:, :3, 0]
        return poses

    @property
    def places(self) -> Floats:
        """[2 F, 3] where either camera ever is."""
        return np.concatenate([self.left[:, :3, 3], self.right[:, :3, 3]])


def camera_path(
    trajectory: int, terrain: Terrain, *, baseline: float, frames: int, rng: np.random.Generator
) -> CameraPath:
    """The path of a trajectory over a floor, varied by `rng`; both cameras keep `CLEARANCE` above it."""
    _, curve = CURVES[trajectory]
    mirror = -1.0 if rng.random() < 0.5 else 1.0
    turn, scale = rng.uniform(0, 2 * np.pi), rng.uniform(0.95, 1.1)
    cosine, sine = math.cos(turn), math.sin(turn)
    poses = np.empty((frames, 4, 4))
    for frame in range(frames):
        ends = []
        for x, y, height in curve(frame / max(frames - 1, 1)):
            x, y = mirror * scale * x, scale * y
            x, y = cosine * x - sine * y, sine * x + cosine * y
            ends.append(np.array([x, y, float(terrain.height(x, y)) + height]))
        ends[0][2] = max(ends[0][2], terrain.highest(ends[0][0], ends[0][1], within=0.5) + CLEARANCE)
        poses[frame] = look_at(ends[0], ends[1])
    return CameraPath(_smoothed(poses), baseline)


def look_at(place: Floats, target: Floats) -> Floats:
    """The pose [4, 4] of a level camera at `place` [3] that looks at `target` [3], not straight up or down."""
    ahead = (target - place) / np.linalg.norm(target - place)
    right = np.cross(ahead, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, np.cross(ahead, right), ahead], axis=1)
    pose[:3, 3] = place
    return pose


def _smoothed(poses: Floats) -> Floats:
    """The same poses with heights free of jolts, nowhere lower than before."""
    height = poses[:, 2, 3]
    window = np.hanning(9)[1:-1]
    smooth = np.convolve(np.pad(height, 3, mode="edge"), window / window.sum(), mode="valid")
    lift = max(float((height - smooth).max()), 0.0)
    result = poses.copy()
    result[:, 2, 3] = smooth + lift
    return result
