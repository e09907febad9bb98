"""What shiny surfaces show of their surroundings: the first thing that a mirrored ray meets.

A reflection lies where the thing itself seems to be behind the surface, so it has another disparity than the surface,
whose is the ground truth: windows, wet roads and polished floors mislead a matcher.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from linstereo.synthesis.atlas import Atlas
from linstereo.synthesis.raycast import Camera, Float32s, Float64s, RayCaster, Surface, cross_products
from linstereo.synthesis.scene import Scene
from linstereo.synthesis.shading import Palette

_CLEARANCE = 2e-4  # mirrored rays start this part of the depth above the surface
_FAR_FOOTPRINT = 1 / 400  # of a backdrop that goes on, which goes twice around
_BLUR = 40.0  # a surface with this shininess shows textures about twice as blurred as a mirror does


class Reflection(NamedTuple):
    """What the mirrored rays of some of N points see."""

    chosen: NDArray[np.int64]
    """[M] which of the N points reflect anything."""
    share: Float32s
    """[M] part of the light that is reflected: `Palette.mirror` at a right angle, 1 at a grazing one (Schlick)."""
    direction: Float32s
    """[3, M] unit vectors along the mirrored rays."""
    met: NDArray[np.int64]
    """[K] which of the M rays meet a surface."""
    surface: Surface
    """The K points they meet; `depth` is the length of the way from the camera, for `shade`."""


def reflection(
    caster: RayCaster, camera: Camera, surface: Surface, mirror: Float32s, shininess: Float32s
) -> Reflection:
    """Follow the rays that N points of a camera's view mirror.

    Args:
        caster: the scene's faces.
        camera: who looks.
        surface: the points.
        mirror: [N] part of the light that is reflected at a right angle, 0 for none.
        shininess: [N] exponents of the highlights; low ones blur the reflected textures.
    """
    chosen = np.flatnonzero(mirror)
    points, normals = (values.take(chosen, axis=1) for values in (surface.point, surface.normal))  # [3, M]
    rays = points.copy()
    rays[0] -= np.float32(camera.x)
    way = np.sqrt((rays * rays).sum(axis=0))  # [M], metres
    rays /= way
    cosine = -(rays * normals).sum(axis=0)  # [M], of the angle of incidence
    direction = rays + 2 * cosine * normals
    plain = mirror.take(chosen)
    share = plain + (1 - plain) * (1 - np.clip(cosine, 0, 1)) ** 5
    origins = points + normals * (surface.depth.take(chosen) * _CLEARANCE).astype(np.float32)
    face = caster.first_faces(np.ascontiguousarray(origins.T), np.ascontiguousarray(direction.T))
    met = np.flatnonzero(face >= 0)
    blur = (1 + _BLUR / shininess.take(chosen[met])) / np.float32(camera.focal)
    seen = _surface(caster, face[met], origins[:, met], direction[:, met], way[met], blur)
    return Reflection(chosen, share.astype(np.float32), direction, met, seen)


def surroundings(scene: Scene, palette: Palette, atlas: Atlas, direction: Float32s) -> Float32s:
    """Radiance [3, M] of what is seen in directions [3, M] in which a scene holds nothing, such as behind the cameras.

    The backdrop, which is the last object, goes on there, infinitely far away and darker downwards.
    """
    across = np.arctan2(direction[0], direction[2]) * np.float32(1 / np.pi)
    down = np.arcsin(np.clip(direction[1], -1, 1)) * np.float32(1 / np.pi)
    texture = np.full(len(across), palette.texture[-1], np.int32)
    colour = atlas.sample(texture, across, down, np.full(len(across), _FAR_FOOTPRINT, np.float32))
    colour *= palette.tint[:, -1:]
    if palette.shaded[-1]:
        colour *= np.array(scene.lighting.ambient_colour, np.float32)[:, None]
    up = np.tensordot(np.array(scene.up, np.float32), direction, 1)
    return np.asarray(colour * (0.75 + 0.5 * np.clip(up, -1, 0.5)), np.float32)


def _surface(
    caster: RayCaster, face: NDArray[np.int32], origins: Float32s, directions: Float32s, way: Float32s, spread: Float32s
) -> Surface:
    """The points where rays meet the given faces, after a way in metres; `spread` is the rays' angle to each other."""
    a, b, c = (caster.corners[:, corner].take(face, axis=1) for corner in range(3))  # [3, K] each
    start, ray = origins.astype(np.float64), directions.astype(np.float64)
    edge1, edge2 = b - a, c - a
    across = cross_products(ray, edge2)
    volume = _dot(edge1, across)
    volume[volume == 0] = np.inf
    second = np.clip(_dot(start - a, across) / volume, 0, 1)
    towards = cross_products(start - a, edge1)
    third = np.clip(_dot(ray, towards) / volume, 0, 1 - second)
    weights = np.stack([1 - second - third, second, third])  # [3 corners, K]
    point = weights[0] * a + weights[1] * b + weights[2] * c
    length = way + np.sqrt(np.square(point - start).sum(axis=0))
    uv = caster.uv.take(face, axis=2)  # [2, 3 corners, K]
    uv -= np.floor(uv[:, :1])
    u, v = (weights * uv[0]).sum(axis=0), (weights * uv[1]).sum(axis=0)
    texture_area = np.abs((uv[0, 1] - uv[0, 0]) * (uv[1, 2] - uv[1, 0]) - (uv[0, 2] - uv[0, 0]) * (uv[1, 1] - uv[1, 0]))
    area = np.sqrt(np.square(cross_products(edge1, edge2)).sum(axis=0))
    footprint = np.sqrt(texture_area / np.maximum(area, 1e-12)) * length * spread
    normal = (weights * caster.normals.take(face, axis=2)).sum(axis=1)  # [3, K]
    normal *= np.where(_dot(normal, ray) > 0, -1.0, 1.0)
    normal /= np.sqrt(np.maximum(np.square(normal).sum(axis=0), 1e-30))
    single = (values.astype(np.float32) for values in (u, v, footprint, normal, point))
    return Surface(face, ray[0], ray[1], length, *single)


def _dot(a: Float64s, b: Float64s) -> Float64s:
    return np.asarray((a * b).sum(axis=0))
