from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from linstereo.data.formats.disparity import read_disparity, write_disparity
from linstereo.data.formats.exr import write_exr
from linstereo.data.formats.npy import write_npy
from linstereo.data.formats.pfm import write_pfm
from linstereo.errors import InputError

shapes = hnp.array_shapes(min_dims=2, max_dims=2, max_side=7)
WITH_HOLES = np.array([[1.5, np.inf, np.nan], [-np.inf, 0.0, -1.0]], dtype=np.float32)
EXPECTED = np.array([[1.5, 0, 0], [0, 0, 0]], dtype=np.float32)


@given(disparity=hnp.arrays(np.float32, shapes, elements=st.floats(0, 2**20, width=32)))
@pytest.mark.parametrize("suffix", [".pfm", ".npy"])
def test_float_formats_are_exact(scratch: Path, disparity: np.ndarray, suffix: str) -> None:
    path = scratch / f"a{suffix}"
    write_disparity(path, disparity)
    back = read_disparity(path)
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, disparity)


@given(steps=hnp.arrays(np.uint16, shapes))
def test_png_is_exact_for_steps_of_1_256(scratch: Path, steps: np.ndarray) -> None:
    path = scratch / "a.png"
    disparity = steps.astype(np.float32) / 256
    write_disparity(path, disparity)
    np.testing.assert_array_equal(cv2.imread(str(path), cv2.IMREAD_UNCHANGED), steps)
    np.testing.assert_array_equal(read_disparity(path), disparity)


@given(disparity=hnp.arrays(np.float32, shapes, elements=st.floats(0, 255.9921875, width=32)))
def test_png_rounds_to_the_nearest_and_keeps_what_is_known(scratch: Path, disparity: np.ndarray) -> None:
    path = scratch / "a.png"
    write_disparity(path, disparity)
    back = read_disparity(path)
    np.testing.assert_array_equal(back > 0, disparity > 0)
    small = (disparity > 0) & (disparity < 1 / 512)
    assert np.abs(back - disparity)[~small].max(initial=0) <= 1 / 512
    assert (back[small] == np.float32(1 / 256)).all()


@pytest.mark.parametrize("value", [256.0, 255.999, -0.25, np.nan, np.inf])
def test_png_refuses_what_it_cannot_hold(tmp_path: Path, value: float) -> None:
    path = tmp_path / "a.png"
    with pytest.raises(InputError, match=r"cannot write .*a\.png: .*write \.pfm"):
        write_disparity(path, np.array([[1.0, value]]))
    assert not list(tmp_path.iterdir())


def test_unknown_pixels_are_0_in_all_formats(tmp_path: Path) -> None:
    write_pfm(tmp_path / "a.pfm", WITH_HOLES)
    write_npy(tmp_path / "a.npy", WITH_HOLES)
    write_npy(tmp_path / "b.npy", WITH_HOLES.astype(np.float64))
    write_exr(tmp_path / "a.exr", WITH_HOLES)
    write_disparity(tmp_path / "a.png", EXPECTED)
    for name in ("a.pfm", "a.npy", "b.npy", "a.exr", "a.png"):
        back = read_disparity(tmp_path / name)
        assert back.dtype == np.float32
        np.testing.assert_array_equal(back, EXPECTED)


def test_integers_in_npy(tmp_path: Path) -> None:
    write_npy(tmp_path / "a.npy", np.array([[3, 0, -16]], dtype=np.int16))
    np.testing.assert_array_equal(read_disparity(tmp_path / "a.npy"), np.array([[3, 0, 0]], dtype=np.float32))


def test_opposite_sign_is_refused(tmp_path: Path) -> None:
    write_pfm(tmp_path / "a.pfm", np.array([[-3.0, np.inf, -20.0, 0.0]], dtype=np.float32))
    with pytest.raises(InputError, match=r"a\.pfm holds only negative disparities; change their sign"):
        read_disparity(tmp_path / "a.pfm")


def test_map_without_any_known_pixel(tmp_path: Path) -> None:
    write_pfm(tmp_path / "a.pfm", np.full((2, 3), np.inf, dtype=np.float32))
    np.testing.assert_array_equal(read_disparity(tmp_path / "a.pfm"), np.zeros((2, 3)))


def test_suffix_in_capitals(tmp_path: Path) -> None:
    write_disparity(tmp_path / "a.PFM", EXPECTED)
    np.testing.assert_array_equal(read_disparity(tmp_path / "a.PFM"), EXPECTED)


def test_unsuitable_files(tmp_path: Path) -> None:
    write_pfm(tmp_path / "colour.pfm", np.zeros((2, 2, 3)))
    with pytest.raises(InputError, match="colour PFM"):
        read_disparity(tmp_path / "colour.pfm")
    assert cv2.imwrite(str(tmp_path / "grey.png"), np.ones((2, 2), dtype=np.uint8))
    with pytest.raises(InputError, match="8-bit PNG; a disparity map must have 16 bits"):
        read_disparity(tmp_path / "grey.png")
    with pytest.raises(InputError, match=r"has the suffix .\.jpg."):
        read_disparity(tmp_path / "a.jpg")
    for suffix in (".jpg", ""):
        with pytest.raises(InputError, match="the suffix"):
            write_disparity(tmp_path / f"a{suffix}", EXPECTED)
    with pytest.raises(InputError, match=r"has the shape \(2, 2, 2\)"):
        write_disparity(tmp_path / "a.pfm", np.zeros((2, 2, 2)))
    with pytest.raises(InputError, match="does not exist"):
        read_disparity(tmp_path / "nothing.pfm")
