"""Flying things, streets and open country."""

import numpy as np

from linstereo.synthesis.furniture import fence
from linstereo.synthesis.growth import cable
from linstereo.synthesis.indoor_scenes import floor_height
from linstereo.synthesis.mesh_files import MeshFolder
from linstereo.synthesis.mesh_tools import Floats, joined, moved, pitch, yaw
from linstereo.synthesis.scene import Mesh
from linstereo.synthesis.scene_builder import SceneBuilder
from linstereo.synthesis.shapes import boulder, box, plane, terrain
from linstereo.synthesis.things import (
    Thing,
    bush_thing,
    car_thing,
    floating_thing,
    person_thing,
    placed,
    pole_thing,
    small_thing,
    tree_thing,
)


def fill_flying(builder: SceneBuilder, meshes: MeshFolder | None) -> None:
    """Many textured things floating at all depths and angles, often before large planes or a ground."""
    rng, shot, near = builder.rng, builder.shot, builder.shot.near
    far = near * np.exp(rng.uniform(np.log(2.5), np.log(25)))
    if rng.random() < 0.6:
        slant = yaw(rng.normal(0, 0.35)) @ pitch(rng.normal(0, 0.3))
        wall = moved(plane(16 * far, 16 * far, rows=6, columns=6), rotation=slant, translation=(0, 0, far * 1.1))
        builder.add(wall, builder.stock.material(rng, "any"), distance=far, keep=True)
    if rng.random() < 0.4:
        floor = floor_height(builder, near * rng.uniform(1.05, 2.5))
        ground = moved(
            plane(20 * far, 20 * far, rows=24, columns=24), rotation=pitch(-np.pi / 2), translation=(0, floor, 0)
        )
        builder.add(ground, builder.stock.material(rng, "any"), distance=far / 2, keep=True)
    for z in near / rng.uniform(near / far, 0.97, int(rng.integers(12, 48))):
        size = z * np.exp(rng.uniform(np.log(0.06), np.log(0.9)))
        at = shot.level_ray(rng.uniform(-0.1, 1.1), rng.uniform(-0.1, 1.1)) * z
        thing = floating_thing(rng, size, meshes)
        own = rng.random() < 0.4
        builder.add_thing([(moved(mesh, translation=at), use if own else "any") for mesh, use in thing])


def fill_road(builder: SceneBuilder, meshes: MeshFolder | None) -> None:
    """A street: road, kerbs, house fronts, poles, trees, cars, people, wires."""
    rng, shot, near = builder.rng, builder.shot, builder.shot.near
    floor = floor_height(builder, near * rng.uniform(1.0, 1.6))
    far = near * rng.uniform(12, 40)
    heading = yaw(rng.normal(0, 0.12))
    half = floor * rng.uniform(1.5, 4.5)
    road = moved(
        plane(2 * half, 2 * far, rows=48, columns=6), rotation=heading @ pitch(-np.pi / 2), translation=(0, floor, 0)
    )
    builder.add(
        road,
        builder.stock.material(rng, "road", strong=True),
        turn=False,
        keep=True,
        distance=near * 2,
        texel=(0.4, 1.5),
    )
    kerb = floor * rng.uniform(0.02, 0.12)
    for side in (-1, 1):
        verge = heading @ np.array([side * (half + 20 * half), 0.0, 0.0])
        lawn = moved(
            plane(40 * half, 2 * far, rows=48, columns=12),
            rotation=heading @ pitch(-np.pi / 2),
            translation=(verge[0], floor - kerb, verge[2]),
        )
        use = str(rng.choice(["road", "leaf", "sand", "floor"]))
        builder.add(lawn, builder.stock.material(rng, use, strong=True), keep=True, distance=near * 2, texel=(0.4, 1.5))
        step = moved(
            box(0.3 * kerb, kerb, 2 * far), rotation=heading, translation=(heading @ (side * half, floor - kerb / 2, 0))
        )
        builder.add(step, builder.stock.material(rng, "plain"), keep=True, distance=near * 2)
        if rng.random() < 0.75:
            _houses(builder, heading, side, half, floor, far)
    if rng.random() < 0.6:
        _lane_marks(builder, heading, half, floor, far)
    for _ in range(int(rng.integers(8, 34))):
        z = near / rng.uniform(near / far * 1.5, 1.0)
        side = rng.choice([-1, 1])
        off = half * rng.uniform(0.75, 2.2)
        kind = rng.choice(
            ["car", "pole", "tree", "person", "bush", "fence", "small"], p=[0.24, 0.25, 0.16, 0.1, 0.1, 0.07, 0.08]
        )
        if kind == "car":
            off = half * rng.uniform(0.3, 0.95)
        thing = _street_thing(rng, str(kind), floor, meshes)
        turn = np.pi / 2 + rng.normal(0, 0.1) if kind in ("car", "fence") else rng.uniform(0, 6)
        at = heading @ np.array([side * off, floor - (kerb if off > half else 0.0), z])
        builder.add_thing(placed(thing, at=(at[0], at[1], at[2]), turn=turn))
    for _ in range(int(rng.integers(0, 5))):
        y, z = -floor * rng.uniform(1.0, 4.0), near * rng.uniform(1.5, 8)
        ends = np.array([[-6 * half, y, z], [6 * half, y * rng.uniform(0.8, 1.2), z * rng.uniform(0.6, 1.8)]])
        thin = 0.5 * z / shot.focal * shot.width / 640 * rng.uniform(0.8, 2.5)
        builder.add(cable(ends[0], ends[1], thin, sag=0.03), builder.stock.material(rng, "plain"))


def fill_country(builder: SceneBuilder, meshes: MeshFolder | None) -> None:
    """Uneven ground with rocks, bushes, trees and grass under the sky."""
    rng, near = builder.rng, builder.shot.near
    floor = floor_height(builder, near * rng.uniform(1.2, 2.0))
    far = near * rng.uniform(8, 30)
    relief = floor * rng.uniform(0.1, 0.7)
    ground = moved(
        terrain(rng, (-1.5 * far, 1.5 * far), (0.3 * near, far), relief=relief, hills=int(2 ** rng.integers(3, 6))),
        translation=(0, floor + 0.3 * relief, 0),
    )
    builder.add(
        ground, builder.stock.material(rng, "sand", strong=True), keep=True, distance=2 * near, texel=(0.4, 1.6)
    )
    for z in near / rng.uniform(near / far, 0.95, int(rng.integers(12, 40))):
        x = builder.shot.level_ray(rng.uniform(-0.1, 1.1), 0.5)[0] * z
        size = floor * np.exp(rng.uniform(np.log(0.2), np.log(1.6)))
        kind = rng.choice(["rock", "bush", "tree", "post", "small"], p=[0.3, 0.32, 0.16, 0.12, 0.1])
        thing: Thing
        if kind == "rock":
            thing = [(boulder(rng, size * 0.6, jagged=rng.uniform(0.2, 0.9), rings=16), "rock")]
        elif kind == "bush":
            thing = bush_thing(rng, size)
        elif kind == "tree":
            thing = tree_thing(rng, floor * rng.uniform(1.5, 4))
        elif kind == "post":
            thing = pole_thing(rng, floor * rng.uniform(0.6, 2))
        else:
            thing = small_thing(rng, size, meshes)
        builder.add_thing(placed(thing, at=(x, floor + 0.1 * relief, z), turn=rng.uniform(0, 6)))


def _street_thing(rng: np.random.Generator, kind: str, floor: float, meshes: MeshFolder | None) -> Thing:
    if kind == "car":
        return car_thing(rng, floor * rng.uniform(2.2, 3.2))
    if kind == "pole":
        return pole_thing(rng, floor * rng.uniform(1.5, 5))
    if kind == "tree":
        return tree_thing(rng, floor * rng.uniform(2.5, 6))
    if kind == "person":
        return person_thing(rng, floor * rng.uniform(0.95, 1.15))
    if kind == "bush":
        return bush_thing(rng, floor * rng.uniform(0.4, 1.2))
    if kind == "fence":
        height = floor * rng.uniform(0.5, 0.9)
        return [(fence(height * 6, height, bars=int(rng.integers(15, 40)), thickness=0.04 * height), "metal")]
    return small_thing(rng, floor * rng.uniform(0.2, 0.8), meshes)


def _houses(
    builder: SceneBuilder,
    heading: Floats,
    side: int,
    half: float,
    floor: float,
    far: float,
) -> None:
    rng = builder.rng
    z = builder.shot.near * rng.uniform(0.2, 2.0)
    away = half * rng.uniform(1.4, 3.0)
    while z < far:
        long, tall, deep = floor * rng.uniform(3, 9), floor * rng.uniform(2, 8), floor * rng.uniform(3, 6)
        if rng.random() < 0.85:
            at = heading @ np.array(
                [side * (away + deep / 2 + rng.uniform(0, 0.5) * floor), floor - tall / 2, z + long / 2]
            )
            house = moved(box(deep, tall, long), rotation=heading, translation=at)
            builder.add(
                house,
                builder.stock.material(rng, "facade"),
                turn=False,
                distance=max(z, builder.shot.near),
                texel=(0.5, 2.0),
            )
            if rng.random() < 0.5:
                panes = moved(_windows(rng, floor, tall, long), rotation=yaw(np.pi / 2))
                front = heading @ np.array([-side * (deep / 2 + 0.005 * floor), 0.0, 0.0])
                use = str(rng.choice(["dark", "plain", "paint", "any"], p=[0.5, 0.2, 0.15, 0.15]))
                builder.add_thing([(moved(panes, rotation=heading, translation=at + front), use)])
        z += long * (1.0 if rng.random() < 0.7 else 1.5)


def _windows(rng: np.random.Generator, storey: float, tall: float, long: float) -> Mesh:
    """Rows of plain panes in the x-y plane, about the middle of a wall of `long` x `tall` metres."""
    rows, columns = max(1, int(tall / storey)), int(rng.integers(1, 7))
    high, wide = (rng.uniform(0.3, 0.75, 2) * (tall / rows, long / columns)).tolist()
    y, x = (np.arange(rows) + 0.5) / rows - 0.5, (np.arange(columns) + 0.5) / columns - 0.5
    return joined([moved(plane(wide, high), translation=(u * long, v * tall, 0)) for v in y for u in x])


def _lane_marks(builder: SceneBuilder, heading: Floats, half: float, floor: float, far: float) -> None:
    rng = builder.rng
    dash, paint = floor * rng.uniform(1.0, 2.5), builder.stock.material(rng, "plain")
    offset = half * rng.uniform(-0.3, 0.3)
    for z in np.arange(0.5 * builder.shot.near, far, 2.5 * dash)[:12]:
        at = heading @ np.array([offset, floor * 0.998, z])
        mark = moved(plane(0.08 * floor, dash), rotation=heading @ pitch(-np.pi / 2), translation=at)
        builder.add(mark, paint)
