"""How well the bundled model and SGBM bear what cameras do to images: exposure, noise, darkness, poor rectification.

    python benchmarks/robustness.py --benchmark middlebury-q=FOLDER --benchmark middlebury2006=FOLDER --write

disturbs the pairs of benchmarks in one way at a time, measures both on all ground-truth pixels as `linstereo evaluate`
does, and writes benchmarks/robustness.md.
"""

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

import linstereo
from linstereo.data.datasets.naming import parse_dataset
from linstereo.data.sample import StereoSample
from linstereo.evaluation.baselines import SgbmMethod
from linstereo.evaluation.methods import Method, ModelMethod
from linstereo.evaluation.protocol import score_sample
from linstereo.evaluation.runner import Benchmark, open_benchmark

Pixels = NDArray[np.float32]  # [H, W, 3], 0 to 255
Disturbance = Callable[[Pixels, Pixels], tuple[Pixels, Pixels]]


def noisy(image: Pixels, sigma: float, seed: int) -> Pixels:
    return image + np.random.default_rng(seed).normal(0, sigma, image.shape).astype(np.float32)


def shaded(image: Pixels) -> Pixels:
    """Half as bright at the left border as at the right one."""
    return image * np.linspace(0.5, 1, image.shape[1], dtype=np.float32)[:, None]


def moved_down(image: Pixels, by: float) -> Pixels:
    height, width = image.shape[:2]
    motion = np.array([[1, 0, 0], [0, 1, by]], dtype=np.float32)
    moved = cv2.warpAffine(image, motion, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(moved, np.float32)


def blurred(image: Pixels, sigma: float) -> Pixels:
    return np.asarray(cv2.GaussianBlur(image, (0, 0), sigma), np.float32)


DISTURBANCES: dict[str, Disturbance] = {
    "none": lambda left, right: (left, right),
    "right image 0.55 times as bright": lambda left, right: (left, 0.55 * right),
    "right image 1.5 times as bright, saturating": lambda left, right: (left, 1.5 * right),
    "right image shaded, 0.5 at its left border": lambda left, right: (left, shaded(right)),
    "noise, sigma 8 of 255": lambda left, right: (noisy(left, 8, 1), noisy(right, 8, 2)),
    "dark: 0.12 times as bright, noise of sigma 1": lambda left, right: (
        noisy(0.12 * left, 1, 1),
        noisy(0.12 * right, 1, 2),
    ),
    "blur, sigma 1 px": lambda left, right: (blurred(left, 1), blurred(right, 1)),
    "right image 0.5 px too low": lambda left, right: (left, moved_down(right, 0.5)),
    "right image 1 px too low": lambda left, right: (left, moved_down(right, 1)),
}


def disturbed(sample: StereoSample, disturb: Disturbance) -> StereoSample:
    left, right = disturb(sample.left.astype(np.float32), sample.right.astype(np.float32))
    left8, right8 = (np.clip(np.rint(image), 0, 255).astype(np.uint8) for image in (left, right))
    return dataclasses.replace(sample, left=left8, right=right8)


def bad_metric(benchmark: Benchmark) -> str:
    """The share of bad pixels that the protocol shows, with its widest threshold."""
    shown = [metric for metric in benchmark.protocol.metrics if metric.startswith("bad")]
    if not shown:
        raise linstereo.InputError(f"{benchmark.key} counts no bad pixels; choose a benchmark of disparities")
    return shown[-1]


def measure(benchmarks: list[Benchmark], method: Method, disturb: Disturbance) -> NDArray[np.float64]:
    """EPE in px and share of bad pixels in percent, mean over the images of all benchmarks."""
    rows = []
    for benchmark in benchmarks:
        bad = bad_metric(benchmark)
        for index in range(benchmark.count):
            sample = disturbed(benchmark.dataset[index], disturb)
            score = score_sample(benchmark.protocol, sample, method.predict(sample)).regions["all"]
            rows.append([score.value("EPE"), score.value(bad)])
    return np.asarray(np.array(rows, dtype=np.float64).mean(axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", action="append", required=True, metavar="NAME[:SPLIT]=ROOT")
    parser.add_argument("--model", help="a checkpoint; the bundled model by default")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write benchmarks/robustness.md")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    try:
        named = [parse_dataset(text, what="--benchmark") for text in options.benchmark]
        benchmarks = [open_benchmark(name, root, split=split) for name, split, root in named]
        for benchmark in benchmarks:
            bad_metric(benchmark)
    except linstereo.InputError as error:
        parser.error(str(error))
    methods: list[Method] = [SgbmMethod(), ModelMethod(linstereo.load(options.model))]
    images = ", ".join(f"{benchmark.key} ({', '.join(benchmark.chosen)})" for benchmark in benchmarks)
    lines = [
        f"Pairs: {images}.",
        "EPE in px and share of bad pixels "
        f"({', '.join(sorted({bad_metric(benchmark) for benchmark in benchmarks}))}: off by more than that many px),",
        "mean over the images, every ground-truth pixel.",
        "",
        f"| degradation | {' | '.join(method.title for method in methods)} | relative to SGBM |",
        "|---|---|---|---|",
    ]
    for name, disturb in DISTURBANCES.items():
        results = [measure(benchmarks, method, disturb) for method in methods]
        cells = [f"{epe:.2f}, {bad:.1f} %" for epe, bad in results]
        lines.append(f"| {name} | {' | '.join(cells)} | {', '.join(f'{r:.2f}' for r in results[1] / results[0])} |")
        print(lines[-1], flush=True)
    if options.write:
        page = "# Degraded images\n\nMade by `python benchmarks/robustness.py --benchmark NAME=ROOT ... --write`.\n\n"
        Path(__file__).with_suffix(".md").write_text(page + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
