"""Photographs: read any common file as 8-bit RGB, write RGB files.

Kinds: PNG, JPEG, BMP, TIFF, WebP, binary PPM and PGM, recognised by content, not by name. A truncated file is
an error, never a half-grey picture. A rotation in EXIF data is ignored, see `linstereo.data.formats.decoding.decode`.
"""

import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from linstereo.data.formats.decoding import decode, write_encoded
from linstereo.data.formats.image_headers import check_picture
from linstereo.data.formats.pnm import decode_pnm, is_pnm, read_pnm_header
from linstereo.errors import InputError
from linstereo.files import read_file

_WRITE_OPTIONS: dict[str, tuple[int, ...]] = {
    ".png": (),
    ".jpg": (cv2.IMWRITE_JPEG_QUALITY, 95),
    ".jpeg": (cv2.IMWRITE_JPEG_QUALITY, 95),
    ".bmp": (),
    ".tif": (),
    ".tiff": (),
    ".webp": (cv2.IMWRITE_WEBP_QUALITY, 101),  # above 100: lossless
    ".ppm": (),
}


def image_size(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Width and height of a picture whose file is checked to be complete, without decoding it."""
    return _checked_size(read_file(path), path)


def read_image(path: str | os.PathLike[str]) -> npt.NDArray[np.uint8]:
    """Read a picture as uint8 [H, W, 3] RGB.

    Grey is repeated three times, alpha is dropped, 16-bit values are scaled as `to_rgb8` does it. Anything that
    cannot be read completely, or holds floating-point values, is an `InputError` naming the file.
    """
    return to_rgb8(read_pixels(path), name=str(path))


def read_pixels(path: str | os.PathLike[str]) -> npt.NDArray[Any]:
    """Read a picture with its own bit depth: uint8 or uint16, grey [H, W, 1] or RGB [H, W, 3]; alpha is dropped.

    A PPM or PGM file of more than 8 bits that says which value is white comes back as uint8, scaled by that.
    """
    return decode_pixels(read_file(path), path)


def decode_pixels(data: bytes, path: str | os.PathLike[str]) -> npt.NDArray[Any]:
    """The picture that the bytes of an image file hold, as `read_pixels` gives it; errors call it `path`."""
    width, height = _checked_size(data, path)
    if is_pnm(data):
        values = decode_pnm(data, path)
        says_white = read_pnm_header(data, path).maximum < 65535
        return to_rgb8(values, bits=16) if says_white else colour_values(values)
    decoded = decode(data, path=path)
    if decoded.shape[:2] != (height, width):
        raise InputError(f"{path} has two different sizes in its headers; copy or convert it again")
    if decoded.ndim == 3 and decoded.shape[2] == 3:
        decoded = cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB)
    elif decoded.ndim == 3 and decoded.shape[2] == 4:
        if data[:2] in (b"II", b"MM") and decoded.dtype == np.uint8 and decoded[..., 3].min() < 255:
            # OpenCV multiplies the colours of such a TIFF file with its alpha, which cannot be undone
            raise InputError(f"{path} is a TIFF file with transparent pixels; remove its alpha channel")
        decoded = cv2.cvtColor(decoded, cv2.COLOR_BGRA2RGB)
    return colour_values(decoded, name=str(path))


def colour_values(array: npt.ArrayLike, *, name: str = "the image") -> npt.NDArray[Any]:
    """An image in memory without alpha: uint8 or uint16, grey [H, W, 1] or RGB [H, W, 3]; the values stay as they are.

    Takes uint8 or uint16, [H, W], [H, W, 1] (grey), [H, W, 2] (grey, alpha), [H, W, 3] (RGB) or [H, W, 4]
    (RGB, alpha). Floating-point images are refused, since nothing tells whether they reach to 1 or to 255;
    the error calls it `name`.
    """
    image = np.asarray(array)
    if image.dtype not in (np.uint8, np.uint16):
        raise InputError(f"{name} holds {image.dtype} values; give 8-bit or 16-bit unsigned integers")
    if image.ndim == 2:
        image = image[..., None]  # [H, W, 1]
    if image.ndim != 3 or image.size == 0 or image.shape[2] > 4:
        raise InputError(f"{name} has the shape {image.shape}; give [H, W], [H, W, 3] or [H, W, 4] with H, W > 0")
    return image[..., :1] if image.shape[2] <= 2 else image[..., :3]


def used_bits(*images: npt.NDArray[Any]) -> int:
    """Bits that the values of the 16-bit ones among some images (from `colour_values`) use together, 8 to 16.

    Cameras of 10, 12 or 14 bits often write their values into 16-bit files as they are. The largest value tells: 12
    for one from 2048 to 4095, 16 for one from 32768 on. Images of 8 bits count as 8.
    """
    largest = max((int(image.max()) for image in images if image.dtype == np.uint16), default=0)
    return max(largest.bit_length(), 8)


def to_rgb8(array: npt.ArrayLike, *, name: str = "the image", bits: int | None = None) -> npt.NDArray[np.uint8]:
    """Turn an image in memory, such as `colour_values` takes, into uint8 [H, W, 3] RGB.

    16-bit values become round(255 * value / (2**bits - 1)). By default `bits` is what the image uses; the two images of
    a pair must be given the same, see `used_bits`.
    """
    image = colour_values(array, name=name)
    if image.dtype == np.uint16:
        white = 2 ** (used_bits(image) if bits is None else bits) - 1
        table = np.minimum(np.rint(np.arange(65536) * (255 / white)), 255).astype(np.uint8)
        image = table[image]
    if image.shape[2] == 1:
        image = np.repeat(image, 3, axis=2)  # [H, W, 3]
    return np.ascontiguousarray(image, dtype=np.uint8)


def write_image(path: str | os.PathLike[str], rgb: npt.NDArray[np.uint8]) -> None:
    """Write uint8 [H, W, 3] RGB or [H, W] grey in the format that the suffix of `path` names; atomic.

    Suffixes: .png, .bmp, .tif, .tiff, .webp, .ppm (all lossless), .jpg, .jpeg (quality 95).
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _WRITE_OPTIONS:
        raise InputError(f"cannot write {path}: the suffix {suffix!r} is not one of {', '.join(_WRITE_OPTIONS)}")
    image = np.asarray(rgb)
    colour = image.ndim == 3 and image.shape[2] == 3
    if image.dtype != np.uint8 or image.size == 0 or not (colour or image.ndim == 2):
        raise InputError(
            f"cannot write {path}: the image is {image.dtype} {image.shape}, it must be uint8 [H, W, 3] or [H, W]"
        )
    encoded = cv2.cvtColor(image, cv2.COLOR_RGB2BGR) if colour else image
    write_encoded(path, encoded, suffix=suffix, options=_WRITE_OPTIONS[suffix])


def _checked_size(data: bytes, path: str | os.PathLike[str]) -> tuple[int, int]:
    if is_pnm(data):
        header = read_pnm_header(data, path)
        return header.width, header.height
    return check_picture(data, path)
