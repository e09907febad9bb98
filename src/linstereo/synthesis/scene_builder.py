"""Where things are put in front of the camera: the view to be filled, and the scene as it grows.

Things are placed in a level frame (x right, y down, z ahead, camera at the origin); the camera's tilt turns everything
into its own frame at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from linstereo.geometry.calibration import StereoCalibration
from linstereo.synthesis.materials import MaterialStock
from linstereo.synthesis.mesh_tools import Floats, cross, moved, surface, with_uv
from linstereo.synthesis.scene import IdealStereoRig, Lamp, Lighting, Material, Mesh, Scene, SceneObject

BASELINES = (0.05, 0.6)
"""Least and greatest baseline, metres."""
MAX_FACES = 50_000
"""Things that would bring a scene above this many faces are left out."""
TEXEL = (0.35, 1.6)
"""Usual size of a texture's pixels in pixels of the image."""


class Shot(NamedTuple):
    """The camera before its baseline is known."""

    height: int
    width: int
    focal: float
    """px"""
    cx: float
    cy: float
    max_disparity: float
    """px, of the nearest visible surface"""
    near: float
    """metres along the optical axis to the nearest surface, as planned"""
    tilt: Floats
    """[3, 3] rotation from the level frame into the camera's"""

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Least and greatest x / z, least and greatest y / z that either camera sees."""
        return (
            -(self.cx + 0.5) / self.focal,
            (self.width - 0.5 - self.cx + self.max_disparity) / self.focal,
            -(self.cy + 0.5) / self.focal,
            (self.height - 0.5 - self.cy) / self.focal,
        )

    def level_ray(self, column: float, row: float) -> Floats:
        """Direction [3] in the level frame, with depth 1 along the optical axis, through a point of the left image.

        `column` and `row` are shares of the image, 0 (left, top) to 1.
        """
        x = (column * self.width - 0.5 - self.cx) / self.focal
        y = (row * self.height - 0.5 - self.cy) / self.focal
        ray: Floats = np.array([x, y, 1.0]) @ self.tilt
        return ray


@dataclass
class SceneBuilder:
    """A scene in the making.

    Args:
        rng: where all its randomness comes from.
        shot: the camera.
        stock: its materials.
        name: its kind.
    """

    rng: np.random.Generator
    shot: Shot
    stock: MaterialStock
    name: str
    objects: list[SceneObject] = field(default_factory=list)
    faces: int = 0
    nearest: float = np.inf
    """Least depth of anything seen so far, metres."""

    def add(
        self,
        mesh: Mesh,
        material: Material,
        *,
        texel: tuple[float, float] = TEXEL,
        turn: bool = True,
        keep: bool = False,
        distance: float | None = None,
    ) -> bool:
        """Put a mesh, in the level frame, into the scene.

        It is left out if it comes nearer than `shot.near`, is out of sight or would be one face too many.

        Args:
            mesh: texture coordinates in metres; the texture is scaled here.
            material: what it is made of.
            texel: bounds of the size, in pixels of the image, of the texture's pixels where the mesh is seen.
            turn: whether the texture may be turned by any angle.
            keep: put it in whatever speaks against it.
            distance: metres at which `texel` holds; the depth of the mesh's middle if None.

        Returns:
            Whether it was put in.
        """
        mesh = moved(mesh, rotation=self.shot.tilt)
        nearest = nearest_depth(mesh, self.shot)
        if not keep and not self._fits([mesh], nearest):
            return False
        self._put(mesh, material, nearest=nearest, texel=texel, turn=turn, distance=distance)
        return True

    def add_thing(self, thing: Sequence[tuple[Mesh, str]], *, texel: tuple[float, float] = TEXEL) -> bool:
        """Put all meshes of a thing, each with its use (see `materials.USES`), into the scene, or none; see `add`."""
        meshes = [moved(mesh, rotation=self.shot.tilt) for mesh, _ in thing]
        depths = [nearest_depth(mesh, self.shot) for mesh in meshes]
        if not self._fits(meshes, min(depths)):
            return False
        for mesh, depth, (_, use) in zip(meshes, depths, thing, strict=True):
            self._put(mesh, self.stock.material(self.rng, use), nearest=depth, texel=texel)
        return True

    def _fits(self, meshes: Sequence[Mesh], nearest: float) -> bool:
        in_sight = self.shot.near <= nearest < np.inf
        return in_sight and self.faces + sum(len(mesh.faces) for mesh in meshes) <= MAX_FACES

    def _put(
        self,
        mesh: Mesh,
        material: Material,
        *,
        nearest: float,
        texel: tuple[float, float],
        turn: bool = True,
        distance: float | None = None,
    ) -> None:
        if distance is None:
            low, high = float(mesh.vertices[:, 2].min()), float(mesh.vertices[:, 2].max())
            distance = max((low + high) / 2, nearest if nearest < np.inf else self.shot.near)
        pixels = np.exp(self.rng.uniform(np.log(texel[0]), np.log(texel[1])))
        repeats = self.shot.focal / (distance * len(material.texture) * pixels)
        angle = self.rng.uniform(0, 2 * np.pi) if turn else 0.0
        shift = self.rng.random(2)
        mesh = with_uv(mesh, repeats=repeats, turn=angle, shift=(float(shift[0]), float(shift[1])))
        self.objects.append(SceneObject(mesh, material))
        self.faces += len(mesh.faces)
        self.nearest = min(self.nearest, nearest)

    def finished(self, lighting: Lighting, material: Material, *, far: float) -> Scene:
        """The scene with its baseline and, behind everything, a backdrop.

        Args:
            lighting: in the level frame.
            material: the backdrop's, which stands for the sky, the open water or a far landscape.
            far: disparity in px of the backdrop at the image's centre.
        """
        shot = self.shot
        wanted = shot.max_disparity * min(self.nearest, 1e3 * shot.near) / shot.focal
        baseline = float(np.clip(wanted, *BASELINES))
        scale = baseline / wanted
        objects = tuple(
            SceneObject(moved(item.mesh, scale=scale) if scale != 1.0 else item.mesh, item.material)
            for item in self.objects
        )
        deepest = max((float(item.mesh.vertices[:, 2].max()) for item in objects), default=0.0)
        radius = max(shot.focal * baseline / far, 1.6 * deepest)
        calibration = StereoCalibration(focal=shot.focal, baseline=baseline, cx=shot.cx, cy=shot.cy)
        return Scene(
            objects=(*objects, SceneObject(backdrop(shot, radius), material)),
            lighting=_tilted(lighting, shot.tilt, scale),
            rig=IdealStereoRig(shot.height, shot.width, calibration),
            up=_triple(shot.tilt @ np.array([0.0, -1.0, 0.0])),
            name=self.name,
        )


def backdrop(shot: Shot, radius: float, *, cells: int = 24) -> Mesh:
    """The piece of a far sphere that the cameras see, with a margin; open elsewhere, so that the sun comes in.

    Its texture coordinates are angles in the level frame: v runs from 0 at the zenith over 0.5 at the horizon to 1 at
    the nadir, u by 1 in 180 degrees.
    """
    left, right, top, bottom = shot.bounds
    margin = 0.06 * max(right - left, bottom - top)
    x, y = np.linspace(left - margin, right + margin, cells + 1), np.linspace(top - margin, bottom + margin, cells + 1)
    grid_y, grid_x = np.meshgrid(y, x, indexing="ij")
    direction = np.stack([grid_x, grid_y, np.ones_like(grid_x)], axis=-1)  # [R, C, 3]
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    level = direction @ shot.tilt
    uv = np.stack(
        [np.arctan2(level[..., 0], level[..., 2]) / np.pi + 0.5, np.arccos(np.clip(-level[..., 1], -1, 1)) / np.pi],
        axis=-1,
    )
    return surface(radius * direction, uv, smooth=False)


def nearest_depth(mesh: Mesh, shot: Shot) -> float:
    """The least depth z > 0 of what either camera sees of a mesh in the camera's frame; inf if it is out of sight."""
    left, right, top, bottom = shot.bounds
    x, y, z = mesh.vertices.T
    # One bit for each side of the view's pyramid that a vertex is outside of.
    outside = (
        (x < left * z).astype(np.uint8)
        | ((x > right * z).astype(np.uint8) << 1)
        | ((y < top * z).astype(np.uint8) << 2)
        | ((y > bottom * z).astype(np.uint8) << 3)
    )
    inside = outside == 0
    nearest = float(z[inside].min()) if inside.any() else np.inf
    if inside.all():
        return nearest
    codes = outside[mesh.faces]  # [F, 3]
    crossing = ((codes[:, 0] & codes[:, 1] & codes[:, 2]) == 0) & codes.any(axis=1)
    faces = mesh.faces[crossing]
    faces = faces[z[faces].min(axis=1) < nearest]
    return min(nearest, _least_depth_cut(mesh.vertices[faces], shot)) if len(faces) else nearest


def _least_depth_cut(corners: Floats, shot: Shot) -> float:
    """The least depth of the parts of triangles [F, 3, 3] inside the view's pyramid, found at the cuts' corners.

    Those are points where an edge of a triangle meets a side of the pyramid, or a triangle an edge of the pyramid.
    """
    left, right, top, bottom = shot.bounds
    sides = np.array([[1, 0, -left], [-1, 0, right], [0, 1, -top], [0, -1, bottom]])  # inside where >= 0
    signed = corners @ sides.T  # [F, 3, 4]
    next_signed, next_corner = np.roll(signed, -1, axis=1), np.roll(corners, -1, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = signed / (signed - next_signed)
        points = corners[:, :, None] + share[..., None] * (next_corner - corners)[:, :, None]  # [F, 3, 4, 3]
        slack = 1e-9 * np.abs(corners).max()
        seen = (signed * next_signed < 0) & ((points @ sides.T) >= -slack).all(axis=-1)
        depth = float(points[..., 2][seen].min()) if seen.any() else np.inf
        rays = np.array([[x, y, 1.0] for x in (left, right) for y in (top, bottom)])  # [4, 3]
        a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
        weights = np.stack([cross(b, c), cross(c, a), cross(a, b)], axis=1) @ rays.T  # [F, 3, 4] barycentric, unscaled
        total = weights.sum(axis=1)  # [F, 4]
        along = np.einsum("fi,fi->f", a, cross(b, c))[:, None] / total  # [F, 4]
        hit = ((weights / total[:, None]) >= 0).all(axis=1) & (along > 0)
    return min(depth, float(along[hit].min())) if hit.any() else depth


def _tilted(lighting: Lighting, tilt: Floats, scale: float) -> Lighting:
    lamps = tuple(
        Lamp(_triple(tilt @ np.array(lamp.position) * scale), _triple(np.array(lamp.colour) * scale**2))
        for lamp in lighting.lamps
    )
    return Lighting(
        sun_direction=_triple(tilt @ np.array(lighting.sun_direction)),
        sun_colour=lighting.sun_colour,
        ambient_colour=lighting.ambient_colour,
        lamps=lamps,
        shadows=lighting.shadows,
    )


def _triple(vector: Floats) -> tuple[float, float, float]:
    return float(vector[0]), float(vector[1]), float(vector[2])
