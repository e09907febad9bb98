"""`linstereo rectify`, and `linstereo predict` with the calibration of raw cameras."""

import json
import re

import numpy as np
import pytest

from linstereo.cli import main
from linstereo.cli.cameras import doubts, field_of_view
from linstereo.data.formats.calibration_files import read_calibration, write_calibration
from linstereo.data.formats.depth_maps import read_depth
from linstereo.data.formats.disparity import read_disparity
from linstereo.data.formats.images import read_image, write_image
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.pair_checks import measure_pair
from linstereo.geometry.rectification import Rectification
from linstereo.geometry.stereo_rig import Distortion
from tests.data.camera_files import kalibr_text, opencv_fields, write_opencv
from tests.geometry.raw_pairs import FISHEYE, HEIGHT, RADTAN, WIDTH, depth_error, raw_rig, rays, render_of


@pytest.fixture
def raw(tmp_path):
    """A folder with two raw pairs, left/ and right/, and stereo.yml in millimetres."""
    for side, image in zip(("left", "right"), render_of(RADTAN), strict=True):
        (tmp_path / "raw" / side).mkdir(parents=True)
        for name, picture in (("a", image), ("b", 255 - image)):
            write_image(tmp_path / "raw" / side / f"{name}.png", picture)
    write_opencv(tmp_path / "raw/stereo.yml", opencv_fields(raw_rig(), unit=0.001))
    return tmp_path / "raw"


def sides(folder):
    return [str(folder / "left"), str(folder / "right")]


def calibrated(folder):
    return ["--calib", str(folder / "stereo.yml"), "--calib-unit", "mm"]


def test_rectified_pairs_and_their_calibration(raw, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["rectify", *sides(raw), *calibrated(raw), "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    before, after = map(float, re.search(r"rows off by (\S+) px before, (\S+) px after", lines[0]).groups())
    assert before > 2
    assert after < 0.2
    for name in ("a", "b"):
        left, right = (read_image(out / side / f"{name}.png") for side in ("left", "right"))
        assert measure_pair(left, right).row_offset < 0.2
    calibration = read_calibration(out / "calib.json")
    assert vars(calibration) == pytest.approx(vars(Rectification(raw_rig()).calibration), rel=1e-12)
    assert json.loads((out / "calib.json").read_text())["width"] == WIDTH
    rotation = Rectification(raw_rig()).rotation
    pair = [read_image(out / side / "a.png") for side in ("left", "right")]
    assert depth_error(*pair, calibration, rotation) < 0.005
    rows = read_image(out / "rows/a.png")
    assert rows.shape == (HEIGHT, 2 * WIDTH, 3)
    lined = (rows != np.concatenate(pair, axis=1)).any(axis=(1, 2))
    assert 15 < lined.sum() < 40


def test_prediction_rectifies_on_the_fly(quick_model, raw, tmp_path, capsys):
    out, direct = tmp_path / "out", tmp_path / "direct"
    assert main(["rectify", *sides(raw), *calibrated(raw), "--out", str(out)]) == 0
    assert main(["predict", *sides(out), "--out", str(tmp_path / "two"), "--iters", "1"]) == 0
    capsys.readouterr()
    assert main(["predict", *sides(raw), *calibrated(raw), "--out", str(direct), "--iters", "1"]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("NOTE")]
    assert len(notes) == 1
    assert "stereo.yml is for raw images, so pairs of 640 x 480 px are rectified first" in notes[0]
    for name in ("a", "b"):
        np.testing.assert_array_equal(
            read_disparity(direct / f"{name}_disparity_px.pfm"),
            read_disparity(tmp_path / "two" / f"{name}_disparity_px.pfm"),
        )
        np.testing.assert_array_equal(
            read_depth(direct / f"{name}_depth_m.pfm"), read_depth(tmp_path / "two" / f"{name}_depth_m.pfm")
        )
        np.testing.assert_array_equal(
            read_image(direct / f"{name}_rectified.png"), read_image(out / f"left/{name}.png")
        )
        assert read_calibration(direct / f"{name}_rectified.json") == read_calibration(out / "calib.json")
    assert not list((tmp_path / "two").glob("*_rectified*"))
    flat = tmp_path / "flat"
    command = ["predict", *sides(raw), *calibrated(raw), "--outputs", "disparity", "--iters", "1", "--out", str(flat)]
    assert main(command) == 0
    np.testing.assert_array_equal(
        read_disparity(flat / "a_disparity_px.pfm"), read_disparity(direct / "a_disparity_px.pfm")
    )


def test_fisheye_pairs_of_a_kalibr_chain(tmp_path):
    for side, image in zip(("left", "right"), render_of(FISHEYE), strict=True):
        write_image(tmp_path / f"{side}.png", image)
    (tmp_path / "camchain.yaml").write_text(kalibr_text(raw_rig(FISHEYE)))
    command = ["rectify", str(tmp_path / "left.png"), str(tmp_path / "right.png"), "--out", str(tmp_path / "out")]
    assert main([*command, "--calib", str(tmp_path / "camchain.yaml")]) == 0
    left, right = (read_image(tmp_path / "out" / side / "left.png") for side in ("left", "right"))
    assert measure_pair(left, right).row_offset < 0.2


def test_what_cannot_be_rectified(raw, tmp_path, capsys):
    write_calibration(raw / "calib.json", StereoCalibration(focal=400, baseline=0.1, cx=320, cy=240))
    out = ["--out", str(tmp_path / "out")]
    assert main(["rectify", *sides(raw), "--calib", str(raw / "calib.json"), *out]) == 2
    assert "calib.json is for rectified images, so there is nothing to do" in capsys.readouterr().err
    write_opencv(raw / "sized.yml", {"image_size": np.array([320, 240]), **opencv_fields(raw_rig())})
    assert main(["rectify", *sides(raw), "--calib", str(raw / "sized.yml"), *out]) == 2
    assert "sized.yml is for images of 320 x 240 px, but" in capsys.readouterr().err
    for side in ("left", "right"):
        write_image(raw / side / "b.png", read_image(raw / side / "b.png")[:-8])
    assert main(["rectify", *sides(raw), *calibrated(raw), *out]) == 2
    assert "is 640 x 480 px, but" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_baseline_in_millimetres_is_noticed(raw, tmp_path, capsys):
    assert main(["rectify", *sides(raw), "--calib", str(raw / "stereo.yml"), "--out", str(tmp_path / "out")]) == 0
    message = capsys.readouterr().err
    assert "WARNING: the baseline of" in message
    assert "is 120.104 m" in message
    assert "--calib-unit" in message


def test_calibrations_made_in_air_are_told_under_water(tmp_path):
    air = raw_rig(RADTAN)
    size = (HEIGHT, WIDTH)
    ends = rays(air.left_matrix, air.left_distortion)[236, [0, -1], 0]  # on the row of the principal point
    assert field_of_view(air, width=WIDTH) == pytest.approx(np.degrees(np.arctan(np.abs(ends))).sum(), abs=0.01)
    assert doubts(air, tmp_path, size) == []
    (told,) = doubts(air, tmp_path, size, water=True)
    assert "degrees across, which would take a lens of 1" in told
    assert "calibrate under water" in told
    water = StereoCalibration(focal=1.333 * 460, baseline=0.12, cx=325, cy=236)
    assert field_of_view(water, width=WIDTH) == pytest.approx(2 * np.degrees(np.arctan(320 / (1.333 * 460))), abs=0.5)
    assert doubts(water, tmp_path, size, water=True) == []
    wide = raw_rig(Distortion("equidistant", (0.0,) * 4))
    (told,) = doubts(wide, tmp_path, size, water=True)
    assert "an impossible lens" in told
