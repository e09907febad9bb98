"""The result of a study as Markdown; every figure in it is in the result, rounded here for reading."""

from collections.abc import Mapping, Sequence
from typing import Any

from linstereo.efficiency.machine import QUIET_PERCENT
from linstereo.efficiency.study import Result
from linstereo.evaluation.report import MISSING, Row, Table, markdown_table

TITLES = {"stored": "stored", "on_the_fly": "on the fly"}
"""The kinds of volume in words."""


def markdown(result: Result, *, plot: str | None = None) -> str:
    """The report of all sections that were measured; `plot` is the name of a picture to show in it."""
    lines = [f"# Efficiency of {result['settings']['model']}", "", *_setting_lines(result)]
    lines += ["", f"![Times and memory]({plot})"] if plot else []
    if "parts" in result:
        lines += ["", "## Parts of a prediction", "", *_parts(result)]
        lines += ["", "## Beside the paper's table", "", *_efficiency(result)]
    if "operators" in result:
        lines += ["", "## One iteration: PALA and ConvGRU", "", *_operators(result)]
    if "scaling" in result:
        lines += ["", "## Growth with the image", "", *_scaling(result["scaling"])]
    if "methods" in result:
        lines += ["", "## Whole predictions", "", *_methods(result["methods"])]
    return "\n".join(lines) + "\n"


def _setting_lines(result: Result) -> list[str]:
    settings, machine = result["settings"], result["machine"]
    volume = f"{TITLES[settings['volume']]} volumes"
    weights = "" if settings["trained"] else "; random weights, which cost what trained ones do"
    lines = [
        f"- images: {_size(settings['size'])} px (height x width), run at {_size(settings['run_size'])} px",
        f"- network: T = {settings['iterations']}, {volume}, {settings['precision']}{weights}",
        f"- device: {settings['device']}; {', '.join(f'{key} {value}' for key, value in machine.items())}",
        f"- times: medians of {settings['rounds']} rounds after {settings['warm_up']} for warming up, with 95 % "
        "confidence intervals; what is compared takes turns, and ratios are taken round by round",
        f"- {_load(result['load'])}",
    ]
    return lines


def _load(load: Mapping[str, float | None]) -> str:
    average = "unknown" if load["load_average"] is None else f"{load['load_average']:.1f}"
    others = load["others_percent"]
    if others is None:
        return f"how busy the machine was: load average {average}, share of others unknown"
    warning = "" if others < QUIET_PERCENT else "; times are too long and uncertain, ratios less so"
    return f"how busy the machine was: load average {average}, others used {others:.0f} % of the processors{warning}"


def _parts(result: Result) -> list[str]:
    parts, iterations = result["parts"], result["settings"]["iterations"]
    total = parts["total"]
    header = ("parameters", "GFLOPs", "ms", "95 % interval", "share of time, %", "peak MB")
    rows = []
    for row in [*parts["rows"], {"part": "total", **total}]:
        name = f"{row['part']} (T = {iterations})" if row["part"] == "iterations" else row["part"]
        counts = (f"{row['parameters']:,}", f"{row['gflops']:.1f}")
        rows.append(
            Row(name, (*counts, *_ms(row), f"{row['share_percent']:.0f}", _megabytes(row["peak_mb"])), ours=True)
        )
        if row["part"] == "iterations":
            one = parts["one_iteration"]
            cells = ("", f"{one['gflops']:.1f}", *_ms(one), "", "")
            rows.append(Row("of these, one iteration", cells, ours=True))
    beyond = parts["beyond_backbone"]
    return [
        *markdown_table(Table("part", header, tuple(rows))),
        "",
        f"{total['fps']:.2f} frames per second. All parts but the backbone take {_interval(beyond)} of the "
        "backbone's time. Medians of parts need not add up to that of the total. Memory is the peak above what the "
        "loaded model takes.",
    ]


def _efficiency(result: Result) -> list[str]:
    published, total = result["paper"]["efficiency"], result["parts"]["total"]
    rows = [
        Row(
            row["method"],
            tuple(row[column] or MISSING for column in ("parameters_million", "gflops", "time_ms", "fps")),
            ours=False,
        )
        for row in published["rows"]
    ]
    settings = result["settings"]
    cells = (
        f"{total['parameters'] / 1e6:.2f}",
        f"{total['gflops']:.1f}",
        f"{total['median_ms']:.1f}",
        f"{total['fps']:.2f}",
    )
    rows.append(Row(f"{settings['model']} (T={settings['iterations']}), here", cells, ours=True))
    table = Table("method", ("parameters, 1e6", "GFLOPs", "ms", "frames per second"), tuple(rows))
    return [*markdown_table(table), "", f"The paper's rows: {published['caption']}"]


def _operators(result: Result) -> list[str]:
    paper_table = result["paper"]["iteration_latency"]
    published = {row["method"]: row for row in paper_table["rows"]}
    rows = []
    for row in result["operators"]:
        paper = published.get(row["published"])
        theirs = MISSING if paper is None else f"{paper['latency_ms']} ± {paper['ci95_ms']}"
        cells = (
            f"{row['parameters']:,}",
            f"{row['gflops']:.1f}",
            *_ms(row),
            _interval(row["pala_relative"]),
            theirs,
        )
        rows.append(Row(row["operator"], cells, ours=True))
    header = ("parameters", "GFLOPs", "ms", "95 % interval", "PALA's time relative to it", "the paper's ms")
    return [
        *markdown_table(Table("operator", header, tuple(rows))),
        "",
        f"At {_size(result['settings']['size'])} px, lookup, motion encoders and residual head included, upsampling "
        "not. PALA sees motion features of all three scales, and so does the last ConvGRU; the others see those at 1/4 "
        f"only, as the networks they are sized after do. The paper's column: {paper_table['caption']}",
    ]


def _scaling(scaling: Result) -> list[str]:
    rows = []
    for row in scaling["rows"]:
        label = f"{_size(row['size'])} px, {TITLES[row['volume']]}"
        if "left_out" in row:
            rows.append(Row(label, (row["left_out"], "", ""), ours=True))
        else:
            rows.append(Row(label, (*_ms(row), _megabytes(row["peak_mb"])), ours=True))
    lines = markdown_table(
        Table("image, volume", ("ms per iteration", "95 % interval", "peak MB of the decoder"), tuple(rows))
    )
    told = []
    for kind, slopes in scaling["slopes"].items():
        known = [f"{name} {slope:.2f}" for name, slope in slopes.items() if slope is not None]
        if known:
            told.append(f"{TITLES[kind]}: {', '.join(known)}")
    if told:
        lines += ["", f"Exponents over pixels (1 is linear), from a fit to logarithms: {'; '.join(told)}."]
    return lines


def _methods(methods: Sequence[Result]) -> list[str]:
    rows = [
        Row(row["method"], (*_ms(row), f"{row['fps']:.2f}", _interval(row["sgbm_relative"])), ours=True)
        for row in methods
    ]
    header = ("ms", "95 % interval", "frames per second", "time relative to SGBM")
    return [
        *markdown_table(Table("method", header, tuple(rows))),
        "",
        "Pictures in, disparity out: resizing and conversions included.",
    ]


def _size(size: Sequence[int]) -> str:
    return f"{size[0]} x {size[1]}"


def _ms(row: Mapping[str, Any]) -> tuple[str, str]:
    digits = 0 if row["median_ms"] >= 100 else 1 if row["median_ms"] >= 10 else 2
    median, low, high = (f"{row[name]:.{digits}f}" for name in ("median_ms", "low_ms", "high_ms"))
    return median, f"{low} to {high}"


def _interval(estimate: Mapping[str, float]) -> str:
    return f"{estimate['median']:.2f} ({estimate['low']:.2f} to {estimate['high']:.2f})"


def _megabytes(size: float | None) -> str:
    return "unknown" if size is None else f"{size:,.0f}"
