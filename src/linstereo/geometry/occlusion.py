"""Which pixels of the left image the right camera does not see: the left-right check of two disparity maps."""

import cv2
import numpy as np
import numpy.typing as npt

from linstereo.errors import InputError

TOLERANCE, RELATIVE_TOLERANCE = 1.0, 0.05  # px, and share of the disparity; the larger of the two counts


def left_right_difference(
    disparity: npt.NDArray[np.float32], right_disparity: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """How far the disparities of the two views disagree, float32 [H, W] in px, >= 0.

    Args:
        disparity: of the left view, [H, W] px: left pixel (x, y) matches right (x - d, y).
        right_disparity: of the right view, [H, W] px: right pixel (x, y) matches left (x + d, y). Between its pixels
            the nearest value counts, so that none is invented at its edges.

    Returns:
        Infinite where the match is outside of the right image, or either disparity is not finite.
    """
    if disparity.shape != right_disparity.shape or disparity.ndim != 2:
        raise InputError(
            f"the disparity maps have the shapes {disparity.shape} and {right_disparity.shape}; give two [H, W] of one "
            "size"
        )
    height, width = disparity.shape
    rows, columns = np.indices((height, width), dtype=np.float32)
    match = columns - disparity
    seen = cv2.remap(right_disparity, match, rows, cv2.INTER_NEAREST, borderValue=float("nan"))
    difference = np.abs(disparity - seen)
    known = np.isfinite(difference) & (match >= 0) & (match <= width - 1)
    return np.where(known, difference, np.inf).astype(np.float32)


def occluded_pixels(
    disparity: npt.NDArray[np.float32], right_disparity: npt.NDArray[np.float32]
) -> npt.NDArray[np.bool_]:
    """Pixels of the left image, bool [H, W], whose match in the right one has another disparity.

    The right camera does not see them, because something nearer is in front or they are outside of its image; or one of
    the two disparities is wrong. They may differ by 1 px, or by 5 % of the disparity. Arguments as for
    `left_right_difference`.
    """
    difference = left_right_difference(disparity, right_disparity)
    agree = difference <= np.maximum(TOLERANCE, RELATIVE_TOLERANCE * disparity)  # False for NaN
    return np.asarray(~agree, bool)
