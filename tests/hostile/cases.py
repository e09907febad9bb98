"""Hostile cases made from the argument parser itself, so that a new command or option joins by itself."""

import argparse
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from linstereo.cli import build_parser
from linstereo.cli.options import image_size, thread_count

LONG = "x" * 300
REFUSED, ACCEPTED = "refused", "accepted"


@dataclasses.dataclass(frozen=True)
class Case:
    """One command line and what must become of it.

    name: unique, for the table.
    command: the subcommand.
    changes: arguments added to its baseline; `{world}` is the folder of the inputs.
    positional: (place, value) of an argument to be replaced, None for none.
    without: option of the baseline to be left out.
    expected: REFUSED, or ACCEPTED if the command must succeed.
    prepare: puts what the case needs into its folder, given that of the inputs and its own; may return the positional
        arguments to use.
    """

    name: str
    command: tuple[str, ...]
    changes: tuple[str, ...] = ()
    positional: tuple[int, str] | None = None
    without: str | None = None
    expected: str = REFUSED
    prepare: Callable[[Path, Path], list[str] | None] | None = None


INTEGERS = {"zero": "0", "negative": "-1", "huge": str(10**20), "word": "abc", "empty": "", "nan": "nan", "half": "1.5"}
FLOATS = {
    "nan": "nan",
    "inf": "inf",
    "minus-inf": "-inf",
    "overflow": "1e400",
    "huge": "1e300",
    "negative": "-1",
    "zero": "0",
    "tiny": "1e-300",
    "word": "abc",
    "empty": "",
}
SIZES = {"zero": "0x0", "huge": "999999x999999", "letters": "axb", "empty": "", "one": "64", "wide": "32x999999"}
TEXTS = {
    "unknown": "no-such-thing",
    "empty": "",
    "long": LONG,
    "newline": "no\nsuch\nthing",
    "not-utf8": "no-such-\udcff-thing",
    "option": "--",
}
NAMES_OF_FILES = {
    "missing": "missing{suffix}",
    "empty-name": "",
    "long": f"{LONG}{{suffix}}",
    "long-parent": f"{LONG}/file{{suffix}}",
    "newline": "no\nfile{suffix}",
    "not-utf8": "no-\udcff{suffix}",
    "folder": "{world}/bad/empty-folder",
    "fifo": "{world}/bad/fifo",
    "device": "/dev/zero",
    "under-a-file": "{world}/bad/file/x{suffix}",
}
CONTENTS = ("empty", "text", "truncated", "binary")
INPUT_FOLDERS = {
    "missing": "missing",
    "empty-name": "",
    "long": LONG,
    "newline": "no\nfolder",
    "not-utf8": "no-\udcff",
    "file": "{world}/bad/file",
    "fifo": "{world}/bad/fifo",
    "device": "/dev/zero",
    "empty-folder": "{world}/bad/empty-folder",
    "text-files": "{world}/bad/folder-of-text",
}
OUTPUT_FOLDERS = {
    "file": "{world}/bad/file",
    "under-a-file": "{world}/bad/file/out",
    "unwritable": "/proc/nope",
    "unwritable-deep": "/proc/nope/deep/out",
    "long": LONG,
    "long-child": f"new/{LONG}",
    "fifo": "{world}/bad/fifo",
    "device": "/dev/null",
}
MEANT: dict[str, str] = {
    # "inf" is documented as keeping all points
    **dict.fromkeys(
        (
            f"{command} --max-depth: {label}"
            for command in ("predict", "track")
            for label in ("inf", "overflow", "huge", "tiny")
        ),
        ACCEPTED,
    ),
    **dict.fromkeys(
        (
            f"{command} --seed: zero"
            for command in ("synth", "confidence", "tank render", "seastereo plan", "seastereo render")
        ),
        ACCEPTED,
    ),
    **dict.fromkeys(
        (
            f"synth --{share}: {label}"
            for share in ("underwater", "plain", "grey", "noisy", "margins")
            for label in ("zero", "tiny")
        ),
        ACCEPTED,
    ),
    **dict.fromkeys(
        (f"tank {action} --{part}: zero" for action in ("target", "render") for part in ("stagger", "ropes")), ACCEPTED
    ),
    **dict.fromkeys(
        (f"tank ground-truth --max-{what}: huge" for what in ("reprojection", "depth-error", "disparity-error")),
        ACCEPTED,
    ),
    **dict.fromkeys((f"rectify --alpha: {label}" for label in ("zero", "tiny")), ACCEPTED),
    "seastereo verify --geometry: zero": ACCEPTED,
    "seastereo verify --geometry: huge": ACCEPTED,
    "evaluate --name: unknown": ACCEPTED,
    "evaluate --limit: huge": ACCEPTED,
    "evaluate --pictures: zero": ACCEPTED,
    "evaluate --pictures: huge": ACCEPTED,
    "ablate --limit: huge": ACCEPTED,
    "train --stop-after: huge": ACCEPTED,
    "serve --port: zero": ACCEPTED,
    "serve --queue: zero": ACCEPTED,
    "serve --allow-host: unknown": ACCEPTED,
    "train --workers: zero": ACCEPTED,
    "ablate --workers: zero": ACCEPTED,
    "benchmark --warm-up: zero": ACCEPTED,
    "submit --name: unknown": ACCEPTED,
    "submit --seconds: zero": ACCEPTED,
    "submit --seconds: tiny": ACCEPTED,
}
"""Cases that look hostile but have a meaning."""
FILE_METAVARS = {"FILE", "PATH", "CHECKPOINT", "RECIPE", "LEFT", "RIGHT", "SOURCE"}
FOLDER_METAVARS = {"DIR", "SESSION"}
OUTPUTS = {"out", "cache_features"}


def subcommands(
    parser: argparse.ArgumentParser | None = None, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """All subcommands that can be run, with their parsers."""
    parser = parser or build_parser()
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not nested:
        yield path, parser
    for action in nested:
        for name, child in action.choices.items():
            yield from subcommands(child, (*path, name))


def generated_cases() -> list[Case]:
    """The cases of all options of all subcommands."""
    cases = [case for command, parser in subcommands() for case in _cases_of(command, parser)]
    unknown = MEANT.keys() - {case.name for case in cases}
    assert not unknown, f"no such cases: {unknown}"
    return [dataclasses.replace(case, expected=MEANT.get(case.name, REFUSED)) for case in cases]


def _cases_of(command: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[Case]:
    spoken = " ".join(command)
    yield Case(f"{spoken} --no-such-option", command, ("--no-such-option",))
    yield Case(f"{spoken} unexpected argument", command, ("unexpected", "argument"))
    place = 0
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._VersionAction):
            continue
        option = action.option_strings[-1] if action.option_strings else None
        shown = option or str(action.metavar)
        if option is not None and action.required:
            yield Case(f"{spoken} without {option}", command, without=option)
        if action.nargs == 0:
            yield Case(f"{spoken} {option}=1", command, (f"{option}=1",))
            continue
        if option is not None:
            yield Case(f"{spoken} {option} without value", command, (option,))
        for label, value in hostile_values(action, shown).items():
            name = f"{spoken} {shown}: {label}"
            if option is None:
                yield Case(name, command, positional=(place, value))
            else:
                yield Case(name, command, (f"{option}={value}",))
        place += option is None


def hostile_values(action: argparse.Action, shown: str) -> dict[str, str]:
    """What no command should accept for this option, by a short name."""
    from tests.hostile.world import EXAMPLES

    if action.choices is not None:
        return {name: TEXTS[name] for name in ("unknown", "empty", "newline", "not-utf8")}
    kinds: dict[Any, dict[str, str]] = {int: INTEGERS, thread_count: INTEGERS, float: FLOATS, image_size: SIZES}
    if action.type in kinds:
        return kinds[action.type]
    if action.dest in OUTPUTS:
        return OUTPUT_FOLDERS
    if action.metavar in FILE_METAVARS or shown in EXAMPLES:
        suffix = "." + EXAMPLES[shown].rpartition(".")[2] if shown in EXAMPLES else ".txt"
        files = {label: value.replace("{suffix}", suffix) for label, value in NAMES_OF_FILES.items()}
        stem = shown.strip("-")
        if shown in EXAMPLES:
            files |= {content: f"{{world}}/bad/files/{stem}-{content}{suffix}" for content in CONTENTS}
        return files
    if action.metavar in FOLDER_METAVARS:
        return INPUT_FOLDERS
    return TEXTS
