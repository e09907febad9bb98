"""Render the example pair: spheres over a sandy floor, by casting one ray per pixel, with exact disparity.

    python examples/make_pair.py examples/reef

Everything in it is computed here, so the pair is free of anybody else's rights.
"""

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from linstereo.data.disparity import write_disparity
from linstereo.data.images import write_image
from linstereo.geometry.calibration import StereoCalibration

HEIGHT, WIDTH = 320, 480
CAMERA = StereoCalibration(focal=420.0, baseline=0.12, cx=239.5, cy=159.5)
FLOOR = 0.55  # metres below the camera
WALL = 6.0  # metres ahead
SPHERES = (  # x right, y down, z ahead, radius in metres; colour
    (-0.55, 0.25, 2.0, 0.32, (0.85, 0.42, 0.30)),
    (0.35, 0.33, 1.55, 0.22, (0.93, 0.78, 0.35)),
    (0.75, 0.10, 3.2, 0.50, (0.45, 0.62, 0.40)),
    (-0.05, 0.40, 2.7, 0.18, (0.62, 0.45, 0.72)),
)
WATER = np.array((0.10, 0.32, 0.42))  # what distance fades to
Array = npt.NDArray[np.float64]


def noise(points: Array, *, cells: float, seed: int) -> Array:
    """Smooth random values in [0, 1] at 3-D points [..., 3]: a random lattice, interpolated."""
    lattice = np.random.default_rng(seed).random((64, 64, 64))
    scaled = points * cells
    low = np.floor(scaled).astype(int)
    blend = scaled - low
    blend = blend * blend * (3 - 2 * blend)
    total = np.zeros(points.shape[:-1])
    for corner in np.ndindex(2, 2, 2):
        index = (low + corner) % 64
        weight = np.prod(np.where(np.array(corner) == 1, blend, 1 - blend), axis=-1)
        total += weight * lattice[index[..., 0], index[..., 1], index[..., 2]]
    return total


def render(camera_x: float) -> tuple[npt.NDArray[np.uint8], Array]:
    """Picture uint8 [H, W, 3] and depth [H, W] in metres, seen from (camera_x, 0, 0) along z, 3 x 3 rays a pixel."""
    colour = np.zeros((HEIGHT, WIDTH, 3))
    for dy, dx in np.ndindex(3, 3):
        colour += shade(camera_x, (dx - 1) / 3, (dy - 1) / 3)[0] / 9
    return (colour.clip(0, 1) ** (1 / 2.2) * 255).round().astype(np.uint8), shade(camera_x, 0, 0)[1]


def shade(camera_x: float, dx: float, dy: float) -> tuple[Array, Array]:
    """Linear colour [H, W, 3] and depth [H, W] of rays through the pixels shifted by (dx, dy)."""
    v, u = np.mgrid[0:HEIGHT, 0:WIDTH].astype(float)
    ray = np.stack(
        [(u + dx - CAMERA.cx) / CAMERA.focal, (v + dy - CAMERA.cy) / CAMERA.focal, np.ones((HEIGHT, WIDTH))],
        axis=-1,
    )
    origin = np.array([camera_x, 0.0, 0.0])
    depth = np.full((HEIGHT, WIDTH), WALL)
    normal = np.broadcast_to([0.0, 0.0, -1.0], ray.shape).copy()
    albedo = np.broadcast_to([0.35, 0.42, 0.40], ray.shape).copy()

    floor = np.where(ray[..., 1] > 0, FLOOR / np.maximum(ray[..., 1], 1e-9), np.inf)
    hit = floor < depth
    depth[hit], normal[hit], albedo[hit] = floor[hit], (0.0, -1.0, 0.0), (0.80, 0.72, 0.55)
    for x, y, z, radius, tint in SPHERES:
        centre = np.array([x, y, z]) - origin
        a, b, c = (ray**2).sum(-1), (ray * centre).sum(-1), (centre**2).sum() - radius**2
        discriminant = b**2 - a * c
        near = np.where(discriminant > 0, (b - np.sqrt(np.maximum(discriminant, 0))) / a, np.inf)
        hit = (near > 0) & (near < depth)
        depth[hit], albedo[hit] = near[hit], tint
        normal[hit] = (ray[hit] * near[hit][:, None] - centre) / radius

    point = origin + ray * depth[..., None]
    texture = sum(noise(point, cells=k, seed=int(k)) * w for k, w in ((7.0, 0.3), (19.0, 0.4), (53.0, 0.5)))
    light = np.clip((normal * np.array([-0.35, -0.85, -0.40])).sum(-1), 0, 1) * 0.8 + 0.25
    colour = albedo * (texture * light)[..., None]
    clear = np.exp(-0.22 * depth)[..., None]
    return colour * clear + WATER * (1 - clear), depth


def main() -> None:
    """Render both views into the folder named on the command line."""
    folder = Path(sys.argv[1])
    left, depth = render(0.0)
    right, _ = render(CAMERA.baseline)
    write_image(folder / "left.png", left)
    write_image(folder / "right.png", right)
    write_disparity(folder / "disparity.pfm", (CAMERA.focal * CAMERA.baseline / depth).astype(np.float32))


if __name__ == "__main__":
    main()
