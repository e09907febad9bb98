from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linstereo.data.formats.calibration_files import (
    read_kitti_calibration,
    read_middlebury_calibration,
    write_middlebury_calibration,
)
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration

MIDDLEBURY = """cam0=[3997.684 0 1176.728; 0 3997.684 1011.728; 0 0 1]
cam1=[3997.684 0 1307.839; 0 3997.684 1011.728; 0 0 1]
doffs=131.111
baseline=193.001
width=2964
height=1988
ndisp=280
"""
P = "721.5377 0 609.5593 {} 0 721.5377 172.854 {} 0 0 1 {}"
KITTI_RAW = "calib_time: 09-Jan-2012 13:57:47\nR_rect_02: 1 0 0 0 1 0 0 0 1\n" + "\n".join(
    f"P_rect_0{camera}: {P.format(offset, 0.2, 0.003)}"
    for camera, offset in enumerate(("0.0", "-387.5744", "44.85728", "-339.5242"))
)
positive = st.floats(1e-3, 1e6)
anywhere = st.floats(-1e6, 1e6)


def test_middlebury(tmp_path: Path) -> None:
    (tmp_path / "calib.txt").write_text(MIDDLEBURY)
    assert read_middlebury_calibration(tmp_path / "calib.txt") == StereoCalibration(
        focal=3997.684, baseline=0.193001, cx=1176.728, cy=1011.728, doffs=131.111
    )


def test_middlebury_without_doffs(tmp_path: Path) -> None:
    (tmp_path / "calib.txt").write_text(MIDDLEBURY.replace("doffs=131.111\n", ""))
    assert read_middlebury_calibration(tmp_path / "calib.txt").doffs == pytest.approx(131.111)


@pytest.mark.parametrize(("old", "new"), [("\n", "\r\n"), ("=", " = "), ("; ", " ; "), ("[", "[ "), ("\n", " \n ")])
def test_middlebury_spacing(tmp_path: Path, old: str, new: str) -> None:
    (tmp_path / "calib.txt").write_text(MIDDLEBURY.replace(old, new), newline="")
    assert read_middlebury_calibration(tmp_path / "calib.txt").focal == 3997.684


@given(focal=positive, baseline=positive, cx=anywhere, cy=anywhere, doffs=anywhere)
def test_middlebury_round_trip_is_exact(
    scratch: Path, focal: float, baseline: float, cx: float, cy: float, doffs: float
) -> None:
    calibration = StereoCalibration(focal=focal, baseline=baseline, cx=cx, cy=cy, doffs=doffs)
    write_middlebury_calibration(scratch / "calib.txt", calibration, width=640, height=480)
    assert read_middlebury_calibration(scratch / "calib.txt") == calibration


def test_middlebury_file_as_others_read_it(tmp_path: Path) -> None:
    calibration = StereoCalibration(focal=np.float64(320), baseline=0.25, cx=np.float64(320), cy=240.0, doffs=-1.5)
    write_middlebury_calibration(tmp_path / "calib.txt", calibration, width=640, height=480, max_disparity=192)
    assert (tmp_path / "calib.txt").read_text().splitlines() == [
        "cam0=[320.0 0 320.0; 0 320.0 240.0; 0 0 1]",
        "cam1=[320.0 0 318.5; 0 320.0 240.0; 0 0 1]",
        "doffs=-1.5",
        "baseline=250.00",
        "width=640",
        "height=480",
        "ndisp=192",
    ]


@pytest.mark.parametrize("grey", [False, True])
def test_kitti(tmp_path: Path, grey: bool) -> None:
    text = KITTI_RAW if not grey else KITTI_RAW.replace("P_rect_0", "P")
    (tmp_path / "a.txt").write_text(text)
    expected = 387.5744 / 721.5377 if grey else (44.85728 + 339.5242) / 721.5377
    calibration = read_kitti_calibration(tmp_path / "a.txt", grey=grey)
    assert calibration.baseline == pytest.approx(expected)
    assert (calibration.focal, calibration.cx, calibration.cy) == (721.5377, 609.5593, 172.854)
    assert (calibration.doffs, calibration.aspect) == (0.0, 1.0)


def test_kitti_names_agree(tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text(KITTI_RAW)
    (tmp_path / "object.txt").write_text(KITTI_RAW.replace("P_rect_0", "P"))
    assert read_kitti_calibration(tmp_path / "raw.txt") == read_kitti_calibration(tmp_path / "object.txt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", r"has no line cam0=\[\.\.\.\]"),
        (MIDDLEBURY.replace("cam1", "cam2"), "has no line cam1"),
        (MIDDLEBURY.replace("baseline", "base"), "has no line baseline"),
        (MIDDLEBURY.replace("0 0 1]", "0 1]"), "has 8 numbers in cam0; it must be a matrix of 3 x 3"),
        (MIDDLEBURY.replace("193.001", "wide"), "has 'wide' where a number should be"),
        (MIDDLEBURY.replace("193.001", "-193"), r"is not a valid calibration: .*baseline is -0\.193"),
        (MIDDLEBURY.replace("193.001", "nan"), "has 'nan' where a number should be"),
        (MIDDLEBURY.replace("193.001", "1e999999"), "has '1e999999' where a number should be"),
        (MIDDLEBURY.replace("193.001", ""), "has '' where a number should be"),
        (MIDDLEBURY.replace("cam1=[3997.684", "cam1=[4100"), "has two focal lengths, 3997.68 and 4100"),
        (MIDDLEBURY.replace("3997.684", "0"), "focal is 0; it must be greater than 0"),
        (MIDDLEBURY.replace("0 3997.684 1011.728", "0 -3997.684 1011.728"), "aspect"),
    ],
)
def test_bad_middlebury_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "calib.txt").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_middlebury_calibration(tmp_path / "calib.txt")
    assert str(tmp_path / "calib.txt") in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "is not a KITTI calibration file with P_rect_02 and P_rect_03 or P2 and P3"),
        (KITTI_RAW.replace("P_rect_03", "P3"), "is not a KITTI calibration file"),
        (KITTI_RAW.replace(" 0 0 1 ", " 0 1 "), "has 11 numbers in P_rect_02; it must be a matrix of 3 x 4"),
        (KITTI_RAW.replace("44.85728", "-400"), "baseline is -"),
        (KITTI_RAW.replace("721.5377", "0"), "focal lengths 0 and 0; they must be equal and not 0"),
        (KITTI_RAW.replace("44.85728", "x"), "has 'x' where a number should be"),
    ],
)
def test_bad_kitti_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        read_kitti_calibration(tmp_path / "a.txt")


def test_binary_files_are_no_calibration(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(np.random.default_rng(0).bytes(2000))
    for read in (read_middlebury_calibration, read_kitti_calibration):
        with pytest.raises(InputError, match=r"a\.txt"):
            read(tmp_path / "a.txt")
