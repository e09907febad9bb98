"""The two images of a pair, given as arrays or files: their size, and their pixels as the network takes them."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from linstereo.data.formats.images import colour_values, image_size, read_pixels, to_rgb8, used_bits
from linstereo.errors import InputError
from linstereo.run_plan import MIN_SIDE

Image = npt.NDArray[np.uint8]
ImageLike = npt.ArrayLike | str | os.PathLike[str]


def pair_size(left: ImageLike, right: ImageLike) -> tuple[int, int]:
    """Height and width of a pair, checked to be large enough and of one size; files are not decoded for it."""
    sizes = [_size(image, name=name) for image, name in zip((left, right), image_names(left, right), strict=True)]
    return _check_sizes(sizes, image_names(left, right))


def read_pair(
    left: ImageLike, right: ImageLike, *, on_note: Callable[[str], None] | None = None
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Both images as uint8 [H, W, 3] RGB, checked to be large enough and of one size.

    Values of more than 8 bits are scaled alike in both, by the bits that they use (see
    `linstereo.data.formats.images.used_bits`); `on_note` is called with a sentence if those are fewer than the type
    has.
    """
    names = image_names(left, right)
    images = read_values(left, right)
    bits = used_bits(*images)
    if on_note is not None and bits < 16 and any(image.dtype == np.uint16 for image in images):
        on_note(
            f"{names[0]} and its right image hold {bits}-bit values in 16 bits; they are scaled so that "
            f"{2**bits - 1} is white"
        )
    return to_rgb8(images[0], bits=bits), to_rgb8(images[1], bits=bits)


def read_values(left: ImageLike, right: ImageLike) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Both images with their own bit depth, see `read_pixels`, checked to be large enough and of one size."""
    names = image_names(left, right)
    images = [
        read_pixels(image) if isinstance(image, str | os.PathLike) else colour_values(image, name=name)
        for image, name in zip((left, right), names, strict=True)
    ]
    _check_sizes([image.shape[:2] for image in images], names)
    return images[0], images[1]


def image_names(*images: ImageLike) -> list[str]:
    """What to call the left and the right image of a pair in messages."""
    sides = zip(("left", "right"), images, strict=True)
    return [os.fspath(image) if isinstance(image, str | os.PathLike) else f"the {side} image" for side, image in sides]


def _size(image: ImageLike, *, name: str) -> tuple[int, int]:
    """Height and width."""
    if isinstance(image, str | os.PathLike):
        width, height = image_size(image)
        return height, width
    height, width = colour_values(image, name=name).shape[:2]
    return height, width


def _check_sizes(sizes: Sequence[Sequence[int]], names: Sequence[str]) -> tuple[int, int]:
    for (height, width), name in zip(sizes, names, strict=True):
        if min(height, width) < MIN_SIDE:
            raise InputError(f"{name} is {width} x {height} px; use an image of at least {MIN_SIDE} px a side")
    (h0, w0), (h1, w1) = sizes
    if (h0, w0) != (h1, w1):
        raise InputError(
            f"{names[0]} is {w0} x {h0} px but {names[1]} is {w1} x {h1} px; give a rectified pair of one size"
        )
    return h0, w0
