"""`linstereo synth`, as a user calls it."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from linstereo.cli import main
from linstereo.data.datasets.catalogue import open_dataset
from linstereo.data.formats.images import write_image
from linstereo.synthesis.engine import EngineSettings, StereoEngine
from tests.waiting import wait_until

SMALL = ["--size", "64x96"]


def tree(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_pairs_are_those_of_the_engine(tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["synth", "--out", str(out), "--count", "2", "--seed", "5", "--workers", "1", "--depth", *SMALL]
    assert main(arguments) == 0
    assert f"2 pairs written; train on them with --data folder={out}" in capsys.readouterr().out
    engine = StereoEngine(EngineSettings(height=64, width=96))
    dataset = open_dataset("folder", out)
    for index in range(2):
        pair, sample = engine.render(5, index), dataset[index]
        for name in ("left", "right", "disparity", "depth", "occluded"):
            np.testing.assert_array_equal(getattr(sample, name), getattr(pair, name))
        assert sample.calibration == pair.calibration
    assert main(arguments) == 0
    assert "0 pairs written, 2 were there" in capsys.readouterr().out


def test_one_and_three_workers_write_the_same_bytes(tmp_path):
    for workers in ("1", "3"):
        arguments = ["synth", "--out", str(tmp_path / workers), "--count", "6", "--workers", workers, *SMALL]
        assert main(arguments) == 0
    assert tree(tmp_path / "1") == tree(tmp_path / "3")


def test_a_killed_run_goes_on(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    arguments = ["--count", "6", "--workers", "2", *SMALL]
    assert main(["synth", "--out", str(whole), *arguments]) == 0
    command = [sys.executable, "-m", "linstereo.cli", "synth", "--out", str(killed), *arguments]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_until(lambda: process.poll() is not None or bool(list(killed.glob("left/*.png"))))
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run(command, check=True, capture_output=True)
    assert tree(killed) == tree(whole)


def test_sceneflow_layout(tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["synth", "--out", str(out), "--count", "1", "--layout", "sceneflow", "--workers", "1", *SMALL]) == 0
    assert f"--data sceneflow:flyingthings3d={out}" in capsys.readouterr().out
    assert len(open_dataset("sceneflow", out, "flyingthings3d")) == 1


def test_shares_of_water(tmp_path):
    for share, expected in (("1", True), ("0", False)):
        out = tmp_path / share
        assert main(["synth", "--out", str(out), "--count", "2", "--underwater", share, "--workers", "1", *SMALL]) == 0
        waters = [json.loads(path.read_text())["water"] for path in out.glob("info/*.json")]
        assert [water is not None for water in waters] == [expected] * 2


def test_photographs_change_the_pictures(tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    write_image(photos / "a.png", np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8))
    for name, more in (("with", ["--photos", str(photos)]), ("without", [])):
        assert main(["synth", "--out", str(tmp_path / name), "--count", "2", "--workers", "1", *SMALL, *more]) == 0
    assert tree(tmp_path / "with/left") != tree(tmp_path / "without/left")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--count", "0"], "number of pairs is 0"),
        (["--count", "1", "--seed", "-1"], "seed is -1"),
        (["--count", "1", "--workers", "0"], "number of workers is 0"),
        (["--count", "1", "--underwater", "1.5"], "underwater is 1.5; it is a share of the pairs, between 0 and 1"),
        (["--count", "1", "--photos", "nowhere"], "the photo folder nowhere does not exist"),
        (["--count", "1", "--meshes", "nowhere"], "the mesh folder nowhere does not exist"),
        (["--count", "1", "--depth", "--layout", "sceneflow"], "no place for depth maps"),
    ],
)
def test_bad_arguments_are_one_sentence(tmp_path, capsys, arguments, told):
    assert main(["synth", "--out", str(tmp_path / "out"), *arguments]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert len([line for line in error.splitlines() if line.startswith("linstereo:")]) == 1


def test_other_settings_are_refused(tmp_path, capsys):
    out = str(tmp_path / "out")
    assert main(["synth", "--out", out, "--count", "1", "--workers", "1", *SMALL]) == 0
    assert main(["synth", "--out", out, "--count", "1", "--workers", "1", "--size", "64x128"]) == 2
    assert (
        f"{out} was started with other settings (width was 96, is 128); use the same settings, or another folder"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("arguments", [["--size", "8x8"], ["--layout", "kitti"], ["--count", "many"]])
def test_arguments_of_the_wrong_kind_are_refused(tmp_path, arguments, capsys):
    with pytest.raises(SystemExit):
        main(["synth", "--out", str(tmp_path), "--count", "1", *arguments])
    assert "error" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_without_permission_is_told(tmp_path, capsys):
    tmp_path.chmod(0o500)
    assert main(["synth", "--out", str(tmp_path / "out"), "--count", "1", *SMALL]) == 2
    assert "cannot make the folder" in capsys.readouterr().err
