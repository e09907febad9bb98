"""Large images in two passes and strips: time against one piece, difference from one strip, and peak memory.

    python benchmarks/large_images.py LEFT RIGHT              # all of it, at 3840 x 2160 px; several minutes
    python benchmarks/large_images.py LEFT RIGHT --part time  # or difference, or memory

The pair is enlarged to the sizes that are measured. Times are those of the processor on one thread, the variants
taking turns in one process; for memory every run has a process of its own, and its peak is how far the resident memory
rises above what it is once the model and the images are loaded and a small pair has been predicted.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import torch

from linstereo.image_pairs import Image, read_pair
from linstereo.loading import load
from linstereo.model.large_images import Strips
from linstereo.predictor import StereoPredictor
from linstereo.run_plan import needed_bytes, plan_run, strips_bytes
from memory import resident

LARGE = (2160, 3840)
SIZES = ((1080, 1920), (1440, 2560), LARGE)
ONE_STRIP = 1 << 20
ROUNDS = 2


def enlarged(options: argparse.Namespace, height: int, width: int) -> tuple[Image, Image]:
    left, right = (
        np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)
        for image in read_pair(options.left, options.right)
    )
    return left, right


def strips_of(predictor: StereoPredictor, height: int, width: int) -> Strips:
    """Those that are taken if the whole needs one byte more than there is."""
    config = predictor.config
    available = needed_bytes(config, height, width, scale=None, volume="on_the_fly") - 1
    strips = plan_run(config, height, width, available=available).strips
    assert strips is not None
    return strips


def compare_times(options: argparse.Namespace) -> None:
    predictor, images = load(options.model, device="cpu"), enlarged(options, *LARGE)
    strips, iterations = strips_of(predictor, *LARGE), predictor.iterations(None)
    runs: dict[str, Callable[[], object]] = {
        "one piece": lambda: predictor.predict(*images, volume="on_the_fly"),
        "strips": lambda: predictor.torch_engine.run_large(*images, strips, iterations=iterations),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            begin = time.process_time()
            run()
            seconds[name].append(time.process_time() - begin)
    best = {name: min(values) for name, values in seconds.items()}
    print(f"{LARGE[1]} x {LARGE[0]} px, {strips}:", {name: [round(x, 1) for x in s] for name, s in seconds.items()})
    print(f"strips / one piece: {best['strips'] / best['one piece']:.2f}")


def compare_results(options: argparse.Namespace) -> None:
    predictor, (height, width) = load(options.model, device="cpu"), (1080, 1536)
    images, strips = enlarged(options, height, width), strips_of(predictor, height, width)
    results = {}
    for rows in (ONE_STRIP, 416, 256, 64):
        sized = Strips(strips.coarse_height, strips.coarse_width, rows)
        results[rows] = predictor.torch_engine.run_large(*images, sized, iterations=4).disparity
        difference = np.abs(results[rows] - results[ONE_STRIP])
        print(
            f"strips of {rows} px: {difference.mean():.1e} px from one strip on average, {difference.max():.1e} at most"
        )


def measure(options: argparse.Namespace, height: int, width: int, rows: int) -> None:
    """Print a row of the table of memory."""
    predictor, images = load(options.model, device="cpu"), enlarged(options, height, width)
    strips = strips_of(predictor, height, width)
    strips = Strips(strips.coarse_height, strips.coarse_width, rows)
    left, right = images
    predictor.predict(left[:64, :64], right[:64, :64], iters=1, scale=1)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = resident("VmRSS")
    predictor.torch_engine.run_large(*images, strips, iterations=predictor.iterations(None))
    measured, estimated = resident("VmHWM") - before, strips_bytes(predictor.config, height, width, strips)
    print(f"| {height} x {width} | {rows} | {measured / 1e6:,.0f} | {estimated / 1e6:,.0f} |", flush=True)


def measure_all(options: argparse.Namespace) -> None:
    print("| size, px (height x width) | strip, px | measured, MB | estimated, MB |\n|---|---|---|---|", flush=True)
    for height, width in SIZES:
        for rows in (512, 128):
            subprocess.run([sys.executable, *sys.argv, "--run", *map(str, (height, width, rows))], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("left")
    parser.add_argument("right")
    parser.add_argument("--model", default="compact")
    parser.add_argument("--part", choices=("time", "difference", "memory"))
    parser.add_argument("--run", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.run:
        measure(options, *options.run)
        return
    for name, part in (("time", compare_times), ("difference", compare_results), ("memory", measure_all)):
        if options.part in (None, name):
            part(options)


if __name__ == "__main__":
    main()
