"""Draw the picture at the top of the README: left image, predicted disparity and point cloud of three pairs.

    python examples/result_banner.py docs/images/result.jpg

The pairs are the bundled `examples/room`, and a room with plain walls as a small grey camera sees it and a reef, which
the synthetic engine renders from a seed that was not trained on; disparities are those of the bundled model. Everything
is procedural, so the picture is free of anybody else's rights. Needs the extra `synth`.
"""

import math
import sys
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

import linstereo
from linstereo.data.datasets.catalogue import open_dataset
from linstereo.data.formats.images import write_image
from linstereo.data.sample import StereoSample
from linstereo.geometry.point_cloud import PointCloud
from linstereo.synthesis.engine import EngineSettings, StereoEngine
from linstereo.visualize import colourise

Rgb = npt.NDArray[np.uint8]
ROOM = Path(__file__).parent / "room"
REEF = EngineSettings(
    height=480, width=640, underwater=1.0, max_disparity=0.14, plain=0.0, grey=0.0, noisy=0.0, margins=0.0
)
PLAIN_ROOM = EngineSettings(
    height=480, width=640, underwater=0.0, max_disparity=0.1, grey=1.0, noisy=1.0, margins=0.0, kind="plain_room"
)
SEED, REEF_INDEX, PLAIN_INDEX = 7_000_001, 24, 7
HEIGHT, WIDTH, GAP = 480, 640, 12  # of a tile, and between tiles, px
OVERSAMPLING = 2
BACKGROUND = (16, 18, 24)


def rendered(settings: EngineSettings, index: int) -> StereoSample:
    """A pair of the engine."""
    return StereoEngine(settings).render(seed=SEED, index=index).sample()


def row(sample: StereoSample, predictor: linstereo.StereoPredictor, *, swing: float, lift: float, far: float) -> Rgb:
    """Left image, disparity and point cloud of a pair side by side.

    Args:
        sample: the pair, with its calibration.
        predictor: the network.
        swing: how far the view of the point cloud goes around the scene, radians, positive to the right.
        lift: how far it rises above the scene, radians.
        far: points beyond this depth, metres, are left out.
    """
    assert sample.calibration is not None
    prediction = predictor.predict(sample.left, sample.right, calibration=sample.calibration)
    cloud = prediction.points(max_depth=far)
    tiles = [
        sample.left,
        colourise(prediction.disparity),
        view(cloud, focal=sample.calibration.focal, swing=swing, lift=lift),
    ]
    gap = np.full((HEIGHT, GAP, 3), 255, np.uint8)
    return np.hstack([tiles[0], gap, tiles[1], gap, tiles[2]])


def view(cloud: PointCloud, *, focal: float, swing: float, lift: float) -> Rgb:
    """A point cloud seen from beside and above, uint8 [HEIGHT, WIDTH, 3], enlarged or reduced to fill the tile.

    The view turns about a point in the middle of the cloud. Each point is a square about as large as the pixel it comes
    from, and the nearest one is seen.
    """
    centre = np.array([0.0, np.median(cloud.points[:, 1]), np.quantile(cloud.points[:, 2], 0.35)])
    turn = rotation_x(lift) @ rotation_y(swing)
    points = (cloud.points - centre) @ turn.T + [0, 0, 1.12 * centre[2]]  # [N, 3]
    order = np.argsort(-points[:, 2])  # far to near: of several points in one pixel the last one counts
    points, colours, depth = points[order], cloud.colours[order], cloud.points[order, 2]
    z = points[:, 2]
    flat = points[:, :2] / z[:, None] * focal  # [N, 2] px
    low, high = np.quantile(flat, (0.005, 0.995), axis=0)
    height, width = HEIGHT * OVERSAMPLING, WIDTH * OVERSAMPLING
    zoom = 0.97 * min(width / (high[0] - low[0]), height / (high[1] - low[1]))
    x, y = ((flat - (low + high) / 2) * zoom + [width / 2, height / 2]).T
    radius = np.clip(0.45 * zoom * depth / z, 1, 2 * OVERSAMPLING)
    nearest = np.full(height * width, np.inf)
    canvas = np.full((height * width, 3), BACKGROUND, np.uint8)
    reach = math.ceil(float(radius.max()))
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            column, line = np.rint(x + dx).astype(int), np.rint(y + dy).astype(int)
            inside = (column >= 0) & (column < width) & (line >= 0) & (line < height)
            drawn = np.flatnonzero(inside & (max(abs(dx), abs(dy)) <= radius))
            top = np.full(height * width, -1)  # the nearest point of this layer in each pixel
            top[line[drawn] * width + column[drawn]] = drawn
            pixel = np.flatnonzero(top >= 0)
            pixel = pixel[z[top[pixel]] < nearest[pixel]]
            nearest[pixel] = z[top[pixel]]
            canvas[pixel] = colours[top[pixel]]
    picture = canvas.reshape(height, width, 3)
    return np.asarray(cv2.resize(picture, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA), np.uint8)


def rotation_x(angle: float) -> npt.NDArray[np.float64]:
    """The matrix [3, 3] that shows things from above, for a positive angle in radians."""
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


def rotation_y(angle: float) -> npt.NDArray[np.float64]:
    """The matrix [3, 3] that shows things from the right, for a positive angle in radians."""
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])


def banner() -> Rgb:
    """All rows."""
    predictor = linstereo.load()
    rows = [
        row(open_dataset("folder", ROOM)[0], predictor, swing=-0.24, lift=0.2, far=6.0),
        row(rendered(PLAIN_ROOM, PLAIN_INDEX), predictor, swing=-0.2, lift=0.2, far=20.0),
        row(rendered(REEF, REEF_INDEX), predictor, swing=0.22, lift=0.14, far=16.0),
    ]
    gap = np.full((GAP, rows[0].shape[1], 3), 255, np.uint8)
    return np.vstack([rows[0], gap, rows[1], gap, rows[2]])


if __name__ == "__main__":
    write_image(Path(sys.argv[1]), banner())
