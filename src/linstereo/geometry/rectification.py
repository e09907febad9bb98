"""From two cameras that look in roughly the same direction to a rectified pair."""

import dataclasses
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration


@dataclasses.dataclass(frozen=True, eq=False)
class StereoRig:
    """Two cameras without lens distortion (or whose images were undistorted) and how they stand to each other."""

    left_matrix: npt.NDArray[np.float64]
    """[3, 3], [f_x 0 c_x; 0 f_y c_y; 0 0 1] in pixels, the centre of the top left pixel being (0, 0)."""
    right_matrix: npt.NDArray[np.float64]
    """[3, 3], the same for the right camera."""
    rotation: npt.NDArray[np.float64]
    """[3, 3], with `translation`: the right camera sees the left camera's point X at rotation @ X + translation."""
    translation: npt.NDArray[np.float64]
    """[3], metres; the first number is negative when the right camera is on the right."""
    width: int
    """Of the images of both cameras, in pixels."""
    height: int
    """Of the images of both cameras, in pixels."""

    def __post_init__(self) -> None:
        for name, shape in (
            ("left_matrix", (3, 3)),
            ("right_matrix", (3, 3)),
            ("rotation", (3, 3)),
            ("translation", (3,)),
        ):
            value = getattr(self, name)
            if value.shape != shape or not np.isfinite(value).all():
                raise InputError(f"the rig's {name} is {value.tolist()}; it must be {shape} finite numbers")
        for name in ("left_matrix", "right_matrix"):
            matrix = getattr(self, name)
            if min(matrix[0, 0], matrix[1, 1]) <= 0 or matrix[1, 0] != 0 or not np.array_equal(matrix[2], [0, 0, 1]):
                raise InputError(f"the rig's {name} is {matrix.tolist()}; it must be [f_x 0 c_x; 0 f_y c_y; 0 0 1]")
        if np.abs(self.rotation @ self.rotation.T - np.eye(3)).max() > 1e-3 or np.linalg.det(self.rotation) < 0:
            raise InputError(f"the rig's rotation is {self.rotation.tolist()}; it must be a rotation matrix")
        if self.width <= 0 or self.height <= 0:
            raise InputError(f"the rig's images are {self.width} x {self.height} pixels; both must be greater than 0")
        if self.translation[0] >= 0:
            raise InputError("the rig's right camera is not on the right of the left one; swap the two images")


class Rectification:
    """Turns the images of a `StereoRig` into a rectified pair of the same size; `calibration` belongs to the result."""

    def __init__(self, rig: StereoRig) -> None:
        size = (rig.width, rig.height)
        none = np.zeros(5)
        self._rig = rig
        self._rotation, right_rotation, left_projection, right_projection, *_ = cv2.stereoRectify(
            rig.left_matrix,
            none,
            rig.right_matrix,
            none,
            size,
            rig.rotation,
            rig.translation.reshape(3, 1),
            flags=cv2.CALIB_ZERO_DISPARITY,
            alpha=0,  # no pixel of the result lies outside of the given images
        )
        self.calibration = StereoCalibration(
            focal=float(left_projection[0, 0]),
            baseline=float(-right_projection[0, 3] / right_projection[0, 0]),
            cx=float(left_projection[0, 2]),
            cy=float(left_projection[1, 2]),
            doffs=float(right_projection[0, 2] - left_projection[0, 2]),
            aspect=float(left_projection[1, 1] / left_projection[0, 0]),
        )
        self._left_maps = cv2.initUndistortRectifyMap(
            rig.left_matrix, none, self._rotation, left_projection, size, cv2.CV_32FC1
        )
        self._right_maps = cv2.initUndistortRectifyMap(
            rig.right_matrix, none, right_rotation, right_projection, size, cv2.CV_32FC1
        )

    def left(self, image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """The rectified left image, uint8 [H, W, 3], of the left image as taken."""
        return self._remap(image, self._left_maps)

    def right(self, image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """The rectified right image, uint8 [H, W, 3], of the right image as taken."""
        return self._remap(image, self._right_maps)

    def left_depth(self, points: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Depth in the rectified left image, float32 [H, W] in metres, 0 where unknown.

        `points` [H, W, 3] are the scene points, in metres and coordinates of the left camera as it stands (x
        right, y down, z forward), of the pixels of the left image as taken; NaN where unknown. Each pixel of
        the result takes the nearest of them, so that no depth is invented between near and far.
        """
        depth = points.astype(np.float64) @ self._rotation[2]  # [H, W], z after turning the camera
        depth[~(np.isfinite(depth) & (depth > 0))] = 0
        self._check_size(depth)
        nearest = cv2.remap(depth.astype(np.float32), *self._left_maps, interpolation=cv2.INTER_NEAREST)
        return np.asarray(nearest, dtype=np.float32)

    def _remap(self, image: npt.NDArray[np.uint8], maps: tuple[Any, Any]) -> npt.NDArray[np.uint8]:
        self._check_size(image)
        return np.asarray(cv2.remap(image, *maps, interpolation=cv2.INTER_LINEAR), dtype=np.uint8)

    def _check_size(self, image: npt.NDArray[np.generic]) -> None:
        height, width = image.shape[:2]
        if (width, height) != (self._rig.width, self._rig.height):
            raise InputError(
                f"the image is {width} x {height} pixels, the calibration is for "
                f"{self._rig.width} x {self._rig.height}; give images of that size"
            )


def points_at_distance(
    distance: npt.NDArray[np.float32], camera_matrix: npt.NDArray[np.float64]
) -> npt.NDArray[np.float32]:
    """Scene points float32 [H, W, 3] in metres and camera coordinates from distances to the camera's centre.

    `distance` is [H, W] in metres along the line of sight (not along the optical axis), 0 where unknown,
    which gives NaN.
    """
    height, width = distance.shape
    x = (np.arange(width) - camera_matrix[0, 2]) / camera_matrix[0, 0]  # [W]
    y = (np.arange(height) - camera_matrix[1, 2]) / camera_matrix[1, 1]  # [H]
    rays = np.stack(np.broadcast_arrays(x[None, :], y[:, None], 1.0), axis=-1)  # [H, W, 3]
    known = np.where(distance > 0, distance, np.nan)[..., None]  # [H, W, 1]
    points = rays / np.linalg.norm(rays, axis=-1, keepdims=True) * known  # [H, W, 3]
    return np.asarray(points, dtype=np.float32)
