"""Depth prior initialisation (DPI): a metric first disparity from monocular depth and sparse SIFT matches.

`initial_disparity` fits the two numbers of d = alpha / D + beta to the matches of a pair (Eq. 2 of the paper) and
applies them to the whole map of the backbone's depth D (Eq. 3). With fewer than K_min inliers the start is zero
disparity, and the `DepthPriorReport` says why. `DepthPriorStart` is the part of the network that does so.

The matches come from `linstereo.geometry.sparse_matches`, usually with the images. The network makes them itself only
if nobody did: that one import, deferred, is the exception to the rule that `model/` needs nothing but torch.

Disparity here is positive and always in pixels of the full-resolution left image. Pixel centres have integer
coordinates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from linstereo.errors import InputError
from linstereo.model.precision import at_least_float32
from linstereo.model.starts import Start, StartingPoint, StartInputs
from linstereo.model.strides import FINEST

if TYPE_CHECKING:
    from linstereo.geometry.sparse_matches import SparseMatches

MIN_INLIERS = 20
"""K_min of the paper: with fewer inliers than this the start is zero disparity."""

DEPTH_FLOOR = 1e-3
"""Least depth, as a share of the median; exp() in the depth head may underflow to 0."""
MIN_SPREAD = 1e-6
"""Relative spread of inverse depth below which a scale cannot be told from a shift."""
REFITS = 10
"""Least squares over the inliers, at most, each over those of the one before."""
HYPOTHESES = 500
"""Two-point lines that are tried."""
TOLERANCE_PX, TOLERANCE_RATIO = 2.0, 0.1
"""A match is an inlier within so many px, or within this share of its disparity."""


class Fallback(IntEnum):
    """Why the start is zero disparity; NONE if it is not."""

    NONE = 0
    FEW_MATCHES = 1
    SAME_DEPTH = 2
    NO_LINE = 3
    SAME_DEPTH_AT_INLIERS = 4
    FEW_INLIERS = 5
    ALPHA_NOT_POSITIVE = 6


@dataclass(frozen=True)
class DepthPriorReport:
    """What the depth prior did for one pair.

    Attributes:
        matches: matches with positive disparity and usable depth.
        inliers: those among them that agree on one line with alpha > 0; when fitted, the ones the least squares ran
            over; 0 where there is no such line.
        alpha: scale, px times depth unit, > 0; 0 after a fallback.
        beta: shift in px of the left image; 0 after a fallback.
        fell_back: True if the start is zero disparity.
        reason: one sentence why it fell back, "" when fitted.
    """

    matches: int
    inliers: int
    alpha: float
    beta: float
    fell_back: bool
    reason: str


class DepthPriorStart(Start):
    """DPI as the network's start (figure 1a, "Scale-Shift Alignment").

    Args:
        min_inlier_share: least share of the matches that must agree with the fit, see `fit_scale_shift`; 0 for the
            paper's rule.
    """

    def __init__(self, *, min_inlier_share: float = 0.0) -> None:
        super().__init__(needs_depth=True)
        self.min_inlier_share = min_inlier_share

    def forward(self, inputs: StartInputs) -> StartingPoint:
        """See `Start.forward`."""
        assert inputs.depth is not None
        height, width = inputs.images.shape[-2:]
        matches = inputs.matches
        if matches is None:
            matches = _match(inputs.images[..., : inputs.size[0], : inputs.size[1]])
        disparity, reports = initial_disparity(
            inputs.depth,
            matches,
            full_size=(height, width),
            out_size=(height // FINEST, width // FINEST),
            min_inlier_share=self.min_inlier_share,
        )
        return StartingPoint(disparity / FINEST, disparity[:, :0], reports)


def _match(images: Tensor) -> "list[SparseMatches]":
    """Sparse matches of every pair of [2 B, 3, H, W], left images first, in [0, 1]."""
    from linstereo.geometry.sparse_matches import match_sparse

    levels = (at_least_float32(images.detach()).clamp(0, 1) * 255).round().to(torch.uint8)
    left, right = levels.permute(0, 2, 3, 1).contiguous().cpu().numpy().reshape(2, -1, *images.shape[-2:], 3)
    return [match_sparse(*pair) for pair in zip(left, right, strict=True)]


def fit_scale_shift(
    inverse_depth: NDArray[np.floating],
    disparity: NDArray[np.floating],
    *,
    min_inliers: int = MIN_INLIERS,
    min_inlier_share: float = 0.0,
    rejected: int = 0,
    tolerance_px: float = TOLERANCE_PX,
    tolerance_ratio: float = TOLERANCE_RATIO,
    hypotheses: int = HYPOTHESES,
    seed: int = 0,
) -> DepthPriorReport:
    """Fit disparity = alpha * inverse_depth + beta with alpha > 0, robustly (Eq. 2 over the inliers).

    RANSAC over lines through two matches, scored by the truncated squared residual, then least squares on the
    inliers, which are selected anew until they stay the same. In float64, deterministic for a given seed.

    A match is an inlier within max(`tolerance_px`, `tolerance_ratio` of its disparity). The relative part is
    there because monocular depth errs in proportion to depth, hence disparity in proportion to disparity, and
    no two numbers align it everywhere: 10 % lets in what a good network leaves. That loose, it also lets
    wrong matches agree by chance (spread over the image's width, up to 18 % of 80 and 10 % of 1000 of them),
    which is what `min_inlier_share` is for. The paper has no such condition: it falls back below `min_inliers`
    inliers and never else, which is the default here.

    Args:
        inverse_depth: [K], 1 / D at the matches; entries that are not finite are ignored.
        disparity: [K], px of the left image, > 0; entries that are not finite are ignored.
        min_inliers: with fewer inliers it falls back.
        min_inlier_share: it also falls back if the inliers are a smaller share of all matches, in [0, 1]; 0 for never.
        rejected: matches known to be wrong beside those given, which count in that share only.
        tolerance_px: smallest inlier tolerance, px.
        tolerance_ratio: inlier tolerance as a share of the disparity.
        hypotheses: number of two-point lines tried.
        seed: of their random choice.
    """
    usable = np.isfinite(inverse_depth) & np.isfinite(disparity)
    q = np.asarray(inverse_depth, np.float64)[usable]
    d = np.asarray(disparity, np.float64)[usable]
    total = len(d)
    if total < max(min_inliers, 2):
        return _fallback(Fallback.FEW_MATCHES, total, needed=min_inliers)
    unit = float(np.abs(q).max())
    if np.ptp(q) <= MIN_SPREAD * unit:
        return _fallback(Fallback.SAME_DEPTH, total)
    q = q / unit  # conditions the least squares; alpha is scaled back at the end
    tolerance = np.maximum(tolerance_px, tolerance_ratio * np.abs(d))

    line = _best_line(q, d, tolerance=tolerance, hypotheses=hypotheses, seed=seed)
    if line is None:
        return _fallback(Fallback.NO_LINE, total)
    inliers = np.abs(line[0] * q + line[1] - d) <= tolerance
    for _ in range(REFITS):
        if inliers.sum() < 2 or np.ptp(q[inliers]) <= MIN_SPREAD:
            return _fallback(Fallback.SAME_DEPTH_AT_INLIERS, total)
        line = _least_squares(q[inliers], d[inliers])
        fitted, inliers = inliers, np.abs(line[0] * q + line[1] - d) <= tolerance
        if np.array_equal(fitted, inliers):
            break
    count = int(fitted.sum())
    alpha, beta = line[0] / unit, line[1]
    needed = needed_inliers(total + rejected, min_inliers=min_inliers, min_inlier_share=min_inlier_share)
    if count < needed:
        return _fallback(Fallback.FEW_INLIERS, total, inliers=count, rejected=rejected, needed=needed)
    if not alpha > 0:
        return _fallback(Fallback.ALPHA_NOT_POSITIVE, total)
    return DepthPriorReport(total, count, alpha, beta, fell_back=False, reason="")


def _best_line(
    q: NDArray[np.float64],
    d: NDArray[np.float64],
    *,
    tolerance: NDArray[np.float64],
    hypotheses: int,
    seed: int,
) -> tuple[float, float] | None:
    """The two-point line (alpha > 0, beta) of least truncated squared residual; None if no alpha is > 0."""
    draws = line_draws(hypotheses, seed=seed)
    first = np.floor(draws[0] * np.float32(len(d))).astype(np.int64)
    step = 1 + np.floor(draws[1] * np.float32(len(d) - 1)).astype(np.int64)
    second = (first + step) % len(d)  # never the same match twice
    apart = np.abs(q[first] - q[second]) > MIN_SPREAD
    first, second = first[apart], second[apart]
    alpha = (d[first] - d[second]) / (q[first] - q[second])  # [N]
    alpha, first = alpha[alpha > 0], first[alpha > 0]
    if len(alpha) == 0:
        return None
    beta = d[first] - alpha * q[first]
    residual = (alpha[:, None] * q + beta[:, None] - d) / tolerance  # [N, K]
    cost = np.minimum(np.square(residual), 1.0).sum(axis=1)
    best = int(np.argmin(cost))
    return float(alpha[best]), float(beta[best])


def line_draws(hypotheses: int, *, seed: int = 0) -> NDArray[np.float32]:
    """Random numbers [2, hypotheses] in [0, 1) that choose the two matches of every line, however many there are.

    They are a little below 1, so that in float32 no product with a number of matches is rounded up to it.
    """
    rng = np.random.default_rng(seed)
    return (rng.random((2, hypotheses)) * (1 - 2**-20)).astype(np.float32)


def _least_squares(q: NDArray[np.float64], d: NDArray[np.float64]) -> tuple[float, float]:
    """(alpha, beta) that minimise the sum of (d - alpha q - beta)^2, in closed form."""
    q_mean, d_mean = q.mean(), d.mean()
    alpha = ((q - q_mean) * (d - d_mean)).sum() / np.square(q - q_mean).sum()
    return float(alpha), float(d_mean - alpha * q_mean)


def needed_inliers(matches: int, *, min_inliers: int = MIN_INLIERS, min_inlier_share: float = 0.0) -> int:
    """Inliers without which the start is zero disparity, of so many matches, wrong ones included."""
    return max(min_inliers, math.ceil(min_inlier_share * matches))


def _fallback(
    why: Fallback, matches: int, *, inliers: int = 0, rejected: int = 0, needed: int = MIN_INLIERS
) -> DepthPriorReport:
    reasons = {
        Fallback.FEW_MATCHES: f"only {matches} usable matches, fewer than the {needed} needed",
        Fallback.SAME_DEPTH: "the monocular depth is the same at all matches",
        Fallback.NO_LINE: "no two of the matches agree with a positive alpha",
        Fallback.SAME_DEPTH_AT_INLIERS: "the monocular depth is the same at all inliers",
        Fallback.FEW_INLIERS: f"only {inliers} of {matches + rejected} matches agree on one fit, {needed} needed",
        Fallback.ALPHA_NOT_POSITIVE: "the fitted alpha is not positive",
    }
    return DepthPriorReport(matches, inliers, alpha=0.0, beta=0.0, fell_back=True, reason=reasons[why])


def report_from_values(
    values: Sequence[float], *, given: int, negative: int, min_inlier_share: float
) -> DepthPriorReport:
    """The report of a fit that an exported network made.

    Args:
        values: matches, inliers, alpha, beta and the `Fallback`, as the network gives them.
        given: matches with positive disparity that it was given.
        negative: further ones with disparity <= 0.
        min_inlier_share: of its settings.
    """
    matches, inliers, why = int(values[0]), int(values[1]), Fallback(int(values[4]))
    if why is Fallback.NONE:
        return DepthPriorReport(matches, inliers, float(values[2]), float(values[3]), fell_back=False, reason="")
    needed = MIN_INLIERS
    if why is Fallback.FEW_INLIERS:
        needed = needed_inliers(matches + negative, min_inlier_share=min_inlier_share)
    report = _fallback(why, matches, inliers=inliers, rejected=negative, needed=needed)
    return _doubting_order(report, positive=given, negative=negative)


def _doubting_order(report: DepthPriorReport, *, positive: int, negative: int) -> DepthPriorReport:
    """The report, with a better reason if most matches say that left and right are swapped."""
    if report.fell_back and negative > positive:
        told = f"{negative} matches have disparity <= 0, only {positive} > 0: are left and right swapped?"
        return replace(report, reason=told)
    return report


@torch.no_grad()
def initial_disparity(
    depth: Tensor,
    matches: "Sequence[SparseMatches]",
    *,
    full_size: tuple[int, int],
    out_size: tuple[int, int],
    min_inlier_share: float = 0.0,
) -> tuple[Tensor, list[DepthPriorReport]]:
    """The first disparity map, alpha / D + beta, of every pair in a batch (Eq. 2 and 3), without gradients.

    Depth is clamped from below at a thousandth of its median. The map is clamped to [0, W], which is all a
    rectified pair can show, and is 0 where the depth is NaN. All interpolation is of inverse depth, in which
    disparity is linear, and bilinear between pixel centres rather than a mean over an area: a mean across a
    depth edge lies on neither surface, and monocular depth has no noise to average away.

    Args:
        depth: [B, 1, h, w] monocular depth > 0 of the padded left images, in any unit, at any resolution.
        matches: one `SparseMatches` per image of the batch. Padding must be at the right and bottom only, so
            that their coordinates hold in the padded image as well.
        full_size: (H, W) in px of the padded left image, which `depth` covers.
        out_size: (height, width) of the map to make, usually (H / 4, W / 4).
        min_inlier_share: least share of the matches that must be inliers, see `fit_scale_shift`.

    Returns:
        The disparity [B, 1, *out_size] in px OF THE FULL-RESOLUTION LEFT IMAGE (divide by 4 for units of the
        quarter resolution), on the device of `depth`, float64 if `depth` is and float32 otherwise; and one
        report per pair.
    """
    if depth.ndim != 4 or depth.shape[1] != 1 or depth.shape[0] != len(matches):
        raise InputError(
            f"depth must be [B, 1, h, w] with one set of matches per image, but is {list(depth.shape)} for "
            f"{len(matches)} sets; pass the depth of the left images only."
        )
    for item in matches:
        if item.image_size[0] > full_size[0] or item.image_size[1] > full_size[1]:
            raise InputError(
                f"matches of a {item.image_size[1]}x{item.image_size[0]} image do not fit the padded size "
                f"{full_size[1]}x{full_size[0]}; match the images at the size the network sees."
            )
    if depth.dtype != torch.float64:
        depth = depth.float()
    inverse = torch.stack([_inverse_depth(image) for image in depth])  # [B, 1, h, w]
    reports = [
        _fit_pair(image, item, full_size=full_size, min_inlier_share=min_inlier_share)
        for image, item in zip(inverse, matches, strict=True)
    ]
    alpha = inverse.new_tensor([report.alpha for report in reports]).view(-1, 1, 1, 1)
    beta = inverse.new_tensor([report.beta for report in reports]).view(-1, 1, 1, 1)
    inverse = F.interpolate(inverse, size=out_size, mode="bilinear", align_corners=False)  # [B, 1, *out_size]
    disparity = (alpha * inverse + beta).clamp(min=0, max=full_size[1])
    return disparity.nan_to_num(nan=0.0), reports


def _inverse_depth(depth: Tensor) -> Tensor:
    """1 / D with D clamped from below; 0 where D is infinite, NaN where it is NaN or nowhere usable."""
    usable = depth[torch.isfinite(depth) & (depth > 0)]
    if usable.numel() == 0:
        return torch.full_like(depth, torch.nan)
    return depth.clamp(min=float(usable.median()) * DEPTH_FLOOR).reciprocal()


def _fit_pair(
    inverse: Tensor, matches: "SparseMatches", *, full_size: tuple[int, int], min_inlier_share: float
) -> DepthPriorReport:
    """Fit one pair: inverse depth [1, h, w] of the image of `full_size` px against its matches."""
    points = torch.tensor(matches.points, dtype=inverse.dtype, device=inverse.device)  # [K, 2]
    grid = (2 * points + 1) / points.new_tensor([full_size[1], full_size[0]]) - 1  # pixel edges at -1 and 1
    sampled = F.grid_sample(
        inverse[None], grid[None, None], mode="bilinear", padding_mode="border", align_corners=False
    )  # [1, 1, 1, K]
    report = fit_scale_shift(
        sampled.flatten().cpu().double().numpy(),
        matches.disparity,
        min_inlier_share=min_inlier_share,
        rejected=matches.negative,
    )
    return _doubting_order(report, positive=len(matches.disparity), negative=matches.negative)
