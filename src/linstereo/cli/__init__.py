"""The `linstereo` command: one module per subcommand, each a thin face over the package."""

import argparse
import os
import sys
from collections.abc import Sequence

from linstereo import __version__
from linstereo.cli import ablate, evaluate, info, predict, submit, synth, tank, train
from linstereo.errors import InputError

COMMANDS = (predict, synth, tank, train, ablate, evaluate, submit, info)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, or 2 with one sentence on stderr for bad input."""
    parser = argparse.ArgumentParser(
        prog="linstereo",
        description="Stereo matching with global, linear-cost attention: metric depth from a pair of pictures.",
    )
    parser.add_argument("--version", action="version", version=f"linstereo {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(subparsers)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except InputError as error:
        print(f"linstereo: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output, such as head, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("linstereo: interrupted", file=sys.stderr)
        return 130
    return 0
