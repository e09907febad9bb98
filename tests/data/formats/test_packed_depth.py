from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp
from tests.data.png_making import make_png

from linstereo.data.formats.packed_depth import read_packed_depth, write_packed_depth
from linstereo.errors import InputError

every_bit_pattern = hnp.arrays(np.uint32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=7)).map(
    lambda bits: bits.view(np.float32)
)


@given(depth=every_bit_pattern)
def test_round_trip_is_exact_and_the_official_way_agrees(scratch: Path, depth: np.ndarray) -> None:
    """TartanAir's documentation: view what OpenCV reads, unchanged, as little-endian floats."""
    path = scratch / "a.png"
    write_packed_depth(path, depth)
    official = np.squeeze(cv2.imread(str(path), cv2.IMREAD_UNCHANGED).view("<f4"), axis=-1)
    for back in (read_packed_depth(path), official):
        np.testing.assert_array_equal(back.view(np.uint32), depth.view(np.uint32))


def test_bytes_in_the_file(tmp_path: Path) -> None:
    """The lowest byte of the float is blue, then come green, red and alpha."""
    depth = np.array([[10000.0, 1.25]], dtype=np.float32)
    blue, green, red, alpha = np.moveaxis(depth[..., None].view(np.uint8), -1, 0)
    rows = np.stack([red, green, blue, alpha], axis=-1).reshape(1, 8)
    path = tmp_path / "a.png"
    path.write_bytes(make_png(rows, bit_depth=8, colour_type=6))
    np.testing.assert_array_equal(read_packed_depth(path), depth)


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3)])
def test_other_pngs_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = tmp_path / "a.png"
    assert cv2.imwrite(str(path), np.zeros(shape, dtype=np.uint8))
    with pytest.raises(InputError, match=r"a\.png is not a packed depth map"):
        read_packed_depth(path)


def test_unsuitable_arrays_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the depth map for .*a\.png has the shape"):
        write_packed_depth(tmp_path / "a.png", np.zeros((2, 2, 2)))
    assert not list(tmp_path.iterdir())
