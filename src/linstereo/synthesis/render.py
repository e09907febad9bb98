"""One camera's view of a scene."""

from typing import Literal, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.synthesis.atlas import Atlas
from linstereo.synthesis.mirrors import reflection, surroundings
from linstereo.synthesis.raycast import Camera, Faces, Float32s, Float64s, Ids, RayCaster, Surface, cameras_of
from linstereo.synthesis.scene import Scene
from linstereo.synthesis.shading import Light, Palette, lamp_distance, shade

SUBPIXELS = ((-0.3, 0.3), (0.3, -0.3))
"""Where (column, row) the extra rays of a pixel at an edge go, beside the one through its centre."""
_LAYERS = 3  # surfaces seen through one another
_BEHIND = 1e-4  # a ray goes on behind a transparent surface this part of its depth farther


class View(NamedTuple):
    """What one camera sees; the geometry belongs to the rays through the pixels' centres."""

    sun: Float32s
    """[H, W, 3] linear radiance from sun and ambient light, self-luminous surfaces included, as without water."""
    lamp: Float32s
    """[H, W, 3] linear radiance from lamps, as without water; zeros without lamps."""
    depth: Float64s
    """[H, W] metres along z."""
    distance: Float32s
    """[H, W] metres from the camera along the ray."""
    lamp_distance: Float32s
    """[H, W] metres from the nearest lamp to the surface; 0 without lamps."""
    point: Float32s
    """[H, W, 3] metres in the frame of the left camera."""
    face: Ids
    """[H, W] index of the face, see `RayCaster`."""


def textures_of(scene: Scene, *, opaque: bool = False) -> tuple[Palette, Atlas]:
    """The scene's materials and textures, made ready for both views; with `opaque`, nothing is clear or mirrors."""
    palette = Palette([item.material for item in scene.objects])
    if opaque:
        palette.transparency[:] = palette.mirror[:] = 0
    return palette, Atlas(palette.textures)


def render_view(
    scene: Scene,
    caster: RayCaster,
    palette: Palette,
    atlas: Atlas,
    side: Literal["left", "right"],
    *,
    antialias: bool = True,
) -> View:
    """Render what the left or the right camera sees.

    With `antialias`, pixels at the edges of things take the mean of several rays; this leaves the geometry as it is.

    Raises:
        InputError: a ray meets no surface, or the surface touches the camera.
    """
    height, width = scene.rig.height, scene.rig.width
    camera = cameras_of(scene.rig)[side == "right"]
    columns, rows = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
    x, y = camera.rays(columns.ravel(), rows.ravel())
    face = caster.seen_faces(camera, x, y)
    lost = np.flatnonzero(face < 0)
    face[lost] = caster.faces_beside(camera, x[lost], y[lost])
    if face.min() < 0:
        missed = int(np.argmin(face))
        raise InputError(
            f"the scene {scene.name} is open: the {side} camera's ray through column {missed % width}, row "
            f"{missed // width} meets nothing; close it with a backdrop"
        )
    painter = _Painter(scene, caster, palette, atlas, camera)
    surface = painter.surface(face, x, y)
    holes = np.flatnonzero(_holes(surface.depth.reshape(height, width)))
    beside = caster.faces_beside(camera, x[holes], y[holes])
    if (beside != face[holes]).any():
        face[holes] = beside
        surface = painter.surface(face, x, y)
    if surface.depth.min() <= 0:
        raise InputError(f"a surface of the scene {scene.name} passes through the {side} camera; move it away")
    light = painter.light(surface, image=(height, width))
    if antialias:
        edges = np.flatnonzero(_edges(caster, surface, height, width))
        _smooth(painter, light, surface, edges)
    ray = np.sqrt(x * x + y * y + 1)
    return View(
        sun=_image(light.sun, height, width),
        lamp=_image(light.lamp, height, width) if light.lamp.size else np.zeros((height, width, 3), np.float32),
        depth=surface.depth.reshape(height, width),
        distance=(surface.depth * ray).astype(np.float32).reshape(height, width),
        lamp_distance=lamp_distance(scene, surface.point).reshape(height, width),
        point=_image(surface.point, height, width),
        face=face.reshape(height, width),
    )


class _Painter:
    """Colours of rays of one camera."""

    def __init__(self, scene: Scene, caster: RayCaster, palette: Palette, atlas: Atlas, camera: Camera) -> None:
        self.scene, self.caster, self.palette, self.atlas, self.camera = scene, caster, palette, atlas, camera

    def surface(self, face: Ids, x: Float64s, y: Float64s) -> Surface:
        return Faces(self.caster, self.camera, self.caster.used(face)).surface(face, x, y)

    def light(self, surface: Surface, *, layers: int = _LAYERS, image: tuple[int, int] | None = None) -> Light:
        """Light along the rays, seen through transparent surfaces; `image` as for `shade`."""
        item = self.caster.object_of_face.take(surface.face)
        albedo = self.atlas.sample(self.palette.texture.take(item), surface.u, surface.v, surface.footprint)
        light = shade(self.scene, self.caster, self.palette, self.camera, surface, albedo, image=image)
        if layers > 1 and self.palette.transparency.any():
            self._add_behind(light, surface, self.palette.transparency.take(item), layers)
        mirror = self.palette.mirror.take(item)
        if layers == _LAYERS and mirror.any():
            self._add_mirrored(light, surface, mirror, item)
        return light

    def _add_behind(self, light: Light, surface: Surface, transparency: Float32s, layers: int) -> None:
        clear = np.flatnonzero(transparency)
        x, y = surface.x[clear], surface.y[clear]
        face = self.caster.seen_faces(self.camera, x, y, beyond=surface.depth[clear] * (1 + _BEHIND))
        met = np.flatnonzero(face >= 0)
        if not met.size:
            return
        clear, x, y, face = clear[met], x[met], y[met], face[met]
        behind = self.light(self.surface(face, x, y), layers=layers - 1)
        _mix(light, behind, clear, transparency[clear])

    def _add_mirrored(self, light: Light, surface: Surface, mirror: Float32s, item: Ids) -> None:
        """Mix in what surfaces mirror: opaque things that mirror nothing themselves, or what lies around the scene."""
        found = reflection(self.caster, self.camera, surface, mirror, self.palette.shininess.take(item))
        if found.met.size:
            _mix(light, self.light(found.surface, layers=1), found.chosen[found.met], found.share[found.met])
        lost = np.setdiff1d(np.arange(len(found.chosen)), found.met)
        if lost.size:
            around = surroundings(self.scene, self.palette, self.atlas, found.direction[:, lost])
            _mix(light, Light(around, np.zeros_like(around)), found.chosen[lost], found.share[lost])


def _mix(light: Light, other: Light, chosen: NDArray[np.int64], share: Float32s) -> None:
    """Give the chosen ones of N points a share [chosen] of another light [3, chosen] in place of their own."""
    for planes, others in zip(light, other, strict=True):
        if not planes.size:
            continue
        for plane, mixed_in in zip(planes, others, strict=True):
            shown = plane.take(chosen)
            plane[chosen] = shown + share * (mixed_in - shown)


def _holes(depth: Float64s) -> NDArray[np.bool_]:
    """Single pixels farther away than all four neighbours, bool [H, W]."""
    around = cv2.dilate(depth.astype(np.float32), _AROUND)
    return np.asarray(depth > 1.001 * around, np.bool_)


_AROUND = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.uint8)


def _edges(caster: RayCaster, surface: Surface, height: int, width: int) -> NDArray[np.bool_]:
    """Pixels next to which the object, the slope of its depth, or the direction of its surface jumps; bool [H * W]."""
    shape = (height, width)
    inverse = (1 / surface.depth).reshape(shape)
    item = caster.object_of_face.take(surface.face).reshape(shape)
    normal = surface.normal.reshape(3, *shape)
    edges = np.zeros(shape, np.uint8)
    for one, two in (
        ((slice(None), slice(None, -1)), (slice(None), slice(1, None))),
        ((slice(None, -1), slice(None)), (slice(1, None), slice(None))),
    ):
        turn = (normal[:, *one] * normal[:, *two]).sum(axis=0)
        jump = (item[one] != item[two]) | (turn < 0.8)
        edges[one] |= jump
        edges[two] |= jump
    return edges.ravel().astype(np.bool_) | depth_edges(inverse).ravel()


def depth_edges(inverse: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Pixels where a map [H, W] of inverse depths bends by more than a hundredth; that of a plane does not bend."""
    single = inverse.astype(np.float32)
    bend = np.maximum(*(np.abs(cv2.filter2D(single, -1, kernel)) for kernel in (_BEND, _BEND.T)))
    return np.asarray(bend > 0.01 * single, np.bool_)


_BEND = np.array([[1.0, -2.0, 1.0]], np.float32)


def _smooth(painter: _Painter, light: Light, surface: Surface, pixels: NDArray[np.int64]) -> None:
    """Replace the light of some pixels by the mean over the pixel."""
    if not pixels.size:
        return
    camera, count = painter.camera, len(SUBPIXELS)
    right, down = np.array(SUBPIXELS).T / np.array([[camera.focal], [camera.focal_y]])  # [count] each
    x = (surface.x[pixels, None] + right).ravel()  # [P * count], the rays of a pixel side by side
    y = (surface.y[pixels, None] + down).ravel()
    face = painter.caster.seen_faces(camera, x, y)
    centre = surface.face[pixels].repeat(count)
    face = np.where(face < 0, centre, face)  # at the image's border a ray may pass the backdrop by
    extra = painter.light(painter.surface(face, x, y))
    for planes, others in zip(light, extra, strict=True):
        if not planes.size:
            continue
        for plane, other in zip(planes, others, strict=True):
            plane[pixels] = (plane[pixels] + other.reshape(-1, count).sum(axis=1)) * np.float32(1 / (count + 1))


def _image(planes: Float32s, height: int, width: int) -> Float32s:
    """[H, W, 3] from [3, H * W]."""
    return np.asarray(cv2.merge([plane.reshape(height, width) for plane in planes]), np.float32)
