"""Normals against planes in space, whose disparity is computed here point by point."""

import numpy as np
import pytest

from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.normals import surface_normals

CAMERA = StereoCalibration(focal=200.0, baseline=0.1, cx=30.5, cy=21.0, doffs=1.5, aspect=1.2)


def plane_disparity(normal, distance, height=40, width=60):
    """Disparity [H, W] of the plane normal . P = distance."""
    y, x = np.mgrid[:height, :width].astype(np.float64)
    rays = np.stack([(x - CAMERA.cx) / CAMERA.focal, (y - CAMERA.cy) / CAMERA.focal_y, np.ones_like(x)], axis=-1)
    depth = distance / (rays @ normal)
    return CAMERA.focal * CAMERA.baseline / depth - CAMERA.doffs


@pytest.mark.parametrize("towards", [(0, 0, -1), (0.5, 0, -1), (-0.3, 0.6, -1), (0, -1, -0.4)])
def test_a_plane_has_its_normal_everywhere(towards):
    normal = np.array(towards, float) / np.linalg.norm(towards)
    disparity = plane_disparity(-normal, 1.2).astype(np.float32)
    found = surface_normals(disparity, CAMERA)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.broadcast_to(normal, found.shape), atol=2e-3)


def test_a_jump_does_not_bend_the_normals_beside_it():
    near, far = (plane_disparity(np.array([0, 0, 1.0]), z) for z in (0.6, 2.0))
    disparity = np.where(np.arange(60) < 30, near, far).astype(np.float32)
    np.testing.assert_allclose(surface_normals(disparity, CAMERA)[..., 2], -1, atol=1e-5)


def test_normals_have_unit_length_whatever_the_disparity_is():
    rng = np.random.default_rng(0)
    for disparity in (rng.uniform(0, 60, (20, 30)), np.zeros((20, 30)), np.full((1, 1), 3.0)):
        normals = surface_normals(disparity.astype(np.float32), CAMERA)
        np.testing.assert_allclose(np.linalg.norm(normals, axis=-1), 1, atol=1e-5)
