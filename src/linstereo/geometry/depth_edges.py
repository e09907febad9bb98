"""Edges in a disparity map between which points would fly: half-way between a near and a far surface."""

import cv2
import numpy as np
import numpy.typing as npt

MAX_STEP, MAX_RELATIVE_STEP = 1.0, 0.05  # px, and share of the disparity, that neighbours two pixels apart may differ


def flying_edges(disparity: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Pixels at a jump of the disparity, bool [H, W], whose points would fly between the surfaces.

    A pixel counts if the disparities around it differ by more than a surface in sight of both cameras would explain: by
    more than 1 px and 5 % of the disparity between pixels that are two apart, along rows or columns.

    Args:
        disparity: [H, W] px, >= 0.
    """
    around = np.pad(disparity, 1, mode="edge")
    across = np.abs(around[1:-1, 2:] - around[1:-1, :-2])
    down = np.abs(around[2:, 1:-1] - around[:-2, 1:-1])
    step = np.maximum(across, down)
    edge = ~(step <= np.maximum(MAX_STEP, MAX_RELATIVE_STEP * disparity))
    return cv2.dilate(edge.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)
