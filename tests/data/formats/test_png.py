from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.data.png_making import chunk, make_png

from linstereo.data.formats.png import check_png, read_png_values, write_png_values
from linstereo.errors import InputError

maps = st.sampled_from([np.uint8, np.uint16]).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9))
)


@given(values=maps)
def test_round_trip_is_exact_and_opencv_agrees(scratch: Path, values: np.ndarray) -> None:
    path = scratch / "a.png"
    write_png_values(path, values)
    for back in (read_png_values(path), cv2.imread(str(path), cv2.IMREAD_UNCHANGED)):
        assert back.dtype == values.dtype
        np.testing.assert_array_equal(back, values)


@given(values=maps)
def test_files_of_an_independent_encoder(scratch: Path, values: np.ndarray) -> None:
    path = scratch / "a.png"
    big_endian = values.astype(values.dtype.newbyteorder(">"))
    rows = big_endian.view(np.uint8).reshape(values.shape[0], -1)
    path.write_bytes(make_png(rows, bit_depth=8 * values.dtype.itemsize, colour_type=0))
    np.testing.assert_array_equal(read_png_values(path), values)


def test_grey_stored_as_rgb(tmp_path: Path) -> None:
    """Middlebury's disparities of 2001 and 2003 are published this way."""
    path = tmp_path / "a.png"
    values = np.arange(24, dtype=np.uint8).reshape(4, 6)
    assert cv2.imwrite(str(path), np.repeat(values[..., None], 3, axis=2))
    np.testing.assert_array_equal(read_png_values(path), values)


def valid_png(**changes: object) -> bytes:
    rows = np.arange(12, dtype=np.uint8).reshape(3, 4)
    return make_png(rows, bit_depth=8, colour_type=0, **changes)  # type: ignore[arg-type]


def test_header() -> None:
    header = check_png(valid_png(), "a.png")
    assert (header.width, header.height, header.bit_depth, header.colour_type) == (4, 3, 8, 0)
    assert check_png(valid_png() + b"something appended", "a.png") == header


def test_braces_in_a_name() -> None:
    with pytest.raises(InputError, match=r"a\{0\}\{x\}\.png is not a complete picture"):
        check_png(valid_png()[:-5], "a{0}{x}.png")


def test_every_truncation_is_found() -> None:
    data = valid_png()
    for length in range(len(data)):
        with pytest.raises(InputError, match=r"a\.png is not a"):
            check_png(data[:length], "a.png")


def test_every_flipped_bit_is_found() -> None:
    data = valid_png(extra=chunk(b"tEXt", b"Comment\0none"))
    for position in range(len(data)):
        for bit in range(8):
            altered = bytearray(data)
            altered[position] ^= 1 << bit
            with pytest.raises(InputError, match=r"a\.png"):
                check_png(bytes(altered), "a.png")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (valid_png(size=(2**31 - 1, 2**31 - 1)), "says it is 2147483647 x 2147483647 pixels"),
        (valid_png(size=(8192, 8192)), "bytes cannot hold 8192 x 8192 pixels"),
        (valid_png(size=(0, 3)), "says it is 0 x 3 pixels"),
        (b"\x89PNG\r\n\x1a\n" + chunk(b"IEND", b""), "its header is missing"),
        (b"GIF89a" + bytes(30), "is not a PNG file"),
    ],
)
def test_forged_headers(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_png(data, "a.png")


def test_less_data_than_the_header_says(tmp_path: Path) -> None:
    """Plausible by its size, with correct checksums, and still incomplete."""
    path = tmp_path / "a.png"
    path.write_bytes(valid_png(size=(4, 300)))
    with pytest.raises(InputError, match=r"a\.png cannot be decoded"):
        read_png_values(path)


@pytest.mark.parametrize("colour_type", [3, 4, 6])
def test_more_than_one_value_is_refused(tmp_path: Path, colour_type: int) -> None:
    path = tmp_path / "a.png"
    palette = chunk(b"PLTE", bytes(range(48)))
    path.write_bytes(make_png(np.zeros((2, 8), np.uint8), bit_depth=8, colour_type=colour_type, extra=palette))
    with pytest.raises(InputError, match="must be a grey PNG of 8 or 16 bits"):
        read_png_values(path)


def test_colour_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    assert cv2.imwrite(str(path), np.arange(18, dtype=np.uint8).reshape(2, 3, 3))
    with pytest.raises(InputError, match="is a colour picture"):
        read_png_values(path)


@pytest.mark.parametrize("values", [np.zeros((2, 2)), np.zeros((2, 2, 3), np.uint8), np.zeros((0, 2), np.uint8)])
def test_unsuitable_values_are_refused(tmp_path: Path, values: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"cannot write .*a\.png"):
        write_png_values(tmp_path / "a.png", values)
    assert not list(tmp_path.iterdir())
