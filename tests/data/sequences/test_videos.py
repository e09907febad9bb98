from pathlib import Path

import cv2
import numpy as np
import pytest
from tests.data.writers import write_rgb

from linstereo.data.sequences.frames import ImageFiles, stamps_of
from linstereo.data.sequences.videos import Videos, is_video
from linstereo.errors import InputError

RATE = 25.0


def write_video(path, pictures, *, rate=RATE, codec="mp4v"):
    height, width = pictures[0].shape[:2]
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*codec), rate, (width, height))
    assert writer.isOpened()
    for picture in pictures:
        writer.write(np.ascontiguousarray(picture[..., ::-1]))
    writer.release()


def flat(value, height=48, width=64):
    return np.full((height, width, 3), value, np.uint8)


def level(picture):
    return round(float(picture.mean()) / 10) * 10


@pytest.mark.parametrize("layout", ["side-by-side", "top-bottom"])
def test_one_video_of_both_images(tmp_path, layout):
    axis = 1 if layout == "side-by-side" else 0
    pictures = [np.concatenate([flat(10 * i + 50), flat(200)], axis=axis) for i in range(4)]
    write_video(tmp_path / "clip.mp4", pictures)
    source = Videos(tmp_path / "clip.mp4", layout=layout)
    assert source.count == 4
    frames = list(source)
    assert [level(frame.left) for frame in frames] == [50, 60, 70, 80]
    assert {level(frame.right) for frame in frames} == {200}
    assert {frame.left.shape for frame in frames} == {(48, 64, 3)}
    assert [round(frame.stamp / 1e9 * RATE, 2) for frame in frames] == [0, 1, 2, 3]
    assert len(list(source)) == 4


def test_colours_are_rgb(tmp_path):
    red = np.zeros((48, 64, 3), np.uint8)
    red[..., 0] = 200
    write_video(tmp_path / "clip.avi", [np.hstack([red, red])], codec="MJPG")
    (frame,) = Videos(tmp_path / "clip.avi")
    assert frame.left[..., 0].mean() > 150
    assert frame.left[..., 2].mean() < 50


def test_two_videos(tmp_path):
    write_video(tmp_path / "a.mp4", [flat(60), flat(80), flat(100)])
    write_video(tmp_path / "b.mp4", [flat(160), flat(180)])
    source = Videos(tmp_path / "a.mp4", tmp_path / "b.mp4")
    assert [(level(f.left), level(f.right)) for f in source] == [(60, 160), (80, 180)]
    assert "3 frames" in source.remarks()[0]
    write_video(tmp_path / "slow.mp4", [flat(60)], rate=10)
    with pytest.raises(InputError, match=r"25 frames per second and .* 10"):
        Videos(tmp_path / "a.mp4", tmp_path / "slow.mp4")


def test_what_is_no_video_is_refused(tmp_path, capfd):
    write_video(tmp_path / "clip.mp4", [flat(60)] * 5)
    (tmp_path / "half.mp4").write_bytes((tmp_path / "clip.mp4").read_bytes()[:600])
    (tmp_path / "text.mp4").write_text("prose")
    for name in ("half.mp4", "text.mp4"):
        with pytest.raises(InputError, match="complete video"):
            list(Videos(tmp_path / name))
    with pytest.raises(InputError, match="does not exist"):
        Videos(tmp_path / "missing.mp4")
    with pytest.raises(InputError, match="no camera 1234"):
        next(iter(Videos("1234")))
    with pytest.raises(InputError, match="camera 98 cannot be opened"):
        next(iter(Videos("98")))
    with pytest.raises(InputError, match="63 columns"):
        Videos(tmp_path / "clip.mp4")._halves(flat(60, 48, 63))
    assert capfd.readouterr().err == ""


def test_names_that_are_videos():
    assert is_video("a.MP4")
    assert is_video("0")
    assert is_video("rtsp://camera/1")
    assert not is_video("left.png")


def test_image_files_take_their_stamps_from_their_names(tmp_path):
    pairs = []
    for i in range(3):
        names = [tmp_path / f"{side}_{1_700_000_000_000 + 40 * i}.png" for side in ("l", "r")]
        for name in names:
            write_rgb(name, flat(20 * i))
        pairs.append(tuple(names))
    frames = list(ImageFiles(pairs))
    assert [frame.stamp for frame in frames] == [1_700_000_000_000_000_000 + 40_000_000 * i for i in range(3)]
    assert [int(frame.right[0, 0, 0]) for frame in frames] == [0, 20, 40]


def test_stamps_in_names():
    assert stamps_of(["1403636579.763555584.png", "1403636579.813555456.png"]) == [
        1403636579763555584,
        1403636579813555456,
    ]
    assert stamps_of(["0001.png", "0002.png"]) is None
    assert stamps_of(["1700000001.png", "1700000000.png"]) is None
    assert ImageFiles([(Path("a/1.png"), Path("b/1.png"))] * 2, rate=10).stamps == [0, 100_000_000]
