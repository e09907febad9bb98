"""What all files of floating-point pixel values (disparity, depth) have in common."""

import numpy as np
import numpy.typing as npt

from linstereo.errors import InputError


def as_float_map(values: npt.ArrayLike, *, name: str) -> npt.NDArray[np.float32]:
    """`values` as float32 [H, W], not empty; infinities and NaN stay as they are.

    Integers and other floats are rounded to float32; a finite value too large for it, another number of
    dimensions or values that are not real numbers are an `InputError` that calls the map `name`.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} holds {array.dtype} values; give integers or floating-point numbers")
    if array.ndim != 2 or array.size == 0:
        raise InputError(f"{name} has the shape {array.shape}; give a map [H, W] that is not empty")
    return to_float32(array, name=name)


def to_float32(array: npt.NDArray[np.generic], *, name: str) -> npt.NDArray[np.float32]:
    """`array` of any shape as contiguous float32 in the machine's byte order; refuses what overflows."""
    with np.errstate(over="ignore"):
        result = np.ascontiguousarray(array, dtype=np.float32)
    if array.dtype.itemsize > 4 and bool((np.isinf(result) & np.isfinite(array)).any()):
        raise InputError(f"{name} holds values beyond the range of 32-bit floats; scale them down")
    return result
