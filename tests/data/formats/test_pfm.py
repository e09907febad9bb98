import struct
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from linstereo.data.formats.pfm import read_pfm, write_pfm
from linstereo.errors import InputError

shapes = st.one_of(
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=7),
    st.tuples(st.integers(1, 6), st.integers(1, 6), st.just(3)),
)
every_bit_pattern = shapes.flatmap(lambda shape: hnp.arrays(np.uint32, shape).map(lambda bits: bits.view(np.float32)))


@given(values=every_bit_pattern, little_endian=st.booleans())
def test_round_trip_is_exact(scratch: Path, values: np.ndarray, little_endian: bool) -> None:
    path = scratch / "a.pfm"
    write_pfm(path, values, little_endian=little_endian)
    back = read_pfm(path)
    assert back.dtype == np.float32
    assert back.dtype.isnative
    assert back.flags.c_contiguous
    np.testing.assert_array_equal(back.view(np.uint32), values.view(np.uint32))


def test_layout_by_hand(tmp_path: Path) -> None:
    """Two rows of three pixels, the bottom row first, big-endian, scale 1."""
    path = tmp_path / "a.pfm"
    path.write_bytes(b"Pf\n3 2\n1.0\n" + struct.pack(">6f", 4, 5, 6, 1, 2, 3))
    np.testing.assert_array_equal(read_pfm(path), [[1, 2, 3], [4, 5, 6]])
    write_pfm(path, np.array([[1, 2, 3], [4, 5, 6]]), little_endian=False)
    assert path.read_bytes() == b"Pf\n3 2\n1.0\n" + struct.pack(">6f", 4, 5, 6, 1, 2, 3)


@pytest.mark.parametrize(
    "header", [b"Pf\n2 1\n-1.0\n", b"Pf \n2 1 \n-1.0\n", b"Pf\n2\n1\n-0.003922\r\n", b"Pf 2 1 -1e0 \n"]
)
def test_headers_of_various_tools(tmp_path: Path, header: bytes) -> None:
    """The magnitude of the scale is ignored: Middlebury writes 0.003922 beside values in pixels."""
    path = tmp_path / "a.pfm"
    path.write_bytes(header + struct.pack("<2f", 7.5, 10.0))
    np.testing.assert_array_equal(read_pfm(path), [[7.5, 10.0]])


def test_first_value_may_look_like_a_line_end(tmp_path: Path) -> None:
    path = tmp_path / "a.pfm"
    values = np.frombuffer(b"\n\n\r\n", dtype="<f4").reshape(1, 1)
    path.write_bytes(b"Pf\n1 1\n-1\n" + values.tobytes())
    np.testing.assert_array_equal(read_pfm(path), values)


@pytest.mark.parametrize("channels", [1, 3])
def test_opencv_reads_what_is_written_and_the_other_way(tmp_path: Path, channels: int) -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(size=(9, 13, 3)).astype(np.float32)
    values = values if channels == 3 else values[..., 0]
    path = tmp_path / "a.pfm"
    write_pfm(path, values)
    decoded = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    np.testing.assert_array_equal(decoded[..., ::-1] if channels == 3 else decoded, values)
    other = tmp_path / "b.pfm"
    assert cv2.imwrite(str(other), np.ascontiguousarray(values[..., ::-1]) if channels == 3 else values)
    np.testing.assert_array_equal(read_pfm(other), values)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"P6\n2 2\n255\n" + bytes(12), "is not a PFM file"),
        (b"Pf\n2 2\n-1.0\n" + bytes(15), "holds 15 bytes of values where 2 x 2 pixels need 16"),
        (b"Pf\n2 2\n-1.0\n" + bytes(17), "holds 17 bytes of values where 2 x 2 pixels need 16"),
        (b"PF\n2 2\n-1.0\n" + bytes(16), "2 x 2 pixels need 48"),
        (b"Pf\n999999999 999999999\n-1.0\n" + bytes(16), "999999999 x 999999999 pixels need"),
        (b"Pf\n0 2\n-1.0\n", "0 x 2 pixels need 0"),
        (b"Pf\n2 2\n0.0\n" + bytes(16), "has the PFM scale '0.0'"),
        (b"Pf\n2 2\n-1e999\n" + bytes(16), "has the PFM scale '-1e999'"),
        (b"Pf\n2 2\n--1\n" + bytes(16), "has the PFM scale '--1'"),
        (b"Pf\n-2 2\n1\n" + bytes(16), "is not a PFM file"),
        (b"Pf\n2 2", "is not a PFM file"),
    ],
)
def test_bad_files(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "bad.pfm"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        read_pfm(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros((2, 2, 4)), np.zeros((0, 3)), np.zeros((2, 2), dtype=complex)])
def test_unsuitable_arrays_are_refused_and_nothing_is_written(tmp_path: Path, array: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"cannot write .*a\.pfm"):
        write_pfm(tmp_path / "a.pfm", array)
    assert not list(tmp_path.iterdir())


def test_overflow_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="beyond the range of 32-bit floats"):
        write_pfm(tmp_path / "a.pfm", np.array([[1e300]]))
    write_pfm(tmp_path / "a.pfm", np.array([[np.inf, -np.inf, np.nan]]))
    np.testing.assert_array_equal(read_pfm(tmp_path / "a.pfm"), [[np.inf, -np.inf, np.nan]])
