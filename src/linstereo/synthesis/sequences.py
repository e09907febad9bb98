"""Sequences: one scene seen by a stereo camera that moves through it smoothly, with exact ground truth.

Frame `index` of `seed` depends on the settings, the seed and the index alone. The scene is made for a wider view than
that of the camera, so that it stays closed while the camera turns.
"""

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from linstereo.data.sample import StereoSample
from linstereo.errors import InputError
from linstereo.synthesis.engine import take_sample
from linstereo.synthesis.mesh_tools import moved, pitch, yaw
from linstereo.synthesis.scene import IdealStereoRig, Lamp, Scene, SceneObject
from linstereo.synthesis.scenes import random_scene
from linstereo.synthesis.sensor import CameraKinds, random_faults

Floats = NDArray[np.float64]

MARGIN = 1.5
"""How many times as wide and as high the view is for which the scene is made."""
TURN = 0.06
"""Largest turn of the camera to either side, radians."""
TRAVEL = 0.15
"""Largest way of the camera along each axis, as a share of the distance of the nearest things."""
PERIOD = 100
"""Frames after which the path of the camera closes."""


@dataclasses.dataclass(frozen=True, eq=False)
class Pose:
    """Where the left camera stands: a point X of the scene is at rotation @ (X - position) in its frame."""

    rotation: Floats
    """[3, 3]."""
    position: Floats
    """[3] metres."""


class StereoSequence:
    """A scene and the path of a camera through it.

    Args:
        seed: of the scene, the path and the cameras, at least 0.
        height: of the images, px.
        width: of the images, px.
        kind: of the scene, see `linstereo.synthesis.scenes.FILLERS`; None chooses one in air.
        max_disparity: the largest disparity at the start, as a share of the width.
        noisy: the cameras are small ones with much noise.
    """

    def __init__(
        self,
        seed: int,
        *,
        height: int = 320,
        width: int = 640,
        kind: str | None = None,
        max_disparity: float = 0.12,
        noisy: bool = False,
    ) -> None:
        if seed < 0:
            raise InputError(f"the seed of a sequence is {seed}; it must not be negative")
        scene_source, path_source, camera_source, self._noise_source = np.random.SeedSequence((seed, 19)).spawn(4)
        wide = random_scene(
            np.random.default_rng(scene_source),
            height=round(MARGIN * height),
            width=round(MARGIN * width),
            max_disparity=max_disparity / MARGIN,
            plain=0.0,
            kind=kind,
        )
        self.scene = dataclasses.replace(wide, rig=_cropped(wide.rig, height=height, width=width))
        calibration = self.scene.rig.calibration
        self._near = calibration.focal * calibration.baseline / (max_disparity * width)
        self._phases = np.random.default_rng(path_source).uniform(0, 2 * math.pi, 5)
        kinds = CameraKinds(grey=0.0, noisy=float(noisy), margins=0.0)
        self._faults = random_faults(np.random.default_rng(camera_source), underwater=False, kinds=kinds)

    def frame(self, index: int) -> StereoSample:
        """Frame `index`, at least 0, with the ground truth of the left view."""
        if index < 0:
            raise InputError(f"the frame has the index {index}; it must not be negative")
        noise = np.random.default_rng([*self._noise_source.generate_state(4), index])
        scene = seen_from(self.scene, self.pose(index))
        return take_sample(f"{index:06d}", scene, faults=self._faults, camera_rng=noise)

    def pose(self, index: int) -> Pose:
        """Where the camera is in frame `index`: on a closed, smooth curve, looking ahead with a slight sway."""
        turns = np.array([1.0, 2.0, 1.0, 1.0, 2.0])  # in a period, of each motion
        sway, nod, x, y, z = np.sin(2 * math.pi * turns * index / PERIOD + self._phases)
        rotation = yaw(TURN * sway) @ pitch(0.5 * TURN * nod)
        return Pose(rotation, TRAVEL * self._near * np.array([x, 0.5 * y, 0.5 * z]))


def seen_from(scene: Scene, pose: Pose) -> Scene:
    """The same scene in the frame of a left camera that stands elsewhere."""

    def place(point: tuple[float, float, float]) -> tuple[float, float, float]:
        return _triple(pose.rotation @ (np.array(point) - pose.position))

    def direction(vector: tuple[float, float, float]) -> tuple[float, float, float]:
        return _triple(pose.rotation @ np.array(vector))

    shift = -pose.rotation @ pose.position
    lighting = scene.lighting
    return dataclasses.replace(
        scene,
        objects=tuple(
            SceneObject(moved(item.mesh, rotation=pose.rotation, translation=shift), item.material)
            for item in scene.objects
        ),
        lighting=dataclasses.replace(
            lighting,
            sun_direction=direction(lighting.sun_direction),
            lamps=tuple(Lamp(place(lamp.position), lamp.colour) for lamp in lighting.lamps),
        ),
        up=direction(scene.up),
    )


def _cropped(rig: IdealStereoRig, *, height: int, width: int) -> IdealStereoRig:
    """The cameras with only the middle of their images."""
    calibration = rig.calibration
    left, top = (rig.width - width) / 2, (rig.height - height) / 2
    return IdealStereoRig(
        height, width, dataclasses.replace(calibration, cx=calibration.cx - left, cy=calibration.cy - top)
    )


def _triple(vector: Floats) -> tuple[float, float, float]:
    return float(vector[0]), float(vector[1]), float(vector[2])
