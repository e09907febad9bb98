"""Views: light, shadow, lamps, transparency and smooth edges do what they say."""

import dataclasses

import numpy as np
import pytest
from tests.synthesis.small_scenes import (
    DARK,
    DAY,
    WHITE,
    cluttered,
    grey,
    nearest_hits,
    pixel_rays,
    quad,
    scene,
    smooth_texture,
    sphere,
    triangles,
    wall,
)

from linstereo.errors import InputError
from linstereo.synthesis.raycast import RayCaster
from linstereo.synthesis.render import render_view, textures_of
from linstereo.synthesis.scene import Lamp, Lighting, Material, Mesh, SceneObject
from linstereo.synthesis.shading import SKY_FROM_BELOW

SKY = SceneObject(wall(20), Material(grey(200), shaded=False))
GREY_200 = 0.5775804404296506  # linear light of sRGB 200 / 255


def view_of(item, side="left", **options):
    caster = RayCaster(item.objects)
    palette, atlas = textures_of(item)
    return render_view(item, caster, palette, atlas, side, **options)


def light_on(direction, colour=(1.0, 1.0, 1.0), ambient=(0.0, 0.0, 0.0), shadows=True):
    unit = np.asarray(direction, np.float64) / np.linalg.norm(direction)
    return Lighting(tuple(unit), colour, ambient, shadows=shadows)


def test_geometry_of_a_view():
    item = cluttered()
    view = view_of(item)
    rays = pixel_rays(item)
    depth, _ = nearest_hits(triangles(item)[0], (0, 0, 0), rays)
    points = rays * depth[:, None]
    np.testing.assert_allclose(view.depth.ravel(), depth, rtol=1e-12)
    np.testing.assert_allclose(view.point.reshape(-1, 3), points, atol=1e-5)
    np.testing.assert_allclose(view.distance.ravel(), np.linalg.norm(points, axis=1), rtol=1e-6)
    assert not view.lamp.any()
    assert not view.lamp_distance.any()


def test_points_of_the_right_view_are_in_the_left_cameras_frame():
    item = scene(SceneObject(wall(5), Material(WHITE)))
    view = view_of(item, "right")
    camera = np.array([item.rig.calibration.baseline, 0, 0])
    np.testing.assert_allclose(view.point.reshape(-1, 3) - camera, 5 * pixel_rays(item), atol=1e-5)


def test_smooth_edges_leave_the_geometry_alone():
    item = cluttered()
    plain, smooth = view_of(item, antialias=False), view_of(item)
    for name in ("depth", "distance", "point", "face", "lamp_distance"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(smooth, name))
    changed = (plain.sun != smooth.sun).any(axis=2)
    assert 0.02 < changed.mean() < 0.5


def test_smooth_edges_are_nearer_to_the_mean_over_the_pixel():
    item = cluttered(lighting=Lighting((0, -1, 0), (0, 0, 0), (1, 1, 1)))
    times = 9
    calibration = item.rig.calibration
    fine = dataclasses.replace(
        item.rig,
        height=item.rig.height * times,
        width=item.rig.width * times,
        calibration=calibration.scaled(times, times),
    )
    many = view_of(dataclasses.replace(item, rig=fine), antialias=False).sun
    mean = many.reshape(item.rig.height, times, item.rig.width, times, 3).mean(axis=(1, 3))
    plain, smooth = (view_of(item, antialias=a).sun for a in (False, True))
    edges = (plain != smooth).any(axis=2)
    error, before = (np.abs(image - mean)[edges].mean() for image in (smooth, plain))
    assert error < 0.6 * before


def test_matt_surface_in_sun_and_sky():
    """Radiance = albedo * (sun * cosine + sky), by the book, on a plane facing up and towards the camera."""
    normal = np.array([0, -0.6, -0.8])
    plane = quad((-40, 40, -10), (80, 0, 0), (0, -64, 48))
    material = Material(grey(200), tint=(1.0, 0.5, 0.25))
    item = scene(SceneObject(plane, material), lighting=light_on((0.3, -1, -0.5), (0.7, 0.6, 0.5), (0.2, 0.3, 0.4)))
    cosine = normal @ item.lighting.sun_direction
    sky = (1 + SKY_FROM_BELOW) / 2 + (1 - SKY_FROM_BELOW) / 2 * 0.6
    expected = (
        GREY_200 * np.array(material.tint) * (np.array([0.7, 0.6, 0.5]) * cosine + sky * np.array([0.2, 0.3, 0.4]))
    )
    np.testing.assert_allclose(view_of(item).sun, np.broadcast_to(expected, (60, 100, 3)), rtol=2e-4)


def test_surfaces_that_shine_by_themselves_take_no_light():
    item = scene(SKY, lighting=dataclasses.replace(DAY, lamps=(Lamp((0, 0, 0), (5, 5, 5)),)))
    view = view_of(item)
    np.testing.assert_allclose(view.sun, GREY_200, rtol=2e-4)
    assert not view.lamp.any()


def floor_under_a_plate(**light):
    floor = SceneObject(quad((-20, 1, -5), (40, 0, 0), (0, 0, 60)), Material(WHITE))
    plate = SceneObject(quad((-0.5, 0, 3), (1, 0, 0), (0, 0, 1)), Material(WHITE))
    return scene(floor, plate, SKY, lighting=light_on((0.3, -1, 0.2), ambient=(0.1, 0.1, 0.1), **light))


def test_shadow_lies_where_the_sun_cannot_be_seen():
    item = floor_under_a_plate()
    caster = RayCaster(item.objects)
    view = view_of(item, antialias=False)
    on_floor = (caster.object_of_face[view.face] == 0).ravel()
    points = view.point.reshape(-1, 3)[on_floor].astype(np.float64) - (0, 1e-4, 0)
    sun = np.array(item.lighting.sun_direction)
    blocked, _ = nearest_hits(triangles(item)[0], points, np.broadcast_to(sun, points.shape))
    expected = np.where(np.isfinite(blocked), 0.1, 0.1 + -sun[1])
    assert 20 < np.isfinite(blocked).sum() < len(points) / 2
    np.testing.assert_allclose(view.sun.reshape(-1, 3)[on_floor][:, 0], expected, rtol=1e-3)


def test_shadows_can_be_switched_off():
    item = floor_under_a_plate(shadows=False)
    caster = RayCaster(item.objects)
    view = view_of(item, antialias=False)
    lit = view.sun[caster.object_of_face[view.face] == 0]
    np.testing.assert_allclose(lit, 0.1 - item.lighting.sun_direction[1], rtol=1e-3)


def test_lit_side_of_a_ball_has_no_specks_of_its_own_shadow():
    ball = SceneObject(sphere((0, 0, 3), 0.8, 64), Material(WHITE))
    with_shadow = scene(ball, SKY, lighting=light_on((0.2, -0.5, -1)))
    without = dataclasses.replace(with_shadow, lighting=dataclasses.replace(with_shadow.lighting, shadows=False))
    one, two = (view_of(item, antialias=False).sun for item in (with_shadow, without))
    lit = two[..., 0] > 0.15  # nearer to the terminator the flat faces do throw shadows on each other
    np.testing.assert_array_equal(one[lit], two[lit])


def test_lamp_falls_off_with_the_square_of_the_distance():
    lamps = Lamp((0.5, -0.3, 0.2), (3.0, 2.0, 1.0)), Lamp((-1.0, 0.0, 0.0), (0.5, 0.5, 0.5))
    item = scene(SceneObject(wall(4), Material(grey(200))), lighting=dataclasses.replace(DARK, lamps=lamps))
    view = view_of(item)
    points = 4 * pixel_rays(item)
    expected, nearest = np.zeros_like(points), np.full(len(points), np.inf)
    for lamp in lamps:
        offset = np.array(lamp.position) - points
        distance = np.linalg.norm(offset, axis=1)
        expected += GREY_200 * np.array(lamp.colour) * (-offset[:, 2] / distance**3)[:, None]
        nearest = np.minimum(nearest, distance)
    np.testing.assert_allclose(view.lamp.reshape(-1, 3), expected, rtol=1e-3)
    np.testing.assert_allclose(view.lamp_distance.ravel(), nearest, rtol=1e-5)
    assert not view.sun.any()


@pytest.mark.parametrize("source", ["sun", "lamp"])
def test_highlight_is_where_the_mirror_image_of_the_light_is(source):
    shiny = SceneObject(wall(4), Material(grey(0), specular=0.6, shininess=60))
    position = np.array([0.5, -0.4, 0.0])
    if source == "sun":
        lighting = light_on((0.25, -0.2, -1))
        middle = np.array([0.25, -0.2, 1.0])  # the ray that the wall reflects towards the sun
        peak = 0.6
    else:
        lighting = dataclasses.replace(DARK, lamps=(Lamp(tuple(position), (2, 2, 2)),))
        middle = np.array([0.25, -0.2, 4.0])  # half way, as camera and lamp are both 4 m before the wall
        peak = 0.6 * 2 / (4**2 + 0.25**2 + 0.2**2)
    item = scene(shiny, lighting=lighting)
    image = getattr(view_of(item), source)[..., 0]
    row, column = np.unravel_index(image.argmax(), image.shape)
    calibration = item.rig.calibration
    assert column == pytest.approx(calibration.cx + calibration.focal * middle[0] / middle[2], abs=1)
    assert row == pytest.approx(calibration.cy + calibration.focal * middle[1] / middle[2], abs=1)
    assert image.max() == pytest.approx(peak, rel=0.02)
    assert image.min() < 0.2 * peak


def test_transparent_surface_mixes_with_what_is_behind():
    glass = SceneObject(
        quad((-50, -50, 3), (100, 0, 0), (0, 100, 0)), Material(grey(100), shaded=False, transparency=0.7)
    )
    pane = SceneObject(
        quad((-50, -50, 6), (100, 0, 0), (0, 100, 0)), Material(grey(255), shaded=False, transparency=0.4)
    )
    view = view_of(scene(SKY, pane, glass))
    front = 0.12743768043564743  # linear light of sRGB 100 / 255
    np.testing.assert_allclose(view.sun, 0.3 * front + 0.7 * (0.6 * 1.0 + 0.4 * GREY_200), rtol=1e-3)
    np.testing.assert_allclose(view.depth, 3.0)


def test_nothing_is_transparent_if_wanted():
    glass = SceneObject(
        quad((-50, -50, 3), (100, 0, 0), (0, 100, 0)), Material(grey(200), shaded=False, transparency=0.7)
    )
    item = scene(SceneObject(wall(9), Material(grey(0))), glass)
    palette, atlas = textures_of(item, opaque=True)
    view = render_view(item, RayCaster(item.objects), palette, atlas, "left")
    np.testing.assert_allclose(view.sun, GREY_200, rtol=1e-3)


def test_textures_are_drawn_at_their_texture_coordinates():
    texture = smooth_texture(5, 64)
    mesh = quad((-4, -4, 4), (8, 0, 0), (0, 8, 0), uv_scale=2)
    item = scene(SceneObject(mesh, Material(texture, shaded=False)))
    points = 4 * pixel_rays(item)
    u, v = ((points[:, axis] + 4) / 8 * 2 * 64 - 0.5 for axis in (0, 1))
    value = texture / 255.0
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    column, row = np.floor(u).astype(int), np.floor(v).astype(int)
    expected = np.zeros((len(u), 3))
    for dx in (0, 1):
        for dy in (0, 1):
            weight = np.abs(1 - dx - (u - column)) * np.abs(1 - dy - (v - row))
            expected += weight[:, None] * linear[(row + dy) % 64, (column + dx) % 64]
    np.testing.assert_allclose(view_of(item).sun.reshape(-1, 3), expected, atol=2e-3)


@pytest.mark.parametrize("side", ["left", "right"])
def test_an_open_scene_is_refused(side):
    item = scene(SceneObject(quad((-1, -9, 4), (9, 0, 0), (0, 18, 0)), Material(WHITE)))
    with pytest.raises(InputError, match=rf"open: the {side} camera's ray through column 0, row 0"):
        view_of(item, side)


def test_objects_that_share_a_texture_share_its_place_in_the_atlas():
    texture = smooth_texture(1, 64)
    mesh = wall(9)
    objects = [SceneObject(Mesh(mesh.vertices, mesh.faces, mesh.uv), Material(texture)) for _ in range(3)]
    palette, _ = textures_of(scene(*objects, SKY))
    assert len(palette.textures) == 2
    assert palette.texture.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("instead", ["nothing", "what is behind"])
def test_rays_that_slip_through_between_faces_are_found_out(monkeypatch, instead):
    """Single rays that miss what is before them, as Embree's single precision lets happen."""
    item = cluttered()
    expected = view_of(item)
    caster = RayCaster(item.objects)
    behind = int(np.flatnonzero(caster.object_of_face == 0)[0])
    wall_face = -1 if instead == "nothing" else behind
    columns, rows = np.array([11, 40, 41, 77, 99]), np.array([0, 20, 45, 33, 59])
    before = (caster.object_of_face[expected.face[rows, columns]] != 0).sum()
    assert before >= 3
    slipping = pixel_rays(item).reshape(60, 100, 3)[rows, columns].astype(np.float32)
    cast = RayCaster.first_faces

    def slip(self, origins, directions):
        face = cast(self, origins, directions)
        for ray in slipping:
            face[(directions == ray).all(axis=1)] = wall_face
        return face

    monkeypatch.setattr(RayCaster, "first_faces", slip)
    found = view_of(item)
    np.testing.assert_array_equal(found.depth, expected.depth)
    np.testing.assert_array_equal(found.sun, expected.sun)
