"""Photographs from a folder."""

import cv2
import numpy as np
import pytest

from linstereo.errors import InputError
from linstereo.synthesis.photos import LONG_SIDE, PhotoFolder


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for index, (height, width) in enumerate([(300, 400), (500, 200), (1500, 2600)]):
        picture = cv2.resize(rng.integers(0, 256, (20, 30, 3), np.uint8), (width, height))
        cv2.imwrite(str(tmp_path / f"{index}.jpg"), picture)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    cv2.imwrite(str(tmp_path / "deep" / "er" / "GREY.PNG"), rng.integers(0, 256, (64, 64), np.uint8))
    (tmp_path / "notes.txt").write_text("no photograph")
    return tmp_path


def test_files_are_found_at_any_depth(folder):
    photos = PhotoFolder(folder)
    assert len(photos) == 4
    assert [path.name for path in photos.files] == ["0.jpg", "1.jpg", "2.jpg", "GREY.PNG"]


def test_pictures_are_rgb_and_reduced(folder):
    photos = PhotoFolder(folder)
    assert photos.picture(0).shape == (300, 400, 3)
    large = photos.picture(2)
    assert large.shape[1] == LONG_SIDE
    assert large.shape[0] == pytest.approx(LONG_SIDE * 1500 / 2600, abs=1)
    reference = cv2.cvtColor(cv2.imread(str(photos.files[2])), cv2.COLOR_BGR2RGB)
    reference = cv2.resize(reference, (large.shape[1], large.shape[0]), interpolation=cv2.INTER_AREA)
    assert np.abs(large.astype(int) - reference).mean() < 3
    grey = photos.picture(3)
    np.testing.assert_array_equal(grey[..., 0], grey[..., 2])


def test_pictures_come_from_memory_the_second_time(folder):
    photos = PhotoFolder(folder, keep=2)
    first = photos.picture(0)
    assert photos.picture(0) is first
    photos.picture(1)
    photos.picture(3)
    again = photos.picture(0)
    assert again is not first
    np.testing.assert_array_equal(again, first)
    assert not again.flags.writeable


def test_textures_are_square_and_reproducible(folder):
    warm = PhotoFolder(folder)
    for seed in range(20):
        one = PhotoFolder(folder, keep=1).texture(np.random.default_rng(seed), size=256)
        two = warm.texture(np.random.default_rng(seed), size=256)
        np.testing.assert_array_equal(one, two)
        assert one.dtype == np.uint8
        assert one.shape in ((256, 256, 3), (128, 128, 3))
        assert one.flags.c_contiguous


def test_textures_vary_and_leave_the_pictures_alone(folder):
    photos = PhotoFolder(folder)
    before = [photos.picture(index).copy() for index in range(4)]
    rng = np.random.default_rng(0)
    assert len({photos.texture(rng, size=128).tobytes() for _ in range(20)}) == 20
    for index in range(4):
        np.testing.assert_array_equal(photos.picture(index), before[index])


def test_whole_pictures_stay_upright(tmp_path):
    ramp = np.repeat(np.linspace(0, 255, 200).astype(np.uint8)[:, None, None], 300, axis=1)
    cv2.imwrite(str(tmp_path / "ramp.png"), np.repeat(ramp, 3, axis=2))
    photos = PhotoFolder(tmp_path)
    for seed in range(12):
        texture = photos.texture(np.random.default_rng(seed), size=128, whole=True).astype(float)
        assert texture[-8:].mean() - texture[:8].mean() > 200


@pytest.mark.parametrize("content", [b"", b"not a picture at all", b"\xff\xd8\xff\xe0 broken"])
def test_a_broken_file_is_named(tmp_path, content):
    path = tmp_path / "broken.jpg"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"broken\.jpg"):
        PhotoFolder(tmp_path).picture(0)


def test_a_vanished_file_is_named(folder):
    photos = PhotoFolder(folder)
    photos.files[1].unlink()
    with pytest.raises(InputError, match=r"1\.jpg"):
        photos.picture(1)


def test_missing_and_empty_folders(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        PhotoFolder(tmp_path / "nowhere")
    with pytest.raises(InputError, match="holds no photograph"):
        PhotoFolder(tmp_path)


def test_a_folder_of_something_else_is_told_at_once(tmp_path):
    (tmp_path / "notes.jpg").write_text("no photograph at all")
    with pytest.raises(InputError, match=r"notes\.jpg cannot be decoded"):
        PhotoFolder(tmp_path)
