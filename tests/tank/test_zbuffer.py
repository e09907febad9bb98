"""The z-buffer against Embree's rays and against a plain loop over all faces in double precision."""

import cv2
import numpy as np
import pytest
from embreex.mesh_construction import TriangleMesh
from embreex.rtcore_scene import EmbreeScene

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.synthesis.mesh_tools import moved, pitch, roll, yaw
from linstereo.synthesis.shapes import boulder, box, plane, rod, sphere, torus
from linstereo.tank.zbuffer import render_depth

CAMERA = StereoCalibration(focal=300.0, baseline=0.1, cx=118.7, cy=91.2, aspect=1.02)
HEIGHT, WIDTH = 180, 240


def rays():
    column, row = np.meshgrid(np.arange(WIDTH, dtype=float), np.arange(HEIGHT, dtype=float))
    x, y = (column - CAMERA.cx) / CAMERA.focal, (row - CAMERA.cy) / CAMERA.focal_y
    return np.stack([x, y, np.ones_like(x)], axis=-1).reshape(-1, 3)


def by_embree(vertices, faces):
    """Depth [H, W] that Embree's rays (single precision) measure, 0 where they meet nothing."""
    scene = EmbreeScene(robust=True)
    TriangleMesh(scene, vertices.astype(np.float32), faces.astype(np.int32))
    directions = rays().astype(np.float32)
    found = scene.run(np.zeros_like(directions), directions, query="INTERSECT", output=True)
    return np.where(found["primID"] >= 0, found["tfar"], 0).reshape(HEIGHT, WIDTH)


def by_brute_force(vertices, faces):
    """Depth [H, W] by the intersection of every ray with every face (Moeller and Trumbore)."""
    directions = rays()
    nearest = np.full(len(directions), np.inf)
    for a, b, c in vertices[faces]:
        across = np.cross(directions, c - a)
        volume = across @ (b - a)
        with np.errstate(divide="ignore", invalid="ignore"):
            u = across @ -a / volume
            other = np.cross(-a, b - a)
            v = directions @ other / volume
            t = (c - a) @ other / volume
            met = (u >= 0) & (v >= 0) & (u + v <= 1) & (t > 1e-3)
        nearest[met] = np.minimum(nearest[met], t[met])
    return np.where(np.isfinite(nearest), nearest, 0).reshape(HEIGHT, WIDTH)


def rendered(mesh, **options):
    return render_depth(mesh.vertices, mesh.faces.astype(np.int64), CAMERA, height=HEIGHT, width=WIDTH, **options)


RNG = np.random.default_rng(0)
MESHES = {
    "closed": moved(sphere(0.2), translation=(0.05, -0.02, 0.8)),
    "concave": moved(torus(0.2, 0.07), rotation=yaw(0.9) @ pitch(0.4), translation=(0, 0, 0.7)),
    "rough": moved(boulder(RNG, 0.3), translation=(-0.1, 0.05, 1.1)),
    "open": moved(plane(0.4, 0.3, rows=5, columns=7), rotation=yaw(0.5) @ roll(0.3), translation=(0.02, 0.01, 0.6)),
    "back faces": moved(plane(0.4, 0.3, rows=3, columns=3), rotation=yaw(3.5), translation=(0.02, 0.01, 0.6)),
    "grazing": moved(plane(3, 3, rows=4, columns=4), rotation=pitch(1.52), translation=(0, 0.05, 1.2)),
    "behind the camera": moved(box(6, 0.1, 6), rotation=roll(0.1), translation=(0, 0.4, 0)),
    "around the camera": moved(box(3, 2, 4), rotation=yaw(0.3), translation=(0.1, 0.2, 0.5)),
    "larger than the image": moved(box(2, 2, 0.1), rotation=yaw(0.6), translation=(0, 0, 0.5)),
    "far aside": moved(sphere(0.3), translation=(0.45, 0.3, 0.9)),
}


@pytest.mark.parametrize("name", MESHES)
def test_depth_is_that_of_rays(name):
    mesh = MESHES[name]
    found = rendered(mesh)
    theirs = by_embree(mesh.vertices, mesh.faces)
    sure = ~found.thin
    assert np.count_nonzero(theirs) > 500
    differs = ((found.depth > 0) != (theirs > 0)) & sure
    assert np.count_nonzero(differs) <= 2  # centres on an outline, where single precision decides either way
    both = (found.depth > 0) & (theirs > 0) & sure
    normal = np.cross(*np.moveaxis(mesh.vertices[mesh.faces][:, 1:] - mesh.vertices[mesh.faces][:, :1], 1, 0))
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    slope = np.abs((normal[found.face[both]] * rays().reshape(HEIGHT, WIDTH, 3)[both]).sum(axis=1))
    off = np.abs(found.depth - theirs)[both]
    outlines = cv2.dilate(np.abs(cv2.Laplacian(1 / np.maximum(theirs, 1e-9), -1)), np.ones((3, 3)))[both] > 0.02
    assert off[~outlines].max() < 1e-4 + 1e-5 / slope[~outlines].min()
    assert np.quantile(off, 0.999) < 1e-4


@pytest.mark.parametrize("name", ["open", "grazing", "behind the camera", "around the camera"])
def test_depth_is_exact(name):
    mesh = MESHES[name]
    found = rendered(mesh)
    exact = by_brute_force(mesh.vertices, mesh.faces)
    sure = ~found.thin
    assert np.count_nonzero(((found.depth > 0) != (exact > 0)) & sure) == 0
    np.testing.assert_allclose(found.depth[sure], exact[sure], rtol=1e-9, atol=1e-12)


def test_faces_are_those_that_are_seen():
    mesh = MESHES["concave"]
    found = rendered(mesh)
    seen = found.face >= 0
    np.testing.assert_array_equal(seen, found.depth > 0)
    point = (rays().reshape(HEIGHT, WIDTH, 3) * found.depth[..., None])[seen]
    corner = mesh.vertices[mesh.faces[found.face[seen]]]
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    assert np.abs((normal * (point - corner[:, 0])).sum(axis=1)).max() < 1e-12


def stretch(angle, width_px, *, half=0.2, depth=1.0):
    """A rod aslant in depth of a given width in px."""
    along = np.array([np.cos(angle), np.sin(angle), 0.3]) * half
    centre = np.array([0.0123, -0.0071, depth])
    return rod(centre - along, centre + along, width_px * depth / CAMERA.focal / 2, sides=12)


def components(mask):
    return cv2.connectedComponents(mask.astype(np.uint8), connectivity=8)[0] - 1


@pytest.mark.parametrize("width_px", [0.02, 0.3, 0.7, 1.0, 1.5])
@pytest.mark.parametrize("degrees", [0, 2, 31, 45, 73, 89, 90])
def test_thin_rods_are_unbroken(degrees, width_px):
    mesh = stretch(np.radians(degrees), width_px)
    found = rendered(mesh)
    mask = found.depth > 0
    assert components(mask) == 1
    ends = [
        mesh.vertices[: len(mesh.vertices) // 2].mean(axis=0),
        mesh.vertices[len(mesh.vertices) // 2 :].mean(axis=0),
    ]
    start, end = ([CAMERA.cx + CAMERA.focal * p[0] / p[2], CAMERA.cy + CAMERA.focal_y * p[1] / p[2]] for p in ends)
    row, column = np.nonzero(mask)
    along = np.subtract(end, start)
    length = np.linalg.norm(along)
    aside = np.abs((column - start[0]) * along[1] - (row - start[1]) * along[0]) / length
    assert aside.max() <= width_px / 2 + 0.75  # every pixel is touched by the rod
    reach = ((column - start[0]) * along[0] + (row - start[1]) * along[1]) / length
    assert reach.max() - reach.min() > length - 2
    inside = (reach > 1) & (reach < length - 1)
    share = (reach / length)[inside]
    inverse = (1 - share) / ends[0][2] + share / ends[1][2]
    np.testing.assert_allclose(found.depth[mask][inside], 1 / inverse, atol=width_px / CAMERA.focal + 2e-3)


def test_what_is_a_pixel_wide_needs_no_second_rule():
    for degrees in (0, 31, 45, 90):
        found = rendered(stretch(np.radians(degrees), 1.6))
        assert components((found.depth > 0) & ~found.thin) == 1


def test_a_thin_rod_before_a_plate_is_unbroken_and_behind_it_unseen():
    plate = moved(plane(0.5, 0.4), translation=(0, 0, 1.2))
    for depth, shown in ((1.0, True), (1.4, False)):
        strand = stretch(np.radians(40), 0.4, half=0.12, depth=depth)
        vertices = np.concatenate([plate.vertices, strand.vertices])
        faces = np.concatenate([plate.faces, strand.faces + len(plate.vertices)]).astype(np.int64)
        bodies = np.repeat([0, 1], [len(plate.faces), len(strand.faces)])
        found = render_depth(vertices, faces, CAMERA, height=HEIGHT, width=WIDTH, bodies=bodies)
        mask = (found.face >= 0) & (bodies[np.maximum(found.face, 0)] == 1)
        assert components(mask) == (1 if shown else 0)


def test_nothing_in_view():
    found = rendered(moved(sphere(0.1), translation=(0, 0, -1)))
    assert not found.depth.any()
    assert (found.face == -1).all()
    empty = render_depth(np.zeros((0, 3)), np.zeros((0, 3), np.int64), CAMERA, height=4, width=5)
    assert empty.depth.shape == (4, 5)
    assert not empty.depth.any()


def test_no_image_is_refused():
    with pytest.raises(InputError, match="0 x 4 px; both must be at least 1"):
        render_depth(np.zeros((0, 3)), np.zeros((0, 3), np.int64), CAMERA, height=4, width=0)
