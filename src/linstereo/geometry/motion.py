"""How the pixels of an image moved since the one before, and whether the two show the same scene at all."""

import dataclasses
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from linstereo.errors import InputError

Values = npt.NDArray[np.integer[Any] | np.floating[Any]]

MAX_PIXELS = 320 * 640
"""Larger images are compared at a smaller size, of about as many pixels; motion need not be known better."""
MAX_RETURN = 1.0
"""Pixels of that size by which the way to the image before and back again may miss where it began."""
MAX_DIFFERENCE = 12.0
"""Grey levels of 255 by which a pixel may differ from its place in the image before, both blurred, once the exposure
of the images was made alike."""
MIN_FOUND = 0.25
"""Share of the pixels that must be found in the image before if both show the same scene."""

_BLUR = 5  # px
_GAINS = (0.25, 4.0)


@dataclasses.dataclass(frozen=True, eq=False)
class Motion:
    """From the pixels of an image to their places in the image before."""

    places: npt.NDArray[np.float32]
    """[H, W, 2] column and row, px, in the image before."""
    found: npt.NDArray[np.bool_]
    """[H, W] True where the place is inside of the image before, leads back to the pixel, and looks like it."""

    @property
    def share(self) -> float:
        """Of the pixels that were found, 0 to 1."""
        return float(self.found.mean())

    @property
    def same_scene(self) -> bool:
        """Whether so many pixels were found that there was no cut, nor a motion too large to follow."""
        return self.share >= MIN_FOUND

    def carried(self, before: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """A map [H, W] of the image before, moved to the pixels of this one; nonsense where they were not found."""
        return np.asarray(_taken(before, self.places), np.float32)


def motion_since(before: npt.NDArray[np.uint8], now: npt.NDArray[np.uint8]) -> Motion:
    """The motion from one image of a camera to the next, both uint8 [H, W, 3] RGB of one size.

    Dense inverse search (Kroeger et al. 2016, OpenCV's), in both directions.
    """
    if before.shape != now.shape:
        raise InputError(f"the images are {before.shape} and {now.shape}; motion needs two of one size")
    height, width = now.shape[:2]
    factor = min((MAX_PIXELS / (height * width)) ** 0.5, 1.0)
    size = (max(round(factor * width), 16), max(round(factor * height), 16))
    small = [cv2.cvtColor(_resized(image, size), cv2.COLOR_RGB2GRAY) for image in (before, now)]
    search: Any = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
    back, forth = search.calc(small[1], small[0], None), search.calc(small[0], small[1], None)  # [h, w, 2]
    places = _grid(size) + back
    off = np.linalg.norm(back + _taken(forth, places), axis=2)
    inside = ((places >= 0) & (places <= np.array(size) - 1)).all(axis=2)
    found = inside & (off <= MAX_RETURN)
    found &= _alike(_taken(small[0], places), small[1], found)
    if size != (width, height):
        scale = np.array([width / size[0], height / size[1]], np.float32)
        places = _grid((width, height)) + _resized(back, (width, height)) * scale
        found = _resized(found.astype(np.uint8), (width, height)) > 0
    return Motion(places.astype(np.float32), found)


def _alike(before: Values, now: Values, found: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Where two grey images [h, w] look alike, but for noise and a common change of exposure over `found`."""
    if not found.any():
        return found
    levels = before[found].astype(np.float64), now[found].astype(np.float64)
    spread = max(float(levels[0].std()), 1.0)
    gain = float(np.clip(((levels[0] - levels[0].mean()) * levels[1]).mean() / spread**2, *_GAINS))
    offset = float(levels[1].mean() - gain * levels[0].mean())
    difference = now.astype(np.float32) - np.float32(gain) * before.astype(np.float32) - np.float32(offset)
    return np.asarray(np.abs(cv2.blur(difference, (_BLUR, _BLUR))) <= MAX_DIFFERENCE)


def _taken(values: Values, places: npt.NDArray[np.float32]) -> Values:
    """The values [H, W, ...] at the places [H, W, 2] (column, row), between pixels by interpolation."""
    return cv2.remap(values, places[..., 0], places[..., 1], cv2.INTER_LINEAR)


def _resized(values: Values, size: tuple[int, int]) -> Values:
    if (values.shape[1], values.shape[0]) == size:
        return values
    method = cv2.INTER_AREA if size[0] < values.shape[1] else cv2.INTER_LINEAR
    return cv2.resize(values, size, interpolation=method)


def _grid(size: tuple[int, int]) -> npt.NDArray[np.float32]:
    """Column and row of every pixel of an image of width x height px, [H, W, 2]."""
    columns, rows = np.meshgrid(np.arange(size[0], dtype=np.float32), np.arange(size[1], dtype=np.float32))
    return np.stack([columns, rows], axis=-1)
