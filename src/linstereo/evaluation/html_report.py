"""The report as one HTML file that can be sent around: pictures, style and script are inside it.

The page itself is the template report_style/report.html, which escapes everything that comes from outside (names of
images, methods and folders).
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from linstereo import __version__
from linstereo.errors import InputError
from linstereo.evaluation.confidence_plot import reliability_svg, sparsification_svg
from linstereo.evaluation.confidence_record import summarise_confidence
from linstereo.evaluation.pictures import LARGEST_DEPTH_ERROR
from linstereo.evaluation.protocol import describe
from linstereo.evaluation.report import (
    averages_table,
    benchmark_columns,
    benchmark_table,
    column_title,
    confidence_table,
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

_STYLE = Path(__file__).with_name("report_style")
_PART_TITLES = {"left": "left image", "prediction": "prediction", "truth": "ground truth", "error": "error"}
_LEGEND_STEPS = 140


def html_report(results: Sequence[BenchmarkResult], *, title: str, settings: Mapping[str, Any], paper: bool) -> str:
    """The whole report as the text of one HTML file.

    title, settings: of the method; paper: show the paper's rows beside the result.
    """
    environment = Environment(
        loader=FileSystemLoader(_STYLE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["zip"] = lambda first, second: zip(first, second, strict=True)
    return environment.get_template("report.html").render(
        title=title,
        version=__version__,
        settings=listed(settings),
        overview=overview_table(results, title=title, paper=paper) if len(results) > 1 else None,
        overview_note=overview_note(results, paper=paper),
        sections=[_section(result, title=title, settings=settings, paper=paper) for result in results],
        colour_bar=_colour_bar(),
        style=(_STYLE / "report.css").read_text(encoding="utf-8"),
        script=(_STYLE / "report.js").read_text(encoding="utf-8"),
    )


def _section(result: BenchmarkResult, *, title: str, settings: Mapping[str, Any], paper: bool) -> dict[str, Any]:
    """What the template shows of one benchmark."""
    benchmark, protocol = result.benchmark, result.benchmark.protocol
    tables = (
        benchmark_table(result, title=title, paper=paper),
        prior_table(result, title=title, paper=paper),
        confidence_table(result, title=title),
    )
    summary = summarise_confidence(list(result.confidence.values()))
    scores = worst_first(result)
    columns = benchmark_columns(result)
    values = [[image_value(score, column) for column in columns] for score in scores]
    return {
        "anchor": f"benchmark-{benchmark.key}",
        "title": benchmark.title,
        "figures": [
            (format_value(result.headline("all", m), m), column_title("all", m), protocol.average_of(m))
            for m in protocol.metrics
        ],
        "tables": [table for table in tables if table is not None],
        "plots": [] if summary is None else [sparsification_svg(summary), reliability_svg(summary)],
        "notes": notes(result, settings=settings, paper=paper),
        "rules": [line.split(": ", 1) for line in describe(protocol, part=benchmark.part).splitlines()[1:]],
        "averages": averages_table(result),
        "gallery": list(_gallery(result)),
        "worst_by": protocol.metrics[0],
        "largest_error": f"{LARGEST_DISPARITY_ERROR:g} px"
        if protocol.depth_range is None
        else f"{100 * LARGEST_DEPTH_ERROR:g} % of the true depth",
        "images": images_table(result, scores),
        "image_values": [["" if value is None else repr(value) for value in row] for row in values],
    }


def _gallery(result: BenchmarkResult) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Name and figures of each of the worst images, and its pictures with their titles."""
    scores = {score.name: score for score in result.scores}
    for index, paths in result.pictures:
        name = result.benchmark.names[index]
        metrics = result.benchmark.protocol.metrics
        values = ", ".join(f"{m} {format_value(image_value(scores[name], ('all', m)), m)}" for m in metrics)
        yield name, values, [(_PART_TITLES[part], _data_uri(paths[part])) for part in PARTS]


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
