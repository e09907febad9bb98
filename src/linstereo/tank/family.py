"""The AprilTag family 16h5: thirty patterns of 4 x 4 cells in a black frame of one cell.

The patterns stand here, upright as the AprilTag project draws them (its images `tag16_05_00000.png` and so on), and not
in OpenCV's tables, which have them turned by half a turn in some versions and not in others: the corner that a layout
calls the first would depend on the version.
"""

import functools
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError

NAME = "tag16h5"
CELLS = 6
"""Cells along a side of a tag, its black frame included."""
CODES = (
    *(0x231B, 0x2EA5, 0x346A, 0x45B9, 0x79A6, 0x7F6B, 0xB358, 0xE745, 0xFE59, 0x156D),
    *(0x380B, 0xF0AB, 0x0D84, 0x4736, 0x8C72, 0xAF10, 0x093C, 0x93B4, 0xA503, 0x468F),
    *(0xE137, 0x5795, 0xDF42, 0x1C1D, 0xE9DC, 0x73AD, 0xAD5F, 0xD530, 0x07CA, 0xAF2E),
)
"""The cells of each tag row by row from the upper left, the highest bit first; 1 is white."""
_INNER = CELLS - 2
_CORRECTABLE = 2  # bits: half of the Hamming distance, rounded down


def pattern(tag: int) -> NDArray[np.uint8]:
    """The cells [6, 6] of tag 0 to 29, upright: 1 white, 0 black."""
    if not 0 <= tag < len(CODES):
        raise InputError(f"there is no tag {tag} in the family {NAME}; its tags are 0 to {len(CODES) - 1}")
    bits = [CODES[tag] >> (_INNER * _INNER - 1 - index) & 1 for index in range(_INNER * _INNER)]
    cells = np.zeros((CELLS, CELLS), np.uint8)
    cells[1:-1, 1:-1] = np.array(bits, np.uint8).reshape(_INNER, _INNER)
    return cells


@functools.cache
def dictionary() -> Any:
    """The family as OpenCV's detector takes it; corners then run clockwise from the upper left of the upright tag."""
    rows = [
        cv2.aruco.Dictionary.getByteListFromBits(np.ascontiguousarray(pattern(tag)[1:-1, 1:-1]))
        for tag in range(len(CODES))
    ]
    return cv2.aruco.Dictionary(np.concatenate(rows), _INNER, _CORRECTABLE)
