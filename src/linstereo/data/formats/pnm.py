"""Binary PPM and PGM pictures, with any maximum value, as industrial cameras write them (10 or 12 bits).

OpenCV leaves values below a maximum of 1023 or 4095 unscaled, which would turn such a picture nearly black.
Layout: netpbm.sourceforge.net/doc/ppm.html
"""

import os
import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from linstereo.errors import InputError

_GAP = rb"(?:\s|#[^\r\n]{0,500}[\r\n]){1,50}"
_HEADER = re.compile(rb"P([56])" + _GAP + rb"(\d{1,9})" + _GAP + rb"(\d{1,9})" + _GAP + rb"(\d{1,5})\s")


def is_pnm(data: bytes) -> bool:
    """Whether `data` starts like a binary PPM (P6) or PGM (P5) file."""
    return data[:2] in (b"P5", b"P6") and data[2:3] in b" \t\r\n#"


class PnmHeader(NamedTuple):
    """What the header of a PPM or PGM file says."""

    width: int
    height: int
    channels: int
    maximum: int
    """The value of white, 1 to 65535."""
    end: int
    """Where the values start, in bytes."""

    @property
    def full(self) -> int:
        """The largest value that the number of bytes allows."""
        return 65535 if self.maximum > 255 else 255

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """Type of the stored values."""
        return np.dtype(">u2" if self.maximum > 255 else "u1")


def read_pnm_header(data: bytes, path: str | os.PathLike[str]) -> PnmHeader:
    """Read the header of a PPM or PGM file read from `path`; the file is checked to be complete."""
    found = _HEADER.match(data)
    if found is None:
        raise InputError(f"{path} has no valid PPM or PGM header; copy or convert it again")
    header = PnmHeader(int(found[2]), int(found[3]), 3 if found[1] == b"6" else 1, int(found[4]), found.end())
    if not 1 <= header.maximum <= 65535:
        raise InputError(
            f"{path} has the maximum value {header.maximum}; a PPM or PGM file must have one from 1 to 65535"
        )
    expected = header.width * header.height * header.channels * header.dtype.itemsize
    stored = len(data) - header.end
    if expected == 0 or stored < expected:
        raise InputError(
            f"{path} holds {stored} bytes of values where {header.width} x {header.height} pixels need {expected}; "
            "the file is damaged, copy it again"
        )
    return header


def decode_pnm(data: bytes, path: str | os.PathLike[str]) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
    """Decode a binary PPM or PGM file read from `path`.

    Returns uint8 (maximum up to 255) or uint16, [H, W] or [H, W, 3] RGB, stretched so that the file's maximum
    becomes 255 or 65535.
    """
    header = read_pnm_header(data, path)
    dtype, width, height, channels = header.dtype, header.width, header.height, header.channels
    values = np.frombuffer(data, dtype=dtype, offset=header.end, count=width * height * channels)
    maximum, full = header.maximum, header.full
    if maximum != full:
        table = (np.minimum(np.arange(full + 1, dtype=np.uint64), maximum) * full + maximum // 2) // maximum
        values = table.astype(dtype)[values]
    native = values.astype(dtype.newbyteorder("="))
    return native.reshape((height, width) if channels == 1 else (height, width, 3))
