"""Small scenes whose geometry is known, and a slow ray caster that shares nothing with the fast one."""

import cv2
import numpy as np

from linstereo.geometry.calibration import StereoCalibration
from linstereo.synthesis.scene import IdealStereoRig, Lamp, Lighting, Material, Mesh, Scene, SceneObject

WHITE = np.full((4, 4, 3), 255, np.uint8)
DARK = Lighting((0.0, -1.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
DAY = Lighting((0.48, -0.8, -0.36), (0.7, 0.6, 0.5), (0.2, 0.25, 0.3))


def grey(value: int, side: int = 4) -> np.ndarray:
    return np.full((side, side, 3), value, np.uint8)


def smooth_texture(seed: int, side: int = 256, waves: int = 5) -> np.ndarray:
    """A periodic texture without sharp detail: a few waves of random phase."""
    rng = np.random.default_rng(seed)
    t = 2 * np.pi * np.arange(side) / side
    image = np.zeros((side, side, 3))
    for channel in range(3):
        for _ in range(6):
            p, q = rng.integers(-waves, waves + 1, 2)
            image[..., channel] += np.sin(p * t[:, None] + q * t[None] + rng.uniform(0, 6))
    return np.clip(128 + 30 * image, 0, 255).astype(np.uint8)


def quad(corner, along, across, *, uv_scale=1.0, cells=1, normals=None) -> Mesh:
    """A parallelogram; uv runs from 0 to `uv_scale` along both sides."""
    s, t = np.meshgrid(np.linspace(0, 1, cells + 1), np.linspace(0, 1, cells + 1))
    s, t = s.ravel()[:, None], t.ravel()[:, None]
    vertices = np.asarray(corner, np.float64) + s * np.asarray(along) + t * np.asarray(across)
    return Mesh(vertices, grid_faces(cells, cells), (uv_scale * np.hstack([s, t])).astype(np.float32), normals)


def grid_faces(rows: int, columns: int) -> np.ndarray:
    index = np.arange((rows + 1) * (columns + 1), dtype=np.int32).reshape(rows + 1, columns + 1)
    a, b, c, d = index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]
    return np.concatenate([np.stack(t, -1).reshape(-1, 3) for t in ((a, b, d), (a, d, c))])


def sphere(centre, radius: float, segments: int = 24) -> Mesh:
    rows = segments // 2
    latitude, longitude = np.meshgrid(
        np.linspace(0, np.pi, rows + 1), np.linspace(0, 2 * np.pi, segments + 1), indexing="ij"
    )
    normal = np.stack(
        [np.sin(latitude) * np.cos(longitude), np.cos(latitude), np.sin(latitude) * np.sin(longitude)], -1
    ).reshape(-1, 3)
    uv = np.stack([longitude / np.pi, latitude / np.pi], -1).reshape(-1, 2)
    return Mesh(
        np.asarray(centre) + radius * normal,
        grid_faces(rows, segments),
        uv.astype(np.float32),
        normal.astype(np.float32),
    )


def wall(depth: float, half: float = 60.0, *, uv_scale: float = 8.0) -> Mesh:
    """A wall across the view."""
    return quad((-half, -half, depth), (2 * half, 0, 0), (0, 2 * half, 0), uv_scale=uv_scale)


def rig(height=60, width=100, *, focal=90.0, baseline=0.25, doffs=0.0) -> IdealStereoRig:
    calibration = StereoCalibration(
        focal=focal, baseline=baseline, cx=(width - 1) / 2 + 0.3, cy=(height - 1) / 2 - 0.2, doffs=doffs
    )
    return IdealStereoRig(height, width, calibration)


def scene(*objects: SceneObject, lighting: Lighting = DAY, **camera) -> Scene:
    return Scene(objects, lighting, rig(**camera))


def cluttered(seed: int = 3, lighting: Lighting = DAY, **camera) -> Scene:
    """A wall, a slanted floor, balls, thin rods and a tilted plate, all with smooth textures."""
    rng = np.random.default_rng(seed)

    def matt() -> Material:
        return Material(smooth_texture(int(rng.integers(1 << 30)), 128, waves=3))

    objects = [
        SceneObject(wall(9.0, uv_scale=30), matt()),
        SceneObject(quad((-9, 1.0, 1.2), (18, 0.3, 0), (0, 0.1, 7.7), uv_scale=4, cells=5), matt()),
        SceneObject(quad((-0.9, -0.9, 2.2), (0.8, 0.1, 0.3), (0.1, 0.9, 0.2)), matt()),
    ]
    for _ in range(5):
        depth = rng.uniform(1.8, 5)
        at = (rng.uniform(-0.5, 0.6) * depth, rng.uniform(-0.3, 0.2) * depth, depth)
        objects.append(SceneObject(sphere(at, rng.uniform(0.15, 0.5), 12), matt()))
    for x in (-0.3, 0.35):
        objects.append(SceneObject(quad((x, -2, 1.7), (0.06, 0, 0), (0.5, 4, 0.1), uv_scale=0.2), matt()))
    return scene(*objects, lighting=lighting, **camera)


def triangles(item: Scene) -> tuple[np.ndarray, np.ndarray]:
    """All triangles [F, 3, 3] and the object that each belongs to [F]."""
    corners = [o.mesh.vertices[o.mesh.faces] for o in item.objects]
    return np.concatenate(corners), np.repeat(np.arange(len(corners)), [len(c) for c in corners])


def nearest_hits(corners: np.ndarray, origin, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Moeller-Trumbore against every triangle in double precision: parameter t [N] and triangle [N] of the first hit.

    `origin` is one point [3] or one for each ray [N, 3]; t is inf where nothing is met.
    """
    origins = np.broadcast_to(origin, directions.shape)
    best, which = np.full(len(directions), np.inf), np.full(len(directions), -1)
    for index, (a, b, c) in enumerate(corners):
        edge1, edge2 = b - a, c - a
        p = np.cross(directions, edge2)
        determinant = p @ edge1
        with np.errstate(divide="ignore", invalid="ignore"):
            s = origins - a
            u = (s * p).sum(1) / determinant
            q = np.cross(s, edge1)
            v = (q * directions).sum(1) / determinant
            t = q @ edge2 / determinant
        hit = (np.abs(determinant) > 1e-14) & (u >= -1e-9) & (v >= -1e-9) & (u + v <= 1 + 1e-9) & (t > 0) & (t < best)
        best[hit], which[hit] = t[hit], index
    return best, which


def pixel_rays(item: Scene) -> np.ndarray:
    """Directions (x, y, 1) of the left camera's pixels, [H * W, 3], row by row."""
    c = item.rig.calibration
    rows, columns = np.mgrid[: item.rig.height, : item.rig.width]
    return np.stack([(columns - c.cx) / c.focal, (rows - c.cy) / c.focal_y, np.ones(rows.shape)], -1).reshape(-1, 3)


def warped(right: np.ndarray, disparity: np.ndarray) -> np.ndarray:
    """The right image seen from the left camera, by bicubic interpolation."""
    height, width = disparity.shape
    columns = (np.arange(width) - disparity).astype(np.float32)
    rows = np.repeat(np.arange(height, dtype=np.float32)[:, None], width, axis=1)
    return cv2.remap(right, columns, rows, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)


__all__ = ["DARK", "DAY", "WHITE", "Lamp", "Lighting", "Material", "SceneObject"]
