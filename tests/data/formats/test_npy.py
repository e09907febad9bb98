import io
import tracemalloc
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


NOT_WHOLE = r"is no whole \.npy file of plain numbers"


def with_header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(8)


def forged(*, descr: str, shape: tuple[int, ...]) -> bytes:
    return with_header(f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\x03\x04" + bytes(40), NOT_WHOLE),
        (saved(np.zeros(5)), r"holds float64 values of the shape \(5,\); it must hold a map \[H, W\] of numbers"),
        (saved(np.zeros((2, 2, 2))), "it must hold a map"),
        (saved(np.zeros((2, 2), dtype=complex)), "it must hold a map"),
        (saved(np.zeros((2, 2), dtype=bool)), "it must hold a map"),
        (saved(np.zeros((2, 2), dtype=np.longdouble)), "it must hold a map"),
        (saved(np.array([[1, "a"], [None, {}]], dtype=object)), NOT_WHOLE),
        (saved(np.zeros((0, 3))), r"\(0, 3\); it must hold a map"),
        (saved(np.zeros((3, 3)))[:-1], NOT_WHOLE),
        (saved(np.zeros((3, 3))) + b"x", "has data after its values"),
        (saved(np.zeros((3, 3)))[:20], NOT_WHOLE),
        (b"\x93NUMPY\x07\x00" + bytes(20), NOT_WHOLE),
        *((forged(descr="<f4", shape=(side, side)), NOT_WHOLE) for side in (10**5, 4 * 10**9, 2**32, 10**30, -1)),
        (forged(descr="<f1", shape=(1, 1)), NOT_WHOLE),
        (forged(descr="(100000,100000)f4", shape=(1, 1)), NOT_WHOLE),
        (with_header("(" * 9000), NOT_WHOLE),
        (with_header("-" * 9000 + "1"), NOT_WHOLE),
        (with_header("__import__('os').abort()"), NOT_WHOLE),
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


def test_nothing_is_allocated_for_a_forged_size(tmp_path: Path) -> None:
    path = tmp_path / "huge.npy"
    path.write_bytes(forged(descr="<f8", shape=(2**13, 2**13)))  # 512 MiB, which any machine would hand out
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=NOT_WHOLE):
            read_npy(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
