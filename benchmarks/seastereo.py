"""What a pair of SeaStereo costs in both water modes, and how far the two modes agree.

    python benchmarks/seastereo.py --write

renders the same frames in both modes and writes benchmarks/seastereo.md and docs/images/seastereo_modes.jpg. Costs are
CPU seconds of Blender, so that they do not depend on what else the machine does; on free cores a pair takes that
divided by their number. With `--results A/results.json B/results.json` of `linstereo evaluate` on a rendered dataset,
there is a table of methods by type of water, too.
"""

import argparse
import itertools
import json
import os
import platform
import resource
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linstereo.data.formats.depth_maps import read_depth
from linstereo.data.formats.images import read_image, write_image
from linstereo.synthesis.seastereo.estimate import MEASURED
from linstereo.synthesis.seastereo.files import frame_files
from linstereo.synthesis.seastereo.frame import MODE_TOLERANCE
from linstereo.synthesis.seastereo.plan import FRAMES, WATER_SETTINGS, Configuration, all_configurations
from linstereo.synthesis.seastereo.render import MODES, Job, LocalFarm, RenderSettings, chosen_frames, render_plan
from linstereo.visualize import captioned

NAMES = ("t2_f24_b120_IA_shallow_1", "t2_f24_b120_3C_shallow_1", "t2_f24_b120_II_deep_1")
RANGES = (0.0, 2.5, 4.0, 6.0, 10.0)
"""Metres of depth between which colours are averaged."""
PAIRS = 40_320
DEEP_SHARE = 5 / 12


def linear(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Linear values of white 1 of an sRGB image."""
    value = image.astype(np.float64) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def colours(root: Path, configuration: Configuration, frame: int) -> list[tuple[float, ...]]:
    """Mean linear red, green and blue of the left image between the `RANGES`, empty where there are few pixels."""
    paths = frame_files(root / configuration.name, frame)
    image, depth = linear(read_image(paths["left"])), read_depth(paths["depth"])
    rows: list[tuple[float, ...]] = []
    for low, high in itertools.pairwise(RANGES):
        there = (depth > low) & (depth <= high)
        rows.append(tuple(image[there].mean(axis=0)) if there.sum() > 200 else ())
    return rows


def render(root: Path, settings: RenderSettings, configuration: Configuration, threads: int) -> float:
    """CPU seconds that Blender spends on a pair; 0 if it was there already."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = render_plan(
        root,
        settings,
        [configuration],
        frames=1,
        runner=LocalFarm(1),
        job=lambda folder: Job(root=folder, settings=settings, threads=threads),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent if report.written else 0.0


def by_water(results: list[Path]) -> list[str]:
    """A table of the mean EPE and the mean share of errors above 3 px, of each method in each type of water."""
    if not results:
        return []
    titles, figures = [], []
    for path in results:
        content = json.loads(path.read_text("utf-8"))
        titles.append(content["method"]["title"])
        images = next(iter(content["benchmarks"].values()))["images"]
        scores: dict[str, list[tuple[float, float]]] = {}
        for image in images:
            _, _, _, water, depth, *_ = image["name"].split("_")
            region = image["regions"]["all"]
            scores.setdefault(f"{water}, {depth}", []).append((region["EPE"], region["bad3"]))
        figures.append({kind: np.mean(values, axis=0) for kind, values in scores.items()})
    pairs = sum(len(values) for values in scores.values())
    lines = [
        "",
        "## The bundled model against SGBM",
        "",
        f"EPE (px) and bad3 (%) by type of water, all pixels with ground truth, {pairs} pairs:",
        "",
        "| water | " + " | ".join(f"{title}: EPE | bad3" for title in titles) + " |",
        "|---|" + "---|---|" * len(titles),
    ]
    for kind in (f"{water}, {depth}" for water, depth in WATER_SETTINGS):
        if any(kind not in figure for figure in figures):
            continue
        cells = " | ".join(f"{figure[kind][0]:.2f} | {figure[kind][1]:.1f}" for figure in figures)
        lines.append(f"| {kind} | {cells} |")
    return lines


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("out/seastereo_benchmark"), help="folder of the rendered pairs"
    )
    parser.add_argument("--height", type=int, default=480)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--analytic-samples", type=int)
    parser.add_argument("--volume-samples", type=int)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, nargs="+", default=[], help="files of `linstereo evaluate`")
    parser.add_argument("--write", action="store_true", help="write the tables and the picture")
    options = parser.parse_args()
    chosen = [c for name in NAMES for c in all_configurations(0) if c.name == name]
    given = {"analytic": options.analytic_samples, "volume": options.volume_samples}
    settings = {
        mode: RenderSettings(height=options.height, width=options.width, mode=mode, samples=given[mode])
        for mode in MODES
    }
    frame = chosen_frames(1)[0]
    kept = options.out / "costs.json"
    costs: dict[str, float] = json.loads(kept.read_text("utf-8")) if kept.is_file() else {}
    cost: dict[tuple[str, str], float] = {}
    for configuration in chosen:
        for mode in MODES:
            spent = render(options.out / mode, settings[mode], configuration, options.threads)
            key = f"{configuration.name} {mode}"
            costs[key] = spent or costs.get(key, 0.0)
            cost[configuration.name, mode] = costs[key]
            print(f"{key}: {costs[key]:.1f} CPU s")
            kept.write_text(json.dumps(costs), "utf-8")
    lines = [
        "# SeaStereo: cost of a pair, and agreement of the two water modes",
        "",
        f"`python benchmarks/seastereo.py --write` on {platform.machine()}, {os.cpu_count()} cores; "
        f"{options.width} x {options.height} px; samples: "
        + ", ".join(f"{settings[mode].paths} {mode}" for mode in MODES)
        + "; CPU seconds of Blender for a pair, scene loading included.",
        "",
        "| configuration | analytic, CPU s | volume, CPU s |",
        "|---|---|---|",
        *(f"| {c.name} | {cost[c.name, 'analytic']:.0f} | {cost[c.name, 'volume']:.0f} |" for c in chosen),
        "",
        *_totals(chosen, cost, options.height * options.width),
        "",
        "## Agreement of the two modes",
        "",
        "Mean linear colour of the left image by depth, volume mode over analytic mode:",
        "",
        "| configuration | depth, m | red | green | blue |",
        "|---|---|---|---|---|",
    ]
    worst = 0.0
    for configuration in chosen:
        pairs = zip(*(colours(options.out / mode, configuration, frame) for mode in MODES), strict=True)
        for (low, high), (one, two) in zip(itertools.pairwise(RANGES), pairs, strict=True):
            if one and two:
                ratios = [b / max(a, 1e-6) for a, b in zip(one, two, strict=True)]
                worst = max([worst, *(abs(ratio - 1) for ratio in ratios)])
                told = " | ".join(f"{ratio:.2f}" for ratio in ratios)
                lines.append(f"| {configuration.name} | {low:g} to {high:g} | {told} |")
    verdict = "all within" if worst <= MODE_TOLERANCE else "NOT all within"
    lines += ["", f"Largest difference {100 * worst:.0f} %: {verdict} the tolerance of {100 * MODE_TOLERANCE:.0f} %."]
    lines += by_water(options.results)
    print("\n".join(lines))
    if options.write:
        Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        rows = []
        for configuration in chosen:
            views = [read_image(frame_files(options.out / mode / configuration.name, frame)["left"]) for mode in MODES]
            shown = [
                captioned(view, f"{configuration.water} {configuration.depth}, {mode}", width=320, height=240)
                for view, mode in zip(views, MODES, strict=True)
            ]
            rows.append(np.hstack(shown))
        write_image(Path(__file__).parents[1] / "docs" / "images" / "seastereo_modes.jpg", np.vstack(rows))


def _totals(chosen: list[Configuration], cost: dict[tuple[str, str], float], pixels: int) -> list[str]:
    """What the whole dataset costs, 640 x 480 px, on one machine of two cores and on a hundred."""
    lines = [
        "Scaled by the number of pixels to 640 x 480, loading the scene for every pair included, which a long run does "
        "once for several:",
        "",
        "| all 40,320 pairs of 640 x 480 px | 1 machine of 2 cores | 100 such machines |",
        "|---|---|---|",
    ]
    for mode in MODES:
        shallow = np.mean([cost[c.name, mode] for c in chosen if not c.deep])
        deep = np.mean([cost[c.name, mode] for c in chosen if c.deep])
        mean = float((1 - DEEP_SHARE) * shallow + DEEP_SHARE * deep) * 480 * 640 / pixels / 2
        lines.append(
            f"| {mode}, {mean:.0f} s a pair | {mean * PAIRS / 86400:.0f} days | {mean * PAIRS / 3.6e5:.0f} h |"
        )
    direct = ", ".join(f"{seconds:.0f} s {mode} ({samples} samples)" for mode, (seconds, samples) in MEASURED.items())
    lines += ["", f"Measured on 640 x 480 px itself, a shallow pair, scene loaded, on 2 free cores: {direct}."]
    assert PAIRS == 1008 * FRAMES
    return lines


if __name__ == "__main__":
    run()
