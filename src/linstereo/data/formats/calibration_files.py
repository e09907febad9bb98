"""Calibration files: our own calib.json, and those of the stereo benchmarks.

calib.json holds the fields of `StereoCalibration` by name, and may hold `width` and `height` of its images, px.

Middlebury (vision.middlebury.edu/stereo/data/scenes2014) and ETH3D's two-view scenes
(www.eth3d.net/documentation), which use the same file: `calib.txt` with one `name=value` a line. `cam0` and
`cam1` are the left and right camera matrices [f 0 cx; 0 f cy; 0 0 1] in pixels, `doffs` is cx1 - cx0 in
pixels, `baseline` is in millimetres, in ETH3D as well: its files say about 60, and the two cameras of its rig
are 6 cm apart.

KITTI (www.cvlibs.net/datasets/kitti, development kits): lines `name: numbers` with 3 x 4 projection matrices
of the rectified cameras, 0 and 1 grey, 2 and 3 colour. They are called P_rect_00 to P_rect_03 in
`calib_cam_to_cam` files (2015, raw) and P0 to P3 in the others (2012, odometry, object). The fourth column is
the offset from camera 0 times the focal length, in pixels times metres.
"""

import dataclasses
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path

import numpy as np
import numpy.typing as npt

from linstereo.data.formats.calibration_fields import (
    FOCAL_TOLERANCE,
    FilePath,
    check_size,
    naming_calibration,
    rectified_cameras,
)
from linstereo.errors import InputError
from linstereo.files import atomic_path, read_file, read_json, write_json
from linstereo.geometry.calibration import StereoCalibration

CALIBRATION_SUFFIXES = (".json", ".txt")
CALIBRATION_FILES = tuple(f"calib{suffix}" for suffix in CALIBRATION_SUFFIXES)
"""What the calibration beside some images is called."""
_SIZE_FIELDS = ("width", "height")


def read_calibration(path: FilePath, *, grey: bool = False) -> StereoCalibration:
    """Read calib.json (the fields of `StereoCalibration` by name) or a text file in Middlebury's or KITTI's format.

    `grey` stands for the grey cameras of a KITTI file instead of the colour ones.
    """
    if Path(path).suffix.lower() != ".json":
        if _is_kitti(path):
            return read_kitti_calibration(path, grey=grey)
        return read_middlebury_calibration(path)
    fields = {field.name: field for field in dataclasses.fields(StereoCalibration)}
    required = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
    content = _read_json(path)
    if not set(required) <= set(content) <= {*fields, *_SIZE_FIELDS}:
        optional = [*(name for name in fields if name not in required), *_SIZE_FIELDS]
        raise InputError(
            f"{path} must hold the numbers {', '.join(required)} and may hold {', '.join(optional)}, but nothing else"
        )
    with naming_calibration(path):
        return StereoCalibration(**{name: value for name, value in content.items() if name in fields})


def calibration_for_size(
    path: FilePath,
    *,
    width: int,
    height: int,
    image: FilePath,
    resize: bool = False,
    grey: bool = False,
) -> StereoCalibration:
    """Read a calibration for images of `width` x `height` px; an `InputError` if it says that it is for others.

    Args:
        path: the calibration file, see `read_calibration`.
        width: of the images, px.
        height: of the images, px.
        image: which image that is, for the error.
        resize: scale the calibration to the size of the images instead, see `check_size`.
        grey: see `read_calibration`.
    """
    calibration = read_calibration(path, grey=grey)
    size = _calibrated_size(path, grey=grey)
    scale = check_size(size, width=width, height=height, path=path, image=image, resize=resize)
    return calibration.scaled(width / size[0], height / size[1]) if scale and size else calibration


def write_calibration(path: FilePath, calibration: StereoCalibration, *, size: tuple[int, int] | None = None) -> None:
    """Write calib.json; reading it gives back `calibration`. `size` is width and height of its images, px. Atomic."""
    content = dataclasses.asdict(calibration) | dict(zip(_SIZE_FIELDS, size or (), strict=False))
    write_json(path, content, indent=2)


def read_middlebury_calibration(path: FilePath) -> StereoCalibration:
    """Read the `calib.txt` of a Middlebury or ETH3D scene; the baseline comes back in metres."""
    fields = _read_fields(path, separator="=")
    left = _camera_matrix(fields, "cam0", path)
    right = _camera_matrix(fields, "cam1", path)
    if "baseline" not in fields:
        raise InputError(f"{path} has no line baseline=...; a calib.txt needs cam0, cam1 and baseline")
    if abs(left[0, 0] - right[0, 0]) > FOCAL_TOLERANCE * abs(left[0, 0]):
        raise InputError(f"{path} has two focal lengths, {left[0, 0]:g} and {right[0, 0]:g}; rectify the images first")
    doffs = float(_number(fields["doffs"], path)) if "doffs" in fields else right[0, 2] - left[0, 2]
    return _calibration(
        path=path,
        focal=left[0, 0],
        focal_y=left[1, 1],
        baseline=float(_number(fields["baseline"], path) / 1000),
        cx=left[0, 2],
        cy=left[1, 2],
        doffs=doffs,
    )


def write_middlebury_calibration(
    path: FilePath,
    calibration: StereoCalibration,
    *,
    width: int,
    height: int,
    max_disparity: int | None = None,
) -> None:
    """Write a `calib.txt` in Middlebury's format for images of `width` x `height` pixels; atomic.

    `max_disparity` becomes `ndisp`, by default the image width. Reading the file gives back `calibration`.
    """
    focal, focal_y, cy = float(calibration.focal), float(calibration.focal_y), float(calibration.cy)
    centres = (float(calibration.cx), float(calibration.cx + calibration.doffs))
    rows = [f"cam{index}=[{focal!r} 0 {cx!r}; 0 {focal_y!r} {cy!r}; 0 0 1]" for index, cx in enumerate(centres)]
    rows += [
        f"doffs={float(calibration.doffs)!r}",
        f"baseline={Decimal(repr(float(calibration.baseline))) * 1000}",
        f"width={width}",
        f"height={height}",
        f"ndisp={width if max_disparity is None else max_disparity}",
    ]
    with atomic_path(path) as temporary:
        temporary.write_text("\n".join(rows) + "\n", encoding="ascii")


def read_kitti_calibration(path: FilePath, *, grey: bool = False) -> StereoCalibration:
    """Read a KITTI calibration file; the pair of colour cameras, or the pair of grey ones if `grey`."""
    fields = _read_fields(path, separator=":")
    numbers = (0, 1) if grey else (2, 3)
    for pattern in ("P_rect_0{}", "P{}"):
        left_name, right_name = (pattern.format(number) for number in numbers)
        if left_name in fields and right_name in fields:
            break
    else:
        first, second = numbers
        wanted = f"P_rect_0{first} and P_rect_0{second} or P{first} and P{second}"
        raise InputError(f"{path} is not a KITTI calibration file with {wanted}; check the path")
    left = _matrix(fields[left_name].split(), (3, 4), left_name, path)
    right = _matrix(fields[right_name].split(), (3, 4), right_name, path)
    return rectified_cameras(left, right, path=path)


def _read_json(path: FilePath) -> dict[str, int | float]:
    """The numbers by name that a JSON file holds."""
    content = read_json(path, remedy='give numbers by name, such as {"focal": 720.0, ...}')
    for name, value in content.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{path}: {name} is {value!r}, but must be a number")
    return content


def _calibrated_size(path: FilePath, *, grey: bool) -> tuple[int, int] | None:
    """Width and height of the images that a calibration says it is for; None if it does not say."""
    sides: Sequence[str | float | None]
    if Path(path).suffix.lower() == ".json":
        content = _read_json(path)
        sides = [content.get(name) for name in _SIZE_FIELDS]
    elif _is_kitti(path):
        sides = _read_fields(path, separator=":").get("S_rect_00" if grey else "S_rect_02", "").split()
    else:
        fields = _read_fields(path, separator="=")
        sides = [fields.get(name) for name in _SIZE_FIELDS]
    if len(sides) != 2 or None in sides:
        return None
    width, height = (int(_number(str(side), path)) for side in sides)
    return width, height


def _is_kitti(path: FilePath) -> bool:
    """Whether a text file has the projection matrices of KITTI's calibration files."""
    return any(name in _read_fields(path, separator=":") for name in ("P_rect_00", "P_rect_02", "P0", "P2"))


def _read_fields(path: FilePath, *, separator: str) -> dict[str, str]:
    """The lines `name<separator>value` of a text file."""
    lines = read_file(path).decode("latin-1").splitlines()
    pairs = (line.partition(separator) for line in lines)
    return {name.strip(): value.strip() for name, found, value in pairs if found}


def _camera_matrix(fields: dict[str, str], name: str, path: FilePath) -> npt.NDArray[np.float64]:
    if name not in fields:
        raise InputError(f"{path} has no line {name}=[...]; a calib.txt needs cam0, cam1 and baseline")
    return _matrix(re.split(r"[\s;\[\],]+", fields[name].strip("[] \t\r")), (3, 3), name, path)


def _matrix(words: list[str], shape: tuple[int, int], name: str, path: FilePath) -> npt.NDArray[np.float64]:
    if len(words) != shape[0] * shape[1]:
        raise InputError(f"{path} has {len(words)} numbers in {name}; it must be a matrix of {shape[0]} x {shape[1]}")
    return np.array([float(_number(word, path)) for word in words]).reshape(shape)


def _number(word: str, path: FilePath) -> Decimal:
    try:
        number = Decimal(word)
        finite = number.is_finite() and abs(float(number)) < float("inf")
    except (InvalidOperation, OverflowError, ValueError):
        finite = False
    if not finite:
        raise InputError(f"{path} has {word[:40]!r} where a number should be; copy or download it again")
    return number


def _calibration(
    *, path: FilePath, focal: float, focal_y: float, baseline: float, cx: float, cy: float, doffs: float
) -> StereoCalibration:
    with naming_calibration(path):
        return StereoCalibration(
            focal=float(focal),
            baseline=float(baseline),
            cx=float(cx),
            cy=float(cy),
            doffs=float(doffs),
            aspect=float(focal_y / focal) if focal else 1.0,
        )
