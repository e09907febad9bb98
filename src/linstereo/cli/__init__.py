"""The `linstereo` command: one module per subcommand, each a thin face over the package, imported when it is named."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from linstereo import __version__
from linstereo.cli.process import guarded
from linstereo.errors import InputError

COMMANDS = {
    "predict": "disparity, depth and point clouds of one or many pairs",
    "track": "disparity, depth and a video of a stereo sequence: videos, cameras, folders, ROS bags",
    "serve": "a page in the browser where depth can be seen, and an endpoint for programs",
    "rectify": "rectified pairs from raw ones and the calibration of their cameras",
    "synth": "write a dataset of synthetic stereo pairs with exact ground truth",
    "seastereo": "render the underwater dataset SeaStereo with Blender, or any part of it",
    "tank": "ground truth under water: a target with AprilTags, its design, and depth from its CAD model",
    "train": "train a model, or fine-tune one on your own pairs",
    "confidence": "teach a trained model how far its disparities can be trusted",
    "ablate": "train the variants of the paper's ablation tables, and put their figures beside the paper's",
    "evaluate": "measure a model, SGBM or another tool's predictions on benchmarks",
    "benchmark": "measure time, frames per second, GFLOPs and memory of a model on this machine",
    "export": "write a model as an ONNX file, for ONNX Runtime, OpenVINO and others",
    "submit": "pack predictions for the test servers of KITTI, Middlebury and ETH3D",
    "info": "print the parts of a checkpoint or a preset, their parameters and GFLOPs",
}
"""The subcommands, each in the module of this package with its name, and a line about each for the help."""


def build_parser(words: Sequence[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """The parser of the command line; only the subcommands among `words` are imported and have their options."""
    parser = argparse.ArgumentParser(
        prog="linstereo",
        description="Stereo matching with global, linear-cost attention: metric depth from a pair of images.",
    )
    parser.add_argument("--version", action="version", version=f"linstereo {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, line in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=line)
        if name in words:
            import_module(f"linstereo.cli.{name}").add_options(subparser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    0: done; 1: done but for pairs that `predict --skip-bad` skipped; 2: bad input, told in one sentence on stderr;
    130, 143: ended by Ctrl-C or SIGTERM before it was done; 141: nobody reads the standard output any more, as after
    `| head` (128 + the signal's number).
    """

    def run() -> int | None:
        words = sys.argv[1:] if arguments is None else list(arguments)
        for word in words:
            if word.startswith("-") and word.endswith("=--"):  # which argparse would turn into an empty list
                raise InputError(f"{word.removesuffix('=--')} is given without a value; write it after the =")
        options = build_parser(words).parse_args(words)
        code: int | None = options.run(options)
        return code

    return guarded(run)
