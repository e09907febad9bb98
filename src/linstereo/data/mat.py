"""MATLAB's .mat files, as far as stereo datasets use them: numbers, text, cells, structs and saved objects.

Reads level 5 files, compressed or not, which MATLAB writes by default and with `save -v6` or `-v7`. Files of
`save -v7.3` are HDF5 files and are refused. Only the variables asked for are decompressed, sizes are checked
before anything is allocated, and nothing in a file is ever executed.
"""

import os
import struct
import zlib

import numpy as np

from linstereo.data.mat_objects import SavedObjects, holds_objects
from linstereo.data.mat_values import MatValue, variables
from linstereo.errors import InputError
from linstereo.files import read_file

_HEADER_BYTES = 128
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def read_mat(path: str | os.PathLike[str], *, names: tuple[str, ...]) -> dict[str, MatValue]:
    """Read the variables `names` of a .mat file; the result lacks those that the file does not have.

    Numbers are arrays of MATLAB's shape and type, text is str, a cell array is a list (column by column), a
    struct or a saved object is the dict of its fields, an array of structs is a list of dicts.
    """
    data = read_file(path)
    if data.startswith(_HDF5_SIGNATURE) or data[512:520] == _HDF5_SIGNATURE:
        raise InputError(f"{path} is a MATLAB 7.3 (HDF5) file; load it in MATLAB and save it again with -v7")
    if len(data) <= _HEADER_BYTES or data[126:128] not in (b"IM", b"MI"):
        raise InputError(f"{path} is not a .mat file of MATLAB 5 or later; check the path")
    order = "<" if data[126:128] == b"IM" else ">"
    try:
        readers = dict(variables(memoryview(data)[_HEADER_BYTES:], order))
        values = {name: readers[name]() for name in names if name in readers}
        if not holds_objects(values):
            return values
        objects = SavedObjects(np.asarray(readers[""](), dtype=np.uint8))
        return {name: objects.resolve(value) for name, value in values.items()}
    except (struct.error, zlib.error, ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise InputError(f"{path} is a damaged or unusual .mat file ({error}); copy or download it again") from error
