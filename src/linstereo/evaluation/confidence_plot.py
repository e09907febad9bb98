"""The reliability diagram and the sparsification curve of a confidence as SVG, for the HTML report."""

from collections.abc import Sequence

from linstereo.evaluation.confidence_record import ConfidenceSummary

_SIZE, _LEFT, _TOP, _SIDE = 300, 46, 26, 224  # px; the plot is a square of side _SIDE
_BOTTOM = _TOP + _SIDE


def reliability_svg(summary: ConfidenceSummary) -> str:
    """Share of right disparities over confidence; bars on the diagonal mean what they say, pale ones are few pixels."""
    counts = summary.reliability
    total, bins = max(int(counts.pixels.sum()), 1), len(counts.pixels)
    bars = []
    for place, (pixels, right) in enumerate(zip(counts.pixels, counts.right, strict=True)):
        if pixels == 0:
            continue
        x, y = _point(place / bins, right / pixels)
        opacity = 0.25 + 0.75 * min(1.0, bins * pixels / total)
        bars.append(
            f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{_SIDE / bins - 2:.1f}" height="{_BOTTOM - y:.1f}" '
            f'class="bar" opacity="{opacity:.2f}"/>'
        )
    diagonal = _line([(0, 0), (1, 1)], "ideal")
    return _plot("Reliability", "confidence", "share that is right", [*bars, diagonal])


def sparsification_svg(summary: ConfidenceSummary) -> str:
    """Mean error of the pixels that are left, relative to that of all, over the share that was removed."""
    curve = summary.curve
    lines = [
        _line(list(zip(curve.removed, curve.perfect, strict=True)), "ideal"),
        _line(list(zip(curve.removed, curve.error, strict=True)), "curve"),
    ]
    x, y = _point(0.03, 0.05)
    legend = f'<text x="{x:.0f}" y="{y:.0f}" class="soft">dashed: the largest errors removed</text>'
    return _plot("Sparsification", "share of the least confident pixels removed", "error left", [*lines, legend])


def _plot(title: str, across: str, up: str, content: Sequence[str]) -> str:
    frame = f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" class="frame"/>'
    ticks = []
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = _point(value, value)
        ticks.append(f'<text x="{x:.1f}" y="{_BOTTOM + 15}" text-anchor="middle">{value:g}</text>')
        ticks.append(f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    middle = _TOP + _SIDE / 2
    words = [
        f'<text x="{_LEFT}" y="16" class="title">{title}</text>',
        f'<text x="{_LEFT + _SIDE / 2}" y="{_BOTTOM + 32}" text-anchor="middle" class="soft">{across}</text>',
        f'<text x="12" y="{middle}" transform="rotate(-90 12 {middle})" text-anchor="middle" class="soft">{up}</text>',
    ]
    return (
        f'<svg class="plot" viewBox="0 0 {_SIZE} {_SIZE - 10}" width="{_SIZE}" role="img" aria-label="{title}">'
        + "".join([frame, *ticks, *words, *content])
        + "</svg>"
    )


def _line(points: Sequence[tuple[float, float]], kind: str) -> str:
    placed = (_point(x, min(y, 1.0)) for x, y in points)
    return f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in placed)}" class="{kind}"/>'


def _point(x: float, y: float) -> tuple[float, float]:
    """Place of a value in [0, 1] x [0, 1]."""
    return _LEFT + float(x) * _SIDE, _BOTTOM - float(y) * _SIDE
