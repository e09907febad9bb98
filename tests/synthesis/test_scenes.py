"""Random scenes: closed, within their disparity range, varied, reproducible, small enough."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.synthesis.mesh_files import MeshFolder
from linstereo.synthesis.mesh_tools import moved
from linstereo.synthesis.photos import PhotoFolder
from linstereo.synthesis.scene import Mesh, Scene
from linstereo.synthesis.scene_builder import Shot, nearest_depth
from linstereo.synthesis.scenes import FILLERS, UNDER_WATER, random_scene
from linstereo.synthesis.shapes import plane

HEIGHT, WIDTH = 320, 640
COUNT = 100


@dataclass
class Seen:
    scene: Scene
    left: NDArray[np.float64]
    """Depth in metres along rays of the left camera; NaN where a ray meets nothing."""
    right: NDArray[np.float64]

    def disparity(self, depth: NDArray[np.float64]) -> NDArray[np.float64]:
        calibration = self.scene.rig.calibration
        return calibration.focal * calibration.baseline / depth


class Caster:
    """Depths along random rays of the cameras, by Embree and the plane of the face it names."""

    def __init__(self, scene: Scene) -> None:
        construction = pytest.importorskip("embreex.mesh_construction", reason="needs embreex")
        rtcore = pytest.importorskip("embreex.rtcore_scene", reason="needs embreex")
        self.rig = scene.rig
        self.corners = np.concatenate([item.mesh.vertices[item.mesh.faces] for item in scene.objects])  # [F, 3, 3]
        self.embree = rtcore.EmbreeScene(robust=True)
        self.mesh = construction.TriangleMesh(self.embree, self.corners.astype(np.float32))

    def depths(self, rng: np.random.Generator, *, right: bool = False, rays: int = 600) -> NDArray[np.float64]:
        height, width, calibration = self.rig.height, self.rig.width, self.rig.calibration
        # The image's corners belong to the picture, so they are among the rays.
        edge = np.array([[0, 0], [width - 1, 0], [0, height - 1], [width - 1, height - 1]], np.float64)
        pixels = np.vstack([edge, rng.uniform(-0.5, (width - 0.5, height - 0.5), (rays, 2))])
        at = (pixels - (calibration.cx, calibration.cy)) / calibration.focal
        directions = np.column_stack([at, np.ones(len(pixels))])
        origin = np.array([calibration.baseline if right else 0.0, 0.0, 0.0])
        origins = np.tile(origin, (len(pixels), 1)).astype(np.float32)
        face = np.asarray(self.embree.run(origins, directions.astype(np.float32), query="INTERSECT"))
        hit = self.corners[np.maximum(face, 0)]
        normal = np.cross(hit[:, 1] - hit[:, 0], hit[:, 2] - hit[:, 0])
        depth = ((hit[:, 0] - origin) * normal).sum(axis=1) / (directions * normal).sum(axis=1)
        return np.where(face < 0, np.nan, depth)


@pytest.fixture(scope="module")
def seen() -> list[Seen]:
    result = []
    for index in range(COUNT):
        scene = random_scene(np.random.default_rng((3, index)), height=HEIGHT, width=WIDTH, underwater=index % 5 < 2)
        rays, caster = np.random.default_rng((4, index)), Caster(scene)
        result.append(Seen(scene, caster.depths(rays), caster.depths(rays, right=True)))
    return result


def test_every_ray_of_both_cameras_meets_a_surface_in_front(seen):
    for item in seen:
        for depth in (item.left, item.right):
            assert np.isfinite(depth).all(), item.scene.name
            assert (depth > 0).all()


def test_no_disparity_exceeds_a_third_of_the_width(seen):
    largest = [max(item.disparity(item.left).max(), item.disparity(item.right).max()) for item in seen]
    assert max(largest) <= WIDTH / 3 * 1.0001


def test_largest_disparities_are_spread_over_the_wanted_range(seen):
    share = np.array([item.disparity(item.left).max() for item in seen]) / WIDTH
    assert share.min() < 0.03
    assert share.max() > 0.25
    assert ((share > 0.03) & (share < 0.25)).mean() > 0.6
    # Log-uniform between 2 % and 33 %: its median is 8.2 %.
    assert 0.05 < np.median(share) < 0.12


def test_scenes_reach_the_disparity_that_was_drawn(seen):
    """Few random rays come near the nearest point, but the nearest point is not a speck either."""
    kinds = {item.scene.name for item in seen}
    assert kinds >= {"flying", "room", "tabletop", "road", "reef"}
    spread = [np.percentile(item.disparity(item.left), 95) / item.disparity(item.left).max() for item in seen]
    assert np.median(spread) > 0.55


def test_disparity_ranges_within_scenes_are_wide(seen):
    ratio = np.array([item.disparity(item.left).max() / item.disparity(item.left).min() for item in seen])
    assert np.median(ratio) > 4
    far = np.array([item.disparity(item.left).min() for item in seen])
    assert (far > 0).all()
    assert (far < 1).mean() > 0.25  # sky or open water
    assert (far > 5).mean() > 0.15  # rooms


def test_cameras_are_plausible(seen):
    for item in seen:
        rig = item.scene.rig
        assert (rig.height, rig.width) == (HEIGHT, WIDTH)
        assert 0.6 * WIDTH <= rig.calibration.focal <= 1.6 * WIDTH
        assert 0.05 <= rig.calibration.baseline <= 0.6
        assert np.linalg.norm(item.scene.up) == pytest.approx(1)


def test_scenes_are_small_enough_and_hold_valid_meshes(seen):
    for item in seen:
        objects = item.scene.objects
        assert len(objects) >= 3
        assert sum(len(o.mesh.faces) for o in objects) < 60_000
        for o in objects:
            mesh = o.mesh
            assert np.isfinite(mesh.vertices).all()
            assert np.isfinite(mesh.uv).all()
            assert mesh.uv.shape == (len(mesh.vertices), 2)
            assert mesh.faces.min() >= 0
            assert mesh.faces.max() < len(mesh.vertices)


def test_lighting_is_sensible_and_the_sun_is_not_behind_the_backdrop(seen):
    for item in seen:
        lighting = item.scene.lighting
        assert np.linalg.norm(lighting.sun_direction) == pytest.approx(1)
        assert np.dot(lighting.sun_direction, item.scene.up) > 0
        assert min(lighting.ambient_colour) > 0
        calibration = item.scene.rig.calibration
        x, y, z = lighting.sun_direction
        if z > 0:
            column = calibration.cx + calibration.focal * x / z
            row = calibration.cy + calibration.focal * y / z
            assert not (0 <= column < WIDTH and 0 <= row < HEIGHT)
    lamps = [len(item.scene.lighting.lamps) for item in seen]
    assert 0 < np.count_nonzero(lamps) < COUNT / 2


def test_materials_are_varied(seen):
    materials = [o.material for item in seen for o in item.scene.objects]
    assert any(m.transparency > 0 for m in materials)
    assert any(m.specular > 0 for m in materials)
    assert all(not item.scene.objects[-1].material.shaded for item in seen)
    assert all(0 <= m.transparency < 1 for m in materials)
    textures = {id(m.texture): m.texture for m in materials}
    contrast = {key: float(texture[::2, ::2].std(axis=(0, 1)).mean()) for key, texture in textures.items()}
    used = np.array([contrast[id(m.texture)] for m in materials])
    assert (used < 4).mean() > 0.05  # nearly textureless
    assert (used > 25).mean() > 0.3
    for texture in textures.values():
        side = len(texture)
        assert texture.shape == (side, side, 3)
        assert side & (side - 1) == 0


@pytest.mark.parametrize("kind", sorted(FILLERS))
def test_same_generator_same_scene(kind, tmp_path):
    scenes = [
        random_scene(np.random.default_rng(9), height=96, width=192, underwater=kind in UNDER_WATER, kind=kind)
        for _ in range(2)
    ]
    _assert_equal(*scenes)
    other = random_scene(np.random.default_rng(10), height=96, width=192, kind=kind)
    assert other.rig != scenes[0].rig


def test_caches_do_not_change_scenes(photo_folder, mesh_folder):
    def make(photos: PhotoFolder, meshes: MeshFolder) -> Scene:
        rng = np.random.default_rng(12)
        return random_scene(rng, height=96, width=192, photos=photos, meshes=meshes, kind="flying")

    photos, meshes = PhotoFolder(photo_folder), MeshFolder(mesh_folder)
    cold = make(photos, meshes)
    warm = make(photos, meshes)
    starved = make(PhotoFolder(photo_folder, keep=1), MeshFolder(mesh_folder, keep=1))
    _assert_equal(cold, warm)
    _assert_equal(cold, starved)


def test_photographs_and_mesh_files_get_into_scenes(photo_folder, mesh_folder):
    photos, meshes = PhotoFolder(photo_folder), MeshFolder(mesh_folder)
    textures, counts = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        scene = random_scene(rng, height=96, width=192, photos=photos, meshes=meshes, kind="flying")
        textures += [o.material.texture for o in scene.objects]
        counts += [len(o.mesh.faces) for o in scene.objects]
    # The photographs of the folder are the only textures with a pixel of pure magenta.
    assert any((t.reshape(-1, 3) == (255, 0, 255)).all(axis=1).any() for t in textures)
    assert 1280 in counts  # the icosphere of the mesh folder


def test_largest_disparity_can_be_bounded():
    for seed in range(8):
        scene = random_scene(np.random.default_rng(seed), height=HEIGHT, width=WIDTH, max_disparity=0.06)
        depth = Caster(scene).depths(np.random.default_rng(seed))
        largest = scene.rig.calibration.focal * scene.rig.calibration.baseline / depth.min()
        assert largest <= 0.06 * WIDTH * 1.0001


@pytest.mark.parametrize(("height", "width"), [(64, 64), (375, 1242), (48, 400), (480, 270)])
def test_any_image_size_is_closed(height, width):
    for kind in ("flying", "room", "road", "reef"):
        scene = random_scene(np.random.default_rng(5), height=height, width=width, kind=kind)
        assert (scene.rig.height, scene.rig.width) == (height, width)
        caster = Caster(scene)
        for right in (False, True):
            assert np.isfinite(caster.depths(np.random.default_rng(6), right=right, rays=100)).all()


def a_shot(**changes: float) -> Shot:
    shot = Shot(height=100, width=200, focal=150.0, cx=97.0, cy=52.0, max_disparity=30.0, near=1.0, tilt=np.eye(3))
    return shot._replace(**changes)


def test_nearest_depth_of_triangles_matches_dense_sampling():
    rng, shot = np.random.default_rng(0), a_shot()
    left, right, top, bottom = shot.bounds
    compared = 0
    for _ in range(200):
        corners = rng.normal((0, 0, 2), 3, (3, 3))
        mesh = Mesh(corners, np.array([[0, 1, 2]], np.int32), np.zeros((3, 2), np.float32))
        weights = rng.dirichlet(np.ones(3), 20_000)
        x, y, z = (weights @ corners).T
        inside = (x >= left * z) & (x <= right * z) & (y >= top * z) & (y <= bottom * z)
        found = nearest_depth(mesh, shot)
        if inside.any():
            assert found <= z[inside].min() + 1e-9
        if inside.sum() > 200:
            assert found == pytest.approx(z[inside].min(), abs=0.15)
            compared += 1
        if np.isinf(found):
            assert not inside.any()
    assert compared > 30


def test_what_only_the_right_camera_sees_counts():
    """At disparity 15 px, a card 210 px to the right in the left image is at column 195 of the right one."""
    shot = a_shot()
    depth = 2.0
    at = ((210 - shot.cx) * depth / shot.focal, 0.0, depth)
    card = moved(plane(0.01, 0.01), translation=at)
    assert nearest_depth(card, shot) == pytest.approx(depth)
    assert np.isinf(nearest_depth(card, shot._replace(max_disparity=5.0)))


def test_unknown_kinds_are_refused():
    with pytest.raises(InputError, match="flying, room"):
        random_scene(np.random.default_rng(0), height=96, width=192, kind="moon")


def _assert_equal(one: Scene, two: Scene) -> None:
    assert one.rig == two.rig
    assert one.lighting == two.lighting
    assert one.up == two.up
    assert len(one.objects) == len(two.objects)
    for a, b in zip(one.objects, two.objects, strict=True):
        np.testing.assert_array_equal(a.mesh.vertices, b.mesh.vertices)
        np.testing.assert_array_equal(a.mesh.faces, b.mesh.faces)
        np.testing.assert_array_equal(a.mesh.uv, b.mesh.uv)
        np.testing.assert_array_equal(a.material.texture, b.material.texture)
        assert (a.material.tint, a.material.specular, a.material.transparency) == (
            b.material.tint,
            b.material.specular,
            b.material.transparency,
        )


@pytest.fixture(scope="module")
def photo_folder(tmp_path_factory):
    import cv2

    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for index in range(5):
        picture = rng.integers(0, 100, (200 + 40 * index, 300, 3), np.uint8)
        picture[::2] = (255, 0, 255)
        cv2.imwrite(str(folder / f"{index}.png"), picture)
    return folder


@pytest.fixture(scope="module")
def mesh_folder(tmp_path_factory):
    trimesh = pytest.importorskip("trimesh")
    folder = tmp_path_factory.mktemp("meshes")
    trimesh.creation.icosphere(subdivisions=3).export(folder / "ball.obj")
    trimesh.creation.torus(1.0, 0.3).export(folder / "ring.stl")
    return folder


def test_plain_rooms_come_as_often_as_asked() -> None:
    def names(plain: float, *, underwater: bool = False) -> list[str]:
        return [
            random_scene(np.random.default_rng(i), height=32, width=64, plain=plain, underwater=underwater).name
            for i in range(20)
        ]

    assert set(names(1.0)) == {"plain_room"}
    assert "plain_room" not in names(0.0)
    assert 4 <= names(0.5).count("plain_room") <= 16
    assert "plain_room" not in names(1.0, underwater=True)


def test_plain_rooms_are_plain() -> None:
    """Half of what a noise-free camera sees of them has next to no gradient; a room with patterns has much less."""
    from linstereo.synthesis.engine import EngineSettings, StereoEngine

    def plain_share(plain: float) -> float:
        settings = EngineSettings(height=96, width=160, underwater=0.0, plain=plain, noisy=0.0)
        pairs = [StereoEngine(settings).render(8, i) for i in range(10)]
        steps = [np.abs(np.diff(pair.left.astype(np.int16).mean(axis=2), axis=1)) for pair in pairs]
        return float(np.mean([(step < 4).mean() for step in steps]))

    assert plain_share(1.0) > 0.7
    assert plain_share(1.0) > plain_share(0.0) + 0.15
