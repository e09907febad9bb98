"""MATLAB's .mat files, as far as stereo datasets use them: numbers, text, cells, structs and saved objects.

Reads level 5 files, compressed or not, which MATLAB writes by default and with `save -v6` or `-v7`. Files of
`save -v7.3` are HDF5 files and are refused. Only the variables asked for are decompressed, sizes are checked
before anything is allocated, and nothing in a file is ever executed.
"""

import contextlib
import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from linstereo.data.formats.mat_objects import SavedObjects, holds_objects
from linstereo.data.formats.mat_values import MatValue, variables
from linstereo.errors import InputError
from linstereo.files import read_file

_HEADER_BYTES = 128
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def mat_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The names of the variables of a .mat file; of a large file only the parts that hold them are read."""
    if not Path(path).is_file():
        raise InputError(f"{path} is no file; check the path")
    try:
        with Path(path).open("rb") as stream:
            data = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise InputError(f"{path} cannot be read ({error}); copy or download it again") from error
    with _damage_told(path):
        return tuple(name for name, _ in variables(data[_HEADER_BYTES:], _byte_order(data, path)))


def read_mat(path: str | os.PathLike[str], *, names: tuple[str, ...]) -> dict[str, MatValue]:
    """Read the variables `names` of a .mat file; the result lacks those that the file does not have.

    Numbers are arrays of MATLAB's shape and type, text is str, a cell array is a list (column by column), a
    struct or a saved object is the dict of its fields, an array of structs is a list of dicts.
    """
    data = memoryview(read_file(path))
    order = _byte_order(data, path)
    with _damage_told(path):
        readers = dict(variables(data[_HEADER_BYTES:], order))
        values = {name: readers[name]() for name in names if name in readers}
        if not holds_objects(values):
            return values
        objects = SavedObjects(np.asarray(readers[""](), dtype=np.uint8))
        return {name: objects.resolve(value) for name, value in values.items()}


def _byte_order(data: memoryview, path: str | os.PathLike[str]) -> str:
    """The byte order of the file, "<" or ">", from its header; anything but a level 5 file is an `InputError`."""
    if _HDF5_SIGNATURE in (bytes(data[:8]), bytes(data[512:520])):
        raise InputError(f"{path} is a MATLAB 7.3 (HDF5) file; load it in MATLAB and save it again with -v7")
    mark = bytes(data[126:128])
    if len(data) <= _HEADER_BYTES or mark not in (b"IM", b"MI"):
        raise InputError(f"{path} is not a .mat file of MATLAB 5 or later; check the path")
    return "<" if mark == b"IM" else ">"


@contextlib.contextmanager
def _damage_told(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what a malformed file raises into one sentence."""
    try:
        yield
    except InputError:
        raise
    except (struct.error, zlib.error, ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise InputError(f"{path} is a damaged or unusual .mat file ({error}); copy or download it again") from error
