"""Reliability and sparsification against cases that can be computed by hand, and brute force."""

import numpy as np
import pytest

from linstereo.errors import InputError
from linstereo.evaluation.confidence_metrics import (
    STEPS,
    area_under_sparsification_error,
    expected_calibration_error,
    reliability,
    right_disparities,
    sparsification,
    top_half_error,
)


def test_right_is_less_than_a_pixel_or_five_percent_off():
    truth = np.array([10.0, 10.0, 100.0, 100.0])
    found = truth + np.array([0.9, -1.1, 4.9, -5.1])
    np.testing.assert_array_equal(right_disparities(found, truth), [True, False, True, False])


def test_an_honest_confidence_has_no_calibration_error():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0, 1, 400_000)
    honest = reliability(confidence, rng.uniform(0, 1, confidence.shape) < confidence)
    assert expected_calibration_error(honest) < 0.005
    boastful = reliability(np.full(1000, 0.9), np.arange(1000) < 500)
    assert expected_calibration_error(boastful) == pytest.approx(0.4)


def test_the_calibration_error_is_that_of_its_definition():
    rng = np.random.default_rng(1)
    confidence, right = rng.beta(2, 1, 5000), rng.random(5000) < 0.6
    confidence[:3] = (0.0, 1.0, 0.1)
    expected = 0.0
    for place in range(10):
        chosen = (confidence >= place / 10) & ((confidence < (place + 1) / 10) | (place == 9))
        expected += chosen.mean() * abs(confidence[chosen].mean() - right[chosen].mean())
    assert expected_calibration_error(reliability(confidence, right)) == pytest.approx(expected, abs=1e-12)


def test_the_curve_is_that_of_sorting():
    rng = np.random.default_rng(2)
    error, confidence = rng.exponential(1, 1000), rng.random(1000)
    curve = sparsification(error, confidence)
    for k in (0, 10, 25, STEPS - 1):
        kept = 1000 - k * 1000 // STEPS
        assert curve.error[k] == pytest.approx(error[np.argsort(-confidence)[:kept]].mean())
        assert curve.perfect[k] == pytest.approx(np.sort(error)[:kept].mean())


def test_the_perfect_order_has_no_area_and_the_worst_has_the_most():
    rng = np.random.default_rng(3)
    error = rng.exponential(1, 2000)
    perfect, chance, worst = (
        area_under_sparsification_error(sparsification(error, order)) for order in (-error, rng.random(2000), error)
    )
    assert perfect == pytest.approx(0, abs=1e-12)
    assert 0 < chance < worst
    assert top_half_error(sparsification(error, -error)) < 0.3
    assert top_half_error(sparsification(error, rng.random(2000))) == pytest.approx(1, abs=0.1)


def test_equal_confidences_count_as_no_order_at_all():
    error = np.arange(100.0)
    for same in (np.zeros(100), np.ones(100)):
        np.testing.assert_allclose(sparsification(error, same).error, error.mean())
    halves = sparsification(error, np.repeat([1.0, 0.0], 50))
    assert halves.error[STEPS // 2] == pytest.approx(error[:50].mean())


def test_no_error_gives_no_area():
    curve = sparsification(np.zeros(50), np.random.default_rng(0).random(50))
    assert area_under_sparsification_error(curve) == top_half_error(curve) == 0


def test_what_does_not_belong_together_is_refused():
    with pytest.raises(InputError, match="do not belong together"):
        reliability(np.zeros(3), np.zeros(4, bool))
    with pytest.raises(InputError, match="no sparsification curve"):
        sparsification(np.zeros(0), np.zeros(0))
