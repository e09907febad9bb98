"""How bright a surface looks: matt (Lambert) and shiny (Blinn-Phong) reflection of sun, sky and lamps."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from linstereo.synthesis.raycast import Camera, Float32s, RayCaster, Surface
from linstereo.synthesis.scene import Material, Scene

SKY_FROM_BELOW = 0.5
"""Ambient light of a surface that faces down, relative to one that faces up."""
_CLEARANCE = 2e-4  # shadow rays start this part of the depth above the surface


class Palette:
    """The materials of a scene as tables, one column an object; equal texture arrays are kept once.

    Attributes:
        textures: the different textures.
        texture: [objects] index into `textures`.
        transparency: [objects].
        mirror: [objects].
    """

    def __init__(self, materials: Sequence[Material]) -> None:
        first: dict[int, int] = {}
        self.textures: list[NDArray[np.uint8]] = []
        index = []
        for material in materials:
            key = id(material.texture)
            if key not in first:
                first[key] = len(self.textures)
                self.textures.append(material.texture)
            index.append(first[key])
        self.texture = np.array(index, np.int32)
        self.tint = np.array([m.tint for m in materials], np.float32).T.copy()  # [3, objects]
        self.tinted = bool((self.tint != 1).any())
        self.specular = np.array([m.specular for m in materials], np.float32)
        self.shininess = np.array([m.shininess for m in materials], np.float32)
        self.transparency = np.array([m.transparency for m in materials], np.float32)
        self.mirror = np.array([m.mirror if m.shaded else 0.0 for m in materials], np.float32)
        self.shaded = np.array([m.shaded for m in materials])


class Light(NamedTuple):
    """Linear RGB radiance, float32."""

    sun: Float32s
    """[3, N]"""
    lamp: Float32s
    """[3, N]; [3, 0] if there are no lamps."""


def shade(
    scene: Scene,
    caster: RayCaster,
    palette: Palette,
    camera: Camera,
    surface: Surface,
    albedo: Float32s,
    *,
    image: tuple[int, int] | None = None,
) -> Light:
    """Light that comes from opaque surface points, as without water.

    Args:
        scene: for its lights.
        caster: the scene's faces.
        palette: the scene's materials.
        camera: who looks.
        surface: N points.
        albedo: float32 [3, N], the texture's colour; the material's tint is applied here.
        image: height and width if the points are the pixels of an image; shadows are then cast for a quarter of
            them and, where these differ, for the others.
    """
    item = caster.object_of_face.take(surface.face)
    colour = albedo * palette.tint.take(item, axis=1) if palette.tinted else albedo  # [3, N]
    shaded = palette.shaded.take(item)
    glossy = (palette.specular.take(item) > 0) & shaded
    lighting = scene.lighting
    normal, points = surface.normal, surface.point

    towards_sun = np.array(lighting.sun_direction, np.float32)
    facing = np.maximum(_dot(normal, towards_sun), 0)  # [N]
    if lighting.shadows and max(lighting.sun_colour) > 0:
        asked = (facing > 0) & shaded

        def shadow_at(chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
            return _in_shadow(caster, surface, towards_sun, chosen)

        if image is None:
            chosen = np.flatnonzero(asked)
            facing[chosen] *= ~shadow_at(chosen)
        else:
            facing *= ~_image_of_shadow(shadow_at, asked, item, image)
    sky = (1 + SKY_FROM_BELOW) / 2 + (1 - SKY_FROM_BELOW) / 2 * _dot(normal, np.array(scene.up, np.float32))
    sun = np.empty_like(colour)
    for channel in range(3):
        np.multiply(facing, np.float32(lighting.sun_colour[channel]), out=sun[channel])
        sun[channel] += np.float32(lighting.ambient_colour[channel]) * sky
        sun[channel][~shaded] = 1.0
    sun *= colour
    if max(lighting.sun_colour) > 0:
        lit = np.flatnonzero(glossy & (facing > 0))
        _add(sun, lit, _highlight(palette, camera, surface, item, lit, towards_sun[:, None]), lighting.sun_colour)

    lamp = np.zeros(colour.shape if lighting.lamps else (3, 0), np.float32)
    for source in lighting.lamps:
        offset = np.array(source.position, np.float32)[:, None] - points  # [3, N]
        squared = np.maximum((offset * offset).sum(axis=0), 1e-6)
        offset /= np.sqrt(squared)
        falloff = shaded / squared
        cosine = np.maximum((normal * offset).sum(axis=0), 0) * falloff
        lamp += np.array(source.colour, np.float32)[:, None] * cosine * colour
        lit = np.flatnonzero(glossy & (cosine > 0))
        highlight = _highlight(palette, camera, surface, item, lit, offset.take(lit, axis=1))
        _add(lamp, lit, highlight * falloff[lit], source.colour)
    return Light(sun, lamp)


def lamp_distance(scene: Scene, points: Float32s) -> Float32s:
    """Metres from the nearest lamp to each point, [N] for points [3, N]; 0 without lamps."""
    distances = [
        np.sqrt(((points - np.array(lamp.position, np.float32)[:, None]) ** 2).sum(axis=0))
        for lamp in scene.lighting.lamps
    ]
    if not distances:
        return np.zeros(points.shape[1], np.float32)
    return np.asarray(np.minimum.reduce(distances), np.float32)


def _in_shadow(
    caster: RayCaster, surface: Surface, towards_sun: Float32s, chosen: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether something stands between the chosen points and the sun, [chosen]."""
    lift = (surface.depth.take(chosen) * _CLEARANCE).astype(np.float32)
    origins = surface.normal.take(chosen, axis=1)  # [3, chosen]
    origins *= lift
    origins += surface.point.take(chosen, axis=1)
    return caster.blocked(origins.T, towards_sun[None])


def _image_of_shadow(
    shadow_at: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
    asked: NDArray[np.bool_],
    item: NDArray[np.int32],
    image: tuple[int, int],
) -> NDArray[np.bool_]:
    """Shadow of the pixels of an image, [H * W], False where not asked for.

    Every second pixel of every second row is asked first. A pixel among four of these that belong to its own object and
    are all lit, or all in shadow, is taken to be as they are.
    """
    height, width = image
    grid = np.arange(height * width).reshape(image)
    shadow = np.zeros(image, np.bool_)
    wanted, item = asked.reshape(image), item.reshape(image)
    first = grid[::2, ::2][wanted[::2, ::2]]
    shadow.ravel()[first] = shadow_at(first)
    state = np.where(wanted[::2, ::2], 2 * item[::2, ::2] + shadow[::2, ::2], -1)
    state = np.pad(state, ((0, 1), (0, 1)), constant_values=-1)
    one, two, three, four = state[:-1, :-1], state[1:, :-1], state[:-1, 1:], state[1:, 1:]
    agreed = np.where((one == two) & (three == four) & (one == four), one, -1)
    agreed = agreed.repeat(2, axis=0).repeat(2, axis=1)[:height, :width]
    known = (agreed >> 1) == item
    shadow |= known & wanted & (agreed & 1 == 1)
    known[::2, ::2] = True
    rest = grid[wanted & ~known]
    shadow.ravel()[rest] = shadow_at(rest)
    return shadow.ravel()


def _highlight(
    palette: Palette,
    camera: Camera,
    surface: Surface,
    item: NDArray[np.int32],
    chosen: NDArray[np.int64],
    towards_light: Float32s,
) -> Float32s:
    """Blinn-Phong highlight of the chosen points for light from a direction, [chosen]."""
    towards_camera = -surface.point.take(chosen, axis=1)
    towards_camera[0] += np.float32(camera.x)
    towards_camera /= np.sqrt((towards_camera * towards_camera).sum(axis=0))
    half = towards_camera + towards_light
    half /= np.sqrt(np.maximum((half * half).sum(axis=0), 1e-12))
    cosine = np.clip((surface.normal.take(chosen, axis=1) * half).sum(axis=0), 0, 1)
    chosen_item = item[chosen]
    return np.asarray(palette.specular[chosen_item] * cosine ** palette.shininess[chosen_item], np.float32)


def _add(light: Float32s, chosen: NDArray[np.int64], strength: Float32s, colour: tuple[float, float, float]) -> None:
    """Add coloured light to the chosen points of [3, N]."""
    for plane, part in zip(light, colour, strict=True):
        plane[chosen] += np.float32(part) * strength


def _dot(vectors: Float32s, direction: Float32s) -> Float32s:
    """Dot products [N] of vectors [3, N] with one direction [3]."""
    return np.asarray(vectors[0] * direction[0] + vectors[1] * direction[1] + vectors[2] * direction[2], np.float32)
