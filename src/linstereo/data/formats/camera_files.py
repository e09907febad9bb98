"""A stereo camera from whatever calibration file there is: of rectified images, or of raw ones that must be rectified.

| file | images | lengths |
|---|---|---|
| calib.json, calib.txt of Middlebury or KITTI (`calibration_files`) | rectified | metres, millimetres, metres |
| OpenCV's FileStorage, .yml, .yaml or .xml (`opencv_calibration`) | raw, or rectified if all it holds is P1, P2 | any |
| Kalibr's camchain.yaml (`kalibr_calibration`) | raw | metres |
| ROS camera_info, two YAML files (`ros_calibration`) | raw | metres |
"""

from pathlib import Path

from linstereo.data.formats.calibration_fields import Cameras, FilePath, check_size, naming_calibration, rig_of
from linstereo.data.formats.calibration_files import calibration_for_size
from linstereo.data.formats.kalibr_calibration import is_kalibr, kalibr_cameras
from linstereo.data.formats.opencv_calibration import is_opencv, read_opencv_calibration
from linstereo.data.formats.plain_yaml import read_plain_yaml
from linstereo.data.formats.ros_calibration import is_camera_info, ros_cameras
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.stereo_rig import StereoRig

CAMERA_SUFFIXES = (".yaml", ".yml", ".xml")
"""Of files that may hold cameras as they stand; all others hold those of rectified images."""
UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001}
"""Metres of the units in which OpenCV's files may be."""


def read_cameras(path: FilePath, *, unit: str | None = None, fisheye: bool = False) -> Cameras:
    """Read a file of OpenCV, Kalibr or ROS; lengths come back in metres.

    Args:
        path: of the YAML or XML file; for ROS that of the left camera, with that of the right one beside it.
        unit: one of `UNITS`, of the lengths in OpenCV's files, which do not say it; None for metres. The others are
            always in metres, and refuse it.
        fisheye: the distortion coefficients in a file of OpenCV are those of `cv2.fisheye`.
    """
    found = None
    if Path(path).suffix.lower() != ".xml":
        content = read_plain_yaml(path)
        if is_kalibr(content):
            found = kalibr_cameras(content, path)
        elif is_camera_info(content):
            found = ros_cameras(content, path)
        elif not is_opencv(content):
            raise InputError(
                f"{path} is no calibration of a stereo camera that is known; give a file of OpenCV (K1, D1, K2, D2, R, "
                "T), Kalibr's camchain.yaml, or ROS's left.yaml with right.yaml beside it"
            )
    if found is None:
        return read_opencv_calibration(path, fisheye=fisheye).in_metres(UNITS[unit or "m"])
    if unit is not None or fisheye:
        raise InputError(
            f"{path} says its unit and its distortion model itself; leave out --calib-unit and --fisheye, which are "
            "for files of OpenCV"
        )
    return found


def cameras_for_size(
    path: FilePath,
    *,
    width: int,
    height: int,
    image: FilePath,
    resize: bool = False,
    grey: bool = False,
    unit: str | None = None,
    fisheye: bool = False,
    rectified: bool = False,
) -> StereoCalibration | StereoRig:
    """The stereo camera of images of `width` x `height` px from a calibration file of any kind.

    Args:
        path: the file.
        width: of the images, px.
        height: of the images, px.
        image: which image that is, for the error.
        resize: scale a calibration that says that it is for another size, which else is refused; see `check_size`.
        grey: of a KITTI file the grey cameras.
        unit: see `read_cameras`.
        fisheye: see `read_cameras`.
        rectified: the images were rectified with the file's own rectification (P1 and P2 of OpenCV, P of ROS).

    Returns:
        A `StereoCalibration` if the images are rectified, a `StereoRig` if they must be.
    """
    if Path(path).suffix.lower() not in CAMERA_SUFFIXES:
        if unit is not None or fisheye:
            raise InputError(
                f"{path} is a calibration of rectified images in a set unit; leave out --calib-unit and --fisheye"
            )
        return calibration_for_size(path, width=width, height=height, image=image, resize=resize, grey=grey)
    return fitted_cameras(
        read_cameras(path, unit=unit, fisheye=fisheye),
        path,
        width=width,
        height=height,
        image=image,
        resize=resize,
        rectified=rectified,
    )


def fitted_cameras(
    cameras: Cameras,
    path: FilePath,
    *,
    width: int,
    height: int,
    image: FilePath,
    resize: bool = False,
    rectified: bool = False,
) -> StereoCalibration | StereoRig:
    """The stereo camera of images of `width` x `height` px from the cameras of `path`; see `cameras_for_size`."""
    scale = check_size(cameras.size, width=width, height=height, path=path, image=image, resize=resize)
    size = cameras.size if scale and cameras.size else (width, height)
    if cameras.raw is None or rectified:
        if cameras.rectified is None:
            raise InputError(
                f"{path} describes no rectified images (OpenCV's P1 and P2, ROS's projection_matrix); give the "
                "calibration of the rectified images, or the raw images without --rectified"
            )
        return cameras.rectified.scaled(width / size[0], height / size[1])
    with naming_calibration(path):
        rig = rig_of(cameras.raw, width=size[0], height=size[1]).resized(width, height)
        return rig.rectified() or rig
