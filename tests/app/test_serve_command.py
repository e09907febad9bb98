"""The command itself: under load, when it is stopped, when it is killed, and when it cannot begin."""

import io
import re
import signal
import socket
import threading
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
import pytest

from linstereo.app.private_folder import PREFIX, private_folder
from linstereo.cli import main
from tests.app.conftest import as_files, png, serving
from tests.waiting import wait_until

CLIENTS, REQUESTS, WARM_UP = 16, 200, 8


def memory(process) -> int:
    """Bytes that a process has in memory."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])


def own_pair(client: int) -> tuple[bytes, bytes]:
    """A pair of a size that only this client uses."""
    rng = np.random.default_rng(client)
    left = rng.integers(0, 256, (40 + client, 64, 3), dtype=np.uint8)
    return png(left), png(np.roll(left, -3, axis=1))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
def test_two_hundred_requests_of_sixteen_clients(checkpoint, tmp_path):
    with serving(checkpoint, tmp_path, "--queue=8") as (process, address):
        statuses: Counter[int] = Counter()

        def ask(number: int, count: int) -> None:
            pair = own_pair(number)
            with httpx.Client(base_url=address, timeout=600) as client:
                for _ in range(count):
                    answer = client.post(
                        "/v1/predict",
                        files=as_files(pair),
                        data={"iterations": "1"},
                        headers={"Accept": "application/x-npy"},
                    )
                    statuses[answer.status_code] += 1
                    if answer.status_code == 200:
                        assert np.load(io.BytesIO(answer.content)).shape == (40 + number, 64)
                    else:
                        assert answer.status_code == 503
                        assert int(answer.headers["Retry-After"]) >= 1
                        assert "busy" in answer.json()["error"]

        def burst(count: int) -> None:
            failures: list[BaseException] = []

            def run(number: int) -> None:
                try:
                    ask(number, count)
                except BaseException as error:
                    failures.append(error)

            threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not failures, failures[0]

        burst(WARM_UP)
        before = memory(process)
        statuses.clear()
        burst(-(-REQUESTS // CLIENTS))
        after = memory(process)
        assert sum(statuses.values()) >= REQUESTS
        assert set(statuses) == {200, 503}
        assert after < 1.1 * before, f"{before / 1e6:.0f} MB before, {after / 1e6:.0f} MB after"
        (private,) = tmp_path.glob(f"{PREFIX}*")
        wait_until(lambda: [path.name for path in private.iterdir()] == ["in-use.lock"])
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
        assert process.returncode == 128 + signal.SIGTERM
        assert "Traceback" not in errors
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


def test_what_a_killed_server_left_goes_with_the_next_one(checkpoint, tmp_path):
    with serving(checkpoint, tmp_path) as (process, address):
        answer = httpx.post(
            f"{address}v1/predict", files=as_files(own_pair(0)), headers={"Accept": "text/event-stream"}, timeout=600
        )
        assert '"done"' in answer.text
        process.kill()
        process.wait()
    (left,) = tmp_path.glob(f"{PREFIX}*")
    assert any(path.name.startswith("result-") for path in left.iterdir())
    other = tmp_path / f"{PREFIX}not-a-folder"
    other.write_text("kept")
    with private_folder(tmp_path) as own:
        with private_folder(tmp_path) as second:
            assert own.is_dir()
            assert second.is_dir()
        assert not left.exists()
        assert own.stat().st_mode & 0o777 == 0o700
        assert set(tmp_path.glob(f"*{PREFIX}*")) == {own, other}


def test_it_says_when_others_can_reach_it(quick_check, capsys):
    assert main([*quick_check, "--host=0.0.0.0", "--token=auto"]) == 0
    shown = capsys.readouterr()
    assert re.search(r"http://\S+/#token=\S{20,}", shown.out)
    assert "serves everybody who has the token" in shown.err
    assert main(quick_check) == 0
    shown = capsys.readouterr()
    assert "http://127.0.0.1:" in shown.out
    assert shown.err == ""


def test_a_port_that_is_taken(quick_check, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main([*quick_check, f"--port={taken.getsockname()[1]}"]) == 2
    assert "give another --port" in capsys.readouterr().err


@pytest.fixture
def quick_check(checkpoint, tmp_path, monkeypatch):
    """A command line that ends as soon as the server could serve."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield ["serve", "--port=0", "--check", f"--model={checkpoint}", "--device=cpu"]
    assert list(tmp_path.glob(f"*{PREFIX}*")) == []
