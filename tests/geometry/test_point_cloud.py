"""Points against OpenCV's reprojection, PLY files against another reader."""

import dataclasses
import math

import cv2
import numpy as np
import pytest
import trimesh

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.point_cloud import PointCloud, point_cloud, usable_depth, write_ply

CAMERA = StereoCalibration(focal=420.0, baseline=0.12, cx=23.5, cy=15.25)
SHAPE = (31, 48)


def scene(seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 60, SHAPE).astype(np.float32), rng.integers(0, 256, (*SHAPE, 3), dtype=np.uint8)


def test_points_are_those_of_opencv_for_its_own_rectified_camera():
    left = np.array([[410.0, 0, 21], [0, 400.0, 17], [0, 0, 1]])
    right = np.array([[405.0, 0, 27], [0, 400.0, 15], [0, 0, 1]])
    rotation, _ = cv2.Rodrigues(np.array([0.01, -0.02, 0.005]))
    moved = np.array([[-0.12], [0.003], [0.002]])
    _, _, p_left, p_right, q, *_ = cv2.stereoRectify(
        left, np.zeros(5), right, np.zeros(5), SHAPE[::-1], rotation, moved, flags=0, alpha=0
    )
    camera = StereoCalibration(
        focal=p_left[0, 0],
        baseline=-p_right[0, 3] / p_right[0, 0],
        cx=p_left[0, 2],
        cy=p_left[1, 2],
        doffs=p_right[0, 2] - p_left[0, 2],
        aspect=p_left[1, 1] / p_left[0, 0],
    )
    assert abs(camera.doffs) > 1
    disparity, image = scene()
    disparity += 30  # positive even with the principal points' offset
    cloud = point_cloud(disparity, image, camera)
    expected = cv2.reprojectImageTo3D(disparity, q)
    np.testing.assert_allclose(cloud.points, expected.reshape(-1, 3), rtol=2e-5, atol=1e-6)
    np.testing.assert_array_equal(cloud.colours, image.reshape(-1, 3))


def test_points_project_back_onto_their_pixels_when_pixels_are_not_square():
    camera = dataclasses.replace(CAMERA, aspect=0.5, doffs=3.0)
    disparity, image = scene()
    points = point_cloud(disparity, image, camera, max_depth=math.inf).points.astype(np.float64)
    matrix = np.array([[420.0, 0, 23.5], [0, 210.0, 15.25], [0, 0, 1]])
    pixels, _ = cv2.projectPoints(points, np.zeros(3), np.zeros(3), matrix, None)
    row, column = np.mgrid[0 : SHAPE[0], 0 : SHAPE[1]]
    np.testing.assert_allclose(pixels[:, 0], np.stack([column.ravel(), row.ravel()], 1), atol=1e-3)
    matrix[0, 2] += camera.doffs
    in_right, _ = cv2.projectPoints(points, np.zeros(3), np.array([-camera.baseline, 0, 0]), matrix, None)
    np.testing.assert_allclose(in_right[:, 0, 0], (column - disparity).ravel(), atol=1e-3)


def test_pixels_without_depth_are_left_out():
    disparity, image = scene()
    disparity[0, :5] = [0, -1, np.nan, np.inf, -np.inf]
    mask = np.ones(SHAPE, bool)
    mask[3, 4] = False
    cloud = point_cloud(disparity, image, CAMERA, valid=mask, max_depth=math.inf)
    kept = mask.ravel()
    kept[:5] = False
    assert len(cloud) == SHAPE[0] * SHAPE[1] - 6
    assert np.isfinite(cloud.points).all()
    np.testing.assert_array_equal(cloud.colours, image.reshape(-1, 3)[kept])
    known = np.isfinite(disparity) & (disparity > 0)
    full = point_cloud(np.where(known, disparity, 1), image, CAMERA, max_depth=math.inf)
    assert len(full) == kept.size
    np.testing.assert_array_equal(cloud.points, full.points[kept])


def test_far_points_are_left_out():
    disparity = np.array([[0.5, 1.0, 2.0, 100.0]], np.float32)
    image = np.zeros((1, 4, 3), np.uint8)
    assert usable_depth(CAMERA) == pytest.approx(50.4)
    for limit, depths in (
        (None, [50.4, 25.2, 0.504]),
        (math.inf, [100.8, 50.4, 25.2, 0.504]),
        (30, [25.2, 0.504]),
        (0.1, []),
    ):
        cloud = point_cloud(disparity, image, CAMERA, max_depth=limit)
        np.testing.assert_allclose(cloud.points[:, 2], depths, rtol=1e-6)


@pytest.mark.parametrize("count", [1, 5, 1488])
def test_another_program_reads_the_same_points_and_colours(tmp_path, count):
    disparity, image = scene()
    whole = point_cloud(disparity, image, CAMERA, max_depth=math.inf)
    cloud = PointCloud(whole.points[:count], whole.colours[:count])
    path = tmp_path / "cloud.ply"
    write_ply(path, cloud)
    read = trimesh.load(path, process=False)
    np.testing.assert_array_equal(read.vertices.astype(np.float32), cloud.points)
    np.testing.assert_array_equal(read.colors[:, :3], cloud.colours)
    assert path.stat().st_size == path.read_bytes().index(b"end_header\n") + len(b"end_header\n") + 15 * count


def test_a_cloud_without_points_is_a_valid_file(tmp_path):
    cloud = point_cloud(np.zeros((2, 3), np.float32), np.zeros((2, 3, 3), np.uint8), CAMERA)
    assert cloud.points.shape == cloud.colours.shape == (0, 3)
    write_ply(tmp_path / "cloud.ply", cloud)
    data = (tmp_path / "cloud.ply").read_bytes()
    assert b"element vertex 0\n" in data
    assert data.endswith(b"end_header\n")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "cloud.ply"
    path.write_bytes(b"old")
    cloud = PointCloud(np.ones((2, 3), np.float32), np.ones((2, 3), np.uint8))

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(InputError, match="No space left"):
        write_ply(path, cloud)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["cloud.ply"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"image": np.zeros((31, 47, 3), np.uint8)}, r"must be uint8 \(31, 48, 3\)"),
        ({"image": np.zeros((31, 48, 3), np.float32)}, "float32"),
        ({"disparity": np.zeros((1, 31, 48), np.float32)}, r"\(1, 31, 48\); give \[H, W\]"),
        ({"valid": np.ones((48, 31), bool)}, "mask has the shape"),
        ({"max_depth": 0.0}, "largest depth is 0"),
        ({"max_depth": math.nan}, "largest depth is nan"),
    ],
)
def test_bad_input_is_refused(change, complaint):
    disparity, image = scene()
    arguments = {"disparity": disparity, "image": image, "calibration": CAMERA} | change
    with pytest.raises(InputError, match=complaint):
        point_cloud(**arguments)


def test_a_cloud_with_other_arrays_is_refused():
    with pytest.raises(InputError, match="colours are uint8"):
        PointCloud(np.zeros((3, 3), np.float32), np.zeros((2, 3), np.uint8))
    with pytest.raises(InputError, match="points are float64"):
        PointCloud(np.zeros((3, 3)), np.zeros((3, 3), np.uint8))
