"""`linstereo evaluate`: measure a method on benchmarks, with a report."""

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from linstereo.cli.method_options import (
    add_method_options,
    build_method,
    cpu_threads,
    no_progress,
    progress_bar,
)
from linstereo.cli.options import check_threads
from linstereo.data.datasets.naming import parse_dataset
from linstereo.errors import InputError

if TYPE_CHECKING:
    from linstereo.evaluation.runner import Benchmark

_PICTURES = 12
_LONGEST_NAME = 100


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Measure disparities on one or several benchmarks: a JSON file with every figure, tables in "
        "Markdown, and an HTML report with pictures. An interrupted run resumes when it is started again; "
        "torchrun --nproc-per-node=N -m linstereo evaluate ... shares it among N processes."
    )
    parser.add_argument(
        "--benchmark",
        action="append",
        default=[],
        metavar="NAME[:SPLIT]=ROOT",
        help="benchmark and the folder of its dataset, optionally with another split than the usual one; may be given "
        "several times (see --list)",
    )
    parser.add_argument("--list", action="store_true", help="print the names of all benchmarks instead")
    parser.add_argument("--out", default="evaluation", metavar="DIR", help="output folder (default: evaluation)")
    parser.add_argument("--name", metavar="LABEL", help="what to call the method in tables")
    parser.add_argument("--paper", action="store_true", help="show the results of the LinStereo paper beside this one")
    parser.add_argument("--limit", type=int, metavar="N", help="measure only the first N images of each benchmark")
    parser.add_argument(
        "--pictures",
        type=int,
        default=_PICTURES,
        metavar="N",
        help=f"show the N worst images of each benchmark in the HTML report (default: {_PICTURES})",
    )
    parser.add_argument("--no-pictures", action="store_const", const=0, dest="pictures", help="show none of them")
    parser.add_argument("--again", action="store_true", help="measure everything again, use no records of earlier runs")
    add_method_options(parser)
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        metavar="N",
        help="CPU threads of the network in each process (default: 1, so that neither the machine nor the number of "
        "processes changes a figure; torchrun uses the other cores)",
    )
    parser.add_argument(
        "--zero-start",
        action="store_true",
        help="predict each pair from zero disparity too, which says what a fallback of the depth prior (DPI) costs; "
        "takes twice as long",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure, write the files and print the tables."""
    from linstereo.evaluation.protocol import get_protocol, protocol_names
    from linstereo.evaluation.report import markdown_report
    from linstereo.evaluation.result_files import write_results
    from linstereo.evaluation.runner import evaluate
    from linstereo.processes import joined_workers

    if options.list:
        for name in protocol_names():
            print(f"{name:<20}{get_protocol(name).title}: {get_protocol(name).pairs}")
        return
    if options.pictures < 0:
        raise InputError(f"--pictures is {options.pictures}; give a number of images, or 0 for none")
    check_threads(options.threads)
    if options.name is not None and not (options.name.isprintable() and 1 <= len(options.name) <= _LONGEST_NAME):
        raise InputError(f"--name is {options.name[:40]!r}; give 1 to {_LONGEST_NAME} printable characters")
    out = Path(options.out)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; give a folder for the results")
    benchmarks = _open_benchmarks(options.benchmark, limit=options.limit)
    with joined_workers() as worker, cpu_threads(options.threads):
        method = build_method(options, title=options.name, device=worker.device())
        results = evaluate(
            benchmarks,
            method,
            out=out,
            worker=worker,
            pictures=options.pictures,
            again=options.again,
            say=lambda text: print(text, file=sys.stderr),
            progress=progress_bar if worker.leads else no_progress,
        )
        if results is None:
            return
        written = write_results(results, method, out=out, paper=options.paper)
        print(markdown_report(results, title=method.title, settings=method.settings, paper=options.paper))
        print(f"written: {', '.join(map(str, written))}")


def _open_benchmarks(texts: list[str], *, limit: int | None) -> "list[Benchmark]":
    from linstereo.evaluation.runner import open_benchmark

    if not texts:
        raise InputError("no benchmark is given; add --benchmark NAME=ROOT, or --list to see their names")
    benchmarks = []
    for text in texts:
        name, split, root = parse_dataset(text, what="--benchmark")
        benchmarks.append(open_benchmark(name, root, split=split, limit=limit))
    key, times = Counter(benchmark.key for benchmark in benchmarks).most_common(1)[0]
    if times > 1:
        raise InputError(f"the benchmark {key} is given {times} times; give each one once")
    return benchmarks
