"""`linstereo tank`, as a user calls it: from the design of a target to the scores of a method."""

import json
from pathlib import Path

import numpy as np
import pytest

from linstereo.cli import main
from linstereo.data.formats.png import read_png_values
from linstereo.synthesis.water import WATER_TYPES


def sentence(capsys) -> str:
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("linstereo:")]
    assert len(lines) == 1
    return lines[0]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tank") / "pictures"
    assert main(["tank", "render", "--out", str(folder), "--count", "2", "--size", "480x640", "--seed", "4"]) == 0
    return folder


def ground_truth(pictures: Path, out: Path, *more: str) -> int:
    target = pictures / "target"
    files = ["--layout", str(target / "tags.json"), "--mesh", str(target / "target.obj")]
    return main(["tank", "ground-truth", str(pictures), *files, "--out", str(out), *more])


def test_from_pictures_to_scores(pictures, tmp_path, capsys):
    session = tmp_path / "root" / "session1"
    assert ground_truth(pictures, session) == 0
    told = capsys.readouterr().out
    assert "2 of 2 pairs have ground truth" in told
    assert f"linstereo evaluate --benchmark tank={tmp_path / 'root'}" in told
    for name in ("0000", "0001"):
        depth, true = np.load(session / "depth" / f"{name}.npy"), np.load(pictures / "true_depth" / f"{name}.npy")
        frame = (read_png_values(session / "parts" / f"{name}.png") == 1) & (
            read_png_values(pictures / "true_parts" / f"{name}.png") == 1
        )
        off = np.abs(depth - true)[frame]
        assert np.median(off) < 1e-3
        assert np.percentile(off, 95) < 3e-3
    root = tmp_path / "root"
    benchmarks = [f"--benchmark={name}={root}" for name in ("tank", "tank:frame", "tank:rope")]
    assert main(["evaluate", *benchmarks, "--method", "sgbm", "--out", str(tmp_path / "scores"), "--no-pictures"]) == 0
    found = json.loads((tmp_path / "scores/results.json").read_text())["benchmarks"]
    pixels = {name: part["regions"]["all"]["pixels"] for name, part in found.items()}
    assert set(pixels) == {"tank", "tank@frame", "tank@rope"}
    assert pixels["tank"] == pixels["tank@frame"] + pixels["tank@rope"]
    means = {name: part["regions"]["all"]["pixel_mean"]["AbsRel"] for name, part in found.items()}
    both = (means[f"tank@{part}"] * pixels[f"tank@{part}"] for part in ("frame", "rope"))
    assert means["tank"] == pytest.approx(sum(both) / pixels["tank"])


def test_rendering_goes_on_and_tells_the_water(pictures, capsys):
    views = json.loads((pictures / "views.json").read_text())["views"]
    assert [views[name]["water"] for name in ("0000", "0001")] == list(WATER_TYPES[:2])
    before = (pictures / "left/0000.png").stat().st_mtime_ns
    arguments = ["tank", "render", "--out", str(pictures), "--count", "2", "--size", "480x640"]
    assert main([*arguments, "--seed", "4"]) == 0
    assert (pictures / "left/0000.png").stat().st_mtime_ns == before
    assert main([*arguments, "--seed", "5"]) == 2
    assert "was started with other settings (seed was 4, is 5)" in sentence(capsys)


def test_target_writes_all_that_is_needed(tmp_path, capsys):
    out = tmp_path / "target"
    assert main(["tank", "target", "--out", str(out), "--tag-size", "30", "--tags", "4", "--paper", "letter"]) == 0
    names = {"target.obj", "target.stl", "tags.json", "tags.pdf", "tags-1.svg"}
    assert {path.name for path in out.iterdir()} == names
    assert "print tags.pdf at 100 %" in capsys.readouterr().out
    assert json.loads((out / "tags.json").read_text())["tags"][0]["size"] == 0.03


def test_the_thresholds_are_those_given(pictures, tmp_path, capsys):
    assert ground_truth(pictures, tmp_path / "strict", "--max-depth-error", "0.0001") == 2
    told = sentence(capsys)
    assert "none of the 2 pairs gave ground truth: 0000: the depth is uncertain by" in told
    assert not (tmp_path / "strict").exists()
    assert ground_truth(pictures, tmp_path / "strict") == 0  # the corrected command is not refused


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["target", "--tags", "11"], "11 tags on each plate"),
        (["target", "--tag-size", "60"], "does not fit a4 with 8 mm of border; use --paper a2"),
        (["render", "--count", "0"], "the number of pairs is 0"),
        (["render", "--water", "IV"], "there is no water type 'IV'; choose one of I, IA"),
        (["render", "--seed", "-1"], "the seed is -1"),
    ],
)
def test_bad_arguments_are_one_sentence(tmp_path, capsys, arguments, told):
    assert main(["tank", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert told in sentence(capsys)


def test_bad_files_are_one_sentence(pictures, tmp_path, capsys):
    assert ground_truth(pictures, tmp_path / "out", "--mesh-unit", "mm") == 2
    assert "off the surface of the mesh" in sentence(capsys)
    assert ground_truth(pictures, tmp_path / "out", "--mesh", "nowhere.stl") == 2
    assert "nowhere.stl does not exist" in sentence(capsys)
    assert ground_truth(pictures, tmp_path / "out", "--layout", "nowhere.json") == 2
    assert "nowhere.json does not exist" in sentence(capsys)
    assert ground_truth(pictures, tmp_path / "out", "--min-tags", "1") == 2
    assert "a pose needs 2 or more" in sentence(capsys)
    assert main(["tank", "ground-truth", "nowhere", "--layout", "a", "--mesh", "b", "--out", "c"]) == 2
    assert "nowhere/left with the left images is missing" in sentence(capsys)
