"""The metrics against a plain float64 loop over pixels, the KITTI development kit, and every odd case."""

import math
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.evaluation.metrics import (
    DEPTH_METRICS,
    DISPARITY_METRICS,
    DepthRange,
    bad_threshold,
    score_depth,
    score_disparity,
)
from linstereo.geometry.calibration import StereoCalibration

TARTANAIR = StereoCalibration(focal=320.0, baseline=0.25, cx=320.0, cy=240.0)
OFFSET = StereoCalibration(focal=999.4, baseline=0.193, cx=300.0, cy=200.0, doffs=32.75)
RANGE = DepthRange(0.1, 50.0)


def loop_disparity(prediction, truth, counted, *, max_disparity=None) -> dict[str, float | None]:
    """Every disparity metric, one pixel after the other in Python floats."""
    epe, bad, outliers, pixels = 0.0, dict.fromkeys((0.5, 1.0, 2.0, 3.0, 4.0), 0), 0, 0
    for y in range(truth.shape[0]):
        for x in range(truth.shape[1]):
            d, t = float(prediction[y, x]), float(truth[y, x])
            if not counted[y, x] or (max_disparity is not None and not t < max_disparity):
                continue
            pixels += 1
            if not math.isfinite(d):
                epe += t
                outliers += 1
                bad = {k: n + 1 for k, n in bad.items()}
                continue
            error = abs(d - t)
            epe += error
            bad = {k: n + (error > k) for k, n in bad.items()}
            outliers += error > 3 and (t == 0 or error / t > 0.05)
    if pixels == 0:
        return dict.fromkeys(DISPARITY_METRICS)
    shares = {f"bad{k:g}": 100 * n / pixels for k, n in bad.items()}
    return {"EPE": epe / pixels, **shares, "D1": 100 * outliers / pixels}


def loop_depth(prediction, truth, counted, *, calibration, low, high) -> dict[str, float | None]:
    """Every depth metric, one pixel after the other in Python floats."""
    rows = []
    for d, t, used in zip(prediction.ravel().tolist(), truth.ravel().tolist(), counted.ravel(), strict=True):
        if not used or not low < t < high:
            continue
        shift = d + calibration.doffs
        known = math.isfinite(d)
        p = calibration.focal * calibration.baseline / shift if known and shift > 0 else math.inf
        p = min(max(p, low), high)
        ratio = max(p / t, t / p) if known else math.inf
        rows.append((abs(p - t) / t, (p - t) ** 2 / t, (p - t) ** 2, math.log(p / t) ** 2, ratio))
    if not rows:
        return dict.fromkeys(DEPTH_METRICS)
    n = len(rows)
    means = [math.fsum(row[i] for row in rows) / n for i in range(4)]
    shares = [sum(row[4] < 1.25**k for row in rows) / n for k in (1, 2, 3)]
    return dict(zip(DEPTH_METRICS, [*means[:2], math.sqrt(means[2]), math.sqrt(means[3]), *shares], strict=True))


def random_case(seed: int, *, shape: tuple[int, int], holes: float, odd: float):
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0.0, 220.0, shape).astype(np.float32)
    prediction = (truth + rng.normal(0.0, 3.0, shape) * rng.choice([0.3, 1.0, 8.0], shape)).astype(np.float32)
    for value in (np.nan, np.inf, -np.inf, 0.0, -4.0):
        prediction[rng.random(shape) < odd / 5] = value
    valid = rng.random(shape) >= holes
    truth[~valid] = rng.choice([0.0, np.nan, np.inf, -1.0], shape)[~valid].astype(np.float32)
    return prediction, truth, valid, rng.random(shape) < 0.3


def assert_same(measured: dict[str, float | None], expected: dict[str, float | None], tolerance: float) -> None:
    assert measured.keys() == expected.keys()
    for metric, value in expected.items():
        if value is None:
            assert measured[metric] is None
        else:
            assert measured[metric] == pytest.approx(value, rel=tolerance, abs=tolerance), metric


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    height=st.integers(1, 13),
    width=st.integers(1, 17),
    holes=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    odd=st.sampled_from([0.0, 0.2, 1.0]),
    max_disparity=st.sampled_from([None, 192.0, 60.0]),
)
def test_disparity_metrics_agree_with_a_loop_over_pixels(seed, height, width, holes, odd, max_disparity):
    prediction, truth, valid, occluded = random_case(seed, shape=(height, width), holes=holes, odd=odd)
    scores = score_disparity(
        prediction, truth, valid=valid, occluded=occluded, max_disparity=max_disparity, name="random"
    )
    masks = {"all": valid, "nonocc": valid & ~occluded, "occ": valid & occluded}
    assert scores.keys() == masks.keys()
    for region, mask in masks.items():
        expected = loop_disparity(prediction, truth, mask, max_disparity=max_disparity)
        assert_same(scores[region].values(), expected, 1e-12)
    for count in ("pixels", "non_finite"):
        whole, seen, hidden = (getattr(scores[region], count) for region in ("all", "nonocc", "occ"))
        assert whole == seen + hidden


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    height=st.integers(1, 13),
    width=st.integers(1, 17),
    holes=st.sampled_from([0.0, 0.3, 1.0]),
    odd=st.sampled_from([0.0, 0.2, 1.0]),
    calibration=st.sampled_from([TARTANAIR, OFFSET]),
    bounds=st.sampled_from([(0.1, 50.0), (0.1, 2.0)]),
)
def test_depth_metrics_agree_with_a_loop_over_pixels(seed, height, width, holes, odd, calibration, bounds):
    prediction, _, valid, occluded = random_case(seed, shape=(height, width), holes=holes, odd=odd)
    truth = np.random.default_rng(seed + 1).choice(
        np.array([0.05, 0.1, 0.4, 1.1, 1.9, 3.0, 17.0, 49.0, 50.0, 1e4, np.inf, np.nan, -1.0, 0.0], np.float32),
        (height, width),
    )
    scores = score_depth(
        prediction,
        truth,
        valid=valid,
        calibration=calibration,
        depth_range=DepthRange(*bounds),
        occluded=occluded,
        name="random",
    )
    masks = {"all": valid, "nonocc": valid & ~occluded, "occ": valid & occluded}
    for region, mask in masks.items():
        expected = loop_depth(prediction, truth, mask, calibration=calibration, low=bounds[0], high=bounds[1])
        assert_same(scores[region].values(), expected, 3e-7)  # depth is float32


def read_kitti(path: Path) -> NDArray[np.float32]:
    return cv2.imread(str(path), cv2.IMREAD_UNCHANGED).astype(np.float32) / 256


def test_kitti_development_kit_pair_to_the_last_digit(stereo_data):
    folder = stereo_data / "kitti_devkit_2015"
    truth, estimate = read_kitti(folder / "disp_gt.png"), read_kitti(folder / "disp_est.png")
    score = score_disparity(estimate, truth, valid=truth > 0)["all"]
    assert score.pixels == 111_326
    assert score.non_finite == 0
    assert score.sums["bad3"] == 16_638
    assert score.sums["D1"] == 15_166
    assert score.value("D1") == 100 * 15_166 / 111_326
    assert f"{score.value('D1'):.6f}" == "13.623053"
    holes = (estimate == 0) & (truth > 0)
    assert np.count_nonzero(holes) == 199  # counted as disparity 0, as the reference figures do


def test_thresholds_are_strict():
    truth = np.array([[10.0, 100.0, 60.0, 60.0, 100.0]], np.float32)
    prediction = np.array([[13.0, 105.0, 63.0, 63.5, 106.0]], np.float32)
    score = score_disparity(prediction, truth, valid=np.ones((1, 5), bool))["all"]
    assert score.sums["bad3"] == 3  # 105, 63.5 and 106; exactly 3 px off is not bad
    assert score.sums["D1"] == 2  # 63.5 and 106; exactly 5 % off is no outlier
    truth, prediction = np.array([[4.0, 8.0]], np.float32), np.array([[16.0, 16.0]], np.float32)
    calibration = StereoCalibration(focal=80.0, baseline=1.0, cx=0.0, cy=0.0)  # 5 m both
    score = score_depth(prediction, truth, valid=np.ones((1, 2), bool), calibration=calibration, depth_range=RANGE)[
        "all"
    ]
    assert [score.sums[metric] for metric in ("A1", "A2", "A3")] == [0, 1, 2]  # ratios 1.25 and 1.6


def test_range_ends_are_excluded():
    truth = np.array([[191.5, 192.0, 192.5]], np.float32)
    score = score_disparity(truth, truth, valid=np.ones((1, 3), bool), max_disparity=192)["all"]
    assert score.pixels == 1
    depth = np.array([[0.5, 0.75, 2.0, 4.0]], np.float32)
    score = score_depth(
        depth, depth, valid=np.ones((1, 4), bool), calibration=TARTANAIR, depth_range=DepthRange(0.5, 4.0)
    )["all"]
    assert score.pixels == 2


def test_image_without_valid_pixel_has_no_value():
    image = np.ones((4, 5), np.float32)
    nothing = np.zeros((4, 5), bool)
    for score in (
        score_disparity(image, image, valid=nothing)["all"],
        score_depth(image, image, valid=nothing, calibration=TARTANAIR, depth_range=RANGE)["all"],
    ):
        assert (score.pixels, score.non_finite) == (0, 0)
        assert set(score.values().values()) == {None}


def test_non_finite_prediction_is_wrong_and_counted():
    truth = np.full((2, 3), 2.0, np.float32)  # so near 0 that disparity 0 alone would not be bad-3
    prediction = truth.copy()
    prediction[0, :] = [np.nan, np.inf, -np.inf]
    score = score_disparity(prediction, truth, valid=np.ones((2, 3), bool))["all"]
    assert score.non_finite == 3
    assert score.value("EPE") == 1.0
    assert {score.value(metric) for metric in DISPARITY_METRICS if metric != "EPE"} == {50.0}

    depth = np.full((2, 3), 40.0, np.float32)  # 2 px; the far end, 50 m, would be within a factor of 1.25^2
    score = score_depth(prediction, depth, valid=np.ones((2, 3), bool), calibration=TARTANAIR, depth_range=RANGE)["all"]
    assert score.non_finite == 3
    assert [score.value(metric) for metric in ("A1", "A2", "A3")] == [0.5, 0.5, 0.5]
    assert score.value("AbsRel") == pytest.approx(0.5 * 10 / 40, rel=1e-12)


def test_everything_non_finite_still_gives_numbers():
    truth = np.full((3, 3), 7.0, np.float32)
    lost = np.full((3, 3), np.nan, np.float32)
    everywhere = np.ones((3, 3), bool)
    score = score_disparity(lost, truth, valid=everywhere)["all"]
    assert score.value("EPE") == 7.0
    assert score.value("D1") == 100.0
    score = score_depth(lost, truth, valid=everywhere, calibration=TARTANAIR, depth_range=RANGE)["all"]
    assert score.value("RMSE") == 43.0
    assert score.value("A3") == 0.0


def test_zero_and_negative_disparity_are_at_the_far_end_of_the_range():
    truth = np.full((1, 3), 10.0, np.float32)
    prediction = np.array([[0.0, -5.0, 1e-30]], np.float32)
    score = score_depth(prediction, truth, valid=np.ones((1, 3), bool), calibration=TARTANAIR, depth_range=RANGE)["all"]
    assert score.non_finite == 0
    assert score.value("RMSE") == 40.0
    assert score.value("AbsRel") == 4.0
    assert score.value("LogRMSE") == pytest.approx(math.log(5), rel=1e-15)


def test_huge_disparity_is_at_the_near_end_of_the_range():
    truth = np.full((1, 1), 10.0, np.float32)
    prediction = np.full((1, 1), 1e30, np.float32)
    score = score_depth(prediction, truth, valid=np.ones((1, 1), bool), calibration=TARTANAIR, depth_range=RANGE)["all"]
    assert score.value("RMSE") == pytest.approx(9.9, rel=1e-12)


def test_constant_images():
    flat = np.full((6, 7), 12.5, np.float32)
    everywhere = np.ones((6, 7), bool)
    assert set(score_disparity(flat, flat, valid=everywhere)["all"].values().values()) == {0.0}
    score = score_disparity(flat + 2, flat, valid=everywhere)["all"].values()
    assert (score["EPE"], score["bad1"], score["bad2"], score["D1"]) == (2.0, 100.0, 0.0, 0.0)
    depth = np.full((6, 7), 80 / 12.5, np.float32)
    score = score_depth(flat, depth, valid=everywhere, calibration=TARTANAIR, depth_range=RANGE)["all"].values()
    assert score == {"AbsRel": 0, "SqRel": 0, "RMSE": 0, "LogRMSE": 0, "A1": 1, "A2": 1, "A3": 1}


def test_true_disparity_of_zero_has_a_defined_outlier_rule():
    truth = np.zeros((1, 3), np.float32)
    prediction = np.array([[0.0, 3.0, 3.5]], np.float32)
    score = score_disparity(prediction, truth, valid=np.ones((1, 3), bool))["all"]
    assert score.sums["D1"] == 1
    assert score.value("EPE") == pytest.approx(6.5 / 3, rel=1e-15)


def test_prediction_beyond_float32_counts_as_infinite():
    truth = np.full((1, 2), 5.0)
    score = score_disparity(np.array([[1e300, 5.0]]), truth, valid=np.ones((1, 2), bool))["all"]
    assert score.non_finite == 1
    assert score.value("EPE") == 2.5


def test_regions_follow_the_labels():
    image = np.ones((2, 2), np.float32)
    valid = np.array([[True, True], [True, False]])
    assert set(score_disparity(image, image, valid=valid)) == {"all"}
    occluded = np.array([[True, False], [False, True]])
    scores = score_disparity(image, image, valid=valid, occluded=occluded)
    assert {region: score.pixels for region, score in scores.items()} == {"all": 3, "nonocc": 2, "occ": 1}
    assert set(score_disparity(image, image, valid=valid, occluded=occluded, regions=("occ",))) == {"occ"}


def test_other_bad_thresholds_can_be_asked_for():
    truth = np.full((1, 4), 50.0, np.float32)
    prediction = truth + np.array([[0.0, 0.2, 0.4, 9.0]], np.float32)
    score = score_disparity(prediction, truth, valid=np.ones((1, 4), bool), metrics=("bad0.25", "bad8"))["all"]
    assert score.values() == {"bad0.25": 50.0, "bad8": 25.0}
    assert bad_threshold("bad0.25") == 0.25
    assert bad_threshold("D1") is None


IMAGE = np.ones((2, 3), np.float32)
VALID = np.ones((2, 3), bool)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prediction": np.ones((3, 2), np.float32)}, r"shape \(3, 2\), its ground truth \(2, 3\)"),
        ({"prediction": np.ones((2, 3, 1), np.float32)}, r"same \[H, W\]"),
        ({"prediction": np.ones((2, 3), np.uint8)}, "prediction of scene has the type uint8"),
        ({"truth": np.ones((2, 3), np.int32)}, "ground truth of scene has the type int32"),
        ({"valid": np.full((2, 3), 255, np.uint8)}, "boolean mask"),
        ({"valid": np.ones((2, 2), bool)}, r"mask \(2, 2\)"),
        ({"occluded": np.ones((2, 2), bool)}, "occlusion mask of scene"),
        ({"occluded": np.ones((2, 3), np.uint8)}, "occlusion mask of scene"),
        ({"truth": np.full((2, 3), np.nan, np.float32)}, "not finite at 6 pixels"),
        ({"truth": np.full((2, 3), -1.0, np.float32)}, "negative or not finite at 6 pixels"),
        ({"regions": ("everywhere",)}, "no region 'everywhere'"),
        ({"metrics": ("A1",)}, "'A1' is no disparity metric"),
        ({"metrics": ("badly",)}, "'badly' is no disparity metric"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(arguments, message):
    good = {"prediction": IMAGE, "truth": IMAGE, "valid": VALID, "name": "scene"}
    with pytest.raises(InputError, match=message):
        score_disparity(**(good | arguments))


def test_unknown_depth_metric_is_refused():
    with pytest.raises(InputError, match="'EPE' is no depth metric"):
        score_depth(IMAGE, IMAGE, valid=VALID, calibration=TARTANAIR, depth_range=RANGE, metrics=("AbsRel", "EPE"))
