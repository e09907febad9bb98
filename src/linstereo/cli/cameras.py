"""Which calibration belongs to a pair, and what about it looks wrong."""

import argparse
import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from linstereo.data.formats.calibration_files import CALIBRATION_FILES, CALIBRATION_SUFFIXES
from linstereo.data.formats.camera_files import CAMERA_SUFFIXES, cameras_for_size
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth import disparity_to_depth
from linstereo.geometry.stereo_rig import StereoRig

KITTI_GREY_FOLDERS = frozenset({"image_0", "image_00"})
MAX_BASELINE, MIN_BASELINE = 5.0, 0.001  # metres; beyond, the unit is probably another one
WATER = 1.333  # refractive index
MAX_WATER_VIEW = 70.0  # degrees; a flat port in water shows 97 at the very most, and 70 of a lens of 100 in air
MAX_MEDIAN_DEPTH = 1000.0  # metres
MAX_OFFSET = 0.2  # of the principal point from the centre, as a share of width and height


def given_camera(
    options: argparse.Namespace, *, rectified: bool
) -> Callable[[Path, Sequence[int]], StereoCalibration | StereoRig | None]:
    """`calibration_of` with what the command line says about the camera, see `options.add_camera_options`."""
    return functools.partial(
        calibration_of,
        file=options.calib,
        focal=options.focal,
        baseline=options.baseline,
        resize=options.scale_calib,
        unit=options.calib_unit,
        fisheye=options.fisheye,
        rectified=rectified,
    )


def calibration_of(
    left: Path,
    size: Sequence[int],
    *,
    file: str | None = None,
    focal: float | None = None,
    baseline: float | None = None,
    resize: bool = False,
    unit: str | None = None,
    fisheye: bool = False,
    rectified: bool = False,
) -> StereoCalibration | StereoRig | None:
    """The calibration of a pair, that of raw cameras if it must be rectified, or None if none is known.

    Args:
        left: the left image, beside which files are looked for if nothing else is given.
        size: its height and width, px.
        file: a calibration file.
        focal: focal length in px, of a camera whose axis goes through the centre of the image.
        baseline: its baseline in metres.
        resize: scale a file's calibration to `size` if it says that it is for another one, which else is refused.
        unit: see `read_cameras`, like the next one.
        fisheye: the distortion in a file of OpenCV is that of `cv2.fisheye`.
        rectified: the images were rectified as the file describes.
    """
    if focal is not None or baseline is not None:
        if focal is None or baseline is None or file is not None:
            raise InputError("--focal and --baseline belong together, without --calib; give both or neither")
        return StereoCalibration(focal=focal, baseline=baseline, cx=(size[1] - 1) / 2, cy=(size[0] - 1) / 2)
    found = _beside(left) if file is None else Path(file)
    if found is None:
        return None
    grey = not KITTI_GREY_FOLDERS.isdisjoint(left.absolute().parts[-3:-1])  # image_00/data/ in KITTI's raw recordings
    return cameras_for_size(
        found,
        width=size[1],
        height=size[0],
        image=left,
        resize=resize,
        grey=grey,
        unit=unit,
        fisheye=fisheye,
        rectified=rectified,
    )


def may_be_raw(file: str | None) -> bool:
    """Whether a calibration file is of a kind that raw images may need even for their disparity."""
    return file is not None and Path(file).suffix.lower() in CAMERA_SUFFIXES


def doubts(
    calibration: StereoCalibration | StereoRig, left: Path, size: Sequence[int], *, water: bool = False
) -> list[str]:
    """What looks wrong about the calibration of an image of height x width px: a sentence each, with what to do.

    `water`: the image was taken under water through a flat port.
    """
    height, width = size
    found = []
    if isinstance(calibration, StereoRig):
        cx, cy = calibration.left_matrix[:2, 2]
    else:
        cx, cy = calibration.cx, calibration.cy
    centre = f"the calibration's principal point ({cx:g}, {cy:g})"
    if not (0 <= cx < width and 0 <= cy < height):
        found.append(
            f"{centre} is outside of {left}, {width} x {height} px; if the image was resized, scale the calibration too"
        )
    else:
        x, y = cx / width - 0.5, cy / height - 0.5
        if min(abs(x), abs(y)) > MAX_OFFSET and x * y > 0:  # as with a calibration of twice or half the size
            found.append(
                f"{centre} is far from the centre of {left}, {width} x {height} px; if the image was resized or "
                "cropped, change the calibration too"
            )
    if not MIN_BASELINE <= calibration.baseline <= MAX_BASELINE:
        found.append(
            f"the baseline of {left} is {calibration.baseline:g} m; if that is in another unit, correct it: --baseline "
            "and calib.json take metres, calib.txt in Middlebury's format millimetres, --calib-unit tells that of "
            "OpenCV's files"
        )
    if water and (view := field_of_view(calibration, width=width)) > MAX_WATER_VIEW:
        bent = WATER * math.sin(math.radians(view / 2))
        lens = f"a lens of {2 * math.degrees(math.asin(bent)):.0f} degrees in air" if bent < 1 else "an impossible lens"
        found.append(
            f"the calibration of {left} sees {view:.0f} degrees across, which would take {lens} behind a flat port in "
            "water; if it was made in air, calibrate under water"
        )
    return found


def field_of_view(calibration: StereoCalibration | StereoRig, *, width: int) -> float:
    """Degrees that the left camera sees across an image of `width` px, in [0, 360]."""
    if isinstance(calibration, StereoRig):
        row = calibration.left_matrix[1, 2]
        rays, _ = calibration.left_distortion.rays(np.array([[0.0, row], [width - 1.0, row]]), calibration.left_matrix)
        return float(np.degrees(np.arctan2(np.abs(rays[:, 0]), rays[:, 2])).sum())
    sides = np.array([calibration.cx, width - 1 - calibration.cx])
    return float(np.degrees(np.arctan(sides / calibration.focal)).sum())


def depth_doubt(disparity: npt.NDArray[np.float32], calibration: StereoCalibration, left: Path) -> str | None:
    """A sentence if a disparity map, in px, stands for depths that only a calibration in wrong units can give."""
    median = float(disparity_to_depth(np.median(disparity), calibration))
    if not MAX_MEDIAN_DEPTH < median < np.inf:
        return None
    return (
        f"half of {left} is farther than {median / 1000:,.1f} km; check that the baseline, {calibration.baseline:g}, "
        f"is in metres and the focal length, {calibration.focal:g}, in pixels of these images"
    )


def _beside(left: Path) -> Path | None:
    """The calibration file that lies where one belongs that is for this left image."""
    candidates = [left.parent / name for name in CALIBRATION_FILES]
    if left.parent.name == "left":
        root = left.parent.parent
        candidates += [root / "calib" / f"{left.stem}{suffix}" for suffix in CALIBRATION_SUFFIXES]
        candidates += [root / name for name in CALIBRATION_FILES]
    return next((path for path in candidates if path.is_file()), None)
