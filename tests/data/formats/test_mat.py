import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.data.mat_files import NESTED_OBJECTS, VALUES

from linstereo.data.formats.mat import read_mat
from linstereo.errors import InputError

NAMES = ("numbers", "halves", "bytes", "words", "text", "cells", "struct")


def element(kind: int, body: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "II", kind, len(body)) + body + bytes(-len(body) % 8)


def variable(
    name: str,
    array: np.ndarray,
    *,
    array_class: int = 6,
    kind: int = 9,
    order: str = "<",
    shape: tuple[int, ...] | None = None,
    flags: int = 0,
) -> bytes:
    body = element(6, struct.pack(order + "II", array_class | flags, 0), order)
    dimensions = array.shape if shape is None else shape
    body += element(5, struct.pack(f"{order}{len(dimensions)}i", *dimensions), order)
    body += element(1, name.encode(), order)
    body += element(kind, array.astype(array.dtype.newbyteorder(order)).tobytes(order="F"), order)
    return element(14, body, order)


def mat_file(*variables: bytes, order: str = "<") -> bytes:
    mark = b"IM" if order == "<" else b"MI"
    return b"MATLAB 5.0 MAT-file".ljust(116) + bytes(8) + struct.pack(order + "H", 0x0100) + mark + b"".join(variables)


def compressed(data: bytes) -> bytes:
    body = zlib.compress(data)
    return struct.pack("<II", 15, len(body)) + body


def test_values_that_scipy_wrote(tmp_path: Path) -> None:
    (tmp_path / "a.mat").write_bytes(VALUES)
    values = read_mat(tmp_path / "a.mat", names=NAMES)
    np.testing.assert_array_equal(values["numbers"], np.arange(12.0).reshape(3, 4) - 5)
    np.testing.assert_array_equal(values["halves"], np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 2)
    np.testing.assert_array_equal(values["bytes"], np.array([[1, 2, 250]]))
    np.testing.assert_array_equal(values["words"], np.array([[-3], [70000]]))
    types = [values[name].dtype for name in ("numbers", "halves", "bytes", "words")]
    assert types == [np.float64, np.float32, np.uint8, np.int32]
    assert values["text"] == "Hülle"
    first, second, third, fourth = values["cells"]
    assert (first, third, fourth) == (np.array([[1.5]]), "x", "yz")
    np.testing.assert_array_equal(second, [[1, 2]])
    assert values["struct"] == {"a": np.array([[7.0]]), "b": {"c": "deep"}}


def test_only_what_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.mat").write_bytes(VALUES)
    assert read_mat(tmp_path / "a.mat", names=("text", "nothing")) == {"text": "Hülle"}


def test_a_damaged_variable_does_not_disturb_the_others(tmp_path: Path) -> None:
    good = compressed(variable("good", np.ones((2, 2))))
    bad = bytearray(compressed(variable("bad", np.random.default_rng(0).normal(size=(50, 50)))))
    bad[-1] ^= 1
    (tmp_path / "a.mat").write_bytes(mat_file(bytes(bad), good))
    np.testing.assert_array_equal(read_mat(tmp_path / "a.mat", names=("good",))["good"], np.ones((2, 2)))
    with pytest.raises(InputError, match=r"a\.mat is a damaged .*incorrect data check"):
        read_mat(tmp_path / "a.mat", names=("bad",))


@pytest.mark.parametrize("order", ["<", ">"])
def test_byte_orders_and_narrow_storage(tmp_path: Path, order: str) -> None:
    """MATLAB stores doubles that are small integers as such."""
    narrow = np.arange(6, dtype=np.int16).reshape(2, 3)
    path = tmp_path / "a.mat"
    path.write_bytes(mat_file(variable("x", narrow, kind=3, order=order), order=order))
    value = read_mat(path, names=("x",))["x"]
    assert value.dtype == np.float64
    np.testing.assert_array_equal(value, narrow)


def test_objects_in_objects(tmp_path: Path) -> None:
    (tmp_path / "a.mat").write_bytes(NESTED_OBJECTS)
    values = read_mat(tmp_path / "a.mat", names=("other", "stereoParams"))
    assert values["other"].keys() == {"a", "b"}
    np.testing.assert_array_equal(values["other"]["b"], [[2, 3]])
    camera = values["stereoParams"]["CameraParameters2"]
    np.testing.assert_array_equal(camera["IntrinsicMatrix"], [[3010, 0, 0], [0, 3012, 0], [1360, 920, 1]])
    assert camera["WorldUnits"] == "millimeters"


HDF5 = b"MATLAB 7.3 MAT-file".ljust(512) + b"\x89HDF\r\n\x1a\n" + bytes(100)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (HDF5, r"is a MATLAB 7\.3 \(HDF5\) file; load it in MATLAB and save it again with -v7"),
        (HDF5[512:], r"is a MATLAB 7\.3"),
        (b"hello" * 50, r"is not a \.mat file of MATLAB 5 or later"),
        (VALUES[:100], r"is not a \.mat file"),
        (VALUES[:180], "it ends early"),
        (mat_file(variable("x", np.ones((2, 2)), shape=(2, 3))), "has 4 numbers in an array of the shape"),
        (mat_file(variable("x", np.ones((2, 2)), shape=(2**30, 2**30))), "absurd shape"),
        (mat_file(variable("x", np.ones((2, 2)), shape=(-1, -4))), "absurd shape"),
        (mat_file(variable("x", np.ones((2, 2)), kind=99)), "unknown type 99"),
        (mat_file(variable("x", np.ones((2, 2)), array_class=1, shape=(1, 10**6))), "it ends early"),
        (mat_file(element(77, bytes(8))), "unknown type 77"),
        (mat_file(compressed(element(14, bytes(2**20)))[:-4]), "a damaged"),
    ],
)
def test_bad_files(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "bad.mat"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        read_mat(path, names=("x", "numbers"))
    assert str(path) in str(caught.value)


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    nested = variable("", np.ones((1, 1)))
    for _ in range(200):
        body = element(6, struct.pack("<II", 1, 0)) + element(5, struct.pack("<2i", 1, 1)) + element(1, b"x")
        nested = element(14, body + nested)
    (tmp_path / "a.mat").write_bytes(mat_file(nested))
    with pytest.raises(InputError, match="nested too deeply"):
        read_mat(tmp_path / "a.mat", names=("x",))


def test_kinds_that_are_not_read_come_back_as_none(tmp_path: Path) -> None:
    (tmp_path / "a.mat").write_bytes(mat_file(variable("x", np.ones((2, 2)), flags=0x0800)))
    assert read_mat(tmp_path / "a.mat", names=("x",)) == {"x": None}


def test_objects_without_their_content(tmp_path: Path) -> None:
    """The variable refers to the subsystem, which was cut off."""
    subsystem_at = int.from_bytes(NESTED_OBJECTS[116:124], "little")
    (tmp_path / "a.mat").write_bytes(NESTED_OBJECTS[:subsystem_at])
    with pytest.raises(InputError, match=r"a\.mat is a damaged"):
        read_mat(tmp_path / "a.mat", names=("stereoParams",))
