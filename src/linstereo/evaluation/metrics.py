"""Disparity and depth metrics of one image, and the rules that say which pixels count.

An image is reduced to exact counts and sums per region (`linstereo.evaluation.scores`); figures and averages
follow from those.

Disparity metrics, with e = |prediction - truth| in px:

=========  ==============================================================================================
EPE        mean of e, px
badK       share of pixels with e > K px, per cent (strictly more; K such as 0.5, 1, 2, 3, 4)
D1         share of pixels with e > 3 px and e / truth > 0.05, per cent (the KITTI 2015 outlier)
=========  ==============================================================================================

Depth metrics, with p the predicted and t the true depth in metres:

=========  ==============================================================================================
AbsRel     mean of |p - t| / t
SqRel      mean of (p - t)^2 / t, metres
RMSE       square root of the mean of (p - t)^2, metres
LogRMSE    square root of the mean of (ln p - ln t)^2
A1 A2 A3   share of pixels with max(p / t, t / p) < 1.25, 1.25^2, 1.25^3, a fraction of 1
=========  ==============================================================================================

Flicker of a sequence: TEPE, the temporal end-point error of DynamicStereo (Karaev et al. 2023), is the mean of
|(p' - p) - (t' - t)| over the pixels of two frames that follow each other, px: how much the error of a pixel changes
from one frame to the next. It is 0 for a prediction that is wrong by the same amount all the time.

What is counted, and the results of the odd cases:

* Regions: `all` is every pixel with ground truth; `nonocc` and `occ` split it by the dataset's occlusion
  labels. An image without such labels has no `nonocc` and no `occ` result.
* Range: the truth may be limited to disparities below `max_disparity`, or to depths strictly inside
  `depth_range`. No pixel is left out for its prediction: a disparity is taken as it is, a depth is clamped.
* A prediction that is NaN or infinite is always wrong for badK, D1 and A1 to A3. In the other metrics it
  stands for "no match": disparity 0, or the far end of the depth range. It is counted in `non_finite`.
* A disparity of zero or less (after adding the principal-point offset) has infinite depth, hence the far end
  of the range. In disparity metrics it is an ordinary number. A hole that another tool wrote as 0 counts as
  disparity 0, as in the Matlab demo of the KITTI development kit; nothing is interpolated.
* An image without a single counted pixel has the value None, never NaN; it is left out of the mean over
  images and counted as such.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.evaluation.scores import REGIONS, RegionSums
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth import disparity_to_depth

DISPARITY_METRICS = ("EPE", "bad0.5", "bad1", "bad2", "bad3", "bad4", "D1")
DEPTH_METRICS = ("AbsRel", "SqRel", "RMSE", "LogRMSE", "A1", "A2", "A3")

_BAD = re.compile(r"bad(\d+(?:\.\d+)?)")
_ACCURACY = {"A1": 1.25, "A2": 1.25**2, "A3": 1.25**3}
_D1_PIXELS, _D1_RELATIVE = 3.0, 0.05


class DepthRange(NamedTuple):
    """Depths that are evaluated, metres: truth strictly inside, predictions clamped to it."""

    minimum: float
    maximum: float


def bad_threshold(metric: str) -> float | None:
    """The K of a badK metric in px, None for any other metric."""
    match = _BAD.fullmatch(metric)
    return float(match[1]) if match else None


def score_disparity(
    prediction: NDArray[np.floating[Any]],
    truth: NDArray[np.floating[Any]],
    *,
    valid: NDArray[np.bool_],
    occluded: NDArray[np.bool_] | None = None,
    max_disparity: float | None = None,
    metrics: Sequence[str] = DISPARITY_METRICS,
    regions: Sequence[str] = REGIONS,
    name: str = "the image",
) -> dict[str, RegionSums]:
    """Measure one disparity map against its ground truth, per region.

    prediction, truth: float32 [H, W], px of the left image, positive.
    valid: bool [H, W], True where `truth` is known; there it must be finite and not negative.
    occluded: bool [H, W], True where only the left camera sees the point; None if the dataset does not say,
        then only the region `all` is measured.
    max_disparity: count only pixels whose true disparity is below this, px; None counts all.
    name: the image, for messages.
    """
    predicted, true, mask = _checked(prediction, truth, valid=valid, name=name)
    impossible = int(np.count_nonzero(mask & ~(np.isfinite(true) & (true >= 0))))
    if impossible:
        raise InputError(
            f"the ground truth of {name} is negative or not finite at {impossible} pixels marked valid; "
            "mark them invalid"
        )
    if max_disparity is not None:
        mask = mask & (true < max_disparity)

    def measure(counted: NDArray[np.bool_]) -> RegionSums:
        disparity, target = predicted[counted], true[counted]  # [N]
        lost = ~np.isfinite(disparity)
        error = np.abs(np.where(lost, 0.0, disparity) - target)
        sums = {metric: _disparity_sum(metric, error=error, target=target, lost=lost) for metric in metrics}
        return RegionSums(pixels=target.size, non_finite=int(np.count_nonzero(lost)), sums=sums)

    return _per_region(measure, mask, occluded=occluded, regions=regions, name=name)


def temporal_error(
    predictions: Sequence[NDArray[np.floating[Any]]], truths: Sequence[NDArray[np.floating[Any]]]
) -> float:
    """TEPE between two frames that follow each other, px.

    predictions, truths: of the earlier and of the later frame, float32 [H, W], px, known everywhere.
    """
    (early, late), (true_early, true_late) = predictions, truths
    change = late.astype(np.float64) - early
    return float(np.abs(change - (true_late.astype(np.float64) - true_early)).mean())


def score_depth(
    prediction: NDArray[np.floating[Any]],
    truth: NDArray[np.floating[Any]],
    *,
    valid: NDArray[np.bool_],
    calibration: StereoCalibration,
    depth_range: DepthRange,
    occluded: NDArray[np.bool_] | None = None,
    metrics: Sequence[str] = DEPTH_METRICS,
    regions: Sequence[str] = REGIONS,
    name: str = "the image",
) -> dict[str, RegionSums]:
    """Measure one disparity map against ground-truth depth, per region.

    prediction: float32 [H, W], disparity in px; becomes focal * baseline / (disparity + doffs) metres,
        clamped to `depth_range`.
    truth: float32 [H, W], depth in metres; counted where `valid` and strictly inside `depth_range`.
    valid, occluded, name: as in `score_disparity`.
    """
    predicted, true, mask = _checked(prediction, truth, valid=valid, name=name)
    # NaN and infinite truth fails these comparisons
    mask = mask & (true > depth_range.minimum) & (true < depth_range.maximum)
    depth = disparity_to_depth(predicted, calibration).astype(np.float64)  # [H, W]
    depth = np.clip(depth, depth_range.minimum, depth_range.maximum)

    def measure(counted: NDArray[np.bool_]) -> RegionSums:
        lost = ~np.isfinite(predicted[counted])  # [N]
        estimate, target = (
            depth[counted],
            true[counted],
        )  # [N], a lost pixel is infinitely far, hence at the maximum
        sums = {metric: _depth_sum(metric, estimate=estimate, target=target, lost=lost) for metric in metrics}
        return RegionSums(pixels=target.size, non_finite=int(np.count_nonzero(lost)), sums=sums)

    return _per_region(measure, mask, occluded=occluded, regions=regions, name=name)


def _checked(
    prediction: NDArray[Any], truth: NDArray[Any], *, valid: NDArray[Any], name: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    prediction, truth, valid = np.asarray(prediction), np.asarray(truth), np.asarray(valid)
    if prediction.ndim != 2 or prediction.shape != truth.shape or prediction.shape != valid.shape:
        raise InputError(
            f"the prediction of {name} has the shape {prediction.shape}, its ground truth {truth.shape} "
            f"and its mask {valid.shape}; all three must be the same [H, W]"
        )
    for what, array in (("prediction", prediction), ("ground truth", truth)):
        if not np.issubdtype(array.dtype, np.floating):
            raise InputError(f"the {what} of {name} has the type {array.dtype}; give floating-point pixels")
    if valid.dtype != np.bool_:
        raise InputError(f"the validity mask of {name} has the type {valid.dtype}; give a boolean mask")
    with np.errstate(over="ignore"):  # beyond float32 counts as infinite, so that no sum can overflow
        single = prediction.astype(np.float32), truth.astype(np.float32)
    return single[0].astype(np.float64), single[1].astype(np.float64), valid


def _per_region(
    measure: Callable[[NDArray[np.bool_]], RegionSums],
    mask: NDArray[np.bool_],
    *,
    occluded: NDArray[np.bool_] | None,
    regions: Sequence[str],
    name: str,
) -> dict[str, RegionSums]:
    unknown = [region for region in regions if region not in REGIONS]
    if unknown:
        raise InputError(f"there is no region {unknown[0]!r}; choose among {', '.join(REGIONS)}")
    masks = {"all": mask}
    if occluded is not None:
        occluded = np.asarray(occluded)
        if occluded.shape != mask.shape or occluded.dtype != np.bool_:
            raise InputError(
                f"the occlusion mask of {name} is {occluded.dtype} {occluded.shape}; "
                f"give a boolean mask of shape {mask.shape}"
            )
        masks |= {"nonocc": mask & ~occluded, "occ": mask & occluded}
    return {region: measure(masks[region]) for region in regions if region in masks}


def _disparity_sum(
    metric: str, *, error: NDArray[np.float64], target: NDArray[np.float64], lost: NDArray[np.bool_]
) -> int | float:
    if metric == "EPE":
        return float(np.sum(error))
    if metric == "D1":
        with np.errstate(divide="ignore", invalid="ignore"):  # a true disparity of 0 makes any error relatively huge
            outlier = (error > _D1_PIXELS) & (error / target > _D1_RELATIVE)
        return int(np.count_nonzero(outlier | lost))
    threshold = bad_threshold(metric)
    if threshold is None:
        raise InputError(f"{metric!r} is no disparity metric; choose EPE, D1 or badK with K in px, such as bad2")
    return int(np.count_nonzero((error > threshold) | lost))


def _depth_sum(
    metric: str, *, estimate: NDArray[np.float64], target: NDArray[np.float64], lost: NDArray[np.bool_]
) -> int | float:
    if metric == "AbsRel":
        return float(np.sum(np.abs(estimate - target) / target))
    if metric == "SqRel":
        return float(np.sum((estimate - target) ** 2 / target))
    if metric == "RMSE":
        return float(np.sum((estimate - target) ** 2))
    if metric == "LogRMSE":
        return float(np.sum((np.log(estimate) - np.log(target)) ** 2))
    if metric in _ACCURACY:
        ratio = np.maximum(estimate / target, target / estimate)
        return int(np.count_nonzero((ratio < _ACCURACY[metric]) & ~lost))
    raise InputError(f"{metric!r} is no depth metric; choose among {', '.join(DEPTH_METRICS)}")
