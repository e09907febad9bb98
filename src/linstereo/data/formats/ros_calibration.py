"""ROS camera_info as YAML, one file per camera: as `camera_calibration` writes it (left.yaml, right.yaml).

K is the camera matrix of the raw image, D its distortion, R the rotation into the rectified camera and P the projection
[3, 4] of the rectified camera, whose fourth column holds -focal * baseline for the right one, in px times metres.
The names of the message itself (K, D, R, P, width, height) are read as well.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linstereo.data.formats.calibration_fields import Cameras, RawCameras, naming_calibration, rectified_cameras
from linstereo.data.formats.plain_yaml import FilePath, numbers, read_plain_yaml
from linstereo.errors import InputError
from linstereo.geometry.stereo_rig import Distortion, DistortionKind

_FIELDS = {
    "K": ("camera_matrix", "K", "k"),
    "D": ("distortion_coefficients", "D", "d"),
    "R": ("rectification_matrix", "R", "r"),
    "P": ("projection_matrix", "P", "p"),
    "width": ("image_width", "width"),
    "height": ("image_height", "height"),
}
_MODELS: dict[str, DistortionKind] = {
    "plumb_bob": "radial-tangential",
    "rational_polynomial": "radial-tangential",
    "equidistant": "equidistant",
    "fisheye": "equidistant",
}


def is_camera_info(content: dict[str, Any]) -> bool:
    """Whether the plain values of a YAML file are those of one camera's camera_info."""
    return all(any(spelling in content for spelling in _FIELDS[name]) for name in ("K", "P", "R"))


def ros_cameras(content: dict[str, Any], path: FilePath) -> Cameras:
    """The two cameras of a left camera_info, `content` of `path`, and of the right one beside it. Metres."""
    partner = _right_file(Path(path))
    return cameras_of_infos(content, read_plain_yaml(partner), names=(path, partner))


def cameras_of_infos(left_info: dict[str, Any], right_info: dict[str, Any], *, names: Sequence[FilePath]) -> Cameras:
    """The two cameras of a left and a right camera_info, plain values of files or messages called `names`. Metres."""
    path, partner = names
    left = _Camera(left_info, path)
    right = _Camera(right_info, partner)
    if left.size != right.size:
        raise InputError(f"{path} is for images of {left.size}, {partner} of {right.size} px; give two of one size")
    rectified = rectified_cameras(left.projection, right.projection, path=path)
    turn = right.rotation.T
    shift = (right.projection[0, 3] - left.projection[0, 3]) / right.projection[0, 0]
    raw = RawCameras(
        left_matrix=left.matrix,
        right_matrix=right.matrix,
        rotation=turn @ left.rotation,
        translation=turn @ np.array([shift, 0.0, 0.0]),
        left_distortion=left.distortion,
        right_distortion=right.distortion,
    )
    return Cameras(size=left.size, raw=raw, rectified=rectified)


class _Camera:
    """One camera_info."""

    def __init__(self, content: dict[str, Any], path: FilePath) -> None:
        self._content, self._path = content, path
        self.matrix = self._array("K", (3, 3))
        self.rotation = self._array("R", (3, 3))
        self.projection = self._array("P", (3, 4))
        self.size = (int(self._array("width", ())), int(self._array("height", ())))
        model = content.get("distortion_model") or "plumb_bob"
        if not isinstance(model, str) or model not in _MODELS:
            raise InputError(f"{path} has the distortion model {model!s:.40}; known are {', '.join(_MODELS)}")
        with naming_calibration(path):
            self.distortion = Distortion(_MODELS[model], tuple(self._numbers("D")))

    def _numbers(self, name: str) -> list[float]:
        spelling = next((word for word in _FIELDS[name] if word in self._content), None)
        if spelling is None:
            raise InputError(f"{self._path} holds no {_FIELDS[name][0]}; give the camera_info of a calibrated camera")
        value = self._content[spelling]
        return numbers(value.get("data") if isinstance(value, dict) else value, name=spelling, path=self._path)

    def _array(self, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        values = self._numbers(name)
        if len(values) != np.prod(shape, dtype=int):
            raise InputError(f"{self._path} has {len(values)} numbers in {_FIELDS[name][0]}, which is {shape or 'one'}")
        return np.array(values).reshape(shape)


def _right_file(left: Path) -> Path:
    """The camera_info of the right camera beside that of the left: right for left in its name, r for l or 1 for 0."""
    for pattern, other in (("left", "right"), ("Left", "Right"), (r"(?<![a-z])l(?![a-z])", "r"), ("0", "1")):
        name = re.sub(pattern, other, left.name)
        if name != left.name and left.with_name(name).is_file():
            return left.with_name(name)
    raise InputError(
        f"{left} is the camera_info of one camera, and no file beside it is that of the right one; give left.yaml with "
        "right.yaml beside it"
    )
