"""Rooms, tabletops, workshops and walls of posters: near clutter, slanted planes, large weakly textured surfaces."""

import numpy as np

from linstereo.synthesis.furniture import fence, lattice
from linstereo.synthesis.growth import cable
from linstereo.synthesis.mesh_files import MeshFolder
from linstereo.synthesis.mesh_tools import Floats, moved, pitch, roll, yaw
from linstereo.synthesis.scene import Material
from linstereo.synthesis.scene_builder import SceneBuilder
from linstereo.synthesis.shapes import box, plane, rod, sheet
from linstereo.synthesis.things import open_thing, placed, screen_thing, small_thing


def fill_room(builder: SceneBuilder, meshes: MeshFolder | None) -> None:
    """A room: floor, walls at any angle, furniture, pictures, clutter from near to far."""
    rng, near = builder.rng, builder.shot.near
    far = near * np.exp(rng.uniform(np.log(1.8), np.log(7)))
    floor = floor_height(builder, near * rng.uniform(1.02, 1.8))
    reach = 6 * far
    _floor(builder, floor, reach, np.sqrt(near * far))
    turn = rng.normal(0, 0.35)
    tall = floor + far * rng.uniform(0.7, 2.0)
    back = moved(plane(2 * reach, tall, rows=4, columns=8), rotation=yaw(turn), translation=(0, floor - tall / 2, far))
    builder.add(back, builder.stock.material(rng, "wall"), turn=False, distance=far, keep=True, texel=(0.4, 2.0))
    for side in (-1, 1):
        if rng.random() < 0.65:
            left, right = builder.shot.level_ray(0, 0.5), builder.shot.level_ray(1, 0.5)
            edge = (left if side < 0 else right)[0] * far * rng.uniform(0.55, 1.1)
            wall = moved(
                plane(2 * reach, tall, rows=4, columns=16),
                rotation=yaw(turn + side * np.pi / 2 + rng.normal(0, 0.12)),
                translation=(edge, floor - tall / 2, far),
            )
            builder.add(wall, builder.stock.material(rng, "wall"), turn=False, distance=far * 0.7, texel=(0.4, 2.0))
    for _ in range(int(rng.integers(0, 6))):
        panel(builder, turn, far, floor, builder.stock.material(rng, "print"))
    count = int(rng.integers(8, 30))
    for z in near / rng.uniform(near / far, 1.0, count):
        size = z * np.exp(rng.uniform(np.log(0.08), np.log(0.55)))
        column = rng.uniform(-0.1, 1.1)
        ray = builder.shot.level_ray(column, 0.5)
        thing = small_thing(rng, size, meshes)
        builder.add_thing(placed(thing, at=(ray[0] * z, floor, z), turn=rng.uniform(0, 2 * np.pi)))
    thin_structures(builder, far, floor)


def fill_tabletop(builder: SceneBuilder, meshes: MeshFolder | None) -> None:
    """A slanted table or shelf close to the camera, densely covered, with a wall behind it."""
    rng, near = builder.rng, builder.shot.near
    far, floor, behind = _before_a_wall(builder, reach=(1.4, 3.5), floor=(1.0, 1.3), wall=(1.05, 1.6), tilted=True)
    for z in near / rng.uniform(near / far, 1.0, int(rng.integers(15, 45))):
        size = z * np.exp(rng.uniform(np.log(0.06), np.log(0.4)))
        ray = builder.shot.level_ray(rng.uniform(-0.05, 1.05), 0.5)
        lift = rng.uniform(0.0, 0.35) * z if rng.random() < 0.2 else 0.0
        if lift:
            block = moved(box(size, lift, size), translation=(ray[0] * z, floor - lift / 2, z))
            builder.add_thing([(block, "wood")])
        thing = small_thing(rng, size, meshes)
        builder.add_thing(placed(thing, at=(ray[0] * z, floor - lift, z), turn=rng.uniform(0, 2 * np.pi)))
    thin_structures(builder, behind, floor)


def fill_workshop(builder: SceneBuilder, meshes: MeshFolder | None) -> None:
    """A few large things full of gaps close to the camera, with clutter and a wall that show through them."""
    rng, near = builder.rng, builder.shot.near
    far, floor, behind = _before_a_wall(builder, reach=(1.3, 4), floor=(1.0, 1.5), wall=(1.02, 1.5), tilted=False)
    for z in near / rng.uniform(near / far, 0.9, int(rng.integers(2, 7))):
        ray = builder.shot.level_ray(rng.uniform(0, 1), 0.5)
        thing = open_thing(rng, z * rng.uniform(0.35, 1.1), meshes)
        builder.add_thing(placed(thing, at=(ray[0] * z, floor, z), turn=rng.uniform(0, 2 * np.pi)))
    for z in near / rng.uniform(near / far, 0.9, int(rng.integers(4, 25))):
        ray = builder.shot.level_ray(rng.uniform(-0.05, 1.05), 0.5)
        lift = rng.uniform(0.0, 0.4) * z if rng.random() < 0.3 else 0.0
        thing = small_thing(rng, z * np.exp(rng.uniform(np.log(0.06), np.log(0.4))), meshes)
        builder.add_thing(placed(thing, at=(ray[0] * z, floor - lift, z), turn=rng.uniform(0, 2 * np.pi)))
    thin_structures(builder, behind, floor)


def fill_posters(builder: SceneBuilder, meshes: MeshFolder | None) -> None:
    """Slanted cards, posters and sheets in front of each other, as in early stereo benchmarks."""
    rng, near = builder.rng, builder.shot.near
    far = near * np.exp(rng.uniform(np.log(1.5), np.log(6)))
    use = "print" if rng.random() < 0.7 else "wall"
    wall = moved(plane(14 * far, 14 * far), rotation=_slant(rng, 0.3), translation=(0, 0, far))
    builder.add(wall, builder.stock.material(rng, use), distance=far, keep=True)
    for z in near / rng.uniform(near / far, 1.0, int(rng.integers(4, 22))):
        size = z * np.exp(rng.uniform(np.log(0.15), np.log(1.2)))
        ray = builder.shot.level_ray(rng.uniform(-0.1, 1.1), rng.uniform(-0.1, 1.1))
        if rng.random() < 0.6:
            mesh = plane(size, size * rng.uniform(0.4, 1.5))
        else:
            mesh = sheet(
                rng, size, size * rng.uniform(0.5, 1.3), bend=rng.uniform(-1.2, 1.2), ripple=rng.uniform(0, 0.08)
            )
        mesh = moved(mesh, rotation=_slant(rng, 0.5), translation=ray * z)
        if rng.random() < 0.06:
            builder.add(mesh, builder.stock.glass(rng))
        else:
            builder.add(mesh, builder.stock.material(rng, "print" if rng.random() < 0.6 else "any"))
    if rng.random() < 0.5:
        thin_structures(builder, far, floor_height(builder, near * 1.5))


def floor_height(builder: SceneBuilder, depth: float) -> float:
    """How far below the camera, metres, a level floor is that comes into view at `depth` metres in the bottom row."""
    ray = builder.shot.level_ray(0.5, 1.0)
    return float(depth * max(ray[1], 0.08))


def thin_structures(builder: SceneBuilder, far: float, floor: float) -> None:
    """Rods, cables, bars, gratings and screens across the view."""
    rng, near, shot = builder.rng, builder.shot.near, builder.shot
    for _ in range(int(rng.integers(0, 5))):
        one, two = near / rng.uniform(near / far, 0.98, 2)
        start, end = shot.level_ray(*rng.uniform(-0.2, 1.2, 2)) * one, shot.level_ray(*rng.uniform(-0.2, 1.2, 2)) * two
        radius = 0.5 * one / shot.focal * shot.width / 640 * np.exp(rng.uniform(np.log(1.2), np.log(9)))
        sag = rng.uniform(0, 0.3)
        mesh = cable(start, end, radius, sag=sag) if rng.random() < 0.5 else rod(start, end, radius)
        builder.add(mesh, builder.stock.material(rng, str(rng.choice(["plain", "metal", "any"]))))
    if rng.random() < 0.2:
        z = near / rng.uniform(near / far, 0.9)
        ray = shot.level_ray(rng.uniform(0.1, 0.9), 0.5)
        size, thin = z * rng.uniform(0.3, 1.2), z * rng.uniform(0.004, 0.02)
        if rng.random() < 0.5:
            mesh = fence(size, size * 0.7, bars=int(rng.integers(6, 20)), thickness=thin)
        else:
            mesh = lattice(
                size, size * 0.8, rows=int(rng.integers(4, 10)), columns=int(rng.integers(4, 12)), thickness=thin
            )
        mesh = moved(mesh, rotation=yaw(rng.normal(0, 0.5)), translation=(ray[0] * z, floor, z))
        builder.add(mesh, builder.stock.material(rng, "metal"))
    if rng.random() < 0.25:
        z = near / rng.uniform(near / far, 0.95)
        ray = shot.level_ray(rng.uniform(0.1, 0.9), 0.5)
        turn = rng.normal(0, 0.6) + rng.choice([0, np.pi])
        builder.add_thing(placed(screen_thing(rng, z * rng.uniform(0.3, 1.0)), at=(ray[0] * z, floor, z), turn=turn))


def _floor(builder: SceneBuilder, floor: float, reach: float, distance: float) -> None:
    rng = builder.rng
    ground = moved(
        plane(2 * reach, 2 * reach, rows=24, columns=24), rotation=pitch(-np.pi / 2) @ roll(rng.uniform(0, 6))
    )
    ground = moved(ground, translation=(0, floor, 0))
    builder.add(
        ground, builder.stock.material(rng, "floor"), turn=False, keep=True, distance=distance, texel=(0.35, 1.6)
    )


def _before_a_wall(
    builder: SceneBuilder,
    *,
    reach: tuple[float, float],
    floor: tuple[float, float],
    wall: tuple[float, float],
    tilted: bool,
) -> tuple[float, float, float]:
    """A floor that ends at a wall; gives the depth of the farthest things, the floor's height and the wall's depth.

    Ranges to draw from: that depth over the nearest one, the depth at which the floor comes into view over the nearest
    one, the wall's depth over that of the farthest things. With `tilted` the wall leans too.
    """
    rng, near = builder.rng, builder.shot.near
    far = near * np.exp(rng.uniform(np.log(reach[0]), np.log(reach[1])))
    level = floor_height(builder, near * rng.uniform(*floor))
    _floor(builder, level, 6 * far, np.sqrt(near * far))
    behind = far * rng.uniform(*wall)
    rotation = yaw(rng.normal(0, 0.3)) @ pitch(rng.normal(0, 0.1) if tilted else 0.0)
    board = moved(plane(12 * far, 12 * far, rows=4, columns=4), rotation=rotation, translation=(0, 0, behind))
    builder.add(board, builder.stock.material(rng, "wall"), turn=False, distance=behind, keep=True, texel=(0.4, 2.0))
    return far, level, behind


def panel(
    builder: SceneBuilder,
    turn: float,
    far: float,
    floor: float,
    material: Material,
    *,
    size: tuple[float, float] = (0.1, 0.45),
) -> None:
    """Something flat on the wall at the depth `far`, turned by `turn`: a picture, a window, a door.

    `size` is the range of its sides over `far`.
    """
    rng = builder.rng
    wide, high = far * rng.uniform(*size, 2)
    x = builder.shot.level_ray(rng.uniform(0, 1), 0.5)[0] * far
    picture = box(wide, high, far * rng.uniform(0.005, 0.05))
    rotation = yaw(turn)
    on_wall = rotation @ np.array([x, 0.0, -0.03 * far])
    at = (on_wall[0], floor - far * rng.uniform(0.3, 1.0), far + on_wall[2])
    builder.add(moved(picture, rotation=rotation, translation=at), material, turn=False)


def _slant(rng: np.random.Generator, spread: float) -> Floats:
    return np.asarray(yaw(rng.normal(0, spread)) @ pitch(rng.normal(0, spread)) @ roll(rng.normal(0, 0.4)))
