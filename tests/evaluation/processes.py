"""Evaluations in processes of their own, which can really be killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


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
        env=os.environ | environment,
    )


def kill_after(process: subprocess.Popen[bytes], records: Path, *, count: int) -> None:
    """Kill a run, with all its processes, as soon as it has recorded `count` images."""
    deadline = time.monotonic() + 120
    while lines_in(records) < count:
        assert process.poll() is None, "the run ended by itself"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
