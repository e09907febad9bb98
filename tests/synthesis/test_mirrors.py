"""Surfaces that mirror what is around them."""

import dataclasses

import numpy as np
import pytest
from tests.synthesis.small_scenes import DARK, grey, nearest_hits, quad, scene, smooth_texture, sphere, triangles, wall

from linstereo.synthesis.materials import MaterialStock
from linstereo.synthesis.mirrors import reflection
from linstereo.synthesis.raycast import Camera, Faces, RayCaster, cameras_of
from linstereo.synthesis.render import render_view, textures_of
from linstereo.synthesis.scene import Material, Mesh, SceneObject
from linstereo.synthesis.scenes import IN_AIR, UNDER_WATER, random_scene

DEPTH = 6.0
"""Of the mirror across the view."""


def view_of(item, side="left", *, opaque=False):
    caster = RayCaster(item.objects)
    palette, atlas = textures_of(item, opaque=opaque)
    return render_view(item, caster, palette, atlas, side)


def shining(mesh: Mesh, seed: int, *, waves: int = 2) -> SceneObject:
    return SceneObject(mesh, Material(smooth_texture(seed, waves=waves), shaded=False))


def behind_the_mirror(item: SceneObject) -> SceneObject:
    vertices = item.mesh.vertices * (1, 1, -1) + (0, 0, 2 * DEPTH)
    normals = None if item.mesh.normals is None else item.mesh.normals * np.float32([1, 1, -1])
    return dataclasses.replace(item, mesh=Mesh(vertices, item.mesh.faces, item.mesh.uv, normals))


THINGS = (  # all out of sight but for the mirror
    shining(sphere((2.1, 0.3, 3.0), 0.6), 1),
    shining(sphere((-2.3, -0.5, 3.2), 0.7), 2),
    shining(quad((-0.6, 1.5, 2.8), (1.2, 0.1, 0.6), (0.2, 0.5, 0.2)), 3),
)
BACKDROP = SceneObject(wall(30), Material(grey(120), shaded=False))


def mirror_wall(share: float, *, shininess: float = 1e6) -> SceneObject:
    return SceneObject(wall(DEPTH), Material(grey(90), mirror=share, shininess=shininess))


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_perfect_mirror_shows_copies_behind_it(side):
    fine = {"lighting": DARK, "height": 240, "width": 400, "focal": 360.0}
    mirrored = view_of(scene(*THINGS, mirror_wall(1.0), BACKDROP, **fine), side)
    copied_scene = scene(*THINGS, *map(behind_the_mirror, THINGS), BACKDROP, **fine)
    copied = view_of(copied_scene, side)
    sizes = np.cumsum([len(item.mesh.faces) for item in copied_scene.objects])
    on_copies = (copied.face >= sizes[2]) & (copied.face < sizes[5])
    inside = np.zeros_like(on_copies)
    inside[1:-1, 1:-1] = on_copies[1:-1, 1:-1]  # at outlines the two views have other neighbours
    for axis in (0, 1):
        for step in (-1, 1):
            inside &= np.roll(on_copies, step, axis)
    assert inside.mean() > 0.03
    error = np.abs(mirrored.sun - copied.sun)[inside]
    assert np.quantile(error, 0.99) < 0.03  # levels of the textures differ a little where surfaces are slanted
    assert np.ptp(copied.sun[inside], axis=0).min() > 0.1


def test_geometry_is_that_of_the_surface_itself():
    plain, mirror = (view_of(scene(*THINGS, mirror_wall(share), BACKDROP)) for share in (0.0, 0.5))
    for name in ("depth", "distance", "point", "face", "lamp_distance"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(mirror, name))
    assert (plain.sun != mirror.sun).any(axis=2).mean() > 0.3


def test_nothing_mirrors_if_wanted():
    plain, mirror = (view_of(scene(*THINGS, mirror_wall(share), BACKDROP), opaque=True) for share in (0.0, 0.5))
    np.testing.assert_array_equal(plain.sun, mirror.sun)


def test_what_the_scene_does_not_hold_looks_like_the_backdrop():
    """The mirror sees past the camera: a backdrop of one colour, a little brighter upwards."""
    view = view_of(scene(mirror_wall(1.0), BACKDROP, lighting=DARK))
    linear = ((120 / 255 + 0.055) / 1.055) ** 2.4
    height = view.sun.shape[0]
    assert view.sun[height // 2].mean() == pytest.approx(0.75 * linear, rel=0.05)
    assert view.sun[0].mean() > 1.05 * view.sun[-1].mean()


def test_the_share_grows_from_the_straight_to_the_grazing_view():
    item = scene(SceneObject(quad((-50, 1.0, 0.2), (100, 0, 0), (0, 0, 300)), Material(grey(90))), BACKDROP)
    caster, camera = RayCaster(item.objects), cameras_of(item.rig)[0]
    x, y = np.zeros(3), np.array([1e6, 1.0, 1 / 200])  # straight down, at 45 degrees, almost level
    face = np.zeros(3, np.int32)
    below = Faces(caster, camera, caster.used(face)).surface(face, x, y)
    mirror = np.full(3, 0.04, np.float32)
    found = reflection(caster, camera, below, mirror, np.full(3, 1e6, np.float32))
    cosine = np.array([1.0, np.sqrt(0.5), 1 / np.sqrt(1 + 200**2)])
    np.testing.assert_allclose(found.share, 0.04 + 0.96 * (1 - cosine) ** 5, rtol=1e-4)
    np.testing.assert_allclose(found.direction[1, 1:], -cosine[1:], rtol=1e-3)  # y points down, so it goes up again
    assert found.chosen.tolist() == [0, 1, 2]


def test_mirrored_rays_meet_what_brute_force_finds():
    rng = np.random.default_rng(5)
    item = scene(*THINGS, mirror_wall(1.0), BACKDROP)
    caster, camera = RayCaster(item.objects), Camera(0.0, 90.0, 90.0, 50.0, 30.0)
    x, y = rng.uniform(-0.3, 0.3, (2, 900))
    face = caster.seen_faces(camera, x, y)
    surface = Faces(caster, camera, caster.used(face)).surface(face, x, y)
    found = reflection(caster, camera, surface, np.ones(900, np.float32), np.full(900, 1e6, np.float32))
    rays = np.stack([x, y, np.ones(900)], axis=1)
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    normals = surface.normal.T.astype(float)
    mirrored = rays - 2 * (rays * normals).sum(axis=1, keepdims=True) * normals
    np.testing.assert_allclose(found.direction.T, mirrored, atol=1e-5)
    origins = surface.point.T + 1e-3 * normals
    length, which = nearest_hits(triangles(item)[0], origins, mirrored)
    expected = np.flatnonzero(which >= 0)
    both = np.intersect1d(expected, found.met)
    assert len(both) > 40
    assert len(np.union1d(expected, found.met)) - len(both) < 8  # outlines, since the rays start a little higher
    index = np.searchsorted(found.met, both)
    same = found.surface.face[index] == which[both]
    assert same.mean() > 0.97
    points = (origins + length[:, None] * mirrored)[both][same]
    np.testing.assert_allclose(found.surface.point.T[index][same], points, atol=5e-3)
    towards = (found.surface.normal * found.direction[:, found.met]).sum(axis=0)
    assert (towards <= 1e-6).all()


def test_rougher_surfaces_blur_textures():
    fine = shining(quad((-3, -3, 3.0), (6, 0, 0), (0, 6, 0)), 4, waves=20)
    hidden = dataclasses.replace(fine, mesh=Mesh(fine.mesh.vertices * (1, 1, -1), fine.mesh.faces, fine.mesh.uv))
    spreads = []
    for shininess in (1e6, 4.0):
        item = scene(hidden, mirror_wall(1.0, shininess=shininess), BACKDROP, lighting=DARK)
        spreads.append(view_of(item).sun[20:40, 30:70].std())
    assert spreads[1] < 0.7 * spreads[0]


def test_shiny_things_in_air_mirror_in_most_scenes_and_none_under_water():
    def mirrors(kind: str, seed: int) -> np.ndarray:
        item = random_scene(
            np.random.default_rng(seed), height=96, width=192, kind=kind, underwater=kind in UNDER_WATER
        )
        return np.array([thing.material.mirror for thing in item.objects])

    air = [mirrors(kind, seed) for kind in (*IN_AIR, "plain_room") for seed in range(4)]
    assert 0.4 < np.mean([shares.any() for shares in air]) < 0.95
    together = np.concatenate(air)
    assert ((together >= 0) & (together < 0.75)).all()
    assert 0.03 < (together > 0).mean() < 0.6
    assert not any(mirrors(kind, seed).any() for kind in UNDER_WATER for seed in range(3))


def test_mirrors_change_nothing_else_of_a_material():
    with_mirrors = MaterialStock(None, mirrors=np.random.default_rng(1))
    without = MaterialStock(None)
    one, two = np.random.default_rng(2), np.random.default_rng(2)
    shares = []
    for use in ("paint", "dark", "glass", "metal") * 10:
        a, b = with_mirrors.material(one, use), without.material(two, use)
        shares.append(a.mirror)
        assert b.mirror == 0
        assert (a.specular, a.shininess, a.tint) == (b.specular, b.shininess, b.tint)
        np.testing.assert_array_equal(a.texture, b.texture)
    assert 0.3 < np.mean(np.array(shares) > 0) < 0.9
