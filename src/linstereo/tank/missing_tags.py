"""Tags that were overlooked, looked for where the others say they must be.

A tag that is small, dim or partly blurred may escape the search of the whole image. Once the pose is known, its place
and pattern are known too, and a comparison with the pattern says whether it is there.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.geometry.calibration import StereoCalibration
from linstereo.tank.corners import UNREFINED, linear_grey, refine
from linstereo.tank.detection import Detection
from linstereo.tank.family import CELLS, pattern
from linstereo.tank.layout import TagLayout
from linstereo.tank.pose import PoseFit, project

ALIKE = 0.75
"""Correlation of image and pattern from which on the tag is taken to be there."""
_SMALLEST = 9.0  # px, side of the smallest tag that is looked for
_SAMPLES = 5  # along the side of a cell


def find_missing(
    image: NDArray[np.uint8], fit: PoseFit, layout: TagLayout, calibration: StereoCalibration
) -> list[Detection]:
    """Further tags in an image uint8 [H, W, 3], given the pose of the target."""
    grey = linear_grey(image)
    height, width = grey.shape
    rough, tags = [], []
    for index, tag in enumerate(layout.ids):
        corners = fit.pose.apply(layout.corners[index])  # [4, 3]
        away = fit.pose.rotation @ layout.fronts[index] @ corners.mean(axis=0)
        if tag in fit.tags or corners[:, 2].min() <= 0 or away > 0:
            continue
        quad = project(corners, calibration)
        side = float(np.linalg.norm(np.roll(quad, -1, axis=0) - quad, axis=1).mean())
        margin = 1.5 * side / CELLS
        inside = (quad > margin).all() and (quad < (width - 1 - margin, height - 1 - margin)).all()
        if inside and side >= _SMALLEST and likeness(grey, quad, tag) > ALIKE:
            rough.append(quad)
            tags.append(tag)
    if not tags:
        return []
    corners, deviation = refine(grey, np.stack(rough))
    return [
        Detection(tag, quad, float(sigma))
        for tag, quad, sigma in zip(tags, corners, deviation, strict=True)
        if sigma < UNREFINED
    ]


def likeness(grey: NDArray[np.float32], quad: NDArray[np.float64], tag: int) -> float:
    """Correlation, -1 to 1, of a tag's pattern with the image in a quadrilateral [4, 2] and half a cell around it."""
    cells = np.ones((CELLS + 2, CELLS + 2), np.float32)
    cells[1:-1, 1:-1] = pattern(tag)
    place = (np.arange((CELLS + 1) * _SAMPLES) + 0.5) / _SAMPLES - 0.5  # in cells from the corner, half a cell beyond
    wanted = cells[np.ix_(np.floor(place + 1).astype(int), np.floor(place + 1).astype(int))]
    square = np.array([(0, 0), (CELLS, 0), (CELLS, CELLS), (0, CELLS)], np.float32)
    across = cv2.getPerspectiveTransform(square, quad.astype(np.float32))
    points = np.stack(np.meshgrid(place, place), axis=-1).reshape(1, -1, 2)
    maps = cv2.perspectiveTransform(points, across).astype(np.float32).reshape(len(place), len(place), 2)
    found = cv2.remap(grey, maps[..., 0], maps[..., 1], cv2.INTER_LINEAR)
    return float(np.nan_to_num(np.corrcoef(wanted.ravel(), np.ravel(found))[0, 1]))
