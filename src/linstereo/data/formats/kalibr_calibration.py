"""Kalibr's camchain.yaml (github.com/ethz-asl/kalibr/wiki/yaml-formats).

cam0, cam1, ... each hold camera_model, intrinsics [fu fv pu pv], distortion_model, distortion_coeffs and resolution
[width height]; from cam1 on also T_cn_cnm1, 4 x 4, which takes the coordinates of the camera before to its own, in
metres.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from linstereo.data.formats.calibration_fields import Cameras, RawCameras, naming_calibration
from linstereo.data.formats.plain_yaml import FilePath, numbers
from linstereo.errors import InputError
from linstereo.geometry.stereo_rig import Distortion, DistortionKind

_MODELS: dict[str, DistortionKind] = {
    "radtan": "radial-tangential",
    "none": "radial-tangential",
    "equidistant": "equidistant",
    "equi": "equidistant",
}


def is_kalibr(content: dict[str, Any]) -> bool:
    """Whether the plain values of a YAML file are those of a camchain.yaml."""
    return isinstance(content.get("cam0"), dict) and "intrinsics" in content["cam0"]


def kalibr_cameras(content: dict[str, Any], path: FilePath) -> Cameras:
    """The two cameras of a camchain.yaml, the left one first, whichever of them is cam0. Metres."""
    names = sorted(name for name in content if name.startswith("cam") and isinstance(content[name], dict))
    if names != ["cam0", "cam1"]:
        raise InputError(f"{path} holds the cameras {', '.join(names)}; give a chain of the two cameras cam0 and cam1")
    (matrix0, distortion0, size0), (matrix1, distortion1, size1) = (_camera(content[n], n, path) for n in names)
    if size0 != size1:
        raise InputError(f"{path} is for images of {size0} and of {size1} px; both cameras must have one size")
    if "T_cn_cnm1" not in content["cam1"]:
        raise InputError(f"{path} has no T_cn_cnm1 in cam1; calibrate both cameras together")
    pose = numbers(content["cam1"]["T_cn_cnm1"], name="T_cn_cnm1", path=path)
    if len(pose) != 16:
        raise InputError(f"{path} has {len(pose)} numbers in T_cn_cnm1; it must be a matrix of 4 x 4")
    transform = np.array(pose).reshape(4, 4)
    rotation, translation = transform[:3, :3], transform[:3, 3]
    if translation[0] > 0:  # cam0 is on the right
        matrix0, matrix1, distortion0, distortion1 = matrix1, matrix0, distortion1, distortion0
        rotation, translation = rotation.T, -rotation.T @ translation
    return Cameras(
        size=size0,
        raw=RawCameras(
            left_matrix=matrix0,
            right_matrix=matrix1,
            rotation=rotation,
            translation=translation,
            left_distortion=distortion0,
            right_distortion=distortion1,
        ),
    )


def _camera(
    fields: dict[str, Any], name: str, path: FilePath
) -> tuple[npt.NDArray[np.float64], Distortion, tuple[int, int]]:
    """Camera matrix, distortion, width and height."""
    for field in ("intrinsics", "distortion_model", "distortion_coeffs", "resolution"):
        if field not in fields:
            raise InputError(f"{path} has no {field} in {name}; give a camchain.yaml as Kalibr writes it")
    if fields.get("camera_model", "pinhole") != "pinhole":
        raise InputError(
            f"{path}: {name} is of the camera model {fields['camera_model']!s:.40}; calibrate with pinhole-radtan or "
            "pinhole-equi"
        )
    model = fields["distortion_model"]
    if not isinstance(model, str) or model not in _MODELS:
        raise InputError(
            f"{path}: {name} has the distortion model {model!s:.40}; calibrate with pinhole-radtan or pinhole-equi"
        )
    intrinsics = numbers(fields["intrinsics"], name=f"{name} intrinsics", path=path)
    size = numbers(fields["resolution"], name=f"{name} resolution", path=path)
    if len(intrinsics) != 4 or len(size) != 2:
        raise InputError(f"{path}: {name} needs 4 intrinsics [fu fv pu pv] and a resolution of 2 numbers")
    fu, fv, pu, pv = intrinsics
    coefficients = tuple(numbers(fields["distortion_coeffs"], name=f"{name} distortion_coeffs", path=path))
    with naming_calibration(path):
        distortion = Distortion(_MODELS[model], coefficients)
    return np.array([[fu, 0, pu], [0, fv, pv], [0, 0, 1]]), distortion, (int(size[0]), int(size[1]))
