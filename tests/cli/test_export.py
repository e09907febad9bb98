"""`linstereo export`, its files in other commands, and the example that runs them without PyTorch."""

import json
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

import linstereo
from linstereo.cli import main
from linstereo.data.formats.disparity import read_disparity
from tests.backends.conftest import tiny_checkpoint, tiny_file  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]
PAIR = [str(ROOT / "examples" / "room" / side / "room.png") for side in ("left", "right")]


def test_predict_with_a_file_and_with_a_backend(tiny_file, tiny_checkpoint, tmp_path):  # noqa: F811
    runs = {
        "file": ["--model", str(tiny_file)],
        "openvino": ["--model", str(tiny_file), "--backend", "openvino"],
        "torch": ["--model", str(tiny_checkpoint), "--iters", "1"],
    }
    found = {}
    for name, options in runs.items():
        out = tmp_path / name
        arguments = ["predict", *PAIR, "--out", str(out), "--outputs", "disparity", "--scale", "0.25", *options]
        assert main(arguments) == 0
        found[name] = read_disparity(next(out.rglob("*.pfm")))
    np.testing.assert_allclose(found["file"], found["torch"], atol=1e-2)
    np.testing.assert_allclose(found["openvino"], found["torch"], atol=1e-2)


def small_pair(folder, width, height):
    """The pair in another size, as files."""
    paths = [folder / f"{side}.png" for side in ("left", "right")]
    for path, source in zip(paths, PAIR, strict=True):
        cv2.imwrite(str(path), cv2.resize(cv2.imread(source), (width, height), interpolation=cv2.INTER_AREA))
    return [str(path) for path in paths]


def test_export_on_a_pair_of_ones_own(tiny_checkpoint, tmp_path, capsys):  # noqa: F811
    small = small_pair(tmp_path, 120, 90)
    target = tmp_path / "new" / "tiny.onnx"
    arguments = ["export", "--model", str(tiny_checkpoint), "--iters", "1", "--out", str(target), "--pair", *small]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "120 x 90 px" in said
    assert target.is_file()


def test_benchmark_of_a_file(tiny_file, tmp_path, capsys):  # noqa: F811
    options = ["--size", "64x96", "--rounds", "6", "--warm-up", "0", "--out", str(tmp_path / "out")]
    assert main(["benchmark", "--model", str(tiny_file), *options]) == 2
    assert "--only methods" in capsys.readouterr().err
    assert main(["benchmark", "--model", str(tiny_file), "--only", "methods", *options]) == 0
    rows = json.loads((tmp_path / "out" / "benchmark.json").read_text())["methods"]
    assert any("onnx" in row["method"] for row in rows)


def test_benchmark_measures_every_backend(tiny_checkpoint, tmp_path):  # noqa: F811
    options = ["--size", "64x96", "--rounds", "6", "--warm-up", "0", "--out", str(tmp_path / "out")]
    assert main(["benchmark", "--model", str(tiny_checkpoint), "--only", "methods", *options]) == 0
    rows = json.loads((tmp_path / "out" / "benchmark.json").read_text())["methods"]
    names = [row["method"].rpartition(", ")[2] for row in rows]
    assert names[:3] == ["torch", "onnx", "openvino"]


@pytest.mark.parametrize("size", [(90, 70), (170, 130)], ids=["enlarged", "as it is"])
def test_the_example_needs_no_pytorch(size, tiny_file, tmp_path):  # noqa: F811
    pair = small_pair(tmp_path, *size)
    out = tmp_path / "disparity.png"
    script = (
        "import runpy, sys\n"
        "sys.modules['torch'] = sys.modules['linstereo'] = sys.modules['onnx'] = None\n"
        f"sys.argv = ['run_onnx.py', {str(tiny_file)!r}, *{pair!r}, {str(out)!r}]\n"
        f"runpy.run_path({str(ROOT / 'examples' / 'run_onnx.py')!r}, run_name='__main__')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)
    found = cv2.imread(str(out), cv2.IMREAD_UNCHANGED)
    expected = linstereo.load(tiny_file).predict(*pair).disparity
    assert found.shape == expected.shape == size[::-1]
    np.testing.assert_allclose(found / 256, expected.clip(0, 255.99), atol=0.01)
