"""Calibration files as the tools write them: OpenCV by itself, Kalibr and ROS by their documented formats."""

from pathlib import Path

import cv2
import numpy as np

from linstereo.geometry.stereo_rig import StereoRig


def opencv_fields(rig: StereoRig, *, unit: float = 1.0) -> dict[str, np.ndarray]:
    """K1, D1, K2, D2, R and T as `cv2.stereoCalibrate` returns them; lengths in `unit` metres."""
    return {
        "K1": rig.left_matrix,
        "D1": rig.left_distortion.array[None],
        "K2": rig.right_matrix,
        "D2": rig.right_distortion.array[None],
        "R": rig.rotation,
        "T": rig.translation[:, None] / unit,
    }


def write_opencv(path: Path, fields: dict[str, object]) -> None:
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    for name, value in fields.items():
        storage.write(name, value)
    storage.release()


def kalibr_text(rig: StereoRig, *, swapped: bool = False) -> str:
    """A camchain.yaml; `swapped` makes the right camera cam0."""
    rotation, translation = rig.rotation, rig.translation
    cameras = [(rig.left_matrix, rig.left_distortion), (rig.right_matrix, rig.right_distortion)]
    if swapped:
        rotation, translation = rotation.T, -rotation.T @ translation
        cameras.reverse()
    pose = np.vstack([np.hstack([rotation, translation[:, None]]), [0, 0, 0, 1]]).tolist()
    lines = []
    for number, (matrix, distortion) in enumerate(cameras):
        lines.append(f"cam{number}:")
        if number:
            lines += ["  T_cn_cnm1:", *(f"  - {row}" for row in pose)]
        coefficients = [
            f"{value:.17g}" for value in distortion.coefficients
        ]  # such as 1e-05, which is no YAML 1.1 float
        lines += [
            f"  cam_overlaps: [{1 - number}]",
            "  camera_model: pinhole",
            f"  distortion_coeffs: [{', '.join(coefficients)}]",
            f"  distortion_model: {'radtan' if distortion.kind == 'radial-tangential' else 'equidistant'}",
            f"  intrinsics: {[matrix[0, 0].item(), matrix[1, 1].item(), matrix[0, 2].item(), matrix[1, 2].item()]}",
            f"  resolution: [{rig.width}, {rig.height}]",
            f"  rostopic: /cam{number}/image_raw",
        ]
    return "\n".join(lines) + "\n"


def write_ros(folder: Path, rig: StereoRig, *, message: bool = False) -> Path:
    """left.yaml and right.yaml of camera_calibration, or of the message itself; returns the path of the first."""
    fisheye = rig.left_distortion.kind == "equidistant"
    rectify = cv2.fisheye.stereoRectify if fisheye else cv2.stereoRectify
    found = rectify(
        rig.left_matrix,
        rig.left_distortion.array,
        rig.right_matrix,
        rig.right_distortion.array,
        (rig.width, rig.height),
        rig.rotation,
        rig.translation[:, None],
        flags=cv2.CALIB_ZERO_DISPARITY,
        **({} if fisheye else {"alpha": 0}),
    )
    folder.mkdir(parents=True, exist_ok=True)
    cameras = {
        "left": (rig.left_matrix, rig.left_distortion, found[0], found[2]),
        "right": (rig.right_matrix, rig.right_distortion, found[1], found[3]),
    }
    for side, (matrix, distortion, rotation, projection) in cameras.items():
        model = "equidistant" if fisheye else "plumb_bob" if len(distortion.coefficients) < 8 else "rational_polynomial"
        lines = [f"distortion_model: {model}"]
        if message:
            lines += [f"width: {rig.width}", f"height: {rig.height}", f"d: {list(distortion.coefficients)}"]
            lines += [f"{n}: {np.ravel(m).tolist()}" for n, m in (("k", matrix), ("r", rotation), ("p", projection))]
        else:
            lines += [f"image_width: {rig.width}", f"image_height: {rig.height}", f"camera_name: narrow_stereo/{side}"]
            matrices = {
                "camera_matrix": matrix,
                "distortion_coefficients": distortion.array[None],
                "rectification_matrix": rotation,
                "projection_matrix": projection,
            }
            for name, value in matrices.items():
                rows, cols = value.shape
                lines += [f"{name}:", f"  rows: {rows}", f"  cols: {cols}", f"  data: {np.ravel(value).tolist()}"]
        (folder / f"{side}.yaml").write_text("\n".join(lines) + "\n")
    return folder / "left.yaml"
