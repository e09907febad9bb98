"""What repeated measurements say: medians with their confidence intervals, and how a cost grows."""

import dataclasses
import math
import statistics
from collections.abc import Sequence

CONFIDENCE = 0.95
LEAST_SAMPLES = 6
"""Below that many samples not even the interval from the least to the greatest one holds the median at 95 %."""


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A median and the interval that holds the true one with a confidence of at least 95 %; in the samples' unit."""

    median: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Estimate":
        """The same in a unit of which there are `factor` > 0 in the former one."""
        return Estimate(factor * self.median, factor * self.low, factor * self.high)


def median_interval(samples: Sequence[float]) -> Estimate:
    """The median of at least `LEAST_SAMPLES` independent samples, and its confidence interval.

    The interval runs between two of the sorted samples, the same number from either end, and supposes nothing about
    their distribution: each sample is above the true median with a probability of one half, so the number of those
    above it is binomial.
    """
    if len(samples) < LEAST_SAMPLES:
        raise ValueError(f"{len(samples)} samples have no interval of {CONFIDENCE:.0%}; take {LEAST_SAMPLES} or more")
    ordered = sorted(samples)
    cut = _left_out(len(ordered))
    return Estimate(statistics.median(ordered), ordered[cut], ordered[-1 - cut])


def _left_out(count: int) -> int:
    """How many of `count` sorted samples can be left out at either end."""
    tail, cut = 0, 0
    while True:
        tail += math.comb(count, cut)  # of 2**count equally likely cases, those with at most `cut` samples below
        if 2 * tail > (1 - CONFIDENCE) * 2**count:
            return max(cut - 1, 0)
        cut += 1


def log_log_slope(sizes: Sequence[float], costs: Sequence[float]) -> float | None:
    """The exponent p of costs ~ sizes**p by least squares on logarithms; None for fewer than two different sizes."""
    if len(set(sizes)) < 2:
        return None
    fit = statistics.linear_regression([math.log(size) for size in sizes], [math.log(cost) for cost in costs])
    return fit.slope
