"""Points that fly: farther than 2 % of their depth from every surface that the left camera sees."""

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth import disparity_to_depth

SHARE = 0.02
"""Of its own depth by which a point may be off the nearest surface."""


def flying_points(
    disparity: NDArray[np.float32],
    truth: NDArray[np.float32],
    calibration: StereoCalibration,
    *,
    counted: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Pixels whose point is farther from every true point than 2 % of its depth, bool [H, W].

    Pixels without a finite depth count as flying. True points lie closer together than that, at a distance of 1 / focal
    of their depth, so the nearest of them stands for the surface. Those that can be near enough are in a window around
    the pixel.

    Args:
        disparity: [H, W] px.
        truth: the true one, known everywhere where it is above 0.
        calibration: of the images at this size.
        counted: [H, W], the pixels to look at; the others are False in the result. None for all.
    """
    if disparity.shape != truth.shape:
        raise InputError(f"the disparity maps have the shapes {disparity.shape} and {truth.shape}; give equal ones")
    height, width = disparity.shape
    depth = disparity_to_depth(disparity, calibration).astype(np.float64)
    surface = np.where(truth > 0, disparity_to_depth(truth, calibration).astype(np.float64), np.inf)
    y, x = np.ogrid[:height, :width]
    ray = np.hypot(1, np.hypot((x - calibration.cx) / calibration.focal, (y - calibration.cy) / calibration.focal_y))
    with np.errstate(invalid="ignore"):
        flying = ~(ray * np.abs(depth - surface) <= SHARE * depth) | ~np.isfinite(depth)
    if counted is not None:
        flying &= counted
    rows, columns = np.nonzero(flying & np.isfinite(depth))
    # A true point that near is seen at most that far away: 2 % of the depth to the side of a point 2 % nearer or more
    reach_x = int(np.ceil(_reach(columns, calibration.cx, calibration.focal)))
    reach_y = int(np.ceil(_reach(rows, calibration.cy, calibration.focal_y)))
    # Most points are nearer or farther than all that is seen there, and need no search
    window = np.ones((2 * reach_y + 1, 2 * reach_x + 1), np.uint8)
    nearest, farthest = cv2.erode(surface, window), cv2.dilate(np.where(truth > 0, surface, 0), window)
    between = (nearest <= (1 + SHARE) * depth) & (farthest >= (1 - SHARE) * depth)
    chosen = between[rows, columns]
    rows, columns = rows[chosen], columns[chosen]
    near = np.zeros(len(rows), bool)
    points = _points(columns, rows, depth[rows, columns], calibration)  # [N, 3]
    for down in range(-reach_y, reach_y + 1):
        for across in range(-reach_x, reach_x + 1):
            row, column = rows + down, columns + across
            open_ = ~near & (row >= 0) & (row < height) & (column >= 0) & (column < width)
            candidates = surface[row[open_], column[open_]]
            own = points[open_, 2]
            possible = np.abs(candidates - own) <= SHARE * own  # which spares most of them the rest
            chosen = np.nonzero(open_)[0][possible]
            true = _points(column[chosen], row[chosen], candidates[possible], calibration)
            distance = np.linalg.norm(true - points[chosen], axis=1)
            near[chosen] = distance <= SHARE * points[chosen, 2]
    flying[rows[near], columns[near]] = False
    return np.asarray(flying, bool)


def _points(
    columns: NDArray[np.int64], rows: NDArray[np.int64], depth: NDArray[np.float64], calibration: StereoCalibration
) -> NDArray[np.float64]:
    """Points [N, 3] in metres of pixels and their depths."""
    x = (columns - calibration.cx) / calibration.focal * depth
    y = (rows - calibration.cy) / calibration.focal_y * depth
    return np.stack([x, y, depth], axis=1)


def _reach(places: NDArray[np.int64], centre: float, focal: float) -> float:
    """How far away, px, a point within the distance can be seen: x' = (x z + 0.02 z f) / (z (1 - 0.02))."""
    farthest = float(np.abs(places - centre).max()) if len(places) else 0.0
    return (SHARE * focal + SHARE * farthest) / (1 - SHARE)
