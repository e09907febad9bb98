"""Files of the datasets, written with OpenCV, NumPy and a few lines of our own.

The package's writers are not used on purpose: a reader and its writer must not be wrong together.
"""

import json
from pathlib import Path

import cv2
import numpy as np

from linstereo.geometry.calibration import StereoCalibration


def write_rgb(path: Path, rgb: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), rgb[..., ::-1])


def write_values(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), values)


def write_npy(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, values)


def write_pfm(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = f"Pf\n{values.shape[1]} {values.shape[0]}\n-1.0\n".encode()
    path.write_bytes(header + np.flipud(values).astype("<f4").tobytes())


def write_disparity_png(path: Path, disparity: np.ndarray) -> None:
    write_values(path, np.round(disparity * 256).astype(np.uint16))


def write_calib_txt(path: Path, calibration: StereoCalibration) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    f, cx, cy = calibration.focal, calibration.cx, calibration.cy
    path.write_text(
        f"cam0=[{f} 0 {cx}; 0 {f} {cy}; 0 0 1]\ncam1=[{f} 0 {cx + calibration.doffs}; 0 {f} {cy}; 0 0 1]\n"
        f"doffs={calibration.doffs}\nbaseline={calibration.baseline * 1000}\nndisp=64\n"
    )


def write_calib_json(path: Path, calibration: StereoCalibration) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({name: getattr(calibration, name) for name in ("focal", "baseline", "cx", "cy", "doffs")})
    )


def write_mat(path: Path, **variables: object) -> None:
    """A MATLAB 5 file, uncompressed, of arrays of doubles, strings and structs (dictionaries)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = b"MATLAB 5.0 MAT-file, written by a test".ljust(124) + (0x0100).to_bytes(2, "little") + b"IM"
    path.write_bytes(header + b"".join(_mat_matrix(name, value) for name, value in variables.items()))


def _mat_element(kind: int, data: bytes) -> bytes:
    head = kind.to_bytes(4, "little") + len(data).to_bytes(4, "little")
    return head + data + bytes(-len(data) % 8)


def _mat_matrix(name: str, value: object) -> bytes:
    def head(array_class: int, shape: tuple[int, ...]) -> bytes:
        flags = _mat_element(6, array_class.to_bytes(4, "little") + bytes(4))
        return flags + _mat_element(5, np.array(shape, dtype="<i4").tobytes()) + _mat_element(1, name.encode())

    if isinstance(value, dict):
        width = 32
        names = b"".join(key.encode().ljust(width, b"\0") for key in value)
        body = head(2, (1, 1)) + _mat_element(5, width.to_bytes(4, "little")) + _mat_element(1, names)
        body += b"".join(_mat_matrix("", item) for item in value.values())
    elif isinstance(value, str):
        body = head(4, (1, len(value))) + _mat_element(4, value.encode("utf-16-le"))
    else:
        array = np.asarray(value, dtype="<f8")
        body = head(6, array.shape) + _mat_element(9, array.tobytes(order="F"))
    return _mat_element(14, body)
