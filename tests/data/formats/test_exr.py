import sys
from pathlib import Path

import numpy as np
import OpenEXR
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from linstereo.data.formats.exr import read_exr, write_exr
from linstereo.errors import InputError

shapes = hnp.array_shapes(min_dims=2, max_dims=2, max_side=9)
DEPTH = np.linspace(0.5, 40, 48, dtype=np.float32).reshape(6, 8)
SCANLINES = {"type": OpenEXR.scanlineimage}


@settings(max_examples=40)
@given(values=hnp.arrays(np.float32, shapes, elements=st.floats(width=32)))
def test_round_trip_is_exact(scratch: Path, values: np.ndarray) -> None:
    path = scratch / "a.exr"
    write_exr(path, values)
    official = OpenEXR.File(str(path), separate_channels=True).parts[0].channels["Z"].pixels
    for back in (read_exr(path), official):
        np.testing.assert_array_equal(back.view(np.uint32), values.view(np.uint32))


@settings(max_examples=40)
@given(values=hnp.arrays(np.float16, shapes, elements=st.floats(width=16)))
def test_half_round_trip_is_exact(scratch: Path, values: np.ndarray) -> None:
    path = scratch / "a.exr"
    write_exr(path, values, half=True)
    assert OpenEXR.File(str(path), separate_channels=True).parts[0].channels["Z"].pixels.dtype == np.float16
    back = read_exr(path)
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, values.astype(np.float32))


def test_half_overflow_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="above 65504"):
        write_exr(tmp_path / "a.exr", np.array([[70000.0]]), half=True)
    write_exr(tmp_path / "a.exr", np.array([[np.inf, 65504.0]]), half=True)
    np.testing.assert_array_equal(read_exr(tmp_path / "a.exr"), [[np.inf, 65504.0]])


@pytest.mark.parametrize(
    "names",
    [
        ["anything"],
        ["Z", "A"],
        ["Y"],
        ["ViewLayer.Combined.R", "ViewLayer.Normal.Z", "ViewLayer.Depth.Z"],
        ["Combined.R", "Combined.G", "Depth.V"],
        ["R", "G", "B", "depth"],
        ["left.disparity.Y", "left.Image.Y"],
    ],
)
def test_the_depth_channel_is_found(tmp_path: Path, names: list[str]) -> None:
    chosen = {"Z", "Y", "anything", "ViewLayer.Depth.Z", "Depth.V", "depth", "left.disparity.Y"} & set(names)
    channels = {name: DEPTH if name in chosen else DEPTH + 1 + index for index, name in enumerate(names)}
    OpenEXR.File(SCANLINES, channels).write(str(tmp_path / "a.exr"))
    np.testing.assert_array_equal(read_exr(tmp_path / "a.exr"), DEPTH)


@pytest.mark.parametrize(
    "compression",
    ["NO", "RLE", "ZIPS", "ZIP", "PIZ"],
)
def test_lossless_compressions(tmp_path: Path, compression: str) -> None:
    header = {**SCANLINES, "compression": getattr(OpenEXR, f"{compression}_COMPRESSION")}
    OpenEXR.File(header, {"Z": DEPTH, "R": DEPTH.astype(np.float16)}).write(str(tmp_path / "a.exr"))
    np.testing.assert_array_equal(read_exr(tmp_path / "a.exr"), DEPTH)


def test_grey_stored_as_rgb(tmp_path: Path) -> None:
    values = DEPTH.copy()
    values[0, 0] = np.nan
    OpenEXR.File(SCANLINES, {"R": values, "G": values, "B": values}).write(str(tmp_path / "a.exr"))
    np.testing.assert_array_equal(read_exr(tmp_path / "a.exr"), values)
    OpenEXR.File(SCANLINES, {"R": values, "G": values, "B": DEPTH}).write(str(tmp_path / "a.exr"))
    with pytest.raises(InputError, match=r"a\.exr has no depth channel, only B, G, R; name the one to read"):
        read_exr(tmp_path / "a.exr")
    np.testing.assert_array_equal(read_exr(tmp_path / "a.exr", channel="B"), DEPTH)


def test_several_depth_channels_need_a_name(tmp_path: Path) -> None:
    OpenEXR.File(SCANLINES, {"left.Depth.Z": DEPTH, "right.Depth.Z": DEPTH + 1}).write(str(tmp_path / "a.exr"))
    with pytest.raises(InputError, match="several depth channels"):
        read_exr(tmp_path / "a.exr")
    np.testing.assert_array_equal(read_exr(tmp_path / "a.exr", channel="right.Depth.Z"), DEPTH + 1)
    with pytest.raises(InputError, match=r"has no channel 'Q'; it has left\.Depth\.Z, right\.Depth\.Z"):
        read_exr(tmp_path / "a.exr", channel="Q")


def test_several_parts(tmp_path: Path) -> None:
    parts = [OpenEXR.Part({}, {"R": DEPTH + 1, "G": DEPTH}, "rgb"), OpenEXR.Part({}, {"Z": DEPTH}, "depth")]
    OpenEXR.File(parts).write(str(tmp_path / "a.exr"))
    np.testing.assert_array_equal(read_exr(tmp_path / "a.exr"), DEPTH)


def test_a_truncated_file_is_an_error_not_a_half_empty_map(tmp_path: Path) -> None:
    path = tmp_path / "a.exr"
    write_exr(path, np.random.default_rng(1).normal(size=(64, 64)))
    data = path.read_bytes()
    for length in (4, 100, 300, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match=r"a\.exr cannot be decoded as EXR"):
            read_exr(path)


def test_cropped_and_absurd_windows(tmp_path: Path) -> None:
    path = tmp_path / "a.exr"
    OpenEXR.File({**SCANLINES, "displayWindow": (np.array([0, 0], "i"), np.array([99, 99], "i"))}, {"Z": DEPTH}).write(
        str(path)
    )
    with pytest.raises(InputError, match="crop region"):
        read_exr(path)
    write_exr(path, DEPTH)
    window = np.array([0, 0, 7, 5], dtype="<i4").tobytes()
    data = path.read_bytes()
    assert data.count(window) == 2
    path.write_bytes(data.replace(window, np.array([0, 0, 2**20, 2**20], dtype="<i4").tobytes()))
    with pytest.raises(InputError, match=r"a\.exr says it is 1048577 x 1048577 pixels"):
        read_exr(path)


def test_not_an_exr_file(tmp_path: Path) -> None:
    (tmp_path / "a.exr").write_bytes(b"Pf\n1 1\n-1\n0000")
    with pytest.raises(InputError, match=r"a\.exr is not an EXR file"):
        read_exr(tmp_path / "a.exr")


def test_a_missing_package_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_exr(tmp_path / "a.exr", DEPTH)
    monkeypatch.setitem(sys.modules, "OpenEXR", None)
    with pytest.raises(InputError, match=r"a\.exr needs the package OpenEXR, .* run: pip install .*\[synth\]"):
        read_exr(tmp_path / "a.exr")
    with pytest.raises(InputError, match="pip install"):
        write_exr(tmp_path / "b.exr", DEPTH)
