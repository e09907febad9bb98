"""Draw the validation error of training runs over time as an SVG picture.

    python examples/training_curve.py runs/compact docs/images/training_curve.svg

The run's folder holds `metrics.jsonl`, which `linstereo train` writes. Time is the sum of the steps' own times, so that
pauses of an interrupted run do not count.
"""

import json
import math
import sys
from pathlib import Path

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 30, 45


def read_curve(folder: Path) -> list[tuple[float, float, str]]:
    """Minutes of training, EPE in px, and stage of every validation of a run."""
    minutes, last, rate, curve = 0.0, 0, 0.0, []
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        entry = json.loads(line)
        rate = entry.get("seconds_per_step", rate)
        minutes += (entry["step"] - last) * rate / 60
        last = entry["step"]
        if entry["kind"] == "validation":
            curve.append((minutes, entry["EPE"], entry["stage"]))
    return curve


def draw(curve: list[tuple[float, float, str]]) -> str:
    """The curve as SVG, with the error on a logarithmic axis."""
    end = max(minutes for minutes, _, _ in curve)
    low = 2 ** math.floor(math.log2(min(epe for _, epe, _ in curve)))
    high = 2 ** math.ceil(math.log2(max(epe for _, epe, _ in curve)))

    def place(minutes: float, epe: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - RIGHT) * minutes / end
        share = math.log(epe / low) / math.log(high / low)
        return across, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"',
        'font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18">validation EPE, px</text>',
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">minutes of training</text>',
    ]
    value = low
    while value <= high:
        _, y = place(0, value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
        value *= 2
    step = max(1, round(end / 8))
    for tick in range(0, math.floor(end) + 1, step):
        x, _ = place(tick, low)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick}</text>')
    colours = dict(zip(dict.fromkeys(stage for _, _, stage in curve), ("#0072b2", "#d55e00", "#009e73"), strict=False))
    for i, (stage, colour) in enumerate(colours.items()):
        points = [place(minutes, epe) for minutes, epe, name in curve if name == stage]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
        parts.append(f'<text x="{WIDTH - RIGHT}" y="{TOP + 18 * i}" fill="{colour}" text-anchor="end">{stage}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Draw the run named first into the file named second."""
    folder, target = map(Path, sys.argv[1:3])
    target.write_text(draw(read_curve(folder)))


if __name__ == "__main__":
    main()
