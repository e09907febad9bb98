"""With the real Blender that `make blender` sets up: tiny frames, and that their geometry is what the plan says."""

import json
import os

import numpy as np
import pytest

from linstereo.errors import InputError
from linstereo.synthesis.seastereo.assets import AssetLibrary
from linstereo.synthesis.seastereo.blender_process import BlenderProcess, MeshRefusedError, find_blender
from linstereo.synthesis.seastereo.description import write_description
from linstereo.synthesis.seastereo.frame import (
    MODE_TOLERANCE,
    SIDES,
    compose,
    exposed_radiance,
    lights_of,
    read_radiance,
)
from linstereo.synthesis.seastereo.light import light_of
from linstereo.synthesis.seastereo.plan import all_configurations
from linstereo.synthesis.seastereo.render import VOLUME_BOUNCES
from linstereo.synthesis.seastereo.scene import build_scene
from linstereo.synthesis.seastereo.verify import disagreement, moved_to_left

HEIGHT, WIDTH = 60, 80
FRAME = 15
CONFIGURATION = next(c for c in all_configurations(0) if c.name == "t3_f24_b120_I_shallow_1")
CUBE = """mtllib cube.mtl
usemtl skin
""" + "".join(f"v {x} {y} {z}\n" for x in (0, 1) for y in (0, 1) for z in (0, 1))
CUBE += "vt 0 0\nvt 1 0\nvt 1 1\n" + "".join(
    f"f {a}/1 {b}/2 {c}/3\nf {a}/1 {c}/3 {d}/2\n"
    for a, b, c, d in ((1, 2, 4, 3), (5, 7, 8, 6), (1, 5, 6, 2), (3, 4, 8, 7), (1, 3, 7, 5), (2, 6, 8, 4))
)


@pytest.fixture(scope="module")
def blender():
    try:
        process = BlenderProcess(find_blender())
    except InputError as error:
        if os.environ.get("LINSTEREO_NEEDS_BLENDER"):
            raise
        pytest.skip(str(error))
    with process:
        yield process


def settings(*lights):
    return {
        "lights": lights,
        "width": WIDTH,
        "height": HEIGHT,
        "samples": 2,
        "threads": 1,
        "gpu": False,
        "denoise": True,
        "seed": 1,
        "volume_bounces": 2,
    }


@pytest.fixture(scope="module")
def rendered(blender, tmp_path_factory):
    """A frame of the sunlit scene: the scene, and what Blender wrote."""
    folder = tmp_path_factory.mktemp("scene")
    scene = build_scene(CONFIGURATION, AssetLibrary())
    write_description(folder, scene)
    assert blender.load(folder, settings("sun")) == []
    blender.render(FRAME, folder)
    return scene, {side: read_radiance(folder, side, ("sun",)) for side in SIDES}


def test_depth_is_planar_and_through_the_middle_of_pixels(rendered):
    """Points of the sea floor, brought back to the scene, lie on it to within what its grid leaves off."""
    scene, seen = rendered
    camera = CONFIGURATION.calibration(height=HEIGHT, width=WIDTH)
    x, y = np.meshgrid((np.arange(WIDTH) - camera.cx) / camera.focal, (np.arange(HEIGHT) - camera.cy) / camera.focal_y)
    for side, poses in (("left", scene.path.left), ("right", scene.path.right)):
        depth = seen[side].depth.astype(np.float64)
        rays = np.stack([x, y, np.ones_like(x)], axis=-1) @ poses[FRAME, :3, :3].T
        points = poses[FRAME, :3, 3] + rays * depth[..., None]
        above = points[..., 2] - scene.terrain.height(points[..., 0], points[..., 1])
        near = (depth > 0) & (depth < 6)
        on_floor = near & (np.abs(above) < 0.05)
        assert on_floor.mean() > 0.15
        assert np.median(np.abs(above[on_floor])) < 0.004
        assert above[near].min() > -0.05
        for thing in scene.things:  # and things are where their boxes are
            inside = ((points > thing.box.low) & (points < thing.box.high)).all(axis=-1) & near
            assert (points[inside, 2] > thing.box.low[2]).all()


def test_both_views_agree(rendered):
    scene, seen = rendered
    views = compose(scene, FRAME, seen, "analytic")
    left, right = views["left"], views["right"]
    off = disagreement(left.disparity.astype(np.float64), right.disparity.astype(np.float64))
    matched = left.valid & ~left.occluded
    assert matched.mean() > 0.4
    assert np.percentile(off[matched], 98) < 0.3
    grey = [view.image.astype(np.float64).mean(axis=-1) for view in (left, right)]
    assert np.median(np.abs(moved_to_left(grey[1], left.disparity.astype(np.float64)) - grey[0])[matched]) < 4
    assert left.image.std() > 4
    assert left.image.mean(axis=(0, 1))[2] > left.image.mean(axis=(0, 1))[0]  # clear water is blue


def test_the_same_frame_is_the_same_again(blender, rendered, tmp_path):
    """In a new scene after another frame, as after a crash."""
    scene, seen = rendered
    write_description(tmp_path, scene)
    blender.load(tmp_path, settings("sun"))
    blender.render(FRAME + 3, tmp_path)
    assert (read_radiance(tmp_path, "left", ("sun",)).depth != seen["left"].depth).any()
    blender.render(FRAME, tmp_path)
    again = read_radiance(tmp_path, "left", ("sun",))
    np.testing.assert_array_equal(again.depth, seen["left"].depth)
    np.testing.assert_array_equal(again.light["sun"], seen["left"].light["sun"])


def test_a_volume_of_water_and_lamps(blender, tmp_path):
    deep = next(c for c in all_configurations(0) if c.name == "t3_f24_b120_II_deep_1")
    scene = build_scene(deep, AssetLibrary())
    write_description(tmp_path, scene)
    blender.load(tmp_path, settings("sun", "lamp"))
    blender.render(FRAME, tmp_path)
    dry = read_radiance(tmp_path, "left", ("sun", "lamp"))
    assert 0.01 < dry.light["lamp"][dry.depth > 0].mean() < 1
    assert dry.light["sun"][dry.depth > 0].mean() > 0.05
    blender.load(tmp_path, settings("volume"))
    blender.render(FRAME, tmp_path)
    wet = read_radiance(tmp_path, "left", ("volume",))
    np.testing.assert_array_equal(wet.depth, dry.depth)  # water does not hide anything from the depth map
    assert wet.light["volume"][wet.depth == 0].mean() > 0  # open water shines by what it scatters
    near = (dry.depth > 0) & (dry.depth < 4)
    colour = wet.light["volume"][near].mean(axis=0)
    plain = (dry.light["sun"] + dry.light["lamp"])[near].mean(axis=0)
    assert 0 < colour[0] / plain[0] < colour[2] / plain[2] < 1  # red goes first


@pytest.mark.parametrize("water", ["3C_shallow", "II_deep"])
def test_the_two_modes_show_the_same_water(blender, tmp_path, water):
    configuration = next(c for c in all_configurations(0) if c.name == f"t2_f24_b120_{water}_1")
    scene = build_scene(configuration, AssetLibrary())
    write_description(tmp_path, scene)
    linear = {}
    for mode, samples in (("analytic", 4), ("volume", 16)):
        lights = lights_of(light_of(configuration, scene.light_rng()), mode)
        blender.load(tmp_path, {**settings(*lights), "samples": samples, "volume_bounces": VOLUME_BOUNCES})
        blender.render(0, tmp_path)
        seen = read_radiance(tmp_path, "left", lights)
        linear[mode] = exposed_radiance(scene, 0, "left", seen, mode)
    for low, high in ((0.0, 3.0), (3.0, 5.0), (5.0, 10.0)):
        there = (seen.depth > low) & (seen.depth <= high)
        assert there.sum() > 100
        means = {mode: values[there].mean(axis=0) for mode, values in linear.items()}
        np.testing.assert_allclose(means["volume"], means["analytic"], rtol=MODE_TOLERANCE, atol=0.002)


def test_meshes_of_the_user_with_a_missing_texture(blender, tmp_path):
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "cube.obj").write_text(CUBE)
    (tmp_path / "objects" / "cube.mtl").write_text("newmtl skin\nKd 0.8 0.2 0.2\nmap_Kd nowhere.png\n")
    scene = build_scene(CONFIGURATION, AssetLibrary(str(tmp_path / "objects")))
    write_description(tmp_path, scene)
    missing = blender.load(tmp_path, settings("sun"))
    assert missing
    assert {mesh for mesh, _ in missing} == {str((tmp_path / "objects" / "cube.obj").absolute())}
    assert all(texture.endswith("nowhere.png") for _, texture in missing)
    blender.render(FRAME, tmp_path)
    seen = read_radiance(tmp_path, "left", ("sun",))
    camera = CONFIGURATION.calibration(height=HEIGHT, width=WIDTH)
    pose = scene.path.left[FRAME]
    found = 0
    for thing in scene.things:
        if thing.role != "object":
            continue
        middle = pose[:3, :3].T @ ((thing.box.low + thing.box.high) / 2 - pose[:3, 3])
        column, row = (camera.focal * middle[:2] / middle[2] + (camera.cx, camera.cy)).round().astype(int)
        if middle[2] > 0 and 0 <= column < WIDTH and 0 <= row < HEIGHT:
            reach = float(np.linalg.norm(thing.box.high - thing.box.low)) / 2
            found += abs(seen.depth[row, column] - middle[2]) < reach
    assert found >= 1  # it stands where its box is


def test_a_scene_graph_of_the_user_stands_where_its_box_is(blender, tmp_path):
    """A .glb file of two nodes, each moved: what Blender places fills the box that was computed without it."""
    trimesh = pytest.importorskip("trimesh")
    graph = trimesh.Scene()
    graph.add_geometry(trimesh.creation.icosphere(subdivisions=2, radius=0.4), transform=moved_by(0, 0.4, 0))
    graph.add_geometry(trimesh.creation.box((0.2, 1.0, 0.2)), transform=moved_by(0.3, 1.2, 0))
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "toy.glb").write_bytes(graph.export(file_type="glb"))
    scene = build_scene(CONFIGURATION, AssetLibrary(str(tmp_path / "objects")))
    assert {thing.name for thing in scene.things if thing.role == "object"} == {"toy"}
    write_description(tmp_path, scene)
    assert blender.load(tmp_path, settings("sun")) == []
    blender.render(FRAME, tmp_path)
    depth = read_radiance(tmp_path, "left", ("sun",)).depth.astype(np.float64)
    camera, pose = CONFIGURATION.calibration(height=HEIGHT, width=WIDTH), scene.path.left[FRAME]
    x, y = np.meshgrid((np.arange(WIDTH) - camera.cx) / camera.focal, (np.arange(HEIGHT) - camera.cy) / camera.focal_y)
    points = pose[:3, 3] + depth[..., None] * (np.stack([x, y, np.ones_like(x)], axis=-1) @ pose[:3, :3].T)
    above = points[..., 2] - scene.terrain.height(points[..., 0], points[..., 1]) > 0.15
    boxes = [thing.box for thing in scene.things]
    near = (depth > 0) & (depth < 8) & above
    inside = np.any([((points > box.low - 0.02) & (points < box.high + 0.02)).all(axis=-1) for box in boxes], axis=0)
    toys = [thing.box for thing in scene.things if thing.role == "object"]
    on_toy = np.any([((points > box.low - 0.02) & (points < box.high + 0.02)).all(axis=-1) for box in toys], axis=0)
    assert (on_toy & near).sum() > 20
    assert inside[near].all()  # nothing that was rendered sticks out of all boxes


def moved_by(x, y, z):
    matrix = np.eye(4)
    matrix[:3, 3] = x, y, z
    return matrix


def test_a_mesh_that_only_blender_refuses_is_named(blender, tmp_path):
    trimesh = pytest.importorskip("trimesh")
    (tmp_path / "objects").mkdir()
    files = trimesh.exchange.gltf.export_gltf(trimesh.Scene(trimesh.creation.box()))
    for name, content in files.items():
        (tmp_path / "objects" / name).write_bytes(content)
    path = tmp_path / "objects" / "model.gltf"
    unknown = ["EXT_nobody_knows"]
    content = {**json.loads(path.read_text()), "extensionsRequired": unknown, "extensionsUsed": unknown}
    path.write_text(json.dumps(content))
    write_description(tmp_path, build_scene(CONFIGURATION, AssetLibrary(str(tmp_path / "objects"))))
    with pytest.raises(MeshRefusedError, match=r"model\.gltf cannot be used by Blender .*EXT_nobody_knows"):
        blender.load(tmp_path, settings("sun"))


def test_without_a_gpu_the_remedy_is_told(blender, rendered, tmp_path):
    write_description(tmp_path, rendered[0])
    try:
        blender.load(tmp_path, {**settings("sun"), "gpu": True})
    except InputError as error:
        assert "render without --gpu" in str(error)  # noqa: PT017  a machine with a GPU raises nothing


def test_what_blender_cannot_read_is_told(blender, tmp_path):
    with pytest.raises(InputError, match="FileNotFoundError"):
        blender.load(tmp_path, settings("sun"))
