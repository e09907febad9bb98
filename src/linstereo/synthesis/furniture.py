"""Things people make, put together from elementary shapes: furniture, fences, street furniture, cars.

They stand on y = 0 with their middle above the origin, unless said otherwise; texture coordinates are metres.
"""

import numpy as np

from linstereo.synthesis.mesh_tools import Floats, joined, moved, pitch, roll, yaw
from linstereo.synthesis.scene import Mesh
from linstereo.synthesis.shapes import box, cylinder, plane, prism, rod, sphere, torus, tubes


def table(width: float, height: float, depth: float, *, leg: float) -> Mesh:
    """A table: a board on four square legs of `leg` metres."""
    top = moved(box(width, 0.6 * leg, depth), translation=(0, -height + 0.3 * leg, 0))
    x, z, tall = width / 2 - leg, depth / 2 - leg, height - 0.6 * leg
    legs = [moved(box(leg, tall, leg), translation=(sx * x, -tall / 2, sz * z)) for sx in (-1, 1) for sz in (-1, 1)]
    return joined([top, *legs])


def chair(rng: np.random.Generator, height: float) -> Mesh:
    """A chair with thin legs and a back of bars or a board; `height` to the top of its back."""
    seat, half, leg = 0.47 * height, 0.23 * height, 0.025 * height
    splay = 1 + rng.uniform(0, 0.15)
    corner = half * np.array([[-1, -1], [1, -1], [-1, 1], [1, 1]])
    feet = np.column_stack([corner[:, 0] * splay, np.zeros(4), corner[:, 1] * splay])
    tops = np.column_stack([corner[:, 0], [-seat, -seat, -height, -height], corner[:, 1]]) * (0.95, 1, 0.95)
    parts = [moved(box(2 * half, 1.2 * leg, 2 * half), translation=(0, -seat, 0)), rod(feet, tops, 0.7 * leg, sides=6)]
    if rng.random() < 0.5:
        parts.append(moved(box(2 * half, 0.3 * height, leg), translation=(0, -0.82 * height, half * 0.95)))
    else:
        x = np.linspace(-half, half, int(rng.integers(3, 8)))
        bar = np.column_stack([x, np.full_like(x, -seat), np.full_like(x, half * 0.95)])
        parts.append(rod(bar, bar * (1, 0, 1) - (0, height, 0), 0.4 * leg, sides=5))
        parts.append(moved(box(2 * half, 2 * leg, leg), translation=(0, -height, half * 0.95)))
    return joined(parts)


def shelf(rng: np.random.Generator, width: float, height: float, depth: float) -> Mesh:
    """An open shelf: uprights, boards, often with a back; open towards -z."""
    board = 0.02 * height
    parts = [moved(box(board, height, depth), translation=(s * width / 2, -height / 2, 0)) for s in (-1, 1)]
    for y in np.linspace(board, height - board, int(rng.integers(3, 7))):
        parts.append(moved(box(width, board, depth), translation=(0, -y, 0)))
    if rng.random() < 0.6:
        parts.append(moved(plane(width, height), translation=(0, -height / 2, depth / 2)))
    return joined(parts)


def books(rng: np.random.Generator, width: float, height: float, depth: float) -> list[Mesh]:
    """A row of books from x = -width / 2 to width / 2, in three meshes that can look different."""
    piles: list[list[Mesh]] = [[], [], []]
    x = -width / 2
    while x < width / 2:
        thick = height * rng.uniform(0.06, 0.28)
        tall = height * rng.uniform(0.6, 1.0)
        book = moved(box(thick * 0.95, tall, depth * rng.uniform(0.6, 1.0)), translation=(0, -tall / 2, 0))
        lean = roll(rng.uniform(-0.15, 0.15)) if rng.random() < 0.2 else None
        piles[rng.integers(3)].append(moved(book, rotation=lean, translation=(x + thick / 2, 0, 0)))
        x += thick * (1.0 if rng.random() < 0.9 else 2.0)
    return [joined(pile) for pile in piles if pile]


def fence(width: float, height: float, *, bars: int, thickness: float, rails: int = 2) -> Mesh:
    """Upright bars with rails across, in the x-y plane: a fence, railing, grating or cot."""
    return _crossed(width, height, bars=bars, levels=height * np.linspace(0.1, 0.95, rails), thickness=thickness)


def lattice(width: float, height: float, *, rows: int, columns: int, thickness: float) -> Mesh:
    """A net of crossing thin bars in the x-y plane."""
    return _crossed(width, height, bars=columns, levels=np.linspace(0, height, rows), thickness=thickness)


def _crossed(width: float, height: float, *, bars: int, levels: Floats, thickness: float) -> Mesh:
    x = np.linspace(-width / 2, width / 2, bars)
    foot, head = (np.column_stack([x, np.full(bars, y), np.zeros(bars)]) for y in (0.0, -height))
    left, right = (
        np.column_stack([np.full(len(levels), end), -levels, np.zeros(len(levels))]) for end in (-width / 2, width / 2)
    )
    return rod(np.vstack([foot, left]), np.vstack([head, right]), thickness / 2, sides=5)


def pole(rng: np.random.Generator, height: float, radius: float) -> Mesh:
    """A street pole: bare, with an arm and a lamp, or with a sign."""
    parts = [moved(cylinder(radius, height, top_radius=0.7 * radius, sides=10), translation=(0, -height / 2, 0))]
    kind = rng.integers(3)
    if kind == 0:
        reach = height * rng.uniform(0.1, 0.35) * rng.choice([-1, 1])
        tip = np.array([reach, -height * 1.03, 0.0])
        parts.append(rod(np.array([0.0, -height, 0.0]), tip, 0.6 * radius, sides=6))
        parts.append(moved(box(0.12 * height, 0.02 * height, 0.05 * height), translation=tip))
    elif kind == 1:
        size = height * rng.uniform(0.12, 0.3)
        corners = int(rng.choice([3, 4, 8, 20]))
        angle = np.linspace(0, 2 * np.pi, corners, endpoint=False) + np.pi / corners
        sign = prism(size * np.stack([np.cos(angle), np.sin(angle)], axis=1), 0.02 * size)
        parts.append(moved(sign, translation=(0, -height + size, -1.2 * radius)))
    return joined(parts)


def car(rng: np.random.Generator, length: float) -> tuple[Mesh, Mesh, Mesh]:
    """A car along x: its body, its windows and its wheels."""
    height, width = length * rng.uniform(0.32, 0.42), length * rng.uniform(0.38, 0.44)
    nose, tail = rng.uniform(0.2, 0.32), rng.uniform(0.7, 0.95)
    waist = 0.55 * height
    low, half = 0.15 * height, length / 2
    hull = np.array(
        [
            (-half, -0.45 * height),
            (-half * 0.9, -waist),
            (half * 0.95, -waist),
            (half, -0.4 * height),
            (half, -low),
            (-half, -low),
        ]
    )
    roof = np.array(
        [
            (-half + length * nose, -waist),
            (-half + length * (nose + 0.14), -height),
            (-half + length * (tail - 0.1), -height),
            (-half + length * tail, -waist),
        ]
    )
    wheel = moved(torus(0.16 * height, 0.08 * height, sides=16, tube_sides=8), translation=(0, -0.23 * height, 0))
    disc = moved(
        cylinder(0.17 * height, 0.1 * height, sides=12), rotation=pitch(np.pi / 2), translation=(0, -0.23 * height, 0)
    )
    wheels = [
        moved(joined([wheel, disc]), translation=(sx * 0.3 * length, 0, sz * width * 0.46))
        for sx in (-1, 1)
        for sz in (-1, 1)
    ]
    glass = roof * (0.985, 1.0) + (0.0, 0.01 * height)
    top = roof[1:3]
    cover = moved(box(top[1, 0] - top[0, 0], 0.05 * height, width * 0.86), translation=(top[:, 0].mean(), -height, 0))
    pillars = rod(
        np.array([[x, -waist, z * width * 0.42] for x in roof[[0, 3], 0] for z in (-1, 1)]),
        np.array([[x, -height, z * width * 0.42] for x in roof[[1, 2], 0] for z in (-1, 1)]),
        0.025 * height,
    )
    return joined([prism(hull, width), cover, pillars]), prism(glass, width * 0.84), joined(wheels)


def person(rng: np.random.Generator, height: float) -> Mesh:
    """A roughly human figure of rounded limbs."""
    hip, neck = -0.5 * height, -0.83 * height
    stride, swing = rng.uniform(-0.15, 0.15, 2) * height
    limb = 0.05 * height
    points = [
        ((0.06 * height, hip, 0), (0.07 * height, 0, stride), 1.3),
        ((-0.06 * height, hip, 0), (-0.07 * height, 0, -stride), 1.3),
        ((0.12 * height, neck, 0), (0.15 * height, hip, swing), 0.8),
        ((-0.12 * height, neck, 0), (-0.15 * height, hip, -swing), 0.8),
        ((0, hip, 0), (0, neck, 0), 2.2),
    ]
    ends = np.array([[a, b] for a, b, _ in points], np.float64)
    limbs = tubes(ends, limb * np.array([[size, size * 0.8] for _, _, size in points]), sides=8)
    head = moved(sphere(0.065 * height, rings=8), translation=(0, -0.93 * height, 0))
    return moved(joined([limbs, head]), rotation=yaw(rng.uniform(0, 2 * np.pi)))


def bicycle(length: float) -> Mesh:
    """Two spoked wheels and a thin frame in the x-y plane."""
    radius, tyre = 0.2 * length, 0.012 * length
    parts = []
    hubs = (np.array([-0.3 * length, -radius, 0.0]), np.array([0.3 * length, -radius, 0.0]))
    angle = np.linspace(0, 2 * np.pi, 14, endpoint=False)
    spokes = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1) * radius
    for hub in hubs:
        parts.append(moved(torus(radius, tyre, sides=28, tube_sides=6), translation=hub))
        parts.append(
            tubes(np.stack([np.broadcast_to(hub, spokes.shape), hub + spokes], axis=1), np.array([0.1 * tyre]), sides=3)
        )
    seat, bar, crank = (np.array([x, y, 0.0]) * length for x, y in ((-0.12, -0.5), (0.22, -0.52), (-0.05, -0.2)))
    ends = [(hubs[0], seat), (seat, bar), (bar, hubs[1]), (crank, seat), (crank, bar), (crank, hubs[0])]
    parts.append(tubes(np.array(ends), np.array([0.9 * tyre]), sides=6))
    parts.append(moved(box(0.14 * length, 0.03 * length, 0.06 * length), translation=seat))
    grip = np.array([0.0, 0.0, 0.14 * length])
    parts.append(rod(bar - grip, bar + grip, 0.8 * tyre))
    return joined(parts)
