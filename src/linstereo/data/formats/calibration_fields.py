"""What the readers of calibration files share: the cameras as a file gives them, and whether they fit some images."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.stereo_rig import Distortion, StereoRig

FilePath = str | os.PathLike[str]
_ASPECT_TOLERANCE = 0.02  # of a resized picture's sides, besides their rounding to whole pixels
FOCAL_TOLERANCE = 1e-3
"""Share by which the focal lengths of two rectified cameras may differ."""


@dataclasses.dataclass(frozen=True, eq=False)
class RawCameras:
    """The fields of `StereoRig` but for the image size, which many files do not hold."""

    left_matrix: npt.NDArray[np.float64]
    right_matrix: npt.NDArray[np.float64]
    rotation: npt.NDArray[np.float64]
    translation: npt.NDArray[np.float64]
    left_distortion: Distortion
    right_distortion: Distortion


@dataclasses.dataclass(frozen=True, eq=False)
class Cameras:
    """What a calibration file says about a stereo camera.

    Attributes:
        size: width and height of the images, px; None if the file does not say.
        raw: the cameras as they stand, None if the file holds only rectified ones.
        rectified: the cameras after the rectification that the file describes, None if it describes none.
    """

    size: tuple[int, int] | None
    raw: RawCameras | None = None
    rectified: StereoCalibration | None = None

    def in_metres(self, unit: float) -> "Cameras":
        """The same with lengths multiplied by `unit`, the metres of the file's unit."""
        raw, rectified = self.raw, self.rectified
        return dataclasses.replace(
            self,
            raw=raw and dataclasses.replace(raw, translation=raw.translation * unit),
            rectified=rectified and dataclasses.replace(rectified, baseline=rectified.baseline * unit),
        )


def rig_of(raw: RawCameras, *, width: int, height: int) -> StereoRig:
    """The rig of raw cameras whose images have this size, px; an `InputError` for numbers that no rig has."""
    fields = {field.name: getattr(raw, field.name) for field in dataclasses.fields(raw)}
    return StereoRig(**fields, width=width, height=height)


def rectified_cameras(
    left: npt.NDArray[np.float64], right: npt.NDArray[np.float64], *, path: FilePath
) -> StereoCalibration:
    """The calibration that two projection matrices [3, 4] of rectified cameras stand for."""
    if left[0, 0] == 0 or abs(left[0, 0] - right[0, 0]) > FOCAL_TOLERANCE * abs(left[0, 0]):
        raise InputError(
            f"{path} has the focal lengths {left[0, 0]:g} and {right[0, 0]:g}; they must be equal and not 0"
        )
    with naming_calibration(path):
        return StereoCalibration(
            focal=float(left[0, 0]),
            baseline=float((left[0, 3] - right[0, 3]) / left[0, 0]),
            cx=float(left[0, 2]),
            cy=float(left[1, 2]),
            doffs=float(right[0, 2] - left[0, 2]),
            aspect=float(left[1, 1] / left[0, 0]),
        )


@contextlib.contextmanager
def naming_calibration(path: FilePath) -> Iterator[None]:
    """Let what is wrong with the numbers of a calibration be told with the file that holds them."""
    try:
        yield
    except (InputError, OverflowError) as error:
        raise InputError(f"{path} is not a valid calibration: {error}") from error


def check_size(
    size: tuple[int, int] | None, *, width: int, height: int, path: FilePath, image: FilePath, resize: bool
) -> bool:
    """Whether a calibration for images of `size` must be scaled to be that of an image of `width` x `height` px.

    An `InputError` if it must but `resize` is False, or if the image is not the whole picture: proportions that are
    off by more than 2 % are refused. A calibration that does not say its size (None) is taken to be for the image.
    """
    if size is None or size == (width, height):
        return False
    sizes = f"{path} is for images of {size[0]} x {size[1]} px, but {image} is {width} x {height} px"
    if min(size) < 1:
        raise InputError(f"{sizes}; correct the size in the calibration")
    if not resize:
        raise InputError(
            f"{sizes}; give the calibration for that size, or have it scaled if the whole picture was resized "
            "(linstereo predict --scale-calib)"
        )
    if abs(width / size[0] / (height / size[1]) - 1) > _ASPECT_TOLERANCE + 1 / min(width, height):
        raise InputError(f"{sizes}, which is not the same picture resized; give the calibration of the cropped image")
    return True
