"""`linstereo predict`, as a user calls it."""

import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from linstereo import StereoPredictor
from linstereo.cli import main
from linstereo.cli.predict import find_images, output_names, pair_up
from linstereo.data.disparity import read_disparity
from linstereo.data.images import read_image, write_image
from linstereo.errors import InputError
from linstereo.model.presets import build
from tests.model.tiny import TINY, TinyBackbone

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def quick_model(monkeypatch):
    """A tiny network in place of the default one; everything else is the real command."""
    torch.manual_seed(0)
    predictor = StereoPredictor(build(TINY, backbone=TinyBackbone()), device="cpu")
    monkeypatch.setattr("linstereo.predictor.load", lambda *args, **kwargs: predictor)
    return predictor


@pytest.fixture
def images(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "in"
    for side in ("left", "right"):
        (folder / side).mkdir(parents=True)
        for name in ("1", "2", "10"):
            write_image(folder / side / f"{name}.png", rng.integers(0, 256, (40, 50, 3), dtype=np.uint8))
    return folder


def test_one_pair_gives_a_disparity_map_and_a_picture(quick_model, images, tmp_path):
    left, right, out = images / "left/1.png", images / "right/1.png", tmp_path / "out"
    assert main(["predict", str(left), str(right), "--out", str(out)]) == 0
    assert {p.name for p in out.iterdir()} == {"1_disparity.pfm", "1_disparity_color.png"}
    expected = quick_model.predict(left, right).disparity
    np.testing.assert_array_equal(read_disparity(out / "1_disparity.pfm"), expected)
    assert read_image(out / "1_disparity_color.png").shape == (40, 50, 3)


def test_every_format_holds_the_same_map(quick_model, images, tmp_path):
    out = tmp_path / "out"
    arguments = ["predict", str(images / "left/1.png"), str(images / "right/1.png"), "--out", str(out), "--no-picture"]
    assert main([*arguments, "--format", "npy", "--format", "png", "--format", "pfm"]) == 0
    pfm = read_disparity(out / "1_disparity.pfm")
    np.testing.assert_array_equal(np.load(out / "1_disparity.npy"), pfm)
    png = cv2.imread(str(out / "1_disparity.png"), cv2.IMREAD_UNCHANGED)
    assert png.dtype == np.uint16
    np.testing.assert_allclose(png / 256, pfm, atol=1 / 256)  # a tiny disparity is not rounded to 0, "unknown"
    assert len(list(out.iterdir())) == 3


@pytest.mark.parametrize("how", ["folder", "glob"])
def test_folders_and_globs_pair_up_by_name(quick_model, images, tmp_path, how):
    sides = [str(images / s) if how == "folder" else str(images / s / "*.png") for s in ("left", "right")]
    out = tmp_path / "out"
    assert main(["predict", *sides, "--out", str(out), "--iters", "1", "--no-picture"]) == 0
    assert {p.name for p in out.iterdir()} == {f"{n}_disparity.pfm" for n in ("1", "2", "10")}
    for n in ("1", "2", "10"):
        expected = quick_model.predict(images / f"left/{n}.png", images / f"right/{n}.png", iters=1).disparity
        np.testing.assert_array_equal(read_disparity(out / f"{n}_disparity.pfm"), expected)


def test_natural_order_names_and_pairs():
    left, right = [Path("a/im0.png"), Path("b/im0.png")], [Path("a/im1.png"), Path("b/im1.png")]
    assert output_names(left) == ["a_im0", "b_im0"]
    assert pair_up(left, right) == list(zip(left, right, strict=True))
    swapped = [Path("r/2.png"), Path("r/1.png")]
    assert pair_up([Path("l/1.png"), Path("l/2.png")], swapped) == [
        (Path("l/1.png"), Path("r/1.png")),
        (Path("l/2.png"), Path("r/2.png")),
    ]
    with pytest.raises(InputError, match=r"2 left images .* 1 right"):
        pair_up(left, right[:1])
    with pytest.raises(InputError, match="same name"):
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
    assert list(out.iterdir()) == []


def test_the_untrained_model_says_so_plainly_when_run_as_a_program(tmp_path):
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
        [*command, "--out", str(tmp_path), "--iters", "1", "--scale", "0.25"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "not trained" in done.stderr
    assert read_disparity(tmp_path / "clear_disparity.pfm").shape == (320, 480)
