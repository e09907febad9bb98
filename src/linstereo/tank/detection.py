"""AprilTags 16h5 in an image.

The family has few bits, so that a bright spot on a dark wall is easily taken for a tag. Nothing is decided about that
here: all that looks like a tag is returned, and `linstereo.tank.pose` keeps what fits the layout.
"""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.tank.corners import linear_grey, refine
from linstereo.tank.family import dictionary

_SAME = 0.5  # of a side: two finds of one tag nearer than this are one
_LARGE = 3_000_000  # pixels; an image above this is not enlarged to find small tags

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Detection:
    """A tag, or what looks like one.

    Args:
        tag: its number.
        corners: [4, 2] px (column, row), clockwise from the upper left one of the upright tag; the centre of the upper
            left pixel of the image is (0, 0).
        deviation: standard deviation of the coordinates, px.
    """

    tag: int
    corners: Floats
    deviation: float

    @property
    def side(self) -> float:
        """Mean length of its sides, px."""
        return float(np.linalg.norm(np.roll(self.corners, -1, axis=0) - self.corners, axis=1).mean())


def detect_tags(image: NDArray[np.uint8]) -> tuple[Detection, ...]:
    """All tags in an image uint8 [H, W, 3] RGB, sorted by number; one number may come several times.

    The image is searched as it is, with its local contrast raised, and enlarged twice for small tags.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise InputError(f"the image is {image.dtype} {image.shape}; tags are looked for in uint8 [H, W, 3]")
    grey = cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY)
    clear = cv2.createCLAHE(clipLimit=4.0, tileGridSize=(8, 8)).apply(grey)
    found: list[tuple[int, Floats]] = []
    versions = [(clear, 1.0), (grey, 1.0)]
    if grey.size <= _LARGE:
        large = cv2.resize(cv2.GaussianBlur(clear, (0, 0), 0.7), None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC)
        versions.append((large, 2.0))
    for version, scale in versions:
        _add(found, *_search(version), scale=scale)
    if not found:
        return ()
    rough = np.stack([corners for _, corners in found])  # [N, 4, 2]
    corners, deviation = refine(linear_grey(image), rough)
    tags = [Detection(tag, fine, float(sigma)) for (tag, _), fine, sigma in zip(found, corners, deviation, strict=True)]
    return tuple(sorted(tags, key=lambda detection: detection.tag))


def _search(grey: Any) -> tuple[list[int], Floats]:
    """Numbers and rough corners [N, 4, 2] of what OpenCV takes for tags."""
    settings = cv2.aruco.DetectorParameters()
    settings.adaptiveThreshWinSizeMin = 5
    settings.adaptiveThreshWinSizeMax = 53
    settings.adaptiveThreshWinSizeStep = 16
    settings.adaptiveThreshConstant = 4
    settings.minMarkerPerimeterRate = 0.025
    settings.polygonalApproxAccuracyRate = 0.06
    settings.minOtsuStdDev = 4.0
    settings.perspectiveRemovePixelPerCell = 6
    settings.minDistanceToBorder = 1
    corners, ids, _ = cv2.aruco.ArucoDetector(dictionary(), settings).detectMarkers(grey)
    if ids is None or not len(ids):
        return [], np.zeros((0, 4, 2))
    return [int(tag) for tag in np.ravel(ids)], np.concatenate(corners).reshape(-1, 4, 2).astype(np.float64)


def _add(found: list[tuple[int, Floats]], tags: list[int], corners: Floats, *, scale: float) -> None:
    """Add what is not there yet; `scale` is that of the image that was searched."""
    for tag, quad in zip(tags, (corners + 0.5) / scale - 0.5, strict=True):
        centre, side = quad.mean(axis=0), float(np.linalg.norm(quad[1] - quad[0]))
        known = [other for other_tag, other in found if other_tag == tag]
        if all(np.linalg.norm(other.mean(axis=0) - centre) > _SAME * side for other in known):
            found.append((tag, quad))
