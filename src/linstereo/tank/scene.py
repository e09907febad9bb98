"""The target in a tank under water, rendered by the engine of `linstereo.synthesis`: pictures whose truth is known.

The tank is a box of water with plain walls; the target hangs in it upright, and the cameras look at it from anywhere
before it. What they see comes from rays, not from the rasteriser of `linstereo.tank.zbuffer`.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.synthesis.mesh_tools import box_mapped, moved, pitch, roll, with_uv, yaw
from linstereo.synthesis.raycast import RayCaster
from linstereo.synthesis.render import View, render_view, textures_of
from linstereo.synthesis.scene import IdealStereoRig, Lighting, Material, Mesh, Scene, SceneObject
from linstereo.synthesis.sensor import PairFaults, common_gains, expose, random_faults
from linstereo.synthesis.shapes import box
from linstereo.synthesis.textures import library_texture
from linstereo.synthesis.water import through_water, water
from linstereo.tank.family import CELLS, pattern
from linstereo.tank.layout import Floats
from linstereo.tank.mesh import FRAME, ROPE
from linstereo.tank.pose import Pose, project
from linstereo.tank.target import Target

CAMERA = IdealStereoRig(720, 960, StereoCalibration(focal=800.0, baseline=0.08, cx=479.5, cy=359.5))
"""A camera of 62 degrees under water, such as a laboratory has."""
NEAREST, FARTHEST = 0.4, 2.0
"""Metres, the distances at which the target is seen."""
SURFACE, FLOOR = 1.3, 1.2
"""Metres from the middle of the target up to the water's surface and down to the floor."""
_TRIALS = 10_000  # poses that are tried
_STICKER = 2e-5  # metres that prints stand out, so that rays meet them first
_DAYLIGHT = (0.9, 0.95, 1.0)
_SKY = (0.45, 0.47, 0.5)


@dataclass(frozen=True, eq=False)
class TankView:
    """A pair of the target under water with what is known about it; H x W px.

    Args:
        left: uint8 [H, W, 3] RGB.
        right: uint8 [H, W, 3] RGB; None if it was not asked for.
        depth: float64 [H, W] metres of everything that the left camera sees, walls included.
        part: uint8 [H, W], 1 on the frame, 2 on ropes, 0 elsewhere.
        pose: of the target in the frame of the left camera.
        water: Jerlov type.
    """

    left: NDArray[np.uint8]
    right: NDArray[np.uint8] | None
    depth: Floats
    part: NDArray[np.uint8]
    pose: Pose
    water: str


def random_pose(
    rng: np.random.Generator,
    target: Target,
    rig: IdealStereoRig = CAMERA,
    *,
    distance: tuple[float, float] = (NEAREST, FARTHEST),
    tags: int = 3,
) -> Pose:
    """A pose as a diver or a robot might have it: the target somewhere in view, turned by up to 35 degrees.

    Args:
        rng: source of chance.
        target: what is looked at.
        rig: the cameras.
        distance: least and largest depth in metres of the point that the camera looks at, evenly distributed.
        tags: least number of tags that lie inside of the left image.
    """
    layout = target.layout
    if not 0 <= tags <= len(layout.ids):
        raise InputError(f"{tags} tags are to be in view, but the target has {len(layout.ids)}")
    low, high = layout.corners.min(axis=(0, 1)), layout.corners.max(axis=(0, 1))
    edge = 4.0
    limit = np.array([rig.width - 1 - edge, rig.height - 1 - edge])
    for _ in range(_TRIALS):
        depth = rng.uniform(*distance)
        turn = yaw(rng.uniform(-0.6, 0.6)) @ pitch(rng.uniform(-0.35, 0.35)) @ roll(rng.normal(0, 0.12))
        looked_at = rng.uniform(low, high)
        aside = rng.uniform(-0.15, 0.15, 2) * depth
        pose = Pose(turn, np.array([aside[0], aside[1], depth]) - turn @ looked_at)
        seen = project(pose.apply(layout.corners), rig.calibration)  # [T, 4, 2]
        with np.errstate(invalid="ignore"):
            inside = ((seen > edge) & (seen < limit)).all(axis=(1, 2))
        if np.count_nonzero(inside) >= tags and pose.apply(target.mesh.vertices)[:, 2].min() > 0.15:
            return pose
    raise InputError(
        f"{tags} tags of this target are never in view together from {distance[0]:g} to {distance[1]:g} m away; make "
        "its opening, its stagger or its tags smaller"
    )


def tank_scene(target: Target, pose: Pose, rig: IdealStereoRig = CAMERA) -> Scene:
    """The target at a pose in the tank. The first objects are prints and frame, then ropes, then the tank."""
    design = target.design
    objects = [*_prints(target), *_bodies(target), *_tank()]
    placed = tuple(
        SceneObject(moved(item.mesh, rotation=pose.rotation, translation=pose.translation), item.material)
        for item in objects
    )
    sun = pose.rotation @ np.array([0.15, -0.85, -0.5])
    sun /= np.linalg.norm(sun)
    up = pose.rotation @ np.array([0.0, -1.0, 0.0])
    lighting = Lighting(_triple(sun), _DAYLIGHT, _SKY)
    return Scene(placed, lighting, rig, up=_triple(up), name=f"tank with {len(design.plates)} plates")


def photograph_target(
    target: Target,
    pose: Pose,
    rng: np.random.Generator,
    *,
    water_type: str,
    rig: IdealStereoRig = CAMERA,
    faults: PairFaults | None = None,
    right: bool = True,
) -> TankView:
    """Take a pair of the target under water.

    Args:
        target: what is seen.
        pose: where it is.
        rng: source of noise, and of the cameras' faults.
        water_type: Jerlov type, see `linstereo.synthesis.water.WATER_TYPES`.
        rig: the cameras.
        faults: of the cameras; None draws them as the engine does: noise, blur, vignetting, compression.
        right: False leaves the right image out, which halves the work.
    """
    scene = tank_scene(target, pose, rig)
    caster = RayCaster(scene.objects)
    palette, atlas = textures_of(scene, opaque=True)
    views = [render_view(scene, caster, palette, atlas, "left")]
    if right:
        views.append(render_view(scene, caster, palette, atlas, "right"))
    radiances = [_under_water(scene, view, pose, water_type) for view in views]
    chosen = faults or random_faults(rng, underwater=True)
    gains = common_gains(radiances[0], radiances[-1], brightness=chosen.brightness, white_balance=chosen.white_balance)
    cameras = (chosen.left, chosen.right)
    images = [expose(light, fault, rng, gains=gains) for light, fault in zip(radiances, cameras, strict=False)]
    item = caster.object_of_face[views[0].face]
    frame, ropes = len(target.layout.ids) + 1, len(target.layout.ids) + 2  # see `tank_scene`
    part = np.where(item < frame, FRAME, np.where(item < ropes, ROPE, 0)).astype(np.uint8)
    return TankView(images[0], images[1] if right else None, views[0].depth, part, pose, water_type)


def tag_texture(tag: int, *, side: int = 512) -> NDArray[np.uint8]:
    """A tag with one white cell around it as printed on matt paper, uint8 [side, side, 3]; 8 cells along the side."""
    cells = np.ones((CELLS + 2, CELLS + 2), np.uint8)
    cells[1:-1, 1:-1] = pattern(tag)
    ink, paper = 38, 236
    grey = cv2.resize(ink + (paper - ink) * cells, (side, side), interpolation=cv2.INTER_NEAREST)
    return np.repeat(grey[..., None], 3, axis=2)


def _prints(target: Target) -> list[SceneObject]:
    """The tags with one cell of paper around each."""
    objects = []
    unit = np.array([(0, 0), (1, 0), (1, 1), (0, 1)], np.float32)
    for tag, corners, front in zip(target.layout.ids, target.layout.corners, target.layout.fronts, strict=True):
        centre = corners.mean(axis=0)
        quad = centre + (corners - centre) * (CELLS + 2) / CELLS + front * _STICKER
        mesh = Mesh(quad, np.array([(0, 2, 1), (0, 3, 2)], np.int32), unit)
        objects.append(SceneObject(mesh, Material(tag_texture(tag))))
    return objects


def _bodies(target: Target) -> list[SceneObject]:
    """The frame and all ropes, one object each."""
    objects = []
    looks = {
        FRAME: Material(_plain(228), specular=0.05),
        ROPE: Material(library_texture("stripes", 7, 256), tint=(0.9, 0.85, 0.75)),
    }
    for part, material in looks.items():
        faces = target.mesh.faces[target.mesh.part == part]
        mesh = box_mapped(target.mesh.vertices, faces.astype(np.int32))
        objects.append(SceneObject(with_uv(mesh, repeats=60.0 if part == ROPE else 4.0), material))
    return objects


def _tank() -> list[SceneObject]:
    """Walls and floor of plastic, and the underside of the water's surface."""
    wide, back, front = 5.0, 1.3, 3.2
    tall, middle = SURFACE + FLOOR, (FLOOR - SURFACE) / 2
    shell = moved(box(wide, tall, back + front), translation=(0, middle, (back - front) / 2))
    window = moved(box(0.8, 0.6, 0.02), translation=(0.1, -0.1, back))
    return [
        SceneObject(with_uv(shell, repeats=0.7), Material(library_texture("plaster", 11, 512), tint=(0.75, 0.8, 0.8))),
        SceneObject(window, Material(_plain(60))),
    ]


def _under_water(scene: Scene, view: View, pose: Pose, water_type: str) -> NDArray[np.float32]:
    up = np.array(scene.up)
    camera_depth = SURFACE + float(pose.translation @ up)  # the middle of the target is at the translation
    sun = np.array(scene.lighting.sun_direction)
    daylight = max(float(sun @ up), 0.0) * np.array(_DAYLIGHT) + np.array(_SKY)
    light = through_water(
        view.sun,
        view.lamp,
        view.distance,
        view.lamp_distance,
        np.float32(camera_depth) - view.point @ up.astype(np.float32),
        water(water_type),
        camera_depth=max(camera_depth, 0.0),
        focal_px=scene.rig.calibration.focal,
        sun_colour=_triple(daylight),
    )
    return np.asarray(light, np.float32)


def _plain(level: int) -> NDArray[np.uint8]:
    return np.full((4, 4, 3), level, np.uint8)


def _triple(values: Floats) -> tuple[float, float, float]:
    return float(values[0]), float(values[1]), float(values[2])
