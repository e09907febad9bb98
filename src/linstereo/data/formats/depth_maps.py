"""Depth maps in every file format that the datasets use, chosen by suffix.

| suffix | content                                                              | unknown pixels in the file |
|--------|----------------------------------------------------------------------|----------------------------|
| .npy   | two-dimensional array of floats or integers, metres (TartanAir V1)   | 0, inf or nan              |
| .pfm   | 32-bit floats, metres                                                | 0, inf or nan              |
| .exr   | half or float channel, metres (Blender)                              | 0, inf or nan              |
| .png   | 16-bit grey, millimetres (depth cameras)                             | 0                          |
| .png   | 8-bit RGBA, the bytes of a 32-bit float in metres (TartanAir V2)     | 0, inf or nan              |
"""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linstereo.data.formats.float_files import is_float_file, read_float_file, write_float_file
from linstereo.data.formats.float_maps import as_float_map
from linstereo.data.formats.packed_depth import read_packed_depth
from linstereo.data.formats.png import check_png, read_png_values, write_png_values
from linstereo.errors import InputError
from linstereo.files import read_file

SUFFIXES = (".npy", ".pfm", ".exr", ".png")
_MILLIMETRES = 1000
_MOST_IN_PNG = 65535
_RGBA = 6


def read_depth(path: str | os.PathLike[str]) -> NDArray[np.float32]:
    """Read a depth map as float32 [H, W] in metres along the optical axis, >= 0, where 0 means unknown.

    Infinite, NaN and negative values count as unknown.
    """
    suffix = Path(path).suffix.lower()
    if is_float_file(path):
        depth = read_float_file(path).copy()
    elif suffix == ".png":
        depth = as_float_map(_read_png(path), name=str(path)).copy()
    else:
        raise InputError(f"{path} has the suffix {suffix!r}; a depth map must be {', '.join(SUFFIXES)}")
    depth[~(np.isfinite(depth) & (depth > 0))] = 0
    return depth


def write_depth(path: str | os.PathLike[str], depth: NDArray[np.float32]) -> None:
    """Write a depth map [H, W] in metres, infinite where there is none, as .pfm, .npy, .exr or .png; atomic.

    .pfm, .npy and .exr hold exactly the values. .png holds millimetres in 16 bits, as depth cameras do, and 0 where
    there is no depth or it is beyond 65.535 m.
    """
    suffix = Path(path).suffix.lower()
    if is_float_file(path):
        write_float_file(path, depth)
    elif suffix == ".png":
        millimetres = np.rint(depth.astype(np.float64) * _MILLIMETRES)
        write_png_values(path, np.where(millimetres <= _MOST_IN_PNG, millimetres, 0).astype(np.uint16))
    else:
        raise InputError(f"{path} has the suffix {suffix!r}; a depth map is written as {', '.join(SUFFIXES)}")


def _read_png(path: str | os.PathLike[str]) -> NDArray[np.float32]:
    if check_png(read_file(path), path).colour_type == _RGBA:
        return read_packed_depth(path)
    stored = read_png_values(path)
    if stored.dtype != np.uint16:
        raise InputError(f"{path} is an 8-bit PNG; a depth map must have 16 bits (millimetres) or four channels")
    return stored.astype(np.float32) / np.float32(_MILLIMETRES)
