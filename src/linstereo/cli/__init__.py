"""The `linstereo` command: one module per subcommand, each a thin face over the package."""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

from linstereo import __version__
from linstereo.cli import ablate, evaluate, info, predict, submit, synth, tank, train
from linstereo.errors import InputError

COMMANDS = (predict, synth, tank, train, ablate, evaluate, submit, info)

CLOSED_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    0: done; 1: done but for pairs that `predict --skip-bad` passed over; 2: bad input, told in one sentence on stderr;
    130: interrupted; 141: nobody reads the standard output any more, as after `| head` (128 + the signal's number).
    """
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
        if sys.stdout is None:
            raise InputError("the standard output is closed; redirect it to a file or to /dev/null")
        code: int | None = options.run(options)
        sys.stdout.flush()
    except InputError as error:
        print(f"linstereo: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        print("linstereo: out of memory; use smaller images, or free memory", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("linstereo: interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        if not _output_fails():
            raise
        _discard_output()
        if isinstance(error, BrokenPipeError):
            return CLOSED_PIPE
        print(f"linstereo: cannot write to the standard output: {error.strerror}; redirect it", file=sys.stderr)
        return 2
    return code or 0


def _output_fails() -> bool:
    """Whether the standard output takes no more: its reader, such as head, has gone, or its device is full.

    Asked after an `OSError`, which does not say where it comes from; so a line is tried.
    """
    try:
        print(flush=True)
    except OSError:
        return True
    return False


def _discard_output() -> None:
    """Send what is still to be written to nowhere, so that the interpreter does not fail at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
