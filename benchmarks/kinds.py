"""Errors of the bundled model and of SGBM by kind of scene, on rendered pairs that nothing was trained on.

    python benchmarks/kinds.py --write [--photos DIR]

renders 12 pairs of 320 x 640 px of each kind (a third of them grey, half of them from small, noisy cameras; reefs and
harbours under water) and writes benchmarks/kinds.md: EPE and the share of pixels off by more than 3 px, over all
pixels, over those of grey, colour, noisy and clean pairs, and the ten worst pairs. `--pictures FILE` draws those ten:
left image, true disparity, prediction, error.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

import linstereo
from linstereo.data.formats.images import write_image
from linstereo.data.sample import StereoSample
from linstereo.evaluation.baselines import SgbmMethod
from linstereo.evaluation.methods import Method, ModelMethod
from linstereo.synthesis.engine import EngineSettings, StereoEngine
from linstereo.synthesis.scenes import FILLERS
from linstereo.visualize import comparison_pictures, disparity_error

SEED = 5_000_001
MAX_DISPARITY = 0.2
BAD = 3.0
UNDER_WATER = ("reef", "harbour")
WORST = 10


class Pair(NamedTuple):
    """A rendered pair and what is known of its cameras."""

    kind: str
    number: int
    grey: bool
    noisy: bool
    sample: StereoSample


class Score(NamedTuple):
    """Mean error in px and percentage of pixels off by more than `BAD` px."""

    epe: float
    bad: float


def rendered(count: int, photos: str | None) -> list[Pair]:
    """`count` pairs of each kind: every third grey, every second noisy."""
    pairs = []
    for kind in tqdm(FILLERS, desc="kinds", file=sys.stderr, disable=None):
        for index in range(count):
            grey, noisy = index % 3 == 0, index % 2 == 0
            settings = EngineSettings(
                underwater=float(kind in UNDER_WATER),
                max_disparity=MAX_DISPARITY,
                grey=float(grey),
                noisy=float(noisy),
                photos=photos,
                kind=kind,
            )
            pairs.append(Pair(kind, index, grey, noisy, StereoEngine(settings).sample(SEED, index)))
    return pairs


def score(prediction: NDArray[np.float32], sample: StereoSample) -> Score:
    assert sample.disparity is not None
    error = np.abs(prediction - sample.disparity)
    return Score(float(error.mean()), 100 * float((error > BAD).mean()))


def mean(scores: Sequence[Score]) -> str:
    epe, bad = np.mean(scores, axis=0)
    return f"{epe:.2f}, {bad:.1f} %"


def picture(pair: Pair, prediction: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Left image, truth, prediction and error in a row."""
    truth = pair.sample.disparity
    assert truth is not None
    everywhere = np.ones(truth.shape, np.bool_)
    error = disparity_error(prediction, truth)
    parts = comparison_pictures(pair.sample.left, prediction, truth, valid=everywhere, error=error, counted=everywhere)
    return np.hstack([parts[name] for name in ("left", "truth", "prediction", "error")])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=12, help="pairs of each kind (default: 12)")
    parser.add_argument("--model", action="append", default=[], help="a checkpoint; by default the bundled model")
    parser.add_argument("--photos", metavar="DIR", help="photographs to use as textures too")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pictures", metavar="FILE", help="draw the worst pairs of the last model")
    parser.add_argument("--write", action="store_true", help="write benchmarks/kinds.md")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    pairs = rendered(options.count, options.photos)
    methods: list[Method] = [SgbmMethod(), *(ModelMethod(linstereo.load(name)) for name in options.model or [None])]
    scores: list[list[Score]] = []
    for method in methods:
        predictions = [method.predict(pair.sample) for pair in tqdm(pairs, desc=method.title, disable=None)]
        scores.append([score(prediction, pair.sample) for prediction, pair in zip(predictions, pairs, strict=True)])
    groups = {kind: [pair.kind == kind for pair in pairs] for kind in FILLERS}
    groups |= {"grey": [pair.grey for pair in pairs], "colour": [not pair.grey for pair in pairs]}
    groups |= {"noisy": [pair.noisy for pair in pairs], "clean": [not pair.noisy for pair in pairs]}
    groups |= {"all": [True] * len(pairs)}
    lines = [
        f"{options.count} pairs of 320 x 640 px of each kind, seed {SEED}; EPE in px and pixels off by more than "
        f"{BAD:g} px, all pixels.",
        "",
        "| pairs | " + " | ".join(method.title for method in methods) + " |",
        "|---" * (len(methods) + 1) + "|",
    ]
    for name, chosen in groups.items():
        cells = [mean([s for s, taken in zip(of, chosen, strict=True) if taken]) for of in scores]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    order = np.argsort([-s.epe for s in scores[-1]])[:WORST]
    named = [f"{pairs[i].kind} {pairs[i].number} ({scores[-1][i].epe:.1f} px)" for i in order]
    lines += ["", f"The {WORST} worst pairs of the last column: {', '.join(named)}."]
    print("\n".join(lines))
    if options.write:
        page = "# Kinds of scenes\n\nMade by `python benchmarks/kinds.py --write`, which says what is measured.\n\n"
        Path(__file__).with_suffix(".md").write_text(page + "\n".join(lines) + "\n")
    if options.pictures:
        write_image(options.pictures, np.vstack([picture(pairs[i], predictions[i]) for i in order]))


if __name__ == "__main__":
    main()
