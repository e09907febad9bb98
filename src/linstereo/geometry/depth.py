"""Between disparity in pixels and depth in metres."""

import numpy as np
import numpy.typing as npt

from linstereo.geometry.calibration import StereoCalibration


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
