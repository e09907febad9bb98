"""Random things to fill scenes with: each is one or more meshes and what they are made of."""

from collections.abc import Callable

import numpy as np

from linstereo.synthesis.furniture import bicycle, books, car, chair, fence, lattice, person, pole, shelf, table
from linstereo.synthesis.growth import blades, brain, branches, bush, cable, fish, rope, sea_fan, tree, tube_sponge
from linstereo.synthesis.mesh_files import MeshFolder
from linstereo.synthesis.mesh_tools import joined, moved, pitch, random_rotation, stretched, yaw
from linstereo.synthesis.openwork import machine, perforated, slats, spray
from linstereo.synthesis.scene import Mesh
from linstereo.synthesis.shapes import (
    boulder,
    box,
    cutout,
    cylinder,
    plane,
    prism,
    random_contour,
    rod,
    sheet,
    sphere,
    standing,
    torus,
    tubes,
    turned,
)

Thing = list[tuple[Mesh, str]]
"""Meshes standing on y = 0 about the origin, each with its use (see `MaterialStock.material`)."""
Maker = Callable[[np.random.Generator, float], Thing]
FILE_USES = ("any", "any", "plain", "plain", "wood", "metal", "cloth", "paint", "dark", "print")
"""What the parts of meshes from files are made of."""


def small_thing(rng: np.random.Generator, size: float, meshes: MeshFolder | None = None) -> Thing:
    """Something that lies about on tables and floors, at most about `size` metres large."""
    if meshes is not None and rng.random() < 0.35:
        return file_thing(rng, size, meshes)
    return _pick(rng, SMALL)(rng, size)


def file_thing(rng: np.random.Generator, size: float, meshes: MeshFolder) -> Thing:
    """A mesh from the folder, upright on y = 0, `size` metres large, its texture coordinates in metres.

    Its parts are of different materials.
    """
    parts = meshes.random(rng)
    rotation = yaw(rng.uniform(0, 2 * np.pi))
    turned_parts = [
        moved(Mesh(p.vertices, p.faces, p.uv * np.float32(size), p.normals), rotation=rotation, scale=size)
        for p in parts
    ]
    corners = np.concatenate([part.vertices for part in turned_parts])
    low, high = corners.min(axis=0), corners.max(axis=0)
    foot = (-(low[0] + high[0]) / 2, -high[1], -(low[2] + high[2]) / 2)
    return [(moved(part, translation=foot), str(rng.choice(FILE_USES))) for part in turned_parts]


def floating_thing(rng: np.random.Generator, size: float, meshes: MeshFolder | None = None) -> Thing:
    """Anything at all, turned any way about the origin, at most about `size` metres large."""
    if meshes is not None and rng.random() < 0.4:
        thing = file_thing(rng, size, meshes)
    else:
        thing = _pick(rng, FLOATING)(rng, size)
    corners = np.concatenate([mesh.vertices for mesh, _ in thing])
    low, high = corners.min(axis=0), corners.max(axis=0)
    factor = size / max(float(np.linalg.norm(high - low)), 1e-9)
    turn = random_rotation(rng)
    return [(moved(moved(m, translation=-(low + high) / 2), rotation=turn, scale=factor), use) for m, use in thing]


def placed(thing: Thing, *, at: tuple[float, float, float], turn: float = 0.0) -> Thing:
    """The thing turned about the vertical by radians and moved."""
    return [(moved(mesh, rotation=yaw(turn), translation=at), use) for mesh, use in thing]


def _carton(rng: np.random.Generator, size: float) -> Thing:
    sides = size * rng.uniform(0.2, 1.0, 3)
    return [(moved(box(*sides), translation=(0, -sides[1] / 2, 0)), str(rng.choice(["print", "any", "plain", "wood"])))]


def _stack(rng: np.random.Generator, size: float) -> Thing:
    thing: Thing = []
    top = 0.0
    for _ in range(int(rng.integers(2, 7))):
        tall, wide, deep = size * rng.uniform(0.03, 0.2), size * rng.uniform(0.4, 0.9), size * rng.uniform(0.3, 0.7)
        slab = moved(box(wide, tall, deep), rotation=yaw(rng.normal(0, 0.25)), translation=(0, -top - tall / 2, 0))
        thing.append((slab, str(rng.choice(["print", "plain", "any"]))))
        top += tall
    return thing


def _bottle(rng: np.random.Generator, size: float) -> Thing:
    return [(turned(rng, size * rng.uniform(0.1, 0.35), size), str(rng.choice(["plain", "metal", "any", "print"])))]


def _ball(rng: np.random.Generator, size: float) -> Thing:
    radius = size * rng.uniform(0.2, 0.5)
    ball = stretched(sphere(radius, rings=14), rng.uniform(0.6, 1.0, 3).tolist() if rng.random() < 0.5 else (1, 1, 1))
    return [(standing(ball), str(rng.choice(["plain", "any", "pattern", "print"])))]


def _can(rng: np.random.Generator, size: float) -> Thing:
    top = rng.choice([1.0, 1.0, 0.0, 0.6])
    radius = size * rng.uniform(0.12, 0.4)
    mesh = cylinder(radius, size * rng.uniform(0.3, 1.0), top_radius=radius * top)
    if rng.random() < 0.25:
        mesh = moved(mesh, rotation=pitch(np.pi / 2))
    return [(standing(mesh), str(rng.choice(["print", "metal", "any", "plain"])))]


def _prism(rng: np.random.Generator, size: float) -> Thing:
    mesh = prism(random_contour(rng, size / 2), size * rng.uniform(0.05, 0.5))
    if rng.random() < 0.5:
        mesh = moved(mesh, rotation=pitch(np.pi / 2))
    return [(standing(mesh), "any")]


def _ring(rng: np.random.Generator, size: float) -> Thing:
    mesh = torus(size * 0.4, size * rng.uniform(0.02, 0.12))
    return [(standing(moved(mesh, rotation=pitch(rng.uniform(0, np.pi / 2)))), str(rng.choice(["any", "plain"])))]


def _stone(rng: np.random.Generator, size: float) -> Thing:
    return [(standing(boulder(rng, size / 2, jagged=rng.uniform(0.1, 0.8), rings=14)), "rock")]


def _potted(rng: np.random.Generator, size: float) -> Thing:
    pot = size * rng.uniform(0.2, 0.35)
    vessel = moved(cylinder(0.35 * pot, pot, top_radius=0.5 * pot), translation=(0, -pot / 2, 0))
    if rng.random() < 0.5:
        plant = blades(
            rng, int(rng.integers(8, 40)), size - pot, spread=0.3 * pot, width=size * rng.uniform(0.01, 0.1), bend=1.0
        )
    else:
        plant = bush(rng, 0.5 * (size - pot))
    return [(vessel, "plain"), (moved(plant, translation=(0, -pot, 0)), "leaf")]


def _card(rng: np.random.Generator, size: float) -> Thing:
    mesh = sheet(
        rng, size, size * rng.uniform(0.4, 1.2), bend=rng.uniform(-1.5, 1.5), ripple=rng.uniform(0, 0.06), cells=12
    )
    return [(standing(moved(mesh, rotation=pitch(rng.uniform(-0.6, 0.6)))), str(rng.choice(["print", "cloth", "any"])))]


def _flat(rng: np.random.Generator, size: float) -> Thing:
    return [(standing(cutout(random_contour(rng, size / 2))), "any")]


def _sticks(rng: np.random.Generator, size: float) -> Thing:
    count = int(rng.integers(1, 7))
    foot = rng.normal(0, 0.12 * size, (count, 3)) * (1, 0, 1)
    tip = foot + rng.normal(0, 0.25 * size, (count, 3)) * (1, 0, 1)
    tip[:, 1] = -size * rng.uniform(0.5, 1.0, count)
    radius = size * np.exp(rng.uniform(np.log(0.004), np.log(0.03)))
    return [
        (tubes(np.stack([foot, tip], axis=1), np.array([radius]), sides=6), str(rng.choice(["wood", "metal", "any"])))
    ]


def _loop(rng: np.random.Generator, size: float) -> Thing:
    start, end = rng.uniform(-0.5, 0.5, (2, 3)) * size
    start[1], end[1] = -size * rng.random(2)
    mesh = rope(rng, start, end, size * rng.uniform(0.006, 0.03), slack=rng.uniform(0.1, 0.6))
    return [(standing(mesh), str(rng.choice(["plain", "any", "cloth"])))]


def _grille(rng: np.random.Generator, size: float) -> Thing:
    thin = size * rng.uniform(0.008, 0.03)
    if rng.random() < 0.5:
        mesh = lattice(
            size,
            size * rng.uniform(0.5, 1),
            rows=int(rng.integers(4, 12)),
            columns=int(rng.integers(4, 14)),
            thickness=thin,
        )
    else:
        mesh = fence(size, size * rng.uniform(0.4, 1), bars=int(rng.integers(5, 16)), thickness=thin)
    return [(mesh, str(rng.choice(["metal", "wood", "plain"])))]


def screen_thing(rng: np.random.Generator, size: float) -> Thing:
    """A board with gaps or holes, or a bunch of leaves: the background shows through."""
    kind = rng.integers(3)
    if kind == 0:
        return [(slats(rng, size, size * rng.uniform(0.4, 1.2)), str(rng.choice(["wood", "plain", "any", "metal"])))]
    if kind == 1:
        board = perforated(rng, size, size * rng.uniform(0.4, 1.2))
        return [(board, str(rng.choice(["metal", "plain", "any", "print"])))]
    twigs, leaves = spray(rng, size)
    return [(twigs, "wood"), (leaves, "leaf")]


def open_thing(rng: np.random.Generator, size: float, meshes: MeshFolder | None = None) -> Thing:
    """Something large with gaps, standing: a machine, a plant, a rack, a chair, a bicycle, a screen, or any mesh."""
    if meshes is not None and rng.random() < 0.5:
        return file_thing(rng, size, meshes)
    return _pick(rng, OPEN)(rng, size)


def furniture_thing(rng: np.random.Generator, size: float, meshes: MeshFolder | None = None) -> Thing:
    """A piece of furniture, or any mesh, standing."""
    if meshes is not None and rng.random() < 0.5:
        return file_thing(rng, size, meshes)
    return _pick(rng, FURNITURE)(rng, size)


def _machine(rng: np.random.Generator, size: float) -> Thing:
    uses = ["metal", "dark", "paint", "plain", "any", "print"]
    return [(mesh, str(rng.choice(uses))) for mesh in machine(rng, size)]


def _agave(rng: np.random.Generator, size: float) -> Thing:
    count, width = int(rng.integers(8, 30)), size * rng.uniform(0.08, 0.2)
    return [(blades(rng, count, size, spread=0.1 * size, width=width, bend=rng.uniform(0.8, 1.6), steps=7), "leaf")]


def _chair(rng: np.random.Generator, size: float) -> Thing:
    return [(chair(rng, size), str(rng.choice(["wood", "plain", "metal", "cloth"])))]


def _table(rng: np.random.Generator, size: float) -> Thing:
    mesh = table(size, size * rng.uniform(0.4, 0.8), size * rng.uniform(0.4, 0.9), leg=size * rng.uniform(0.03, 0.07))
    return [(mesh, str(rng.choice(["wood", "plain", "any"])))]


def _shelf(rng: np.random.Generator, size: float) -> Thing:
    wide, deep = size * rng.uniform(0.4, 0.8), size * rng.uniform(0.2, 0.35)
    thing: Thing = [(shelf(rng, wide, size, deep), str(rng.choice(["wood", "plain"])))]
    for level in (0.03, 0.36, 0.68):
        if rng.random() < 0.7:
            row = books(rng, wide * 0.9, size * 0.26, deep * 0.8)
            thing += [
                (moved(mesh, translation=(0, -level * size, 0)), str(rng.choice(["print", "plain", "any"])))
                for mesh in row
            ]
    return thing


def _branch(rng: np.random.Generator, size: float) -> Thing:
    mesh = branches(rng, size, thickness=size * rng.uniform(0.015, 0.05), generations=int(rng.integers(3, 5)))
    return [(mesh, str(rng.choice(["wood", "rock", "any"])))]


def _bicycle(rng: np.random.Generator, size: float) -> Thing:
    return [(bicycle(size), "metal")]


def _pane(rng: np.random.Generator, size: float) -> Thing:
    mesh = plane(size, size * rng.uniform(0.5, 1.2))
    return [(standing(moved(mesh, rotation=pitch(rng.uniform(-0.5, 0.5)))), "print")]


def _rod(rng: np.random.Generator, size: float) -> Thing:
    mesh = rod(np.array([-size / 2, 0, 0.0]), np.array([size / 2, 0, 0.0]), size * rng.uniform(0.004, 0.03), sides=8)
    return [(standing(mesh), str(rng.choice(["any", "plain", "pattern"])))]


def car_thing(rng: np.random.Generator, length: float) -> Thing:
    """A car along x with shiny paint, wheels, and windows that are dark, clear or reflect something."""
    body, windows, wheels = car(rng, length)
    return [(body, "paint"), (windows, str(rng.choice(["dark", "glass", "any"], p=[0.5, 0.3, 0.2]))), (wheels, "dark")]


def tree_thing(rng: np.random.Generator, height: float) -> Thing:
    """A tree: trunk and crown."""
    wood, crown = tree(rng, height)
    return [(wood, "wood"), (crown, "leaf")]


def person_thing(rng: np.random.Generator, height: float) -> Thing:
    """Someone standing or walking."""
    return [(person(rng, height), "cloth")]


def pole_thing(rng: np.random.Generator, height: float) -> Thing:
    """A thin street pole, with a lamp, a sign or bare."""
    return [(pole(rng, height, height * rng.uniform(0.008, 0.03)), str(rng.choice(["metal", "plain", "wood"])))]


def bush_thing(rng: np.random.Generator, size: float) -> Thing:
    """A bush, a tuft of grass or a bare shrub."""
    kind = rng.integers(3)
    if kind == 0:
        return [(bush(rng, size / 2), "leaf")]
    if kind == 1:
        width = size * np.exp(rng.uniform(np.log(0.01), np.log(0.06)))
        return [(blades(rng, int(rng.integers(30, 160)), size, spread=0.3 * size, width=width, bend=0.8), "leaf")]
    return [(branches(rng, size, thickness=0.02 * size, generations=5, sides=4), "wood")]


def reef_thing(rng: np.random.Generator, size: float) -> Thing:
    """Something that grows or lies on the sea floor, at most about `size` metres large."""
    return _pick(rng, REEF)(rng, size)


def _staghorn(rng: np.random.Generator, size: float) -> Thing:
    mesh = branches(rng, size, thickness=size * rng.uniform(0.03, 0.07), generations=4, spread=0.6, sides=6)
    return [(mesh, "coral")]


def _kelp(rng: np.random.Generator, size: float) -> Thing:
    width = size * np.exp(rng.uniform(np.log(0.012), np.log(0.09)))
    count = int(rng.integers(6, 70))
    return [(blades(rng, count, size, spread=0.2 * size, width=width, bend=rng.uniform(0.2, 1.2), steps=7), "leaf")]


def _brain(rng: np.random.Generator, size: float) -> Thing:
    return [(brain(rng, size / 2), "coral")]


def _sponge(rng: np.random.Generator, size: float) -> Thing:
    return [(tube_sponge(rng, size), "coral")]


def _fan(rng: np.random.Generator, size: float) -> Thing:
    return [(moved(sea_fan(rng, size), rotation=yaw(rng.normal(0, 0.5))), "coral")]


def _plates(rng: np.random.Generator, size: float) -> Thing:
    thing: Thing = []
    for k in range(int(rng.integers(1, 5))):
        radius = size * rng.uniform(0.25, 0.5)
        disc = prism(random_contour(rng, radius), 0.05 * size)
        tilt = pitch(np.pi / 2 + rng.normal(0, 0.2))
        at = (rng.normal(0, 0.15) * size, -size * (0.15 + 0.2 * k), rng.normal(0, 0.15) * size)
        thing.append((moved(disc, rotation=tilt, translation=at), "coral"))
    return thing


def school(rng: np.random.Generator, size: float) -> Thing:
    """One to a dozen fish of at most about `size` metres, all swimming much the same way, about the origin."""
    mesh, heading = fish(rng, size), rng.uniform(0, 2 * np.pi)
    turns = [yaw(heading + rng.normal(0, 0.2)) for _ in range(int(rng.integers(1, 13)))]
    return [(joined([moved(mesh, rotation=turn, translation=rng.normal(0, 1.5 * size, 3)) for turn in turns]), "coral")]


def _dangling(rng: np.random.Generator, size: float) -> Thing:
    a, b = rng.normal(0, 0.5 * size, (2, 3))
    a[1], b[1] = -size * rng.random(2)
    return [(cable(a, b, size * rng.uniform(0.005, 0.025), sag=0.2), "cloth")]


SMALL: tuple[tuple[Maker, float], ...] = (
    (_carton, 3.0), (_stack, 1.0), (_bottle, 2.5), (_ball, 1.2), (_can, 2.0), (_prism, 1.0), (_ring, 0.8),
    (_stone, 0.7), (_potted, 1.0), (_card, 1.2), (_sticks, 1.5), (_loop, 0.8), (_grille, 0.6), (_chair, 0.4),
    (_shelf, 0.3), (_branch, 0.5), (_pane, 0.7), (_bicycle, 0.3), (screen_thing, 1.2), (_machine, 1.8), (_agave, 0.8),
)  # fmt: skip
FLOATING: tuple[tuple[Maker, float], ...] = (
    (_carton, 3.0), (_bottle, 2.0), (_ball, 1.5), (_can, 1.5), (_prism, 2.0), (_ring, 1.5), (_stone, 2.0),
    (_potted, 0.6), (_card, 2.5), (_flat, 2.0), (_pane, 2.0), (_sticks, 1.2), (_rod, 2.0), (_loop, 1.0),
    (_grille, 1.0), (_chair, 1.2), (_table, 0.8), (_shelf, 0.5), (_branch, 1.2), (_bicycle, 0.6), (car_thing, 0.6),
    (person_thing, 0.4), (bush_thing, 0.6), (screen_thing, 2.0), (_machine, 1.8), (_agave, 0.8),
)  # fmt: skip
OPEN: tuple[tuple[Maker, float], ...] = (
    (_machine, 4.0), (_agave, 1.5), (screen_thing, 3.0), (_potted, 1.0), (_chair, 1.5), (_table, 0.6), (_shelf, 0.8),
    (_bicycle, 1.2), (_branch, 0.8), (_grille, 0.6), (bush_thing, 0.8),
)  # fmt: skip
FURNITURE: tuple[tuple[Maker, float], ...] = (
    (_chair, 2.0),
    (_table, 2.0),
    (_shelf, 1.5),
    (_carton, 1.0),
    (_potted, 0.7),
)
REEF: tuple[tuple[Maker, float], ...] = (
    (_staghorn, 2.0), (_kelp, 3.0), (_brain, 2.0), (_sponge, 1.2), (_fan, 1.2), (_plates, 1.0), (_stone, 3.0),
    (_dangling, 0.4), (bush_thing, 0.6), (_sticks, 0.4), (_bottle, 0.15), (_can, 0.15), (_carton, 0.15), (_ring, 0.2),
)  # fmt: skip


def _pick(rng: np.random.Generator, makers: tuple[tuple[Maker, float], ...]) -> Maker:
    weights = np.array([weight for _, weight in makers])
    return makers[rng.choice(len(makers), p=weights / weights.sum())][0]
