"""TIFF files: size, completeness and kind by the header alone (TIFF 6.0, and BigTIFF with its wider numbers).

OpenCV decodes some rarer kinds in a way that changes the pixels without a word: separate colour planes and
inverted grey of 16 bits come out wrong, a picture stored turned or mirrored is turned back. They are refused.
"""

import os
import struct

from linstereo.data.formats.decoding import incomplete
from linstereo.errors import InputError

_TYPES = {1: "B", 3: "H", 4: "I", 16: "Q"}  # the types of whole numbers
_WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC, _ORIENTATION, _CHANNELS, _PLANES, _FORMAT = 256, 257, 258, 262, 274, 277, 284, 339
_STRIP_OFFSETS, _STRIP_SIZES = 273, 279
_TILE_WIDTH, _TILE_HEIGHT, _TILE_OFFSETS, _TILE_SIZES = 322, 323, 324, 325
_MAX_TILE_PIXELS = 2**24
_WHITE_IS_ZERO = 0


def check_tiff(data: bytes, path: str | os.PathLike[str]) -> tuple[int, int]:
    """Check that `data`, read from `path`, is a complete TIFF file of a plain kind; returns its width and height.

    May raise struct.error if a header points outside of the file.
    """
    tags = _read_tags(data)
    tiled = _TILE_OFFSETS in tags
    try:
        width, height = tags[_WIDTH][0], tags[_HEIGHT][0]
        offsets, sizes = (
            (tags[_TILE_OFFSETS], tags[_TILE_SIZES]) if tiled else (tags[_STRIP_OFFSETS], tags[_STRIP_SIZES])
        )
        tile_pixels = tags[_TILE_WIDTH][0] * tags[_TILE_HEIGHT][0] if tiled else 0
    except (KeyError, IndexError) as error:
        raise incomplete(path, "a field of its header is missing") from error
    if reason := _unusual(tags):
        raise InputError(f"{path} is a TIFF file {reason}; convert it to PNG or to a plain TIFF file of 8 or 16 bits")
    if len(offsets) != len(sizes) or tile_pixels > _MAX_TILE_PIXELS:
        raise incomplete(path, "its header is not valid")
    if any(offset + size > len(data) for offset, size in zip(offsets, sizes, strict=True)):
        raise incomplete(path, "its end is missing")
    return width, height


def _unusual(tags: dict[int, tuple[int, ...]]) -> str:
    """What keeps the picture from being read correctly, or an empty text."""
    bits = set(tags.get(_BITS, (1,)))
    if any(code not in (1, 4) for code in tags.get(_FORMAT, (1,))):
        return "of floating-point or signed values"
    if len(bits) != 1 or not bits <= {1, 2, 4, 8, 16}:
        return f"of {', '.join(str(value) for value in sorted(bits))} bits"
    if tags.get(_CHANNELS, (1,))[:1] > (4,):
        return "of more than four channels"
    if tags.get(_ORIENTATION, (1,))[:1] != (1,):
        return "stored turned or mirrored"
    if bits == {16} and (tags.get(_PLANES, (1,))[:1] != (1,) or tags.get(_PHOTOMETRIC, (1,))[:1] == (_WHITE_IS_ZERO,)):
        return "of 16 bits with separate colour planes or inverted grey"
    return ""


def _read_tags(data: bytes) -> dict[int, tuple[int, ...]]:
    """The whole-number fields of the first directory of a TIFF or BigTIFF file."""
    order = "<" if data[:2] == b"II" else ">"
    big = struct.unpack_from(order + "H", data, 2)[0] == 43
    word, entry_bytes, inline_bytes = ("Q", 20, 8) if big else ("I", 12, 4)
    (position,) = struct.unpack_from(order + word, data, 8 if big else 4)
    (count,) = struct.unpack_from(order + ("Q" if big else "H"), data, position)
    start = position + (8 if big else 2)
    if start + count * entry_bytes > len(data):
        raise struct.error("the directory ends outside of the file")
    tags = {}
    for entry in range(start, start + count * entry_bytes, entry_bytes):
        tag, kind, length = struct.unpack_from(order + "HH" + word, data, entry)
        if kind not in _TYPES:
            continue
        size = length * struct.calcsize(order + _TYPES[kind])
        value_at = entry + entry_bytes - inline_bytes
        if size > inline_bytes:
            (value_at,) = struct.unpack_from(order + word, data, value_at)
        if value_at + size > len(data):
            raise struct.error("a field ends outside of the file")
        tags[tag] = struct.unpack_from(f"{order}{length}{_TYPES[kind]}", data, value_at)
    return tags
