"""`linstereo submit`: predictions packed for the test servers of KITTI, Middlebury and ETH3D."""

import argparse
import sys
from pathlib import Path

from linstereo.cli.method_options import add_method_options, build_method, progress_bar
from linstereo.data.datasets.naming import parse_dataset


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Predict the pairs a test server asks for and pack them in its official format. An interrupted "
        "run resumes when it is started again."
    )
    parser.add_argument(
        "--benchmark",
        required=True,
        metavar="NAME[:SPLIT]=ROOT",
        help="kitti2012, kitti2015, middlebury, middlebury-f, middlebury-q or eth3d, and the folder of its dataset; "
        "with a split, only that part of it",
    )
    parser.add_argument("--name", required=True, help="the method's name: letters, digits and hyphens")
    parser.add_argument(
        "--seconds", type=float, metavar="S", help="time of one prediction (default: measured; needed with folder:DIR)"
    )
    parser.add_argument("--out", default="submission", metavar="DIR", help="output folder (default: submission)")
    add_method_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Predict, pack and say where the archive is."""
    from linstereo.evaluation.submission import write_submission

    benchmark, split, root = parse_dataset(options.benchmark, what="--benchmark")
    archive = write_submission(
        benchmark,
        root,
        build_method(options, title=options.name),
        name=options.name,
        out=Path(options.out),
        splits=None if split is None else [split],
        seconds=options.seconds,
        say=lambda text: print(text, file=sys.stderr),
        progress=progress_bar,
    )
    print(f"written: {archive}")
