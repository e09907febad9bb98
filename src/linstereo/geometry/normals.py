"""Surface normals from disparity: planes of the scene are planes of the disparity map too."""

import numpy as np
import numpy.typing as npt

from linstereo.geometry.calibration import StereoCalibration

_REACH = 2  # px on either side of a pixel that its plane is fitted to
_MAX_SLOPE = 1.0  # px of disparity per px; what differs more from the pixel in the middle is another surface


def surface_normals(disparity: npt.NDArray[np.float32], calibration: StereoCalibration) -> npt.NDArray[np.float32]:
    """Unit normals, float32 [H, W, 3], x right, y down, z ahead, that point towards the camera (z < 0 straight ahead).

    A plane is fitted to the disparities of 5 x 5 px, those of other surfaces left out, by least squares. The plane
    n . P = c has the disparity (focal * baseline / c) n . ((x - cx) / focal, (y - cy) / focal_y, 1) - doffs.

    Args:
        disparity: [H, W] px; its values must be finite.
        calibration: of the images at this size.
    """
    height, width = disparity.shape
    padded = np.pad(disparity.astype(np.float64), _REACH, mode="edge")
    offsets = [(v, u) for v in range(-_REACH, _REACH + 1) for u in range(-_REACH, _REACH + 1) if (u, v) != (0, 0)]
    uu, uv, vv, su, sv = (np.zeros((height, width)) for _ in range(5))
    rows, columns = np.indices((height, width), sparse=True)
    for v, u in offsets:
        change = padded[_REACH + v : _REACH + v + height, _REACH + u : _REACH + u + width] - disparity
        inside = (rows + v >= 0) & (rows + v < height) & (columns + u >= 0) & (columns + u < width)
        used = inside & (np.abs(change) <= _MAX_SLOPE * np.hypot(u, v))
        uu += used * (u * u)
        uv += used * (u * v)
        vv += used * (v * v)
        su += np.where(used, u * change, 0)
        sv += np.where(used, v * change, 0)
    determinant = uu * vv - uv * uv
    solvable = determinant > 0  # else too few neighbours: the plane faces the camera
    scale = np.where(solvable, determinant, 1)
    slope_x = np.where(solvable, (vv * su - uv * sv) / scale, 0)  # [H, W], px of disparity per px
    slope_y = np.where(solvable, (uu * sv - uv * su) / scale, 0)
    ahead = disparity + calibration.doffs + slope_x * (calibration.cx - columns) + slope_y * (calibration.cy - rows)
    normals = -np.stack([slope_x * calibration.focal, slope_y * calibration.focal_y, ahead], axis=-1)  # [H, W, 3]
    length = np.linalg.norm(normals, axis=-1, keepdims=True)
    normals[length[..., 0] == 0], length[length == 0] = (0, 0, -1), 1
    return np.asarray(normals / length, dtype=np.float32)
