"""Elementary procedural meshes.

Every shape stands around the origin in its own frame with the scene's axes (x right, y down, z ahead), in metres.
Texture coordinates are metres along the surface: one repeat of the texture per metre until `mesh_tools.with_uv`
changes that. Shapes said to be closed are watertight once coincident vertices are merged, with faces turned outwards.
"""

import numpy as np
from numpy.typing import NDArray

from linstereo.synthesis.mesh_tools import Floats, cross, fan, joined, moved, surface, surfaces
from linstereo.synthesis.noise import fractal_noise
from linstereo.synthesis.scene import Mesh


def box(width: float, height: float, depth: float) -> Mesh:
    """A closed box with flat sides, centred at the origin: extents along x, y and z."""
    x, y, z = width / 2, height / 2, depth / 2
    corner = np.array([[sx * x, sy * y, sz * z] for sz in (-1, 1) for sy in (-1, 1) for sx in (-1, 1)])
    sides = np.array([[0, 1, 2, 3], [5, 4, 7, 6], [4, 0, 6, 2], [1, 5, 3, 7], [4, 5, 0, 1], [2, 3, 6, 7]])
    spans = ((width, height), (width, height), (depth, height), (depth, height), (width, depth), (width, depth))
    unit = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], np.float64)
    uv = np.concatenate([unit * span for span in spans])
    faces = np.concatenate([np.array([[0, 2, 1], [1, 2, 3]]) + 4 * k for k in range(6)]).astype(np.int32)
    return Mesh(corner[sides.reshape(-1)], faces, uv.astype(np.float32))


def plane(width: float, height: float, *, rows: int = 1, columns: int = 1) -> Mesh:
    """A flat rectangle in the x-y plane, facing the camera (-z), divided into rows x columns."""
    return surface(*_sheet_grid(width, height, rows, columns), smooth=False)


def sheet(
    rng: np.random.Generator, width: float, height: float, *, bend: float = 0.5, ripple: float = 0.1, cells: int = 24
) -> Mesh:
    """A curved sheet in the x-y plane, such as paper, cloth or sheet metal.

    Args:
        rng: where the ripples come from.
        width: metres along x.
        height: metres along y.
        bend: radians by which the sheet is rolled about a vertical axis, between its left and right edge.
        ripple: height of the waves relative to the smaller side.
        cells: divisions in each direction.
    """
    points, uv = _sheet_grid(width, height, cells, cells)
    waves = 2 * fractal_noise(rng, 32, cells=2, octaves=3, roughness=0.4) - 1
    size = cells + 1
    across = waves[:size, :size] if size <= 32 else np.kron(waves, np.ones((2, 2)))[:size, :size]
    depth = ripple * min(width, height) * across
    if abs(bend) > 1e-3:
        radius = width / bend
        angle = points[..., 0] / radius
        points = np.stack(
            [(radius - depth) * np.sin(angle), points[..., 1], radius - (radius - depth) * np.cos(angle)], axis=-1
        )
    else:
        points = np.stack([points[..., 0], points[..., 1], depth], axis=-1)
    return surface(points, uv)


def terrain(
    rng: np.random.Generator,
    x_range: tuple[float, float],
    z_range: tuple[float, float],
    *,
    relief: float,
    roughness: float = 0.45,
    cells: int = 80,
    hills: int = 4,
) -> Mesh:
    """Uneven ground around y = 0, finer towards small z, where it is seen from near.

    Args:
        rng: where the hills come from.
        x_range: metres, left and right edge.
        z_range: metres, near and far edge, 0 < near < far.
        relief: metres between the deepest valley and the highest hill; up is -y.
        roughness: 0 (smooth) to 1 (jagged).
        cells: divisions in each direction, at most 127.
        hills: random heights along a side at the coarsest scale, a power of two.
    """
    near, far = z_range
    z = near * (far / near) ** np.linspace(0, 1, cells + 1)[::-1]
    share = z / far
    x = np.linspace(-1, 1, cells + 1)
    middle, half = sum(x_range) / 2, (x_range[1] - x_range[0]) / 2
    grid_x = middle + half * x[None, :] * np.maximum(share, 0.12)[:, None] ** 0.7
    heights = fractal_noise(rng, 128, cells=hills, octaves=6, roughness=roughness)
    u = (grid_x - x_range[0]) / (x_range[1] - x_range[0]) * 127
    v = np.broadcast_to((z[:, None] - near) / (far - near) * 127, u.shape)
    y = relief * (0.5 - _sampled(heights, u, v))
    points = np.stack([grid_x, y, np.broadcast_to(z[:, None], u.shape)], axis=-1)
    return surface(points, points[..., [0, 2]])


def lathe(profile: Floats, *, sides: int = 24, smooth: bool = True) -> Mesh:
    """A surface of revolution about the y axis; closed if the profile begins and ends on the axis.

    Args:
        profile: [N, 2] radius >= 0 and y (down), metres, from the top to the bottom.
        sides: divisions of the circle, at least 3.
        smooth: whether it is shaded smoothly.
    """
    angle = np.linspace(0, 2 * np.pi, sides + 1)
    radius, y = profile[:, :1], np.broadcast_to(profile[:, 1:], (len(profile), sides + 1))
    points = np.stack([radius * np.sin(angle), y, -radius * np.cos(angle)], axis=-1)
    points[:, -1] = points[:, 0]
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(profile, axis=0), axis=1))])
    uv = np.stack(np.broadcast_arrays(angle[None, :] * profile[:, 0].max(), length[:, None]), axis=-1)
    return surface(points, uv, wrap=True, smooth=smooth)


def sphere(radius: float, *, rings: int = 16) -> Mesh:
    """A closed sphere; `rings` divisions from pole to pole, twice as many around."""
    angle = np.linspace(0, np.pi, rings + 1)
    profile = radius * np.stack([np.sin(angle), -np.cos(angle)], axis=1)
    profile[[0, -1], 0] = 0.0
    return lathe(profile, sides=2 * rings)


def cylinder(radius: float, height: float, *, top_radius: float | None = None, sides: int = 24) -> Mesh:
    """A closed cylinder or, with another radius (>= 0) at its top, a cone; its axis is y, its middle the origin."""
    top = radius if top_radius is None else top_radius
    half = height / 2
    cap = [(0.0, -half), (top, -half)] if top > 0 else []
    # Rims are doubled so that caps and side are shaded apart.
    return lathe(np.array([*cap, (top, -half), (radius, half), (radius, half), (0.0, half)]), sides=sides)


def turned(rng: np.random.Generator, radius: float, height: float, *, sides: int = 24) -> Mesh:
    """A closed turned shape standing on y = 0: a bottle, vase, bowl, lamp, chess piece or skittle."""
    knots = int(rng.integers(3, 7))
    at = np.concatenate([[0.0], np.sort(rng.uniform(0.1, 0.9, knots)), [1.0]])
    radii = radius * np.concatenate([[rng.uniform(0.1, 1)], rng.uniform(0.25, 1.0, knots), [rng.uniform(0.4, 1)]])
    steps = np.linspace(0, 1, 22)
    smooth = np.interp(steps, at, radii)
    if rng.random() < 0.7:
        smooth = np.convolve(np.pad(smooth, 2, mode="edge"), np.array([1, 3, 4, 3, 1]) / 12, mode="valid")
    side = np.stack([smooth, -height * (1 - steps)], axis=1)
    profile = np.vstack([[0.0, side[0, 1]], side, [0.0, 0.0]])
    return lathe(profile, sides=sides)


def torus(radius: float, thickness: float, *, sides: int = 32, tube_sides: int = 12) -> Mesh:
    """A closed ring in the x-y plane: `radius` to the middle of the tube, `thickness` the tube's own radius."""
    around, across = np.linspace(0, 2 * np.pi, sides + 1), np.linspace(0, 2 * np.pi, tube_sides + 1)[:, None]
    out = np.cos(across)
    normals = np.stack(np.broadcast_arrays(out * np.cos(around), out * np.sin(around), -np.sin(across)), axis=-1)
    centre = radius * np.stack([np.cos(around), np.sin(around), np.zeros_like(around)], axis=-1)
    points = centre + thickness * normals
    points[:, -1], points[-1] = points[:, 0], points[0]
    uv = np.stack(np.broadcast_arrays(radius * around, thickness * across), axis=-1)
    mesh = surface(points, uv, smooth=False)
    return Mesh(mesh.vertices, mesh.faces, mesh.uv, normals.reshape(-1, 3).astype(np.float32))


def boulder(rng: np.random.Generator, radius: float, *, jagged: float = 0.4, rings: int = 20) -> Mesh:
    """A closed rock: a sphere pushed in and out by noise and stretched; it reaches about `radius` from the origin.

    Args:
        rng: where its form comes from.
        radius: metres.
        jagged: 0 (a pebble) to 1 (a crag).
        rings: divisions from pole to pole.
    """
    polar, around = np.linspace(0, np.pi, rings + 1), np.linspace(0, 2 * np.pi, 2 * rings + 1)
    direction = np.stack(
        np.broadcast_arrays(
            np.sin(polar)[:, None] * np.sin(around), -np.cos(polar)[:, None], -np.sin(polar)[:, None] * np.cos(around)
        ),
        axis=-1,
    )
    direction[0], direction[-1] = (0, -1, 0), (0, 1, 0)
    push = np.zeros(direction.shape[:2])
    for k in range(3):
        waves = rng.normal(0, 1.6 * 2.0**k, (8, 3))
        push += 0.5**k * np.cos(direction @ waves.T + rng.uniform(0, 2 * np.pi, 8)).sum(axis=-1) / 8
    reach = np.clip(1 + 1.1 * jagged * push, 0.35, None)
    points = direction * reach[..., None] * rng.uniform(0.6, 1.0, 3)
    points[:, -1] = points[:, 0]
    points *= radius / np.linalg.norm(points, axis=-1).max()
    uv = radius * np.stack(np.broadcast_arrays(around[None, :], polar[:, None]), axis=-1)
    return surface(points, uv, wrap=True)


def tubes(paths: Floats, radii: Floats, *, sides: int = 8, capped: bool = True) -> Mesh:
    """K tubes along curves; with caps each is closed.

    Args:
        paths: [K, N, 3] metres, N at least 2, neighbouring points distinct.
        radii: metres > 0, [K, N] or anything that broadcasts to it.
        sides: divisions around, at least 3.
        capped: whether the ends are closed.
    """
    count, steps, _ = paths.shape
    radius = np.broadcast_to(radii, (count, steps)).astype(np.float64)
    first, second = _frames(paths)
    angle = np.linspace(0, 2 * np.pi, sides + 1)
    ring = first[:, :, None] * np.cos(angle)[:, None] - second[:, :, None] * np.sin(angle)[:, None]  # [K, N, C, 3]
    points = paths[:, :, None] + radius[:, :, None, None] * ring
    length = np.concatenate(
        [np.zeros((count, 1)), np.cumsum(np.linalg.norm(np.diff(paths, axis=1), axis=-1), axis=1)], axis=1
    )
    if capped:
        ends = np.broadcast_to(paths[:, [0, -1], None], (count, 2, sides + 1, 3))
        points = np.concatenate([ends[:, :1], points, ends[:, 1:]], axis=1)
        length = np.concatenate([length[:, :1] - radius[:, :1], length, length[:, -1:] + radius[:, -1:]], axis=1)
    points[:, :, -1] = points[:, :, 0]
    around = angle * radius.mean(axis=1, keepdims=True)  # [K, C]
    uv = np.stack(np.broadcast_arrays(around[:, None, :], length[:, :, None]), axis=-1)
    return surfaces(points, uv, wrap=True)


def rod(start: Floats, end: Floats, radius: float, *, sides: int = 8) -> Mesh:
    """A closed straight thin rod between two points [3], metres; or K of them between points [K, 3]."""
    paths = np.stack([np.atleast_2d(start), np.atleast_2d(end)], axis=1).astype(np.float64)  # [K, 2, 3]
    return tubes(paths, np.array([radius]), sides=sides)


def prism(contour: Floats, depth: float) -> Mesh:
    """A closed prism over a polygon that is star-shaped about its corners' mean.

    Args:
        contour: [N, 2] x and y of its corners in metres, turning clockwise on the screen (x right, y down).
        depth: metres along z; it spans -depth / 2 to depth / 2.
    """
    front = np.column_stack([contour, np.full(len(contour), -depth / 2)])
    back = np.column_stack([contour, np.full(len(contour), depth / 2)])
    loop = np.arange(len(contour) + 1) % len(contour)
    edge = np.linalg.norm(np.diff(contour[loop], axis=0), axis=1)
    length = np.concatenate([[0.0], np.cumsum(edge)])
    side = np.stack([back[loop], front[loop]])  # [2, N + 1, 3]
    uv = np.stack(np.broadcast_arrays(length[None, :], np.array([[0.0], [depth]])), axis=-1)
    return joined([_flipped(fan(front, contour)), surface(side, uv, smooth=False), fan(back, contour * (-1.0, 1.0))])


def random_contour(rng: np.random.Generator, radius: float) -> Floats:
    """Corners [N, 2] of a random polygon for `prism` and `cutout`: regular, a star, a gear or a blob."""
    kind = rng.integers(4)
    if kind == 0:
        count = int(rng.integers(3, 9))
        reach = np.ones(count)
    elif kind == 1:
        count = 2 * int(rng.integers(4, 9))
        reach = np.where(np.arange(count) % 2, rng.uniform(0.35, 0.75), 1.0)
    elif kind == 2:
        count = 4 * int(rng.integers(5, 12))
        reach = np.where(np.arange(count) % 4 < 2, rng.uniform(0.7, 0.9), 1.0)
    else:
        count = 40
        angle = np.linspace(0, 2 * np.pi, count, endpoint=False)
        waves = sum(rng.normal(0, 0.35 / k) * np.cos(k * angle + rng.uniform(0, 6)) for k in range(2, 7))
        reach = np.clip(1 + waves, 0.25, None)
        reach = reach / reach.max()
    angle = np.linspace(0, 2 * np.pi, count, endpoint=False) + rng.uniform(0, 2 * np.pi)
    corners: Floats = radius * reach[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return corners


def cutout(contour: Floats) -> Mesh:
    """A flat piece of card in the x-y plane, facing the camera, with corners [N, 2] as for `prism`."""
    return _flipped(fan(np.column_stack([contour, np.zeros(len(contour))]), contour))


def standing(mesh: Mesh) -> Mesh:
    """The mesh moved so that it stands on y = 0, its box centred above the origin."""
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    return moved(mesh, translation=(-(low[0] + high[0]) / 2, -high[1], -(low[2] + high[2]) / 2))


def _sheet_grid(width: float, height: float, rows: int, columns: int) -> tuple[Floats, Floats]:
    x, y = np.linspace(-width / 2, width / 2, columns + 1), np.linspace(-height / 2, height / 2, rows + 1)
    grid_y, grid_x = np.meshgrid(y, x, indexing="ij")
    points = np.stack([grid_x, grid_y, np.zeros_like(grid_x)], axis=-1)
    return points, points[..., :2] + np.array([width / 2, height / 2])


def _sampled(grid: NDArray[np.float32], u: Floats, v: Floats) -> Floats:
    column, row = np.clip(np.floor(u), 0, 126).astype(np.int64), np.clip(np.floor(v), 0, 126).astype(np.int64)
    a, b = np.clip(u - column, 0, 1), np.clip(v - row, 0, 1)
    top = (1 - a) * grid[row, column] + a * grid[row, column + 1]
    bottom = (1 - a) * grid[row + 1, column] + a * grid[row + 1, column + 1]
    mixed: Floats = (1 - b) * top + b * bottom
    return mixed


def _frames(paths: Floats) -> tuple[Floats, Floats]:
    """Two unit vectors [K, N, 3] across each point of the curves."""
    along = np.empty_like(paths)
    along[:, 1:-1] = paths[:, 2:] - paths[:, :-2]
    along[:, 0], along[:, -1] = paths[:, 1] - paths[:, 0], paths[:, -1] - paths[:, -2]
    along /= np.sqrt((along * along).sum(axis=-1, keepdims=True))
    # The direction a curve follows least never comes near its tangent unless the curve fills space.
    reference = np.linalg.eigh(along.transpose(0, 2, 1) @ along)[1][:, None, :, 0]  # [K, 1, 3]
    first = cross(along, reference)
    first /= np.maximum(np.sqrt((first * first).sum(axis=-1, keepdims=True)), 1e-9)
    return first, cross(along, first)


def _flipped(mesh: Mesh) -> Mesh:
    return Mesh(mesh.vertices, mesh.faces[:, ::-1], mesh.uv, None if mesh.normals is None else -mesh.normals)
