import itertools

import numpy as np
import pytest

from linstereo.errors import InputError
from linstereo.synthesis.seastereo.assets import AssetLibrary
from linstereo.synthesis.seastereo.plan import FRAMES, all_configurations
from linstereo.synthesis.seastereo.scene import CAMERA_DISTANCE, build_scene
from linstereo.synthesis.seastereo.trajectories import CLEARANCE

CUBE = "".join(f"v {x} {y} {z}\n" for x in (0, 1) for y in (0, 2) for z in (0, 1)) + "f 1 2 4 3\nf 5 6 8 7\nf 1 2 6 5\n"


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


def test_no_box_of_an_object_overlaps_with_any_other(scenes):
    for scene in scenes:
        objects = [thing for thing in scene.things if thing.role == "object"]
        others = [thing for thing in scene.things if thing.role != "object"]
        for one, two in itertools.combinations(objects, 2):
            assert not one.box.overlaps(two.box), (scene.configuration.name, one.name, two.name)
        for one, two in itertools.product(objects, others):
            assert not any(one.box.overlaps(two.box.moved(k * two.velocity)) for k in (0, 20, 39))


def test_cameras_never_enter_the_floor_or_anything(scenes):
    for scene in scenes:
        vertices, _ = scene.terrain.grid()
        for place in scene.path.places:
            near = vertices[np.abs(vertices[:, :2] - place[:2]).max(axis=1) < 0.4]
            assert place[2] - near[:, 2].max() > 0.9 * CLEARANCE
            assert place[2] < scene.configuration.floor_depth
        for thing in scene.things:
            for frame in range(FRAMES):
                places = np.stack([scene.path.left[frame, :3, 3], scene.path.right[frame, :3, 3]])
                distances = thing.box.moved(frame * thing.velocity).distances(places)
                assert distances.min() >= CAMERA_DISTANCE - 1e-9, (scene.configuration.name, thing.name, frame)


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
