"""Hits against a slow caster in double precision, and what is interpolated there."""

import numpy as np
import pytest
from tests.synthesis.small_scenes import (
    WHITE,
    cluttered,
    nearest_hits,
    pixel_rays,
    quad,
    scene,
    sphere,
    triangles,
    wall,
)

from linstereo.errors import InputError
from linstereo.synthesis.raycast import Faces, RayCaster, cameras_of
from linstereo.synthesis.scene import Material, Mesh, SceneObject


def everything_seen(item, side=0):
    caster = RayCaster(item.objects)
    camera = cameras_of(item.rig)[side]
    rays = pixel_rays(item)
    x, y = rays[:, 0], rays[:, 1]
    face = caster.seen_faces(camera, x, y)
    faces = Faces(caster, camera, np.ones(len(caster.object_of_face), bool))
    return caster, faces, faces.surface(face, x, y)


@pytest.mark.parametrize("side", [0, 1])
def test_depth_is_that_of_the_nearest_triangle(side):
    item = cluttered()
    _, _, surface = everything_seen(item, side)
    corners, _ = triangles(item)
    expected, which = nearest_hits(corners, (side * item.rig.calibration.baseline, 0, 0), pixel_rays(item))
    np.testing.assert_allclose(surface.depth, expected, rtol=1e-12)
    assert (surface.face == which).mean() > 0.999  # a ray through an edge belongs to either face


def test_texture_coordinates_and_normals_are_interpolated_over_the_triangle():
    item = cluttered()
    caster, _, surface = everything_seen(item)
    corners, owner = triangles(item)
    points = (pixel_rays(item) * surface.depth[:, None])[::7]
    for point, index in zip(points, np.arange(len(surface.face))[::7], strict=True):
        face = surface.face[index]
        a, b, c = corners[face]
        weights = np.linalg.lstsq(np.stack([a, b, c], 1), point, rcond=None)[0]
        mesh = item.objects[owner[face]].mesh
        local = mesh.faces[face - np.flatnonzero(owner == owner[face])[0]]
        expected = weights @ mesh.uv[local]
        found = np.array([surface.u[index], surface.v[index]])
        offset = (found - expected + 0.5) % 1 - 0.5
        np.testing.assert_allclose(offset, 0, atol=2e-5)
        normal = np.cross(b - a, c - a) if mesh.normals is None else weights @ mesh.normals[local]
        normal /= np.linalg.norm(normal)
        assert abs(normal @ surface.normal[:, index]) == pytest.approx(1, abs=1e-5)
    assert caster.corners.shape == (3, 3, len(corners))


def test_footprint_is_the_change_of_texture_coordinates_over_a_pixel():
    item = scene(SceneObject(quad((-9, -9, 4), (18, 0, 3), (0, 18, 9), uv_scale=3), Material(WHITE)))
    _, faces, surface = everything_seen(item)
    focal = item.rig.calibration.focal
    step = 0.02  # px; the coordinates are in single precision
    sizes = []
    for dx, dy in ((step / focal, 0), (0, step / focal)):
        moved = faces.surface(surface.face, surface.x + dx, surface.y + dy)
        sizes.append(np.hypot(moved.u - surface.u, moved.v - surface.v) / step)
    expected = np.minimum(np.maximum(*sizes), 2 * np.minimum(*sizes))
    np.testing.assert_allclose(surface.footprint, expected, rtol=0.02)


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("wound", [False, True])
def test_normals_face_the_camera_whichever_way_a_mesh_is_given(flip, wound):
    mesh = sphere((0, 0, 3), 0.8)
    faces = mesh.faces[:, ::-1].copy() if wound else mesh.faces
    normals = -mesh.normals if flip else mesh.normals
    ball = SceneObject(Mesh(mesh.vertices, faces, mesh.uv, normals), Material(WHITE))
    item = scene(SceneObject(wall(9), Material(WHITE)), ball)
    caster, _, surface = everything_seen(item)
    on_ball = caster.object_of_face[surface.face] == 1
    points = surface.point[:, on_ball]
    outwards = (points - np.array([[0], [0], [3.0]])) / 0.8
    assert (surface.normal[:, on_ball] * outwards).sum(axis=0).min() > 0.9


def test_from_inside_normals_point_inwards():
    item = scene(SceneObject(sphere((0, 0, 0), 5), Material(WHITE)))
    _, _, surface = everything_seen(item)
    rays = pixel_rays(item).T
    assert ((surface.normal * rays).sum(axis=0) < 0).all()


def test_no_ray_slips_through_between_neighbouring_faces():
    """Rays exactly through edges and corners: pixel centres on the grid lines of a finely divided wall."""
    item = scene(
        SceneObject(quad((-4, -4, 2), (8, 0, 0), (0, 8, 0), cells=64), Material(WHITE)),
        SceneObject(wall(9), Material(WHITE)),
    )
    caster = RayCaster(item.objects)
    grid = np.arange(-31, 32) / 16  # x / z of the vertices: 0.125 m apart at 2 m
    x, y = (a.ravel() for a in np.meshgrid(grid, grid))
    camera = cameras_of(item.rig)[0]
    face = caster.seen_faces(camera, x, y)
    assert (caster.object_of_face[face] == 0).all()


def test_only_what_lies_beyond_counts():
    item = scene(SceneObject(wall(2), Material(WHITE)), SceneObject(wall(5), Material(WHITE)))
    caster = RayCaster(item.objects)
    camera = cameras_of(item.rig)[1]
    x = np.linspace(-0.5, 0.5, 9)
    assert (caster.object_of_face[caster.seen_faces(camera, x, 0 * x)] == 0).all()
    behind = caster.seen_faces(camera, x, 0 * x, beyond=np.full(9, 2.001))
    assert (caster.object_of_face[behind] == 1).all()
    assert (caster.seen_faces(camera, x, 0 * x, beyond=np.full(9, 5.001)) == -1).all()


def test_blocked():
    caster = RayCaster([SceneObject(quad((0, 0, 1), (1, 0, 0), (0, 1, 0)), Material(WHITE))])
    origins = np.array([[0.5, 0.5, 0], [1.5, 0.5, 0], [0.5, 0.5, 2]], np.float32)
    assert caster.blocked(origins, np.array([[0, 0, 1]], np.float32)).tolist() == [True, False, False]


def test_bad_scenes_are_refused():
    with pytest.raises(InputError, match="no objects"):
        RayCaster([])
    mesh = wall(3)
    mesh.vertices[0, 0] = np.nan
    with pytest.raises(InputError, match="not finite"):
        RayCaster([SceneObject(mesh, Material(WHITE))])
