import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from linstereo.data.formats.npy import read_npy, write_npy
from linstereo.errors import InputError

DTYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">f4", ">f8", ">i2", ">u8")
maps = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(np.dtype(dtype), hnp.array_shapes(min_dims=2, max_dims=2, max_side=6))
)


@given(array=maps, fortran=st.booleans(), version=st.sampled_from([(1, 0), (2, 0), (3, 0)]))
def test_reads_what_numpy_writes(scratch: Path, array: np.ndarray, fortran: bool, version: tuple[int, int]) -> None:
    path = scratch / "a.npy"
    with path.open("wb") as stream:
        np.lib.format.write_array(stream, np.asfortranarray(array) if fortran else array, version=version)
    back = read_npy(path)
    assert back.dtype == array.dtype.newbyteorder("=")
    assert back.dtype.isnative
    np.testing.assert_array_equal(back, array)


@given(array=maps)
def test_numpy_reads_what_is_written(scratch: Path, array: np.ndarray) -> None:
    path = scratch / "a.npy"
    write_npy(path, array)
    for back in (np.load(path, allow_pickle=False), read_npy(path)):
        np.testing.assert_array_equal(back, array)


def saved(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def with_header(text: str, body: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + body


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\x03\x04" + bytes(40), r"is not a \.npy file"),
        (saved(np.zeros(5)), r"must hold a two-dimensional array of numbers, but its header says .*\(5,\)"),
        (saved(np.zeros((2, 2, 2))), "must hold a two-dimensional array"),
        (saved(np.zeros((2, 2), dtype=complex)), "must hold a two-dimensional array"),
        (saved(np.zeros((2, 2), dtype=bool)), "must hold a two-dimensional array"),
        (saved(np.array([[1, "a"], [None, {}]], dtype=object)), "must hold a two-dimensional array"),
        (saved(np.zeros((0, 3))), "0 x 3 needs 0"),
        (saved(np.zeros((3, 3)))[:-1], "holds 71 bytes of values where an array of 3 x 3 needs 72"),
        (saved(np.zeros((3, 3))) + b"x", "holds 73 bytes"),
        (saved(np.zeros((3, 3)))[:20], "must hold|damaged"),
        (b"\x93NUMPY\x07\x00" + bytes(20), r"version 7\.0"),
        (
            with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, 4000000000), }\n", bytes(8)),
            "4000000000 x 4000000000 needs",
        ),
        (with_header("{'descr': '<f1', 'fortran_order': False, 'shape': (1, 1), }\n", bytes(1)), "unknown type 'f1'"),
        (with_header("(" * 9000, bytes(8)), "must hold a two-dimensional array"),
    ],
)
def test_bad_files(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "bad.npy"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        read_npy(path)
    assert str(path) in str(caught.value)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (tmp_path / "sprung",))  # type: ignore[return-value]

    path = tmp_path / "trap.npy"
    np.save(path, np.array([[Trap()]], dtype=object), allow_pickle=True)
    with pytest.raises(InputError):
        read_npy(path)
    assert not (tmp_path / "sprung").exists()
    np.load(path, allow_pickle=True)
    assert (tmp_path / "sprung").exists(), "the trap itself must work, or this test shows nothing"


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros((1, 2, 3)), np.array([["a"]]), np.zeros((0, 2))])
def test_unsuitable_arrays_are_refused(tmp_path: Path, array: np.ndarray) -> None:
    with pytest.raises(InputError, match="cannot write"):
        write_npy(tmp_path / "a.npy", array)
    assert not list(tmp_path.iterdir())
