"""Smooth noise that tiles, made by enlarging grids of random numbers."""

import cv2
import numpy as np
from numpy.typing import NDArray


def value_noise(
    rng: np.random.Generator, size: int, cells: int, *, cells_across: int | None = None
) -> NDArray[np.float32]:
    """Smooth noise of one scale that tiles with the image's size.

    Args:
        rng: where the randomness comes from.
        size: S, rows and columns, a power of two.
        cells: random numbers from top to bottom, a power of two up to S.
        cells_across: from left to right; as many as `cells` if None.

    Returns:
        float32 [S, S], within about -1 to 1.
    """
    across = cells if cells_across is None else cells_across
    return _enlarged(rng.random((cells, across), np.float32) * 2 - 1, size, size)


def fractal_noise(
    rng: np.random.Generator, size: int, *, cells: int = 4, octaves: int = 5, roughness: float = 0.5
) -> NDArray[np.float32]:
    """Noise of several scales, each twice as fine and `roughness` times as strong as the one before; tiles.

    Args:
        rng: where the randomness comes from.
        size: S, rows and columns, a power of two.
        cells: random numbers along a side at the coarsest scale, a power of two.
        octaves: scales, at least 1; those finer than a pixel are left out.
        roughness: strength of a scale relative to the one before, > 0.

    Returns:
        float32 [S, S] with its least value 0 and its greatest 1.
    """
    cells = min(cells, size)
    total = rng.random((cells, cells), np.float32) - 0.5
    strength = 1.0
    for _ in range(octaves - 1):
        if cells >= size:
            break
        cells *= 2
        strength *= roughness
        total = _enlarged(total, cells, cells)
        total += np.float32(strength) * (rng.random((cells, cells), np.float32) - 0.5)
    total = _enlarged(total, size, size)
    low, high = float(total.min()), float(total.max())
    return (total - low) / max(high - low, 1e-6)


def _enlarged(grid: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    if grid.shape == (rows, columns):
        return grid
    y, x = rows // grid.shape[0], columns // grid.shape[1]
    wrapped = np.pad(grid, 2, mode="wrap")
    large = cv2.resize(wrapped, (wrapped.shape[1] * x, wrapped.shape[0] * y), interpolation=cv2.INTER_CUBIC)
    return np.ascontiguousarray(large[2 * y : 2 * y + rows, 2 * x : 2 * x + columns])
