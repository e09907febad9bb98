"""The files that an evaluation leaves behind.

    <out>/results.json    every figure of every image and both averages
    <out>/report.md       tables and protocols in Markdown
    <out>/report.html     the same with pictures, in one file
    <out>/timing.json     seconds of each prediction

For the same settings and data, results.json is the same however the run was shared or interrupted.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linstereo import __version__
from linstereo.evaluation.confidence_record import summarise_confidence
from linstereo.evaluation.depth_prior_cost import summarise_prior
from linstereo.evaluation.html_report import html_report
from linstereo.evaluation.methods import Method
from linstereo.evaluation.protocol import describe
from linstereo.evaluation.records import FORMAT
from linstereo.evaluation.report import markdown_report
from linstereo.evaluation.runner import BenchmarkResult
from linstereo.files import write_file, write_json


def write_results(results: Sequence[BenchmarkResult], method: Method, *, out: Path, paper: bool) -> list[Path]:
    """Write all files into the folder `out`, each one whole or not at all; returns their paths.

    paper: show the paper's rows beside the result.
    """
    title, settings = method.title, method.settings
    contents: dict[str, Any] = {
        "results.json": results_json(results, method),
        "report.md": markdown_report(results, title=title, settings=settings, paper=paper),
        "report.html": html_report(results, title=title, settings=settings, paper=paper),
    }
    if any(result.seconds for result in results):
        contents["timing.json"] = timing_json(results)
    for name, content in contents.items():
        (write_json if name.endswith(".json") else write_file)(out / name, content)
    return [out / name for name in contents]


def results_json(results: Sequence[BenchmarkResult], method: Method) -> dict[str, Any]:
    """Everything that was measured, as plain JSON values; docs/evaluation.md describes them."""
    return {
        "format": FORMAT,
        "linstereo": __version__,
        "method": {"title": method.title, **method.settings},
        "benchmarks": {result.benchmark.key: _benchmark_json(result) for result in results},
    }


def timing_json(results: Sequence[BenchmarkResult]) -> dict[str, Any]:
    """Seconds of each prediction, which no two runs share."""
    return {
        "unit": "seconds for one prediction, without reading files and scoring",
        "benchmarks": {result.benchmark.key: dict(result.seconds) for result in results},
    }


def _benchmark_json(result: BenchmarkResult) -> dict[str, Any]:
    benchmark = result.benchmark
    protocol = benchmark.protocol
    official = benchmark.official
    prior = summarise_prior([result.prior[name] for name in benchmark.chosen if name in result.prior])
    confidence = summarise_confidence(list(result.confidence.values()))
    return {
        "protocol": dataclasses.asdict(protocol),
        "protocol_in_words": describe(protocol, part=benchmark.part).splitlines(),
        "own_split": benchmark.own_split,
        "complete": benchmark.complete,
        "official": None if official is None else dataclasses.asdict(official),
        "measured": None if official is None else official.coverage(benchmark.measured),
        "images_in_split": len(benchmark.names),
        "images_measured": benchmark.measured,
        "left_out": list(benchmark.left_out),
        "depth_prior": None if prior is None else prior.to_json(),
        "confidence": None if confidence is None else confidence.to_json(),
        "headline": {
            region: {
                metric: {"value": result.headline(region, metric), "mean_over": f"{protocol.average_of(metric)}s"}
                for metric in protocol.metrics
            }
            for region in protocol.regions
        },
        "regions": {region: part.to_json() for region, part in result.regions.items()},
        "images": [
            {
                "name": score.name,
                "regions": {
                    region: {"pixels": part.pixels, "non_finite_pixels": part.non_finite, **part.values()}
                    for region, part in score.regions.items()
                },
                **({"depth_prior": result.prior[score.name].to_json()} if score.name in result.prior else {}),
            }
            for score in result.scores
        ],
    }
