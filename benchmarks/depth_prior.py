"""When the inlier-share rule of the depth prior (DPI) helps, and when it does harm.

    python benchmarks/depth_prior.py --benchmark middlebury-q=FOLDER --benchmark middlebury2006=FOLDER --write

fits the scale and shift of a simulated monocular depth to the SIFT matches of real pairs, once by the paper's rule
(fall back to zero disparity below 20 inliers) and once with a minimum share of inliers on top, and compares each start
with the ground truth. The monocular depth is the true one, in an unknown unit and with an unknown shift, times
exp(noise) of a few bumps across the image; "of another scene" is the depth of another pair, so wrong altogether. Prints
a table, and with --write puts it into benchmarks/depth_prior.md.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from linstereo.data.datasets.naming import parse_dataset
from linstereo.data.sample import StereoSample
from linstereo.evaluation.baselines import fill_rows
from linstereo.evaluation.runner import open_benchmark
from linstereo.geometry.sparse_matches import SparseMatches, match_sparse
from linstereo.model.depth_prior import initial_disparity

SHARES = (0.0, 0.1, 0.25, 0.5)
SEEDS = 5
NOISE = (0.0, 0.1, 0.2, 0.4, 0.8)
WRONG = (0.5, 0.8, 0.9, 1.0)
BUMPS = (4, 6)  # rows and columns of the coarse grid of the noise
Image = NDArray[np.uint8]
Map = NDArray[np.float32]


@dataclass(frozen=True)
class Trial:
    """What to start from: matches, monocular depth [h, w]; and the disparity [H, W] to be found, 0 = unknown."""

    matches: SparseMatches
    depth: Map
    truth: Map


def simulated_depth(sample: StereoSample, *, sigma: float, seed: int) -> Map:
    """Depth whose inverse is an affine function of the true disparity, times exp(noise); at 14/16 of the size."""
    assert sample.disparity is not None
    assert sample.valid is not None
    rng = np.random.default_rng(seed)
    filled = fill_rows(sample.disparity, known=sample.valid)
    filled = np.where(filled > 0, filled, np.median(sample.disparity[sample.valid]))
    shift = rng.uniform(-15, 0.8 * filled.min())
    depth = np.exp(rng.uniform(-3, 6)) / (filled - shift)
    size = (filled.shape[1] * 14 // 16, filled.shape[0] * 14 // 16)
    noise = cv2.resize(rng.normal(0, sigma, BUMPS), size, interpolation=cv2.INTER_CUBIC)
    small = cv2.resize(depth, size, interpolation=cv2.INTER_LINEAR)
    return np.asarray(small * np.exp(noise), np.float32)


def cut(image: Image, size: tuple[int, int]) -> Image:
    """Cut or repeat the right and bottom edge to height and width `size`."""
    grown = np.pad(
        image, ((0, max(size[0] - image.shape[0], 0)), (0, max(size[1] - image.shape[1], 0)), (0, 0)), "edge"
    )
    return np.ascontiguousarray(grown[: size[0], : size[1]])


def hazy(image: Image, seed: int) -> Image:
    """An eighth of the contrast in front of a bright veil, and noise, as in turbid water."""
    noise = np.random.default_rng(seed).normal(0, 1, image.shape)
    return np.clip(np.rint(150 + 0.125 * (image.astype(np.float32) - 128) + noise), 0, 255).astype(np.uint8)


def own(samples: Sequence[StereoSample], *, sigma: float, views: Callable[[Image, int], Image]) -> Iterable[Trial]:
    for sample in samples:
        assert sample.disparity is not None
        matches = match_sparse(views(sample.left, 1), views(sample.right, 2))
        for seed in range(SEEDS):
            yield Trial(matches, simulated_depth(sample, sigma=sigma, seed=seed), sample.disparity)


def other_depth(samples: Sequence[StereoSample]) -> Iterable[Trial]:
    for index, sample in enumerate(samples):
        assert sample.disparity is not None
        matches = match_sparse(sample.left, sample.right)
        for step in range(1, SEEDS + 1):
            depth = simulated_depth(samples[(index + step) % len(samples)], sigma=0, seed=step)
            yield Trial(matches, depth, sample.disparity)


def mismatched(samples: Sequence[StereoSample], *, wrong: float) -> Iterable[Trial]:
    """A share of the matches replaced by wrong ones, somewhere to the left in their row, as in repetitive texture."""
    for sample in samples:
        assert sample.disparity is not None
        right = match_sparse(sample.left, sample.right)
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            replaced = rng.random(len(right.disparity)) < wrong
            anywhere = rng.uniform(0, np.maximum(right.points[:, 0], 1)).astype(np.float32)
            matches = replace(right, disparity=np.where(replaced, anywhere, right.disparity))
            yield Trial(matches, simulated_depth(sample, sigma=0.1, seed=seed), sample.disparity)


def swapped(samples: Sequence[StereoSample]) -> Iterable[Trial]:
    """Right as left: every true disparity is negative, so that zero is the best start there is."""
    for sample in samples:
        assert sample.disparity is not None
        matches = match_sparse(sample.right, sample.left)
        for seed in range(SEEDS):
            yield Trial(matches, simulated_depth(sample, sigma=0, seed=seed), -sample.disparity)


def unrelated(samples: Sequence[StereoSample]) -> Iterable[Trial]:
    """The right image of another pair: there is nothing to be found."""
    for index, sample in enumerate(samples):
        for step in range(1, SEEDS + 1):
            other = samples[(index + step) % len(samples)]
            matches = match_sparse(sample.left, cut(other.right, sample.left.shape[:2]))
            yield Trial(
                matches, simulated_depth(sample, sigma=0, seed=step), np.zeros(sample.left.shape[:2], np.float32)
            )


def start_of(trial: Trial, share: float) -> tuple[Map, bool]:
    """The start [H, W], px, by the paper's rule and a minimum share of inliers; and whether it fell back."""
    size = trial.matches.image_size
    start, (report,) = initial_disparity(
        torch.from_numpy(trial.depth)[None, None],
        [trial.matches],
        full_size=size,
        out_size=size,
        min_inlier_share=share,
    )
    return start[0, 0].numpy(), report.fell_back


def row(name: str, trials: Iterable[Trial]) -> str:
    """One line of the table: how often each rule falls back, and the error of what the start then is."""
    fallbacks = dict.fromkeys(SHARES, 0)
    errors: dict[float, list[float]] = {share: [] for share in SHARES}
    zero: list[float] = []
    count = 0
    for trial in trials:
        count += 1
        known = trial.truth != 0
        zero += [float(np.abs(trial.truth[known]).mean())] if known.any() else []
        for share in SHARES:
            start, fell_back = start_of(trial, share)
            fallbacks[share] += fell_back
            errors[share] += [float(np.abs(start - trial.truth)[known].mean())] if known.any() else []
    cells = [f"{fallbacks[share]}" for share in SHARES]
    cells += [f"{np.mean(errors[share]):.1f}" if zero else "-" for share in SHARES]
    return f"| {name} | {count} | {' | '.join(cells)} | {f'{np.mean(zero):.1f}' if zero else '-'} |"


def table(samples: Sequence[StereoSample]) -> str:
    """The whole table in Markdown."""

    def clear(image: Image, seed: int) -> Image:
        return image

    shares = [f"{100 * share:g} %" if share else "paper" for share in SHARES]
    header = ["case", "starts", *(f"fell back: {name}" for name in shares), *(f"error: {name}" for name in shares)]
    lines = [f"| {' | '.join([*header, 'error: zero'])} |", f"|---{'|---:' * (len(header))}|"]
    for sigma in NOISE:
        lines.append(row(f"depth off by {100 * sigma:g} %", own(samples, sigma=sigma, views=clear)))
    lines.append(row("hazy images, depth off by 10 %", own(samples, sigma=0.1, views=hazy)))
    lines.append(row("depth of another scene", other_depth(samples)))
    for wrong in WRONG:
        name = f"{100 * wrong:g} % of the matches wrong, depth off by 10 %"
        lines.append(row(name, mismatched(samples, wrong=wrong)))
    lines.append(row("left and right swapped", swapped(samples)))
    lines.append(row("right image of another scene", unrelated(samples)))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", action="append", required=True, metavar="NAME[:SPLIT]=ROOT")
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/depth_prior.md")
    options = parser.parse_args()
    samples: list[StereoSample] = []
    for text in options.benchmark:
        name, split, root = parse_dataset(text, what="--benchmark")
        benchmark = open_benchmark(name, root, split=split)
        samples += [benchmark.dataset[index] for index in range(benchmark.count)]
    measured = table(samples)
    print(measured)
    if options.write:
        path = Path(__file__).with_suffix(".md")
        before, _, rest = path.read_text(encoding="utf-8").partition("<!-- table -->\n")
        after = rest.partition("<!-- end -->")[2]
        path.write_text(f"{before}<!-- table -->\n{measured}\n<!-- end -->{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
