"""Stereo pairs of textured planes, one of them slanted, with exact disparity and occlusion.

SGBM gets them right but for a few pixels, which is what tests of a whole evaluation need.
"""

import functools
from dataclasses import dataclass, replace

import cv2
import numpy as np

from linstereo.data.sample import StereoSample

HEIGHT, WIDTH = 120, 160


@dataclass(frozen=True)
class Plane:
    """A textured plane: disparity = slope_x * x + slope_y * y + offset over rows and columns of the left image."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    slope_x: float
    slope_y: float
    offset: float


def planes(height: int, width: int, *, largest: float) -> list[Plane]:
    """A slanted ground behind two upright boards; `largest` is the disparity of the nearest one."""
    return [
        Plane((0, height), (-width, 2 * width), 0.0, 0.35 * largest / height, 0.2 * largest),
        Plane((height // 6, height // 2), (width // 2, width * 4 // 5), 0.05, 0.0, 0.7 * largest - 0.025 * width),
        Plane((height // 2, height * 5 // 6), (width // 4, width // 2), 0.0, 0.0, largest),
    ]


@functools.cache
def render_pair(
    height: int = HEIGHT, width: int = WIDTH, *, seed: int = 0, largest: float = 16.0, step: float = 0.0
) -> StereoSample:
    """A pair with exact disparity and occlusion; with `step` > 0 all disparities are multiples of it."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width].astype(np.float64)
    views = [np.zeros((height, width, 3)) for _ in range(2)]
    nearest = [np.full((height, width), -np.inf) for _ in range(2)]
    for plane in planes(height, width, largest=largest):
        offset = round(plane.offset / step) * step if step else plane.offset
        slope_x, slope_y = (0.0, 0.0) if step else (plane.slope_x, plane.slope_y)
        texture = _texture(rng, height, 3 * width)
        # the column of the left image that is seen at column x of the left and of the right image
        for view, column in enumerate((x, (x + slope_y * y + offset) / (1 - slope_x))):
            disparity = slope_x * column + slope_y * y + offset
            inside = (plane.columns[0] - 0.5 <= column) & (column <= plane.columns[1] - 0.5)
            inside &= (plane.rows[0] <= y) & (y < plane.rows[1]) & (disparity > nearest[view])
            colours = cv2.remap(texture, (column + width).astype(np.float32), y.astype(np.float32), cv2.INTER_CUBIC)
            views[view][inside] = colours[inside]
            nearest[view][inside] = disparity[inside]
    arrays = {
        "left": views[0].clip(0, 255).round().astype(np.uint8),
        "right": views[1].clip(0, 255).round().astype(np.uint8),
        "disparity": nearest[0].astype(np.float32),
        "valid": np.ones((height, width), dtype=bool),
        "occluded": _occluded(nearest[0], nearest[1]),
    }
    for array in arrays.values():
        array.setflags(write=False)  # the pair is kept and given to other tests too
    return StereoSample(name=f"pair{seed}", **arrays)


def _texture(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Random colours with detail of several sizes, float32 [height, width, 3] around a random mean."""
    total = np.zeros((height, width, 3), dtype=np.float32)
    for sigma in (1.2, 3.0, 8.0):
        noise = cv2.GaussianBlur(rng.standard_normal((height, width, 3)).astype(np.float32), (0, 0), sigma)
        total += noise / noise.std()
    return (rng.uniform(90, 165, size=3) + 22 * total).clip(0, 255).astype(np.float32)


def _occluded(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Pixels of the left image that are outside the right image, or behind something there."""
    height, width = left.shape
    rows = np.broadcast_to(np.arange(height)[:, None], left.shape)
    column = np.rint(np.arange(width) - left).astype(int)
    outside = (column < 0) | (column >= width)
    seen = right[rows, column.clip(0, width - 1)]
    return outside | (seen > left + 1)


def with_holes(pair: StereoSample, *, seed: int, fraction: float = 0.2) -> StereoSample:
    """The same pair with unknown ground truth in some pixels."""
    valid = np.random.default_rng(seed).random(pair.valid.shape) >= fraction
    return replace(
        pair,
        disparity=np.where(valid, pair.disparity, 0).astype(np.float32),
        valid=valid,
        occluded=pair.occluded & valid,
    )


def without_truth(pair: StereoSample) -> StereoSample:
    return replace(pair, disparity=None, valid=None, occluded=None, depth=None)
