"""Walls that a real camera sees: how flat they come out, and what they look like.

    pip download --no-deps stereodemo==0.7
    unzip -j stereodemo-0.7-py3-none-any.whl 'stereodemo/datasets/oak-d/*' -d oak
    python benchmarks/camera_walls.py oak --picture walls.jpg --write

The twelve indoor pairs of an OAK-D Lite (grey, 640 x 480 px, no ground truth) are part of the package stereodemo by
Nicolas Burrus. Any other rectified pairs will do: a folder with NAME_left.png and NAME_right.png. Windows of 61 x 61 px
that are plain (`linstereo.geometry.texture`) mostly show a single wall. In them the mean distance of the disparity from
the plane that fits it best is measured, as in plain_rooms.py, for the bundled model and SGBM; a corner between two
walls adds the same to every method. A picture has image, disparity and confidence.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

import linstereo
from linstereo.data.formats.images import read_image, write_image
from linstereo.evaluation.baselines import sgbm_disparity
from linstereo.geometry.texture import plain_pixels
from linstereo.visualize import captioned, colourise
from plain_rooms import off_plane, plain_windows

PLAIN = 0.95  # share of the pixels of a window
TILE = {"width": 260, "height": 195}
COLUMNS = 2


def deviations(disparity: NDArray[np.float32], plain: NDArray[np.bool_]) -> list[float]:
    """The mean distance from a plane, px, of every plain window."""
    return [float(np.abs(off_plane(disparity[window])).mean()) for window in plain_windows(plain, share=PLAIN)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with the pairs")
    parser.add_argument("--model", action="append", default=[], help="a checkpoint; by default the bundled model")
    parser.add_argument("--picture", metavar="FILE", help="draw what the last model makes of the pairs")
    parser.add_argument("--leave-out", nargs="*", default=[], metavar="NAME", help="pairs not to draw")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write benchmarks/camera_walls.md")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    lefts = sorted(options.folder.glob("*_left.png"))
    pairs = [(path, path.with_name(f"{path.name.removesuffix('_left.png')}_right.png")) for path in lefts]
    if not pairs:
        sys.exit(f"{options.folder} has no NAME_left.png; give the folder of the pairs")
    predictors = [linstereo.load(name) for name in options.model or [None]]
    found: dict[str, list[float]] = {}
    tiles = []
    for paths in tqdm(pairs, unit="pair", disable=None):
        name = paths[0].stem.removesuffix("_left")
        left, right = (read_image(path) for path in paths)
        plain = plain_pixels(left)
        found.setdefault("SGBM (OpenCV)", []).extend(deviations(sgbm_disparity(left, right), plain))
        for predictor in predictors:
            result = predictor.predict(left, right)
            found.setdefault(predictor.name, []).extend(deviations(result.disparity, plain))
        if options.picture and name not in options.leave_out:
            high = float(np.percentile(result.disparity, 99.5))
            maps = [(left, name), (colourise(result.disparity, low=0, high=high), f"0 to {high:.0f} px")]
            if result.confidence is not None:
                maps.append((colourise(result.confidence, low=0, high=1), "confidence"))
            row = [captioned(image, caption, **TILE) for image, caption in maps]
            tiles.append(np.pad(np.hstack(row), ((0, 4), (0, 8), (0, 0)), constant_values=255))
    count = len(found["SGBM (OpenCV)"])
    lines = [
        f"{len(pairs)} pairs, {count} windows; px.",
        "",
        "| method | off their planes | median | the worst tenth |",
        "|---|---|---|---|",
    ]
    for method, values in found.items():
        worst = np.sort(values)[-max(count // 10, 1) :].mean()
        lines.append(f"| {method} | {np.mean(values):.3f} | {np.median(values):.3f} | {worst:.3f} |")
    print("\n".join(lines))
    if options.picture:
        tiles += [np.full_like(tiles[0], 255)] * (-len(tiles) % COLUMNS)
        rows = [np.hstack(tiles[i : i + COLUMNS]) for i in range(0, len(tiles), COLUMNS)]
        write_image(options.picture, np.vstack(rows))
    if options.write:
        page = "# Walls of a real camera\n\nMade by `benchmarks/camera_walls.py`, which says what is measured.\n\n"
        Path(__file__).with_suffix(".md").write_text(page + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
