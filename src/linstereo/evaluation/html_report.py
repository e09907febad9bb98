"""The report as one HTML file that can be sent around: pictures, style and script are inside it.

Everything that comes from outside (names of images, methods and folders) is escaped.
"""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from linstereo import __version__
from linstereo.errors import InputError
from linstereo.evaluation.pictures import LARGEST_DEPTH_ERROR
from linstereo.evaluation.protocol import Protocol, describe
from linstereo.evaluation.report import (
    Table,
    averages_table,
    benchmark_columns,
    benchmark_table,
    column_title,
    format_value,
    image_value,
    images_table,
    listed,
    notes,
    overview_note,
    overview_table,
    prior_table,
    worst_first,
)
from linstereo.evaluation.runner import BenchmarkResult
from linstereo.visualize import LARGEST_DISPARITY_ERROR, PARTS, paint

_STYLE = files("linstereo.evaluation") / "report_style"
_PART_TITLES = {"left": "left image", "prediction": "prediction", "truth": "ground truth", "error": "error"}
_LEGEND_STEPS = 140


def html_report(results: Sequence[BenchmarkResult], *, title: str, settings: Mapping[str, Any], paper: bool) -> str:
    """The whole report as the text of one HTML file.

    title, settings: of the method; paper: show the paper's rows beside the result.
    """
    several = len(results) > 1
    parts = [_overview(results, title=title, paper=paper)] if several else []
    parts += [_section(result, title=title, settings=settings, paper=paper) for result in results]
    links = "".join(
        f'<a href="#{_anchor(result)}">{escape(result.benchmark.title)}</a>' for result in results if several
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="linstereo {escape(__version__)}">
<title>Evaluation of {escape(title)}</title>
<style>
{(_STYLE / "report.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<main>
<header>
<h1>Evaluation of {escape(title)}</h1>
<p class="soft">Made by <code>linstereo evaluate</code>, version {escape(__version__)}. Errors are in pixels of the left
image, or in metres; ↓ smaller is better, ↑ larger is better.</p>
<details><summary>Settings of the method</summary>{_definitions(listed(settings))}</details>
{f"<nav>{links}</nav>" if links else ""}
</header>
{"".join(parts)}
</main>
<script>
{(_STYLE / "report.js").read_text(encoding="utf-8")}</script>
</body>
</html>
"""


def _overview(results: Sequence[BenchmarkResult], *, title: str, paper: bool) -> str:
    table = overview_table(results, title=title, paper=paper)
    note = escape(overview_note(results, paper=paper))
    told = f'<p class="soft">{note}</p>' if note else ""
    return f'<section><h2>All benchmarks</h2><div class="scroll">{_table(table)}</div>{told}</section>\n'


def _section(result: BenchmarkResult, *, title: str, settings: Mapping[str, Any], paper: bool) -> str:
    protocol = result.benchmark.protocol
    rules = [tuple(line.split(": ", 1)) for line in describe(protocol, part=result.benchmark.part).splitlines()[1:]]
    prior = prior_table(result, title=title, paper=paper)
    told = "".join(f"<li>{escape(note)}</li>" for note in notes(result, settings=settings, paper=paper))
    return f"""<section id="{_anchor(result)}">
<h2>{escape(result.benchmark.title)}</h2>
{_figures(result)}
<div class="scroll">{_table(benchmark_table(result, title=title, paper=paper))}</div>
{f'<div class="scroll">{_table(prior)}</div>' if prior is not None else ""}
<ul class="notes">{told}</ul>
<details open><summary>Protocol: what is counted, and how it is averaged</summary>{_definitions(rules)}</details>
<details><summary>Both averages</summary><div class="scroll">{_table(averages_table(result))}</div></details>
{_gallery(result)}
<h3>All images, worst first</h3>
<div class="long">{_images(result)}</div>
</section>
"""


def _figures(result: BenchmarkResult) -> str:
    """The headline figures in large print."""
    protocol = result.benchmark.protocol
    items = "".join(
        f"<li><b>{format_value(result.headline('all', metric), metric)}</b>"
        f"<span>{escape(column_title('all', metric))}<br>mean over {protocol.average_of(metric)}s</span></li>"
        for metric in protocol.metrics
    )
    return f'<ul class="figures">{items}</ul>'


def _gallery(result: BenchmarkResult) -> str:
    """The pictures of the worst images with their figures."""
    if not result.pictures:
        return ""
    protocol = result.benchmark.protocol
    scores = {score.name: score for score in result.scores}
    figures = []
    for index, paths in result.pictures:
        name = result.benchmark.names[index]
        values = ", ".join(
            f"{metric} {format_value(image_value(scores[name], ('all', metric)), metric)}"
            for metric in protocol.metrics
        )
        parts = "".join(
            f'<div><img src="{_data_uri(paths[part])}" alt="{_PART_TITLES[part]} of {escape(name)}" loading="lazy">'
            f"{_PART_TITLES[part]}</div>"
            for part in PARTS
        )
        figures.append(
            f'<figure class="image"><figcaption><b>{escape(name)}</b> <span class="soft">{escape(values)}</span>'
            f'</figcaption><div class="parts">{parts}</div></figure>\n'
        )
    return f"<h3>Worst images by {escape(protocol.metrics[0])}</h3>\n{_legends(protocol)}{''.join(figures)}"


def _legends(protocol: Protocol) -> str:
    if protocol.depth_range is None:
        largest = f"{LARGEST_DISPARITY_ERROR:g} px or more"
    else:
        largest = f"{100 * LARGEST_DEPTH_ERROR:g} % of the true depth or more"
    bar = f'<img src="{_colour_bar()}" alt="">'
    return (
        f'<div class="legends"><div>disparity: far {bar} near</div><div>error: 0 {bar} {largest}</div>'
        "<div>black: unknown or not counted</div></div>\n"
    )


def _images(result: BenchmarkResult) -> str:
    """The table of all images; cells carry their full values for sorting."""
    scores = worst_first(result)
    table = images_table(result, scores)
    columns = benchmark_columns(result)
    body = []
    for row, score in zip(table.rows, scores, strict=True):
        cells = "".join(
            f'<td data-value="{_number(image_value(score, column))}">{escape(cell)}</td>'
            for cell, column in zip(row.cells, columns, strict=True)
        )
        body.append(f"<tr><td>{escape(row.label)}</td>{cells}</tr>\n")
    return f'<table class="sortable">{_head(table)}<tbody>\n{"".join(body)}</tbody></table>'


def _table(table: Table) -> str:
    mark = any(not row.ours for row in table.rows)
    body = "".join(
        f"<tr{' class=ours' if row.ours and mark else ''}>"
        f"{''.join(f'<td>{escape(cell)}</td>' for cell in (row.label, *row.cells))}</tr>\n"
        for row in table.rows
    )
    return f"<table>{_head(table)}<tbody>\n{body}</tbody></table>"


def _head(table: Table) -> str:
    """The headings; they break after the benchmark and before the unit, nowhere else."""
    cells = [
        escape(text).replace(" ↓", "&nbsp;↓").replace(" ↑", "&nbsp;↑").replace(": ", "<br>")
        for text in (table.first, *table.header)
    ]
    return f"<thead><tr>{''.join(f'<th>{cell}</th>' for cell in cells)}</tr></thead>"


def _definitions(pairs: Sequence[tuple[str, ...]]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(pair[0])}</dt><dd>{escape(pair[-1])}</dd>' for pair in pairs)}</dl>"


def _anchor(result: BenchmarkResult) -> str:
    return escape(f"benchmark-{result.benchmark.key}")


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)


def _data_uri(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the picture {path}: {error.strerror}; run the same command again") from error
    return f"data:image/jpeg;base64,{base64.b64encode(data).decode('ascii')}"


def _colour_bar() -> str:
    ramp = np.linspace(0, 1, _LEGEND_STEPS, dtype=np.float32)[None].repeat(2, axis=0)  # [2, steps]
    _, data = cv2.imencode(".png", paint(ramp, low=0.0, high=1.0)[..., ::-1])
    return f"data:image/png;base64,{base64.b64encode(data.tobytes()).decode('ascii')}"
