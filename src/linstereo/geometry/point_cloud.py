"""Coloured point clouds in metres from disparity maps, and PLY files of them."""

import dataclasses
import os

import numpy as np
import numpy.typing as npt

from linstereo.errors import InputError
from linstereo.files import atomic_path
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth import disparity_to_depth
from linstereo.geometry.normals import surface_normals

_FRAME = "metres in the frame of the left camera: x right, y down, z ahead"
_CONFIDENCE = "confidence: probability that the depth is off by less than 5 %"


@dataclasses.dataclass(frozen=True, eq=False)
class PointCloud:
    """N coloured points."""

    points: npt.NDArray[np.float32]
    """[N, 3] metres in the frame of the left camera: x right, y down, z ahead; all finite, z > 0."""
    colours: npt.NDArray[np.uint8]
    """[N, 3] RGB."""
    confidence: npt.NDArray[np.float32] | None = None
    """[N] in [0, 1], the probability that the depth is off by less than 5 %; None if unknown."""
    normals: npt.NDArray[np.float32] | None = None
    """[N, 3] unit vectors towards the camera; None if they were not asked for."""

    def __post_init__(self) -> None:
        count = len(self.points)
        for name, dtype, shape in (
            ("points", np.float32, (count, 3)),
            ("colours", np.uint8, (count, 3)),
            ("confidence", np.float32, (count,)),
            ("normals", np.float32, (count, 3)),
        ):
            array = getattr(self, name)
            if array is None and name in ("confidence", "normals"):
                continue
            if array.dtype != dtype or array.shape != shape:
                wanted = "[N]" if name == "confidence" else "[N, 3]"
                raise InputError(
                    f"a point cloud's {name} are {array.dtype} {array.shape}; they must be {np.dtype(dtype)} {wanted}, "
                    f"as many {'colours' if name == 'points' else name} as points"
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
    confidence: npt.NDArray[np.float32] | None = None,
    normals: bool = False,
) -> PointCloud:
    """The points that a disparity map stands for, in the colours of the left image.

    Args:
        disparity: [H, W] pixels, positive. Pixels without a finite positive depth are left out.
        image: the left image, uint8 [H, W, 3] RGB.
        calibration: of the images at this size.
        valid: [H, W], True where the disparity may be used; None uses all.
        max_depth: points farther than these metres are left out; None stands for `usable_depth`, `math.inf` keeps all.
        confidence: [H, W] in [0, 1], of the points.
        normals: give the points their normals, see `linstereo.geometry.normals`.

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
    for name, array in (("mask", valid), ("confidence", confidence)):
        if array is not None and array.shape != values.shape:
            raise InputError(
                f"the {name} has the shape {array.shape}, the disparity map {values.shape}; give equal ones"
            )
    limit = usable_depth(calibration) if max_depth is None else max_depth
    if not limit > 0:
        raise InputError(f"the largest depth is {limit}; it must be greater than 0 metres")
    depth = disparity_to_depth(values, calibration)  # [H, W]
    kept = np.isfinite(depth) & (depth <= min(limit, float(np.finfo(depth.dtype).max)))
    if valid is not None:
        kept &= valid
    row, column = np.nonzero(kept)  # [N]
    z = depth[kept].astype(np.float64)
    x = (column - calibration.cx) / calibration.focal * z
    y = (row - calibration.cy) / calibration.focal_y * z
    return PointCloud(
        np.stack([x, y, z], axis=1).astype(np.float32),  # [N, 3]
        image[kept],
        None if confidence is None else confidence[kept].astype(np.float32, copy=False),
        surface_normals(np.where(np.isfinite(depth), values, 0), calibration)[kept] if normals else None,
    )


def usable_depth(calibration: StereoCalibration) -> float:
    """Metres at which a point is shifted by one pixel between the images: beyond, depth is hardly more than a guess."""
    return calibration.focal * calibration.baseline


def write_ply(path: str | os.PathLike[str], cloud: PointCloud) -> None:
    """Write a binary little-endian PLY file, as Open3D, MeshLab, CloudCompare and Blender read it; atomic.

    Vertices have x, y, z in metres, nx, ny, nz if there are normals, red, green, blue, and confidence if it is known.
    """
    columns: list[tuple[str, str, npt.NDArray[np.generic]]] = [
        (name, "float", cloud.points[:, axis]) for axis, name in enumerate("xyz")
    ]
    if cloud.normals is not None:
        columns += [(f"n{name}", "float", cloud.normals[:, axis]) for axis, name in enumerate("xyz")]
    columns += [(name, "uchar", cloud.colours[:, channel]) for channel, name in enumerate(("red", "green", "blue"))]
    if cloud.confidence is not None:
        columns.append(("confidence", "float", cloud.confidence))
    vertices = np.empty(len(cloud), [(name, "<f4" if kind == "float" else "u1") for name, kind, _ in columns])
    for name, _, values in columns:
        vertices[name] = values
    header = ["ply", "format binary_little_endian 1.0", f"comment {_FRAME}"]
    header += [f"comment {_CONFIDENCE}"] if cloud.confidence is not None else []
    header += [f"element vertex {len(cloud)}", *(f"property {kind} {name}" for name, kind, _ in columns), "end_header"]
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        stream.write("".join(f"{line}\n" for line in header).encode("ascii"))
        stream.write(vertices.data)
