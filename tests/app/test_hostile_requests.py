"""Requests that no honest client sends: each gets a clear refusal, and the server goes on answering."""

import contextlib
import random
import socket
import struct
import threading
import zlib

import numpy as np
import pytest

from tests.app.conftest import as_files, png, running
from tests.waiting import wait_until

COUNT = 1000
BOUNDARY = b"----boundary"
ODD_NAMES = (
    *("../../../../tmp/evil.png", "/etc/passwd", "..\\..\\evil.png", "a\x00b.png", "C:\\evil.png", "~root/.ssh/x"),
    *("\u202egnp.live", "\U0001f4a3" * 60, "x" * 3000, "con.png", "-rf", "$(reboot).png", "left.png/../../x", "."),
)


def part(name: str, content: bytes, filename: str | None = None) -> bytes:
    named = f'; filename="{filename}"'.encode("utf-8", "surrogatepass") if filename is not None else b""
    head = b'Content-Disposition: form-data; name="' + name.encode() + b'"' + named
    return b"--" + BOUNDARY + b"\r\n" + head + b"\r\n\r\n" + content + b"\r\n"


def form(pair) -> bytes:
    return part("left", pair[0], "l.png") + part("right", pair[1], "r.png") + b"--" + BOUNDARY + b"--\r\n"


def request(body: bytes, *, headers: dict[str, str] | None = None, length: int | None = None) -> bytes:
    """A whole HTTP request as bytes."""
    fields = {
        "Host": "127.0.0.1",
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY.decode()}",
        "Content-Length": str(len(body) if length is None else length),
        "Connection": "close",
        **(headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST /v1/predict HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body


def malformed(pair, rng: random.Random) -> bytes:
    """One request that is broken in one of a dozen ways."""
    whole = form(pair)
    kind = rng.randrange(12)
    if kind == 0:  # cut off, and says so
        return request(whole[: rng.randrange(len(whole) - 40)])
    if kind == 1:  # damaged somewhere in the headers of the parts
        damaged = bytearray(whole)
        for _ in range(8):
            damaged[rng.randrange(90)] = rng.randrange(256)
        return request(bytes(damaged))
    if kind == 2:
        return request(
            whole, headers={"Content-Type": rng.choice(["", "text/plain", "multipart/form-data", "a/b;c=d"])}
        )
    if kind == 3:
        return request(
            whole, headers={"Content-Length": rng.choice(["-1", "1e3", "0x10", "99999999999999999999", "abc"])}
        )
    if kind == 4:
        return rng.randbytes(rng.randrange(1, 400)) + b"\r\n\r\n"
    if kind == 5:  # an image that is no image
        bad = rng.choice([b"", b"GIF89a", pair[0][: rng.randrange(8, len(pair[0]))], rng.randbytes(200)])
        return request(form((bad, pair[1])))
    if kind == 6:  # a forged header of a PNG
        forged = bytearray(pair[0])
        forged[16 + rng.randrange(8)] = rng.randrange(256)
        return request(form((bytes(forged), pair[1])))
    if kind == 7:
        fields = b"".join(part(f"field{i}", b"x") for i in range(rng.randrange(1, 40)))
        return request(fields + whole)
    if kind == 8:
        return request(
            part("calibration", rng.randbytes(60), rng.choice(["c.yaml", "c.json", "c.xml", "c", "c.txt"])) + whole
        )
    if kind == 9:
        values = {
            name: rng.choice(["", "\n", "nan", "-1", "1e400", "{}", "[]"]) for name in ("Host", "Origin", "Accept")
        }
        return request(
            whole, headers={name: value for name, value in values.items() if rng.random() < 0.5} | {"Host": ""}
        )
    if kind == 10:
        fields = f"{'X' * rng.randrange(70_000)}: y\r\nConnection: close"
        return f"POST /v1/predict HTTP/1.{rng.randrange(10)}\r\n{fields}\r\n\r\n".encode()
    return request(
        part(rng.choice(["left", "pair", "focal", "\x00", "x" * 500]), rng.randbytes(50)) + part("left", b"")
    )


def send(address, data: bytes) -> bytes:
    """What the server answers before it closes."""
    with socket.create_connection(address) as connection:
        connection.settimeout(600)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(data)
            if b"\r\n\r\n" not in data:  # the server would wait for the rest of the headers
                connection.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                answer += piece
    return answer


def address_of(client) -> tuple[str, int]:
    return "127.0.0.1", client.base_url.port


def answers(client, pair) -> bool:
    return client.post("/v1/predict", files=as_files(pair), data={"iterations": "1"}).status_code == 200


def test_a_thousand_malformed_requests(client, pair):
    rng = random.Random(0)
    statuses: dict[bytes, int] = {}
    for _ in range(COUNT):
        answer = send(address_of(client), malformed(pair, rng))
        status = answer[9:12] if answer else b"none"
        statuses[status] = statuses.get(status, 0) + 1
        assert status[:1] in (b"2", b"4", b"n"), answer
        if status[:1] == b"4" and b"Invalid HTTP" not in answer:
            assert b'{"error"' in answer
    assert statuses.get(b"none", 0) < COUNT / 100, statuses
    assert {b"400", b"403", b"415", b"422"} <= set(statuses)
    assert answers(client, pair)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_of_files_do_no_harm(client, pair, name):
    body = part("left", pair[0], name) + part("right", pair[1], name) + b"--" + BOUNDARY + b"--\r\n"
    answer = send(address_of(client), request(body))
    assert answer[9:12] in (b"200", b"400"), answer[:300]
    if len(name) < 3000:
        assert answer[9:12] == b"200", answer[:300]
    assert name.encode("utf-8", "surrogatepass") not in answer or len(name) < 3


def test_a_slow_body_is_ended(client, pair):
    whole = request(form(pair))
    with socket.create_connection(address_of(client)) as connection:
        connection.settimeout(600)
        connection.sendall(whole[:-20])
        answer = connection.recv(65536)
    assert b" 408 " in answer
    assert answers(client, pair)


def test_a_body_that_drips_is_ended(predictor, pair, tmp_path):
    with running(predictor, tmp_path, idle_seconds=600, receive_seconds=1) as client:
        whole = request(form(pair))
        with socket.create_connection(address_of(client)) as connection:
            connection.settimeout(600)
            ended = threading.Event()

            def drip():
                with contextlib.suppress(OSError):
                    for byte in whole:
                        if ended.is_set():
                            return
                        connection.sendall(bytes([byte]))
                        ended.wait(0.02)

            thread = threading.Thread(target=drip)
            thread.start()
            answer = connection.recv(65536)
            ended.set()
            thread.join()
        assert b" 408 " in answer


def test_a_connection_without_a_request_is_closed(client, monkeypatch):
    monkeypatch.setattr("linstereo.app.server._SILENT", 0.4)
    with socket.create_connection(address_of(client)) as connection:
        connection.settimeout(600)
        connection.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        assert connection.recv(100) == b""


def test_too_many_bytes(client, pair):
    body = part("left", b"\x00" * 3_000_000, "l.png")
    assert b" 413 " in send(address_of(client), request(body))
    chunked = b"".join(b"%x\r\n" % 100_000 + b"\x00" * 100_000 + b"\r\n" for _ in range(30))
    head = request(b"", headers={"Transfer-Encoding": "chunked"}).replace(b"Content-Length: 0\r\n", b"")
    opening = part("left", b"", "l.png")[:-2]
    answer = send(address_of(client), head + b"%x\r\n" % len(opening) + opening + b"\r\n" + chunked)
    assert b" 413 " in answer
    assert answers(client, pair)


def test_a_bomb_of_a_picture(client, pair):
    """A picture of a few kilobytes that would decode to a gigabyte."""
    packed = zlib.compress(bytes(30_000_000), 9)
    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    chunks = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b""))
    )
    bomb = b"\x89PNG\r\n\x1a\n" + chunks
    response = client.post("/v1/predict", files=as_files((bomb, bomb)))
    assert response.status_code in (413, 422)
    assert "left image" in response.json()["error"]


def test_nothing_is_left_of_requests(predictor, pair, tmp_path):
    with running(predictor, tmp_path, max_upload=2, idle_seconds=1) as client:
        rng = random.Random(1)
        for _ in range(40):
            send(address_of(client), malformed(pair, rng))
        assert answers(client, pair)
        client.post("/v1/predict", files=as_files((b"no", pair[1])))
        (private,) = tmp_path.iterdir()
        assert private.stat().st_mode & 0o777 == 0o700
        wait_until(lambda: [path.name for path in private.iterdir()] == ["in-use.lock"])
    assert list(tmp_path.iterdir()) == []


def test_an_image_too_small(client):
    tiny = png(np.zeros((8, 8, 3), np.uint8))
    response = client.post("/v1/predict", files=as_files((tiny, tiny)))
    assert response.status_code == 422
    assert "32 px" in response.json()["error"]
