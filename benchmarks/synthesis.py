"""Pairs a second of the synthetic stereo engine, and where the time goes.

    python benchmarks/synthesis.py --photos FOLDER --write

measures with several processes at once, as a data loader runs them, and writes benchmarks/synthesis.md.
"""

import argparse
import functools
import multiprocessing
import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import embreex
import numpy as np

from linstereo.synthesis import engine as engine_module
from linstereo.synthesis.engine import EngineSettings, StereoEngine

STAGES = {
    "random_scene": "scene: meshes, textures, lights",
    "RayCaster": "triangles and Embree's tree",
    "textures_of": "textures and their smaller versions",
    "render_view": "two views: rays, texture, light, shadows, smooth edges",
    "occlusion": "two occlusion masks",
    "through_water": "water (share of the pairs)",
    "expose_pair": "two cameras: blur, noise, vignetting, tone curve, JPEG",
}


def timed(function: Callable[..., Any], spent: dict[str, float], name: str) -> Callable[..., Any]:
    @functools.wraps(function, updated=())
    def wrapper(*args: Any, **options: Any) -> Any:
        start = time.process_time()
        try:
            return function(*args, **options)
        finally:
            spent[name] += time.process_time() - start

    return wrapper


def work(settings: EngineSettings, what: str, seed: int, count: int, warm: int, start: Any, results: Any) -> None:
    """Make `count` pairs after `warm` others; sends wall-clock seconds, CPU seconds and those of each stage."""
    spent: dict[str, float] = defaultdict(float)
    for name in STAGES:
        setattr(engine_module, name, timed(getattr(engine_module, name), spent, name))
    make = getattr(StereoEngine(settings), what)
    for index in range(warm):
        make(seed + 1000, index)
    spent.clear()
    start.wait()
    wall, busy = time.perf_counter(), time.process_time()
    for index in range(count):
        make(seed, index)
    results.put((time.perf_counter() - wall, time.process_time() - busy, dict(spent)))


def measure(
    settings: EngineSettings, what: str, processes: int, count: int, warm: int
) -> tuple[float, float, dict[str, float]]:
    """Pairs a second of all processes together, CPU seconds a pair, and those of each stage.

    `what` is the method of the engine: "render" with all ground truth, or "sample" without that of the right view.
    """
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(processes), context.Queue()
    workers = [
        context.Process(target=work, args=(settings, what, seed, count, warm, start, results))
        for seed in range(processes)
    ]
    for worker in workers:
        worker.start()
    found = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    pairs = processes * count
    stages = {name: sum(spent.get(name, 0.0) for _, _, spent in found) / pairs for name in STAGES}
    rate = sum(count / wall for wall, _, _ in found)
    return rate, sum(busy for _, busy, _ in found) / pairs, stages


def report(settings: EngineSettings, processes: int, count: int, warm: int) -> str:
    load = os.getloadavg()[0]
    rate, busy, stages = measure(settings, "render", processes, count, warm)
    sample_rate, sample_busy, _ = measure(settings, "sample", processes, count, warm)
    photos = "with photographs as textures" if settings.photos else "procedural textures only"
    lines = [
        f"{settings.height} x {settings.width} px, {settings.underwater:.0%} under water, {photos};",
        f"{processes} processes, {processes * count} pairs after {processes * warm} of warm-up; load average before",
        f"the start {load:.1f} on {os.cpu_count()} processors; {platform.machine()}, OpenCV {cv2.__version__},",
        f"NumPy {np.__version__}, embreex {embreex.__version__}.",
        "",
        "| what | pairs per second | CPU ms per pair |",
        "|---|---|---|",
        f"| all ground truth | {rate:.1f} | {1e3 * busy:.0f} |",
        f"| as training takes them, without the right occlusion mask | {sample_rate:.1f} | {1e3 * sample_busy:.0f} |",
        "",
        "| stage, with all ground truth | ms per pair | share |",
        "|---|---|---|",
    ]
    for name, title in STAGES.items():
        lines.append(f"| {title} | {1e3 * stages[name]:.0f} | {stages[name] / busy:.0%} |")
    rest = busy - sum(stages.values())
    lines.append(f"| the rest | {1e3 * rest:.0f} | {rest / busy:.0%} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--height", type=int, default=320)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--count", type=int, default=60, help="pairs of each process")
    parser.add_argument("--warm", type=int, default=40, help="pairs of each process before the clock starts")
    parser.add_argument("--underwater", type=float, default=EngineSettings.underwater)
    parser.add_argument("--photos", help="folder of photographs for textures")
    parser.add_argument("--write", action="store_true", help="write benchmarks/synthesis.md")
    options = parser.parse_args()
    settings = EngineSettings(
        height=options.height, width=options.width, underwater=options.underwater, photos=options.photos
    )
    text = report(settings, options.processes, options.count, options.warm)
    print(text)
    if options.write:
        page = (
            "# Synthetic stereo pairs\n\nMade by `python benchmarks/synthesis.py --photos FOLDER --write`. "
            "A pair is both views, rendered, shaded and degraded, with\ndisparity and occlusion of both. "
            "Other work on the machine lowers the throughput; the milliseconds\nsuffer less.\n\n"
        )
        Path(__file__).with_suffix(".md").write_text(page + text + "\n")


if __name__ == "__main__":
    main()
