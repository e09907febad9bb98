"""Every command refuses hostile input in one sentence, with exit code 2, and leaves nothing behind.

The generic cases come from the argument parser (`tests.hostile.cases`), the others are written by hand
(`tests.hostile.rows`). All run in this process; what needs a process of its own is in `test_processes.py`.
"""

import resource
import signal
from pathlib import Path

import pytest

from linstereo.cli import main
from tests.hostile.cases import ACCEPTED, Case, generated_cases, subcommands
from tests.hostile.rows import unique, written_cases
from tests.hostile.world import BASELINES, baseline, build_world, snapshot

HANG_SECONDS = 120
MEMORY = 4 << 30  # bytes that a refused command may ask for beyond what the process has


class HangError(BaseException):
    """A command took too long; nothing of what handles ordinary errors may take it for one."""


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    return build_world(tmp_path_factory.mktemp("world"))


def run(arguments: list[str]) -> int:
    """`linstereo` with these arguments; a hang or a huge allocation is an exception."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))

    def hangs(*_: object) -> None:
        raise HangError(f"not done after {HANG_SECONDS} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANG_SECONDS)
    try:
        return main(arguments)
    except SystemExit as end:  # argparse
        return int(end.code or 0)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def command_line(case: Case, world: Path, positional: list[str] | None) -> list[str]:
    words = baseline(case.command, world)
    first = len(case.command)
    words[first : first + len(positional or [])] = positional or []
    if case.without is not None:
        words = [word for word in words if not word.startswith(f"{case.without}=")]
    if case.positional is not None:
        place, value = case.positional
        words[first + place] = value.replace("{world}", str(world))
    return [*words, *(change.replace("{world}", str(world)) for change in case.changes)]


def sentences(stderr: str) -> list[str]:
    """The lines of stderr without the usage that argparse puts first."""
    lines, usage = [], False
    for line in stderr.splitlines():
        usage = line.startswith("usage: ") or (usage and line.startswith(" "))
        lines += [] if usage or not line.strip() else [line]
    return lines


CASES = unique([*generated_cases(), *written_cases()])


@pytest.mark.parametrize("case", CASES, ids=[case.name.encode("unicode_escape").decode() for case in CASES])
def test_hostile(case, world, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = command_line(case, world, case.prepare(world, tmp_path) if case.prepare else None)
    before = snapshot(tmp_path), snapshot(world)
    capfd.readouterr()
    code = run(words)
    out, err = capfd.readouterr()
    assert "Traceback" not in err
    if case.expected == ACCEPTED:
        assert code == 0, err
        return
    assert code == 2, (code, out, err)
    told = sentences(err)
    assert len(told) == 1, err
    assert told[0].startswith("linstereo"), err
    assert told[0].isprintable(), err
    assert out == ""
    assert (snapshot(tmp_path), snapshot(world)) == before


@pytest.mark.parametrize("command", [command for command, _ in subcommands()], ids=" ".join)
def test_every_command_has_a_baseline_that_succeeds(command, world, tmp_path, monkeypatch, capfd):
    assert command in BASELINES, f"add a valid command line of {' '.join(command)} to tests.hostile.world.BASELINES"
    monkeypatch.chdir(tmp_path)
    assert run(baseline(command, world)) == 0, capfd.readouterr().err
    assert list(tmp_path.iterdir()) or command in (
        *(("info",), ("serve",), ("seastereo", "plan"), ("seastereo", "verify")),
    )
