"""The `linstereo` command: one module per subcommand, each a thin face over the package."""

import argparse
import sys
from collections.abc import Sequence

from linstereo import __version__
from linstereo.cli import ablate, evaluate, info, predict, submit, synth, tank, train
from linstereo.cli.process import guarded
from linstereo.errors import InputError

COMMANDS = (predict, synth, tank, train, ablate, evaluate, submit, info)


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="linstereo",
        description="Stereo matching with global, linear-cost attention: metric depth from a pair of pictures.",
    )
    parser.add_argument("--version", action="version", version=f"linstereo {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    0: done; 1: done but for pairs that `predict --skip-bad` passed over; 2: bad input, told in one sentence on stderr;
    130, 143: ended by Ctrl-C or SIGTERM before it was done; 141: nobody reads the standard output any more, as after
    `| head` (128 + the signal's number).
    """

    def run() -> int | None:
        words = sys.argv[1:] if arguments is None else list(arguments)
        for word in words:
            if word.startswith("-") and word.endswith("=--"):  # which argparse would turn into an empty list
                raise InputError(f"{word.removesuffix('=--')} is given without a value; write it after the =")
        options = build_parser().parse_args(words)
        code: int | None = options.run(options)
        return code

    return guarded(run)
