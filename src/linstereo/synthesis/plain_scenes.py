"""Rooms as ordinary cameras see them: plain walls, ceilings and furniture, bright windows, dark corners, few things."""

import dataclasses

import numpy as np

from linstereo.synthesis.indoor_scenes import floor_height, panel, thin_structures
from linstereo.synthesis.mesh_files import MeshFolder
from linstereo.synthesis.mesh_tools import moved, pitch, yaw
from linstereo.synthesis.scene import Material, Mesh
from linstereo.synthesis.shapes import box, plane, standing
from linstereo.synthesis.stage import Stage
from linstereo.synthesis.things import furniture_thing, placed, small_thing

WALL_TEXEL = (1.5, 12.0)
"""Size of a plain wall's texels in pixels of the image: its shading is as wide as the wall."""


def fill_plain_room(stage: Stage, meshes: MeshFolder | None) -> None:
    """A room with plain walls, floor and ceiling, windows and doors, large plain things, and some clutter."""
    rng, near = stage.rng, stage.shot.near
    far = near * np.exp(rng.uniform(np.log(1.4), np.log(8)))
    floor = floor_height(stage, near * rng.uniform(1.02, 2.2))
    turn = rng.normal(0, 0.5)
    _walls(stage, far, floor, turn)
    for _ in range(int(rng.integers(0, 4))):
        material = _window(stage) if rng.random() < 0.35 else _wall(stage)
        panel(stage, turn, far, floor, material, size=(0.15, 0.7))
    if rng.random() < 0.5:
        for _ in range(int(rng.integers(1, 4))):
            panel(stage, turn, far, floor, stage.stock.material(rng, "print"), size=(0.08, 0.3))
    for z in near / rng.uniform(near / far, 1.0, int(rng.integers(1, 5))):
        _block(stage, z, floor)
    for z in near / rng.uniform(near / far, 1.0, int(rng.integers(0, 4))):
        _stand(stage, furniture_thing(rng, z * rng.uniform(0.2, 0.8)), z, floor)
    for _ in range(int(rng.integers(1, 3)) if rng.random() < 0.35 else 0):
        _screen(stage, near / rng.uniform(near / far, 1.0), floor)
    for z in near / rng.uniform(near / far, 1.0, int(rng.integers(1, 14))):
        _stand(stage, small_thing(rng, z * np.exp(rng.uniform(np.log(0.05), np.log(0.35))), meshes), z, floor)
    if rng.random() < 0.4:
        thin_structures(stage, far, floor)


def _walls(stage: Stage, far: float, floor: float, turn: float) -> None:
    """Floor, ceiling, the wall at the back and mostly those at the sides; one room in four has a busy wall."""
    rng, reach = stage.rng, 6 * far
    tall = floor + far * rng.uniform(0.35, 1.6)
    level = pitch(-np.pi / 2)
    for height in (floor, floor - tall):
        flat = moved(plane(2 * reach, 2 * reach, rows=24, columns=24), rotation=level, translation=(0, height, 0))
        plainly = height != floor or rng.random() < 0.6
        stage.add(
            flat,
            _wall(stage) if plainly else stage.stock.material(rng, "floor"),
            keep=True,
            distance=float(np.sqrt(stage.shot.near * far)),
            texel=WALL_TEXEL if plainly else (0.4, 2.0),
        )
    upright = (0.0, floor - tall / 2, far)
    back = moved(plane(2 * reach, tall, rows=4, columns=8), rotation=yaw(turn), translation=upright)
    if rng.random() < 0.25:
        stage.add(back, stage.stock.material(rng, "any", strong=True), keep=True, distance=far, texel=(0.4, 2.0))
    else:
        stage.add(back, _wall(stage), keep=True, distance=far, texel=WALL_TEXEL)
    for side, column in ((-1, 0.0), (1, 1.0)):
        if rng.random() < 0.75:
            edge = stage.shot.level_ray(column, 0.5)[0] * far * rng.uniform(0.4, 1.1)
            rotation = yaw(turn + side * np.pi / 2 + rng.normal(0, 0.06))
            wall = moved(plane(2 * reach, tall, rows=4, columns=16), rotation=rotation)
            wall = moved(wall, translation=(edge, floor - tall / 2, far))
            stage.add(wall, _wall(stage), distance=far * 0.7, texel=WALL_TEXEL)


def _wall(stage: Stage) -> Material:
    """White or plainly coloured, softly shaded; some are glossy."""
    return stage.stock.material(stage.rng, "whitewash", strong=True)


def _window(stage: Stage) -> Material:
    """A window or a lamp: so bright that the camera burns out, or showing what is outside."""
    bright = stage.rng.uniform(1.0, 6.0)
    use = "plain" if stage.rng.random() < 0.6 else "any"
    material = stage.stock.material(stage.rng, use, strong=True)
    return dataclasses.replace(material, tint=(bright, bright, bright), shaded=False)


def _block(stage: Stage, z: float, floor: float) -> None:
    """A large plain thing, such as a cupboard or a carton, near or far, straight or slanted."""
    rng = stage.rng
    size = z * np.exp(rng.uniform(np.log(0.2), np.log(1.2)))
    mesh = standing(box(size * rng.uniform(0.4, 1.2), size * rng.uniform(0.4, 1.5), size * rng.uniform(0.2, 0.8)))
    lift = rng.uniform(0.0, 0.6) * z if rng.random() < 0.25 else 0.0
    x = stage.shot.level_ray(rng.uniform(-0.1, 1.1), 0.5)[0] * z
    mesh = moved(mesh, rotation=yaw(rng.uniform(0, 2 * np.pi)), translation=(x, floor - lift, z))
    stage.add(mesh, _wall(stage), texel=WALL_TEXEL)


def _screen(stage: Stage, z: float, floor: float) -> None:
    """A flat screen on its foot: dark and glossy, or lit."""
    rng = stage.rng
    wide = z * rng.uniform(0.12, 0.5)
    high = wide * rng.uniform(0.5, 0.7)
    thick, lift = 0.04 * wide, rng.uniform(0.1, 0.8) * high
    turn, x = rng.normal(0, 0.5), stage.shot.level_ray(rng.uniform(0, 1), 0.5)[0] * z
    rim = moved(standing(box(wide, high, thick)), translation=(0, -lift, 0))
    glass = moved(plane(0.94 * wide, 0.9 * high), translation=(0, -lift - high / 2, -0.51 * thick))
    foot = standing(box(0.12 * wide, lift, thick))
    lit = rng.random() < 0.4
    picture = stage.stock.material(rng, "print" if lit else "dark", strong=True)
    parts: list[tuple[Mesh, Material]] = [
        (rim, stage.stock.material(rng, "dark")),
        (glass, dataclasses.replace(picture, shaded=not lit)),
        (foot, stage.stock.material(rng, "dark")),
    ]
    at = (x, floor - (rng.uniform(0, 0.5) * z if rng.random() < 0.6 else 0.0), z)
    for mesh, material in parts:
        stage.add(moved(mesh, rotation=yaw(turn), translation=at), material, turn=False)


def _stand(stage: Stage, thing: list[tuple[Mesh, str]], z: float, floor: float) -> None:
    rng = stage.rng
    x = stage.shot.level_ray(rng.uniform(-0.1, 1.1), 0.5)[0] * z
    lift = rng.uniform(0.0, 0.4) * z if rng.random() < 0.2 else 0.0
    stage.add_thing(placed(thing, at=(x, floor - lift, z), turn=rng.uniform(0, 2 * np.pi)))
