"""Rooms as ordinary cameras see them: plain walls, ceilings and furniture, bright windows, dark corners, few things."""

import dataclasses

import numpy as np

from linstereo.synthesis.indoor_scenes import floor_height, panel, thin_structures
from linstereo.synthesis.mesh_files import MeshFolder
from linstereo.synthesis.mesh_tools import moved, pitch, yaw
from linstereo.synthesis.scene import Material, Mesh
from linstereo.synthesis.scene_builder import SceneBuilder
from linstereo.synthesis.shapes import box, plane, standing
from linstereo.synthesis.things import furniture_thing, placed, small_thing

WALL_TEXEL = (1.5, 12.0)
"""Size of a plain wall's texels in pixels of the image: its shading is as wide as the wall."""


def fill_plain_room(builder: SceneBuilder, meshes: MeshFolder | None) -> None:
    """A room with plain walls, floor and ceiling, windows and doors, large plain things, and some clutter."""
    rng, near = builder.rng, builder.shot.near
    far = near * np.exp(rng.uniform(np.log(1.4), np.log(8)))
    floor = floor_height(builder, near * rng.uniform(1.02, 2.2))
    turn = rng.normal(0, 0.5)
    _walls(builder, far, floor, turn)
    for _ in range(int(rng.integers(0, 4))):
        material = _window(builder) if rng.random() < 0.35 else _wall(builder)
        panel(builder, turn, far, floor, material, size=(0.15, 0.7))
    if rng.random() < 0.5:
        for _ in range(int(rng.integers(1, 4))):
            panel(builder, turn, far, floor, builder.stock.material(rng, "print"), size=(0.08, 0.3))
    for z in near / rng.uniform(near / far, 1.0, int(rng.integers(1, 5))):
        _block(builder, z, floor)
    for z in near / rng.uniform(near / far, 1.0, int(rng.integers(0, 4))):
        _stand(builder, furniture_thing(rng, z * rng.uniform(0.2, 0.8), meshes), z, floor)
    for _ in range(int(rng.integers(1, 3)) if rng.random() < 0.35 else 0):
        _screen(builder, near / rng.uniform(near / far, 1.0), floor)
    for z in near / rng.uniform(near / far, 1.0, int(rng.integers(1, 14))):
        _stand(builder, small_thing(rng, z * np.exp(rng.uniform(np.log(0.05), np.log(0.35))), meshes), z, floor)
    if rng.random() < 0.4:
        thin_structures(builder, far, floor)


def _walls(builder: SceneBuilder, far: float, floor: float, turn: float) -> None:
    """Floor, ceiling, the wall at the back and mostly those at the sides; one room in four has a busy wall."""
    rng, reach = builder.rng, 6 * far
    tall = floor + far * rng.uniform(0.35, 1.6)
    level = pitch(-np.pi / 2)
    for height in (floor, floor - tall):
        flat = moved(plane(2 * reach, 2 * reach, rows=24, columns=24), rotation=level, translation=(0, height, 0))
        plainly = height != floor or rng.random() < 0.6
        builder.add(
            flat,
            _wall(builder) if plainly else builder.stock.material(rng, "floor"),
            keep=True,
            distance=float(np.sqrt(builder.shot.near * far)),
            texel=WALL_TEXEL if plainly else (0.4, 2.0),
        )
    upright = (0.0, floor - tall / 2, far)
    back = moved(plane(2 * reach, tall, rows=4, columns=8), rotation=yaw(turn), translation=upright)
    if rng.random() < 0.25:
        builder.add(back, builder.stock.material(rng, "any", strong=True), keep=True, distance=far, texel=(0.4, 2.0))
    else:
        builder.add(back, _wall(builder), keep=True, distance=far, texel=WALL_TEXEL)
    for side, column in ((-1, 0.0), (1, 1.0)):
        if rng.random() < 0.75:
            edge = builder.shot.level_ray(column, 0.5)[0] * far * rng.uniform(0.4, 1.1)
            rotation = yaw(turn + side * np.pi / 2 + rng.normal(0, 0.06))
            wall = moved(plane(2 * reach, tall, rows=4, columns=16), rotation=rotation)
            wall = moved(wall, translation=(edge, floor - tall / 2, far))
            builder.add(wall, _wall(builder), distance=far * 0.7, texel=WALL_TEXEL)


def _wall(builder: SceneBuilder) -> Material:
    """White or plainly coloured, softly shaded; some are glossy."""
    return builder.stock.material(builder.rng, "whitewash", strong=True)


def _window(builder: SceneBuilder) -> Material:
    """A window or a lamp: so bright that the camera burns out, or showing what is outside."""
    bright = builder.rng.uniform(1.0, 6.0)
    use = "plain" if builder.rng.random() < 0.6 else "any"
    material = builder.stock.material(builder.rng, use, strong=True)
    return dataclasses.replace(material, tint=(bright, bright, bright), shaded=False)


def _block(builder: SceneBuilder, z: float, floor: float) -> None:
    """A large plain thing, such as a cupboard or a carton, near or far, straight or slanted."""
    rng = builder.rng
    size = z * np.exp(rng.uniform(np.log(0.2), np.log(1.2)))
    mesh = standing(box(size * rng.uniform(0.4, 1.2), size * rng.uniform(0.4, 1.5), size * rng.uniform(0.2, 0.8)))
    lift = rng.uniform(0.0, 0.6) * z if rng.random() < 0.25 else 0.0
    x = builder.shot.level_ray(rng.uniform(-0.1, 1.1), 0.5)[0] * z
    mesh = moved(mesh, rotation=yaw(rng.uniform(0, 2 * np.pi)), translation=(x, floor - lift, z))
    builder.add(mesh, _wall(builder), texel=WALL_TEXEL)


def _screen(builder: SceneBuilder, z: float, floor: float) -> None:
    """A flat screen on its foot: dark and glossy, or lit."""
    rng = builder.rng
    wide = z * rng.uniform(0.12, 0.5)
    high = wide * rng.uniform(0.5, 0.7)
    thick, lift = 0.04 * wide, rng.uniform(0.1, 0.8) * high
    turn, x = rng.normal(0, 0.5), builder.shot.level_ray(rng.uniform(0, 1), 0.5)[0] * z
    rim = moved(standing(box(wide, high, thick)), translation=(0, -lift, 0))
    glass = moved(plane(0.94 * wide, 0.9 * high), translation=(0, -lift - high / 2, -0.51 * thick))
    foot = standing(box(0.12 * wide, lift, thick))
    lit = rng.random() < 0.4
    picture = builder.stock.material(rng, "print" if lit else "dark", strong=True)
    parts: list[tuple[Mesh, Material]] = [
        (rim, builder.stock.material(rng, "dark")),
        (glass, dataclasses.replace(picture, shaded=not lit)),
        (foot, builder.stock.material(rng, "dark")),
    ]
    at = (x, floor - (rng.uniform(0, 0.5) * z if rng.random() < 0.6 else 0.0), z)
    for mesh, material in parts:
        builder.add(moved(mesh, rotation=yaw(turn), translation=at), material, turn=False)


def _stand(builder: SceneBuilder, thing: list[tuple[Mesh, str]], z: float, floor: float) -> None:
    rng = builder.rng
    x = builder.shot.level_ray(rng.uniform(-0.1, 1.1), 0.5)[0] * z
    lift = rng.uniform(0.0, 0.4) * z if rng.random() < 0.2 else 0.0
    builder.add_thing(placed(thing, at=(x, floor - lift, z), turn=rng.uniform(0, 2 * np.pi)))
