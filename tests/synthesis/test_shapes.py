"""Procedural meshes: valid, of the size asked for, closed where they say so, reproducible."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from linstereo.synthesis import furniture, growth, openwork, things
from linstereo.synthesis.mesh_tools import (
    box_mapped,
    fan,
    joined,
    moved,
    pitch,
    random_rotation,
    roll,
    stretched,
    with_uv,
    yaw,
)
from linstereo.synthesis.scene import Mesh
from linstereo.synthesis.shapes import (
    boulder,
    box,
    cutout,
    cylinder,
    plane,
    prism,
    random_contour,
    rod,
    sheet,
    sphere,
    standing,
    terrain,
    torus,
    tubes,
    turned,
)

Maker = Callable[[np.random.Generator], Mesh]
STAR = np.array([[math.cos(0.2 * math.pi * k), math.sin(0.2 * math.pi * k)] for k in range(10)])
STAR[1::2] *= 0.5
SPIRAL = np.stack([np.cos(np.linspace(0, 6, 40)), np.linspace(0, 1, 40), np.sin(np.linspace(0, 6, 40))], axis=1)

CLOSED: dict[str, Maker] = {
    "box": lambda rng: box(1.0, 2.0, 0.5),
    "sphere": lambda rng: sphere(0.7),
    "cylinder": lambda rng: cylinder(0.3, 1.2),
    "cone": lambda rng: cylinder(0.3, 1.2, top_radius=0.0),
    "turned": lambda rng: turned(rng, 0.3, 1.0),
    "torus": lambda rng: torus(1.0, 0.2),
    "boulder": lambda rng: boulder(rng, 0.8, jagged=0.9),
    "tubes": lambda rng: tubes(SPIRAL[None], np.array([0.05])),
    "rod": lambda rng: rod(np.zeros(3), np.array([0.3, -1.0, 2.0]), 0.02),
    "prism": lambda rng: prism(STAR, 0.4),
    "random prism": lambda rng: prism(random_contour(rng, 0.5), 0.4),
    "cable": lambda rng: growth.cable(np.zeros(3), np.array([2.0, 0.0, 1.0]), 0.01),
    "rope": lambda rng: growth.rope(rng, np.zeros(3), np.array([2.0, 0.0, 1.0]), 0.02),
}
OPEN: dict[str, Maker] = {
    "plane": lambda rng: plane(2.0, 1.0, rows=3, columns=4),
    "sheet": lambda rng: sheet(rng, 1.0, 2.0, bend=1.0, ripple=0.1),
    "flat sheet": lambda rng: sheet(rng, 1.0, 2.0, bend=0.0, ripple=0.0, cells=31),
    "terrain": lambda rng: terrain(rng, (-5, 5), (1, 10), relief=1.0),
    "cutout": lambda rng: cutout(random_contour(rng, 0.5)),
    "blades": lambda rng: growth.blades(rng, 30, 1.0, spread=0.2, width=0.05),
    "branches": lambda rng: growth.branches(rng, 1.0, thickness=0.03, generations=4),
    "bush": lambda rng: growth.bush(rng, 0.5),
    "tree": lambda rng: joined(growth.tree(rng, 4.0)),
    "brain": lambda rng: growth.brain(rng, 0.4),
    "tube sponge": lambda rng: growth.tube_sponge(rng, 0.6),
    "sea fan": lambda rng: growth.sea_fan(rng, 0.6),
    "fish": lambda rng: growth.fish(rng, 0.3),
    "table": lambda rng: furniture.table(1.2, 0.7, 0.8, leg=0.06),
    "chair": lambda rng: furniture.chair(rng, 0.9),
    "shelf": lambda rng: furniture.shelf(rng, 0.8, 1.8, 0.3),
    "books": lambda rng: joined(furniture.books(rng, 0.8, 0.25, 0.2)),
    "fence": lambda rng: furniture.fence(2.0, 1.0, bars=12, thickness=0.02),
    "lattice": lambda rng: furniture.lattice(2.0, 1.0, rows=6, columns=9, thickness=0.02),
    "pole": lambda rng: furniture.pole(rng, 4.0, 0.06),
    "car": lambda rng: joined(furniture.car(rng, 4.2)),
    "person": lambda rng: furniture.person(rng, 1.8),
    "bicycle": lambda rng: furniture.bicycle(1.7),
    "slats": lambda rng: openwork.slats(rng, 1.2, 0.8),
    "perforated": lambda rng: openwork.perforated(rng, 1.2, 0.8),
    "machine": lambda rng: joined(openwork.machine(rng, 1.0)),
    "spray": lambda rng: joined(openwork.spray(rng, 1.0)),
}
ALL = CLOSED | OPEN


def test_the_makers_of_things_give_valid_meshes_of_about_the_size_asked_for():
    for pool in (things.SMALL, things.FLOATING, things.OPEN, things.REEF):
        for maker, weight in pool:
            assert weight > 0
            for seed in range(3):
                for mesh, use in maker(np.random.default_rng(seed), 0.5):
                    assert_valid(mesh)
                    assert isinstance(use, str)
                    assert np.ptp(mesh.vertices, axis=0).max() < 2.0, maker.__name__


@pytest.mark.parametrize("name", sorted(ALL))
@pytest.mark.parametrize("seed", range(4))
def test_meshes_are_valid(name, seed):
    assert_valid(ALL[name](np.random.default_rng(seed)))


@pytest.mark.parametrize("name", sorted(ALL))
def test_same_generator_same_mesh(name):
    one, two = (ALL[name](np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(one.vertices, two.vertices)
    np.testing.assert_array_equal(one.uv, two.uv)


@pytest.mark.parametrize("name", sorted(CLOSED))
@pytest.mark.parametrize("seed", range(4))
def test_closed_shapes_are_watertight_and_face_outwards(name, seed):
    trimesh = pytest.importorskip("trimesh")
    mesh = CLOSED[name](np.random.default_rng(seed))
    solid = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    solid.merge_vertices(merge_tex=True, merge_norm=True, digits_vertex=9)
    assert solid.is_watertight
    assert solid.is_winding_consistent
    assert solid.volume > 0


@pytest.mark.parametrize("name", sorted(ALL))
def test_smooth_normals_agree_with_the_faces(name):
    mesh = ALL[name](np.random.default_rng(1))
    if mesh.normals is None:
        return
    corner = mesh.vertices[mesh.faces]
    flat = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    mean = mesh.normals[mesh.faces].mean(axis=1)
    assert ((flat * mean).sum(axis=1) > 0).mean() > 0.97


@pytest.mark.parametrize(
    ("mesh", "low", "high"),
    [
        (box(1.0, 2.0, 0.5), (-0.5, -1, -0.25), (0.5, 1, 0.25)),
        (sphere(0.7, rings=32), (-0.7, -0.7, -0.7), (0.7, 0.7, 0.7)),
        (cylinder(0.3, 1.2, sides=32), (-0.3, -0.6, -0.3), (0.3, 0.6, 0.3)),
        (torus(1.0, 0.2, sides=32, tube_sides=16), (-1.2, -1.2, -0.2), (1.2, 1.2, 0.2)),
        (plane(2.0, 1.0), (-1, -0.5, 0), (1, 0.5, 0)),
        (furniture.table(1.2, 0.7, 0.8, leg=0.06), (-0.6, -0.7, -0.4), (0.6, 0, 0.4)),
    ],
)
def test_bounds(mesh, low, high):
    np.testing.assert_allclose(mesh.vertices.min(axis=0), low, atol=1e-9)
    np.testing.assert_allclose(mesh.vertices.max(axis=0), high, atol=1e-9)


def test_volumes_match_the_formulas():
    trimesh = pytest.importorskip("trimesh")

    def volume(mesh: Mesh) -> float:
        return float(trimesh.Trimesh(mesh.vertices, mesh.faces, process=False).volume)

    assert volume(box(1, 2, 3)) == pytest.approx(6)
    assert volume(sphere(1.0, rings=64)) == pytest.approx(4 / 3 * math.pi, rel=0.003)
    assert volume(cylinder(0.5, 2.0, sides=200)) == pytest.approx(math.pi * 0.5, rel=0.001)
    assert volume(cylinder(0.5, 3.0, top_radius=0, sides=200)) == pytest.approx(math.pi * 0.25, rel=0.001)
    assert volume(torus(1.0, 0.2, sides=200, tube_sides=100)) == pytest.approx(2 * math.pi**2 * 0.04, rel=0.003)
    star = 0.5 * 10 * 1.0 * 0.5 * math.sin(math.pi / 5)
    assert volume(prism(STAR, 0.4)) == pytest.approx(star * 0.4)


@pytest.mark.parametrize("seed", range(6))
def test_boulders_reach_their_radius_and_vary(seed):
    mesh = boulder(np.random.default_rng(seed), 2.0, jagged=0.5)
    reach = np.linalg.norm(mesh.vertices, axis=1)
    assert reach.max() == pytest.approx(2.0)
    assert 0.3 < reach.min() < 1.8


def test_terrain_lies_within_its_ranges():
    mesh = terrain(np.random.default_rng(0), (-4, 6), (1, 12), relief=0.8, hills=8)
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    assert low[0] >= -4
    assert high[0] <= 6
    assert low[2] == pytest.approx(1)
    assert high[2] == pytest.approx(12)
    assert low[1] >= -0.4 - 1e-9
    assert high[1] <= 0.4 + 1e-9
    assert high[1] - low[1] > 0.4
    assert mesh.normals is not None
    assert (mesh.normals[:, 1] < 0).all()  # up


@pytest.mark.parametrize("name", ["box", "plane", "terrain", "rod", "tubes", "sheet", "cylinder"])
def test_texture_coordinates_are_metres_along_the_surface(name):
    """Edges are about as long in texture coordinates as in space."""
    mesh = ALL[name](np.random.default_rng(2))
    edge = mesh.faces[:, [0, 1]]
    space = np.linalg.norm(np.diff(mesh.vertices[edge], axis=1)[:, 0], axis=1)
    texture = np.linalg.norm(np.diff(mesh.uv[edge].astype(float), axis=1)[:, 0], axis=1)
    ratio = texture[space > 1e-9] / space[space > 1e-9]
    assert 0.6 < np.median(ratio) < 1.4


@pytest.mark.parametrize(
    "maker", [furniture.chair, furniture.person, growth.fish, things.reef_thing, things.small_thing]
)
def test_sizes_scale(maker):
    def extent(size: float) -> float:
        made = maker(np.random.default_rng(3), size)
        meshes = [made] if isinstance(made, Mesh) else [mesh for mesh, _ in made]
        return float(np.ptp(np.concatenate([mesh.vertices for mesh in meshes]), axis=0).max())

    assert extent(2.0) == pytest.approx(2 * extent(1.0), rel=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_things_stand_on_the_ground_and_float_about_the_origin(seed):
    small = things.small_thing(np.random.default_rng(seed), 0.5)
    lowest = max(mesh.vertices[:, 1].max() for mesh, _ in small)
    assert -0.02 < lowest < 0.12
    floating = things.floating_thing(np.random.default_rng(seed), 0.5)
    corners = np.concatenate([mesh.vertices for mesh, _ in floating])
    assert np.linalg.norm(corners, axis=1).max() <= 0.25 + 1e-9


def test_standing_puts_the_lowest_point_on_the_ground():
    mesh = standing(moved(box(1, 2, 3), translation=(5, 6, 7)))
    np.testing.assert_allclose(mesh.vertices.min(axis=0), (-0.5, -2, -1.5))
    np.testing.assert_allclose(mesh.vertices.max(axis=0), (0.5, 0, 1.5))


def test_moved_scales_turns_and_shifts_in_this_order():
    mesh = moved(sphere(1.0), rotation=yaw(0.5 * math.pi), translation=(1, 2, 3), scale=2.0)
    source = sphere(1.0)
    x, y, z = source.vertices.T
    np.testing.assert_allclose(mesh.vertices, np.stack([2 * z + 1, 2 * y + 2, -2 * x + 3], axis=1), atol=1e-12)
    assert mesh.normals is not None
    np.testing.assert_allclose(mesh.normals, (mesh.vertices - (1, 2, 3)) / 2, atol=0.1)


def test_stretched_normals_stay_across_the_surface():
    mesh = stretched(sphere(1.0, rings=32), (1.0, 0.5, 2.0))
    assert mesh.normals is not None
    gradient = mesh.vertices / np.square([1.0, 0.5, 2.0])  # of the ellipsoid's equation
    gradient /= np.linalg.norm(gradient, axis=1, keepdims=True)
    assert ((gradient * mesh.normals).sum(axis=1) > 0.995).all()


def test_joined_keeps_all_faces_and_the_flat_look():
    both = joined([box(1, 1, 1), sphere(1.0, rings=8)])
    assert len(both.faces) == 12 + len(sphere(1.0, rings=8).faces)
    assert both.normals is not None
    assert_valid(both)
    np.testing.assert_array_equal(np.sort(np.abs(both.normals[:36]), axis=1), np.tile([0, 0, 1], (36, 1)))


def test_with_uv_turns_scales_and_shifts():
    mesh = with_uv(plane(1.0, 1.0), repeats=3.0, turn=0.5 * math.pi, shift=(0.25, 0.5))
    u, v = plane(1.0, 1.0).uv.T
    np.testing.assert_allclose(mesh.uv, np.stack([-3 * v + 0.25, 3 * u + 0.5], axis=1), atol=1e-6)


def test_box_mapping_is_undistorted_on_the_sides_of_a_box():
    source = box(1.0, 2.0, 3.0)
    mesh = box_mapped(source.vertices, source.faces)
    corner, uv = mesh.vertices[mesh.faces], mesh.uv[mesh.faces].astype(float)
    for a, b in ((0, 1), (1, 2), (2, 0)):
        space = np.linalg.norm(corner[:, a] - corner[:, b], axis=1)
        np.testing.assert_allclose(np.linalg.norm(uv[:, a] - uv[:, b], axis=1), space, rtol=1e-6)


def test_fan_covers_the_polygon():
    contour = np.column_stack([STAR, np.zeros(10)])
    mesh = fan(contour, STAR)
    corner = mesh.vertices[mesh.faces]
    area = np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1).sum() / 2
    assert area == pytest.approx(0.5 * 10 * 0.5 * math.sin(math.pi / 5))


@pytest.mark.parametrize("turn", [yaw(0.3), pitch(0.4), roll(0.5), random_rotation(np.random.default_rng(0))])
def test_rotations_are_proper(turn):
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(turn) == pytest.approx(1)


def assert_valid(mesh: Mesh) -> None:
    count = len(mesh.vertices)
    assert mesh.vertices.dtype == np.float64
    assert mesh.faces.dtype == np.int32
    assert mesh.uv.dtype == np.float32
    assert mesh.uv.shape == (count, 2)
    assert len(mesh.faces) > 0
    assert np.isfinite(mesh.vertices).all()
    assert np.isfinite(mesh.uv).all()
    assert np.abs(mesh.uv).max() < 100
    assert mesh.faces.min() >= 0
    assert mesh.faces.max() < count
    corner = mesh.vertices[mesh.faces]
    area = np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
    assert area.min() > 0
    if mesh.normals is not None:
        assert mesh.normals.dtype == np.float32
        assert mesh.normals.shape == (count, 3)
        np.testing.assert_allclose(np.linalg.norm(mesh.normals, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_the_background_shows_through_the_holes_of_a_board(seed):
    """Its faces do not overlap, so what is missing of the whole area is open; between holes it is unbroken."""
    mesh = openwork.perforated(np.random.default_rng(seed), 1.2, 0.8)
    a, b, c = mesh.vertices[mesh.faces].transpose(1, 0, 2)
    covered = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2 / (1.2 * 0.8)
    assert 0.25 < covered < 0.92
    np.testing.assert_allclose(np.ptp(mesh.vertices, axis=0), (1.2, 0.8, 0), atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_there_are_gaps_between_slats(seed):
    """What the boards' front sides leave of the whole area is open, but for the battens behind."""
    mesh = openwork.slats(np.random.default_rng(seed), 1.2, 0.8)
    corners = mesh.vertices[mesh.faces]
    a, b, c = corners[(corners[..., 2] < mesh.vertices[:, 2].min() + 1e-9).all(axis=1)].transpose(1, 0, 2)
    assert 0.35 < np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2 / (1.2 * 0.8) < 0.9


def test_some_cars_have_clear_windows_and_some_dark_ones():
    seen = {use for seed in range(30) for _, use in things.car_thing(np.random.default_rng(seed), 4.2)}
    assert seen >= {"paint", "dark", "glass", "any"}
