"""Steps in a disparity map, at which points would fly half-way between a near and a far surface."""

import cv2
import numpy as np
import numpy.typing as npt

MAX_STEP, MAX_RELATIVE_STEP = 1.0, 0.05  # px, and share of the disparity, that neighbours two pixels apart may differ
_SHARP_STEP, _RELATIVE_SHARP_STEP = 4.0, 0.1  # px, and share of the disparity, from which a step parts two surfaces
_BETWEEN = 1.0  # px from either of them, from which a value belongs to neither
_MIXED = 0.5  # px by which a value between pixels may differ from the nearest one; beyond, it would mix two surfaces
_SQUARE = np.ones((3, 3), np.uint8)


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
    return np.asarray(~(step <= np.maximum(MAX_STEP, MAX_RELATIVE_STEP * disparity)))


def sharpened(disparity: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The disparity without what is blended between two surfaces, float32 [H, W] in px.

    Networks blend a near and a far surface in the pixels along the border between them, and are wrong by half of the
    step whichever of the two is there. Where the 3 x 3 pixels around differ by more than 4 px and 10 %, a pixel more
    than 1 px from both the smallest and the largest of them takes whichever of the two it differs from less.

    Args:
        disparity: [H, W] px, >= 0.
    """
    near, far = cv2.dilate(disparity, _SQUARE), cv2.erode(disparity, _SQUARE)
    above, below = near - disparity, disparity - far
    step = above + below > np.maximum(_SHARP_STEP, _RELATIVE_SHARP_STEP * disparity)
    blended = step & (above > _BETWEEN) & (below > _BETWEEN)
    return np.where(blended, np.where(above < below, near, far), disparity)


def at_size(disparity: npt.NDArray[np.float32], height: int, width: int) -> npt.NDArray[np.float32]:
    """A disparity [h, w] in px of an image of that size as one of another size, float32 [H, W], px.

    Values between pixels are interpolated. In a smaller map those at a step are the nearest pixel's instead: between
    two surfaces there is nothing.
    """
    if disparity.shape != (height, width):
        factor = width / disparity.shape[1]
        between = cv2.resize(disparity, (width, height), interpolation=cv2.INTER_LINEAR) * factor
        if factor < 1:
            nearest = cv2.resize(disparity, (width, height), interpolation=cv2.INTER_NEAREST_EXACT) * factor
            np.copyto(between, nearest, where=np.abs(between - nearest) > _MIXED)
        disparity = between
    return np.ascontiguousarray(disparity, dtype=np.float32)
