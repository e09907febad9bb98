"""Depth as PNG files whose four 8-bit channels are the four bytes of a 32-bit float (TartanAir V2).

The bytes of a little-endian float lie in the order blue, green, red, alpha, which is how OpenCV lays out a
pixel: the TartanAir V2 documentation (tartanair.org) decodes a file by viewing the array of `cv2.imread(...,
IMREAD_UNCHANGED)` as `<f4`.
"""

import os

import numpy as np
import numpy.typing as npt

from linstereo.data.formats.decoding import decode, write_encoded
from linstereo.data.formats.float_maps import as_float_map, to_float32
from linstereo.data.formats.png import check_png
from linstereo.errors import InputError
from linstereo.files import read_file


def read_packed_depth(path: str | os.PathLike[str]) -> npt.NDArray[np.float32]:
    """Read a packed depth PNG as float32 [H, W], values as stored (metres in TartanAir), also inf and NaN."""
    data = read_file(path)
    header = check_png(data, path)
    if header.bit_depth != 8 or header.colour_type != 6:
        raise InputError(
            f"{path} is not a packed depth map; it must be a PNG of 8 bits with red, green, blue and alpha"
        )
    packed = np.ascontiguousarray(decode(data, path=path))  # [H, W, 4], blue first
    if packed.dtype != np.uint8 or packed.ndim != 3 or packed.shape[2] != 4:
        raise InputError(f"{path} cannot be decoded as four channels of 8 bits; copy or download it again")
    return to_float32(packed.view("<f4")[..., 0], name=str(path))  # [H, W]


def write_packed_depth(path: str | os.PathLike[str], depth: npt.ArrayLike) -> None:
    """Write a map [H, W] as a packed depth PNG, bit by bit the float32 values; atomic."""
    values = as_float_map(depth, name=f"the depth map for {path}").astype("<f4")
    packed = np.ascontiguousarray(values)[..., None].view(np.uint8)  # [H, W, 4], blue first
    write_encoded(path, packed, suffix=".png")
