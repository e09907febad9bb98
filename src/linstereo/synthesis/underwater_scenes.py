"""Under water: reefs, boulders, plants, ropes, pilings, pipes, and the open water behind them."""

import numpy as np

from linstereo.synthesis.furniture import lattice
from linstereo.synthesis.growth import rope
from linstereo.synthesis.indoor_scenes import floor_height
from linstereo.synthesis.mesh_files import MeshFolder
from linstereo.synthesis.mesh_tools import moved, pitch, roll, yaw
from linstereo.synthesis.scene_builder import SceneBuilder
from linstereo.synthesis.shapes import boulder, box, cylinder, sheet, terrain
from linstereo.synthesis.things import placed, reef_thing, school, small_thing


def fill_reef(builder: SceneBuilder, meshes: MeshFolder | None) -> None:
    """Sea floor with boulders, corals, plants and ropes."""
    rng, near = builder.rng, builder.shot.near
    far = near * rng.uniform(4, 14)
    floor = _sea_floor(builder, far)
    for z in near / rng.uniform(near / far, 0.95, int(rng.integers(3, 12))):
        x = builder.shot.level_ray(rng.uniform(-0.1, 1.1), 0.5)[0] * z
        size = z * np.exp(rng.uniform(np.log(0.08), np.log(0.5)))
        rock = boulder(rng, size, jagged=rng.uniform(0.2, 1.0), rings=20)
        at = (x, floor - rng.uniform(-0.3, 0.5) * size, z)
        builder.add(
            moved(rock, rotation=yaw(rng.uniform(0, 6)), translation=at),
            builder.stock.material(rng, "rock", strong=True),
        )
    for z in near / rng.uniform(near / far, 1.0, int(rng.integers(10, 45))):
        x = builder.shot.level_ray(rng.uniform(-0.05, 1.05), 0.5)[0] * z
        size = z * np.exp(rng.uniform(np.log(0.06), np.log(0.55)))
        thing = small_thing(rng, size, meshes) if rng.random() < 0.08 else reef_thing(rng, size)
        lift = rng.uniform(0, 0.15) * floor
        builder.add_thing(placed(thing, at=(x, floor - lift, z), turn=rng.uniform(0, 6)))
    _ropes(builder, far)
    _fish(builder, far)


def fill_harbour(builder: SceneBuilder, meshes: MeshFolder | None) -> None:
    """Pilings, walls, pipes, nets and plates overgrown to different degrees."""
    rng, shot, near = builder.rng, builder.shot, builder.shot.near
    far = near * rng.uniform(3, 10)
    floor = _sea_floor(builder, far)
    if rng.random() < 0.5:
        tall = 6 * far
        wall = moved(
            sheet(rng, 10 * far, tall, bend=rng.uniform(-0.3, 0.3), ripple=0.004, cells=31),
            rotation=yaw(rng.normal(0, 0.5)),
            translation=(0, floor - tall / 2 + 1, far * rng.uniform(0.6, 1)),
        )
        builder.add(wall, builder.stock.material(rng, "rock"), distance=far)
    for z in near / rng.uniform(near / far, 0.95, int(rng.integers(2, 9))):
        ray = shot.level_ray(rng.uniform(-0.1, 1.1), 0.5)
        radius, tall = z * rng.uniform(0.02, 0.15), z * rng.uniform(1, 4)
        if rng.random() < 0.6:
            post = moved(
                cylinder(radius, tall, sides=20),
                rotation=roll(rng.normal(0, 0.08)),
                translation=(ray[0] * z, floor - tall / 2, z),
            )
        else:
            lying = roll(np.pi / 2) @ pitch(rng.normal(0, 0.6))
            post = moved(
                cylinder(radius, 2 * tall, sides=20),
                rotation=lying,
                translation=(ray[0] * z, floor - radius * rng.uniform(0, 6), z),
            )
        builder.add(post, builder.stock.material(rng, str(rng.choice(["coral", "metal", "rock", "wood"]))))
    for z in near / rng.uniform(near / far, 1.0, int(rng.integers(5, 22))):
        x = shot.level_ray(rng.uniform(-0.05, 1.05), 0.5)[0] * z
        size = z * np.exp(rng.uniform(np.log(0.06), np.log(0.5)))
        thing = small_thing(rng, size, meshes) if rng.random() < 0.5 else reef_thing(rng, size)
        builder.add_thing(placed(thing, at=(x, floor, z), turn=rng.uniform(0, 6)))
    if rng.random() < 0.35:
        z = near * rng.uniform(1.2, 3)
        size = z * rng.uniform(0.4, 1.2)
        net = lattice(
            size, size, rows=int(rng.integers(5, 14)), columns=int(rng.integers(5, 14)), thickness=size * 0.012
        )
        net = moved(
            net, rotation=yaw(rng.normal(0, 0.5)), translation=(shot.level_ray(rng.random(), 0.5)[0] * z, floor, z)
        )
        builder.add(net, builder.stock.material(rng, "cloth"))
    if rng.random() < 0.5:
        z = near * rng.uniform(1.3, 4)
        slab = moved(
            box(z * rng.uniform(0.3, 1), z * rng.uniform(0.1, 0.6), z * rng.uniform(0.3, 1)),
            rotation=yaw(rng.uniform(0, 6)),
        )
        slab = moved(slab, translation=(shot.level_ray(rng.random(), 0.5)[0] * z, floor, z))
        builder.add(slab, builder.stock.material(rng, "metal"))
    _ropes(builder, far)


def _sea_floor(builder: SceneBuilder, far: float) -> float:
    rng, near = builder.rng, builder.shot.near
    floor = floor_height(builder, near * rng.uniform(1.1, 1.9))
    relief = floor * rng.uniform(0.05, 0.8)
    ground = terrain(
        rng,
        (-2.5 * far, 2.5 * far),
        (0.3 * near, 2.5 * far),
        relief=relief,
        roughness=rng.uniform(0.35, 0.6),
        hills=int(2 ** rng.integers(3, 6)),
    )
    ground = moved(ground, translation=(0, floor + 0.35 * relief, 0))
    use = str(rng.choice(["sand", "rock", "coral"]))
    builder.add(
        ground,
        builder.stock.material(rng, use, strong=bool(rng.random() < 0.8)),
        keep=True,
        distance=2 * near,
        texel=(0.4, 1.8),
    )
    return floor


def _fish(builder: SceneBuilder, far: float) -> None:
    rng, near = builder.rng, builder.shot.near
    for z in near / rng.uniform(near / far, 0.9, int(rng.integers(0, 4))):
        at = builder.shot.level_ray(rng.uniform(0, 1), rng.uniform(0, 0.7)) * z
        thing = school(rng, z * np.exp(rng.uniform(np.log(0.02), np.log(0.2))))
        builder.add_thing(placed(thing, at=(at[0], at[1], at[2])))


def _ropes(builder: SceneBuilder, far: float) -> None:
    rng, shot, near = builder.rng, builder.shot, builder.shot.near
    for _ in range(int(rng.integers(0, 4))):
        one, two = near / rng.uniform(near / far, 0.98, 2)
        start, end = shot.level_ray(*rng.uniform(-0.3, 1.3, 2)) * one, shot.level_ray(*rng.uniform(-0.3, 1.3, 2)) * two
        radius = 0.5 * one / shot.focal * shot.width / 640 * np.exp(rng.uniform(np.log(1.5), np.log(9)))
        builder.add(rope(rng, start, end, radius, slack=rng.uniform(0.0, 0.3)), builder.stock.material(rng, "cloth"))
