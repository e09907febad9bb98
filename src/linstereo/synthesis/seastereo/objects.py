"""The bundled foreground objects: everyday things such as end up on the sea floor, varied by seed.

They stand on z = 0 about the origin, their longest side roughly 1 m.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from linstereo.synthesis.furniture import bicycle, chair, table
from linstereo.synthesis.mesh_tools import moved, pitch, roll
from linstereo.synthesis.scene import Mesh
from linstereo.synthesis.seastereo.parts import Colour, Look, Part, upright
from linstereo.synthesis.shapes import box, cylinder, lathe, rod, torus

Thing = list[Part]

_WOODS: tuple[Colour, ...] = ((0.42, 0.24, 0.11), (0.30, 0.17, 0.08), (0.55, 0.38, 0.20), (0.20, 0.11, 0.06))
_PAINTS: tuple[Colour, ...] = (
    (0.75, 0.74, 0.70),
    (0.55, 0.05, 0.04),
    (0.05, 0.20, 0.45),
    (0.75, 0.48, 0.05),
    (0.08, 0.33, 0.14),
    (0.70, 0.25, 0.05),
    (0.12, 0.12, 0.13),
    (0.45, 0.62, 0.68),
)


def bundled_object(rng: np.random.Generator) -> tuple[str, Thing]:
    """A random one of the bundled objects, and its name."""
    name = str(rng.choice(sorted(OBJECTS)))
    return name, OBJECTS[name](rng)


def _look(rng: np.random.Generator, *kinds: str) -> Look:
    kind = str(rng.choice(kinds))
    palette = _WOODS if kind == "wood" else ((0.35, 0.35, 0.36), (0.5, 0.45, 0.36)) if kind == "metal" else _PAINTS
    base = np.array(palette[rng.integers(len(palette))])
    red, green, blue = np.clip(base * rng.uniform(0.85, 1.15, 3), 0.02, 0.85)
    return Look(kind, (float(red), float(green), float(blue)), float(rng.uniform(0, 100)))


def _block(width: float, height: float, depth: float, at: tuple[float, float, float]) -> Mesh:
    """A box whose lower side is at the height at[1] above the ground, its middle at at[0] and at[2]."""
    return moved(box(width, height, depth), translation=(at[0], -at[1] - height / 2, at[2]))


def _armchair(rng: np.random.Generator) -> Thing:
    wide, deep, seat = 0.85, 0.8, rng.uniform(0.30, 0.38)
    arm, tall = rng.uniform(0.10, 0.16), rng.uniform(0.8, 1.0)
    lean = roll(0.0) @ pitch(-rng.uniform(0.1, 0.28))
    back = moved(box(wide - 2 * arm, tall - seat, 0.14), translation=(0, -(tall - seat) / 2, 0))
    cushions = [
        _block(wide - 2 * arm, 0.15, deep - 0.12, (0, seat - 0.06, -0.05)),
        moved(back, rotation=lean, translation=(0, -seat, deep / 2 - 0.14)),
    ]
    frame = [_block(arm, seat + 0.22, deep, (s * (wide - arm) / 2, 0.08, 0)) for s in (-1, 1)]
    frame.append(_block(wide - 2 * arm, 0.14, deep - 0.1, (0, 0.1, 0)))
    frame += [_block(0.06, 0.1, 0.06, (sx * 0.36, 0, sz * 0.34)) for sx in (-1, 1) for sz in (-1, 1)]
    return [
        upright(cushions, _look(rng, "cloth"), smooth=False),
        upright(frame, _look(rng, "wood", "cloth"), smooth=False),
    ]


def _deck_chair(rng: np.random.Generator) -> Thing:
    slats, wide, seat = int(rng.integers(5, 9)), 0.62, 0.36
    boards = [_block(wide, 0.022, 0.075, (0, seat, -0.33 + 0.09 * k)) for k in range(7)]
    lean = pitch(-rng.uniform(0.35, 0.6))
    tall = 0.72
    for k in range(slats):
        x = wide * ((k + 0.5) / slats - 0.5)
        board = moved(box(wide / slats * 0.72, tall, 0.022), translation=(0, -tall / 2, 0))
        boards.append(moved(board, rotation=lean, translation=(x, -seat, 0.26)))
    frame = [_block(0.05, seat + 0.22, 0.05, (sx * 0.36, 0, sz * 0.33)) for sx in (-1, 1) for sz in (-1, 1)]
    frame += [_block(0.11, 0.025, 0.86, (s * 0.37, seat + 0.22, 0)) for s in (-1, 1)]
    frame += [_block(0.03, 0.05, 0.7, (s * 0.31, seat - 0.05, 0)) for s in (-1, 1)]
    paint = _look(rng, "wood", "paint")
    return [upright(boards, paint, smooth=False), upright(frame, _look(rng, "wood"), smooth=False)]


def _chair(rng: np.random.Generator) -> Thing:
    return [upright(chair(rng, 1.0), _look(rng, "wood", "paint", "metal"), smooth=False)]


def _table(rng: np.random.Generator) -> Thing:
    mesh = table(1.0, rng.uniform(0.45, 0.7), rng.uniform(0.5, 0.8), leg=rng.uniform(0.04, 0.08))
    return [upright(mesh, _look(rng, "wood", "paint"), smooth=False)]


def _bench(rng: np.random.Generator) -> Thing:
    boards = [_block(1.3, 0.035, 0.09, (0, 0.4, -0.17 + 0.11 * k)) for k in range(4)]
    boards += [_block(1.3, 0.09, 0.03, (0, 0.55 + 0.13 * k, 0.22 + 0.03 * k)) for k in range(2)]
    legs = [_block(0.06, 0.4, 0.42, (s * 0.5, 0, 0)) for s in (-1, 1)]
    legs += [_block(0.05, 0.4, 0.035, (s * 0.5, 0.4, 0.23)) for s in (-1, 1)]
    return [
        upright(boards, _look(rng, "wood"), smooth=False),
        upright(legs, _look(rng, "metal", "rust", "paint"), smooth=False),
    ]


def _shell(outer: list[tuple[float, float]], wall: float) -> Mesh:
    """An open vessel turned from (radius, height above ground) pairs from the bottom up, with walls of some metres."""
    inner = [(max(radius - wall, 0.0), height) for radius, height in outer[::-1]]
    inner[-1] = (0.0, outer[0][1] + wall)
    inner.insert(-1, (max(outer[0][0] - wall, 0.0), outer[0][1] + wall))
    profile = [(0.0, outer[0][1]), *outer, *inner]
    return lathe(np.array([(radius, -height) for radius, height in profile[::-1]]), sides=40)


def _mug(rng: np.random.Generator) -> Thing:
    radius, tall = 0.24, rng.uniform(0.45, 0.6)
    cup = _shell([(radius * rng.uniform(0.75, 1.0), 0.0), (radius, 0.12 * tall), (radius, tall)], 0.025)
    handle = moved(torus(0.3 * tall, 0.035), translation=(radius + 0.05, -0.5 * tall, 0))
    return [upright([cup, handle], _look(rng, "ceramic"))]


def _amphora(rng: np.random.Generator) -> Thing:
    belly = rng.uniform(0.2, 0.27)
    outer = [(0.07, 0.0), (0.09, 0.06), (0.7 * belly, 0.2), (belly, 0.45), (0.85 * belly, 0.62)]
    outer += [(0.09, 0.76), (0.075, 0.86), (0.11, 0.95), (0.11, 0.98)]
    steps = np.linspace(0, len(outer) - 1, 36)
    knots = np.array(outer)
    radii = np.interp(steps, np.arange(len(knots)), knots[:, 0])
    radii = np.convolve(np.pad(radii, 2, mode="edge"), np.array([1, 3, 4, 3, 1]) / 12, mode="valid")
    heights = np.interp(steps, np.arange(len(knots)), knots[:, 1])
    body = _shell(list(zip(radii.tolist(), heights.tolist(), strict=True)), 0.02)
    handles = [moved(torus(0.11, 0.02), translation=(s * 0.16, -0.75, 0)) for s in (-1, 1)]
    clay = Look("ceramic", (float(rng.uniform(0.35, 0.5)), 0.2, 0.1), float(rng.uniform(0, 100)))
    return [upright([body, *handles], clay)]


def _barrel(rng: np.random.Generator) -> Thing:
    t = np.linspace(0, 1, 15)
    radii = 0.27 + 0.06 * np.sin(np.pi * t)
    body = _shell(list(zip(radii.tolist(), (0.85 * t).tolist(), strict=True)), 0.03)
    hoops = []
    for at in (0.12, 0.3, 0.7, 0.88):
        ring = torus(0.275 + 0.06 * float(np.sin(np.pi * at)), 0.012, sides=40, tube_sides=6)
        hoops.append(moved(ring, rotation=pitch(np.pi / 2), translation=(0, -0.85 * at, 0)))
    return [upright(body, _look(rng, "wood", "paint")), upright(hoops, Look("rust", (0.25, 0.12, 0.06)))]


def _crate(rng: np.random.Generator) -> Thing:
    side, count = 0.7, int(rng.integers(4, 7))
    gap = rng.uniform(0.1, 0.3)
    boards = []
    for k in range(count):
        at, width = side * ((k + 0.5) / count - 0.5), side / count * (1 - gap)
        for s in (-1, 1):
            boards.append(_block(side, width, 0.025, (0, at + side / 2 - width / 2, s * side / 2)))
            boards.append(_block(0.025, width, side, (s * side / 2, at + side / 2 - width / 2, 0)))
        boards.append(_block(width, 0.025, side, (at, 0, 0)))
        if rng.random() < 0.8:
            boards.append(_block(width, 0.025, side, (at, side, 0)))
    posts = [
        _block(0.05, side, 0.05, (sx * (side / 2 - 0.04), 0, sz * (side / 2 - 0.04)))
        for sx in (-1, 1)
        for sz in (-1, 1)
    ]
    return [upright(boards + posts, _look(rng, "wood"), smooth=False)]


def _tyre(rng: np.random.Generator) -> Thing:
    ring = moved(torus(0.36, 0.12, sides=48), rotation=pitch(np.pi / 2), translation=(0, -0.12, 0))
    return [upright(ring, Look("cloth", (0.03, 0.03, 0.035), float(rng.uniform(0, 100))))]


def _anchor(rng: np.random.Generator) -> Thing:
    tall, reach = 1.1, rng.uniform(0.35, 0.45)
    angle = np.linspace(np.radians(200), np.radians(340), 16)
    arc = np.stack([reach * np.cos(angle), -0.45 - reach * np.sin(angle), 0 * angle], axis=1)
    parts = [rod(arc[:-1], arc[1:], 0.045), rod(np.array([0.0, -0.05, 0.0]), np.array([0.0, -tall, 0.0]), 0.045)]
    parts.append(rod(np.array([-0.3, -0.9 * tall, 0.0]), np.array([0.3, -0.9 * tall, 0.0]), 0.035))
    parts.append(moved(torus(0.09, 0.025), translation=(0, -tall - 0.08, 0)))
    for s in (-1, 1):
        fluke = moved(cylinder(0.13, 0.2, top_radius=0.0, sides=4), rotation=roll(s * 0.5))
        parts.append(moved(fluke, translation=(s * reach * 0.94, -0.5 + 0.34 * reach, 0)))
    return [upright(parts, Look("rust", (0.22, 0.11, 0.06), float(rng.uniform(0, 100))))]


def _bottle(rng: np.random.Generator) -> Thing:
    radius = rng.uniform(0.09, 0.13)
    outer = [(radius, 0.0), (radius, 0.34), (0.35 * radius, 0.5), (0.32 * radius, 0.66), (0.42 * radius, 0.68)]
    glass = Look("ceramic", (0.05, float(rng.uniform(0.15, 0.3)), 0.1), float(rng.uniform(0, 100)))
    return [upright(_shell(outer, 0.012), glass)]


def _shelf(rng: np.random.Generator) -> Thing:
    tall, wide, deep = 1.2, rng.uniform(0.5, 0.8), 0.3
    boards = [_block(0.03, tall, deep, (s * wide / 2, 0, 0)) for s in (-1, 1)]
    boards += [_block(wide, 0.03, deep, (0, float(y), 0)) for y in np.linspace(0, tall - 0.03, int(rng.integers(3, 6)))]
    boards.append(_block(wide, tall, 0.012, (0, 0, deep / 2)))
    return [upright(boards, _look(rng, "wood", "paint"), smooth=False)]


def _bicycle(rng: np.random.Generator) -> Thing:
    return [upright(bicycle(1.5), _look(rng, "rust", "paint", "metal"))]


OBJECTS: Mapping[str, Callable[[np.random.Generator], Thing]] = MappingProxyType(
    {
        "amphora": _amphora,
        "anchor": _anchor,
        "armchair": _armchair,
        "barrel": _barrel,
        "bench": _bench,
        "bicycle": _bicycle,
        "bottle": _bottle,
        "chair": _chair,
        "crate": _crate,
        "deck chair": _deck_chair,
        "mug": _mug,
        "shelf": _shelf,
        "table": _table,
        "tyre": _tyre,
    }
)
