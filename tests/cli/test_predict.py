"""`linstereo predict`, as a user calls it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
import trimesh

from linstereo.cli import main
from linstereo.cli.cameras import calibration_of
from linstereo.cli.pairs import find_images, output_names, pair_up
from linstereo.cli.predict import OUTPUTS
from linstereo.cli.prediction_jobs import write_results
from linstereo.data.formats.calibration_files import write_calibration, write_middlebury_calibration
from linstereo.data.formats.depth_maps import read_depth
from linstereo.data.formats.disparity import read_disparity
from linstereo.data.formats.images import read_image, write_image
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.model.presets import build
from linstereo.prediction import Prediction
from linstereo.visualize import colourise, colourise_depth
from tests.model.tiny import TINY, TinyBackbone

PROJECT = Path(__file__).resolve().parents[2]
CAMERA = StereoCalibration(focal=40.0, baseline=0.5, cx=25.25, cy=18.5, doffs=1.5)


def test_one_pair_gives_a_disparity_map_and_a_picture(quick_model, images, tmp_path):
    left, right, out = images / "left/1.png", images / "right/1.png", tmp_path / "out"
    assert main(["predict", str(left), str(right), "--out", str(out)]) == 0
    assert {p.name for p in out.iterdir()} == {"1_disparity_px.pfm", "1_disparity_colour.png", "1_edges.png"}
    expected = quick_model.predict(left, right).disparity
    np.testing.assert_array_equal(read_disparity(out / "1_disparity_px.pfm"), expected)
    picture = read_image(out / "1_disparity_colour.png")
    np.testing.assert_array_equal(picture[:40, :50], colourise(expected))
    assert picture.shape[1] > 50  # with a colour bar beside it


def test_every_format_holds_the_same_map(quick_model, images, tmp_path):
    out = tmp_path / "out"
    arguments = [
        "predict",
        str(images / "left/1.png"),
        str(images / "right/1.png"),
        "--out",
        str(out),
        "--outputs",
        "disparity",
    ]
    assert main([*arguments, "--format", "npy", "--format", "png", "--format", "pfm"]) == 0
    pfm = read_disparity(out / "1_disparity_px.pfm")
    np.testing.assert_array_equal(np.load(out / "1_disparity_px.npy"), pfm)
    png = cv2.imread(str(out / "1_disparity_px256.png"), cv2.IMREAD_UNCHANGED)
    assert png.dtype == np.uint16
    np.testing.assert_allclose(png / 256, pfm, atol=1 / 256)  # a tiny disparity is not rounded to 0, "unknown"
    assert len(list(out.iterdir())) == 3


@pytest.mark.parametrize("how", ["folder", "glob"])
def test_folders_and_globs_pair_up_by_name(quick_model, images, tmp_path, how):
    sides = [str(images / s) if how == "folder" else str(images / s / "*.png") for s in ("left", "right")]
    out = tmp_path / "out"
    assert main(["predict", *sides, "--out", str(out), "--iters", "1", "--outputs", "disparity"]) == 0
    assert {p.name for p in out.iterdir()} == {f"{n}_disparity_px.pfm" for n in ("1", "2", "10")}
    for n in ("1", "2", "10"):
        expected = quick_model.predict(images / f"left/{n}.png", images / f"right/{n}.png", iters=1).disparity
        np.testing.assert_array_equal(read_disparity(out / f"{n}_disparity_px.pfm"), expected)


def test_natural_order_names_and_pairs():
    left, right = [Path("a/im0.png"), Path("b/im0.png")], [Path("a/im1.png"), Path("b/im1.png")]
    assert output_names(left) == ["a_im0", "b_im0"]
    assert pair_up(left, right).pairs == list(zip(left, right, strict=True))
    with pytest.raises(InputError, match=r"a\.png is given twice"):
        output_names([Path("a.png"), Path("a.png")])


def test_images_of_a_folder_come_in_natural_order(images):
    (images / "left/notes.txt").write_text("not an image")
    assert [p.name for p in find_images(str(images / "left"))] == ["1.png", "2.png", "10.png"]
    with pytest.raises(InputError, match="nothing matches"):
        find_images(str(images / "left/*.jpg"))
    (images / "empty").mkdir()
    with pytest.raises(InputError, match="holds no image"):
        find_images(str(images / "empty"))


def spoil(images, how):
    left, right = images / "left/1.png", images / "right/1.png"
    if how == "sizes":
        write_image(left, np.zeros((40, 64, 3), np.uint8))
    elif how == "not an image":
        left.write_text("hello")
    elif how == "truncated":
        left.write_bytes(left.read_bytes()[:-30])
    elif how == "small":
        for path in (left, right):
            write_image(path, np.zeros((31, 64, 3), np.uint8))
    elif how == "missing":
        right.unlink()


@pytest.mark.parametrize("how", ["sizes", "not an image", "truncated", "small", "missing"])
def test_bad_images_give_one_sentence_and_exit_code_2_and_no_output(quick_model, images, tmp_path, capsys, how):
    spoil(images, how)
    out = tmp_path / "out"
    assert main(["predict", str(images / "left/1.png"), str(images / "right/1.png"), "--out", str(out)]) == 2
    message = capsys.readouterr().err
    assert message.startswith("linstereo: ")
    assert message.count("\n") == 1
    assert "1.png" in message
    assert not out.exists()


def make_checkpoint(folder, how):
    path = folder / "linstereo.safetensors"
    model = build(TINY, backbone=TinyBackbone())
    model.save_pretrained(folder)
    if how == "truncated":
        path.write_bytes(path.read_bytes()[:-10])
    elif how == "pickle":
        path = folder / "model.pth"
        torch.save({"a": 1}, path)
    elif how == "missing key":
        del model.residual_head
        model.save_pretrained(folder)
    elif how == "misshapen key":
        model.residual_head.out = torch.nn.Conv2d(32, 2, 3)
        model.save_pretrained(folder)
    return path


@pytest.mark.parametrize("how", ["truncated", "pickle", "missing key", "misshapen key"])
def test_bad_checkpoints_give_one_sentence_and_exit_code_2_and_no_output(images, tmp_path, capsys, how):
    folder, out = tmp_path / "model", tmp_path / "out"
    folder.mkdir()
    path = make_checkpoint(folder, how)
    pair = [str(images / "left/1.png"), str(images / "right/1.png")]
    assert main(["predict", *pair, "--out", str(out), "--model", str(path)]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"linstereo: {path}")
    assert message.count("\n") == 1
    assert not out.exists()


def test_a_value_that_does_not_fit_a_png_leaves_nothing_behind(quick_model, images, tmp_path, capsys, monkeypatch):
    result = quick_model.predict(images / "left/1.png", images / "right/1.png", iters=1)
    result.disparity[0, 0] = 300
    monkeypatch.setattr(quick_model, "predict", lambda *args, **kwargs: result)
    out = tmp_path / "out"
    arguments = ["--out", str(out), "--format", "pfm", "--format", "png"]
    assert main(["predict", str(images / "left/1.png"), str(images / "right/1.png"), *arguments]) == 2
    assert "256" in capsys.readouterr().err
    assert not out.exists()


def predict(images, out, *arguments, left="left/1.png", right="right/1.png"):
    return main(["predict", str(images / left), str(images / right), "--out", str(out), *map(str, arguments)])


def test_a_calibration_adds_depth_and_a_cloud(quick_model, images, tmp_path, capsys):
    write_calibration(images / "calib.json", CAMERA)
    out = tmp_path / "out"
    formats = [word for suffix in ("pfm", "npy", "png", "exr") for word in ("--format", suffix)]
    assert predict(images, out, *formats, "--max-depth", "inf", "--keep-all") == 0
    maps = {f"1_{kind}.{suffix}" for kind in ("disparity_px", "depth_m") for suffix in ("pfm", "npy", "exr")}
    maps |= {"1_disparity_px256.png", "1_depth_mm.png"}
    pictures = {"1_disparity_colour.png", "1_depth_colour.png", "1_edges.png"}
    assert {p.name for p in out.iterdir()} == maps | pictures | {"1_cloud.ply"}
    disparity = read_disparity(out / "1_disparity_px.pfm").astype(np.float64)
    expected = 40.0 * 0.5 / (disparity + 1.5)
    for suffix in ("pfm", "npy", "exr"):
        np.testing.assert_allclose(read_depth(out / f"1_depth_m.{suffix}"), expected, rtol=1e-6)
    png = cv2.imread(str(out / "1_depth_mm.png"), cv2.IMREAD_UNCHANGED)
    assert png.dtype == np.uint16
    np.testing.assert_array_equal(png, np.rint(1000 * read_depth(out / "1_depth_m.pfm").astype(np.float64)))
    depth = read_depth(out / "1_depth_m.pfm")
    np.testing.assert_array_equal(read_image(out / "1_depth_colour.png")[:40, :50], colourise_depth(depth))
    cloud = trimesh.load(out / "1_cloud.ply", process=False)
    q = np.array([[1, 0, 0, -25.25], [0, 1, 0, -18.5], [0, 0, 0, 40], [0, 0, 1 / 0.5, 1.5 / 0.5]])
    points = cv2.reprojectImageTo3D(disparity.astype(np.float32), q)
    np.testing.assert_allclose(cloud.vertices, points.reshape(-1, 3), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(cloud.colors[:, :3], read_image(images / "left/1.png").reshape(-1, 3))
    line = capsys.readouterr().out
    assert f"depth {expected.min():,.2f} to {expected.max():,.2f} m, 2,000 points" in line
    assert "1_cloud.ply" in line


def test_far_and_unknown_pixels(tmp_path):
    disparity = np.array([[0, 0.0001, 0.5, 1.0, 20.0]], np.float32)
    image = np.arange(15, dtype=np.uint8).reshape(1, 5, 3)
    camera = StereoCalibration(focal=100.0, baseline=0.5, cx=2, cy=0)
    prediction = Prediction(disparity=disparity, left=image, iterations=1, calibration=camera)
    facts, _ = write_results(
        tmp_path / "a", prediction, outputs=OUTPUTS, formats=["png", "pfm"], max_depth=60, keep_all=True
    )
    stored = cv2.imread(str(tmp_path / "a_depth_mm.png"), cv2.IMREAD_UNCHANGED)
    np.testing.assert_array_equal(stored, [[0, 0, 0, 50000, 2500]])  # none, beyond 65.535 m twice, 50 m, 2.5 m
    np.testing.assert_allclose(read_depth(tmp_path / "a_depth_m.pfm"), [[0, 5e5, 100, 50, 2.5]])
    cloud = trimesh.load(tmp_path / "a_cloud.ply", process=False)
    np.testing.assert_allclose(cloud.vertices, [[0.5, 0, 50], [0.05, 0, 2.5]], rtol=1e-6)
    np.testing.assert_array_equal(cloud.colors[:, :3], image[0, 3:])
    assert facts == ["disparity 0.00 to 20.00 px", "depth 2.50 to 500,000.00 m", "2 points up to 60 m"]
    picture = read_image(tmp_path / "a_depth_colour.png")
    assert (picture[0, 0] == 0).all()  # no depth: black
    assert picture[0, 4, 0] > picture[0, 4, 2]  # near: red
    assert (picture[0, 1] == picture[0, 2]).all()  # both beyond the largest depth: the last colour
    facts, _ = write_results(tmp_path / "b", prediction, outputs=["cloud"], formats=[], keep_all=True)
    assert facts[-1] == "2 points up to 50 m"
    nothing = Prediction(disparity=np.zeros((1, 5), np.float32), left=image, iterations=1, calibration=camera)
    facts, files = write_results(tmp_path / "c", nothing, outputs=OUTPUTS, formats=["pfm"])
    assert facts[1:] == ["no depth", "0 points up to 50 m"]
    assert all(file.exists() for file in files)


def test_without_a_calibration_there_is_a_note_and_no_depth(quick_model, images, tmp_path, capsys):
    assert predict(images, tmp_path / "out") == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "1_disparity_px.pfm",
        "1_disparity_colour.png",
        "1_edges.png",
    }
    note = capsys.readouterr().err
    assert "no calibration is known" in note
    assert "1.png" in note
    assert predict(images, tmp_path / "alone", "--outputs", "disparity") == 0
    assert "calibration" not in capsys.readouterr().err
    assert predict(images, tmp_path / "never", "--outputs", "disparity,cloud") == 2
    assert "no calibration is known" in capsys.readouterr().err
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ("cloud", {"1_cloud.ply"}),
        ("depth,pictures", {"1_depth_m.pfm", "1_depth_colour.png", "1_disparity_colour.png"}),
        ("disparity", {"1_disparity_px.pfm"}),
    ],
)
def test_only_the_outputs_that_are_asked_for_are_written(quick_model, images, tmp_path, outputs, expected):
    arguments = ["--outputs", outputs, "--focal", "40", "--baseline", "0.5"]
    assert predict(images, tmp_path / "out", *arguments) == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == expected


def test_an_output_that_does_not_exist_is_refused(images, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        predict(images, tmp_path / "out", "--outputs", "disparity,mesh")
    assert stop.value.code == 2
    assert "'mesh' is not one of disparity, depth, confidence, masks, cloud, pictures" in capsys.readouterr().err


def test_where_calibrations_come_from(images):
    def camera(focal):
        return StereoCalibration(focal=focal, baseline=0.5, cx=25, cy=20)

    left, size = images / "left/2.png", (40, 50)
    assert calibration_of(left, size) is None
    write_middlebury_calibration(images / "calib.txt", camera(10.0), width=50, height=40)
    assert calibration_of(left, size) == camera(10.0)
    write_calibration(images / "calib.json", camera(20.0))
    assert calibration_of(left, size) == camera(20.0)
    (images / "calib").mkdir()
    write_calibration(images / "calib/2.json", camera(30.0))
    assert calibration_of(left, size) == camera(30.0)
    assert calibration_of(images / "left/1.png", size) == camera(20.0)
    write_calibration(images / "left/calib.json", camera(40.0))  # as in Middlebury's scenes: beside the image
    assert calibration_of(left, size) == camera(40.0)
    write_calibration(images / "other.json", camera(50.0))
    assert calibration_of(left, size, file=str(images / "other.json")) == camera(50.0)
    centred = StereoCalibration(focal=60.0, baseline=0.1, cx=24.5, cy=19.5)
    assert calibration_of(left, size, focal=60.0, baseline=0.1) == centred
    (images / "frames").mkdir()
    assert calibration_of(images / "frames/2.png", size) is None  # what lies two folders up may belong to anything


def test_each_pair_of_a_folder_has_its_own_calibration(quick_model, images, tmp_path):
    (images / "calib").mkdir()
    for name in ("1", "2", "10"):
        write_calibration(images / f"calib/{name}.json", StereoCalibration(float(name), 0.5, 25, 20))
    assert predict(images, tmp_path, "--iters", "1", "--outputs", "disparity,depth", left="left", right="right") == 0
    for name in ("1", "2", "10"):
        disparity = read_disparity(tmp_path / f"{name}_disparity_px.pfm")
        known = disparity > 0
        depth = read_depth(tmp_path / f"{name}_depth_m.pfm")
        np.testing.assert_allclose(depth[known], float(name) * 0.5 / disparity[known], rtol=1e-6)


@pytest.mark.parametrize(
    ("calibration", "arguments", "complaint"),
    [
        ({"focal": 0, "baseline": 0.5, "cx": 1, "cy": 1}, [], "calib.json is not a valid calibration: .* focal is 0"),
        ({"focal": 5, "baseline": 0.5}, [], "calib.json must hold the numbers"),
        ("{", [], "calib.json is not valid JSON"),
        (None, ["--focal", "40"], "--focal and --baseline belong together"),
        (None, ["--baseline", "0.5"], "--focal and --baseline belong together"),
        (None, ["--focal", "40", "--baseline", "0.5", "--calib", "x.json"], "without --calib"),
        (None, ["--focal", "-40", "--baseline", "0.5"], "focal is -40; it must be greater than 0"),
        (None, ["--focal", "nan", "--baseline", "0.5"], "focal is nan"),
        (None, ["--calib", "nowhere.json"], "nowhere.json does not exist"),
        (None, ["--max-depth", "0"], "largest depth is 0"),
        (None, ["--max-depth", "nan"], "largest depth is nan"),
    ],
)
def test_a_bad_calibration_gives_one_sentence_and_no_output(
    quick_model, images, tmp_path, capsys, monkeypatch, calibration, arguments, complaint
):
    monkeypatch.setattr(quick_model, "predict", lambda *args, **kwargs: pytest.fail("told too late"))
    if calibration is not None:
        text = calibration if isinstance(calibration, str) else json.dumps(calibration)
        (images / "calib.json").write_text(text)
    assert predict(images, tmp_path / "out", *arguments) == 2
    message = capsys.readouterr().err
    assert re.search(complaint, message)
    assert message.startswith("linstereo: ")
    assert message.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_calibration_for_larger_images_is_warned_of(quick_model, images, tmp_path, capsys):
    write_calibration(images / "calib.json", CAMERA.scaled(4, 4))
    assert predict(images, tmp_path / "out") == 0
    assert "principal point (102.5, 75.5) is outside of" in capsys.readouterr().err
    write_calibration(images / "calib.json", CAMERA)
    assert predict(images, tmp_path / "out") == 0
    assert "WARNING" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["reef", "room"])
def test_the_bundled_pairs_come_with_truth_that_warps_right_onto_left(name):
    from linstereo.data.datasets.catalogue import open_dataset

    for sample in open_dataset("folder", PROJECT / "examples" / name):
        columns = np.arange(sample.left.shape[1], dtype=np.float32) - sample.disparity
        rows = np.broadcast_to(np.arange(sample.left.shape[0], dtype=np.float32)[:, None], columns.shape)
        warped = cv2.remap(sample.right, columns, np.ascontiguousarray(rows), cv2.INTER_LINEAR)
        error = np.abs(warped.astype(int) - sample.left).mean(axis=-1)
        assert np.median(error[~sample.occluded]) < 3
        assert error[~sample.occluded].mean() < 5
        assert error[sample.occluded].mean() > 3 * error[~sample.occluded].mean()
        assert sample.calibration is not None


def test_as_a_program_with_an_untrained_model_that_says_so_plainly(tmp_path):
    reef = PROJECT / "examples" / "reef"
    command = [
        sys.executable,
        "-m",
        "linstereo.cli",
        "predict",
        str(reef / "left/clear.png"),
        str(reef / "right/clear.png"),
    ]
    done = subprocess.run(
        [*command, "--out", str(tmp_path), "--iters", "1", "--scale", "0.25", "--model", "small"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "not trained" in done.stderr
    assert read_disparity(tmp_path / "clear_disparity_px.pfm").shape == (320, 480)
    assert (tmp_path / "clear_cloud.ply").is_file()  # with the calibration beside the folder left
