"""`linstereo info`."""

import dataclasses
import json
import os
import subprocess
import sys

from linstereo.checkpoints.checkpoint import bundled_weights, save_checkpoint
from linstereo.cli import main
from linstereo.model.presets import PRESETS, build
from tests.waiting import PATIENCE


def test_json_lists_the_parts_with_parameters_and_gflops(capsys):
    assert main(["info", "--preset", "paper", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["parameters"] == sum(part["parameters"] for part in report["parts"])
    assert report["trained"] == sum(part["trained"] for part in report["parts"])
    by_name = {part["name"]: part for part in report["parts"]}
    assert by_name["backbone"]["trained"] == 0
    assert by_name["backbone"]["parameters"] == 98_287_458
    assert 6.5e6 < report["trained"] < 7.5e6
    assert all(part["gflops"] > 0 for part in report["parts"])
    assert report["config"]["hidden"] == 128


def test_text_shows_the_same_totals(capsys):
    main(["info", "--preset", "small", "--json", "--iters", "2"])
    report = json.loads(capsys.readouterr().out)
    main(["info", "--preset", "small", "--iters", "2"])
    total = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("total"))
    assert total.split()[1:] == [f"{report['parameters']:,}", f"{report['trained']:,}", f"{report['gflops']:.1f}"]


def test_list_names_every_preset(capsys):
    main(["info", "--list"])
    assert capsys.readouterr().out.split() == list(PRESETS)


def test_an_unknown_preset_is_one_sentence(capsys):
    assert main(["info", "--preset", "nope"]) == 2
    error = capsys.readouterr().err
    assert "no preset 'nope'" in error
    assert error.count("\n") == 1


def test_a_larger_image_costs_more(capsys):
    totals = []
    for size in ("480x640", "960x1280"):
        main(["info", "--size", size, "--json"])
        totals.append({p["name"]: p["gflops"] for p in json.loads(capsys.readouterr().out)["parts"]})
    assert totals[1]["updaters"] == 4 * totals[0]["updaters"]


def test_a_checkpoint_is_described_by_its_header(tmp_path, capsys):
    bundled = bundled_weights()
    assert main(["info", "compact", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["checkpoint"] == str(bundled)
    assert report["bytes"] == bundled.stat().st_size
    assert report["config"] == dataclasses.asdict(
        dataclasses.replace(PRESETS["compact"], confidence=32, confidence_cues=True)
    )
    other = dataclasses.replace(PRESETS["compact"], hidden=32, iterations=7)
    save_checkpoint(build(other), tmp_path / "linstereo.safetensors")
    for path in (tmp_path, tmp_path / "linstereo.safetensors"):
        assert main(["info", str(path)]) == 0
        told = capsys.readouterr().out
        assert f"{tmp_path / 'linstereo.safetensors'} at 480 x 640 px (height x width), T = 7" in told
        assert "stored as F32" in told
        assert "hidden 32, " in told


def test_another_preset_by_name_has_no_checkpoint(capsys):
    assert main(["info", "small", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["preset"] == "small"


def test_a_checkpoint_and_a_preset_are_one_too_many(capsys):
    assert main(["info", "compact", "--preset", "paper"]) == 2
    assert "leave one of the two out" in capsys.readouterr().err


def test_an_unreachable_hub_is_told_in_one_line_without_further_attempts(tmp_path):
    environment = os.environ | {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_CACHE": str(tmp_path), "NO_PROXY": "*"}
    command = [sys.executable, "-m", "linstereo", "info", "somebody/linstereo"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1  # the hub client prints a line for every attempt of its own
    for words in ("cannot be reached", "HTTPS_PROXY", "HF_HUB_OFFLINE", "give that file's path"):
        assert words in done.stderr
