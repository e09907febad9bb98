"""PNG files: a check of the whole file before it is decoded, and lossless values of 8 or 16 bits.

PNG protects every chunk by a checksum, so a truncated or altered file is found before OpenCV sees it, and its
size is known before anything is allocated. Layout: www.w3.org/TR/png-3
"""

import dataclasses
import os
import struct
import zlib

import numpy as np
import numpy.typing as npt

from linstereo.data.formats.decoding import decode, incomplete, write_encoded
from linstereo.errors import InputError
from linstereo.files import check_pixel_count, read_file

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by colour type: grey, RGB, palette, grey + alpha, RGBA
_MAX_DEFLATE_RATIO = 1032  # a property of the deflate format: 258 bytes from 2 bits


@dataclasses.dataclass(frozen=True)
class PngHeader:
    """What the first chunk of a PNG file says."""

    width: int
    height: int
    bit_depth: int
    """Bits of one channel: 1, 2, 4, 8 or 16."""
    colour_type: int
    """0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha."""


def check_png(data: bytes, path: str | os.PathLike[str]) -> PngHeader:
    """Check that `data`, read from `path`, is a whole PNG file with intact checksums and a plausible size."""
    if not data.startswith(SIGNATURE):
        raise InputError(f"{path} is not a PNG file; give a .png file")
    header, compressed, position, kind = None, 0, len(SIGNATURE), b""
    while kind != b"IEND":
        if position + 12 > len(data):
            raise incomplete(path, "it ends early")
        (length,) = struct.unpack_from(">I", data, position)
        kind = data[position + 4 : position + 8]
        end = position + 12 + length
        if end > len(data):
            raise incomplete(path, "it ends early")
        body = memoryview(data)[position + 4 : end - 4]
        if zlib.crc32(body) != int.from_bytes(data[end - 4 : end], "big"):
            raise incomplete(path, "a checksum does not match")
        if header is None:
            if kind != b"IHDR" or length != 13:
                raise incomplete(path, "its header is missing")
            header = PngHeader(*struct.unpack_from(">IIBB", data, position + 8))
            check_pixel_count(width=header.width, height=header.height, path=path)
        elif kind == b"IDAT":
            compressed += length
        position = end
    if header is None or header.colour_type not in _CHANNELS or header.bit_depth not in (1, 2, 4, 8, 16):
        raise incomplete(path, "its header is not valid")
    row_bits = header.width * header.bit_depth * _CHANNELS[header.colour_type]
    if header.height * row_bits > 8 * _MAX_DEFLATE_RATIO * compressed:
        raise incomplete(path, f"{compressed} bytes cannot hold {header.width} x {header.height} pixels")
    return header


def read_png_values(path: str | os.PathLike[str]) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
    """Read a PNG file of one value per pixel: a mask, a label image or a scaled disparity.

    Returns uint8 or uint16 [H, W], the values as stored. An RGB file whose three channels are equal counts as
    one value per pixel, since several published disparities are stored that way.
    """
    data = read_file(path)
    header = check_png(data, path)
    if header.colour_type not in (0, 2) or header.bit_depth < 8:
        raise InputError(
            f"{path} must be a grey PNG of 8 or 16 bits, but has a palette, an alpha channel or fewer bits"
        )
    values = decode(data, path=path)
    if values.ndim == 2:
        return values
    grey = values[..., 0]  # [H, W]
    if values.shape[2] != 3 or not (np.array_equal(grey, values[..., 1]) and np.array_equal(grey, values[..., 2])):
        raise InputError(f"{path} is a colour picture, but one value per pixel is needed; give a grey PNG")
    return np.ascontiguousarray(grey)


def write_png_values(path: str | os.PathLike[str], values: npt.NDArray[np.uint8] | npt.NDArray[np.uint16]) -> None:
    """Write uint8 or uint16 values [H, W] as a grey PNG; lossless and atomic."""
    if values.dtype not in (np.uint8, np.uint16) or values.ndim != 2 or values.size == 0:
        raise InputError(
            f"cannot write {path}: the values are {values.dtype} {values.shape}, they must be uint8 or uint16 [H, W]"
        )
    write_encoded(path, values, suffix=".png")
