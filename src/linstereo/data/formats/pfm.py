"""Portable float maps (PFM): the files of Middlebury, ETH3D and SceneFlow disparities.

Layout, as described for the Middlebury benchmark (vision.middlebury.edu/stereo/submit3/upload-format.html)
and on netpbm.sourceforge.net/doc/pfm.html: a text header `PF` (colour) or `Pf` (grey), width, height and a
scale, each followed by white space, then 32-bit floats row by row from the bottom of the picture to its top.
A negative scale means little-endian values. The scale's magnitude is ignored, as Middlebury does: its own
files hold 0.003922 there and values in pixels nevertheless.
"""

import math
import os
import re

import numpy as np
import numpy.typing as npt

from linstereo.data.formats.float_maps import to_float32
from linstereo.errors import InputError
from linstereo.files import atomic_path, read_file

_HEADER = re.compile(rb"(PF|Pf)\s+(\d{1,10})\s+(\d{1,10})\s+([-+.\deE]{1,32})[ \t]*\r?\n")


def read_pfm(path: str | os.PathLike[str]) -> npt.NDArray[np.float32]:
    """Read a PFM file of either byte order.

    Returns float32 [H, W] for a grey and [H, W, 3] (RGB) for a colour file, top row first, values as stored,
    including infinities and NaN.
    """
    data = read_file(path)
    header = _HEADER.match(data)
    if header is None:
        raise InputError(f"{path} is not a PFM file (no valid PFM header); give a file that starts with PF or Pf")
    channels = 3 if header[1] == b"PF" else 1
    width, height = int(header[2]), int(header[3])
    try:
        scale = float(header[4])
    except ValueError:
        scale = math.nan
    if not math.isfinite(scale) or scale == 0:
        raise InputError(f"{path} has the PFM scale {header[4].decode()!r}; it must be a number other than 0")
    expected = width * height * channels * 4
    found = len(data) - header.end()
    if expected == 0 or expected != found:
        raise InputError(
            f"{path} holds {found} bytes of values where {width} x {height} pixels need {expected}; "
            "the file is damaged, copy or download it again"
        )
    values = np.frombuffer(data, dtype="<f4" if scale < 0 else ">f4", offset=header.end())
    rows = values.reshape(height, width, channels)[::-1]  # [H, W, C], top row first
    return to_float32(rows if channels == 3 else rows[..., 0], name=str(path))


def write_pfm(path: str | os.PathLike[str], array: npt.ArrayLike, *, little_endian: bool = True) -> None:
    """Write `array`, numbers [H, W] or [H, W, 3] (RGB), top row first, as 32-bit floats; atomic, exact."""
    values = np.asarray(array)
    if values.dtype.kind not in "fiu":
        raise InputError(f"cannot write {path}: the array holds {values.dtype} values, PFM files hold real numbers")
    if values.size == 0 or not (values.ndim == 2 or (values.ndim == 3 and values.shape[2] == 3)):
        raise InputError(
            f"cannot write {path}: the array's shape is {values.shape}, PFM files hold [H, W] or [H, W, 3]"
        )
    values = to_float32(values, name=f"the array for {path}")
    kind = "Pf" if values.ndim == 2 else "PF"
    header = f"{kind}\n{values.shape[1]} {values.shape[0]}\n{-1.0 if little_endian else 1.0}\n"
    body = values[::-1].astype("<f4" if little_endian else ">f4").tobytes()
    with atomic_path(path) as temporary:
        temporary.write_bytes(header.encode("ascii") + body)
