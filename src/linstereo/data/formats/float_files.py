"""Files that hold one floating-point value per pixel, whatever it means: chosen by suffix, nothing interpreted."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linstereo.data.formats.exr import read_exr, write_exr
from linstereo.data.formats.float_maps import as_float_map
from linstereo.data.formats.npy import read_npy, write_npy
from linstereo.data.formats.pfm import read_pfm, write_pfm
from linstereo.errors import InputError

_READERS: Mapping[str, Callable[[str | os.PathLike[str]], NDArray[Any]]] = {
    ".pfm": read_pfm,
    ".npy": read_npy,
    ".exr": read_exr,
}
_WRITERS: Mapping[str, Callable[[str | os.PathLike[str], NDArray[Any]], None]] = {
    ".pfm": write_pfm,
    ".npy": write_npy,
    ".exr": write_exr,
}


def is_float_file(path: str | os.PathLike[str]) -> bool:
    """Whether `read_float_file` and `write_float_file` take files of this name: .pfm, .npy, .exr."""
    return Path(path).suffix.lower() in _READERS


def read_float_file(path: str | os.PathLike[str]) -> NDArray[np.float32]:
    """Read a file that `is_float_file` as float32 [H, W]; infinities, NaN and signs stay as they are."""
    values = _READERS[Path(path).suffix.lower()](path)
    if values.ndim == 3:
        raise InputError(f"{path} is a colour PFM file; a map of disparity or depth has one channel")
    return as_float_map(values, name=str(path))


def write_float_file(path: str | os.PathLike[str], values: NDArray[np.float32]) -> None:
    """Write float32 [H, W] into a file that `is_float_file`, exactly the values, in EXR as channel Z; atomic."""
    _WRITERS[Path(path).suffix.lower()](path, as_float_map(values, name=f"the map for {path}"))
