"""Draw what the bundled model and SGBM make of the pairs of benchmarks, side by side.

    python examples/prediction_sheet.py FILE.jpg middlebury-q=ROOT kitti2015:train-partial=ROOT ...

A tile shows the model's disparity above its error, then SGBM's above its own: blue for no error, red for 4 px or more,
black where the truth is not known. The photographs themselves are left out: not all of them may be passed on.
"""

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import linstereo
from linstereo.data.datasets.naming import parse_dataset
from linstereo.data.formats.images import write_image
from linstereo.data.sample import StereoSample
from linstereo.evaluation.baselines import sgbm_disparity
from linstereo.evaluation.runner import open_benchmark
from linstereo.visualize import captioned, colourise

Rgb = npt.NDArray[np.uint8]
COLUMNS, HEIGHT, MAX_WIDTH = 3, 130, 210  # tiles in a row; size of a map in px
LARGEST_ERROR = 4.0  # px


def tile(sample: StereoSample, predictor: linstereo.StereoPredictor) -> Rgb:
    """The four maps of a pair."""
    assert sample.disparity is not None
    assert sample.valid is not None
    high = float(np.percentile(sample.disparity[sample.valid], 99)) * 1.1
    height, width = sample.disparity.shape
    size = {"width": min(round(HEIGHT * width / height), MAX_WIDTH), "height": HEIGHT}
    columns = []
    for name, disparity in (
        (sample.name.rpartition("/")[2], predictor.predict(sample.left, sample.right).disparity),
        ("SGBM", sgbm_disparity(sample.left, sample.right)),
    ):
        error = np.abs(disparity - sample.disparity)
        maps = (
            captioned(colourise(disparity, low=0, high=high), name, **size),
            captioned(
                colourise(error, valid=sample.valid, low=0, high=LARGEST_ERROR),
                f"EPE {error[sample.valid].mean():.2f}",
                **size,
            ),
        )
        columns.append(np.vstack(maps))
    both = np.hstack(columns)
    missing = 2 * (MAX_WIDTH + 6) - both.shape[1]
    return np.pad(both, ((0, 6), (missing // 2, missing - missing // 2 + 6), (0, 0)), constant_values=255)


def sheet(benchmarks: list[str]) -> Rgb:
    """The tiles of all pairs of some benchmarks, given as NAME[:SPLIT]=ROOT."""
    predictor = linstereo.load()
    tiles = []
    for text in benchmarks:
        name, split, root = parse_dataset(text, what="--benchmark")
        dataset = open_benchmark(name, root, split=split).dataset
        tiles += [tile(dataset[index], predictor) for index in range(len(dataset))]
    tiles += [np.full_like(tiles[0], 255)] * (-len(tiles) % COLUMNS)
    return np.vstack([np.hstack(tiles[start : start + COLUMNS]) for start in range(0, len(tiles), COLUMNS)])


if __name__ == "__main__":
    write_image(Path(sys.argv[1]), sheet(sys.argv[2:]))
