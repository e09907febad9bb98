"""The corners of tags to a fraction of a pixel, from the straight edges of their black squares.

Each side is sampled across at many places; the steepest rise from black to white, after smoothing, gives one point of
the edge; a robust straight line through them gives the side, and neighbouring sides meet in the corner. A side has far
more pixels than a corner, so this is precise where the pixels at the corner itself are dim, blurred or noisy. Blur that
is the same in all directions leaves the edges where they are, except where a cell is hardly wider than the blur: then
all edges of a tag move out or in alike, which `linstereo.tank.pose` allows for.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.tank.family import CELLS

ALONG = 20
"""Places on a side at which the edge is looked for."""
ACROSS = 41
"""Samples across the edge at each of them."""
UNREFINED = 1.0
"""Standard deviation in px of a corner that could not be refined."""
_ROUNDS = 3
_BORDER = 0.13  # of a side, next to the corners, is left out: there the other edge is near

Floats = NDArray[np.float64]
Grey = NDArray[np.float32]


def linear_grey(rgb: NDArray[np.uint8]) -> Grey:
    """Brightness in linear light, in which blur is symmetric: float32 [H, W], 0 to 1, of sRGB uint8 [H, W, 3]."""
    value = np.arange(256) / 255
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4).astype(np.float32)
    grey = cv2.cvtColor(np.ascontiguousarray(rgb), cv2.COLOR_RGB2GRAY)
    return np.asarray(linear[grey], np.float32)


def refine(grey: Grey, corners: Floats) -> tuple[Floats, Floats]:
    """Better corners of tags found roughly, by a pixel or so.

    Args:
        grey: brightness float32 [H, W], in linear light.
        corners: [N, 4, 2] px (column, row), clockwise, the centre of the upper left pixel being (0, 0).

    Returns:
        Corners [N, 4, 2] in px, and the standard deviation [N] of a coordinate of theirs in px as the scatter of the
        edge points tells it; where no straight edges are found, the given corners and `UNREFINED`.
    """
    if not len(corners):
        return corners, np.zeros(0)
    best = corners.astype(np.float64)
    deviation = np.full(len(corners), UNREFINED)
    for _ in range(_ROUNDS):
        offsets, weights = _edge_points(grey, best)
        shift, turn, scatter = _fitted_lines(offsets, weights)  # [N, 4] each
        best = _intersections(best, shift, turn)
        deviation = np.sqrt((scatter**2).mean(axis=1))
    cell = np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2).mean(axis=1) / CELLS  # [N]
    moved = np.linalg.norm(best - corners, axis=2).max(axis=1)
    with np.errstate(invalid="ignore"):
        good = np.isfinite(best).all(axis=(1, 2)) & (moved < np.maximum(0.7 * cell, 1.5)) & (deviation < UNREFINED)
    best[~good] = corners[~good]
    deviation[~good] = UNREFINED
    return best, deviation


def _edge_points(grey: Grey, corners: Floats) -> tuple[Floats, Floats]:
    """How far outside of each side the edge lies, px, and how steep it is there: [N, 4, ALONG] each."""
    start, end = corners, np.roll(corners, -1, axis=1)  # [N, 4, 2]
    side = np.linalg.norm(end - start, axis=2)  # [N, 4]
    along = (end - start) / side[..., None]
    outwards = np.stack([along[..., 1], -along[..., 0]], axis=-1)
    cell = side.mean(axis=1) / CELLS  # [N]
    reach, width = np.clip(0.7 * cell, 1.2, 5.0), np.clip(0.3 * cell, 0.6, 1.6)  # [N], of the search, of the smoothing
    positions = _positions()
    steps = np.linspace(-1.0, 1.0, ACROSS)
    span = reach + 2 * width
    offset = steps * span[:, None]  # [N, ACROSS]
    middle = start[:, :, None] + (positions[:, None] * (end - start)[:, :, None])  # [N, 4, ALONG, 2]
    points = middle[:, :, :, None] + offset[:, None, None, :, None] * outwards[:, :, None, None]  # [N, 4, A, ACROSS, 2]
    maps = points.astype(np.float32).reshape(len(corners) * 4, ALONG * ACROSS, 2)
    profile = cv2.remap(grey, maps[..., 0], maps[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    profile = np.asarray(profile, np.float64).reshape(len(corners), 4, ALONG, ACROSS)
    distance = offset[:, :, None] - offset[:, None, :]  # [N, result, source]
    kernel = -distance * np.exp(-0.5 * (distance / width[:, None, None]) ** 2)  # derivative of a Gaussian
    kernel -= kernel.mean(axis=2, keepdims=True)  # no answer to an even brightness, also near the ends
    rise = np.einsum("nsap,nqp->nsaq", profile, kernel)
    inside = np.abs(offset) <= reach[:, None]
    rise = np.where(inside[:, None, None], rise, -np.inf)
    peak = rise.argmax(axis=-1)  # [N, 4, ALONG]
    peak = np.clip(peak, 1, ACROSS - 2)
    before, at, after = (np.take_along_axis(rise, (peak + k)[..., None], axis=-1)[..., 0] for k in (-1, 0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        bend = before - 2 * at + after
        fine = np.where(np.isfinite(bend) & (bend < 0), 0.5 * (before - after) / bend, np.nan)
    step = (2 * span / (ACROSS - 1))[:, None, None]
    offsets = -span[:, None, None] + (peak + fine) * step
    weights = np.where(np.isfinite(fine), np.maximum(at, 0), 0.0)
    return np.nan_to_num(offsets), weights


def _positions() -> Floats:
    return np.linspace(_BORDER, 1 - _BORDER, ALONG)


def _fitted_lines(offsets: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Straight lines through edge points: offset at the middle of the side, its growth along the side, uncertainty.

    All are [N, 4]: px, px over the whole side, and the standard deviation in px of the line's ends.
    """
    place = np.broadcast_to(_positions() - 0.5, offsets.shape)
    steepness = weights / np.maximum(weights.max(axis=-1, keepdims=True), 1e-12)
    trust = steepness.copy()
    for _ in range(6):
        total = np.maximum(trust.sum(axis=-1), 1e-12)
        mean_place, mean = (trust * place).sum(axis=-1) / total, (trust * offsets).sum(axis=-1) / total
        from_mean = place - mean_place[..., None]
        spread = np.maximum((trust * from_mean**2).sum(axis=-1), 1e-12)
        slope = (trust * from_mean * (offsets - mean[..., None])).sum(axis=-1) / spread
        middle = mean - slope * mean_place
        residual = offsets - middle[..., None] - slope[..., None] * place
        scale = 1.4826 * np.median(np.abs(residual), axis=-1)[..., None] + 0.02
        trust = steepness / (1 + (residual / (2 * scale)) ** 2) ** 2
    total = np.maximum(trust.sum(axis=-1), 1e-12)
    variance = (trust * residual**2).sum(axis=-1) / total
    end = variance * (1 / total + 0.25 / spread)  # of the line at an end of the side
    return middle, slope, np.sqrt(end)


def _intersections(corners: Floats, shift: Floats, turn: Floats) -> Floats:
    """Corners [N, 4, 2] at which sides meet that lie `shift + turn * (place - 0.5)` px outside of the given ones."""
    start, end = corners, np.roll(corners, -1, axis=1)
    along = end - start
    outwards = np.stack([along[..., 1], -along[..., 0]], axis=-1) / np.linalg.norm(along, axis=2)[..., None]
    first = start + (shift - turn / 2)[..., None] * outwards  # [N, 4, 2]
    last = end + (shift + turn / 2)[..., None] * outwards
    line = np.cross(_homogeneous(first), _homogeneous(last))  # [N, 4, 3]
    meeting = np.cross(np.roll(line, 1, axis=1), line)  # side before and side after each corner
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(meeting[..., :2] / meeting[..., 2:])


def _homogeneous(points: Floats) -> Floats:
    return np.concatenate([points, np.ones((*points.shape[:-1], 1))], axis=-1)
