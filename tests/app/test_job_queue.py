"""One job at a time, a bounded queue, and places that are freed when a client goes away."""

import json
import socket
import threading
from types import SimpleNamespace

import httpx
import pytest

from tests.app.conftest import as_files, running
from tests.waiting import PATIENCE, wait_until


@pytest.fixture
def gate(monkeypatch):
    """Holds every job in its first stage until it is opened."""
    from linstereo.app import stages

    opened = threading.Event()
    read_pair = stages.read_pair

    def held(*args, **kwargs):
        opened.wait()
        return read_pair(*args, **kwargs)

    monkeypatch.setattr(stages, "read_pair", held)
    yield opened
    opened.set()


def queue_of(client) -> dict:
    return client.get("/v1/health").json()["queue"]


def in_thread(client, pair, answers: list, **headers) -> threading.Thread:
    def ask():
        with httpx.Client(base_url=client.base_url, timeout=600) as own:
            answers.append(own.post("/v1/predict", files=as_files(pair), headers=headers))

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def test_a_full_queue_says_when_to_try_again(predictor, pair, tmp_path, gate):
    with running(predictor, tmp_path, queue=2) as client:
        answers: list[httpx.Response] = []
        threads = [in_thread(client, pair, answers) for _ in range(3)]
        wait_until(lambda: queue_of(client) == {"running": 1, "waiting": 2, "length": 2})
        refused = client.post("/v1/predict", files=as_files(pair))
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) >= 1
        assert "busy" in refused.json()["error"]
        gate.set()
        for thread in threads:
            thread.join()
        assert [answer.status_code for answer in answers] == [200] * 3
        assert queue_of(client) == {"running": 0, "waiting": 0, "length": 2}


@pytest.mark.parametrize("accept", ["text/event-stream", "image/png"])
def test_a_client_that_goes_away_frees_its_place(predictor, pair, tmp_path, gate, accept):
    with running(predictor, tmp_path, queue=1) as client:
        answers: list[httpx.Response] = []
        first = in_thread(client, pair, answers)
        wait_until(lambda: queue_of(client)["running"] == 1)
        leave_in_the_middle(client, pair, accept)
        wait_until(lambda: queue_of(client)["waiting"] == 0)
        second = in_thread(client, pair, answers)
        wait_until(lambda: queue_of(client)["waiting"] == 1)
        gate.set()
        first.join()
        second.join()
        assert [answer.status_code for answer in answers] == [200, 200]


def leave_in_the_middle(client, pair, accept: str) -> None:
    """Send a request, wait until it has its place, and close the connection."""
    body = httpx.Request("POST", "http://127.0.0.1/", files=as_files(pair))
    content = body.read()
    head = (
        f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {accept}\r\n"
        f"Content-Type: {body.headers['Content-Type']}\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", client.base_url.port)) as connection:
        connection.sendall(head.encode() + content)
        wait_until(lambda: queue_of(client)["waiting"] == 1)


def test_a_running_job_ends_when_its_client_goes(predictor, pair, tmp_path, monkeypatch):
    started, steps = threading.Event(), []
    iterate = predictor.model.iterate

    def slow(evidence, iterations, **settings):
        for state in iterate(evidence, iterations, **settings):
            steps.append(1)
            started.set()
            gone.wait()
            yield state

    gone = threading.Event()
    monkeypatch.setattr(predictor.model, "iterate", slow)
    with running(predictor, tmp_path) as client:
        with client.stream(
            "POST", "/v1/predict", files=as_files(pair), headers={"Accept": "text/event-stream"}
        ) as answer:
            lines = answer.iter_lines()
            next(lines)
            assert started.wait(PATIENCE)
        job_gone = threading.Timer(0.5, gone.set)
        job_gone.start()
        wait_until(lambda: queue_of(client)["running"] == 0)
        assert len(steps) < 4
        monkeypatch.setattr(predictor.model, "iterate", iterate)
        assert client.post("/v1/predict", files=as_files(pair)).status_code == 200
        wait_until(lambda: len(list(next(tmp_path.iterdir()).iterdir())) == 1)  # the lock


def test_waiting_clients_are_told_their_place(predictor, pair, tmp_path, gate):
    with running(predictor, tmp_path, queue=3) as client:
        answers: list[httpx.Response] = []
        threads = [in_thread(client, pair, answers)]
        wait_until(lambda: queue_of(client)["running"] == 1)
        threads.append(in_thread(client, pair, answers, Accept="text/event-stream"))
        wait_until(lambda: queue_of(client)["waiting"] == 1)
        gate.set()
        for thread in threads:
            thread.join()
        (stream,) = [answer for answer in answers if answer.headers["Content-Type"].startswith("text/event-stream")]
        events = [json.loads(line[6:]) for line in stream.text.splitlines() if line.startswith("data: ")]
        assert events[0]["event"] == "waiting"
        assert events[0]["place"] == 1
        assert events[-1]["event"] == "done"


def test_a_job_that_takes_too_long(predictor, pair, tmp_path, monkeypatch):
    monkeypatch.setattr("linstereo.app.job_queue.time", SimpleNamespace(monotonic=ticking()))
    with running(predictor, tmp_path, seconds=5) as client:
        response = client.post("/v1/predict", files=as_files(pair))
    assert response.status_code == 504
    assert "longer than 5 s" in response.json()["error"]


def ticking():
    """A clock that moves on by 4 s whenever it is looked at."""
    now = [0.0]

    def read() -> float:
        now[0] += 4.0
        return now[0]

    return read


def test_results_expire_and_are_few(predictor, pair, tmp_path):
    with running(predictor, tmp_path, kept=2) as client:
        keys = []
        for _ in range(3):
            answer = client.post("/v1/predict", files=as_files(pair), headers={"Accept": "text/event-stream"})
            keys.append(json.loads(answer.text.splitlines()[-2][6:])["key"])
        statuses = [client.get(f"/v1/results/{key}/disparity.npy").status_code for key in keys]
        assert statuses == [404, 200, 200]
        client.delete(f"/v1/results/{keys[1]}")
        assert client.get(f"/v1/results/{keys[1]}/disparity.npy").status_code == 404
        (private,) = tmp_path.iterdir()
        assert len([path for path in private.iterdir() if path.name.startswith("result-")]) == 1
    with running(predictor, tmp_path, kept_seconds=0) as client:
        answer = client.post("/v1/predict", files=as_files(pair), headers={"Accept": "text/event-stream"})
        key = json.loads(answer.text.splitlines()[-2][6:])["key"]
        assert client.get(f"/v1/results/{key}/disparity.npy").status_code == 404


def test_a_failure_inside_is_told_and_the_next_job_runs(predictor, pair, tmp_path, monkeypatch, capfd):
    def broken(*_, **__):
        raise ZeroDivisionError("a bug")

    with running(predictor, tmp_path) as client:
        with monkeypatch.context() as patch:
            patch.setattr("linstereo.app.stages.predict_views", broken)
            plain = client.post("/v1/predict", files=as_files(pair))
            events = client.post("/v1/predict", files=as_files(pair), headers={"Accept": "text/event-stream"})
        assert plain.status_code == 500
        assert "failed on this pair" in plain.json()["error"]
        assert json.loads(events.text.splitlines()[-2][6:])["status"] == 500
        assert "ZeroDivisionError" in capfd.readouterr().err
        assert client.post("/v1/predict", files=as_files(pair)).status_code == 200
