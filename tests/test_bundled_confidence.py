"""What the bundled model's confidence and the default filter of points must show."""

from pathlib import Path

import numpy as np
import pytest

import linstereo
from linstereo.data.datasets.catalogue import open_dataset
from linstereo.data.formats.pfm import read_pfm
from linstereo.data.formats.png import read_png_values
from linstereo.evaluation.confidence_metrics import (
    area_under_sparsification_error,
    expected_calibration_error,
    reliability,
    right_disparities,
    sparsification,
    top_half_error,
)
from linstereo.evaluation.flying_points import flying_points
from linstereo.geometry.occlusion import left_right_difference

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(scope="module")
def predictor():
    return linstereo.load(device="cpu")


@pytest.fixture(scope="module")
def rendered(predictor):
    """The rendered pairs of the package, which were not trained on, and what the model makes of them."""
    folders = [open_dataset("folder", EXAMPLES / name, None) for name in ("room", "reef")]
    samples = [folder[i] for folder in folders for i in range(len(folder))]
    return [(s, predictor.predict(s.left, s.right, calibration=s.calibration)) for s in samples]


def test_the_confidence_means_what_it_says(rendered):
    confidence = np.concatenate([result.confidence[sample.valid] for sample, result in rendered])
    right = np.concatenate(
        [right_disparities(result.disparity, sample.disparity)[sample.valid] for sample, result in rendered]
    )
    assert 0.02 < 1 - right.mean() < 0.5
    assert expected_calibration_error(reliability(confidence, right)) < 0.05


def test_the_default_filter_removes_flying_points_and_keeps_the_others(rendered):
    """All pairs together: a single one has too few flying points to judge."""
    flying, kept = [], []
    for sample, result in rendered:
        counted = sample.valid & (result.disparity >= 1)
        counted &= np.indices(counted.shape).sum(axis=0) % 5 == 0  # one in five pixels will do
        flies = flying_points(result.disparity, sample.disparity, sample.calibration, counted=counted)
        flying.append(flies[counted])
        kept.append(result.reliable()[counted])
    flying, kept = np.concatenate(flying), np.concatenate(kept)
    assert flying.mean() > 0.01
    assert flying.mean() < 0.045  # 0.054 while steps were blended and the weights were others
    assert 5 * flying[kept].mean() <= flying.mean()
    assert kept[~flying].mean() >= 0.8


def test_on_real_pairs_it_finds_the_errors_better_than_left_right_consistency(predictor, stereo_data):
    motorcycle, cones = stereo_data / "middlebury_v3/trainingQ/Motorcycle", stereo_data / "middlebury_2001_2003/cones"
    pairs = [
        (motorcycle / "im0.png", motorcycle / "im1.png", read_pfm(motorcycle / "disp0GT.pfm")),
        (cones / "im2.png", cones / "im6.png", read_png_values(cones / "disp2.png") / 4),
    ]
    error, confidence, consistency = [], [], []
    for left, right, truth in pairs:
        result = predictor.predict(left, right, occlusion=True)
        known = np.isfinite(truth) & (truth > 0)
        error.append(np.abs(result.disparity - truth)[known])
        confidence.append(result.confidence[known])
        difference = left_right_difference(result.disparity, result.right_disparity)
        consistency.append(-np.minimum(difference, 1e6)[known])
    ours, theirs = (sparsification(np.concatenate(error), np.concatenate(order)) for order in (confidence, consistency))
    assert area_under_sparsification_error(ours) <= 0.7 * area_under_sparsification_error(theirs)
    assert top_half_error(ours) <= 0.25
