"""Things that grow or hang: ropes, cables, grass, kelp, corals, bushes, trees.

They stand on y = 0 at the origin (ropes and cables run between given points); texture coordinates are metres.
"""

import numpy as np

from linstereo.synthesis.mesh_tools import Floats, joined, moved, stretched, surfaces
from linstereo.synthesis.scene import Mesh
from linstereo.synthesis.shapes import boulder, cutout, sphere, tubes


def cable(start: Floats, end: Floats, radius: float, *, sag: float = 0.1, steps: int = 20, sides: int = 6) -> Mesh:
    """A closed cable hanging between two points [3]; `sag` is its drop (+y) relative to their distance."""
    t = np.linspace(0, 1, steps)[:, None]
    path = start + t * (end - start)
    path[:, 1] += 4 * sag * np.linalg.norm(end - start) * (t * (1 - t))[:, 0]
    return tubes(path[None], np.array([radius]), sides=sides)


def rope(rng: np.random.Generator, start: Floats, end: Floats, radius: float, *, slack: float = 0.15) -> Mesh:
    """A closed, loosely meandering rope between two points [3]; `slack` is its wander relative to their distance."""
    t = np.linspace(0, 1, 40)
    path = start + t[:, None] * (end - start)
    reach = slack * np.linalg.norm(end - start)
    for k in range(1, 5):
        path += reach / k * np.sin(np.pi * k * t)[:, None] * rng.normal(0, 0.6, 3)
    strands = 1 + 0.12 * np.cos(np.pi * np.arange(40))
    return tubes(path[None], radius * strands[None], sides=6)


def blades(
    rng: np.random.Generator,
    count: int,
    height: float,
    *,
    spread: float,
    width: float,
    bend: float = 0.5,
    steps: int = 5,
) -> Mesh:
    """Flat blades from a common spot: grass, sea grass, kelp, reed, leaves of an agave.

    Args:
        rng: where their forms come from.
        count: blades.
        height: metres, of the tallest.
        spread: radius in metres of the spot they grow from.
        width: metres, of a blade at its widest.
        bend: how far tips lean, relative to the height.
        steps: divisions along a blade.
    """
    t = np.linspace(0, 1, steps + 1)
    around, radius = rng.uniform(0, 2 * np.pi, count), spread * np.sqrt(rng.random(count))
    foot = np.stack([radius * np.cos(around), np.zeros(count), radius * np.sin(around)], axis=1)
    lean = rng.uniform(0, 2 * np.pi, count)
    tall = height * rng.uniform(0.4, 1.0, count)
    push = bend * tall * rng.uniform(0.1, 1.0, count)
    middle = np.stack(
        [
            foot[:, :1] + (push * np.cos(lean))[:, None] * t**2,
            -tall[:, None] * (t - 0.25 * np.minimum(bend, 1.5) * t**2),
            foot[:, 2:] + (push * np.sin(lean))[:, None] * t**2,
        ],
        axis=-1,
    )  # [K, N, 3]
    sway = 0.15 * width * np.sin(t * rng.uniform(2, 12, (count, 1)) + rng.uniform(0, 6, (count, 1))) * t
    facing = rng.uniform(0, np.pi, count)
    side = np.stack([np.cos(facing), np.zeros(count), np.sin(facing)], axis=1)  # [K, 3]
    half = (
        0.5 * width * (0.25 + np.sin(np.pi * np.minimum(0.15 + 0.8 * t, 1.0)))[None] * rng.uniform(0.6, 1.0, (count, 1))
    )
    half[:, -1] = 0.04 * width
    middle = middle + sway[..., None] * side[:, None]
    edges = np.stack([middle - half[..., None] * side[:, None], middle + half[..., None] * side[:, None]], axis=2)
    uv = np.stack(
        np.broadcast_arrays(
            rng.uniform(0, 3, (count, 1, 1)) + half[:, :, None] * np.array([-1.0, 1.0]), (tall[:, None] * t)[:, :, None]
        ),
        axis=-1,
    )
    return surfaces(edges, uv)


def branches(
    rng: np.random.Generator,
    height: float,
    *,
    thickness: float,
    generations: int = 3,
    spread: float = 0.7,
    sides: int = 5,
) -> Mesh:
    """A forking stem: staghorn coral, a bare bush or tree; `thickness` is the trunk's radius in metres."""
    mesh, _ = _forks(rng, height, thickness=thickness, generations=generations, spread=spread, sides=sides)
    return mesh


def tree(rng: np.random.Generator, height: float) -> tuple[Mesh, Mesh]:
    """Trunk with branches, and a crown of many leaf cards."""
    wood, tips = _forks(rng, 0.75 * height, thickness=0.03 * height, generations=3, spread=0.6, sides=6)
    count = int(rng.integers(400, 1300))
    at = tips[rng.integers(len(tips), size=count)] + rng.normal(0, rng.uniform(0.06, 0.12) * height, (count, 3))
    return wood, leaf_cards(rng, at, size=height * rng.uniform(0.015, 0.035))


def bush(rng: np.random.Generator, radius: float) -> Mesh:
    """A rounded cloud of leaf cards standing on the ground."""
    count = int(rng.integers(150, 500))
    direction = rng.standard_normal((count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    at = direction * radius * rng.uniform(0.5, 1.0, (count, 1))
    at[:, 1] = -np.abs(at[:, 1]) * rng.uniform(0.8, 1.6)
    return leaf_cards(rng, at, size=radius * rng.uniform(0.08, 0.2))


def leaf_cards(rng: np.random.Generator, at: Floats, *, size: float) -> Mesh:
    """Small pointed leaves of about `size` metres at the points [K, 3], facing anywhere."""
    count = len(at)
    one, two = rng.standard_normal((2, count, 3))
    one /= np.linalg.norm(one, axis=1, keepdims=True)
    two -= one * np.einsum("ij,ij->i", one, two)[:, None]
    two /= np.linalg.norm(two, axis=1, keepdims=True)
    reach = size * rng.uniform(0.5, 1.2, (count, 1))
    a, b = one * reach, two * reach * rng.uniform(0.3, 0.7)
    points = np.stack([np.stack([at - a, at - b], axis=1), np.stack([at + b, at + a], axis=1)], axis=1)
    corner = size * np.array([[[0, 0], [1, 0]], [[0, 1], [1, 1]]], np.float64)
    return surfaces(points, corner[None] + rng.uniform(0, 4, (count, 1, 1, 2)), smooth=False)


def brain(rng: np.random.Generator, radius: float) -> Mesh:
    """A closed rounded, lumpy coral or cushion, half in the ground."""
    return moved(boulder(rng, radius, jagged=0.18, rings=16), translation=(0, -0.25 * radius, 0))


def tube_sponge(rng: np.random.Generator, height: float) -> Mesh:
    """A cluster of open or closed upright tubes."""
    count = int(rng.integers(3, 9))
    t = np.linspace(0, 1, 7)[:, None]
    foot = rng.normal(0, 0.18 * height, (count, 3)) * (1, 0, 1)
    tip = foot + rng.normal(0, 0.2 * height, (count, 3)) * (1, 0, 1)
    tip[:, 1] = -height * rng.uniform(0.4, 1.0, count)
    paths = foot[:, None] + t * (tip - foot)[:, None]
    radii = height * rng.uniform(0.05, 0.11, (count, 1)) * (0.7 + 0.4 * t.T)
    return tubes(paths, radii, sides=10, capped=bool(rng.random() < 0.5))


def fish(rng: np.random.Generator, length: float) -> Mesh:
    """A fish along x about the origin: a slim closed body and flat fins."""
    tall, thick = length * rng.uniform(0.15, 0.4), length * rng.uniform(0.06, 0.14)
    body = stretched(sphere(0.5, rings=8), (0.85 * length, tall, thick))
    tail = np.array(
        [[0.36, 0.0], [0.55, -0.45 * tall / length - 0.08], [0.5, 0.0], [0.55, 0.45 * tall / length + 0.08]]
    )
    fin = np.array([[-0.1, -0.4 * tall / length], [0.0, -0.7 * tall / length], [0.2, -0.35 * tall / length]])
    return joined([body, cutout(tail * length), cutout(fin * length)])


def sea_fan(rng: np.random.Generator, height: float) -> Mesh:
    """A flat, fine lattice of twigs in the x-y plane: sea fan, hedge skeleton."""
    mesh, _ = _forks(rng, height, thickness=0.015 * height, generations=5, spread=0.75, sides=4, flat=True)
    return mesh


def _forks(
    rng: np.random.Generator,
    height: float,
    *,
    thickness: float,
    generations: int,
    spread: float,
    sides: int,
    flat: bool = False,
) -> tuple[Mesh, Floats]:
    """The mesh, and the tips [K, 3] of the last generation."""
    total = sum(0.72**k for k in range(generations))
    start = np.zeros((1, 3))
    direction = np.array([[0.0, -1.0, 0.0]])
    length, radius = height / total, thickness
    meshes = []
    for generation in range(generations):
        forks = 1 if generation == 0 else int(rng.integers(2, 4 if not flat else 3))
        start, direction = np.repeat(start, forks, axis=0), np.repeat(direction, forks, axis=0)
        if generation:
            shake = rng.normal(0, spread, direction.shape)
            if flat:
                shake[:, 2] *= 0.08
            direction = direction + shake
            direction[:, 1] -= 0.25
            direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        reach = length * rng.uniform(0.7, 1.15, (len(start), 1))
        end = start + reach * direction
        bow = rng.normal(0, 0.08, start.shape) * reach
        if flat:
            bow[:, 2] *= 0.1
        middle = (start + end) / 2 + bow
        paths = np.stack([start, middle, end], axis=1)  # [K, 3, 3]
        meshes.append(tubes(paths, radius * np.array([[1.0, 0.85, 0.65]]), sides=sides, capped=generation > 0))
        start, length, radius = end, length * 0.72, radius * 0.68
    return joined(meshes), start
