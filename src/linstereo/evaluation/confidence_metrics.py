"""How good a confidence is: does it mean what it says (reliability), and does it find the errors (sparsification)?

ECE     expected calibration error: |share of right disparities - mean confidence| of ten equal ranges of confidence,
        averaged by their numbers of pixels; right means off by less than 1 px or 5 %
AUSE    area between the sparsification curve and the perfect one, relative to the mean error of all pixels: the curve
        gives the mean error of the pixels that are left when the least confident ones are removed, the perfect one that
        when the largest errors are
top50   mean error of the more confident half of the pixels, relative to that of all
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.geometry.depth import PIXELS, SHARE

BINS = 10
"""Ranges of confidence of the reliability diagram."""
STEPS = 50
"""Shares of removed pixels of the sparsification curve, from 0 to 0.98."""


class Reliability(NamedTuple):
    """Of each range of confidence, from the lowest: how many pixels, their mean confidence, and how many are right."""

    pixels: NDArray[np.int64]
    confidence: NDArray[np.float64]  # sum
    right: NDArray[np.int64]


class Sparsification(NamedTuple):
    """Mean error, px, of the pixels that are left after removing a share of them, [STEPS] each."""

    removed: NDArray[np.float64]
    error: NDArray[np.float64]  # the least confident removed first
    perfect: NDArray[np.float64]  # the largest errors removed first


def right_disparities(disparity: NDArray[np.floating[Any]], truth: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """Whether disparities are off by less than 1 px or 5 %, px, any shape."""
    return np.asarray(np.abs(disparity - truth) < np.maximum(PIXELS, SHARE * truth))


def reliability(confidence: NDArray[np.floating[Any]], right: NDArray[np.bool_]) -> Reliability:
    """Count how often confidences [N] in [0, 1] are right."""
    if confidence.shape != right.shape:
        raise InputError(f"{confidence.shape} confidences and {right.shape} answers do not belong together")
    values = confidence.ravel().astype(np.float64)
    place = np.minimum((values * BINS).astype(np.int64), BINS - 1)
    return Reliability(
        np.bincount(place, minlength=BINS),
        np.bincount(place, weights=values, minlength=BINS).astype(np.float64),
        np.bincount(place, weights=right.ravel(), minlength=BINS).astype(np.int64),
    )


def expected_calibration_error(counts: Reliability) -> float:
    """The ECE, in [0, 1]; 0 if there is no pixel."""
    return float(np.abs(counts.confidence - counts.right).sum() / max(int(counts.pixels.sum()), 1))


def sparsification(error: NDArray[np.floating[Any]], confidence: NDArray[np.floating[Any]]) -> Sparsification:
    """The curves of one image from its errors [N], px, and confidences [N], of any range.

    Pixels of equal confidence count as if each of them were removed in the same proportion.
    """
    if error.shape != confidence.shape or error.size == 0:
        raise InputError(f"{error.shape} errors and {confidence.shape} confidences give no sparsification curve")
    removed = np.arange(STEPS) / STEPS
    errors = error.ravel().astype(np.float64)
    return Sparsification(
        removed, _kept_error(errors, confidence.ravel(), removed), _kept_error(errors, -errors, removed)
    )


def area_under_sparsification_error(curve: Sparsification) -> float:
    """The AUSE; 0 for a confidence that orders pixels as their errors do."""
    whole = curve.error[0]
    return float(np.trapezoid(curve.error - curve.perfect, curve.removed) / whole) if whole > 0 else 0.0


def top_half_error(curve: Sparsification) -> float:
    """Mean error of the more confident half, relative to that of all pixels."""
    half = float(np.interp(0.5, curve.removed, curve.error))
    return half / float(curve.error[0]) if curve.error[0] > 0 else 0.0


def _kept_error(
    errors: NDArray[np.float64], confidence: NDArray[np.floating[Any]], removed: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Mean error of what is left for each removed share; ties have the mean error of their group."""
    order = np.argsort(-confidence, kind="stable")  # most confident first
    _, start, group = np.unique(-confidence[order], return_index=True, return_inverse=True)
    sums = np.add.reduceat(errors[order], start)
    sizes = np.diff([*start, len(order)])
    total = np.concatenate([[0.0], np.cumsum((sums / sizes)[group])])  # of the k most confident ones
    kept = (1 - removed) * len(order)
    return np.asarray(np.interp(kept, np.arange(len(total)), total) / kept)
