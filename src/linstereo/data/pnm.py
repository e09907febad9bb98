"""Binary PPM and PGM pictures, with any maximum value, as industrial cameras write them (10 or 12 bits).

OpenCV leaves values below a maximum of 1023 or 4095 unscaled, which would turn such a picture nearly black.
Layout: netpbm.sourceforge.net/doc/ppm.html
"""

import os
import re

import numpy as np
import numpy.typing as npt

from linstereo.errors import InputError

_GAP = rb"(?:\s|#[^\r\n]{0,500}[\r\n]){1,50}"
_HEADER = re.compile(rb"P([56])" + _GAP + rb"(\d{1,9})" + _GAP + rb"(\d{1,9})" + _GAP + rb"(\d{1,5})\s")


def is_pnm(data: bytes) -> bool:
    """Whether `data` starts like a binary PPM (P6) or PGM (P5) file."""
    return data[:2] in (b"P5", b"P6") and data[2:3] in b" \t\r\n#"


def decode_pnm(data: bytes, path: str | os.PathLike[str]) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
    """Decode a binary PPM or PGM file read from `path`.

    Returns uint8 (maximum up to 255) or uint16, [H, W] or [H, W, 3] RGB, stretched so that the file's maximum
    becomes 255 or 65535.
    """
    header = _HEADER.match(data)
    if header is None:
        raise InputError(f"{path} has no valid PPM or PGM header; copy or convert it again")
    channels = 3 if header[1] == b"6" else 1
    width, height, maximum = int(header[2]), int(header[3]), int(header[4])
    if not 1 <= maximum <= 65535:
        raise InputError(f"{path} has the maximum value {maximum}; a PPM or PGM file must have one from 1 to 65535")
    dtype = np.dtype(">u2" if maximum > 255 else "u1")
    expected = width * height * channels * dtype.itemsize
    found = len(data) - header.end()
    if expected == 0 or found < expected:
        raise InputError(
            f"{path} holds {found} bytes of values where {width} x {height} pixels need {expected}; "
            "the file is damaged, copy it again"
        )
    values = np.frombuffer(data, dtype=dtype, offset=header.end(), count=width * height * channels)
    full = 65535 if maximum > 255 else 255
    if maximum != full:
        table = (np.minimum(np.arange(full + 1, dtype=np.uint64), maximum) * full + maximum // 2) // maximum
        values = table.astype(dtype)[values]
    native = values.astype(dtype.newbyteorder("="))
    return native.reshape((height, width) if channels == 1 else (height, width, 3))
