"""Which images belong together, by the names that real recordings and benchmarks give them."""

from pathlib import Path

import pytest

from linstereo.cli.pairs import check_complete, find_images, output_names, pair_up, read_list
from linstereo.errors import InputError


def paths(text):
    return [Path(name) for name in text.split()]


REAL_NAMES = {
    "KITTI": ("image_2/000000_10.png image_2/000001_10.png", "image_3/000000_10.png image_3/000001_10.png"),
    "KITTI, several drives": (
        "a/image_02/data/0000000000.png b/image_02/data/0000000000.png",
        "a/image_03/data/0000000000.png b/image_03/data/0000000000.png",
    ),
    "Middlebury v3": ("Adirondack/im0.png ArtL/im0.png", "Adirondack/im1.png ArtL/im1.png"),
    "Middlebury 2006": ("Aloe/view1.png Baby1/view1.png", "Aloe/view5.png Baby1/view5.png"),
    "Middlebury 2003": ("cones/im2.png teddy/im2.png", "cones/im6.png teddy/im6.png"),
    "SceneFlow": ("A/0000/left/0006.png A/0001/left/0006.png", "A/0000/right/0006.png A/0001/right/0006.png"),
    "TartanAir": ("l/000000_left.png l/000001_left.png", "r/000000_right.png r/000001_right.png"),
    "TartanAir v2": (
        "image_lcam_front/000000_lcam_front.png image_lcam_front/000001_lcam_front.png",
        "image_rcam_front/000000_rcam_front.png image_rcam_front/000001_rcam_front.png",
    ),
    "Cityscapes": (
        "x/aachen_000000_000019_leftImg8bit.png x/bonn_000001_000019_leftImg8bit.png",
        "y/aachen_000000_000019_rightImg8bit.png y/bonn_000001_000019_rightImg8bit.png",
    ),
    "Falling Things": ("s/000000.left.jpg s/000001.left.jpg", "s/000000.right.jpg s/000001.right.jpg"),
    "Spring": ("f/frame_left_0001.png f/frame_left_0002.png", "g/frame_right_0001.png g/frame_right_0002.png"),
    "EuRoC": (
        "cam0/data/1403636579763555584.png cam0/data/1403636579813555456.png",
        "cam1/data/1403636579763555584.png cam1/data/1403636579813555456.png",
    ),
    "Virtual KITTI": (
        "a/Camera_0/rgb_00001.jpg b/Camera_0/rgb_00001.jpg",
        "a/Camera_1/rgb_00001.jpg b/Camera_1/rgb_00001.jpg",
    ),
    "prefixes": ("left_0001.png left_0002.png", "right_0001.png right_0002.png"),
    "capitals": ("IMG_0001_L.JPG IMG_0002_L.JPG", "IMG_0001_R.JPG IMG_0002_R.JPG"),
    "glued letters": ("f/0001L.png f/0002L.png", "f/0001R.png f/0002R.png"),
    "glued words": ("f/imgLeft1.png f/imgLeft2.png", "f/imgRight1.png f/imgRight2.png"),
    "serial numbers": ("18284512_0001.png 18284512_0002.png", "18284509_0001.png 18284509_0002.png"),
    "two cameras": ("camA/frame1.png camA/frame2.png", "camB/frame1.png camB/frame2.png"),
    "other padding": ("l/1_left.png l/2_left.png", "r/0001_right.png r/0002_right.png"),
    "other suffix": ("l/a.png l/b.png", "r/a.jpg r/b.jpg"),
}


@pytest.mark.parametrize("names", REAL_NAMES.values(), ids=REAL_NAMES.keys())
def test_pairs_of_real_recordings(names):
    left, right = (paths(side) for side in names)
    expected = list(zip(left, right, strict=True))
    assert pair_up(left, right).pairs == expected
    assert pair_up(left, right[::-1]).pairs == expected  # by name, not by order
    check_complete(pair_up(left, right))


@pytest.mark.parametrize("names", REAL_NAMES.values(), ids=REAL_NAMES.keys())
def test_a_missing_image_is_named(names):
    left, right = (paths(side) for side in names)
    pairing = pair_up(left, right[:1])
    assert pairing.pairs in ([(left[0], right[0])], [])  # never with the wrong one
    with pytest.raises(InputError):
        check_complete(pairing)


def test_a_dropped_frame_is_told():
    left, right = paths("l/img1.png l/img2.png l/img3.png"), paths("r/img1.png r/img3.png r/img4.png")
    pairing = pair_up(left, right)
    assert pairing.pairs == [(left[0], right[0]), (left[2], right[1])]
    with pytest.raises(InputError, match=r"l/img2.png has no right image; r/img4.png has no left image; .*2 pairs are"):
        check_complete(pairing)


def test_many_lone_images_are_counted():
    left = [Path(f"l/{n}.png") for n in range(20)]
    with pytest.raises(InputError, match=r"l/10.png has no right image; .*l/13.png has no right image; and 6 more;"):
        check_complete(pair_up(left, [Path("r") / path.name for path in left[:10]]))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("000000_10.png 000001_10.png", "000000_11.png 000001_11.png"),  # KITTI: the next moment, not the other camera
        ("a.png b.png", "c.png d.png"),
        ("img1.png img2.png", "img2.png img3.png"),
        ("s1/im0.png s2/im0.png", "s3/im1.png s4/im1.png"),
    ],
)
def test_names_that_do_not_agree_are_not_paired_by_order(left, right):
    with pytest.raises(InputError, match="--list"):
        check_complete(pair_up(paths(left), paths(right)))


def test_time_stamps_may_differ_a_little():
    left = paths("l/1700000000000000000.png l/1700000000100000000.png l/1700000000200000000.png")
    right = paths("r/1700000000000800000.png r/1700000000099000000.png r/1700000000203000000.png")
    pairing = pair_up(left, right)
    assert pairing.pairs == list(zip(left, right, strict=True))
    assert "differ by up to 3000000" in pairing.note
    dropped = pair_up(left, [right[0], right[2], Path("r/1700000000301000000.png")])
    assert dropped.pairs == [(left[0], right[0]), (left[2], right[2])]
    assert dropped.lone_left == [left[1]]
    early, late = (
        paths("left_1700000000.1.png left_1700000000.2.png"),
        paths("r_1700000000.101.png r_1700000000.199.png"),
    )
    assert pair_up(early, late).pairs == list(zip(early, late, strict=True))
    frames = pair_up(paths("l/0001.png l/0002.png"), paths("r/0002.png r/0003.png"))  # numbers of frames are no times
    assert len(frames.pairs) == 1


def test_two_single_images_are_a_pair_whatever_their_names_are():
    assert pair_up([Path("a.png")], [Path("b.jpg")]).pairs == [(Path("a.png"), Path("b.jpg"))]


def test_lists_of_pairs(tmp_path):
    file = tmp_path / "pairs.txt"
    file.write_text("# left right\n\n a.png\tb.png \n'my left.png' \"my right.png\"\nc#1.png d\\1.png\n")
    assert read_list(str(file)) == [
        (Path("a.png"), Path("b.png")),
        (Path("my left.png"), Path("my right.png")),
        (Path("c#1.png"), Path("d\\1.png")),
    ]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"a.png b.png\nmy left.png b.png\n", "line 2 holds 3 names instead of 2"),
        (b"a.png\n", "line 1 holds 1 name instead of 2"),
        (b"'a.png b.png\n", "line 1: a quotation mark is not closed"),
        (b"# nothing\n", "names no pair"),
        (b"\xff\xfe\x00", "is not a text file"),
        (b"", "is empty"),
    ],
)
def test_bad_lists(tmp_path, content, complaint):
    file = tmp_path / "pairs.txt"
    file.write_bytes(content)
    with pytest.raises(InputError, match=complaint):
        read_list(str(file))


def test_names_of_results_are_unique():
    assert output_names(paths("a/left/1.png b/left/1.png")) == ["a_left_1", "b_left_1"]
    with pytest.raises(InputError, match=r"a.png is given twice"):
        output_names(paths("a.png b.png a.png"))
    with pytest.raises(InputError, match="same name"):
        output_names(paths("a.png a.jpg"))


def test_hidden_files_and_impossible_names(tmp_path):
    for name in ("1.png", "._1.png", ".thumb.png", "notes.txt"):
        (tmp_path / name).touch()
    assert find_images(str(tmp_path)) == [tmp_path / "1.png"]
    with pytest.raises(InputError, match="cannot be the name of a file"):
        find_images("x" * 300)
