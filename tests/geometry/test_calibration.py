import math

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration

VALID = {"focal": 320.0, "baseline": 0.25, "cx": 319.5, "cy": 239.5}


@pytest.mark.parametrize("field", ["focal", "baseline", "cx", "cy", "doffs", "aspect"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_not_finite_is_refused(field: str, value: float) -> None:
    with pytest.raises(InputError, match=field):
        StereoCalibration(**{**VALID, field: value})


@pytest.mark.parametrize("field", ["focal", "baseline", "aspect"])
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_not_positive_is_refused(field: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{field} is .* greater than 0"):
        StereoCalibration(**{**VALID, field: value})


def test_scaling_moves_the_principal_point_like_opencv_moves_pixels() -> None:
    """A blob around the principal point must stay there when OpenCV resizes the picture."""
    calibration = StereoCalibration(focal=100.0, baseline=0.1, cx=36.3, cy=21.8, doffs=4.0)
    y, x = np.mgrid[0:48, 0:64]
    blob = np.exp(-((x - calibration.cx) ** 2 + (y - calibration.cy) ** 2) / 18).astype(np.float32)
    for size in ((128, 96), (96, 144), (32, 24)):
        resized = cv2.resize(blob, size, interpolation=cv2.INTER_LINEAR)
        y2, x2 = np.mgrid[0 : size[1], 0 : size[0]]
        centre = (np.sum(x2 * resized) / resized.sum(), np.sum(y2 * resized) / resized.sum())
        scaled = calibration.scaled(size[0] / 64, size[1] / 48)
        assert (scaled.cx, scaled.cy) == pytest.approx(centre, abs=0.02)


def test_scaling_keeps_depth_and_both_focal_lengths() -> None:
    calibration = StereoCalibration(focal=100.0, baseline=0.1, cx=36.0, cy=21.0, doffs=4.0)
    scaled = calibration.scaled(2.0, 0.5)
    disparity = 6.0
    depth = calibration.focal * calibration.baseline / (disparity + calibration.doffs)
    assert scaled.focal * scaled.baseline / (2.0 * disparity + scaled.doffs) == pytest.approx(depth)
    assert (scaled.focal, scaled.focal_y) == pytest.approx((200.0, 50.0))


@given(st.floats(0.05, 20), st.floats(0.05, 20))
def test_scaling_there_and_back(sx: float, sy: float) -> None:
    calibration = StereoCalibration(**VALID, doffs=3.0, aspect=1.1)
    back = calibration.scaled(sx, sy).scaled(1 / sx, 1 / sy)
    for field in ("focal", "baseline", "cx", "cy", "doffs", "aspect"):
        assert getattr(back, field) == pytest.approx(getattr(calibration, field), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan, math.inf])
def test_absurd_factor_is_refused(factor: float) -> None:
    with pytest.raises(InputError, match="scale factor sy"):
        StereoCalibration(**VALID).scaled(1.0, factor)
