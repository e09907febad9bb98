"""Draw the gallery of docs/seastereo.md: one row for each type of water, shallow and deep.

    python examples/seastereo_gallery.py docs/images

renders one pair of each of the twelve water settings (about 10 minutes on two cores; a second run finds them in
out/seastereo_gallery) and draws seastereo_gallery.jpg.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from linstereo.cli import main
from linstereo.data.datasets.seastereo import open_seastereo
from linstereo.data.formats.images import write_image
from linstereo.synthesis.seastereo.plan import FLOOR_DEPTHS, WATER_SETTINGS
from linstereo.visualize import captioned, colourise

Rgb = npt.NDArray[np.uint8]
HEIGHT, WIDTH = 192, 256
CHOSEN = ["--trajectory=2", "--focal=24", "--baseline=120", "--iteration=1", "--frames=1", "--samples=16"]


def gallery(data: Path) -> Rgb:
    """Left, right and disparity, shallow and then deep, in a row for each type of water."""
    samples = {sample.name.split("_")[3] + sample.name.split("_")[4]: sample for sample in open_seastereo(data)}
    rows = []
    for water in dict.fromkeys(water for water, _ in WATER_SETTINGS):
        tiles = []
        for depth in FLOOR_DEPTHS:
            sample = samples.get(water + depth)
            if sample is None:
                tiles.append(np.full_like(tiles[0], 255))
                continue
            assert sample.disparity is not None
            pictures = np.hstack([sample.left, sample.right, colourise(sample.disparity, valid=sample.disparity > 0)])
            tiles.append(captioned(pictures, f"{water}, {depth}", width=3 * WIDTH, height=HEIGHT))
        rows.append(np.hstack(tiles))
    return np.vstack(rows)


def run() -> int:
    """Render what is missing and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the picture")
    parser.add_argument("--data", type=Path, default=Path("out/seastereo_gallery"), help="folder of the rendered pairs")
    options = parser.parse_args()
    size = f"--size={HEIGHT}x{WIDTH}"
    code = main(["seastereo", "render", f"--out={options.data}", size, *CHOSEN])
    if code == 0:
        write_image(options.out / "seastereo_gallery.jpg", gallery(options.data))
    return code


if __name__ == "__main__":
    sys.exit(run())
