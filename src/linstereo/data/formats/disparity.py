"""Disparity maps in every file format of the field, chosen by suffix.

| suffix | content                                                        | unknown pixels in the file |
|--------|----------------------------------------------------------------|----------------------------|
| .pfm   | 32-bit floats (Middlebury, ETH3D, SceneFlow)                   | inf or nan                 |
| .png   | 16-bit integers, 256 for each pixel of disparity (KITTI)       | 0                          |
| .npy   | two-dimensional array of floats or integers (Booster, own use) | 0, inf or nan              |
| .exr   | half or float channel                                          | 0, inf or nan              |
"""

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from linstereo.data.formats.float_files import is_float_file, read_float_file, write_float_file
from linstereo.data.formats.float_maps import as_float_map
from linstereo.data.formats.png import read_png_values, write_png_values
from linstereo.errors import InputError

_PNG_SCALE = 256
_PNG_LARGEST = 65535


def read_disparity(path: str | os.PathLike[str]) -> npt.NDArray[np.float32]:
    """Read a disparity map as float32 [H, W] in pixels, >= 0, where 0 means unknown in all formats.

    Infinite, NaN and negative values count as unknown. A file whose known values are all negative follows the
    opposite sign convention and is an `InputError`.
    """
    suffix = Path(path).suffix.lower()
    if is_float_file(path):
        disparity = read_float_file(path).copy()
    elif suffix == ".png":
        stored = read_png_values(path)
        if stored.dtype != np.uint16:
            raise InputError(f"{path} is an 8-bit PNG; a disparity map must have 16 bits (value / 256 = pixels)")
        disparity = stored.astype(np.float32) / np.float32(_PNG_SCALE)
    else:
        raise InputError(f"{path} has the suffix {suffix!r}; a disparity map must be .pfm, .png, .npy or .exr")
    known = np.isfinite(disparity) & (disparity != 0)
    positive = known & (disparity > 0)
    if known.any() and not positive.any():
        raise InputError(f"{path} holds only negative disparities; change their sign, disparity is positive here")
    disparity[~positive] = 0
    return disparity


def write_disparity(path: str | os.PathLike[str], disparity: npt.ArrayLike) -> None:
    """Write a disparity map [H, W] in pixels, 0 = unknown, as .pfm, .npy, .exr or .png; atomic.

    .pfm, .npy and .exr hold exactly the float32 values. .png holds round(256 * disparity), but at least 1 where the
    disparity is above 0, since 0 means unknown; it takes only values from 0 to below 256.
    """
    suffix = Path(path).suffix.lower()
    values = as_float_map(disparity, name=f"the disparity map for {path}")
    if is_float_file(path):
        write_float_file(path, values)
    elif suffix == ".png":
        write_png_values(path, _as_png_values(values, path))
    else:
        raise InputError(f"cannot write {path}: the suffix {suffix!r} is not one of .pfm, .npy, .exr, .png")


def _as_png_values(disparity: npt.NDArray[np.float32], path: str | os.PathLike[str]) -> npt.NDArray[np.uint16]:
    if not np.isfinite(disparity).all() or bool((disparity < 0).any()):
        raise InputError(f"cannot write {path}: a disparity is negative or not finite, PNG needs 0 to 256; write .pfm")
    scaled = np.rint(disparity.astype(np.float64) * _PNG_SCALE)
    if bool((scaled > _PNG_LARGEST).any()):
        raise InputError(
            f"cannot write {path}: the largest disparity is {disparity.max():g}, PNG holds less than 256; write .pfm"
        )
    return np.where(disparity > 0, np.maximum(scaled, 1), 0).astype(np.uint16)
