"""The result of a study as one SVG picture: times of parts and of operators, and growth with the image."""

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from linstereo.efficiency.report import TITLES
from linstereo.efficiency.study import Result

WIDTH = 720
_MARGIN, _LABELS, _ROW, _BAR = 16, 270, 26, 16  # px
_CHART_HEIGHT = 260
_COLOURS = ("#00796b", "#e65100", "#3949ab", "#8e24aa")
_INK, _FAINT = "#37474f", "#cfd8dc"


def svg(result: Result) -> str:
    """A picture of the sections that were measured, `WIDTH` px wide."""
    drawn: list[str] = []
    y = 0.0
    for panel in _panels(result):
        lines, height = panel
        drawn += [f'<g transform="translate(0 {y:.0f})">', *lines, "</g>"]
        y += height
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" width="{WIDTH}" '
            f'height="{y:.0f}" font-family="sans-serif" font-size="12" fill="{_INK}">',
            f'<rect width="{WIDTH}" height="{y:.0f}" fill="white"/>',
            *drawn,
            "</svg>",
            "",
        ]
    )


def _panels(result: Result) -> Iterator[tuple[list[str], float]]:
    """The lines of each panel and its height, px."""
    settings = result["settings"]
    if "parts" in result:
        title = f"Parts of a prediction, {settings['model']}, T = {settings['iterations']} (ms)"
        yield _bars(title, [(row["part"], row) for row in result["parts"]["rows"]])
    if "operators" in result:
        yield _bars("One iteration (ms)", [(row["operator"], row) for row in result["operators"]])
    if "methods" in result:
        yield _bars("Whole predictions (ms)", [(row["method"], row) for row in result["methods"]])
    if "scaling" in result:
        rows = [row for row in result["scaling"]["rows"] if "left_out" not in row]
        for column, title, name in (
            ("median_ms", "One iteration over pixels (ms)", "time"),
            ("peak_mb", "Peak memory of the decoder over pixels (MB)", "memory"),
        ):
            lines = {kind: _points(rows, kind, column) for kind in TITLES}
            exponents = {kind: result["scaling"]["slopes"][kind][name] for kind in TITLES}
            if any(lines.values()):
                yield _log_log(title, lines, exponents)


def _bars(title: str, rows: Sequence[tuple[str, Result]]) -> tuple[list[str], float]:
    """Horizontal bars of medians with whiskers over their intervals."""
    longest = max(row["high_ms"] for _, row in rows)
    scale = (WIDTH - _LABELS - 6 * _MARGIN) / longest
    lines = [_text(_MARGIN, 24, title, weight="bold")]
    for i, (label, row) in enumerate(rows):
        y = 40 + i * _ROW
        middle = y + _BAR / 2
        median, low, high = (scale * row[name] for name in ("median_ms", "low_ms", "high_ms"))
        lines += [
            _text(_LABELS - 8, middle + 4, _shortened(label), anchor="end"),
            f'<rect x="{_LABELS}" y="{y}" width="{median:.1f}" height="{_BAR}" fill="{_COLOURS[0]}"/>',
            f'<path d="M{_LABELS + low:.1f} {middle}H{_LABELS + high:.1f}" stroke="{_INK}" stroke-width="2"/>',
            _text(_LABELS + high + 6, middle + 4, _number(row["median_ms"])),
        ]
    return lines, 40 + len(rows) * _ROW + _MARGIN


def _points(rows: Sequence[Result], kind: str, column: str) -> list[tuple[float, float]]:
    return [(row["pixels"], row[column]) for row in rows if row["volume"] == kind and row[column]]


def _log_log(
    title: str, lines: dict[str, list[tuple[float, float]]], exponents: dict[str, Any]
) -> tuple[list[str], float]:
    """Curves on logarithmic axes; the legend tells the exponents."""
    points = [point for curve in lines.values() for point in curve]
    left, right, top, bottom = 60, WIDTH - 220, 40, _CHART_HEIGHT - 40
    to_x = _axis([x for x, _ in points], left, right)
    to_y = _axis([y for _, y in points], bottom, top)
    drawn = [_text(_MARGIN, 24, title, weight="bold")]
    drawn.append(f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="{_FAINT}" stroke-width="2"/>')
    for x in sorted({x for x, _ in points}):
        drawn.append(_text(to_x(x), bottom + 18, f"{x / 1e6:.2g} MP", anchor="middle"))
    for y in (min(y for _, y in points), max(y for _, y in points)):
        drawn.append(_text(left - 6, to_y(y) + 4, _number(y), anchor="end"))
    for (kind, curve), colour, row in zip(lines.items(), _COLOURS, range(len(lines)), strict=False):
        if not curve:
            continue
        path = "L".join(f"{to_x(x):.1f} {to_y(y):.1f}" for x, y in sorted(curve))
        drawn.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn += [f'<circle cx="{to_x(x):.1f}" cy="{to_y(y):.1f}" r="4" fill="{colour}"/>' for x, y in curve]
        exponent = exponents[kind]
        legend = TITLES[kind] if exponent is None else f"{TITLES[kind]}: exponent {exponent:.2f}"
        drawn.append(f'<rect x="{right + 16}" y="{top + 24 * row}" width="12" height="12" fill="{colour}"/>')
        drawn.append(_text(right + 34, top + 24 * row + 11, legend))
    return drawn, _CHART_HEIGHT


def _axis(values: Sequence[float], start: float, end: float) -> Any:
    """A function from a value to its place between `start` and `end`, with a little room at both ends."""
    low, high = math.log(min(values)), math.log(max(values))
    room = 0.08 * (high - low) or 1.0

    def place(value: float) -> float:
        return start + (end - start) * (math.log(value) - low + room) / (high - low + 2 * room)

    return place


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _shortened(label: str, most: int = 38) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"
