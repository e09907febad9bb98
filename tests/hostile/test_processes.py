"""What the table cannot show in one process: streams and their encodings, signals, a full disk."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.world import baseline, build_world, snapshot

WAIT = 240  # seconds, only against hangs


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    return build_world(tmp_path_factory.mktemp("world"))


def start(arguments: list[str], folder: Path, **options: object) -> subprocess.Popen[bytes]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([sys.executable, "-m", "linstereo.cli", *arguments], cwd=folder, **pipes)


def finish(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    out, err = process.communicate(timeout=WAIT)
    return process.returncode, out or b"", err or b""


def wait_until(happened: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + WAIT
    while not happened():
        assert process.poll() is None, finish(process)
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "latin-1"}, {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}],
    ids=str,
)
def test_tables_are_printed_in_any_encoding(environment, world, tmp_path):
    process = start(baseline(("evaluate",), world), tmp_path, env={**os.environ, **environment})
    code, out, err = finish(process)
    assert code == 0, err
    if "PYTHONIOENCODING" in environment:
        assert b"EPE (px) (lower is better)" in out
    assert "EPE (px) ↓" in (tmp_path / "out/report.md").read_text("utf-8")


@pytest.mark.parametrize(
    "arguments",
    [["info", "--preset", "compact"], ["info", "--list"], ["evaluate", "--list"]],
    ids=" ".join,
)
def test_a_full_device_as_stdout_is_one_sentence(arguments, tmp_path):
    with Path("/dev/full").open("wb") as full:
        code, _, err = finish(start(arguments, tmp_path, stdout=full))
    assert code == 2
    assert err.decode().splitlines() == [
        "linstereo: cannot write to the standard output: No space left on device; redirect it"
    ]


def test_a_closed_stdout_is_refused_before_anything_is_done(world, tmp_path):
    process = start(baseline(("predict",), world), tmp_path, stdout=None, preexec_fn=lambda: os.close(1))
    code, _, err = finish(process)
    assert code == 2
    assert err.decode().splitlines() == [
        "linstereo: the standard output is closed; redirect it to a file or to /dev/null"
    ]
    assert not list(tmp_path.iterdir())


ENDLESS = {
    ("train",): ["--set=steps=100000", "--set=checkpoint_every=100000"],
    ("ablate",): ["--set=steps=100000", "--set=checkpoint_every=100000"],
    ("synth",): ["--count=100000", "--workers=2"],
    ("tank", "render"): ["--count=100000"],
}
MARKS = {"train": "metrics.jsonl", "ablate": "components/none/metrics.jsonl", "synth": "left/*", "tank": "left/*"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("command", ENDLESS, ids=" ".join)
def test_a_command_ended_by_a_signal_has_its_exit_code(command, number, world, tmp_path):
    process = start([*baseline(command, world), *ENDLESS[command]], tmp_path)
    wait_until(lambda: list((tmp_path / "out").glob(MARKS[command[0]])), process)
    process.send_signal(number)
    code, _, err = finish(process)
    assert code == 128 + number, err
    assert b"Traceback" not in err
    temporary = [name for name in snapshot(tmp_path) if Path(name).name.startswith(".")]
    assert not temporary
    state = {"train": "training.safetensors", "ablate": "components/none/training.safetensors"}.get(command[0])
    assert state is None or (tmp_path / "out" / state).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("command", [("predict",), ("evaluate",)], ids=" ".join)
def test_inference_ended_by_a_signal_has_its_exit_code(command, number, world, tmp_path):
    """A pair that takes 1000 iterations; the signal comes while the model is loaded, or soon after."""
    process = start([*baseline(command, world), "--iters=1000", "--scale=4"], tmp_path)
    files = Path(f"/proc/{process.pid}/maps")
    wait_until(lambda: "tiny.safetensors" in files.read_text(), process)  # mapped while the weights are copied
    process.send_signal(number)
    code, _, err = finish(process)
    assert code == 128 + number, err
    assert b"Traceback" not in err


@pytest.mark.parametrize("size", [0, 200, 20_000, 100_000])
def test_a_full_disk_in_an_ablation_is_one_sentence(size, world, tmp_path):
    """No file may become larger than `size` bytes, so that one write after the other fails."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    with (Path("/dev/null")).open("wb") as nowhere:
        process = start(baseline(("ablate",), world), tmp_path, preexec_fn=limit, stdout=nowhere)
        code, _, err = finish(process)
    lines = err.decode().splitlines()
    assert code == 2, err
    assert "Traceback" not in err.decode()
    assert [line for line in lines if line.startswith("linstereo: ")] == lines[-1:]
