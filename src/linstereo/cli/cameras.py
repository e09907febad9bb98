"""Which calibration belongs to a pair, and what about it looks wrong."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from linstereo.data.formats.calibration_files import CALIBRATION_FILES, CALIBRATION_SUFFIXES, calibration_for_size
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth import disparity_to_depth

KITTI_GREY_FOLDERS = frozenset({"image_0", "image_00"})
MAX_BASELINE, MIN_BASELINE = 5.0, 0.001  # metres; beyond, the unit is probably another one
MAX_MEDIAN_DEPTH = 1000.0  # metres
MAX_OFFSET = 0.2  # of the principal point from the centre, as a share of width and height


def calibration_of(
    left: Path,
    size: Sequence[int],
    *,
    file: str | None = None,
    focal: float | None = None,
    baseline: float | None = None,
    resize: bool = False,
) -> StereoCalibration | None:
    """The calibration of a pair, or None if none is known.

    Args:
        left: the left image, beside which files are looked for if nothing else is given.
        size: its height and width, px.
        file: a calibration file.
        focal: focal length in px, of a camera whose axis goes through the centre of the image.
        baseline: its baseline in metres.
        resize: scale a file's calibration to `size` if it says that it is for another one, which else is refused.
    """
    if focal is not None or baseline is not None:
        if focal is None or baseline is None or file is not None:
            raise InputError("--focal and --baseline belong together, without --calib; give both or neither")
        return StereoCalibration(focal=focal, baseline=baseline, cx=(size[1] - 1) / 2, cy=(size[0] - 1) / 2)
    found = _beside(left) if file is None else Path(file)
    if found is None:
        return None
    grey = not KITTI_GREY_FOLDERS.isdisjoint(left.absolute().parts[-3:-1])  # image_00/data/ in KITTI's raw recordings
    return calibration_for_size(found, width=size[1], height=size[0], image=left, resize=resize, grey=grey)


def doubts(calibration: StereoCalibration, left: Path, size: Sequence[int]) -> list[str]:
    """What looks wrong about the calibration of an image of height x width px: a sentence each, with what to do."""
    height, width = size
    found = []
    centre = f"the calibration's principal point ({calibration.cx:g}, {calibration.cy:g})"
    if not (0 <= calibration.cx < width and 0 <= calibration.cy < height):
        found.append(
            f"{centre} is outside of {left}, {width} x {height} px; if the image was resized, scale the calibration too"
        )
    else:
        x, y = calibration.cx / width - 0.5, calibration.cy / height - 0.5
        if min(abs(x), abs(y)) > MAX_OFFSET and x * y > 0:  # as with a calibration of twice or half the size
            found.append(
                f"{centre} is far from the centre of {left}, {width} x {height} px; if the image was resized or "
                "cropped, change the calibration too"
            )
    if not MIN_BASELINE <= calibration.baseline <= MAX_BASELINE:
        found.append(
            f"the baseline of {left} is {calibration.baseline:g} m; if that is in another unit, correct it: --baseline "
            "and calib.json take metres, calib.txt in Middlebury's format millimetres"
        )
    return found


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
