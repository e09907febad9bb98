"""Stereo calibrations that programs write with OpenCV's `FileStorage`, as YAML or XML.

There is no fixed set of names. OpenCV's own sample writes `intrinsics.yml` with M1, D1, M2, D2 and `extrinsics.yml`
with R, T, R1, R2, P1, P2, Q; others write one file with K1, cameraMatrix1, camera_matrix_left and so on. Names are
compared in lower case without underscores. R and T are those of `cv2.stereoCalibrate`: the right camera sees the left
one's point X at R X + T.
"""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from linstereo.data.formats.calibration_fields import Cameras, RawCameras, naming_calibration, rectified_cameras
from linstereo.data.formats.plain_yaml import FilePath, numbers, read_plain_xml, read_plain_yaml
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.stereo_rig import Distortion, DistortionKind

_SIDES = {"left": ("1", "left", "l"), "right": ("2", "right", "r")}
_MATRIX = ("k", "m", "cameramatrix", "cammatrix", "intrinsicmatrix", "intrinsics", "intrinsic", "mtx")
_COEFFICIENTS = ("coefficients", "coeffs", "coeff", "coefs")
_DISTORTION = ("d", "dist", "distortion", *(f"{word}{end}" for word in ("dist", "distortion") for end in _COEFFICIENTS))
_ROTATION = ("r", "rotation", "rotationmatrix", "rot", "rmat")
_TRANSLATION = ("t", "translation", "translationvector", "trans", "tvec")
_SIZE = ("imagesize", "imgsize", "size", "framesize", "resolution")
_WIDTH, _HEIGHT = ("imagewidth", "width", "framewidth"), ("imageheight", "height", "frameheight")
_MODEL = ("distortionmodel", "cameramodel", "model")
_FISHEYE = ("fisheyemodel", "fisheye", "isfisheye")
_FISHEYE_WORDS = frozenset(("fisheye", "equidistant", "kannalabrandt", "kb4"))


def is_opencv(content: dict[str, Any]) -> bool:
    """Whether the plain values of a YAML file hold what OpenCV writes for a stereo camera."""
    fields = _Fields(content, path="")
    names = [*_sided(_MATRIX, "left"), "p1", "q", *_ROTATION]
    return any(fields.holds_matrix(name) for name in names)


def read_opencv_calibration(path: FilePath, *, fisheye: bool = False) -> Cameras:
    """Read the calibration of a stereo camera from a file, or two, of OpenCV's `FileStorage`.

    A file without R and T is completed by the one beside it whose name has `extrinsics` for `intrinsics`, and the other
    way round. Lengths are in the unit of the file, which is that of the calibration pattern.

    Args:
        path: of the .yml, .yaml or .xml file.
        fisheye: the distortion coefficients are those of `cv2.fisheye` even if the file does not say so.
    """
    fields = _Fields(_read(path), path=path)
    partner = _partner(Path(path))
    if partner is not None and (not fields.find(*_ROTATION) or not fields.find(*_sided(_MATRIX, "left"))):
        fields = _Fields({**_read(partner), **_read(path)}, path=path)
    size = _image_size(fields)
    rectified = _rectified(fields)
    needed = [_sided(_MATRIX, "left"), _sided(_MATRIX, "right"), _ROTATION, _TRANSLATION]
    missing = [names[0].upper() for names in needed if fields.find(*names) is None]
    if missing and (len(missing) < 4 or rectified is None):
        raise InputError(
            f"{path} holds no {', '.join(missing)}; a stereo calibration of OpenCV needs K1, D1, K2, D2, R and T, or "
            "P1 and P2 of rectified images"
        )
    if missing:
        return Cameras(size=size, rectified=rectified)
    kind: DistortionKind = "equidistant" if fisheye or _is_fisheye(fields) else "radial-tangential"
    rotation = fields.array(*_ROTATION, counts=(9, 3))
    raw = RawCameras(
        left_matrix=fields.array(*_sided(_MATRIX, "left"), counts=(9,)).reshape(3, 3),
        right_matrix=fields.array(*_sided(_MATRIX, "right"), counts=(9,)).reshape(3, 3),
        rotation=np.asarray(cv2.Rodrigues(rotation)[0], np.float64) if rotation.size == 3 else rotation.reshape(3, 3),
        translation=fields.array(*_TRANSLATION, counts=(3,)),
        left_distortion=_distortion(fields, "left", kind),
        right_distortion=_distortion(fields, "right", kind),
    )
    return Cameras(size=size, raw=raw, rectified=rectified)


@dataclasses.dataclass(frozen=True)
class _Fields:
    """The fields of a file, found by name in any spelling."""

    content: dict[str, Any]
    path: FilePath

    def find(self, *names: str) -> str | None:
        """The name in the file that is one of `names`, the first of them first."""
        known = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in self.content}
        return next((known[name] for name in names if name in known), None)

    def holds_matrix(self, name: str) -> bool:
        found = self.find(name)
        return found is not None and isinstance(self.content[found], dict) and "data" in self.content[found]

    def array(self, *names: str, counts: Sequence[int]) -> npt.NDArray[np.float64]:
        """The numbers of a field, row by row."""
        name = self.find(*names)
        assert name is not None
        value = self.content[name]
        data = value["data"] if isinstance(value, dict) and "data" in value else value
        found = numbers(data, name=name, path=self.path)
        if len(found) not in counts:
            raise InputError(
                f"{self.path} has {len(found)} numbers in {name}; there must be {' or '.join(map(str, counts))}"
            )
        return np.array(found)


def _read(path: FilePath) -> dict[str, Any]:
    return read_plain_xml(path) if Path(path).suffix.lower() == ".xml" else read_plain_yaml(path)


def _partner(path: Path) -> Path | None:
    """The file beside it that holds the other half of a calibration in two files."""
    for word, other in (("intrinsic", "extrinsic"), ("extrinsic", "intrinsic")):
        if word in path.name:
            partner = path.with_name(path.name.replace(word, other))
            return partner if partner.is_file() else None
    return None


def _sided(names: Sequence[str], side: str) -> list[str]:
    """The spellings of a field of one camera: K1, K_left, left_K, KL and so on."""
    return [spelling for name in names for mark in _SIDES[side] for spelling in (name + mark, mark + name)]


def _distortion(fields: _Fields, side: str, kind: DistortionKind) -> Distortion:
    names = _sided(_DISTORTION, side)
    if fields.find(*names) is None:
        raise InputError(
            f"{fields.path} holds no distortion coefficients of the {side} camera, such as D{_SIDES[side][0]}; write "
            "them, as zeros for undistorted images"
        )
    values = fields.array(*names, counts=range(1, 15))
    with naming_calibration(fields.path):
        return Distortion(kind, tuple(values.tolist()))


def _is_fisheye(fields: _Fields) -> bool:
    flag, model = fields.find(*_FISHEYE), fields.find(*_MODEL)
    if flag is not None:
        return str(fields.content[flag]).lower() not in ("0", "false")
    return model is not None and re.sub(r"[^a-z0-9]", "", str(fields.content[model]).lower()) in _FISHEYE_WORDS


def _image_size(fields: _Fields) -> tuple[int, int] | None:
    """Width and height, if the file has them."""
    if fields.find(*_SIZE) is not None:
        width, height = fields.array(*_SIZE, counts=(2,))
    elif fields.find(*_WIDTH) is not None and fields.find(*_HEIGHT) is not None:
        width, height = (fields.array(*names, counts=(1,))[0] for names in (_WIDTH, _HEIGHT))
    else:
        return None
    return int(width), int(height)


def _rectified(fields: _Fields) -> StereoCalibration | None:
    """The rectified cameras that `cv2.stereoRectify` gave: P1 and P2, or Q."""
    if fields.find("p1") is not None and fields.find("p2") is not None:
        left, right = (fields.array(name, counts=(12,)).reshape(3, 4) for name in ("p1", "p2"))
        return rectified_cameras(left, right, path=fields.path)
    if fields.find("q") is None:
        return None
    q = fields.array("q", counts=(16,)).reshape(4, 4)
    if q[3, 2] == 0:
        raise InputError(f"{fields.path} has a Q without baseline; write that of cv2.stereoRectify")
    with naming_calibration(fields.path):
        return StereoCalibration(
            focal=float(q[2, 3]),
            baseline=float(1 / q[3, 2]),
            cx=float(-q[0, 3]),
            cy=float(-q[1, 3]),
            doffs=float(q[3, 3] / q[3, 2]),
        )
