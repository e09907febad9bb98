"""`linstereo track`: every kind of source comes out as frames with the right stamps; stopped runs resume."""

import csv
import json
import subprocess
import sys

import cv2
import numpy as np
import pytest
import trimesh

from linstereo.cli import main
from linstereo.data.formats.depth_maps import read_depth
from linstereo.data.formats.disparity import read_disparity
from linstereo.data.formats.images import write_image
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth import disparity_to_depth
from tests.data.sequences.bag_files import STEP, VERSIONS, write_stereo_bag
from tests.data.sequences.test_videos import write_video
from tests.geometry.test_motion import texture

pytestmark = pytest.mark.usefixtures("quick_model")
CAMERA = ["--focal", "100", "--baseline", "0.2"]


def pairs(count=3, shift=4, height=64, width=96, seed=0):
    """A wall at one disparity in front of a camera that pans."""
    wall = texture(seed, height, width + shift + 5 * count)
    views = [wall[:, i * 2 :][:, : width + shift] for i in range(count)]
    return [(np.ascontiguousarray(v[:, :width]), np.ascontiguousarray(v[:, shift:])) for v in views]


def index(folder):
    with (folder / "frames.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_bag_comes_out_as_depth_frames_with_its_stamps(tmp_path, version):
    bag = tmp_path / ("bag.bag" if version == "ros1" else "bag")
    stamps = write_stereo_bag(bag, version, pairs(), encoding="bgr8", focal=120.0, baseline=0.25)
    assert main(["track", str(bag), "--out", str(tmp_path / "out")]) == 0
    rows = index(tmp_path / "out")
    assert [int(row["stamp_ns"]) for row in rows] == stamps
    assert [row["start"] for row in rows] == ["cold", "warm", "warm"]
    calibration = StereoCalibration(focal=120, baseline=0.25, cx=47.5, cy=31.5)
    for number in range(3):
        disparity = read_disparity(tmp_path / f"out/disparity_px_times_256/{number:06d}.png")
        depth = read_depth(tmp_path / f"out/depth_mm/{number:06d}.png")
        expected = disparity_to_depth(disparity, calibration)
        near = expected < 60
        np.testing.assert_allclose(depth[near], expected[near], rtol=0.02, atol=0.002)
    saved = json.loads((tmp_path / "out/calib.json").read_text())
    assert saved["focal"] == pytest.approx(120)
    video = cv2.VideoCapture(str(tmp_path / "out/disparity.mp4"))
    assert video.get(cv2.CAP_PROP_FRAME_COUNT) == 3
    assert video.get(cv2.CAP_PROP_FPS) == pytest.approx(1e9 / STEP, rel=0.01)


@pytest.mark.parametrize("encoding", ["mono8", "rgb8", "jpeg"])
def test_every_encoding_can_be_tracked(tmp_path, encoding):
    write_stereo_bag(tmp_path / "bag", "mcap", pairs(2), encoding=encoding)
    assert main(["track", str(tmp_path / "bag"), "--out", str(tmp_path / "out"), "--outputs", "disparity"]) == 0
    assert len(index(tmp_path / "out")) == 2
    assert not (tmp_path / "out/disparity.mp4").exists()


def test_raw_images_of_a_bag_are_rectified(tmp_path, capsys):
    """The right camera of the bag looks a little down; its camera_info says so."""
    from tests.data.sequences.bag_files import START, TOPICS, BagWriter

    angle = 0.02
    turn = np.array([[1, 0, 0], [0, np.cos(angle), -np.sin(angle)], [0, np.sin(angle), np.cos(angle)]])
    matrix = np.array([[100.0, 0, 47.5], [0, 100, 31.5], [0, 0, 1]])
    with BagWriter(tmp_path / "bag", "mcap") as bag:
        for side, (topic, picture) in enumerate(zip(TOPICS, pairs(1)[0], strict=True)):
            bag.write(topic, START, bag.image(picture, START, "rgb8"))
            projection = np.hstack([matrix, [[-side * 100 * 0.2], [0], [0]]])
            info = bag.camera_info(
                START, width=96, height=64, matrix=matrix, projection=projection, rotation=turn if side else np.eye(3)
            )
            bag.write(f"{topic.rpartition('/')[0]}/camera_info", START, info)
    assert main(["track", str(tmp_path / "bag"), "--out", str(tmp_path / "out")]) == 0
    assert "rectified first" in capsys.readouterr().err
    rectified = main(["track", str(tmp_path / "bag"), "--out", str(tmp_path / "other"), "--rectified"])
    assert rectified == 0
    assert "rectified first" not in capsys.readouterr().err


def test_videos_and_folders_give_the_same_kind_of_result(tmp_path):
    frames = pairs(3)
    write_video(tmp_path / "both.mp4", [np.hstack(pair) for pair in frames], rate=20)
    write_video(tmp_path / "l.avi", [pair[0] for pair in frames], rate=20, codec="MJPG")
    write_video(tmp_path / "r.avi", [pair[1] for pair in frames], rate=20, codec="MJPG")
    for i, pair in enumerate(frames):
        for side, picture in zip(("left", "right"), pair, strict=True):
            (tmp_path / side).mkdir(exist_ok=True)
            write_image(tmp_path / side / f"{i}.png", picture)
    sources = {
        "one": [tmp_path / "both.mp4"],
        "two": [tmp_path / "l.avi", tmp_path / "r.avi"],
        "folders": [tmp_path / "left", tmp_path / "right", "--fps", "20"],
    }
    for name, words in sources.items():
        out = tmp_path / "out" / name
        command = ["track", *map(str, words), "--out", str(out), *CAMERA, "--format", "npy"]
        assert main([*command, "--outputs", "depth,cloud"]) == 0
        assert [round(int(row["stamp_ns"]) / 1e6) for row in index(out)] == [0, 50, 100]
        assert len(list((out / "depth_m").glob("*.npy"))) == 3
        assert (out / "cloud_m/000002.ply").read_bytes().startswith(b"ply")


def test_clouds_leave_out_unreliable_points_unless_all_are_kept(tmp_path, monkeypatch):
    lower_half = np.arange(64 * 96).reshape(64, 96) >= 32 * 96
    monkeypatch.setattr("linstereo.prediction.flying_edges", lambda disparity: lower_half)
    write_video(tmp_path / "both.avi", [np.hstack(pair) for pair in pairs(1)], codec="MJPG")
    points = []
    for name, more in (("some", []), ("all", ["--keep-all"])):
        command = ["track", str(tmp_path / "both.avi"), "--out", str(tmp_path / name), *CAMERA, "--outputs", "cloud"]
        assert main([*command, "--max-depth", "inf", *more]) == 0
        points.append(len(trimesh.load(tmp_path / name / "cloud_m/000000.ply").vertices))
    assert 0 < points[0] < points[1]


def test_a_cut_is_told(tmp_path, capsys):
    both = [np.hstack(pair) for pair in (*pairs(2), *pairs(2, seed=9))]
    write_video(tmp_path / "clip.avi", both, codec="MJPG")
    assert main(["track", str(tmp_path / "clip.avi"), "--out", str(tmp_path / "out")]) == 0
    assert [row["start"] for row in index(tmp_path / "out")] == ["cold", "warm", "cold", "warm"]
    out = capsys.readouterr().out
    assert "frame 2: a cut" in out
    assert "4 frames, 1 cuts" in out


def test_a_stopped_run_resumes(tmp_path, monkeypatch, capsys):
    write_stereo_bag(tmp_path / "bag", "mcap", pairs(4))
    command = ["track", str(tmp_path / "bag"), "--out", str(tmp_path / "out")]
    from linstereo.cli.sequence_files import SequenceFiles

    real = SequenceFiles.add

    def killed(self, frame):
        if len(self.rows) == 2:
            raise KeyboardInterrupt
        real(self, frame)

    monkeypatch.setattr(SequenceFiles, "add", killed)
    assert main(command) == 130
    assert len(index(tmp_path / "out")) == 2
    assert not (tmp_path / "out/disparity.mp4").exists()
    before = (tmp_path / "out/disparity_px_times_256/000001.png").stat().st_mtime_ns
    with (tmp_path / "out/frames.csv").open("a") as stream:
        stream.write("2,17000")  # cut off by a kill
    monkeypatch.setattr(SequenceFiles, "add", real)
    capsys.readouterr()
    assert main(command) == 0
    assert "holds 2 frames" in capsys.readouterr().err
    rows = index(tmp_path / "out")
    assert [row["frame"] for row in rows] == ["0", "1", "2", "3"]
    assert len({row["stamp_ns"] for row in rows}) == 4
    assert (tmp_path / "out/disparity_px_times_256/000001.png").stat().st_mtime_ns == before
    assert (tmp_path / "out/disparity.mp4").exists()
    assert main([*command, "--format", "npy"]) == 2
    assert "other settings" in capsys.readouterr().err


def test_a_longer_run_follows_a_limited_one(tmp_path):
    write_stereo_bag(tmp_path / "bag", "mcap", pairs(3))
    command = ["track", str(tmp_path / "bag"), "--out", str(tmp_path / "out")]
    assert main([*command, "--limit", "1"]) == 0
    assert len(index(tmp_path / "out")) == 1
    assert main(command) == 0
    assert len(index(tmp_path / "out")) == 3


def test_rerun_file(tmp_path):
    pytest.importorskip("rerun")
    write_stereo_bag(tmp_path / "bag", "mcap", pairs(2), focal=100.0)
    file = tmp_path / "x.rrd"
    assert main(["track", str(tmp_path / "bag"), "--out", str(tmp_path / "out"), "--rerun", str(file)]) == 0
    told = subprocess.run(
        [sys.executable, "-m", "rerun", "rrd", "print", file], capture_output=True, text=True, check=True
    )
    for entity in ("/camera/left/image", "/camera/left/depth", "/camera/points", "/disparity"):
        assert entity in told.stdout
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def refused(words, capsys):
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    return told


def test_bags_that_cannot_be_used_are_told_in_one_sentence(tmp_path, capsys):
    out = ["--out", tmp_path / "out"]
    write_stereo_bag(tmp_path / "lag", "mcap", pairs(), lag=STEP // 2)
    assert "the nearest are 0.0167 s apart" in refused(["track", tmp_path / "lag", *out], capsys)
    write_stereo_bag(tmp_path / "names", "mcap", pairs(), topics=["/a/image", "/b/image"])
    assert "--left-topic and --right-topic from /a/image, /b/image" in refused(
        ["track", tmp_path / "names", *out], capsys
    )
    write_stereo_bag(tmp_path / "x.bag", "ros1", pairs())
    data = (tmp_path / "x.bag").read_bytes()
    (tmp_path / "x.bag").write_bytes(data[: len(data) // 2])
    assert "cut off or damaged" in refused(["track", tmp_path / "x.bag", *out], capsys)
    write_stereo_bag(tmp_path / "fine", "mcap", pairs())
    assert "no calibration is known" in refused(["track", tmp_path / "fine", "--outputs", "depth", *out], capsys)
    assert "leave out" in refused(["track", tmp_path / "fine", tmp_path / "lag", *out], capsys)
    assert "ends in .rrd" in refused(["track", tmp_path / "fine", "--rerun", "x.txt", *out], capsys)
    assert "--layout" in refused(["track", tmp_path / "fine", "--layout", "top-bottom", *out], capsys)
    assert not (tmp_path / "out").exists()


def test_a_missing_extra_is_named(tmp_path, capsys, monkeypatch):
    write_stereo_bag(tmp_path / "bag", "mcap", pairs(1))
    monkeypatch.setitem(sys.modules, "rosbags.highlevel", None)
    assert "linstereo[ros]" in refused(["track", tmp_path / "bag", "--out", tmp_path / "out"], capsys)


def test_a_damaged_index_is_refused(tmp_path, capsys):
    write_stereo_bag(tmp_path / "bag", "mcap", pairs(2))
    command = ["track", tmp_path / "bag", "--out", tmp_path / "out"]
    assert main([str(word) for word in command]) == 0
    text = (tmp_path / "out/frames.csv").read_text()
    (tmp_path / "out/frames.csv").write_text(text.replace("\n1,", "\n7,"))
    assert "damaged in line 3" in refused(command, capsys)
    (tmp_path / "out/frames.csv").write_text("prose\n")
    assert "damaged in line 1" in refused(command, capsys)
