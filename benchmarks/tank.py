"""How exact the ground truth from tags and model is, on rendered views of the target under water.

    python benchmarks/tank.py --write

renders views from random sides (0.4 to 2 m) in all types of water with the engine's noise and blur, makes their ground
truth, compares it with the renderer's own depth, and writes benchmarks/tank.md.
"""

import argparse
import multiprocessing
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from linstereo.synthesis.water import WATER_TYPES
from linstereo.tank.ground_truth import make_ground_truth
from linstereo.tank.mesh import FRAME, ROPE
from linstereo.tank.pose import Rejected
from linstereo.tank.scene import CAMERA
from linstereo.tank.target import make_target
from linstereo.tank.views import ViewSettings, render_pair


@dataclass(frozen=True)
class Result:
    """One view: errors in mm over its rigid pixels, or why it was rejected."""

    index: int
    water: str
    distance: float
    reason: str | None = None
    median: float = 0.0
    high: float = 0.0
    rope: float = 0.0
    estimate: float = 0.0
    tags: int = 0
    corner: float = 0.0
    odd_mask: float = 0.0
    seconds: float = 0.0


def measure(job: tuple[int, int]) -> Result:
    """Render view `index` of a seed and compare."""
    seed, index = job
    target = make_target()
    view = render_pair(target, ViewSettings(count=index + 1, seed=seed), index, right=False)
    distance = float(np.median(view.depth[view.part > 0]))
    begin = time.perf_counter()
    try:
        truth = make_ground_truth(view.left, None, CAMERA.calibration, target.layout, target.mesh)
    except Rejected as error:
        return Result(index, view.water, distance, reason=str(error))
    seconds = time.perf_counter() - begin
    off = 1e3 * np.abs(truth.depth - view.depth)
    rigid = (truth.part == FRAME) & (view.part == FRAME) & ~truth.thin
    ropes = (truth.part == ROPE) & (view.part == ROPE)
    differs = np.count_nonzero((truth.part > 0) != (view.part > 0))
    return Result(
        index=index,
        water=view.water,
        distance=distance,
        median=float(np.median(off[rigid])),
        high=float(np.percentile(off[rigid], 95)),
        rope=float(np.median(off[ropes])) if ropes.any() else 0.0,
        estimate=1e3 * truth.quality.depth_error,
        tags=len(truth.quality.tags),
        corner=truth.quality.reprojection,
        odd_mask=differs / np.count_nonzero(view.part),
        seconds=seconds,
    )


def row(name: str, results: list[Result]) -> str:
    kept = [result for result in results if result.reason is None]
    rejected = len(results) - len(kept)
    if not kept:
        return f"| {name} | {len(results)} | {rejected / len(results):.0%} | | | | | | |"

    def figures(values: list[float]) -> str:
        return f"{np.median(values):.2f} / {max(values):.2f}"

    return (
        f"| {name} | {len(results)} | {rejected / len(results):.0%} | {figures([r.median for r in kept])} | "
        f"{figures([r.high for r in kept])} | {figures([r.rope for r in kept])} | "
        f"{figures([r.estimate for r in kept])} | {np.median([r.tags for r in kept]):.0f} | "
        f"{np.median([r.corner for r in kept]):.2f} |"
    )


def report(results: list[Result]) -> str:
    kept = [result for result in results if result.reason is None]
    within = sum(result.median <= 1 and result.high <= 3 for result in kept)
    ratio = np.median([result.median / max(result.estimate, 1e-6) for result in kept])
    head = "| {} | views | rejected | error, median (mm) | error, 95 % (mm) | ropes (mm) | estimate (mm) | tags | px |"
    rule = "|---|---|---|---|---|---|---|---|---|"
    bins = [(0.0, 0.8), (0.8, 1.2), (1.2, 1.6), (1.6, 9.0)]
    names = ["below 0.8 m", "0.8 to 1.2 m", "1.2 to 1.6 m", "above 1.6 m"]
    lines = [
        f"{len(results)} views of {CAMERA.width} x {CAMERA.height} px (focal length {CAMERA.calibration.focal:g} px)",
        "of the target with its default measures, 0.4 to 2 m away, at least 3 of its 15 tags in view.",
        "",
        f"**{within} of {len(kept)} accepted views are within 1 mm (median) and 3 mm (95th percentile); "
        f"{len(results) - len(kept)} were rejected.**",
        "",
        "Error: difference of the depth and the renderer's own on the pixels of the frame, its median and its 95th",
        "percentile in each view; ropes: the median there. Figures are `median over views / worst view`. Estimate:",
        "what the ground truth says of itself, one standard deviation. px: error of the tags' corners, RMS.",
        "",
        head.format("water"),
        rule,
        *(row(water, [r for r in results if r.water == water]) for water in WATER_TYPES),
        row("**all**", results),
        "",
        head.format("distance"),
        rule,
    ]
    for name, (low, high) in zip(names, bins, strict=True):
        some = [result for result in results if low <= result.distance < high]
        if some:
            lines.append(row(name, some))
    lines += [
        "",
        f"The error is {ratio:.2f} times the estimate in the median view (0.67 for an error that is as estimated and",
        "normally distributed). The ground truth's mask differs from the renderer's at "
        f"{np.median([r.odd_mask for r in kept]):.2%} of",
        f"the target's pixels (median view; worst {max(r.odd_mask for r in kept):.2%}), along outlines. One view takes",
        f"{np.median([r.seconds for r in kept]):.2f} s on one processor.",
    ]
    reasons = Counter(result.reason for result in results if result.reason is not None)
    if reasons:
        lines += ["", "Why views were rejected:", ""]
        lines += [f"* {count} x {reason}" for reason, count in reasons.most_common()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--views", type=int, default=100)
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--write", action="store_true", help="write benchmarks/tank.md")
    options = parser.parse_args()
    jobs = [(options.seed, index) for index in range(options.views)]
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        results = pool.map(measure, jobs, chunksize=2)
    text = report(results)
    print(text)
    if options.write:
        page = "# Ground truth from tags and model\n\nMade by `python benchmarks/tank.py --write`.\n\n"
        Path(__file__).with_suffix(".md").write_text(page + text + "\n")


if __name__ == "__main__":
    main()
