"""The bundled model through ONNX Runtime and OpenVINO, on the bundled pictures, against PyTorch."""

import socket
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

import linstereo
from linstereo.backends import graph_engine
from linstereo.backends.exporting import PERCENTILE, TOLERANCE, agreement, bundled_pair
from linstereo.backends.graph_engine import computes_in
from linstereo.cli import main
from linstereo.errors import InputError
from linstereo.export.volumes import PRECISE
from linstereo.geometry.known_disparity import KnownDisparity
from tests.waiting import PATIENCE

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PAIRS = {"room": "room/{}/room.png", "tank": "tank/{}/near.jpg", "reef": "reef/{}/clear.png"}
SIZES = {"room": (96, 128), "tank": (90, 165), "reef": (150, 100)}


def images(name):
    height, width = SIZES[name]
    paths = [EXAMPLES / PAIRS[name].format(side) for side in ("left", "right")]
    pictures = [cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB) for path in paths]
    return [cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA) for picture in pictures]


@pytest.fixture(scope="module")
def compact_file(tmp_path_factory):
    target = tmp_path_factory.mktemp("compact") / "compact.onnx"
    assert main(["export", "--out", str(target)]) == 0
    return target


@pytest.fixture(scope="module")
def compact():
    return linstereo.load(device="cpu")


@pytest.fixture(scope="module", params=["onnx", "openvino"])
def exported(request, compact_file):
    return linstereo.load(compact_file, backend=request.param)


@pytest.mark.parametrize("name", PAIRS)
def test_engines_agree_on_real_pictures(name, compact, exported):
    left, right = images(name)
    found = agreement(compact.engine, exported.engine, left, right, iterations=4)
    assert (found.height, found.width) == SIZES[name]
    assert found.percentile <= TOLERANCE
    assert 0 < found.confidence <= TOLERANCE
    assert PERCENTILE == 99.9


def test_exported_models_give_the_whole_result(compact, exported):
    pair = images("room")
    expected, found = (predictor.predict(*pair, occlusion=True) for predictor in (compact, exported))
    assert exported.gives_confidence
    np.testing.assert_allclose(found.confidence, expected.confidence, atol=0.01)
    np.testing.assert_allclose(found.right_disparity, expected.right_disparity, atol=0.05)
    assert (found.reliable() == expected.reliable()).mean() > 0.99


def test_files_without_confidence(compact, tmp_path):
    file = tmp_path / "disparity.onnx"
    assert main(["export", "--iters", "1", "--no-confidence", "--out", str(file)]) == 0
    predictor = linstereo.load(file)
    assert not predictor.gives_confidence
    result = predictor.predict(*images("room"))
    assert result.confidence is None
    np.testing.assert_allclose(result.disparity, compact.predict(*images("room"), iters=1).disparity, atol=0.05)


needs_half_precision = pytest.mark.skipif(
    not computes_in("openvino", "bfloat16"), reason="this processor does not compute in bfloat16"
)


@needs_half_precision
def test_half_precision_is_as_good_on_real_pictures(compact, compact_file, monkeypatch):
    """Wide images: eight bits do not hold a column of theirs."""
    pair = [cv2.resize(image, (640, 96), interpolation=cv2.INTER_AREA) for image in images("room")]
    whole = compact.predict(*pair, scale=1)
    expected = whole.disparity, whole.confidence

    def deviation():
        predictor = linstereo.load(compact_file, backend="openvino", precision="bfloat16")
        assert predictor.precision == "bfloat16"
        found = predictor.predict(*pair, scale=1)
        return [float(np.abs(a - b).mean()) for a, b in zip((found.disparity, found.confidence), expected, strict=True)]

    px, sure = deviation()
    assert 1e-3 < px < 0.1
    assert 1e-4 < sure < 0.01
    monkeypatch.setattr(graph_engine, "_keep_precise", lambda _: None)
    worse_px, worse_sure = deviation()  # positions rounded, too
    assert worse_px > 3 * px
    assert worse_sure > 3 * sure


@needs_half_precision
def test_files_that_do_not_name_their_positions_run_in_single_precision_only(tiny_file, tmp_path):
    old = tmp_path / "old.onnx"
    old.write_bytes(tiny_file.read_bytes().replace(PRECISE.encode(), b"formerl"))
    assert linstereo.load(old, backend="openvino").predict(*bundled_pair(), scale=0.25).disparity.any()
    with pytest.raises(InputError, match="export it again, or leave out the precision"):
        linstereo.load(old, backend="openvino", precision="bfloat16").predict(*bundled_pair(), scale=0.25)


def test_a_processor_without_half_precision_is_told(tiny_file, monkeypatch):
    class Core:
        def get_property(self, device, name):
            assert (device, name) == ("CPU", "OPTIMIZATION_CAPABILITIES")
            return ["FP32", "INT8"]

    monkeypatch.setattr(graph_engine, "_openvino_core", Core)
    with pytest.raises(InputError, match="this processor does not compute in bfloat16; leave out the precision"):
        linstereo.load(tiny_file, backend="openvino", precision="bfloat16")


def test_opening_and_running_openvino_asks_nothing_of_the_network(tiny_file, monkeypatch):
    def connect(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket.socket, "connect_ex", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    with pytest.raises(AssertionError, match="was asked"):
        socket.create_connection(("localhost", 9))
    result = linstereo.load(tiny_file, backend="openvino").predict(*bundled_pair(), scale=0.25)
    assert np.isfinite(result.disparity).all()


SIGNAL_AFTER_TWO_ENGINES = """
import gc, signal, sys
import linstereo
from linstereo.backends.exporting import bundled_pair
engines = [linstereo.load(sys.argv[1], backend="openvino") for _ in range(2)]
for engine in engines:
    engine.predict(*bundled_pair(), scale=0.25)
del engine
while engines:
    del engines[0]
    gc.collect()
signal.signal(signal.SIGINT, lambda *_: print("heard"))
signal.raise_signal(signal.SIGINT)
"""


def test_a_signal_is_heard_after_engines_have_gone(tiny_file):
    command = [sys.executable, "-X", "faulthandler", "-c", SIGNAL_AFTER_TWO_ENGINES, str(tiny_file)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (process.returncode, process.stdout) == (0, "heard\n"), process.stderr


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_sequences_are_refused_before_a_frame_is_read(backend, tiny_file):
    left, right = bundled_pair()
    predictor = linstereo.load(tiny_file, backend=backend)
    known = KnownDisparity(np.ones(left.shape[:2], np.float32), np.ones(left.shape[:2], bool))
    with pytest.raises(InputError, match=f"the backend {backend} cannot start from a known disparity"):
        predictor.predict(left, right, start=known)
    unread = iter([(left, right)])
    with pytest.raises(InputError, match=f"the backend {backend} cannot follow a sequence"):
        next(predictor.track(unread))
    assert next(unread)[0] is left


def test_predictions_of_a_file_and_of_its_checkpoint_are_the_same(tiny_file, tiny_checkpoint):
    left, right = (image[:60, :90] for image in bundled_pair())
    expected = linstereo.load(tiny_checkpoint, device="cpu").predict(left, right, iters=1)
    calls = []
    found = linstereo.load(tiny_file).predict(left, right, on_iteration=calls.append)
    assert found.disparity.shape == (60, 90)
    assert found.iterations == 1
    assert calls == [1]
    np.testing.assert_allclose(found.disparity, expected.disparity, atol=1e-3)


def test_checkpoints_run_in_other_engines_with_any_number_of_iterations(tiny_checkpoint):
    left, right = bundled_pair()
    predictor = linstereo.load(tiny_checkpoint, backend="onnx")
    for count in (1, 3):
        expected = linstereo.load(tiny_checkpoint, device="cpu").predict(left, right, iters=count, scale=0.3)
        found = predictor.predict(left, right, iters=count, scale=0.3)
        np.testing.assert_allclose(found.disparity, expected.disparity, atol=1e-3)


def test_what_a_file_cannot_do(tiny_file, tiny_checkpoint):
    predictor = linstereo.load(tiny_file)
    pair = bundled_pair()
    with pytest.raises(InputError, match="1 iterations, not 5"):
        predictor.predict(*pair, iters=5)
    with pytest.raises(InputError, match="on_the_fly"):
        predictor.predict(*pair, volume="on_the_fly")
    with pytest.raises(InputError, match="at least 32 px"):
        predictor.predict(pair[0][:20], pair[1][:20])
    with pytest.raises(InputError, match="give the checkpoint"):
        _ = predictor.model
    with pytest.raises(InputError, match="leave out the backend torch"):
        linstereo.load(tiny_file, backend="torch")
    with pytest.raises(InputError, match="leave out the backbone weights"):
        linstereo.load(tiny_file, backbone_weights="x.safetensors")
    with pytest.raises(InputError, match="onnx does not compute in bfloat16; leave out"):
        linstereo.load(tiny_file, precision="bfloat16")
    with pytest.raises(InputError, match="openvino does not compute in float16"):
        linstereo.load(tiny_file, backend="openvino", precision="float16")
    with pytest.raises(InputError, match="'tensorrt'"):
        linstereo.load(tiny_file, backend="tensorrt")
    with pytest.raises(InputError, match="at most 64"):
        linstereo.load(tiny_checkpoint, backend="onnx").predict(*pair, iters=65)


def test_a_size_that_does_not_fit_into_memory_is_refused_before_it_is_run(tiny_file, monkeypatch):
    from linstereo import predictor as module

    monkeypatch.setattr(module, "available_memory", lambda **_: 50 << 20)
    image = np.zeros((1024, 2048, 3), np.uint8)
    with pytest.raises(InputError, match="needs about"):
        linstereo.load(tiny_file).predict(image, image)
