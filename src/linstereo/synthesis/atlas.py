"""All textures of a scene in one image, with their smaller versions, so that every pixel is looked up in one go.

Level 0 of a texture is the texture itself in linear light; each further level has half its side, down to one texel.
Every level carries a frame of one texel that repeats it on the other side, so that textures tile and never mix.
"""

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError

LEVELS = 12
LARGEST = 1 << (LEVELS - 1)
_WIDTH = 4096
_COLUMNS = 1024  # of the maps given to cv2.remap, which takes no long single row


def _linear_light() -> NDArray[np.uint16]:
    """Linear intensities, 0 to 65535, of the 256 sRGB values."""
    value = np.arange(256) / 255
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    return np.round(65535 * linear).astype(np.uint16)


LINEAR_LIGHT = _linear_light()


class Atlas:
    """Textures that are sampled together.

    Args:
        textures: uint8 [S, S, 3] sRGB images, S a power of two up to 2048.
    """

    def __init__(self, textures: Sequence[NDArray[np.uint8]]) -> None:
        for texture in textures:
            _check(texture)
        sides = np.array([len(texture) for texture in textures])
        corners, height, width = _shelves(sides)
        self.image = np.empty((height, width, 3), np.uint16)
        shape = (len(textures), LEVELS)
        self._left = np.zeros(shape, np.float32)  # of the first texel inside the frame
        self._top = np.zeros(shape, np.float32)
        self._side = np.zeros(shape, np.float32)
        self._last_level = np.log2(sides).astype(np.float32)  # [T]
        for index, (texture, (column, row)) in enumerate(zip(textures, corners, strict=True)):
            self._add(index, texture, column, row)

    def _add(self, index: int, texture: NDArray[np.uint8], column: int, row: int) -> None:
        image: Any = cv2.LUT(texture, LINEAR_LIGHT)
        side = len(texture)
        for level in range(LEVELS):
            self._left[index, level], self._top[index, level], self._side[index, level] = column + 1, row + 1, side
            if level <= self._last_level[index]:
                self.image[row : row + side + 2, column : column + side + 2] = cv2.copyMakeBorder(
                    image, 1, 1, 1, 1, cv2.BORDER_WRAP
                )
            if side == 1:
                continue
            column, row = (column + side + 2, row) if level == 0 else (column, row + side + 2)
            side //= 2
            image = cv2.resize(image, (side, side), interpolation=cv2.INTER_AREA)

    def sample(
        self,
        texture: NDArray[np.integer],
        u: NDArray[np.float32],
        v: NDArray[np.float32],
        footprint: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        """Colours, float32 [3, N] linear in [0, 1].

        Args:
            texture: [N] index of the texture.
            u: [N] texture coordinates across; any number, with period 1.
            v: [N] texture coordinates downwards.
            footprint: [N] side of a pixel in texture coordinates; picks the level.
        """
        last = self._last_level.take(texture)
        with np.errstate(divide="ignore", invalid="ignore"):  # faces seen nearly edge-on have any footprint
            level = np.fmin(np.fmax(np.log2(footprint) + last, 0), last)  # [N]
        lower = level.astype(np.int32)
        weight = level - lower
        u = u - np.floor(u)
        v = v - np.floor(v)
        slot = texture * LEVELS + lower
        fine = self._look_up(slot, u, v)
        coarse = self._look_up(np.minimum(slot + 1, self._side.size - 1), u, v)
        coarse -= fine
        coarse *= weight
        fine += coarse
        fine *= np.float32(1 / 65535)
        return fine

    def _look_up(
        self, slot: NDArray[np.integer], u: NDArray[np.float32], v: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        count = len(slot)
        rows = -(-count // _COLUMNS)
        maps = np.zeros((2, rows * _COLUMNS), np.float32)
        side = self._side.take(slot)
        for target, start, coordinate in zip(maps, (self._left, self._top), (u, v), strict=True):
            np.multiply(coordinate, side, out=target[:count])
            target[:count] += start.take(slot) - np.float32(0.5)
        across, down = maps.reshape(2, rows, _COLUMNS)
        found = cv2.remap(self.image, across, down, cv2.INTER_LINEAR)  # [rows, columns, 3]
        return np.stack([plane.ravel()[:count].astype(np.float32) for plane in cv2.split(found)])  # [3, N]


def _check(texture: NDArray[np.uint8]) -> None:
    side = len(texture)
    if texture.dtype != np.uint8 or texture.shape != (side, side, 3) or side & (side - 1) or not 0 < side <= LARGEST:
        raise InputError(
            f"a texture is {texture.dtype} {texture.shape}; it must be uint8 [S, S, 3] with S a power of two "
            f"up to {LARGEST}"
        )


def _shelves(sides: NDArray[np.integer]) -> tuple[list[tuple[int, int]], int, int]:
    """Where to put each texture with its levels (column, row), and the height and width of the whole."""
    corners = [(0, 0)] * len(sides)
    column = row = shelf = width = 0
    for index in np.argsort(-sides, kind="stable"):
        side = int(sides[index])
        across = side + 2 + side // 2 + 2
        down = side + 2 * side.bit_length()
        if column and column + across > _WIDTH:
            column, row, shelf = 0, row + shelf, 0
        corners[index] = (column, row)
        column += across
        shelf, width = max(shelf, down), max(width, column)
    if row + shelf > 32767:
        raise InputError(f"the scene's {len(sides)} textures do not fit into one image; use fewer or smaller ones")
    return corners, row + shelf, width
