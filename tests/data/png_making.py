"""A small PNG encoder written from the standard, independent of OpenCV, to make unusual and forged files."""

import struct
import zlib

import numpy as np


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def make_png(
    rows: np.ndarray,
    *,
    bit_depth: int,
    colour_type: int,
    size: tuple[int, int] | None = None,
    extra: bytes = b"",
) -> bytes:
    """A PNG file of `rows`, the packed bytes of each row; `size` (width, height) may lie about them."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour_type]
    width = rows.shape[1] * 8 // (bit_depth * channels)
    width, height = size or (width, rows.shape[0])
    raw = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, bit_depth, colour_type, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    )
