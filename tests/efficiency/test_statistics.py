"""Medians, their intervals and exponents, against brute force and made-up numbers."""

import itertools
import math
import statistics

import numpy as np
import pytest

from linstereo.efficiency.statistics import CONFIDENCE, LEAST_SAMPLES, Estimate, log_log_slope, median_interval


@pytest.mark.parametrize("count", range(LEAST_SAMPLES, 15))
def test_interval_is_the_shortest_symmetric_one_that_covers_the_median_often_enough(count):
    """All ways in which `count` samples can fall below or above the true median are equally likely."""
    below = [sum(case) for case in itertools.product((0, 1), repeat=count)]

    def coverage(cut):
        """How often the true median is between the samples that are `cut` from either end."""
        return sum(cut < b < count - cut for b in below) / 2**count

    expected = max(cut for cut in range(count // 2) if coverage(cut) >= CONFIDENCE)
    estimate = median_interval(list(range(count)))
    assert (estimate.low, estimate.high) == (expected, count - 1 - expected)


def test_interval_of_a_skewed_distribution_holds_its_median_as_often_as_promised():
    rng = np.random.default_rng(0)
    runs = [median_interval(rng.exponential(size=15)) for _ in range(4000)]
    share = np.mean([run.low <= math.log(2) <= run.high for run in runs])
    assert CONFIDENCE - 0.01 < share < 0.98  # 0.965 for 15 samples


def test_order_does_not_matter_and_the_median_is_the_usual_one():
    values = [5.0, 1.0, 9.0, 2.0, 7.0, 3.0, 8.0]
    estimate = median_interval(values)
    assert estimate == median_interval(sorted(values))
    assert estimate.median == statistics.median(values)


def test_too_few_samples_have_no_interval():
    with pytest.raises(ValueError, match="6 or more"):
        median_interval([1.0] * 5)


def test_units_scale_all_three():
    assert Estimate(2.0, 1.0, 4.0).scaled(1000) == Estimate(2000.0, 1000.0, 4000.0)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.05, 2.0])
def test_slope_of_made_up_times(exponent):
    sizes = [240 * 320, 480 * 640, 960 * 1280, 1920 * 2560]
    assert log_log_slope(sizes, [3e-7 * size**exponent for size in sizes]) == pytest.approx(exponent)


def test_slope_of_scattered_times_is_the_least_squares_one():
    rng = np.random.default_rng(1)
    sizes, costs = rng.uniform(1, 1e6, 20), rng.uniform(1, 100, 20)
    assert log_log_slope(sizes, costs) == pytest.approx(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


@pytest.mark.parametrize("sizes", [[], [4.0], [4.0, 4.0]])
def test_one_size_has_no_slope(sizes):
    assert log_log_slope(sizes, [1.0 for _ in sizes]) is None
