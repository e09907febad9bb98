"""A pair of pictures to measure with: speed depends on size, and hardly on what they show."""

import cv2
import numpy as np
from numpy.typing import NDArray

SHIFT = 8
"""Disparity of the pair, px."""


def textured_pair(height: int, width: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Smooth colour noise and the same moved to the left by `SHIFT` px: uint8 [height, width, 3], the same always."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (-(-height // 4), -(-width // 4), 3), dtype=np.uint8)
    left = np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)
    return left, np.ascontiguousarray(np.roll(left, -SHIFT, axis=1))
