"""Between disparity in pixels and depth in metres."""

import numpy as np
import numpy.typing as npt

from linstereo.geometry.calibration import StereoCalibration

PIXELS, SHARE = 1.0, 0.05
"""A disparity is right if it is off by less than this many px or this share of the true one, a depth if by less than
this share."""
_FALL = 1.5
"""Power of the tolerance by which the odds of a right disparity fall: what fits rendered pairs that were not trained
on, with and without noise (1.1 and 1.6)."""


def disparity_to_depth(disparity: npt.ArrayLike, calibration: StereoCalibration) -> npt.NDArray[np.float32]:
    """Depth along the optical axis for each pixel of a disparity map.

    `disparity` is [H, W] in pixels, positive. Returns float32 [H, W] in metres: focal * baseline / (disparity
    + doffs). Pixels whose disparity is not finite, or where disparity + doffs <= 0, come back as infinity.
    """
    values = np.asarray(disparity, dtype=np.float64)
    shift = values + calibration.doffs
    depth = np.full(values.shape, np.inf, dtype=np.float32)  # [H, W]
    valid = np.isfinite(shift) & (shift > 0)
    with np.errstate(over="ignore"):  # a shift too small for a float32 depth is infinitely far away
        depth[valid] = calibration.focal * calibration.baseline / shift[valid]
    return depth


def depth_to_disparity(depth: npt.ArrayLike, calibration: StereoCalibration) -> npt.NDArray[np.float32]:
    """Disparity for each pixel of a depth map, the inverse of `disparity_to_depth`.

    `depth` is [H, W] in metres along the optical axis. Returns float32 [H, W] in pixels: focal * baseline /
    depth - doffs. Pixels whose depth is not finite or not positive are unknown and come back as 0, and so do
    those whose disparity would not be a positive finite number (farther than focal * baseline / doffs).
    """
    values = np.asarray(depth, dtype=np.float64)
    disparity = np.zeros(values.shape, dtype=np.float32)  # [H, W]
    valid = np.isfinite(values) & (values > 0)
    with np.errstate(over="ignore"):
        disparity[valid] = calibration.focal * calibration.baseline / values[valid] - calibration.doffs
    disparity[~(np.isfinite(disparity) & (disparity > 0))] = 0
    return disparity


def depth_confidence(
    confidence: npt.NDArray[np.float32], disparity: npt.ArrayLike, calibration: StereoCalibration | None = None
) -> npt.NDArray[np.float32]:
    """The probability that the depth is off by less than 5 %, float32 [H, W] in [0, 1].

    Depth is off by the same share as disparity + doffs. What 5 % of that are in pixels may be less than what
    `confidence` allows a disparity: without doffs, below 20 px. Then the odds fall with the 1.5th power of the ratio.

    Args:
        confidence: [H, W] in [0, 1], the probability that the disparity is off by less than 1 px or 5 %.
        disparity: [H, W] px.
        calibration: for its doffs; None stands for 0.
    """
    values = np.asarray(disparity, np.float32)
    told = np.maximum(PIXELS, SHARE * values)  # px that the confidence is about
    wanted = SHARE * (values + np.float32(0 if calibration is None else calibration.doffs))
    with np.errstate(invalid="ignore"):  # an infinite disparity has no depth, and gets 0
        odds = confidence * np.clip(wanted / told, 0, 1) ** _FALL  # times 1 - confidence
    probability = np.zeros(odds.shape, np.float32)
    np.divide(odds, odds + (1 - confidence), out=probability, where=odds > 0)
    return probability
