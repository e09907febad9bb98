"""Inputs that would give plausible but wrong results: `linstereo predict` detects and tells them."""

import json
import re
from pathlib import Path

import cv2
import numpy as np
import pytest

from linstereo.cli import main
from linstereo.cli.cameras import calibration_of, depth_doubt, doubts
from linstereo.data.datasets.folder import open_folder
from linstereo.data.formats.calibration_files import (
    calibration_for_size,
    write_calibration,
    write_middlebury_calibration,
)
from linstereo.data.formats.depth_maps import read_depth
from linstereo.data.formats.disparity import read_disparity
from linstereo.data.formats.images import read_image, to_rgb8, write_image
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration

CAMERA = StereoCalibration(focal=40.0, baseline=0.5, cx=24.5, cy=19.5, doffs=1.5)  # of 50 x 40 px


def predict(images, out, *arguments, name="1"):
    pair = [str(images / side / f"{name}.png") for side in ("left", "right")]
    return main(["predict", *pair, "--out", str(out), "--iters", "1", *map(str, arguments)])


def write_double(images, kind):
    """A calibration for the same images at twice their size, 100 x 80 px."""
    double = CAMERA.scaled(2, 2)
    if kind == "txt":
        write_middlebury_calibration(images / "calib.txt", double, width=100, height=80)
    elif kind == "json":
        write_calibration(images / "calib.json", double)
        content = json.loads((images / "calib.json").read_text())
        (images / "calib.json").write_text(json.dumps(content | {"width": 100, "height": 80}))
    else:
        left = [double.focal, 0, double.cx, 0, 0, double.focal, double.cy, 0, 0, 0, 1, 0]
        right = [double.focal, 0, double.cx + double.doffs, -double.focal * double.baseline, *left[4:]]
        rows = {"S_rect_02": [100, 80], "P_rect_02": left, "P_rect_03": right}
        (images / "calib.txt").write_text("".join(f"{k}: {' '.join(map(str, v))}\n" for k, v in rows.items()))


@pytest.mark.parametrize("kind", ["txt", "json", "kitti"])
def test_a_calibration_for_another_size_is_refused_or_scaled(quick_model, images, tmp_path, capsys, kind):
    write_double(images, kind)
    assert predict(images, tmp_path / "out") == 2
    message = capsys.readouterr().err
    assert "is for images of 100 x 80 px, but" in message
    assert "1.png is 50 x 40 px; give the calibration for that size" in message
    assert "--scale-calib" in message
    assert message.count("\n") == 1
    assert not (tmp_path / "out").exists()
    assert predict(images, tmp_path / "out", "--scale-calib") == 0
    disparity = read_disparity(tmp_path / "out/1_disparity_px.pfm").astype(np.float64)
    depth = read_depth(tmp_path / "out/1_depth_m.pfm")
    np.testing.assert_allclose(depth, 40.0 * 0.5 / (disparity + 1.5), rtol=1e-5)
    assert predict(images, tmp_path / "flat", "--outputs", "disparity") == 0  # which needs no calibration


def test_a_cropped_image_is_not_taken_for_a_resized_one(images):
    write_double(images, "txt")
    with pytest.raises(InputError, match="not the same picture resized"):
        calibration_for_size(images / "calib.txt", width=50, height=30, image="a.png", resize=True)
    rounded = calibration_for_size(images / "calib.txt", width=33, height=27, image="a.png", resize=True)
    assert rounded.focal == pytest.approx(80 * 0.33)


def test_datasets_refuse_calibrations_for_another_size_too(images):
    write_double(images, "txt")
    with pytest.raises(InputError, match="is for images of 100 x 80 px"):
        open_folder(images)[0]


@pytest.mark.parametrize("width", ["50", float("nan"), float("inf"), 0, None])
def test_a_size_that_is_none(images, width):
    content = {"focal": 40.0, "baseline": 0.5, "cx": 25, "cy": 20, "width": width, "height": 40}
    (images / "calib.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"calib\.json"):
        calibration_of(images / "left/1.png", (40, 50))


def test_real_calibrations_are_for_their_images(stereo_data):
    for name, focal, baseline in (("Motorcycle", 999.421, 0.193001), ("Recycle", 746.775, 0.178232)):
        left = stereo_data / "middlebury_v3/trainingQ" / name / "im0.png"
        size = read_image(left).shape[:2]
        calibration = calibration_of(left, size)
        assert (calibration.focal, calibration.baseline) == (focal, baseline)
        assert doubts(calibration, left, size) == []
    left = stereo_data / "kitti2015/training/image_2/000002_10.png"
    file = str(stereo_data / "kitti2015/training/calib_cam_to_cam/000002.txt")
    size = read_image(left).shape[:2]
    calibration = calibration_of(left, size, file=file)
    assert calibration.focal == pytest.approx(721.54, abs=0.01)
    assert calibration.baseline == pytest.approx(0.5327, abs=1e-4)
    assert doubts(calibration, left, size) == []
    grey = calibration_of(Path("a/image_0/000002_10.png"), size, file=file)
    assert grey.baseline == pytest.approx(0.5372, abs=1e-4)
    with pytest.raises(InputError, match="is for images of 1242 x 375 px"):
        calibration_of(left, (188, 621), file=file)


@pytest.mark.parametrize(
    ("camera", "complaint"),
    [
        (CAMERA, None),
        (CAMERA.scaled(2, 2), "is far from the centre"),
        (CAMERA.scaled(0.5, 0.5), "is far from the centre"),
        (CAMERA.scaled(4, 4), "is outside of"),
        (StereoCalibration(40, 120.0, 24.5, 19.5), "baseline of .* is 120 m; if that is in another unit, correct it"),
        (StereoCalibration(40, 0.00012, 24.5, 19.5), "baseline of .* is 0.00012 m"),
        (StereoCalibration(40, 0.5, 40, 19.5), None),  # shifted in one direction only, as rectification does
    ],
)
def test_doubtful_calibrations(camera, complaint):
    found = doubts(camera, Path("a.png"), (40, 50))
    assert len(found) == (complaint is not None)
    if complaint:
        assert re.search(complaint, found[0])


def test_a_baseline_in_millimetres_is_told_once(quick_model, images, tmp_path, capsys):
    sides = [str(images / "left"), str(images / "right")]
    assert main(["predict", *sides, "--out", str(tmp_path), "--iters", "1", "--focal", "40", "--baseline", "120"]) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "baseline of" in line]
    assert len(warnings) == 1
    assert warnings[0].startswith("WARNING: the baseline of")
    assert "is 120 m" in warnings[0]
    assert predict(images, tmp_path, "--focal", "40", "--baseline", "0.12") == 0
    assert "baseline" not in capsys.readouterr().err


def test_depths_of_kilometres_are_told():
    camera = StereoCalibration(focal=1000, baseline=4.0, cx=0, cy=0)  # an endoscope's 4 mm
    far = depth_doubt(np.full((3, 4), 2.0, np.float32), camera, Path("a.png"))
    assert "half of a.png is farther than 2.0 km; check that the baseline, 4, is in metres" in far
    assert depth_doubt(np.full((3, 4), 20.0, np.float32), camera, Path("a.png")) is None
    assert depth_doubt(np.zeros((3, 4), np.float32), camera, Path("a.png")) is None  # nothing matched, nothing known


def write_deep(images, values, suffix=".png"):
    for side, array in zip(("left", "right"), values, strict=True):
        assert cv2.imwrite(str(images / side / f"deep{suffix}"), array)


@pytest.mark.parametrize("bits", [10, 12, 14])
@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_values_of_fewer_bits_keep_their_accuracy(quick_model, images, tmp_path, capsys, bits, suffix):
    rng = np.random.default_rng(bits)
    full = rng.integers(0, 65536, (2, 40, 50, 3), dtype=np.uint16)
    full[:, 0, 0] = 65535
    write_deep(images, full >> (16 - bits), suffix)
    pair = [str(images / side / f"deep{suffix}") for side in ("left", "right")]
    assert main(["predict", *pair, "--out", str(tmp_path / "out"), "--iters", "1", "--outputs", "disparity"]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if "bit values" in line]
    assert len(notes) == 1
    assert f"hold {bits}-bit values in 16 bits; they are scaled so that {2**bits - 1} is white" in notes[0]
    expected = quick_model.predict(*(to_rgb8((image >> (16 - bits))[..., ::-1], bits=bits) for image in full), iters=1)
    np.testing.assert_array_equal(read_disparity(tmp_path / "out/deep_disparity_px.pfm"), expected.disparity)


def test_values_of_all_bits_stay_as_they_are(quick_model, images, tmp_path, capsys):
    rng = np.random.default_rng(1)
    full = rng.integers(0, 65536, (2, 40, 50, 3), dtype=np.uint16)
    write_deep(images, full)
    assert predict(images, tmp_path / "out", "--outputs", "disparity", name="deep") == 0
    assert "bit values" not in capsys.readouterr().err
    expected = quick_model.predict(*(np.rint(image[..., ::-1] / 257).astype(np.uint8) for image in full), iters=1)
    np.testing.assert_array_equal(read_disparity(tmp_path / "out/deep_disparity_px.pfm"), expected.disparity)


@pytest.fixture
def room(tmp_path):
    """Left and right image of the bundled room, reduced to keep the network quick."""
    example = Path(__file__).resolve().parents[2] / "examples/room"
    for side in ("left", "right"):
        image = cv2.resize(read_image(example / side / "room.png"), (320, 240), interpolation=cv2.INTER_AREA)
        write_image(tmp_path / f"{side}.png", image)
    return [str(tmp_path / "left.png"), str(tmp_path / "right.png")]


def told(capsys, command):
    code = main(command)
    return code, [line for line in capsys.readouterr().err.splitlines() if "random" not in line and "NOTE" not in line]


def test_doubtful_pairs_are_told_and_refused_if_strict(quick_model, room, tmp_path, capsys):
    out = ["--out", str(tmp_path / "out"), "--iters", "1"]
    assert told(capsys, ["predict", *room, *out, "--strict"]) == (0, [])
    swapped = room[::-1]
    code, lines = told(capsys, ["predict", *swapped, *out])
    assert code == 0
    assert len(lines) == 1
    assert lines[0].startswith(f"WARNING: {swapped[0]} and {swapped[1]} seem to be swapped: ")
    strict = tmp_path / "strict"
    code, lines = told(capsys, ["predict", *swapped, "--out", str(strict), "--iters", "1", "--strict"])
    assert code == 2
    assert len(lines) == 1
    assert "seem to be swapped" in lines[0]
    assert not strict.exists()


def test_strict_skips_with_skip_bad(quick_model, room, tmp_path, capsys):
    (tmp_path / "pairs.txt").write_text(f"{room[0]} {room[1]}\n{room[1]} {room[0]}\n")
    out = ["--out", str(tmp_path / "out"), "--iters", "1", "--strict", "--skip-bad"]
    code, lines = told(capsys, ["predict", "--list", str(tmp_path / "pairs.txt"), *out])
    assert code == 1
    assert lines[0].startswith("SKIPPED: ")
    assert (tmp_path / "out/left_disparity_px.pfm").exists()
    assert not (tmp_path / "out/right_disparity_px.pfm").exists()


def test_strict_refuses_doubtful_calibrations(quick_model, room, tmp_path, capsys):
    flags = ["--focal", "280", "--baseline", "120", "--out", str(tmp_path / "out"), "--iters", "1"]
    code, lines = told(capsys, ["predict", *room, *flags, "--strict"])
    assert code == 2
    assert "is 120 m" in lines[0]
    write_calibration(tmp_path / "other.json", StereoCalibration(focal=1120, baseline=0.1, cx=640, cy=480))
    code, lines = told(capsys, ["predict", *room, "--calib", str(tmp_path / "other.json"), "--strict", *flags[4:]])
    assert code == 2
    assert "principal point (640, 480) is outside of" in lines[0]
    assert not (tmp_path / "out").exists()


def test_doubts_in_python(quick_model, room):
    notes: list[str] = []
    quiet = quick_model.predict(*room, iters=1)
    np.testing.assert_array_equal(quick_model.predict(*room, iters=1, on_note=notes.append).disparity, quiet.disparity)
    assert notes == []
    left = read_image(room[0])
    quick_model.predict(left, left, iters=1, on_note=notes.append)
    assert len(notes) == 1
    assert notes[0].startswith("the left image and the right image are the same picture")
    with pytest.raises(InputError, match="seem to be swapped"):
        quick_model.predict(*room[::-1], iters=1, strict=True)
