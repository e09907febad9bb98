"""The kind and size of a picture, and whether its file is complete, before it is decoded.

A decoder allocates what a header asks for, and some decoders fill the missing half of a truncated picture
with grey. The checks here read only headers and segment lengths. Layouts: JPEG ITU-T T.81 annex B, BMP
learn.microsoft.com/windows/win32/gdi/bitmap-storage, TIFF 6.0, WebP RFC 9649.
"""

import os
import re
import struct
from collections.abc import Callable

from linstereo.data.formats.decoding import incomplete
from linstereo.data.formats.png import SIGNATURE as PNG_SIGNATURE
from linstereo.data.formats.png import check_png
from linstereo.data.formats.tiff import check_tiff
from linstereo.errors import InputError
from linstereo.files import check_pixel_count

FilePath = str | os.PathLike[str]

_BMP_PLAIN = (0, 3, 6)  # as they are, or with masks that tell the bits of each colour
_JPEG_END = 0xD9
_JPEG_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]", re.DOTALL)
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_PIXELS_PER_BYTE = 2048  # four times what one bit for each block of 64 pixels gives


def check_picture(data: bytes, path: FilePath) -> tuple[int, int]:
    """Check that `data`, read from `path`, is a whole picture of a known kind; returns width and height."""
    for matches, check in _KINDS:
        if matches(data):
            try:
                width, height = check(data, path)
            except (struct.error, IndexError) as error:
                raise incomplete(path, "its header is cut off") from error
            check_pixel_count(width=width, height=height, path=path)
            return width, height
    raise InputError(f"{path} is not a PNG, JPEG, BMP, TIFF, WebP or binary PPM/PGM picture; convert it to PNG")


def _check_png(data: bytes, path: FilePath) -> tuple[int, int]:
    header = check_png(data, path)
    return header.width, header.height


def _check_jpeg(data: bytes, path: FilePath) -> tuple[int, int]:
    width = height = coded_bytes = 0
    position = 2
    while marker := _JPEG_MARKER.search(data, position):
        code = data[marker.end() - 1]
        coded_bytes += marker.start() - position  # what lies between two segments is the coded picture
        position = marker.end()
        if code == _JPEG_END:
            if width * height > _JPEG_PIXELS_PER_BYTE * coded_bytes:
                raise incomplete(path, f"{coded_bytes} bytes cannot hold {width} x {height} pixels")
            return width, height
        if code in _JPEG_FRAMES:
            if width:
                raise incomplete(path, "it holds two frames")
            height, width = struct.unpack_from(">HH", data, position + 3)
        position += struct.unpack_from(">H", data, position)[0]
    raise incomplete(path, "its end is missing")


def _check_bmp(data: bytes, path: FilePath) -> tuple[int, int]:
    offset, header = struct.unpack_from("<II", data, 10)
    if header == 12:
        width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
        compression = 0
    else:
        width, height, _, bits, compression = struct.unpack_from("<iiHHI", data, 18)
    height = abs(height)  # negative: the top row is stored first
    if compression not in _BMP_PLAIN:
        raise InputError(f"{path} is a compressed BMP file; convert it to PNG")
    if width > 0 and offset + (width * bits + 31) // 32 * 4 * height > len(data):
        raise incomplete(path, "its end is missing")
    return width, height


def _check_webp(data: bytes, path: FilePath) -> tuple[int, int]:
    if 8 + struct.unpack_from("<I", data, 4)[0] > len(data):
        raise incomplete(path, "its end is missing")
    kind = data[12:16]
    if kind == b"VP8X":
        if data[20] & 2:
            raise InputError(f"{path} is an animation; give a still picture")
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        (packed,) = struct.unpack_from("<I", data, 21)
        return 1 + (packed & 0x3FFF), 1 + (packed >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise incomplete(path, "its header is not valid")


_KINDS: tuple[tuple[Callable[[bytes], bool], Callable[[bytes, FilePath], tuple[int, int]]], ...] = (
    (lambda data: data.startswith(PNG_SIGNATURE), _check_png),
    (lambda data: data.startswith(b"\xff\xd8\xff"), _check_jpeg),
    (lambda data: data.startswith(b"BM"), _check_bmp),
    (lambda data: data[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), check_tiff),
    (lambda data: data.startswith(b"RIFF") and data[8:12] == b"WEBP", _check_webp),
)
