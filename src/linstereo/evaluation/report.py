"""Results as tables: the same rows serve Markdown here and HTML in `linstereo.evaluation.html_report`.

A figure that does not exist is printed as "n/a", never as NaN.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from linstereo.evaluation.confidence_record import summarise_confidence
from linstereo.evaluation.depth_prior_cost import PAPER_COST, PAPER_FALLBACKS, summarise_prior
from linstereo.evaluation.metrics import DEPTH_METRICS
from linstereo.evaluation.paper_tables import PublishedResult, rows_for_protocol
from linstereo.evaluation.protocol import describe
from linstereo.evaluation.runner import Benchmark, BenchmarkResult
from linstereo.evaluation.scores import ImageScore, column_key, is_percentage

MISSING = "n/a"
NOT_COMPARABLE = " (whole benchmark, not comparable)"
_UNITS = {"EPE": "px", "SqRel": "m", "RMSE": "m"}
_HIGHER_IS_BETTER = ("A1", "A2", "A3")
_WORST_LISTED = 10

Column = tuple[str, str]
"""Region and metric."""


@dataclass(frozen=True)
class Row:
    """One line of a table: `cells` are printed numbers; `ours` marks what was measured, not published."""

    label: str
    cells: tuple[str, ...]
    ours: bool


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows; `header` is that of the other columns."""

    first: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]


def format_value(value: float | None, metric: str) -> str:
    """Print a figure as the paper does: two decimals for disparity metrics, three for depth metrics."""
    return MISSING if value is None else f"{value:.{_decimals(metric)}f}"


def column_title(region: str, metric: str) -> str:
    """Heading of a column: region unless it is `all`, metric, unit, and the better direction."""
    unit = "%" if is_percentage(metric) else _UNITS.get(metric, "")
    arrow = "↑" if metric in _HIGHER_IS_BETTER else "↓"
    return " ".join(filter(None, ("" if region == "all" else region, metric, f"({unit})" if unit else "", arrow)))


def benchmark_columns(result: BenchmarkResult) -> tuple[Column, ...]:
    """The columns of a benchmark's own table, in the order of the protocol; none for regions no image has labels of."""
    protocol = result.benchmark.protocol
    labelled = [r for r in protocol.regions if result.regions[r].images_without_labels < len(result.scores)]
    return tuple((region, metric) for region in labelled for metric in protocol.metrics)


def benchmark_table(result: BenchmarkResult, *, title: str, paper: bool) -> Table:
    """The headline figures of one benchmark, below the paper's own rows if `paper`.

    Beside a part of the benchmark, each of the paper's rows says that it is not comparable.
    """
    columns = benchmark_columns(result)
    ours = Row(title, tuple(format_value(result.headline(*column), column[1]) for column in columns), ours=True)
    published = [
        Row(
            f"{published_label(row)}{NOT_COMPARABLE if result.benchmark.part else ''}",
            tuple(_published_value(row, column) for column in columns),
            ours=False,
        )
        for row in (published_rows(result) if paper else [])
    ]
    header = tuple(column_title(*column) for column in columns)
    return Table(first="Method", header=header, rows=(*published, ours))


def overview_table(results: Sequence[BenchmarkResult], *, title: str, paper: bool) -> Table:
    """All benchmarks side by side, every counted pixel, as in the paper's tables.

    The paper's figures are in parentheses where only a part of a benchmark was measured, see `overview_note`.
    """
    columns = [(result, metric) for result in results for metric in result.benchmark.protocol.metrics]
    header = tuple(f"{result.benchmark.title}: {column_title('all', metric)}" for result, metric in columns)
    ours = Row(
        title, tuple(format_value(result.headline("all", metric), metric) for result, metric in columns), ours=True
    )
    published: dict[str, dict[str, PublishedResult]] = {}
    for result in results if paper else []:
        for row in published_rows(result):
            published.setdefault(published_label(row), {})[result.benchmark.key] = row
    rows = [
        Row(
            label,
            tuple(_overview_value(found.get(result.benchmark.key), result, metric) for result, metric in columns),
            ours=False,
        )
        for label, found in published.items()
    ]
    return Table(first="Method", header=header, rows=(*rows, ours))


def overview_note(results: Sequence[BenchmarkResult], *, paper: bool) -> str:
    """What the parentheses in the overview mean; empty if there are none."""
    parts = [result.benchmark.title for result in results if result.benchmark.part and published_rows(result)]
    if not paper or not parts:
        return ""
    return (
        f"In parentheses: the paper's figures on the whole benchmark, not comparable with the part that was measured "
        f"({'; '.join(parts)})."
    )


def prior_table(result: BenchmarkResult, *, title: str, paper: bool) -> Table | None:
    """How often the depth prior (DPI) fell back, and what that costs in px of EPE; None for a method without it."""
    benchmark = result.benchmark
    summary = summarise_prior([result.prior[name] for name in benchmark.chosen if name in result.prior])
    if summary is None:
        return None
    header = [
        "pairs",
        "fell back",
        "fell back (%)",
        "EPE after a fit (px)",
        "EPE after a fallback (px)",
        "difference (px)",
    ]
    cells = [
        str(summary.pairs),
        str(summary.fell_back),
        f"{summary.share:.1f}",
        format_value(summary.epe_fitted, "EPE"),
        format_value(summary.epe_fell_back, "EPE"),
        _signed(summary.difference),
    ]
    published = [MISSING, MISSING, f"{PAPER_FALLBACKS.get(benchmark.protocol.name, 0):.1f}", MISSING, MISSING]
    published.append(f"{_signed(PAPER_COST)} (of which kind, it does not say)")
    if summary.zero_start_cost is not None:
        header.append("zero start costs (px)")
        cells.append(_signed(summary.zero_start_cost))
        published.append(MISSING)
    rows = [Row(title, tuple(cells), ours=True)]
    if paper and benchmark.own_split and benchmark.protocol.name in PAPER_FALLBACKS:
        label = f"LinStereo, the paper{NOT_COMPARABLE if benchmark.part else ''}"
        rows.insert(0, Row(label, tuple(published), ours=False))
    return Table(first="Depth prior (DPI)", header=tuple(header), rows=tuple(rows))


def confidence_table(result: BenchmarkResult, *, title: str) -> Table | None:
    """How good the confidence was, see `linstereo.evaluation.confidence_metrics`; None for a method without it."""
    summary = summarise_confidence(list(result.confidence.values()))
    if summary is None:
        return None
    cells = (f"{summary.ece:.3f}", f"{summary.ause:.3f}", f"{100 * summary.top_half:.0f}")
    header = ("ECE ↓", "AUSE ↓", "error of the more confident half (% of all) ↓")
    return Table(first="Confidence", header=header, rows=(Row(title, cells, ours=True),))


def averages_table(result: BenchmarkResult) -> Table:
    """Both averages of every figure that is shown, whichever is the headline."""
    columns = benchmark_columns(result)
    rows = tuple(
        Row(
            f"mean over {average}s",
            tuple(format_value(result.regions[region].mean(metric, average), metric) for region, metric in columns),
            ours=True,
        )
        for average in ("image", "pixel")
    )
    return Table(first="Average", header=tuple(column_title(*column) for column in columns), rows=rows)


def worst_first(result: BenchmarkResult) -> list[ImageScore]:
    """The images by the protocol's first metric, the largest first; those without a value come last."""
    metric = result.benchmark.protocol.metrics[0]

    def badness(score: ImageScore) -> float:
        value = score.regions["all"].value(metric)
        return -1.0 if value is None else value

    return sorted(result.scores, key=badness, reverse=True)


def images_table(result: BenchmarkResult, scores: Sequence[ImageScore]) -> Table:
    """The figures of single images."""
    columns = benchmark_columns(result)
    rows = tuple(
        Row(score.name, tuple(format_value(image_value(score, column), column[1]) for column in columns), ours=True)
        for score in scores
    )
    return Table(first="Image", header=tuple(column_title(*column) for column in columns), rows=rows)


def image_value(score: ImageScore, column: Column) -> float | None:
    """One figure of one image; None if it has no such region, or no pixel in it."""
    region, metric = column
    return score.regions[region].value(metric) if region in score.regions else None


def published_rows(result: BenchmarkResult) -> list[PublishedResult]:
    """The paper's results on this benchmark; none if another split is measured, since they would not compare."""
    return rows_for_protocol(result.benchmark.protocol.name) if result.benchmark.own_split else []


def published_label(row: PublishedResult) -> str:
    """The method's name, with a star if it was trained on more than SceneFlow."""
    return f"{row.method} *" if row.extra_data else row.method


def notes(result: BenchmarkResult, *, settings: Mapping[str, Any], paper: bool) -> list[str]:
    """What a reader must know to read the figures of one benchmark, in whole sentences."""
    benchmark = result.benchmark
    every = result.regions["all"]
    part = "" if benchmark.count == len(benchmark.names) else f", the first of {len(benchmark.names)}"
    told = [f"Measured on {_counted(benchmark.measured, 'image')}{part}, {_counted(every.pixels, 'pixel')}."]
    told += _part_notes(benchmark)
    if settings.get("trained") is False:
        told.append("The weights of the network are random, not trained: its figures mean nothing.")
    if every.images_without_pixels:
        told.append(f"{_counted(every.images_without_pixels, 'image')} without any counted pixel left out of the mean.")
    unlabelled = [name for name, region in result.regions.items() if region.images_without_labels == benchmark.measured]
    if unlabelled:
        told.append(f"No image has labels for {' and '.join(unlabelled)}.")
    if every.non_finite_pixels:
        told.append(f"{_counted(every.non_finite_pixels, 'counted pixel')} without a finite prediction.")
    if result.seconds:
        told.append(f"One prediction took {statistics.median(result.seconds.values()):.3g} s (median).")
    if paper:
        told.append(_paper_note(result))
    return told


def markdown_report(results: Sequence[BenchmarkResult], *, title: str, settings: Mapping[str, Any], paper: bool) -> str:
    """The report in Markdown: settings, and for each benchmark its protocol in words, its figures and worst images."""
    lines = [f"# Evaluation of {_escape(title)}", "", *(f"- {key}: {_escape(text)}" for key, text in listed(settings))]
    if len(results) > 1:
        lines += ["", "## All benchmarks", "", *markdown_table(overview_table(results, title=title, paper=paper))]
        lines += ["", _escape(note)] if (note := overview_note(results, paper=paper)) else []
    for result in results:
        protocol = result.benchmark.protocol
        lines += ["", f"## {_escape(result.benchmark.title)}", ""]
        lines += [f"- {_escape(line)}" for line in describe(protocol, part=result.benchmark.part).splitlines()]
        lines += ["", *markdown_table(benchmark_table(result, title=title, paper=paper)), ""]
        prior = prior_table(result, title=title, paper=paper)
        lines += [*markdown_table(prior), ""] if prior is not None else []
        confidence = confidence_table(result, title=title)
        lines += [*markdown_table(confidence), ""] if confidence is not None else []
        lines += [_escape(note) for note in notes(result, settings=settings, paper=paper)]
        scores = worst_first(result)[:_WORST_LISTED]
        lines += ["", f"The worst images by {protocol.metrics[0]}:", "", *markdown_table(images_table(result, scores))]
    return "\n".join(lines) + "\n"


def markdown_table(table: Table) -> list[str]:
    """The lines of a Markdown table, aligned; what was measured is bold where published rows stand beside it."""
    emphasise = any(not row.ours for row in table.rows)
    lines = [[_escape(cell) for cell in (table.first, *table.header)]]
    for row in table.rows:
        cells = [_escape(cell) for cell in (row.label, *row.cells)]
        lines.append([f"**{cell}**" for cell in cells] if row.ours and emphasise else cells)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * widths[0], *(f"{'-' * (width - 1)}:" for width in widths[1:])]
    printed = [
        [cells[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))]
        for cells in (lines[0], rule, *lines[1:])
    ]
    return [f"| {' | '.join(cells)} |" for cells in printed]


def listed(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Settings as names and printed values; what is nested is printed in one line."""
    return [
        (key, ", ".join(f"{name} {part}" for name, part in value.items()) if isinstance(value, Mapping) else str(value))
        for key, value in settings.items()
    ]


def _decimals(metric: str) -> int:
    return 3 if metric in DEPTH_METRICS else 2


def _signed(value: float | None) -> str:
    return MISSING if value is None else f"{value:+.2f}"


def _overview_value(row: PublishedResult | None, result: BenchmarkResult, metric: str) -> str:
    text = MISSING if row is None else _published_value(row, ("all", metric))
    return f"({text})" if result.benchmark.part and text != MISSING else text


def _published_value(row: PublishedResult, column: Column) -> str:
    value = row.values.get(column_key(*column))
    if value is None:
        return MISSING
    text = format_value(value, column[1])
    return text if float(text) == value else str(value)  # the paper prints some with more digits


def _part_notes(benchmark: Benchmark) -> list[str]:
    """Whole sentences that say if a benchmark is not measured as a whole, and which pairs cannot be used."""
    told = [f"Only {benchmark.part}: these are not the figures of the benchmark."] if benchmark.part else []
    if benchmark.left_out:
        told.append(f"{_counted(len(benchmark.left_out), 'pair')} on disk left out: {'; '.join(benchmark.left_out)}.")
    return told


def _paper_note(result: BenchmarkResult) -> str:
    benchmark = result.benchmark
    if not benchmark.own_split:
        return "The paper's results are on another split, so they are not shown."
    if not published_rows(result):
        return "The paper has no results on this benchmark."
    rows = "The other rows are those of the LinStereo paper (ECCV 2026), on the whole benchmark"
    compare = f"; they do not compare with {benchmark.part}" if benchmark.part else ""
    return f"{rows}{compare}; those with a star were trained on more than SceneFlow."


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _escape(text: str) -> str:
    """Keep a name from being read as Markdown or HTML; an underscore inside a word means nothing there."""
    for character in "\\`*|<>":
        text = text.replace(character, f"\\{character}")
    return text.replace("\n", " ")
