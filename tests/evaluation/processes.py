"""Evaluations in processes of their own, which can really be killed."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def lines_in(folder: Path) -> int:
    return sum(path.read_bytes().count(b"}\n") for path in folder.rglob("process-*.jsonl"))


def start(
    arguments: list[str], *, launcher: Sequence[str] = ("linstereo.cli",), **environment: str
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", *launcher, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=ROOT,
        env=os.environ | environment,
    )


def run_and_kill(arguments: list[str], *, count: int, launcher: Sequence[str] = ()) -> None:
    """Start a run that is killed, with all its processes, as soon as it has recorded `count` images."""
    process = start([str(count), *arguments], launcher=(*launcher, "tests.evaluation.killed_run"))
    assert process.wait(timeout=PATIENCE) != 0, "the run ended by itself"
