"""Files that hold one floating-point value per pixel, whatever it means: chosen by suffix, nothing interpreted."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linstereo.data.formats.exr import read_exr
from linstereo.data.formats.float_maps import as_float_map
from linstereo.data.formats.npy import read_npy
from linstereo.data.formats.pfm import read_pfm
from linstereo.errors import InputError

_READERS: Mapping[str, Callable[[str | os.PathLike[str]], NDArray[Any]]] = {
    ".pfm": read_pfm,
    ".npy": read_npy,
    ".exr": read_exr,
}


def is_float_file(path: str | os.PathLike[str]) -> bool:
    """Whether `read_float_file` reads files of this name: .pfm, .npy, .exr."""
    return Path(path).suffix.lower() in _READERS


def read_float_file(path: str | os.PathLike[str]) -> NDArray[np.float32]:
    """Read a file that `is_float_file` as float32 [H, W]; infinities, NaN and signs stay as they are."""
    values = _READERS[Path(path).suffix.lower()](path)
    if values.ndim == 3:
        raise InputError(f"{path} is a colour PFM file; a map of disparity or depth has one channel")
    return as_float_map(values, name=str(path))
