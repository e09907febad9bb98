"""Photographs: read any common file as 8-bit RGB, write RGB files.

Kinds: PNG, JPEG, BMP, TIFF, WebP, binary PPM and PGM, recognised by content, not by name. A truncated file is
an error, never a half-grey picture. A rotation in EXIF data is ignored, see `linstereo.data.decoding.decode`.
"""

import os
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from linstereo.data.decoding import decode, write_encoded
from linstereo.data.image_headers import check_picture
from linstereo.data.pnm import decode_pnm, is_pnm
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


def read_image(path: str | os.PathLike[str]) -> npt.NDArray[np.uint8]:
    """Read a picture as uint8 [H, W, 3] RGB.

    Grey is repeated three times, alpha is dropped, 16-bit values become round(value / 257). Anything that
    cannot be read completely, or holds floating-point values, is an `InputError` naming the file.
    """
    data = read_file(path)
    if is_pnm(data):
        return to_rgb8(decode_pnm(data, path), name=str(path))
    width, height = check_picture(data, path)
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
    return to_rgb8(decoded, name=str(path))


def to_rgb8(array: npt.ArrayLike, *, name: str = "the image") -> npt.NDArray[np.uint8]:
    """Turn an image in memory into uint8 [H, W, 3] RGB by the rules of `read_image`.

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
    if image.shape[2] <= 2:
        image = np.repeat(image[..., :1], 3, axis=2)  # [H, W, 3]
    image = image[..., :3]  # [H, W, 3]
    if image.dtype == np.uint16:
        quotient, remainder = np.divmod(image, np.uint16(257))
        image = quotient + (remainder > 128)
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
