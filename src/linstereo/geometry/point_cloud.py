"""Coloured point clouds in metres from disparity maps, and PLY files of them."""

import dataclasses
import os

import numpy as np
import numpy.typing as npt

from linstereo.errors import InputError
from linstereo.files import atomic_path
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth import disparity_to_depth

_PLY_VERTEX = np.dtype([("point", "<f4", 3), ("colour", "u1", 3)])  # 15 bytes, nothing between the fields
_PLY_HEADER = """ply
format binary_little_endian 1.0
comment metres in the frame of the left camera: x right, y down, z ahead
element vertex {count}
property float x
property float y
property float z
property uchar red
property uchar green
property uchar blue
end_header
"""


@dataclasses.dataclass(frozen=True, eq=False)
class PointCloud:
    """N coloured points."""

    points: npt.NDArray[np.float32]
    """[N, 3] metres in the frame of the left camera: x right, y down, z ahead; all finite, z > 0."""
    colours: npt.NDArray[np.uint8]
    """[N, 3] RGB."""

    def __post_init__(self) -> None:
        for name, dtype in (("points", np.float32), ("colours", np.uint8)):
            array = getattr(self, name)
            if array.dtype != dtype or array.shape != (len(self.points), 3):
                raise InputError(
                    f"a point cloud's {name} are {array.dtype} {array.shape}; they must be {np.dtype(dtype)} [N, 3], "
                    "as many colours as points"
                )

    def __len__(self) -> int:
        return len(self.points)


def point_cloud(
    disparity: npt.ArrayLike,
    image: npt.NDArray[np.uint8],
    calibration: StereoCalibration,
    *,
    valid: npt.NDArray[np.bool_] | None = None,
    max_depth: float | None = None,
) -> PointCloud:
    """The points that a disparity map stands for, in the colours of the left image.

    Args:
        disparity: [H, W] pixels, positive. Pixels without a finite positive depth are left out.
        image: the left image, uint8 [H, W, 3] RGB.
        calibration: of the images at this size.
        valid: [H, W], True where the disparity may be used; None uses all.
        max_depth: points farther than these metres are left out; None stands for `usable_depth`, `math.inf` keeps all.

    Returns:
        The points in the order of the pixels, row by row.
    """
    values = np.asarray(disparity)
    if values.ndim != 2:
        raise InputError(f"the disparity map has the shape {values.shape}; give [H, W]")
    if image.shape != (*values.shape, 3) or image.dtype != np.uint8:
        raise InputError(
            f"the image is {image.dtype} {image.shape}; for this disparity map it must be uint8 {(*values.shape, 3)}"
        )
    if valid is not None and valid.shape != values.shape:
        raise InputError(f"the mask has the shape {valid.shape}, the disparity map {values.shape}; give equal ones")
    limit = usable_depth(calibration) if max_depth is None else max_depth
    if not limit > 0:
        raise InputError(f"the largest depth is {limit}; it must be greater than 0 metres")
    depth = disparity_to_depth(values, calibration)  # [H, W]
    kept = np.isfinite(depth) & (depth <= limit)
    if valid is not None:
        kept &= valid
    row, column = np.nonzero(kept)  # [N]
    z = depth[kept].astype(np.float64)
    x = (column - calibration.cx) / calibration.focal * z
    y = (row - calibration.cy) / calibration.focal_y * z
    return PointCloud(np.stack([x, y, z], axis=1).astype(np.float32), image[kept])  # [N, 3]


def usable_depth(calibration: StereoCalibration) -> float:
    """Metres at which a point is shifted by one pixel between the images: beyond, depth is hardly more than a guess."""
    return calibration.focal * calibration.baseline


def write_ply(path: str | os.PathLike[str], cloud: PointCloud) -> None:
    """Write a binary little-endian PLY file, as Open3D, MeshLab, CloudCompare and Blender read it; atomic."""
    vertices = np.empty(len(cloud), _PLY_VERTEX)
    vertices["point"], vertices["colour"] = cloud.points, cloud.colours
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        stream.write(_PLY_HEADER.format(count=len(cloud)).encode("ascii"))
        stream.write(vertices.data)
