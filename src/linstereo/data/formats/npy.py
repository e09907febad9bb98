"""NumPy's .npy files holding one map of numbers, such as TartanAir's depth and Booster's disparity."""

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from linstereo.errors import InputError
from linstereo.files import atomic_path, readable


def read_npy(path: str | os.PathLike[str]) -> npt.NDArray[np.number]:
    """Read a .npy file that holds a two-dimensional array of integers or floats.

    Returns the array [H, W] in its stored type, in the machine's byte order. Nothing is unpickled, and nothing is
    allocated for a size that the header claims and the file does not have.
    """
    with readable(path), np.errstate(over="ignore"):  # of the size that a forged header claims
        size = Path(path).stat().st_size
        try:
            stored = np.lib.format.open_memmap(path, mode="r")  # what np.load does with mmap_mode, but .npy alone
        except OSError:
            raise
        except Exception as error:  # of a dozen kinds, depending on where a header is damaged
            raise InputError(f"{path} is no whole .npy file of plain numbers; copy or save it again") from error
        if stored.dtype.kind not in "fiu" or stored.dtype.itemsize > 8 or stored.ndim != 2 or stored.size == 0:
            raise InputError(
                f"{path} holds {stored.dtype} values of the shape {stored.shape}; it must hold a map [H, W] of numbers"
            )
        if stored.offset + stored.nbytes != size:
            raise InputError(f"{path} has data after its values; it is damaged, copy or save it again")
        return np.array(stored, dtype=stored.dtype.newbyteorder("="), order="C")


def write_npy(path: str | os.PathLike[str], array: npt.ArrayLike) -> None:
    """Write a two-dimensional array of integers or floats [H, W] as .npy, in its own type; atomic."""
    values = np.asarray(array)
    if values.dtype.kind not in "fiu" or values.dtype.itemsize > 8 or values.ndim != 2 or values.size == 0:
        raise InputError(
            f"cannot write {path}: the array is {values.dtype} {values.shape}, it must be a map [H, W] of numbers"
        )
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        np.save(stream, values, allow_pickle=False)
