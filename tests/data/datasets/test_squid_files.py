from pathlib import Path

import cv2
import numpy as np
import pytest
from tests.data.formats.test_mat import element, mat_file, variable
from tests.data.mat_files import NESTED_OBJECTS, OBJECT_WITH_SAVEOBJ, VALUES

from linstereo.data.datasets.squid_files import read_squid_calibration, read_squid_distance, read_squid_points
from linstereo.errors import InputError

ROTATION = cv2.Rodrigues(np.array([0.01, -0.02, 0.005]))[0]


def struct_variable(name: str, fields: dict[str, np.ndarray | str | bytes]) -> bytes:
    """A 1 x 1 struct; a field is an array, a text or the bytes of a nested variable."""
    body = element(6, np.array([2, 0], "<u4").tobytes()) + element(5, np.array([1, 1], "<i4").tobytes())
    body += element(1, name.encode()) + element(5, np.array([32], "<i4").tobytes())
    body += element(1, b"".join(field.encode().ljust(32, b"\0") for field in fields))
    for value in fields.values():
        if isinstance(value, str):
            letters = np.frombuffer(value.encode("utf-16-le"), "<u2").reshape(1, -1)
            body += variable("", letters, array_class=4, kind=4)
        else:
            body += value if isinstance(value, bytes) else variable("", np.atleast_2d(value).astype(float))
    return element(14, body)


def calibration_file(**changes: object) -> bytes:
    """The struct that MATLAB's toStruct(stereoParams) gives."""
    camera = {"IntrinsicMatrix": np.array([[3000.0, 0, 0], [0, 3001.0, 0], [1368.0, 913.0, 1]]), "WorldUnits": "mm"}
    camera.update({name: changes.pop(name) for name in ("IntrinsicMatrix", "WorldUnits", "K") if name in changes})
    camera = {name: value for name, value in camera.items() if value is not None}
    fields = {
        "CameraParameters1": struct_variable("", camera),
        "CameraParameters2": struct_variable("", camera),
        "RotationOfCamera2": ROTATION.T,
        "TranslationOfCamera2": np.array([-250.0, 1, 2]),
        **changes,
    }
    fields = {name: value for name, value in fields.items() if value is not None}
    return mat_file(struct_variable("stereoParams", fields))


@pytest.mark.parametrize("data", [OBJECT_WITH_SAVEOBJ, NESTED_OBJECTS], ids=["saveobj", "nested"])
def test_calibration_objects(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "stereoParams0.5.mat").write_bytes(data)
    rig = read_squid_calibration(tmp_path / "stereoParams0.5.mat")
    np.testing.assert_array_equal(rig.left_matrix, [[3000, 0, 1367], [0, 3001, 912], [0, 0, 1]])
    np.testing.assert_array_equal(rig.right_matrix, [[3010, 0, 1359], [0, 3012, 919], [0, 0, 1]])
    np.testing.assert_allclose(rig.rotation, ROTATION, atol=1e-11)
    np.testing.assert_allclose(rig.translation, [-0.25, 0.001, 0.002])
    assert (rig.width, rig.height) == (2737, 1827)


def test_calibration_struct_without_an_image_size(tmp_path: Path) -> None:
    (tmp_path / "a.mat").write_bytes(calibration_file())
    rig = read_squid_calibration(tmp_path / "a.mat")
    np.testing.assert_array_equal(rig.left_matrix, [[3000, 0, 1367], [0, 3001, 912], [0, 0, 1]])
    np.testing.assert_allclose(rig.rotation, ROTATION)
    assert (rig.width, rig.height) == (2737, 1827)


def test_newer_camera_matrix(tmp_path: Path) -> None:
    matrix = np.array([[3000.0, 0, 1368.0], [0, 3001.0, 913.0], [0, 0, 1]])
    (tmp_path / "a.mat").write_bytes(calibration_file(IntrinsicMatrix=None, K=matrix))
    np.testing.assert_array_equal(read_squid_calibration(tmp_path / "a.mat").left_matrix[:, 2], [1367, 912, 1])


@pytest.mark.parametrize(
    ("unit", "metres"),
    [("mm", 0.25), ("millimeters", 0.25), ("cm", 2.5), ("meters", 250.0), ("m", 250), ("inches", 6.35)],
)
def test_units(tmp_path: Path, unit: str, metres: float) -> None:
    (tmp_path / "a.mat").write_bytes(calibration_file(WorldUnits=unit))
    assert read_squid_calibration(tmp_path / "a.mat").translation[0] == pytest.approx(-metres)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (VALUES, "has no variable 'stereoParams'"),
        (mat_file(variable("stereoParams", np.ones((2, 2)))), r"save toStruct\(stereoParams\) instead"),
        (calibration_file(WorldUnits="furlongs"), "measures lengths in 'furlongs'"),
        (calibration_file(RotationOfCamera2=None), "has no RotationOfCamera2 in its stereoParams"),
        (calibration_file(RotationOfCamera2=np.eye(2)), "must hold 9 numbers in RotationOfCamera2"),
        (calibration_file(RotationOfCamera2=np.full((3, 3), np.nan)), "in RotationOfCamera2 that is not finite"),
        (calibration_file(RotationOfCamera2=3 * np.eye(3)), "is not a valid calibration: .*rotation"),
        (calibration_file(TranslationOfCamera2=np.array([250.0, 0, 0])), "swap the two images"),
        (calibration_file(IntrinsicMatrix=np.eye(3).T[::-1]), "left_matrix"),
        (calibration_file(IntrinsicMatrix=None), "has no IntrinsicMatrix"),
    ],
)
def test_bad_calibrations(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "a.mat"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        read_squid_calibration(path)
    assert str(path) in str(caught.value)


def test_distances(tmp_path: Path) -> None:
    left = np.array([[1.5, np.nan, 3.0], [np.inf, 0.0, -2.0]])
    path = tmp_path / "distanceFromCamera.mat"
    path.write_bytes(mat_file(variable("dist_map_l", left), variable("dist_map_r", left + 1)))
    distance = read_squid_distance(path)
    assert distance.dtype == np.float32
    np.testing.assert_array_equal(distance, [[1.5, 0, 3.0], [0, 0, 0]])
    np.testing.assert_array_equal(read_squid_distance(path, side="right"), [[2.5, 0, 4.0], [0, 1.0, 0]])


def test_points(tmp_path: Path) -> None:
    points = np.arange(24.0).reshape(2, 4, 3) - 3
    points[1, 1, 0] = np.nan
    path = tmp_path / "xyzPoints.mat"
    path.write_bytes(mat_file(variable("xyzPointsLeft", points)))
    expected = points.copy()
    expected[0, 0] = np.nan  # behind the camera
    expected[1, 1] = np.nan
    np.testing.assert_array_equal(read_squid_points(path), expected.astype(np.float32))
    with pytest.raises(InputError, match="has no variable 'xyzPointsRight'"):
        read_squid_points(path, side="right")


def test_maps_of_other_shapes(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    path.write_bytes(mat_file(variable("dist_map_l", np.ones((2, 2, 2))), variable("xyzPointsLeft", np.ones((2, 2)))))
    with pytest.raises(InputError, match=r"dist_map_l of .*a\.mat has the shape"):
        read_squid_distance(path)
    with pytest.raises(InputError, match=r"points of the shape \[H, W, 3\]"):
        read_squid_points(path)
