"""From two cameras that look in roughly the same direction to a rectified pair."""

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.stereo_rig import Distortion, StereoRig

MAX_ANGLE = 60.0
"""Degrees from the optical axis up to which the picture of a fisheye lens is kept: a plane that took in 90 would be
infinitely large, and each degree costs resolution in the middle."""
_GRID = 32  # samples along each side of an image
_MAX_FOLDED = 0.01  # of the result
_MAX_ZOOM = 8.0


class Rectification:
    """Turns the images of a `StereoRig` into a rectified pair of the same size; `calibration` belongs to the result.

    Both rectified cameras have the same focal length and principal point, so that infinity has the disparity 0.

    Args:
        rig: the two cameras.
        alpha: 0 crops to pixels that both given images fill, 1 keeps all their pixels, with black around them; of a
            fisheye lens, those within `MAX_ANGLE`.
    """

    def __init__(self, rig: StereoRig, *, alpha: float = 0.0) -> None:
        if not 0 <= alpha <= 1:
            raise InputError(f"alpha is {alpha}; it must be from 0 (crop) to 1 (keep all pixels)")
        self._rig = rig
        # [3, 3], from the coordinates of the left camera as it stands to those of the rectified one
        self.rotation, right_rotation, left_projection, right_projection = _projections(rig, alpha)
        self.calibration = StereoCalibration(
            focal=float(left_projection[0, 0]),
            baseline=float(-right_projection[0, 3] / right_projection[0, 0]),
            cx=float(left_projection[0, 2]),
            cy=float(left_projection[1, 2]),
            doffs=float(right_projection[0, 2] - left_projection[0, 2]),
            aspect=float(left_projection[1, 1] / left_projection[0, 0]),
        )
        magnified = self.calibration.focal / rig.left_matrix[0, 0]
        if not 1 / _MAX_ZOOM <= magnified <= _MAX_ZOOM:
            raise InputError(
                f"rectified, the images would be magnified {magnified:.2g} times; check the rotation between the "
                "cameras and the distortion coefficients"
            )
        size = (rig.width, rig.height)
        self._left_maps = _maps(rig.left_matrix, rig.left_distortion, self.rotation, left_projection, size)
        self._right_maps = _maps(rig.right_matrix, rig.right_distortion, right_rotation, right_projection, size)
        for side, maps in (("left", self._left_maps), ("right", self._right_maps)):
            _check_maps(maps, size, side)

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
        depth = points.astype(np.float64) @ self.rotation[2]  # [H, W], z after turning the camera
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


def _projections(rig: StereoRig, alpha: float) -> tuple[npt.NDArray[np.float64], ...]:
    """Rotations [3, 3] and projections [3, 4] of the two rectified cameras: R1, R2, P1, P2 in OpenCV's names."""
    fisheye = "equidistant" in (rig.left_distortion.kind, rig.right_distortion.kind)
    none = np.zeros(5)
    try:
        found = cv2.stereoRectify(
            rig.left_matrix,
            none if fisheye else rig.left_distortion.array,
            rig.right_matrix,
            none if fisheye else rig.right_distortion.array,
            (rig.width, rig.height),
            rig.rotation,
            rig.translation.reshape(3, 1),
            flags=cv2.CALIB_ZERO_DISPARITY,
            alpha=alpha,
        )
    except cv2.error as error:
        raise InputError("OpenCV cannot rectify this rig; check its matrices, rotation and translation") from error
    left_rotation, right_rotation, left_projection, right_projection = (np.asarray(m, np.float64) for m in found[:4])
    if fisheye:  # the rotations depend on the pose alone
        matrix = _fisheye_matrix(rig, (left_rotation, right_rotation), alpha)
        left_projection = np.concatenate([matrix, np.zeros((3, 1))], axis=1)
        right_projection = left_projection.copy()
        right_projection[0, 3] = -matrix[0, 0] * rig.baseline
    return left_rotation, right_rotation, left_projection, right_projection


def _fisheye_matrix(
    rig: StereoRig, rotations: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]], alpha: float
) -> npt.NDArray[np.float64]:
    """The matrix [3, 3] of both rectified cameras, between the pictures' inner (alpha 0) and outer rectangles (1)."""
    cameras = (
        (rig.left_matrix, rig.left_distortion, rotations[0]),
        (rig.right_matrix, rig.right_distortion, rotations[1]),
    )
    inner, outer = zip(*(_rectangles(*camera, width=rig.width, height=rig.height) for camera in cameras), strict=True)
    low, high = np.max([r[0] for r in inner], axis=0), np.min([r[1] for r in inner], axis=0)  # [2], x and y
    if not (low < high).all():
        raise InputError("the rig's two cameras have no view in common; check the rotation between them")
    outside = np.min([r[0] for r in outer], axis=0), np.max([r[1] for r in outer], axis=0)
    size = np.array([rig.width, rig.height])
    focal = (1 - alpha) * (size / (high - low)).max() + alpha * (size / (outside[1] - outside[0])).min()
    middle = (1 - alpha) * (low + high) / 2 + alpha * (outside[0] + outside[1]) / 2
    cx, cy = (size - 1) / 2 - focal * middle
    return np.array([[focal, 0, cx], [0, focal, cy], [0, 0, 1]])


def _rectangles(
    matrix: npt.NDArray[np.float64],
    distortion: Distortion,
    rotation: npt.NDArray[np.float64],
    *,
    width: int,
    height: int,
) -> tuple[tuple[npt.NDArray[np.float64], ...], tuple[npt.NDArray[np.float64], ...]]:
    """The rectangles within and around a picture, on the plane at distance 1 of the rectified camera.

    Each is its low and its high corner, [2] (x, y). They are found from the picture's border.
    """
    steps = np.linspace(0, 1, _GRID)
    sides = []
    for x, y in ((0.0, steps), (1.0, steps), (steps, 0.0), (steps, 1.0)):  # left, right, top, bottom
        share = np.stack(np.broadcast_arrays(x, y), axis=1)
        rays, found = distortion.rays(share * [width - 1, height - 1], matrix)
        edge = np.cos(np.deg2rad(MAX_ANGLE))
        far = ~found | (rays[:, 2] < edge)
        across = rays[:, :2] / np.maximum(np.linalg.norm(rays[:, :2], axis=1, keepdims=True), 1e-12)
        rays[far, :2], rays[far, 2] = across[far] * np.sqrt(1 - edge**2), edge
        turned = rays @ rotation.T
        sides.append(turned[:, :2] / np.maximum(turned[:, 2:], edge / 2))  # [_GRID, 2]
    left, right, top, bottom = sides
    inner = np.array([left[:, 0].max(), top[:, 1].max()]), np.array([right[:, 0].min(), bottom[:, 1].min()])
    everywhere = np.concatenate(sides)
    return inner, (everywhere.min(axis=0), everywhere.max(axis=0))


def _maps(
    matrix: npt.NDArray[np.float64],
    distortion: Distortion,
    rotation: npt.NDArray[np.float64],
    projection: npt.NDArray[np.float64],
    size: tuple[int, int],
) -> tuple[Any, Any]:
    """Columns and rows, float32 [H, W], at which the given image shows the pixels of the rectified one."""
    if distortion.kind == "equidistant":
        return cv2.fisheye.initUndistortRectifyMap(
            matrix, distortion.array, rotation, projection[:, :3], size, cv2.CV_32FC1
        )
    return cv2.initUndistortRectifyMap(matrix, distortion.array, rotation, projection, size, cv2.CV_32FC1)


def _check_maps(maps: tuple[Any, Any], size: tuple[int, int], side: str) -> None:
    """Refuse a distortion that would show parts of an image twice, or hardly any of it."""
    step = max(1, min(size) // _GRID)
    x, y = (values[::step, ::step] for values in maps)
    inside = (x >= 0) & (x < size[0]) & (y >= 0) & (y < size[1])
    with np.errstate(invalid="ignore", over="ignore"):
        folded = (np.diff(x, axis=1)[:-1] <= 0) | (np.diff(y, axis=0)[:, :-1] <= 0)
    if not (inside.any() and (folded & inside[:-1, :-1]).mean() <= _MAX_FOLDED):
        raise InputError(
            f"the {side} camera's distortion folds the image over or moves it out of sight; check the order of its "
            "coefficients, their model and the image size, or use a smaller alpha"
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
