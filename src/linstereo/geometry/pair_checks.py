"""Whether two images look like the left and the right one of a rectified pair, measured on sparse matches."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from linstereo.geometry.sparse_matches import FREE_PIXELS, match_anywhere

MAX_ROW_OFFSET = 1.0
"""Median vertical offset, px, above which rows count as not aligned; large images, which are matched at a smaller size,
are allowed 0.3 px of that size."""
MIN_MATCHES = 20
"""Fewer matches that agree tell nothing about rows and sides."""
MIN_KEYPOINTS = 200
"""In each image; with fewer, missing matches do not tell that two images are unrelated."""
_REDUCED_OFFSET = 0.3  # px
_MAX_SAME = 0.5  # grey levels of 255: mean difference below which two images count as identical
_MIN_SHIFT = 0.5  # px: disparities that two images which differ as little have if they are not identical
_MAX_STILL = 0.25  # px: disparities and row offsets of identical images that were compressed or brightened
_TOLERANCE = 0.01  # of the height: rows of a right match differ this much at most from the fitted row offsets
_MIN_BACKWARDS = 0.8  # share of the matches with negative disparity in a swapped pair
_TRIALS = 200


@dataclasses.dataclass(frozen=True)
class PairMeasures:
    """What the matches of a pair say.

    Attributes:
        difference: mean absolute difference of the two images, grey levels of 255.
        keypoints: in the image with fewer of them.
        reduction: how many times smaller the images were matched, >= 1.
        agreeing: those whose vertical offsets agree with one smooth motion of the rows.
        row_offset: median of the absolute vertical offsets of those, px; NaN without them.
        backwards: share of those with negative disparity, in [0, 1]; NaN without them.
        shift: median of their disparities, px; NaN without them.
        parallax: the absolute disparity that three of four of them stay below, px; NaN without them.
    """

    difference: float
    keypoints: int
    reduction: float
    agreeing: int
    row_offset: float
    backwards: float
    shift: float
    parallax: float


def measure_pair(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> PairMeasures:
    """Match two images of one size, uint8 [H, W, 3] RGB, and measure how they fit; deterministic."""
    matches, keypoints = match_anywhere(left, right)
    agreeing = matches[_agreeing(matches, height=left.shape[0])]
    step = max(1, int((left.shape[0] * left.shape[1] / 250_000) ** 0.5))
    sampled = (image[::step, ::step].astype(np.int16) for image in (left, right))
    rows, shifts = np.abs(agreeing[:, 1] - agreeing[:, 3]), agreeing[:, 0] - agreeing[:, 2]
    known = len(agreeing) > 0
    return PairMeasures(
        difference=float(np.abs(np.subtract(*sampled)).mean()),
        keypoints=min(keypoints),
        reduction=max(1.0, (left.shape[0] * left.shape[1] / FREE_PIXELS) ** 0.5),
        agreeing=len(agreeing),
        row_offset=float(np.median(rows)) if known else float("nan"),
        backwards=float((shifts < 0).mean()) if known else float("nan"),
        shift=float(np.median(shifts)) if known else float("nan"),
        parallax=float(np.percentile(np.abs(shifts), 75)) if known else float("nan"),
    )


def doubts_about_pair(
    left: NDArray[np.uint8], right: NDArray[np.uint8], *, names: Sequence[str] = ("the left image", "the right image")
) -> list[str]:
    """What speaks against a rectified pair: a sentence each, with the figure measured and what to do.

    `left` and `right` are uint8 [H, W, 3] RGB of one size, `names` what to call them.
    """
    return sentences(measure_pair(left, right), names=names)


def sentences(measures: PairMeasures, *, names: Sequence[str]) -> list[str]:
    """The measures that speak against a rectified pair in words, see `doubts_about_pair`."""
    left, right = names
    matched = measures.agreeing >= MIN_MATCHES
    still = matched and max(measures.parallax, measures.row_offset) < _MAX_STILL
    if still or (measures.difference < _MAX_SAME and not (matched and measures.parallax >= _MIN_SHIFT)):
        return [
            f"{left} and {right} are the same picture, with a mean difference of {measures.difference:.2f} grey levels "
            "of 255 and no parallax; give the images of both cameras"
        ]
    if not matched:
        if measures.keypoints < MIN_KEYPOINTS:
            return []
        return [
            f"{left} and {right} hardly seem to show the same scene: {measures.agreeing} of {measures.keypoints} "
            "keypoints match; check that they were taken at the same time, side by side"
        ]
    found = []
    if measures.backwards > _MIN_BACKWARDS and measures.shift < -_MIN_SHIFT:
        found.append(
            f"{left} and {right} seem to be swapped: {measures.backwards:.0%} of {measures.agreeing} matches have "
            f"negative disparity, with a median of {measures.shift:.1f} px; give the left image first"
        )
    if measures.row_offset > max(MAX_ROW_OFFSET, _REDUCED_OFFSET * measures.reduction):
        found.append(
            f"the rows of {left} and {right} are not aligned: they differ by {measures.row_offset:.1f} px, the median "
            f"of {measures.agreeing} matches; rectify the pair (linstereo rectify), or calibrate again"
        )
    return found


def _agreeing(matches: NDArray[np.float64], *, height: int) -> NDArray[np.bool_]:
    """Which matches [M, 4] have a vertical offset that is one linear function of the place in the left image.

    That is what small turns and zooms of a camera do; RANSAC finds the function that most matches agree with.
    """
    count = len(matches)
    if count < 3:
        return np.zeros(count, bool)
    design = np.column_stack([matches[:, :2] / height, np.ones(count)])  # [M, 3]
    offsets = matches[:, 3] - matches[:, 1]
    rng = np.random.default_rng(0)
    best = np.abs(offsets - np.median(offsets)) <= _TOLERANCE * height
    for _ in range(_TRIALS):
        chosen = rng.choice(count, 3, replace=False)
        if abs(np.linalg.det(design[chosen])) < 1e-3:
            continue
        model = np.linalg.solve(design[chosen], offsets[chosen])
        agreed = np.abs(design @ model - offsets) <= _TOLERANCE * height
        if agreed.sum() > best.sum():
            best = agreed
    return np.asarray(best, bool)
