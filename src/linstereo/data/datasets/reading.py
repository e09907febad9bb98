"""Reading the files of one stereo pair, whatever dataset it belongs to."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linstereo.data.formats.depth_maps import read_depth
from linstereo.data.formats.disparity import read_disparity
from linstereo.data.formats.images import read_pixels, to_rgb8, used_bits
from linstereo.data.formats.png import read_png_values
from linstereo.data.sample import PairFiles, StereoSample
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth import depth_to_disparity


def read_sample(
    files: PairFiles,
    *,
    disparity_of: Callable[[Path], NDArray[np.float32]] = read_disparity,
    occluded_in: Callable[[Path], NDArray[np.bool_]] = lambda path: read_png_values(path) != 0,
    calibrate: Callable[[Path, NDArray[np.uint8]], StereoCalibration] | None = None,
    calibration: StereoCalibration | None = None,
) -> StereoSample:
    """Read the images of one listed pair and whatever ground truth its files hold.

    Args:
        files: where they are; what is None there is None in the sample, except that disparity follows from depth and
            calibration.
        disparity_of: reads `files.disparity` as float32 [H, W], px, 0 where unknown.
        occluded_in: reads `files.occlusion` as bool [H, W], True where the right camera does not see the point.
        calibrate: reads `files.calibration`, given that file and the left image.
        calibration: of pairs without such a file.
    """
    left, right = read_views(files)
    disparity = valid = occluded = depth = None
    if files.calibration is not None and calibrate is not None:
        calibration = calibrate(files.calibration, left)
    if files.depth is not None:
        depth = read_depth(files.depth)
        check_size(left, files.left, depth, files.depth)
    if files.disparity is not None:
        disparity = disparity_of(files.disparity)
        check_size(left, files.left, disparity, files.disparity)
    elif depth is not None and calibration is not None:
        disparity = depth_to_disparity(depth, calibration)
    if disparity is not None:
        valid = disparity > 0 if depth is None else (disparity > 0) & (depth > 0)
    if files.occlusion is not None and valid is not None:
        hidden = occluded_in(files.occlusion)
        check_size(left, files.left, hidden, files.occlusion)
        occluded = valid & hidden
    return StereoSample(
        name=files.name,
        left=left,
        right=right,
        disparity=disparity,
        valid=valid,
        occluded=occluded,
        depth=depth,
        calibration=calibration,
    )


def read_views(files: PairFiles) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Left and right image, uint8 [H, W, 3] RGB, of one size; values of more than 8 bits are scaled alike."""
    left, right = read_pixels(files.left), read_pixels(files.right)
    check_size(left, files.left, right, files.right)
    bits = used_bits(left, right)
    return to_rgb8(left, bits=bits), to_rgb8(right, bits=bits)


def check_size(
    reference: NDArray[np.generic], reference_path: Path, other: NDArray[np.generic], other_path: Path
) -> None:
    """Fail, naming both files, if the two arrays differ in height or width."""
    if reference.shape[:2] != other.shape[:2]:
        raise InputError(
            f"{other_path} is {other.shape[1]} x {other.shape[0]} px but {reference_path} is "
            f"{reference.shape[1]} x {reference.shape[0]} px; they must be of one size"
        )
