import dataclasses

import numpy as np
import pytest
from tests.synthesis.seastereo.fake_blender import CUBE
from tests.synthesis.seastereo.scene_checks import clearance, problems_of

from linstereo.errors import InputError
from linstereo.synthesis.seastereo.assets import AssetLibrary
from linstereo.synthesis.seastereo.plan import FRAMES, all_configurations
from linstereo.synthesis.seastereo.scene import build_scene
from linstereo.synthesis.seastereo.terrain import Terrain


def one_of_each_trajectory(seed):
    configurations = all_configurations(seed)
    return [configurations[144 * k + (37 * seed + 11 * k) % 144] for k in range(7)]


@pytest.fixture(scope="module")
def scenes():
    return [build_scene(configuration, AssetLibrary()) for configuration in one_of_each_trajectory(0)]


def test_three_to_five_objects_and_all_kinds_of_scenery(scenes):
    for scene in scenes:
        roles = [thing.role for thing in scene.things]
        assert 3 <= roles.count("object") <= 5
        assert {"rock", "coral", "seaweed", "fish", "wreck"} <= set(roles)


def test_boxes_are_those_of_the_meshes(scenes):
    for thing in scenes[0].things:
        points = np.concatenate([part.vertices for part in thing.parts])
        np.testing.assert_allclose(points.min(axis=0), thing.box.low, atol=1e-9)
        np.testing.assert_allclose(points.max(axis=0), thing.box.high, atol=1e-9)


def test_cameras_and_objects_keep_apart_in_all_frames(scenes):
    """On every trajectory, with the bundled things; `scene_checks` run as a program does so for whole plans."""
    for scene in scenes:
        assert problems_of(scene) == [], scene.configuration.name


@pytest.fixture(scope="module")
def plain_library(tmp_path_factory):
    """Meshes that take no time to make, instead of the bundled scenery."""
    folder = tmp_path_factory.mktemp("scenery")
    for kind in ("rock", "coral", "seaweed", "fish", "wreck"):
        (folder / kind).mkdir()
        (folder / kind / "block.obj").write_text(CUBE)
    return AssetLibrary(None, str(folder), only=True)


def test_cameras_and_objects_keep_apart_in_every_camera_and_iteration(plain_library):
    """All trajectories x focal lengths x baselines x iterations, of several seeds and all waters."""
    plans, seen = [all_configurations(seed) for seed in range(5)], set()
    for number, (trajectory, lens, rig, iteration) in enumerate(np.ndindex(7, 2, 2, 3)):
        index = (((trajectory * 2 + lens) * 2 + rig) * 12 + (5 * number) % 12) * 3 + iteration
        configuration = plans[number % len(plans)][index]
        seen.add((configuration.trajectory, configuration.focal_mm, configuration.baseline_mm, configuration.iteration))
        assert problems_of(build_scene(configuration, plain_library)) == [], configuration
    assert len(seen) == 84


def test_what_is_wrong_with_a_scene_is_found(scenes):
    scene = scenes[0]
    things = {thing.role: thing for thing in scene.things}
    chair, rock = things["object"], things["rock"]

    def found(**change):
        return problems_of(dataclasses.replace(scene, **change))

    place = scene.path.right[FRAMES - 1, :3, 3]
    middle = (rock.box.low + rock.box.high) / 2
    late = dataclasses.replace(rock, velocity=(place - middle) / (FRAMES - 1), parts=())
    assert any("right camera is" in problem for problem in found(things=(*scene.things, late)))
    twin = dataclasses.replace(chair, box=chair.box.moved(np.array([0.05, 0.0, 0.0])), parts=())
    assert any("overlap" in problem for problem in found(things=(*scene.things, twin)))
    small = dataclasses.replace(rock, box=rock.box.moved(np.array([0.0, 0.0, 0.1])))
    assert any("larger than its box" in problem for problem in found(things=(*scene.things, small)))
    hill = np.array([[4.0, 0.0, 0.0, np.pi / 2]])  # a wave without end: 4 m higher everywhere
    assert any("from the floor" in problem for problem in found(terrain=Terrain(hill, scene.terrain.ripples)))


def test_clearance_is_the_height_above_a_flat_floor(scenes):
    flat = dataclasses.replace(scenes[0], terrain=Terrain(np.zeros((1, 4)), np.zeros((1, 4))))
    height = np.minimum(flat.path.places[:, 2], 99)
    near = height < 2
    np.testing.assert_allclose(clearance(flat)[near], height[near], atol=1e-9)


def test_poses_are_rotations_and_the_right_camera_is_a_baseline_to_the_right(scenes):
    for scene in scenes:
        turns = scene.path.left[:, :3, :3]
        np.testing.assert_allclose(turns @ turns.transpose(0, 2, 1), np.broadcast_to(np.eye(3), turns.shape), atol=1e-9)
        np.testing.assert_allclose(np.linalg.det(turns), 1)
        np.testing.assert_allclose(turns[:, 2, 0], 0, atol=1e-9)  # level
        assert (turns[:, 2, 1] < 0).all()  # y down
        apart = np.einsum("fji,fj->fi", turns, scene.path.right[:, :3, 3] - scene.path.left[:, :3, 3])
        np.testing.assert_allclose(apart, np.broadcast_to([scene.configuration.baseline, 0, 0], apart.shape), atol=1e-9)


def test_objects_are_in_view_at_some_time(scenes):
    for scene in scenes:
        seen = 0
        for thing in scene.things:
            if thing.role != "object":
                continue
            middle = (thing.box.low + thing.box.high) / 2
            local = np.einsum("fji,fj->fi", scene.path.left[:, :3, :3], middle - scene.path.left[:, :3, 3])
            reach = 18 / scene.configuration.focal_mm
            seen += bool(((local[:, 2] > 0) & (np.abs(local[:, 0]) < reach * local[:, 2])).any())
        assert seen >= 2


def test_the_same_configuration_is_the_same_scene(scenes):
    again = build_scene(scenes[2].configuration, AssetLibrary())
    np.testing.assert_array_equal(again.path.left, scenes[2].path.left)
    assert len(again.things) == len(scenes[2].things)
    for one, two in zip(again.things, scenes[2].things, strict=True):
        assert one.name == two.name
        for a, b in zip(one.parts, two.parts, strict=True):
            np.testing.assert_array_equal(a.vertices, b.vertices)
            assert a.look == b.look


def test_other_configurations_and_seeds_are_other_scenes(scenes):
    other = build_scene(all_configurations(1)[scenes[0].configuration.index], AssetLibrary())
    assert [t.name for t in other.things] != [t.name for t in scenes[0].things]


def test_meshes_of_the_user(tmp_path):
    model = tmp_path / "objects" / "03001627" / "abc" / "models"
    model.mkdir(parents=True)
    (model / "model_normalized.obj").write_text(CUBE)
    (model / "model_normalized.solid.obj").write_text("nothing")
    (tmp_path / "scenery" / "rock").mkdir(parents=True)
    (tmp_path / "scenery" / "rock" / "stone.obj").write_text(CUBE)
    library = AssetLibrary(str(tmp_path / "objects"), str(tmp_path / "scenery"), only=True)
    scene = build_scene(all_configurations(0)[5], library)
    objects = [thing for thing in scene.things if thing.role == "object"]
    rocks = [thing for thing in scene.things if thing.role == "rock"]
    assert all(thing.file == (model / "model_normalized.obj").absolute() for thing in objects)
    assert rocks
    assert all(thing.file is not None for thing in rocks)
    corners = np.array([[x, y, z, 1] for x in (0, 1) for y in (0, 2) for z in (0, 1)])
    for thing in objects:
        points = (corners @ thing.matrix.T)[:, :3]
        np.testing.assert_allclose(points.min(axis=0), thing.box.low, atol=1e-9)
        np.testing.assert_allclose(points.max(axis=0), thing.box.high, atol=1e-9)
        assert np.linalg.det(thing.matrix[:3, :3]) > 0
    assert not library.broken


def test_broken_meshes_are_named_and_passed_over(tmp_path):
    (tmp_path / "good.obj").write_text(CUBE)
    (tmp_path / "points.obj").write_text("v 0 0 0\nv 1 1 1\nv 0 1 0\n")
    (tmp_path / "torn.glb").write_bytes(b"glTF\x02\0\0\0")
    library = AssetLibrary(str(tmp_path))
    for index in range(0, 60, 6):
        library.foreground.draw(np.random.default_rng(index))
    assert {path.name for path in library.broken} == {"points.obj", "torn.glb"}
    assert all(str(path) in reason for path, reason in library.broken.items())


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda folder: AssetLibrary(str(folder / "none")), "does not exist"),
        (lambda folder: AssetLibrary(str(folder)), "holds no mesh"),
        (lambda folder: AssetLibrary(None, str(folder)), "none of the folders"),
        (lambda folder: AssetLibrary(None, str(folder / "none")), "does not exist"),
    ],
)
def test_folders_without_meshes_are_told(tmp_path, make, told):
    with pytest.raises(InputError, match=told):
        make(tmp_path)


def test_a_folder_of_broken_meshes_is_told(tmp_path):
    (tmp_path / "points.obj").write_text("v 0 0 0\n")
    with pytest.raises(InputError, match="none of the 1 meshes"):
        build_scene(all_configurations(0)[0], AssetLibrary(str(tmp_path)))
