"""Depth prior initialisation (DPI): a metric first disparity from monocular depth and sparse SIFT matches.

Two steps, because they need different things at different times:

1. `match_sparse` looks at the two images only. It is plain numpy and OpenCV, needs no network and returns a
   small picklable `SparseMatches`, so it can run in data-loading workers.
2. `initial_disparity` runs once the backbone's depth D is known. It fits the two numbers of
   d = alpha / D + beta to the matches (Eq. 2 of the paper) and applies them to the whole map (Eq. 3). With
   fewer than K_min inliers the start is zero disparity, and the `DepthPriorReport` says why.

Disparity here is positive and always in pixels of the full-resolution left image. Pixel centres have integer
coordinates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from linstereo.errors import InputError

MIN_INLIERS = 20
"""K_min of the paper: with fewer inliers than this the start is zero disparity."""

_BLOCK = 128  # left keypoints compared at once; bounds the memory of the distance matrix
_CONTRAST_THRESHOLD = 0.01  # a quarter of OpenCV's default: hazy, low-contrast water still gives keypoints
_DEPTH_FLOOR = 1e-3  # of the median depth; exp() in the depth head may underflow to 0
_MIN_SPREAD = 1e-6  # relative spread of inverse depth below which a scale cannot be told from a shift
_REFITS = 10


@dataclass(frozen=True, eq=False)
class SparseMatches:
    """Sparse correspondences of one rectified pair, in pixels of the left image.

    Attributes:
        points: float32 [K, 2], (x, y) in the left image.
        disparity: float32 [K], x_left - x_right, > 0.
        image_size: (height, width) of the images that were matched.
        negative: number of further matches whose disparity came out <= 0, which a rectified pair in the right
            order cannot show: more of them than of the positive ones means that left and right are swapped.
    """

    points: NDArray[np.float32]
    disparity: NDArray[np.float32]
    image_size: tuple[int, int]
    negative: int = 0

    def __post_init__(self) -> None:
        if self.disparity.ndim != 1 or self.points.shape != (len(self.disparity), 2):
            raise InputError(
                f"sparse matches need points [K, 2] and disparity [K], but got {list(self.points.shape)} and "
                f"{list(self.disparity.shape)}; pass one disparity per point."
            )

    @classmethod
    def none(cls, image_size: tuple[int, int]) -> "SparseMatches":
        """No matches at all, from which the start is zero disparity."""
        return cls(np.zeros((0, 2), np.float32), np.zeros(0, np.float32), image_size)


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


def match_sparse(
    left: NDArray[np.uint8],
    right: NDArray[np.uint8],
    *,
    max_keypoints: int = 3000,
    max_row_offset: float = 1.5,
    ratio: float = 0.8,
    max_distance: float = 250.0,
    max_pixels: int = 1_000_000,
) -> SparseMatches:
    """Match SIFT keypoints of a rectified pair along its rows.

    A pair of keypoints is kept if each is the other's nearest neighbour among the keypoints within
    `max_row_offset` rows, its descriptor distance is at most `max_distance` and below `ratio` times that of
    the best rival in those rows, and its disparity is positive. Rivals at negative disparity compete as well:
    where one of them is better, the match is wrong, and without them a swapped pair with repetitive texture
    would yield hundreds of false matches that agree with each other.

    Pure and deterministic: OpenCV's descriptors hold whole numbers below 256, so that float32 products are
    exact and do not depend on the number of threads.

    Args:
        left: uint8 [H, W, 3] RGB.
        right: the same size.
        max_keypoints: strongest keypoints used per image (ties with the last of them included).
        max_row_offset: largest |y_left - y_right| of a match, px (of the reduced images, if reduced).
        ratio: Lowe's ratio, in (0, 1].
        max_distance: largest descriptor distance, where a SIFT descriptor has length 512; it alone decides
            for a keypoint without a rival in its rows.
        max_pixels: larger images are reduced to this many pixels first, since SIFT's scale space takes about
            240 bytes per pixel and a coarse start does not need the last tenth of a pixel.
    """
    for name, image in (("left", left), ("right", right)):
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise InputError(
                f"the {name} image must be uint8 [H, W, 3], but is {image.dtype} {list(image.shape)}; "
                "convert it to 8-bit RGB first."
            )
    if left.shape != right.shape:
        raise InputError(
            f"left and right image must have one size, but are {left.shape[1]}x{left.shape[0]} and "
            f"{right.shape[1]}x{right.shape[0]}; pass a rectified pair."
        )
    height, width = left.shape[:2]
    reduction = min(1.0, (max_pixels / (height * width)) ** 0.5)
    size = (max(1, round(height * reduction)), max(1, round(width * reduction)))
    sift = cv2.SIFT.create(nfeatures=max_keypoints, contrastThreshold=_CONTRAST_THRESHOLD, enable_precise_upscale=True)
    left_points, left_descriptors = _keypoints(left, size=size, sift=sift)
    right_points, right_descriptors = _keypoints(right, size=size, sift=sift)
    pairs = _mutual_matches(
        left_points,
        left_descriptors,
        right_points,
        right_descriptors,
        max_row_offset=max_row_offset,
        ratio=ratio,
        max_distance=max_distance,
    )
    corners = np.concatenate([left_points[pairs[:, 0]], right_points[pairs[:, 1]]], axis=1)  # [M, 4]
    corners = np.unique(corners, axis=0)  # a corner with two orientations is two keypoints, but one match
    scale = np.array([width / size[1], height / size[0]])  # of x and y, back to the images as given
    points = (corners[:, :2] + 0.5) * scale - 0.5
    disparity = (corners[:, 0] - corners[:, 2]) * scale[0]
    positive = disparity > 0
    return SparseMatches(
        points=points[positive].astype(np.float32),
        disparity=disparity[positive].astype(np.float32),
        image_size=(height, width),
        negative=int((~positive).sum()),
    )


def _keypoints(
    image: NDArray[np.uint8], *, size: tuple[int, int], sift: cv2.SIFT
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """SIFT keypoints (x, y) [K, 2] and descriptors [K, 128] of an RGB image resized to `size`, by row."""
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    if grey.shape != size:
        grey = cv2.resize(grey, (size[1], size[0]), interpolation=cv2.INTER_AREA)
    keypoints, descriptors = sift.detectAndCompute(grey, None)
    if not keypoints:
        return np.zeros((0, 2)), np.zeros((0, 128), np.float32)
    points = np.array([keypoint.pt for keypoint in keypoints], np.float64)
    order = np.lexsort((points[:, 0], points[:, 1]))
    return points[order], np.asarray(descriptors, np.float32)[order]


def _mutual_matches(
    left_points: NDArray[np.float64],
    left_descriptors: NDArray[np.float32],
    right_points: NDArray[np.float64],
    right_descriptors: NDArray[np.float32],
    *,
    max_row_offset: float,
    ratio: float,
    max_distance: float,
) -> NDArray[np.intp]:
    """Index pairs (left, right) [M, 2] of the matches of keypoints sorted by row, found band by band."""
    n_left, n_right = len(left_points), len(right_points)
    if min(n_left, n_right) == 0:
        return np.zeros((0, 2), np.intp)
    left_squares = np.square(left_descriptors).sum(axis=1)
    right_squares = np.square(right_descriptors).sum(axis=1)
    nearest_right = np.zeros(n_left, np.intp)
    accepted = np.zeros(n_left, bool)
    nearest_left = np.full(n_right, -1, np.intp)
    nearest_left_square = np.full(n_right, np.inf, np.float32)
    for start in range(0, n_left, _BLOCK):
        block = slice(start, min(start + _BLOCK, n_left))
        rows = left_points[block, 1]
        low = int(np.searchsorted(right_points[:, 1], rows[0] - max_row_offset, side="left"))
        high = int(np.searchsorted(right_points[:, 1], rows[-1] + max_row_offset, side="right"))
        if low == high:
            continue
        band = slice(low, high)
        products = left_descriptors[block] @ right_descriptors[band].T  # [block, band]
        squares = left_squares[block, None] + right_squares[band] - 2 * products
        same_row = np.abs(rows[:, None] - right_points[band, 1]) <= max_row_offset
        squares = np.where(same_row, squares, np.float32(np.inf))

        column = np.argmin(squares, axis=0)  # for every right keypoint its best left one in this block
        column_square = squares[column, np.arange(high - low)]
        closer = column_square < nearest_left_square[band]
        nearest_left_square[band] = np.where(closer, column_square, nearest_left_square[band])
        nearest_left[band] = np.where(closer, column + start, nearest_left[band])

        best = np.argmin(squares, axis=1)
        index = np.arange(len(rows))
        best_square = squares[index, best]
        squares[index, best] = np.inf
        rival_square = squares.min(axis=1)
        nearest_right[block] = best + low
        accepted[block] = (best_square <= max_distance**2) & (best_square < ratio**2 * rival_square)
    accepted &= nearest_left[nearest_right] == np.arange(n_left)
    chosen = np.flatnonzero(accepted)
    return np.stack([chosen, nearest_right[chosen]], axis=1)


def fit_scale_shift(
    inverse_depth: NDArray[np.floating],
    disparity: NDArray[np.floating],
    *,
    min_inliers: int = MIN_INLIERS,
    min_inlier_share: float = 0.0,
    rejected: int = 0,
    tolerance_px: float = 2.0,
    tolerance_ratio: float = 0.1,
    hypotheses: int = 500,
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
        return _fallback(total, 0, f"only {total} usable matches, fewer than the {min_inliers} needed")
    unit = float(np.abs(q).max())
    if np.ptp(q) <= _MIN_SPREAD * unit:
        return _fallback(total, 0, "the monocular depth is the same at all matches")
    q = q / unit  # conditions the least squares; alpha is scaled back at the end
    tolerance = np.maximum(tolerance_px, tolerance_ratio * np.abs(d))

    line = _best_line(q, d, tolerance=tolerance, hypotheses=hypotheses, seed=seed)
    if line is None:
        return _fallback(total, 0, "no two of the matches agree with a positive alpha")
    inliers = np.abs(line[0] * q + line[1] - d) <= tolerance
    for _ in range(_REFITS):
        if inliers.sum() < 2 or np.ptp(q[inliers]) <= _MIN_SPREAD:
            return _fallback(total, 0, "the monocular depth is the same at all inliers")
        line = _least_squares(q[inliers], d[inliers])
        fitted, inliers = inliers, np.abs(line[0] * q + line[1] - d) <= tolerance
        if np.array_equal(fitted, inliers):
            break
    count = int(fitted.sum())
    alpha, beta = line[0] / unit, line[1]
    needed = max(min_inliers, math.ceil(min_inlier_share * (total + rejected)))
    if count < needed:
        return _fallback(total, count, f"only {count} of {total + rejected} matches agree on one fit, {needed} needed")
    if not alpha > 0:
        return _fallback(total, 0, f"the fitted alpha is {alpha:g}, not positive")
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
    rng = np.random.default_rng(seed)
    first = rng.integers(0, len(d), hypotheses)
    second = (first + rng.integers(1, len(d), hypotheses)) % len(d)  # never the same match twice
    apart = np.abs(q[first] - q[second]) > _MIN_SPREAD
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


def _least_squares(q: NDArray[np.float64], d: NDArray[np.float64]) -> tuple[float, float]:
    """(alpha, beta) that minimise the sum of (d - alpha q - beta)^2, in closed form."""
    q_mean, d_mean = q.mean(), d.mean()
    alpha = ((q - q_mean) * (d - d_mean)).sum() / np.square(q - q_mean).sum()
    return float(alpha), float(d_mean - alpha * q_mean)


def _fallback(matches: int, inliers: int, reason: str) -> DepthPriorReport:
    return DepthPriorReport(matches, inliers, alpha=0.0, beta=0.0, fell_back=True, reason=reason)


@torch.no_grad()
def initial_disparity(
    depth: Tensor,
    matches: Sequence[SparseMatches],
    *,
    full_size: tuple[int, int],
    out_size: tuple[int, int],
    min_inliers: int = MIN_INLIERS,
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
        min_inliers: below this many inliers a pair starts from zero disparity.
        min_inlier_share: so does one of whose matches a smaller share are inliers, see `fit_scale_shift`; 0 for never.

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
        _fit_pair(
            inverse[index],
            item,
            full_size=full_size,
            min_inliers=min_inliers,
            min_inlier_share=min_inlier_share,
        )
        for index, item in enumerate(matches)
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
    return depth.clamp(min=float(usable.median()) * _DEPTH_FLOOR).reciprocal()


def _fit_pair(
    inverse: Tensor,
    matches: SparseMatches,
    *,
    full_size: tuple[int, int],
    min_inliers: int,
    min_inlier_share: float,
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
        min_inliers=min_inliers,
        min_inlier_share=min_inlier_share,
        rejected=matches.negative,
    )
    count = len(matches.disparity)
    if report.fell_back and matches.negative > count:
        told = f"{matches.negative} matches have disparity <= 0, only {count} > 0: are left and right swapped?"
        return replace(report, reason=told)
    return report
