"""The distance maps, scene points and calibration of SQUID (Berman et al., IEEE TPAMI 2020).

SQUID, the Stereo Quantitative Underwater Image Dataset, is published on
csms.haifa.ac.il/profiles/tTreibitz/datasets/ambient_forwardlooking. Its layout, from that page's evaluation
code (`eval_transmission.m`) and from public code that reads the files (the names of the variables; that some
copies have no images but those in xyzPoints.mat, stored as numbers from 0 to 1):

    <root>/<site>/stereoParams0.5.mat                       `stereoParams`, a MATLAB stereoParameters object
    <root>/<site>/image_set_<nn>/LFT_<number>resizedUndistort.tif        2737 x 1827, 16 bits, undistorted
    <root>/<site>/image_set_<nn>/RGT_<number>resizedUndistort.tif
    <root>/<site>/image_set_<nn>/distanceFromCamera.mat     `dist_map_l`, `dist_map_r`, metres, NaN where unknown
    <root>/<site>/image_set_<nn>/xyzPoints.mat              `xyzPointsLeft`, `xyzPointsRight`, metres, and
                                                            `imgLeftUndistorted`, `imgRightUndistorted`

with the sites Katzaa, Michmoret, Nachsholim and Satil. Maps and points belong to the pixels of the
undistorted images, which are not rectified: camera 1 of the calibration is the left one, camera 2 the right
one, at half of the sensor's resolution. The page does not say whether a distance is measured along the line
of sight or along the optical axis; its name and its use (light attenuation) speak for the line of sight. The
third coordinate of the points is free of that doubt.
"""

import os
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linstereo.data.formats.calibration_fields import naming_calibration
from linstereo.data.formats.float_maps import as_float_map, to_float32
from linstereo.data.formats.mat import read_mat
from linstereo.errors import InputError
from linstereo.geometry.stereo_rig import StereoRig

FilePath = str | os.PathLike[str]
Side = Literal["left", "right"]

POINTS = {"left": "xyzPointsLeft", "right": "xyzPointsRight"}
DISTANCES = {"left": "dist_map_l", "right": "dist_map_r"}
IMAGES = {"left": "imgLeftUndistorted", "right": "imgRightUndistorted"}
"""Names of the variables by camera."""

_BRIGHTEST = 2.0  # cubic interpolation overshoots 1 a little; what is brighter has another scale
_IMAGE_SIZE = (1827, 2737)  # rows and columns of all images, as the evaluation code requires
_METRES = {
    "mm": 1e-3,
    "millimeter": 1e-3,
    "cm": 1e-2,
    "centimeter": 1e-2,
    "m": 1.0,
    "meter": 1.0,
    "in": 0.0254,
    "inch": 0.0254,
}


def read_squid_distance(path: FilePath, *, side: Side = "left") -> npt.NDArray[np.float32]:
    """Read a `distanceFromCamera.mat` as float32 [H, W] in metres from the camera, 0 where unknown."""
    name = DISTANCES[side]
    distance = as_float_map(_variable(path, name), name=f"{name} of {path}").copy()
    distance[~(np.isfinite(distance) & (distance > 0))] = 0
    return distance


def read_squid_points(path: FilePath, *, side: Side = "left") -> npt.NDArray[np.float32]:
    """Read an `xyzPoints.mat` as float32 [H, W, 3]: x right, y down, z forward, in metres, NaN where unknown."""
    name = POINTS[side]
    values = _variable(path, name)
    if not isinstance(values, np.ndarray) or values.ndim != 3 or values.shape[2] != 3 or values.size == 0:
        raise InputError(f"{path} must hold points of the shape [H, W, 3] in {name}; copy or download it again")
    points = to_float32(values, name=f"{name} of {path}").copy()
    points[~(np.isfinite(points).all(axis=2) & (points[..., 2] > 0))] = np.nan
    return points


def read_squid_images(path: FilePath) -> list[npt.NDArray[np.uint8] | npt.NDArray[np.uint16]]:
    """Left and right image inside an `xyzPoints.mat`, each uint8 or uint16 [H, W, 3] RGB."""
    values = read_mat(path, names=tuple(IMAGES.values()))
    images = []
    for name in IMAGES.values():
        image = values.get(name)
        if not isinstance(image, np.ndarray) or image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
            raise InputError(f"{path} must hold an image of the shape [H, W, 3] in {name}; copy or download it again")
        if image.dtype.kind == "f":  # MATLAB's own convention: from 0 to 1
            if not np.isfinite(image).all() or image.max() > _BRIGHTEST:
                raise InputError(f"{path} must hold colours from 0 to 1 in {name}; copy or download it again")
            image = np.rint(image.clip(0, 1) * 65535).astype(np.uint16)
        images.append(image)
    return images


def read_squid_calibration(path: FilePath) -> StereoRig:
    """Read a `stereoParams0.5.mat`: the cameras of the undistorted images of one site.

    MATLAB multiplies from the left with row vectors and counts pixels from 1; both are turned into this
    package's convention. Lengths are converted to metres from the unit named in the file, millimetres if none
    is.
    """
    fields = _fields(_variable(path, "stereoParams"), path)
    left, right = (_fields(_field(fields, name, path), path) for name in ("CameraParameters1", "CameraParameters2"))
    unit = str(left.get("WorldUnits") or "mm").strip().lower()
    scale = _METRES.get(unit, _METRES.get(unit.rstrip("s"), _METRES.get(unit.removesuffix("es"))))
    if scale is None:
        raise InputError(f"{path} measures lengths in {unit!r}; the units known are {', '.join(_METRES)}")
    stored_size = left.get("ImageSize")  # older MATLAB versions do not store it
    has_size = isinstance(stored_size, np.ndarray) and stored_size.size == 2
    height, width = _numbers(left, "ImageSize", 2, path) if has_size else _IMAGE_SIZE
    with naming_calibration(path):
        return StereoRig(
            left_matrix=_camera_matrix(left, path),
            right_matrix=_camera_matrix(right, path),
            rotation=_numbers(fields, "RotationOfCamera2", 9, path).reshape(3, 3).T,
            translation=_numbers(fields, "TranslationOfCamera2", 3, path) * scale,
            width=int(width),
            height=int(height),
        )


def _variable(path: FilePath, name: str) -> Any:
    values = read_mat(path, names=(name,))
    if name not in values:
        raise InputError(f"{path} has no variable {name!r}; give the file of that name from SQUID")
    return values[name]


def _fields(value: Any, path: FilePath) -> dict[str, Any]:
    """The fields of a struct or object; MATLAB wraps an object that prepares itself for saving into one called any."""
    while isinstance(value, dict) and value.keys() == {"any"}:
        value = value["any"]
    if not isinstance(value, dict):
        raise InputError(f"{path} holds no readable stereoParameters; in MATLAB, save toStruct(stereoParams) instead")
    return value


def _field(fields: dict[str, Any], name: str, path: FilePath) -> Any:
    if name not in fields:
        raise InputError(f"{path} has no {name} in its stereoParams; it holds {', '.join(sorted(fields)[:12])}")
    return fields[name]


def _numbers(fields: dict[str, Any], name: str, count: int, path: FilePath) -> npt.NDArray[np.float64]:
    """The numbers of a field, row by row."""
    value = _field(fields, name, path)
    if not isinstance(value, np.ndarray) or value.size != count:
        raise InputError(f"{path} must hold {count} numbers in {name}; copy or download it again")
    numbers = value.astype(np.float64).ravel()
    if not np.isfinite(numbers).all():
        raise InputError(f"{path} holds a number in {name} that is not finite; copy or download it again")
    return numbers


def _camera_matrix(camera: dict[str, Any], path: FilePath) -> npt.NDArray[np.float64]:
    """[3, 3]; newer MATLAB versions store it as K, older ones its transpose under one of two other names."""
    if "K" in camera:
        matrix = _numbers(camera, "K", 9, path).reshape(3, 3)
    else:
        name = "IntrinsicMatrixInternal" if "IntrinsicMatrixInternal" in camera else "IntrinsicMatrix"
        matrix = _numbers(camera, name, 9, path).reshape(3, 3).T
    matrix = matrix.copy()
    matrix[:2, 2] -= 1
    return matrix
