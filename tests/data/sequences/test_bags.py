import shutil

import cv2
import numpy as np
import pytest
from tests.data.sequences.bag_files import START, STEP, TOPICS, VERSIONS, BagWriter, encoded, write_stereo_bag

from linstereo.data.sequences.bags import Bag, is_bag
from linstereo.errors import InputError


def pictures(count=3, height=40, width=60):
    """Smooth colour pictures, so that lossy encodings can be compared."""
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (2 * count, 5, 8, 3), dtype=np.uint8)
    large = [cv2.resize(picture, (width, height), interpolation=cv2.INTER_CUBIC) for picture in small]
    return list(zip(large[::2], large[1::2], strict=True))


def path_of(folder, version):
    return folder / ("bag.bag" if version == "ros1" else "bag")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("encoding", ["mono8", "rgb8", "bgr8", "png"])
def test_frames_come_back_with_their_stamps(tmp_path, version, encoding):
    pairs = pictures()
    stamps = write_stereo_bag(path_of(tmp_path, version), version, pairs, encoding=encoding, lag=1_000_000)
    bag = Bag(path_of(tmp_path, version))
    assert bag.count == 3
    assert bag.topics == TOPICS
    frames = list(bag)
    assert [frame.stamp for frame in frames] == stamps
    for frame, pair in zip(frames, pairs, strict=True):
        for found, picture in zip(frame[1:], pair, strict=True):
            expected = encoded(picture, "mono8")[..., None] if encoding == "mono8" else picture
            np.testing.assert_array_equal(found, expected)
    assert len(list(bag)) == 3  # again from the start
    assert bag.remarks() == []


def test_jpeg_and_compressed_topics(tmp_path):
    pairs = pictures(1)
    topics = [f"{topic}/compressed" for topic in TOPICS]
    write_stereo_bag(tmp_path / "bag", "mcap", pairs, encoding="jpeg", topics=topics, focal=50.0)
    bag = Bag(tmp_path / "bag")
    (frame,) = bag
    assert np.abs(frame.left.astype(int) - pairs[0][0]).mean() < 4
    assert bag.cameras is not None


@pytest.mark.parametrize("pattern", ["rggb", "bggr", "gbrg", "grbg"])
def test_bayer_patterns_give_the_colours_back(tmp_path, pattern):
    flat = np.empty((16, 20, 3), np.uint8)
    flat[:] = 200, 90, 30
    write_stereo_bag(tmp_path / "bag", "mcap", [(flat, flat)], encoding=f"bayer_{pattern}8")
    (frame,) = Bag(tmp_path / "bag")
    np.testing.assert_array_equal(frame.left[2:-2, 2:-2], flat[2:-2, 2:-2])


def test_sixteen_bits_and_padded_rows(tmp_path):
    pairs = pictures(1)
    write_stereo_bag(tmp_path / "bag", "mcap", pairs, encoding="mono16", padding=6)
    (frame,) = Bag(tmp_path / "bag")
    assert frame.left.dtype == np.uint16
    np.testing.assert_array_equal(frame.left[..., 0], encoded(pairs[0][0], "mono8").astype(np.uint16) * 257)


@pytest.mark.parametrize("version", ["mcap", "sqlite3"])
def test_single_files_of_ros2_bags_are_read(tmp_path, version):
    write_stereo_bag(tmp_path / "bag", version, pictures(2))
    (file,) = [path for path in (tmp_path / "bag").iterdir() if path.suffix in (".mcap", ".db3")]
    alone = tmp_path / f"alone{file.suffix}"
    shutil.copy(file, alone)
    assert len(list(Bag(alone))) == 2
    assert is_bag(alone)
    assert is_bag(tmp_path / "bag")
    assert not is_bag(tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_calibration_from_camera_info(tmp_path, version):
    write_stereo_bag(path_of(tmp_path, version), version, pictures(1), focal=50.0, baseline=0.12)
    cameras = Bag(path_of(tmp_path, version)).cameras
    assert cameras.size == (60, 40)
    assert cameras.rectified.focal == pytest.approx(50)
    assert cameras.rectified.baseline == pytest.approx(0.12)
    np.testing.assert_allclose(cameras.raw.translation, [-0.12, 0, 0], atol=1e-12)


def test_uncalibrated_cameras_have_no_calibration(tmp_path):
    write_stereo_bag(tmp_path / "bag", "mcap", pictures(1), focal=0.0)
    assert Bag(tmp_path / "bag").cameras is None


def test_rectified_topics_are_known_by_name(tmp_path):
    topics = ["/left/image_rect_color", "/right/image_rect_color"]
    write_stereo_bag(tmp_path / "bag", "mcap", pictures(1), topics=topics)
    assert Bag(tmp_path / "bag").rectified


def test_nearest_images_are_paired_and_the_others_counted(tmp_path):
    """The right camera runs twice as fast, and misses one image."""
    ((picture, _),) = pictures(1)
    ms = 1_000_000
    with BagWriter(tmp_path / "bag", "mcap") as bag:
        for i in range(4):
            bag.write(TOPICS[0], START + i * 40 * ms, bag.image(picture, START + i * 40 * ms, "rgb8"))
        for i in range(8):
            stamp = START + i * 20 * ms + 2 * ms
            marked = np.full_like(picture, i)
            if i != 4:
                bag.write(TOPICS[1], stamp, bag.image(marked, stamp, "rgb8"))
    source = Bag(tmp_path / "bag", tolerance=0.005)
    frames = list(source)
    assert [(f.stamp - START) // ms for f in frames] == [0, 40, 120]
    assert [int(f.right[0, 0, 0]) for f in frames] == [0, 2, 6]
    assert "5 images" in source.remarks()[0]


def test_stamps_of_recording_stand_in_for_missing_ones(tmp_path):
    ((picture, _),) = pictures(1)
    with BagWriter(tmp_path / "bag", "mcap") as bag:
        for topic in TOPICS:
            bag.write(topic, 0, bag.image(picture, 0, "rgb8"), recorded=START)
    assert [frame.stamp for frame in Bag(tmp_path / "bag")] == [START]


@pytest.mark.parametrize("version", VERSIONS)
def test_unsynchronised_topics(tmp_path, version):
    write_stereo_bag(path_of(tmp_path, version), version, pictures(), lag=STEP // 2)
    with pytest.raises(InputError, match=r"within 0.01 s: the nearest are 0.0167 s apart; synchronise"):
        list(Bag(path_of(tmp_path, version)))
    assert len(list(Bag(path_of(tmp_path, version), tolerance=0.02))) == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_missing_topics(tmp_path, version):
    path = path_of(tmp_path, version)
    write_stereo_bag(path, version, pictures(1), topics=["/left/image_raw", "/side/image_raw"])
    with pytest.raises(InputError, match=r"tell left from right; choose .* from /left/image_raw, /side/image_raw"):
        Bag(path)
    with pytest.raises(InputError, match="has no image topic '/right'; it has /left/image_raw"):
        Bag(path, left_topic="/left/image_raw", right_topic="/right")
    with pytest.raises(InputError, match="belong together"):
        Bag(path, left_topic="/left/image_raw")
    assert len(list(Bag(path, left_topic="/left/image_raw", right_topic="/side/image_raw"))) == 1


def test_two_pairs_of_topics_are_not_guessed(tmp_path):
    ((left, right),) = pictures(1)
    with BagWriter(tmp_path / "bag", "mcap") as bag:
        for kind in ("image_raw", "image_rect"):
            for side, picture in (("left", left), ("right", right)):
                bag.write(f"/{side}/{kind}", START, bag.image(picture, START, "rgb8"))
    with pytest.raises(InputError, match="several pairs"):
        Bag(tmp_path / "bag")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_truncated_bags(tmp_path, version, share):
    path = path_of(tmp_path, version)
    write_stereo_bag(path, version, pictures(6, 120, 160))
    file = path if version == "ros1" else next(p for p in path.iterdir() if p.suffix in (".mcap", ".db3"))
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(InputError, match="cut off or damaged") as caught:
        list(Bag(path))
    assert "\n" not in str(caught.value)


def test_text_is_no_bag(tmp_path):
    for name in ("x.bag", "x.mcap", "x.db3"):
        (tmp_path / name).write_text("prose")
        with pytest.raises(InputError, match="cannot be read"):
            Bag(tmp_path / name)
    with pytest.raises(InputError, match="does not exist"):
        Bag(tmp_path / "missing.bag")


def test_unknown_encodings_and_short_data_are_named(tmp_path):
    ((picture, _),) = pictures(1)
    for name, change in (("a", {"encoding": "32FC1"}), ("b", {"data": np.zeros(5, np.uint8)}), ("c", {"width": 2**31})):
        with BagWriter(tmp_path / name, "mcap") as bag:
            for topic in TOPICS:
                message = bag.image(picture, START, "rgb8")
                for field, value in change.items():
                    object.__setattr__(message, field, value)
                bag.write(topic, START, message)
        with pytest.raises(InputError, match=r"/stereo/left/image_raw at 1700000000\.123456789 s"):
            list(Bag(tmp_path / name))


def test_binned_camera_info_is_refused(tmp_path):
    ((picture, _),) = pictures(1)
    with BagWriter(tmp_path / "bag", "mcap") as bag:
        for topic in TOPICS:
            bag.write(topic, START, bag.image(picture, START, "rgb8"))
            info = bag.camera_info(START, width=60, height=40, matrix=np.eye(3), projection=np.eye(3, 4), binning=2)
            bag.write(f"{topic.rpartition('/')[0]}/camera_info", START, info)
    with pytest.raises(InputError, match="binned"):
        Bag(tmp_path / "bag")
    assert len(list(Bag(tmp_path / "bag", camera_info=False))) == 1
