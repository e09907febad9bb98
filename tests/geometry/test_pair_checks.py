"""Each check fires on a case made for it, and none on good pairs."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from tests.geometry.raw_pairs import RADTAN, render_of

from linstereo.data.formats.images import read_image
from linstereo.geometry.pair_checks import doubts_about_pair, measure_pair

ROOT = Path(__file__).resolve().parents[2]
REAL = (("im0.png", "im1.png"), ("im2.png", "im6.png"), ("view1.png", "view5.png"), ("left.png", "right.png"))
EXAMPLES = sorted((ROOT / "examples").glob("*/left/*.*"))


@pytest.fixture(scope="module")
def room():
    return tuple(read_image(ROOT / "examples/room" / side / "room.png") for side in ("left", "right"))


def real_pairs(folder):
    """All pairs below the folder of real data."""
    for left_name, right_name in REAL:
        yield from ((left, left.with_name(right_name)) for left in folder.rglob(left_name))
    for left, right in (("image_2", "image_3"), ("images/left", "images/right"), ("_left", "_right")):
        for path in folder.rglob("*.png"):
            if left in str(path.relative_to(folder)):
                yield path, folder / str(path.relative_to(folder)).replace(left, right)


def test_no_real_pair_is_doubted(stereo_data):
    pairs = list(real_pairs(stereo_data))
    assert len(pairs) >= 15
    for left, right in pairs:
        images = read_image(left), read_image(right)
        assert doubts_about_pair(*images) == [], left
        assert measure_pair(*images).row_offset < 0.5, left


@pytest.mark.parametrize("left", EXAMPLES, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_no_bundled_pair_is_doubted(left):
    right = left.parents[1] / "right" / left.name
    assert doubts_about_pair(read_image(left), read_image(right)) == []


def test_swapped_images(room):
    (told,) = doubts_about_pair(room[1], room[0], names=["a.png", "b.png"])
    assert told.startswith("a.png and b.png seem to be swapped: ")
    assert "matches have negative disparity, with a median of -2" in told


@pytest.mark.parametrize("offset", [-6, -2, 2, 6, 40])
def test_shifted_rows(room, offset):
    left, right = room
    moved = np.roll(right, offset, axis=0)
    (told,) = doubts_about_pair(left, moved)
    assert f"are not aligned: they differ by {abs(offset)}." in told or f"differ by {abs(offset) - 1}.9" in told
    assert "linstereo rectify" in told


def test_turned_rows_whose_offsets_cancel(room):
    left, right = room
    height, width = right.shape[:2]
    turn = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), 2.0, 1.0)
    turned = cv2.warpAffine(right, turn, (width, height), borderMode=cv2.BORDER_REFLECT)
    measures = measure_pair(left, turned)
    assert 2 < measures.row_offset < 12
    assert any("not aligned" in told for told in doubts_about_pair(left, turned))


def test_half_a_pixel_is_not_worth_a_warning(room):
    left, right = room
    moved = cv2.warpAffine(
        right, np.array([[1.0, 0, 0], [0, 1, 0.5]]), right.shape[1::-1], borderMode=cv2.BORDER_REFLECT
    )
    assert doubts_about_pair(left, moved) == []
    assert measure_pair(left, moved).row_offset == pytest.approx(0.5, abs=0.15)


def test_raw_pairs_are_not_aligned():
    (told,) = doubts_about_pair(*render_of(RADTAN))
    assert "not aligned" in told


def test_identical_images(room):
    compressed = cv2.imdecode(cv2.imencode(".jpg", room[0], (cv2.IMWRITE_JPEG_QUALITY, 60))[1], cv2.IMREAD_COLOR)
    for left, right in ((room[0], room[0]), (room[0], compressed), (np.zeros((64, 64, 3), np.uint8),) * 2):
        (told,) = doubts_about_pair(left, right)
        assert "are the same picture, with a mean difference of" in told


def test_images_that_differ_little_are_not_identical(room):
    left, right = (np.full((960, 1280, 3), 90, np.uint8) for _ in range(2))
    left[400:520, 600:720] = right[400:520, 595:715] = room[0][200:320, 100:220]  # all else has no texture
    measures = measure_pair(left, right)
    assert measures.difference < 0.5
    assert measures.agreeing >= 20
    assert doubts_about_pair(left, right) == []


def test_unrelated_images(room):
    other = cv2.resize(read_image(ROOT / "examples/reef/left/clear.png"), room[0].shape[1::-1])
    (told,) = doubts_about_pair(room[0], other)
    assert "hardly seem to show the same scene" in told
    assert "keypoints match" in told


def test_images_without_texture_tell_nothing():
    rng = np.random.default_rng(1)
    flat = [np.full((120, 160, 3), 128, np.uint8) + rng.integers(0, 4, (120, 160, 1), dtype=np.uint8) for _ in range(2)]
    assert doubts_about_pair(*flat) == []


def test_large_images_are_matched_at_a_smaller_size(room):
    large = [cv2.resize(image, None, fx=4, fy=4, interpolation=cv2.INTER_CUBIC) for image in room]
    measures = measure_pair(*large)
    assert measures.reduction > 4
    assert doubts_about_pair(*large) == []
    (told,) = doubts_about_pair(large[0], np.roll(large[1], 8, axis=0))
    assert "not aligned" in told


def test_measures_do_not_change_from_run_to_run(room):
    assert measure_pair(*room) == measure_pair(*room)
