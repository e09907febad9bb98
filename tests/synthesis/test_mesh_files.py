"""Meshes from a folder."""

import numpy as np
import pytest

from linstereo.errors import InputError
from linstereo.synthesis.mesh_files import MAX_FACES, MAX_PARTS, MeshFolder, read_parts
from linstereo.synthesis.scene import Mesh
from linstereo.synthesis.things import FILE_USES, file_thing

trimesh = pytest.importorskip("trimesh")


def read_mesh(path) -> Mesh:
    """The mesh of a file of one material."""
    (mesh,) = read_parts(path)
    return mesh


@pytest.fixture
def tall():
    """A box 1 x 4 x 2 with its top marked: a mesh with y up and nothing in its middle."""
    return trimesh.creation.box((1.0, 4.0, 2.0))


@pytest.mark.parametrize("suffix", ["obj", "glb", "stl", "ply", "off"])
def test_every_format_comes_centred_with_unit_size(tmp_path, tall, suffix):
    tall.apply_translation((10, 20, 30))
    path = tmp_path / f"mesh.{suffix}"
    tall.export(path)
    mesh = read_mesh(path)
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    np.testing.assert_allclose(low, -high, atol=1e-6)
    assert (high - low).max() == pytest.approx(1)
    assert sorted(high - low) == pytest.approx([0.25, 0.5, 1.0], abs=1e-6)
    assert len(mesh.faces) == 12
    assert np.isfinite(mesh.uv).all()
    solid = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    solid.merge_vertices(merge_tex=True, merge_norm=True)
    assert solid.volume == pytest.approx(0.125, rel=1e-4)  # positive: not mirrored


@pytest.mark.parametrize(("suffix", "axis"), [("obj", 1), ("glb", 1), ("stl", 2), ("ply", 2)])
def test_the_upper_side_points_up(tmp_path, suffix, axis):
    """The apex of a cone along the format's upward axis ends at negative y."""
    cone = trimesh.creation.cone(radius=0.4, height=1.0)  # along z
    if axis == 1:
        cone.apply_transform(trimesh.transformations.rotation_matrix(-np.pi / 2, (1, 0, 0)))
    path = tmp_path / f"cone.{suffix}"
    cone.export(path)
    mesh = read_mesh(path)
    top, bottom = mesh.vertices[:, 1] < -0.499, mesh.vertices[:, 1] > 0.499
    assert np.ptp(mesh.vertices[top], axis=0).max() < 1e-6
    assert np.ptp(mesh.vertices[bottom], axis=0).max() > 0.7


def test_texture_coordinates_of_the_file_are_kept(tmp_path):
    path = tmp_path / "square.obj"
    vertices = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n"
    texture = "vt 0.1 0.2\nvt 0.9 0.2\nvt 0.9 0.7\nvt 0.1 0.7\n"
    path.write_text(vertices + texture + "f 1/1 2/2 3/3\nf 1/1 3/3 4/4\n")
    mesh = read_mesh(path)
    assert mesh.uv.min(axis=0) == pytest.approx([0.1, 0.2])
    assert mesh.uv.max(axis=0) == pytest.approx([0.9, 0.7])
    assert mesh.normals is not None
    np.testing.assert_allclose(np.linalg.norm(mesh.normals, axis=1), 1, atol=1e-5)


def test_meshes_without_texture_coordinates_are_mapped_from_their_box(tmp_path, tall):
    tall.export(tmp_path / "box.stl")
    mesh = read_mesh(tmp_path / "box.stl")
    corner, uv = mesh.vertices[mesh.faces], mesh.uv[mesh.faces].astype(float)
    space = np.linalg.norm(corner[:, 0] - corner[:, 1], axis=1)
    np.testing.assert_allclose(np.linalg.norm(uv[:, 0] - uv[:, 1], axis=1), space, rtol=1e-4)


def several_boxes(count: int):
    """Boxes in a row, each half as high as the one before, as objects of their own."""
    parts = {}
    for i in range(count):
        parts[f"box{i}"] = trimesh.creation.box((1, 0.5**i, 1))
        parts[f"box{i}"].apply_translation((2 * i, 0.5 ** (i + 1), 0))
    return trimesh.Scene(parts)


def test_parts_of_a_scene_stay_apart_and_in_their_places(tmp_path):
    parts = {"a": trimesh.creation.box(), "b": trimesh.creation.icosphere(subdivisions=1)}
    parts["b"].apply_translation((5, 0, 0))
    trimesh.Scene(parts).export(tmp_path / "both.glb")
    box, ball = sorted(read_parts(tmp_path / "both.glb"), key=lambda mesh: len(mesh.faces))
    assert [len(box.faces), len(ball.faces)] == [12, 80]
    assert box.vertices[:, 0].max() < ball.vertices[:, 0].min()
    corners = np.concatenate([box.vertices, ball.vertices])
    np.testing.assert_allclose(corners.max(axis=0), -corners.min(axis=0), atol=1e-2)
    assert np.ptp(corners, axis=0).max() == pytest.approx(1)


def test_materials_of_one_file_are_parts_with_their_own_texture_coordinates(tmp_path):
    (tmp_path / "two.mtl").write_text("newmtl red\nKd 1 0 0\nnewmtl blue\nKd 0 0 1\n")
    vertices = "".join(f"v {x} {y} 0\n" for x, y in ((0, 0), (1, 0), (1, 1), (0, 1), (2, 0), (2, 1)))
    texture = "".join(
        f"vt {u} {v}\n" for u, v in ((0.1, 0.1), (0.4, 0.1), (0.4, 0.3), (0.1, 0.3), (0.8, 0.6), (0.8, 0.9))
    )
    faces = "usemtl red\nf 1/1 2/2 3/3\nf 1/1 3/3 4/4\nusemtl blue\nf 2/2 5/5 6/6\n"
    (tmp_path / "two.obj").write_text("mtllib two.mtl\n" + vertices + texture + faces)
    square, triangle = sorted(read_parts(tmp_path / "two.obj"), key=lambda mesh: -len(mesh.faces))
    assert [len(square.faces), len(triangle.faces)] == [2, 1]
    assert square.uv.max(axis=0) == pytest.approx([0.4, 0.3])
    assert triangle.uv.max(axis=0) == pytest.approx([0.8, 0.9])


def test_the_smallest_of_many_parts_are_joined(tmp_path):
    count = MAX_PARTS + 3
    several_boxes(count).export(tmp_path / "row.glb")
    parts = read_parts(tmp_path / "row.glb")
    assert sorted(len(part.faces) for part in parts) == [12] * (MAX_PARTS - 1) + [12 * (count - MAX_PARTS + 1)]
    joined = max(parts, key=lambda part: len(part.faces))
    others = max(part.vertices[:, 0].max() for part in parts if part is not joined)
    assert joined.vertices[:, 0].min() > others  # the smallest boxes stand at the end of the row


def test_parts_of_large_meshes_stay_apart(tmp_path):
    parts = {"a": trimesh.creation.icosphere(subdivisions=5), "b": trimesh.creation.icosphere(subdivisions=5)}
    parts["b"].apply_translation((3, 0, 0))
    trimesh.Scene(parts).export(tmp_path / "balls.glb")
    first, second = read_parts(tmp_path / "balls.glb")
    assert len(first.faces) + len(second.faces) <= MAX_FACES
    assert min(first.vertices[:, 0].max(), second.vertices[:, 0].max()) < 0
    for ball in (first, second):
        area = trimesh.Trimesh(ball.vertices, ball.faces, process=False).area
        assert area == pytest.approx(4 * np.pi * 0.2**2, rel=0.1)


def test_things_from_files_stand_on_the_floor_in_one_piece(tmp_path):
    several_boxes(3).export(tmp_path / "row.glb")
    folder = MeshFolder(tmp_path)
    uses = set()
    for seed in range(20):
        thing = file_thing(np.random.default_rng(seed), 2.0, folder)
        assert len(thing) == 3
        uses |= {use for _, use in thing}
        corners = np.concatenate([mesh.vertices for mesh, _ in thing])
        assert corners[:, 1].max() == pytest.approx(0, abs=1e-6)  # y points down
        for mesh, _ in thing:
            assert mesh.vertices[:, 1].max() == pytest.approx(0, abs=1e-2)  # as in the file, all on the floor
        gaps = np.linalg.norm(np.diff([mesh.vertices.mean(axis=0)[[0, 2]] for mesh, _ in thing], axis=0), axis=1)
        np.testing.assert_allclose(gaps, 2 * 2.0 / 5, rtol=1e-3)
    assert uses <= set(FILE_USES)
    assert len(uses) > 3


def test_large_meshes_are_made_coarser(tmp_path):
    ball = trimesh.creation.icosphere(subdivisions=6)
    assert len(ball.faces) > 3 * MAX_FACES
    ball.export(tmp_path / "ball.ply")
    mesh = read_mesh(tmp_path / "ball.ply")
    assert MAX_FACES / 4 < len(mesh.faces) <= MAX_FACES
    reach = np.linalg.norm(mesh.vertices, axis=1)
    assert reach.min() > 0.48
    assert reach.max() < 0.505
    area = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False).area
    assert area == pytest.approx(np.pi, rel=0.1)  # no holes, no double faces


def test_degenerate_faces_are_dropped(tmp_path):
    (tmp_path / "a.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 2 0 0\nf 1 2 3\nf 1 2 4\nf 1 1 2\n")
    assert len(read_mesh(tmp_path / "a.obj").faces) == 1


BROKEN = {
    "empty.obj": b"",
    "points.obj": b"v 0 0 0\nv 1 0 0\n",
    "range.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n",
    "flat.obj": b"v 0 0 0\nv 0 0 0\nv 0 0 0\nf 1 2 3\n",
    "line.obj": b"v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3\n",
    "nan.obj": b"v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n",
    "words.obj": b"v a b c\nf x y z\n",
    "broken.glb": b"glTF\x02\x00\x00\x00 not really",
    "broken.stl": b"\x00" * 50,
    "broken.ply": b"ply\nformat ascii 1.0\nelement vertex 5\nend_header\n1 2\n",
    "broken.off": b"OFF\n3 1 0\n0 0 0\n",
}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_broken_files_are_named_in_one_sentence(tmp_path, name):
    (tmp_path / name).write_bytes(BROKEN[name])
    with pytest.raises(InputError, match=name.replace(".", r"\.")) as caught:
        read_parts(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_cut_off_file_is_named(tmp_path):
    path = tmp_path / "cut.glb"
    trimesh.creation.icosphere().export(path)
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(InputError, match=r"cut\.glb"):
        read_parts(path)


def test_folders_are_searched_recursively_and_shapenet_variants_left_out(tmp_path, tall):
    for synset, model in (("02691156", "aa"), ("02691156", "bb"), ("03001627", "cc")):
        models = tmp_path / synset / model / "models"
        models.mkdir(parents=True)
        tall.export(models / "model_normalized.obj")
        tall.export(models / "model_normalized.solid.ply")
    tall.export(tmp_path / "own.STL", file_type="stl")
    (tmp_path / "readme.txt").write_text("nothing")
    folder = MeshFolder(tmp_path)
    assert len(folder) == 4
    assert sum(path.name == "model_normalized.obj" for path in folder.files) == 3
    for index in range(4):
        (box,) = folder.parts(index)
        assert len(box.faces) == 12


def test_meshes_come_from_memory_the_second_time(tmp_path):
    for index in range(3):
        trimesh.creation.icosphere(subdivisions=index).export(tmp_path / f"{index}.obj")
    folder = MeshFolder(tmp_path, keep=1)
    first = folder.parts(0)
    assert folder.parts(0) is first
    folder.parts(1)
    again = folder.parts(0)
    assert again is not first
    np.testing.assert_array_equal(again[0].vertices, first[0].vertices)

    def faces_of(meshes: MeshFolder) -> list[int]:
        return [len(meshes.random(np.random.default_rng(seed))[0].faces) for seed in range(30)]

    faces = faces_of(folder)
    assert set(faces) == {20, 80, 320}
    assert faces == faces_of(MeshFolder(tmp_path))


def test_missing_and_empty_folders(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        MeshFolder(tmp_path / "nowhere")
    with pytest.raises(InputError, match="holds no mesh"):
        MeshFolder(tmp_path)


def test_a_folder_of_something_else_is_told_at_once(tmp_path):
    (tmp_path / "notes.obj").write_text("no mesh at all")
    with pytest.raises(InputError, match=r"notes\.obj"):
        MeshFolder(tmp_path)
