import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth import depth_confidence, depth_to_disparity, disparity_to_depth

SHIFTED = StereoCalibration(focal=999.421, baseline=0.193001, cx=294.182, cy=252.932, doffs=32.778)
TARTANAIR = StereoCalibration(focal=320.0, baseline=0.25, cx=320.0, cy=240.0)

any_map = hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(width=32))


def naive_depth(disparity: float, calibration: StereoCalibration) -> float:
    shift = disparity + calibration.doffs
    if not math.isfinite(disparity) or shift <= 0:
        return math.inf
    return calibration.focal * calibration.baseline / shift


@given(any_map, st.sampled_from([SHIFTED, TARTANAIR]))
def test_depth_agrees_with_a_float64_loop(disparity: np.ndarray, calibration: StereoCalibration) -> None:
    depth = disparity_to_depth(disparity, calibration)
    assert depth.dtype == np.float32
    assert depth.shape == disparity.shape
    expected = [[naive_depth(float(value), calibration) for value in row] for row in disparity]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(depth, np.array(expected).astype(np.float32))


def test_known_values() -> None:
    depth = disparity_to_depth([[80.0, 8.0, 0.0, -1.0, np.nan, np.inf]], TARTANAIR)
    np.testing.assert_array_equal(depth, np.array([[1.0, 10.0, np.inf, np.inf, np.inf, np.inf]], dtype=np.float32))
    disparity = depth_to_disparity([[1.0, 10.0, 0.0, -1.0, np.nan, np.inf, -np.inf]], TARTANAIR)
    np.testing.assert_array_equal(disparity, np.array([[80.0, 8.0, 0, 0, 0, 0, 0]], dtype=np.float32))


def test_middlebury_offset_is_added() -> None:
    depth = disparity_to_depth([[40.0]], SHIFTED)
    np.testing.assert_allclose(depth, 999.421 * 0.193001 / (40.0 + 32.778), rtol=1e-6)


def test_farther_than_disparity_zero_is_unknown() -> None:
    farthest = SHIFTED.focal * SHIFTED.baseline / SHIFTED.doffs
    disparity = depth_to_disparity([[0.99 * farthest, 1.01 * farthest]], SHIFTED)
    assert disparity[0, 0] > 0
    assert disparity[0, 1] == 0


@given(hnp.arrays(np.float32, (3, 4), elements=st.floats(0.01953125, 1024, width=32)))
def test_there_and_back(disparity: np.ndarray) -> None:
    for calibration in (SHIFTED, TARTANAIR):
        back = depth_to_disparity(disparity_to_depth(disparity, calibration), calibration)
        np.testing.assert_allclose(back, disparity, rtol=2e-7, atol=1e-5)


@given(any_map)
def test_disparity_is_finite_and_not_negative(depth: np.ndarray) -> None:
    disparity = depth_to_disparity(depth, SHIFTED)
    assert np.isfinite(disparity).all()
    assert (disparity >= 0).all()


def test_near_points_are_as_sure_as_their_disparity() -> None:
    confidence = np.array([[0.0, 0.3, 0.9, 1.0]], np.float32)
    np.testing.assert_allclose(depth_confidence(confidence, np.full((1, 4), 20.0)), confidence, rtol=1e-6)
    np.testing.assert_allclose(depth_confidence(confidence, np.full((1, 4), 90.0)), confidence, rtol=1e-6)


def test_far_points_are_less_sure() -> None:
    # odds of 9 times (5 / 20)^1.5, an eighth
    assert math.isclose(depth_confidence(np.array([[0.9]], np.float32), [[5.0]])[0, 0], 1.125 / 2.125, rel_tol=1e-6)
    shifted = depth_confidence(np.array([[0.9]], np.float32), [[5.0 - SHIFTED.doffs]], SHIFTED)
    assert math.isclose(shifted[0, 0], 1.125 / 2.125, rel_tol=1e-5)


def test_a_negative_doffs_asks_more_of_the_disparity() -> None:
    # 40 px allow 2 px, of which half are 5 % of the depth
    crossed = StereoCalibration(focal=500.0, baseline=0.1, cx=10.0, cy=10.0, doffs=-20.0)
    odds = 9 * 0.5**1.5
    assert math.isclose(
        depth_confidence(np.array([[0.9]], np.float32), [[40.0]], crossed)[0, 0], odds / (odds + 1), rel_tol=1e-5
    )


def test_what_has_no_depth_is_not_confident() -> None:
    certain = np.ones((1, 5), np.float32)
    np.testing.assert_array_equal(depth_confidence(certain, [[0.0, -3.0, 1e-3, np.nan, np.inf]]), [[0, 0, 1, 0, 0]])


def test_the_confidence_of_depths_is_right_where_errors_are_those_of_a_scale() -> None:
    """Disparities that are off by Student's t of 1.5 degrees of freedom: the tail has the power of the odds' fall."""
    random = np.random.default_rng(5)
    for disparity in (4.0, 8.0, 14.0):
        error = np.abs(0.05 * random.standard_t(1.5, 400_000))
        confidence = np.full((1, 1), (error < 1).mean(), np.float32)
        told = depth_confidence(confidence, np.full((1, 1), disparity))[0, 0]
        assert abs(told - (error < 0.05 * disparity).mean()) < 0.01
