"""Render the example pairs: spheres over a sandy floor in water of rising turbidity, with exact disparity.

    python examples/make_reef.py examples/reef

Everything in them is computed here, ray by ray, so they are free of anybody else's rights. The folder is laid out as
`docs/datasets.md` describes for one's own pairs.
"""

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from linstereo.data.formats.calibration_files import write_calibration
from linstereo.data.formats.disparity import write_disparity
from linstereo.data.formats.images import write_image
from linstereo.data.formats.png import write_png_values
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
VIEWS = {  # where the left camera stands (x, z in metres), how much light a metre of water takes
    "clear": (0.0, 0.0, 0.08),
    "hazy": (-0.35, 0.25, 0.25),
    "turbid": (0.25, 0.45, 0.55),
}
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


def render(x: float, z: float, turbidity: float) -> tuple[npt.NDArray[np.uint8], Array]:
    """Picture uint8 [H, W, 3] and depth [H, W] in metres, seen from (x, 0, z) along z, 3 x 3 rays a pixel."""
    colour = np.zeros((HEIGHT, WIDTH, 3))
    for dy, dx in np.ndindex(3, 3):
        colour += cast(x, z, (dx - 1) / 3, (dy - 1) / 3, turbidity=turbidity)[0] / 9
    picture = (colour.clip(0, 1) ** (1 / 2.2) * 255).round().astype(np.uint8)
    return picture, cast(x, z, 0, 0, turbidity=turbidity)[1]


def cast(x: float, z: float, dx: float, dy: float, *, turbidity: float) -> tuple[Array, Array]:
    """Linear colour [H, W, 3] and depth [H, W] of rays through the pixels shifted by (dx, dy)."""
    row, column = np.mgrid[0:HEIGHT, 0:WIDTH].astype(float)
    ray = np.stack(
        [
            (column + dx - CAMERA.cx) / CAMERA.focal,
            (row + dy - CAMERA.cy) / CAMERA.focal,
            np.ones((HEIGHT, WIDTH)),
        ],
        axis=-1,
    )
    origin = np.array([x, 0.0, z])
    depth = np.full((HEIGHT, WIDTH), WALL - z)
    normal = np.broadcast_to([0.0, 0.0, -1.0], ray.shape).copy()
    albedo = np.broadcast_to([0.35, 0.42, 0.40], ray.shape).copy()

    floor = np.where(ray[..., 1] > 0, FLOOR / np.maximum(ray[..., 1], 1e-9), np.inf)
    hit = floor < depth
    depth[hit], normal[hit], albedo[hit] = floor[hit], (0.0, -1.0, 0.0), (0.80, 0.72, 0.55)
    for *centre, radius, tint in SPHERES:
        to_centre = np.array(centre) - origin
        a, b, c = (ray**2).sum(-1), (ray * to_centre).sum(-1), (to_centre**2).sum() - radius**2
        discriminant = b**2 - a * c
        near = np.where(discriminant > 0, (b - np.sqrt(np.maximum(discriminant, 0))) / a, np.inf)
        hit = (near > 0) & (near < depth)
        depth[hit], albedo[hit] = near[hit], tint
        normal[hit] = (ray[hit] * near[hit][:, None] - to_centre) / radius

    point = origin + ray * depth[..., None]
    texture = sum(noise(point, cells=cells, seed=int(cells)) * w for cells, w in ((7.0, 0.3), (19.0, 0.4), (53.0, 0.5)))
    light = np.clip((normal * np.array([-0.35, -0.85, -0.40])).sum(-1), 0, 1) * 0.8 + 0.25
    colour = albedo * (texture * light)[..., None]
    clear = np.exp(-turbidity * depth)[..., None]
    return colour * clear + WATER * (1 - clear), depth


def occluded(left_disparity: Array, right_disparity: Array) -> npt.NDArray[np.bool_]:
    """Where the right camera sees something nearer, or nothing because the point is outside its image: [H, W]."""
    row, column = np.mgrid[0:HEIGHT, 0:WIDTH]
    match = (column - left_disparity).round().astype(int)
    nearer = right_disparity[row, match.clip(0, WIDTH - 1)] > left_disparity + 1
    return (match < 0) | nearer


def main() -> None:
    """Render all views into the folder named on the command line."""
    root = Path(sys.argv[1])
    for folder in ("left", "right", "disparity", "occlusion"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name, (x, z, turbidity) in VIEWS.items():
        left, depth = render(x, z, turbidity)
        right, right_depth = render(x + CAMERA.baseline, z, turbidity)
        disparity = CAMERA.focal * CAMERA.baseline / depth
        write_image(root / "left" / f"{name}.png", left)
        write_image(root / "right" / f"{name}.png", right)
        write_disparity(root / "disparity" / f"{name}.png", disparity)
        hidden = occluded(disparity, CAMERA.focal * CAMERA.baseline / right_depth)
        write_png_values(root / "occlusion" / f"{name}.png", hidden.astype(np.uint8) * 255)
    write_calibration(root / "calib.json", CAMERA)


if __name__ == "__main__":
    main()
