"""NumPy's .npy files holding one map of numbers, such as TartanAir's depth and Booster's disparity.

The header is read here, not by `numpy.load`: it is three fields of text, and a pattern that knows only
numbers can neither unpickle an object nor evaluate an expression. Layout:
numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import os
import re

import numpy as np
import numpy.typing as npt

from linstereo.errors import InputError
from linstereo.files import atomic_path, read_file

_MAGIC = b"\x93NUMPY"
_DESCR = re.compile(rb"'descr'\s*:\s*'([<>|])([fiu])([1248])'")
_ORDER = re.compile(rb"'fortran_order'\s*:\s*(True|False)\b")
_SHAPE = re.compile(rb"'shape'\s*:\s*\(\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,?\s*\)")


def read_npy(path: str | os.PathLike[str]) -> npt.NDArray[np.number]:
    """Read a .npy file that holds a two-dimensional array of integers or floats.

    Returns the array [H, W] in its stored type, in the machine's byte order.
    """
    data = read_file(path)
    if not data.startswith(_MAGIC) or len(data) < 12:
        raise InputError(f"{path} is not a .npy file; give a file that numpy.save wrote")
    length_bytes = {1: 2, 2: 4, 3: 4}.get(data[6], 0)
    if length_bytes == 0:
        raise InputError(f"{path} has the .npy version {data[6]}.{data[7]}, only 1 to 3 are known; save it again")
    start = 8 + length_bytes
    end = start + int.from_bytes(data[8:start], "little")
    header = data[start:end]
    descr, order, shape = _DESCR.search(header), _ORDER.search(header), _SHAPE.search(header)
    if descr is None or order is None or shape is None:
        shown = header[:120].decode("latin-1").strip()
        raise InputError(f"{path} must hold a two-dimensional array of numbers, but its header says {shown!r}")
    kind = (descr[2] + descr[3]).decode("ascii")
    if kind == "f1":
        raise InputError(f"{path} holds values of the unknown type {kind!r}; save it as float32")
    dtype = np.dtype((">" if descr[1] == b">" else "<") + kind)
    height, width = int(shape[1]), int(shape[2])
    expected = height * width * dtype.itemsize
    found = max(len(data) - end, 0)
    if expected == 0 or expected != found:
        raise InputError(
            f"{path} holds {found} bytes of values where an array of {height} x {width} needs {expected}; "
            "the file is damaged or empty, copy or save it again"
        )
    values = np.frombuffer(data, dtype=dtype, offset=end)
    array = values.reshape((height, width), order="F" if order[1] == b"True" else "C")  # [H, W]
    return np.ascontiguousarray(array, dtype=dtype.newbyteorder("="))


def write_npy(path: str | os.PathLike[str], array: npt.ArrayLike) -> None:
    """Write a two-dimensional array of integers or floats [H, W] as .npy, in its own type; atomic."""
    values = np.asarray(array)
    if values.dtype.kind not in "fiu" or values.dtype.itemsize > 8 or values.ndim != 2 or values.size == 0:
        raise InputError(
            f"cannot write {path}: the array is {values.dtype} {values.shape}, it must be a map [H, W] of numbers"
        )
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        np.save(stream, values, allow_pickle=False)
