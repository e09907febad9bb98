"""A server with a tiny network, in a thread of the test and as the real command."""

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import cv2
import httpx
import pytest
import torch

from linstereo import StereoPredictor
from linstereo.app.private_folder import private_folder
from linstereo.app.server import create_application, http_server, listening
from linstereo.app.settings import ServerSettings
from linstereo.checkpoints.checkpoint import save_checkpoint
from linstereo.model.presets import LinStereoConfig, build
from tests.hostile.world import MODEL
from tests.model.tiny import synthetic_pairs
from tests.waiting import wait_until


@pytest.fixture(scope="session")
def predictor() -> StereoPredictor:
    torch.manual_seed(0)
    model = build(LinStereoConfig(backbone="compact", start="correlation", iterations=4, **MODEL))
    return StereoPredictor(model, device="cpu")


@pytest.fixture(scope="session")
def pair() -> tuple[bytes, bytes]:
    """A pair of 96 x 64 px as PNG files."""
    left, right, _ = synthetic_pairs(1)
    return tuple(png(view[0].permute(1, 2, 0).mul(255).byte().numpy()) for view in (left, right))


@pytest.fixture(scope="session")
def checkpoint(predictor, tmp_path_factory) -> Path:
    """The weights of that network."""
    return save_checkpoint(predictor.model, tmp_path_factory.mktemp("model") / "tiny.safetensors")


def png(rgb) -> bytes:
    return cv2.imencode(".png", cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR))[1].tobytes()


def as_files(pair, **more):
    """The parts of a request for httpx."""
    return {"left": ("left.png", pair[0]), "right": ("right.png", pair[1]), **more}


@contextlib.contextmanager
def running(predictor, folder: Path, **settings) -> Iterator[httpx.Client]:
    """A server in a thread, and a client of it; its private folder is in `folder`."""
    chosen = ServerSettings(port=0, **settings)
    with private_folder(folder) as private, listening(chosen) as listener:
        server = http_server(create_application(predictor, chosen, private))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            wait_until(lambda: server.started or not thread.is_alive())
            base = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with httpx.Client(base_url=base, timeout=600) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def client(predictor, tmp_path_factory) -> Iterator[httpx.Client]:
    with running(predictor, tmp_path_factory.mktemp("server"), max_upload=2, max_pixels=1, idle_seconds=1) as client:
        yield client


@contextlib.contextmanager
def serving(checkpoint: Path, temporary: Path, *options: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """The real command with its temporary files in `temporary`: the process and the address of the page."""
    command = [sys.executable, "-m", "linstereo", "serve", "--port=0", f"--model={checkpoint}", "--device=cpu"]
    process = subprocess.Popen(
        [*command, "--threads=1", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary)},
    )
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stderr.read()
        yield process, found[0]
    finally:
        process.terminate()
        process.communicate()
