"""Training augmentation for stereo: what the field does since RAFT-Stereo, in numpy and OpenCV.

In this order: random scale and stretch, optional vertical flip, crop with vertical jitter of the right image, colour
changes (sometimes different for the two images), optional shading of the right image, and rectangles of mean colour
over it, as if something stood in front of that camera. Mirroring left to right is left out: it turns the right image
into the left one, whose disparity a sample does not have.

Randomness comes from the generator that the caller passes in, so that a sample is the same whichever worker makes it.
"""

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.data.sample import StereoSample
from linstereo.errors import InputError

_SMOOTH_DISPARITY_STEP = 1.0
"""Neighbouring disparities closer than this, px, belong to one surface and may be interpolated."""


_LIMITS = {
    "vertical_jitter": (0, 100),
    "log2_scale": (-4, 4),
    "log2_stretch": (0, 2),
    "brightness": (0, 1),
    "contrast": (0, 1),
    "saturation": (0, 10),
    "hue": (0, 0.5),
    "gamma": (0.1, 10),
    "shading": (0, 1),
    "eraser_count": (0, 1000),
    "eraser_size": (1, 10_000),
}
"""Smallest and largest value of the settings, or of both ends of their ranges."""


@dataclass(frozen=True)
class AugmentationSettings:
    """How strongly to augment; the defaults are those of RAFT-Stereo on SceneFlow, with a little gamma."""

    crop_height: int = 320
    crop_width: int = 640
    log2_scale: tuple[float, float] = (-0.2, 0.4)
    """Range of the base-2 logarithm of the scale; a small image is scaled up further until the crop fits."""
    stretch_probability: float = 0.8
    log2_stretch: float = 0.2
    """Largest extra base-2 logarithm of the scale of width and of height, each on its own."""
    vertical_flip_probability: float = 0.0
    vertical_jitter: int = 2
    """Largest vertical shift of the right crop, px: real rigs are never perfectly rectified."""
    asymmetric_probability: float = 0.2
    """How often the two images get different colour changes."""
    brightness: float = 0.4
    """Factors are drawn from 1 - value to 1 + value."""
    contrast: float = 0.4
    saturation: tuple[float, float] = (0.0, 1.4)
    hue: float = 0.5 / math.pi
    """Largest shift of the hue in turns, up to 0.5."""
    gamma: tuple[float, float] = (0.8, 1.2)
    shading_probability: float = 0.0
    """How often the right image gets darker towards one of its sides, as behind a filter or a dirty port."""
    shading: float = 0.5
    """Largest share of the light that is missing at that side."""
    eraser_probability: float = 0.5
    eraser_count: int = 2
    """Largest number of rectangles over the right image."""
    eraser_size: tuple[int, int] = (50, 100)
    """Range of their height and width, px."""

    def __post_init__(self) -> None:
        if self.crop_height < 1 or self.crop_width < 1 or self.vertical_jitter < 0:
            raise InputError(
                f"cannot crop to {self.crop_height} x {self.crop_width} px with a vertical jitter of "
                f"{self.vertical_jitter} px; sizes must be positive"
            )
        for name in ("stretch", "vertical_flip", "asymmetric", "shading", "eraser"):
            value = getattr(self, f"{name}_probability")
            if not 0 <= value <= 1:
                raise InputError(f"{name}_probability is {value}, but a probability is between 0 and 1")
        for name, (least, most) in _LIMITS.items():
            value = getattr(self, name)
            low, high = value if isinstance(value, tuple | list) else (value, value)
            if not least <= low <= high <= most:
                wanted = f"a range from low to high within {least:g} and {most:g}"
                single = f"a number from {least:g} to {most:g}"
                raise InputError(f"{name} is {value}; use {wanted if isinstance(value, tuple | list) else single}")


@dataclass(frozen=True)
class _ColourChange:
    order: tuple[int, ...]
    brightness: float
    contrast: float
    saturation: float
    hue: float
    gamma: float


def augment(
    sample: StereoSample, *, rng: np.random.Generator, settings: AugmentationSettings | None = None
) -> StereoSample:
    """A random variant of `sample` of the size of the crop; `sample` itself is not changed.

    The disparity is in pixels of the new image. Depth and calibration are not carried over: training uses disparity.
    """
    settings = settings or AugmentationSettings()
    if sample.disparity is None or sample.valid is None:
        raise InputError(f"{sample.name} has no ground truth, so it cannot be used for training")
    left, right, disparity, valid, occluded = _spatial(sample, sample.disparity, sample.valid, rng, settings)
    left, right = _colours(left, right, rng, settings)
    if settings.shading_probability and rng.random() < settings.shading_probability:
        right = _shaded(right, rng, settings.shading)
    _erase(right, rng, settings)
    return StereoSample(name=sample.name, left=left, right=right, disparity=disparity, valid=valid, occluded=occluded)


def resize_disparity(
    disparity: NDArray[np.float32],
    valid: NDArray[np.bool_],
    *,
    height: int,
    width: int,
    rows: slice | None = None,
    columns: slice | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Disparity and validity [H, W] of an image resized to `height` x `width`, as `cv2.resize` places the pixels.

    Within a surface the disparity is interpolated, at its edges and beside unknown pixels the nearest pixel is taken,
    so that no disparity arises that is between two surfaces. Values are multiplied by the exact horizontal factor.
    `rows` and `columns` choose a part of the result, which is all that is computed. Returns float32 px (0 = unknown)
    and bool.
    """
    known = np.where(valid, disparity, np.float32(np.nan))  # unknown pixels make everything beside them unknown
    y = _source_positions(disparity.shape[0], height)[rows or slice(None)]
    x = _source_positions(disparity.shape[1], width)[columns or slice(None)]
    y0, y1, fy = _neighbours(y, disparity.shape[0])
    x0, x1, fx = _neighbours(x, disparity.shape[1])
    above, below = known[y0], known[y1]  # [h, W]
    corners = [above[:, x0], above[:, x1], below[:, x0], below[:, x1]]  # 4 of [h, w]
    spread = np.maximum.reduce(corners) - np.minimum.reduce(corners)
    top = corners[0] + fx * (corners[1] - corners[0])
    bottom = corners[2] + fx * (corners[3] - corners[2])
    blended = top + fy[:, None] * (bottom - top)
    nearest = known[np.where(fy < 0.5, y0, y1)][:, np.where(fx < 0.5, x0, x1)]  # [h, w]
    result = np.where(spread < _SMOOTH_DISPARITY_STEP, blended, nearest) * np.float32(width / disparity.shape[1])
    result_valid = ~np.isnan(nearest)
    result[~result_valid] = 0
    return result, result_valid


def _spatial(
    sample: StereoSample,
    disparity: NDArray[np.float32],
    valid: NDArray[np.bool_],
    rng: np.random.Generator,
    settings: AugmentationSettings,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_] | None]:
    """Scale, flip and crop both images and the ground truth."""
    jitter = settings.vertical_jitter
    old_height, old_width = sample.left.shape[:2]
    scale_x, scale_y = _draw_scales(rng, settings)
    smallest = max((settings.crop_height + 2 * jitter) / old_height, settings.crop_width / old_width)
    height = max(round(old_height * max(scale_y, smallest)), settings.crop_height + 2 * jitter)
    width = max(round(old_width * max(scale_x, smallest)), settings.crop_width)

    top = int(rng.integers(jitter, height - settings.crop_height - jitter, endpoint=True))
    start = int(rng.integers(0, width - settings.crop_width, endpoint=True))
    shift = int(rng.integers(-jitter, jitter, endpoint=True))
    flip = rng.random() < settings.vertical_flip_probability
    rows = slice(top, top + settings.crop_height)
    right_rows = slice(top + shift, top + shift + settings.crop_height)
    columns = slice(start, start + settings.crop_width)

    left = _resize(sample.left, height, width)[rows, columns]
    right = _resize(sample.right, height, width)[right_rows, columns]
    disparity, valid = resize_disparity(disparity, valid, height=height, width=width, rows=rows, columns=columns)
    occluded = sample.occluded
    if occluded is not None:
        y = np.rint(_source_positions(old_height, height)[rows]).astype(np.intp)
        x = np.rint(_source_positions(old_width, width)[columns]).astype(np.intp)
        occluded = occluded[np.ix_(y.clip(0, old_height - 1), x.clip(0, old_width - 1))] & valid
    order = slice(None, None, -1) if flip else slice(None)
    return (
        np.ascontiguousarray(left[order]),
        np.ascontiguousarray(right[order]),
        np.ascontiguousarray(disparity[order]),
        np.ascontiguousarray(valid[order]),
        None if occluded is None else np.ascontiguousarray(occluded[order]),
    )


def _draw_scales(rng: np.random.Generator, settings: AugmentationSettings) -> tuple[float, float]:
    """Random scale of width and height."""
    scale = rng.uniform(*settings.log2_scale)
    stretch_x, stretch_y = rng.uniform(-settings.log2_stretch, settings.log2_stretch, size=2)
    if rng.random() >= settings.stretch_probability:
        stretch_x = stretch_y = 0.0
    return float(2 ** (scale + stretch_x)), float(2 ** (scale + stretch_y))


def _resize(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    return np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR), dtype=np.uint8)


def _source_positions(old: int, new: int) -> NDArray[np.float32]:
    """Where the centres of `new` pixels lie among `old` pixels that cover the same length."""
    return ((np.arange(new) + 0.5) * (old / new) - 0.5).astype(np.float32)


def _neighbours(
    positions: NDArray[np.float32], length: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """The two pixels around each position, inside the image, and how far it is on the way to the second."""
    clipped = positions.clip(0, length - 1)
    first = np.floor(clipped).astype(np.intp)
    second = np.minimum(first + 1, length - 1)
    return first, second, (clipped - first).astype(np.float32)


def _colours(
    left: NDArray[np.uint8], right: NDArray[np.uint8], rng: np.random.Generator, settings: AugmentationSettings
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Change brightness, contrast, saturation, hue and gamma, of both images alike or of each on its own."""
    if rng.random() < settings.asymmetric_probability:
        return _recolour(left, _draw_colours(rng, settings)), _recolour(right, _draw_colours(rng, settings))
    both = _recolour(np.concatenate([left, right]), _draw_colours(rng, settings))  # [2H, W, 3]
    return both[: len(left)], both[len(left) :]


def _draw_colours(rng: np.random.Generator, settings: AugmentationSettings) -> _ColourChange:
    return _ColourChange(
        order=tuple(rng.permutation(4).tolist()),
        brightness=rng.uniform(1 - settings.brightness, 1 + settings.brightness),
        contrast=rng.uniform(1 - settings.contrast, 1 + settings.contrast),
        saturation=rng.uniform(*settings.saturation),
        hue=rng.uniform(-settings.hue, settings.hue),
        gamma=rng.uniform(*settings.gamma),
    )


def _recolour(image: NDArray[np.uint8], change: _ColourChange) -> NDArray[np.uint8]:
    """Apply one colour change to an RGB image [H, W, 3]."""
    value: NDArray[np.float32] = image.astype(np.float32) / np.float32(255)
    for step in change.order:
        if step == 0:
            value = value * np.float32(change.brightness)
        elif step == 1:
            mean = np.float32(cv2.cvtColor(value, cv2.COLOR_RGB2GRAY).mean(dtype=np.float64))
            value = mean + np.float32(change.contrast) * (value - mean)
        elif step == 2:
            grey = cv2.cvtColor(value, cv2.COLOR_RGB2GRAY)[..., None]  # [H, W, 1]
            value = grey + np.float32(change.saturation) * (value - grey)
        else:
            value = _turn_hue(value, change.hue)
        np.clip(value, 0, 1, out=value)
    return np.rint(255 * cv2.pow(value, change.gamma)).astype(np.uint8)


def _shaded(image: NDArray[np.uint8], rng: np.random.Generator, most: float) -> NDArray[np.uint8]:
    """Make an RGB image [H, W, 3] evenly darker towards one side, where it loses up to a share `most` of its light."""
    angle, loss = rng.uniform(0, 2 * math.pi), rng.uniform(0, most)
    y, x = (np.linspace(-0.5, 0.5, length, dtype=np.float32) for length in image.shape[:2])
    along = math.cos(angle) * x + math.sin(angle) * y[:, None]  # [H, W], grows towards the dark side
    along = (along - along.min()) / max(float(np.ptp(along)), 1e-6)
    return np.asarray(np.rint(image * (1 - loss * along)[..., None]), dtype=np.uint8)


def _turn_hue(rgb: NDArray[np.float32], turns: float) -> NDArray[np.float32]:
    """Shift the hue of RGB values in [0, 1] by a part of the colour circle."""
    hsv = cv2.cvtColor(rgb, cv2.COLOR_RGB2HSV)  # hue in degrees
    hsv[..., 0] = (hsv[..., 0] + 360 * turns) % 360
    return np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB), dtype=np.float32)


def _erase(right: NDArray[np.uint8], rng: np.random.Generator, settings: AugmentationSettings) -> None:
    """Cover parts of the right image with its mean colour, in place."""
    if settings.eraser_count < 1 or rng.random() >= settings.eraser_probability:
        return
    mean = np.rint(right.mean(axis=(0, 1))).astype(np.uint8)
    for _ in range(int(rng.integers(1, settings.eraser_count, endpoint=True))):
        top, start = int(rng.integers(right.shape[0])), int(rng.integers(right.shape[1]))
        height, width = rng.integers(*settings.eraser_size, size=2, endpoint=True).tolist()
        right[top : top + height, start : start + width] = mean
