"""`linstereo benchmark`, as a user calls it."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
import torch

from linstereo.backends.graph_engine import computes_in
from linstereo.checkpoints.checkpoint import save_checkpoint
from linstereo.cli import benchmark, main
from linstereo.efficiency import study
from linstereo.efficiency.plot import svg
from linstereo.efficiency.report import markdown
from linstereo.model.presets import LinStereoConfig, build
from tests.waiting import PATIENCE, wait_until

SMALL = {"feature_width": 16, "hidden": 16, "heads": 2, "levels": 2, "radius": 2, "coarse_iterations": 1}
QUICK = ("--size", "64x96", "--scaling-sizes", "32x64", "64x96", "--rounds", "6", "--warm-up", "0", "--device", "cpu")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("benchmark") / "tiny.safetensors"
    torch.manual_seed(0)
    save_checkpoint(build(LinStereoConfig(backbone="compact", start="correlation", **SMALL)), path)
    return str(path)


@pytest.fixture(scope="module")
def measured(checkpoint, tmp_path_factory):
    """The folder of a whole run."""
    out = tmp_path_factory.mktemp("out") / "new"
    assert main(["benchmark", "--model", checkpoint, *QUICK, "--iters", "3", "--out", str(out)]) == 0
    return out


@pytest.fixture
def result(measured):
    return json.loads((measured / "benchmark.json").read_text("utf-8"))


def test_three_files_are_written(measured, result):
    assert sorted(path.name for path in measured.iterdir()) == ["benchmark.json", "benchmark.md", "benchmark.svg"]
    assert (measured / "benchmark.md").read_text("utf-8") == markdown(result, plot="benchmark.svg")
    assert (measured / "benchmark.svg").read_text("utf-8") == svg(result)


def test_parts_are_complete_and_counted_as_info_counts(checkpoint, result, capsys):
    parts = result["parts"]
    names = [row["part"] for row in parts["rows"]]
    assert names == ["coarse passes", "backbone", "cost volumes", "start", "iterations", "upsampling"]
    capsys.readouterr()
    assert main(["info", checkpoint, "--size", "64x96", "--iters", "3", "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    for column in ("parameters", "gflops"):
        assert sum(row[column] for row in parts["rows"]) == pytest.approx(info[column], rel=1e-12)
        assert parts["total"][column] == pytest.approx(info[column], rel=1e-12)
    assert parts["total"]["fps"] == pytest.approx(1e3 / parts["total"]["median_ms"])
    if sys.platform.startswith("linux"):
        assert parts["total"]["peak_mb"] == max(row["peak_mb"] for row in parts["rows"])


def test_times_of_parts_add_up_round_by_round(checkpoint, monkeypatch):
    """The total of a round is the sum of its parts, whatever the clock says."""
    laps = {"backbone": 4.0, "cost volumes": 1.0, "start": 1.0, "iterations": 6.0, "upsampling": 0.5}
    rounds = [{name: seconds * (1 + i) for name, seconds in (laps | {"coarse passes": 0.0}).items()} for i in range(7)]
    settings = study.StudySettings(model=checkpoint, device="cpu", size=(64, 96), rounds=7, sections=["parts"])
    monkeypatch.setattr(study, "take_turns", lambda actions, **kwargs: {"": rounds})
    monkeypatch.setattr(study, "peak_memory", lambda job: None)
    parts = study.Study(settings).run()["parts"]
    assert parts["total"]["median_ms"] == pytest.approx(4e3 * 12.5)
    assert sum(row["median_ms"] for row in parts["rows"]) == pytest.approx(parts["total"]["median_ms"])
    assert sum(row["share_percent"] for row in parts["rows"]) == pytest.approx(100)
    assert parts["one_iteration"]["median_ms"] == pytest.approx(4e3 * 6 / 8)
    assert parts["beyond_backbone"]["median"] == pytest.approx(8.5 / 4)
    assert (parts["total"]["low_ms"], parts["total"]["high_ms"]) == pytest.approx((12.5e3, 7 * 12.5e3))


def test_every_figure_of_the_markdown_is_in_the_json(result):
    """Numbers in the tables are those of the JSON, rounded; parameters may be in millions."""
    numbers = [value * factor for value in leaves(result) for factor in (1, 1e-6)]
    found = 0
    for line in markdown(result).splitlines():
        cells = [cell.strip(" *") for cell in line.split("|")[2:-1]] if line.startswith("| ") else []
        for text in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", " ".join(cells).replace("95 %", "")):
            value, digits = float(text.replace(",", "")), len(text.partition(".")[2])
            assert any(abs(number - value) <= 0.5000001 * 10**-digits for number in numbers), (text, line)
            found += 1
    assert found > 100


def leaves(value):
    """All numbers in JSON values, also those printed as text by the paper."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves(part)
    elif re.fullmatch(r"\d+(\.\d+)?", value) if isinstance(value, str) else isinstance(value, int | float):
        yield float(value)


def test_papers_rows_stand_beside(result):
    text = markdown(result)
    assert re.search(r"\| LinStereo \(T=2\) +\| +127\.0 \| +770\.4 \| +80 \| +12\.5 \|", text)
    assert "3.63 ± 0.06" in text


def test_scaling_and_methods_have_all_rows(result):
    rows = result["scaling"]["rows"]
    assert [(row["size"], row["volume"]) for row in rows] == [
        (size, kind) for size in ([32, 64], [64, 96]) for kind in ("stored", "on_the_fly")
    ]
    assert all(result["scaling"]["slopes"][kind]["time"] is not None for kind in ("stored", "on_the_fly"))
    methods = [row["method"] for row in result["methods"]]
    half = ["openvino, bfloat16"] if computes_in("openvino", "bfloat16") else []
    assert [method.rpartition("T = 3, ")[2] for method in methods[:-1]] == ["torch", "onnx", "openvino", *half]
    assert methods[-1] == "SGBM (OpenCV, 48 disparities)"
    assert result["methods"][-1]["sgbm_relative"] == {"median": 1.0, "low": 1.0, "high": 1.0}


def test_whole_predictions_are_measured_in_the_precision_that_was_asked_for(checkpoint):
    settings = study.StudySettings(
        model=checkpoint, size=(64, 96), rounds=6, warm_up=0, sections=["methods"], precision="bfloat16"
    )
    half = ["openvino, bfloat16"] if computes_in("openvino", "bfloat16") else []
    assert [str(way) for way in study.Study(settings)._ways] == ["torch, bfloat16", *half]
    settings = dataclasses.replace(settings, backend="onnx", precision="float32")
    assert [str(way) for way in study.Study(settings)._ways] == ["onnx"]


def test_sizes_that_do_not_fit_are_left_out(checkpoint, monkeypatch):
    settings = study.StudySettings(
        model=checkpoint, device="cpu", size=(64, 96), sections=["scaling"], rounds=6, scaling_sizes=[(64, 96)]
    )
    one = study.Study(settings)
    needed = study.peak_bytes(one.config, 64, 96, "stored")
    monkeypatch.setattr(study, "available_memory", lambda **_: needed)
    monkeypatch.setattr(study, "peak_memory", lambda job: None)
    steps = []
    result = one.run(lambda done, total: steps.append((done, total)))
    measured, left_out = sorted(result["scaling"]["rows"], key=lambda row: "left_out" in row)
    assert (measured["volume"], left_out["volume"]) == ("stored", "on_the_fly")
    assert steps == [(i, one.steps) for i in range(1, one.steps + 1)]
    assert result["scaling"]["slopes"]["stored"] == {"time": None, "memory": None}
    assert "not enough memory" in markdown(result)
    ET.fromstring(svg(result))


def test_unknown_figures_are_said_to_be_unknown(result):
    result["load"] = {"load_average": None, "others_percent": None}
    for row in (*result["parts"]["rows"], result["parts"]["total"], *result["scaling"]["rows"]):
        row["peak_mb"] = None
    text = markdown(result)
    assert "load average unknown, share of others unknown" in text
    assert len(re.findall(r"\| +unknown \|", text)) == 11
    ET.fromstring(svg(result))


def test_a_busy_machine_is_told(result):
    result["load"]["others_percent"] = 60.0
    assert "others used 60 % of the processors; times are too long" in markdown(result)
    result["load"]["others_percent"] = 1.0
    assert "too long" not in markdown(result)


def test_plot_is_valid_and_names_everything(result):
    result["parts"]["rows"][0]["part"] = "a < b & c"
    text = " ".join(ET.fromstring(svg(result)).itertext())
    for name in ("a < b & c", "PALA", "on the fly: exponent", "SGBM"):
        assert name in text


def test_only_what_was_asked_for(checkpoint, capsys):
    assert main(["benchmark", "--model", checkpoint, *QUICK, "--only", "methods"]) == 0
    out = capsys.readouterr().out
    assert re.findall(r"^## (.*)$", out, re.MULTILINE) == ["Whole predictions"]


def test_half_precision_is_measured(checkpoint, capsys):
    command = ["benchmark", "--model", checkpoint, *QUICK, "--precision", "bfloat16", "--only", "parts"]
    assert main(command) == 0
    assert ", bfloat16" in capsys.readouterr().out


def test_choices_are_those_of_the_study():
    assert benchmark._SECTIONS == study.SECTIONS


def test_too_few_rounds_are_refused_and_leave_nothing(checkpoint, tmp_path, capsys):
    out = tmp_path / "new"
    assert main(["benchmark", "--model", checkpoint, *QUICK, "--rounds", "5", "--out", str(out)]) == 2
    assert "use 6 to" in capsys.readouterr().err
    assert not out.exists()


def test_ctrl_c_leaves_no_folder_and_no_traceback(checkpoint, tmp_path):
    out = tmp_path / "new"
    command = [sys.executable, "-m", "linstereo", "benchmark", "--model", checkpoint, *QUICK, "--rounds", "10000"]
    command += ["--only", "parts", "--out", str(out)]
    variables = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=variables, start_new_session=True) as process:
        wait_until(lambda: out.exists() or process.poll() is not None)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGINT, err
    assert "Traceback" not in err
    assert not out.exists()
