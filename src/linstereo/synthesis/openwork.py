"""Things one sees through: slatted and perforated boards, machines of bars and hoses, leaves on a twig.

Their gaps are often narrower than what is between them, and the background shows in the gaps. They stand on y = 0 about
the origin; texture coordinates are metres.
"""

import numpy as np

from linstereo.synthesis.growth import leaf_cards, rope
from linstereo.synthesis.mesh_tools import Floats, joined, moved, random_rotation, surfaces
from linstereo.synthesis.scene import Mesh
from linstereo.synthesis.shapes import box, cylinder, standing, torus, tubes


def slats(rng: np.random.Generator, width: float, height: float) -> Mesh:
    """Boards side by side with gaps, upright or level, on two battens: a pallet, crate, blind, bench or gate."""
    count = int(rng.integers(4, 16))
    upright = rng.random() < 0.5
    long, across = (height, width) if upright else (width, height)
    pitch, thick = across / count, 0.02 * across
    board = pitch * (1 - rng.uniform(0.12, 0.6))
    at = (np.arange(count) + 0.5) * pitch - across / 2
    boards = [moved(box(board, long, thick), translation=(x, 0, 0)) for x in at]
    battens = [
        moved(box(across, 0.05 * long, thick), translation=(0, share * long, thick))
        for share in (-rng.uniform(0.2, 0.45), rng.uniform(0.2, 0.45))
    ]
    quarter = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    mesh = joined([*boards, *battens])
    return standing(mesh if upright else moved(mesh, rotation=quarter))


def perforated(rng: np.random.Generator, width: float, height: float) -> Mesh:
    """A thin board in the x-y plane with rows of round or square holes."""
    columns = int(rng.integers(3, 13))
    rows = max(2, round(columns * height / width))
    angle = np.linspace(0, 2 * np.pi, 13) + np.pi / 4
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    square = circle / np.abs(circle).max(axis=1, keepdims=True)
    hole = rng.uniform(0.35, 0.85) * (circle if rng.random() < 0.6 else square)
    cell = np.array([width / columns, height / rows]) / 2
    y, x = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    middle = (2 * np.stack([x.ravel(), y.ravel()], axis=1) + 1 - (columns, rows)) * cell  # [K, 2]
    flat = middle[:, None, None] + np.stack([square, hole]) * cell  # [K, 2, N, 2]
    points = np.concatenate([flat, np.zeros((*flat.shape[:-1], 1))], axis=-1)
    return standing(surfaces(points, flat - flat.min(axis=(0, 1, 2)), smooth=False))


def machine(rng: np.random.Generator, size: float) -> list[Mesh]:
    """Bars, wheels, hoses, drums and blocks through each other, in a few meshes that can look different."""
    spread = size * rng.uniform(0.2, 0.5, 3)

    def spots(count: int) -> Floats:
        return rng.uniform(-1, 1, (count, 3)) * spread

    piles: list[list[Mesh]] = [[] for _ in range(int(rng.integers(3, 6)))]

    def put(mesh: Mesh) -> None:
        piles[rng.integers(len(piles))].append(mesh)

    bars = int(rng.integers(5, 25))
    for start, end in zip(spots(bars), spots(bars), strict=True):
        radius = size * np.exp(rng.uniform(np.log(0.004), np.log(0.04)))
        put(tubes(np.stack([start, end])[None], np.array([radius]), sides=8))
    for at in spots(int(rng.integers(0, 4))):
        wheel = torus(size * rng.uniform(0.08, 0.3), size * rng.uniform(0.008, 0.03), sides=24, tube_sides=8)
        put(moved(wheel, rotation=random_rotation(rng), translation=at))
    for at in spots(int(rng.integers(1, 8))):
        drum = cylinder(size * rng.uniform(0.02, 0.12), size * rng.uniform(0.02, 0.3), sides=16)
        put(moved(drum, rotation=random_rotation(rng), translation=at))
    for at in spots(int(rng.integers(1, 8))):
        put(moved(box(*(size * rng.uniform(0.02, 0.25, 3))), rotation=random_rotation(rng), translation=at))
    hoses = int(rng.integers(0, 6))
    for start, end in zip(spots(hoses), spots(hoses), strict=True):
        put(rope(rng, start, end, size * rng.uniform(0.004, 0.015), slack=rng.uniform(0.1, 0.4)))
    meshes = [joined(pile) for pile in piles if pile]
    sunk = max(float(mesh.vertices[:, 1].max()) for mesh in meshes)
    return [moved(mesh, translation=(0, -sunk, 0)) for mesh in meshes]


def spray(rng: np.random.Generator, size: float) -> tuple[Mesh, Mesh]:
    """A few bent twigs in a bunch, and the leaves along them, large enough to be seen one by one."""
    count = int(rng.integers(3, 10))
    t = np.linspace(0, 1, 8)[:, None]
    tip = rng.normal(0, 0.35 * size, (count, 1, 3))
    tip[..., 1] = -size * rng.uniform(0.5, 1.0, (count, 1))
    bow = rng.normal(0, 0.15 * size, (count, 1, 3)) * (1, 0, 1)
    paths = t * tip + np.sin(np.pi * t) * bow
    twigs = tubes(paths, size * np.linspace(0.012, 0.004, 8)[None], sides=5)
    where = paths[:, 2:].reshape(-1, 3)
    at = where[rng.integers(len(where), size=int(rng.integers(15, 90)))] + rng.normal(0, 0.04 * size, 3)
    leaf = size * np.exp(rng.uniform(np.log(0.04), np.log(0.16)))
    leaves = leaf_cards(rng, at + rng.normal(0, 0.5 * leaf, at.shape), size=leaf)
    sunk = max(0.0, float(leaves.vertices[:, 1].max()))
    return moved(twigs, translation=(0, -sunk, 0)), moved(leaves, translation=(0, -sunk, 0))
