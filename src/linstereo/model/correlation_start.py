"""A start for the refinement taken from the correlations themselves, for backbones without monocular depth.

Every row of the finest volume is a distribution over matches. Semi-global aggregation (Hirschmüller 2008) lets pixels
agree with their neighbours along four directions, the best match is refined between cells, and where left and right
disagree the farther of the two nearest agreeing neighbours fills in: what one camera cannot see usually belongs to the
background.

Nothing here is learned and no gradient passes: features are trained by their own loss, the updaters by theirs.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from linstereo.model.cost_volume import CostVolume
from linstereo.model.fast_paths import CHUNK, half_size
from linstereo.model.precision import without_autocast_cache
from linstereo.model.starts import CoarsePass, Start, StartingPoint, StartInputs
from linstereo.model.strides import pad_images

SMALL_STEP = 2.5
"""Cost, in nats, of a disparity change of one cell between neighbours."""
LARGE_STEP = 7.0
"""Cost of any larger change."""
WORST = 10.0
"""Cost of an impossible match, and the limit of every cost."""
UNSURE, SURE = 0.05, 0.15
"""Confidence below which the coarse pass is taken for the start, and above which the correlations are."""
SURE_WINDOW = 5
"""Side in cells of the window that the confidence is averaged over."""
FAR_APART = 4.0
"""Cells by which two starts differ that are told to be far apart."""
LINE = 16
"""Values in a line of the cache; paths begin at one."""
MOST_CELLS = 1 << 24
"""Pixels times disparities of the largest volume that is aggregated; larger images start from a coarser one."""


class CorrelationStart(Start):
    """The best matches in the cost volumes as the network's start, with coarse passes before or without.

    The cues are whether left and right agree and the probability of the chosen match before aggregation, both in
    [0, 1]; with coarse passes also the share of the correlations in the start, in [0, 1], and how far the coarse pass
    is above them, in (-1, 1).

    Args:
        coarse_iterations: iterations of a first pass over the images at half the size, whose disparity is taken where
            the correlations are unsure; 0 for no such pass. A surface without texture is half as wide there, and more
            of it is within reach of what its borders tell.
        coarse_passes: how many passes come first if any does: each starts from one at half its own size.
    """

    def __init__(self, *, coarse_iterations: int = 0, coarse_passes: int = 1) -> None:
        super().__init__(cues=4 if coarse_iterations else 2)
        self.coarse_iterations = coarse_iterations
        self.coarse_passes = coarse_passes if coarse_iterations else 0

    def coarse_disparity(self, pair: Tensor, predict: CoarsePass) -> Tensor | None:
        """The disparity of the images at half the size, without a gradient; see `Start.coarse_disparity`."""
        with torch.no_grad(), without_autocast_cache(pair.device.type):
            return self._after(self.coarse_passes, pair, predict)

    def _after(self, passes: int, pair: Tensor, predict: CoarsePass) -> Tensor | None:
        """What so many passes find for the start of the next one, as from `coarse_disparity`."""
        if not passes:
            return None
        half = half_size(pad_images(pair))
        return half_size(predict(half, self.coarse_iterations, self._after(passes - 1, half, predict))) / 2

    def trusting_cues(self, feature: Tensor) -> Tensor:
        """See `Start.trusting_cues`: the correlations agree, and a coarse pass found the same."""
        cues = super().trusting_cues(feature)
        if self.coarse_iterations:
            cues[:, -1] = 0
        return cues

    def forward(self, inputs: StartInputs) -> StartingPoint:
        """See `Start.forward`."""
        start = to_scale(start_from_volumes(inputs.volumes), inputs.volumes[0].size)
        return with_coarse_pass(start, inputs.coarse) if self.coarse_iterations else start


def start_from_volumes(volumes: Sequence[CostVolume]) -> StartingPoint:
    """Start from the finest of several volumes, given from fine to coarse, that is not too large."""
    return correlation_start(volumes[start_scale([volume.size for volume in volumes])].correlations())


def start_scale(sizes: Sequence[tuple[int, int]]) -> int:
    """Which of several volumes, given as (height, width) from fine to coarse, to start from."""
    small = (i for i, (height, width) in enumerate(sizes) if height * width * (width // 2 + 1) <= MOST_CELLS)
    return next(small, len(sizes) - 1)


@torch.no_grad()
def correlation_start(correlation: Tensor) -> StartingPoint:
    """Start from the correlations [B, h, w, w] of one scale (left column, then right column)."""
    cost = matching_cost(correlation.float())  # [B, h, w, D + 1]
    total = aggregate(cost)
    best = _cheapest(total)  # [B, h, w]
    agree = left_right_agreement(total, best)
    probability = _window(cost, best).neg_().exp_().sum(dim=-1).clamp_(max=1)
    disparity = fill_from_background(_between_cells(total, best), agree)
    return StartingPoint(disparity.unsqueeze(1), torch.stack([agree.to(disparity), probability], dim=1))


def by_disparity(correlation: Tensor) -> Tensor:
    """Reorder [B, h, w, w] from right columns to disparities 0 to w / 2, and a wall behind them: [B, h, w, D + 1].

    It is -inf in the wall and outside of the right image.
    """
    batch, height, width, _ = correlation.shape
    count = width // 2 + 1
    strides = correlation.stride()
    # Along a row, neighbours in disparity are neighbours in memory, in falling order. A view that also starts before
    # the right image takes other values there, which are overwritten; only in column 0 it would leave the memory.
    falling = correlation[:, :, 1:].as_strided(
        (batch, height, width - 1, count),
        (*strides[:2], strides[2] + strides[3], strides[3]),
        correlation.storage_offset() + strides[2] + (2 - count) * strides[3],
    )
    score = correlation.new_empty(batch, height, width, count + 1)
    score[:, :, 1:, :-1] = falling.flip(-1)
    score[:, :, 0, 0] = correlation[:, :, 0, 0]
    score[:, :, : count - 1].masked_fill_(_outside(count, score.device), -torch.inf)
    score[..., -1] = -torch.inf
    return score


def _outside(count: int, device: torch.device) -> Tensor:
    """Which of `count` disparities, and the wall, point to the left of the right image, [count - 1, count + 1].

    Only the first count - 1 left columns have any.
    """
    column = torch.arange(count - 1, device=device)[:, None]
    return torch.arange(count + 1, device=device) > column


def matching_cost(correlation: Tensor) -> Tensor:
    """Negative log-probability of every disparity, in nats and at most `WORST`: [B, h, w, w] -> [B, h, w, D + 1].

    Near the left border some matches lie outside of the right image. They share what they would have if they were as
    good as matches are where all candidates are inside, so that a pixel whose match is outside does not have to take a
    poor one inside. Behind the last disparity is a wall of infinite cost, which keeps neighbours in memory apart.
    """
    batch, height, width, _ = correlation.shape
    count = width // 2 + 1
    border = count - 1  # columns that have matches outside
    cost = correlation.new_empty(batch, height, width, count + 1)
    evidence = correlation.new_empty(batch, height, width)  # of all matches inside together
    for rows in _row_chunks(cost):
        score = by_disparity(correlation[:, rows])
        torch.log_softmax(score, dim=-1, out=cost[:, rows]).neg_()
        torch.add(score[..., 0], cost[:, rows, :, 0], out=evidence[:, rows])
        cost[:, rows, border:].clamp_(max=WORST)
    usual = evidence[..., border:].mean(dim=(1, 2))[:, None, None]
    outside = _outside(count, cost.device)
    number = torch.arange(border, 0, -1, device=cost.device)  # of matches outside
    beyond = usual + (number / count).log()  # [B, 1, border], evidence of all matches outside together
    inside = evidence[..., :border]
    more = torch.logaddexp(inside, beyond)
    raised, each = (more - inside).unsqueeze(-1), (more - beyond + number.log()).unsqueeze(-1)
    for rows in _row_chunks(cost):
        part = cost[:, rows, :border]
        torch.where(outside, each[:, rows], part.add_(raised[:, rows]), out=part)
        part.clamp_(max=WORST)
    cost[..., -1] = torch.inf
    return cost


def _row_chunks(volume: Tensor) -> list[slice]:
    """Rows of [B, h, w, D] that fit into the cache."""
    step = max(CHUNK // volume[:, 0].numel(), 1)
    return [slice(start, start + step) for start in range(0, volume.shape[1], step)]


def aggregate(cost: Tensor, *, small_step: float = SMALL_STEP, large_step: float = LARGE_STEP) -> Tensor:
    """Sum of the semi-global path costs along both rows and both columns: [B, h, w, D + 1] -> [B, h, w, D + 1].

    Both have a wall of infinite cost behind the last disparity, see `matching_cost`.
    """
    total = torch.zeros_like(cost)
    for axis in (1, 2):
        _add_path_costs(cost.movedim(axis, 0), total.movedim(axis, 0), small_step, large_step)
    return total


def _add_path_costs(cost: Tensor, total: Tensor, small_step: float, large_step: float) -> None:
    """Add the cheapest ways to each disparity, less the running minimum, along the first axis and back.

    Args:
        cost: [n, ..., D + 1], with the wall.
        total: what to add to, the same shape.
        small_step: cost of a change of one disparity from one position to the next.
        large_step: cost of any larger change.
    """
    shape = (2, *cost.shape[1:])  # one path from each end
    size = math.prod(shape)
    memory = cost.new_full((size + 2 * LINE,), torch.inf)
    # Every value and its neighbours; between those of different pixels are walls.
    before, flat, behind = (memory[first : first + size] for first in (LINE - 1, LINE, LINE + 1))
    paths, way = flat.view(shape), cost.new_zeros(shape)
    flat_way = way.view(-1)
    costs, totals, ends = cost.unbind(), total.unbind(), list(zip(way, paths, strict=True))
    for i in range(len(costs)):
        if i:
            paths.sub_(paths.amin(dim=-1, keepdim=True))
            flat.clamp_(max=large_step)
            torch.minimum(before, behind, out=flat_way).add_(small_step)
            torch.minimum(flat_way, flat, out=flat_way)
        for position, (so_far, path) in zip((i, len(costs) - 1 - i), ends, strict=True):
            torch.add(so_far, costs[position], out=path)
            totals[position].add_(path)


def _cheapest(total: Tensor) -> Tensor:
    """Index of the smallest value, the first of several, along the last axis; `min` is faster than `argmin`."""
    return total.min(dim=-1).indices


def left_right_agreement(total: Tensor, best: Tensor) -> Tensor:
    """Where the best match of a left pixel has that pixel as its own best match, within one cell: bool [B, h, w].

    Args:
        total: [B, h, w, D + 1], with the wall.
        best: [B, h, w], index of the smallest value.
    """
    batch, _, width, cells = total.shape
    right_best = torch.empty_like(best)
    for rows in _row_chunks(total):
        part = F.pad(total[:, rows], (0, 0, 0, cells - 2), value=torch.inf)  # columns beyond the left image
        strides = part.stride()
        # A right column x sees disparity d in the left column x + d.
        from_right = part.as_strided((batch, part.shape[1], width, cells - 1), (*strides[:3], strides[2] + strides[3]))
        right_best[:, rows] = _cheapest(from_right)
    match = torch.arange(width, device=total.device) - best  # [B, h, w]
    return (match >= 0) & ((right_best.gather(-1, match.clamp(min=0)) - best).abs() <= 1)


def fill_from_background(disparity: Tensor, trusted: Tensor) -> Tensor:
    """Replace what is not trusted by the smaller of the nearest trusted values in its row, [B, h, w] -> [B, h, w]."""
    width = disparity.shape[-1]
    column = torch.arange(width, device=disparity.device).expand_as(disparity)
    before = torch.where(trusted, column, -1).cummax(dim=-1).values
    after = torch.where(trusted, column, width).flip(-1).cummin(dim=-1).values.flip(-1)
    value_before = disparity.gather(-1, before.clamp(min=0)).masked_fill(before < 0, torch.inf)
    value_after = disparity.gather(-1, after.clamp(max=width - 1)).masked_fill(after == width, torch.inf)
    filled = torch.minimum(value_before, value_after)
    return torch.where(filled.isfinite(), filled, disparity)


def _between_cells(total: Tensor, best: Tensor) -> Tensor:
    """Vertex of the parabola through a minimum and its two neighbours, [B, h, w] in cells."""
    below, middle, above = _window(total, best).unbind(dim=-1)
    curvature = below - 2 * middle + above
    shift = 0.5 * (below - above) / curvature.clamp(min=1e-6)
    inside = (best > 0) & (best < total.shape[-1] - 2) & curvature.isfinite() & (curvature > 1e-6)
    return best + torch.where(inside, shift.clamp(-0.5, 0.5), 0.0)


def _window(values: Tensor, centre: Tensor) -> Tensor:
    """Values at an index and on either side of it, clamped at the ends: [B, h, w, D + 1] -> [B, h, w, 3]."""
    steps = torch.arange(-1, 2, device=values.device)
    index = (centre.unsqueeze(-1) + steps).clamp(0, values.shape[-1] - 2)
    return values.gather(-1, index)


def with_coarse_pass(start: StartingPoint, coarse: Tensor | None) -> StartingPoint:
    """Take the result of a coarser pass where the correlations are unsure of themselves.

    Args:
        start: from the correlations, with the cues of a single pass.
        coarse: [B, 1, h, w] disparity of the coarser pass in px of the same scale; None in that pass itself.
    """
    if coarse is None:
        nothing = torch.zeros_like(start.disparity)
        return StartingPoint(start.disparity, torch.cat([start.cues, nothing + 1, nothing], dim=1))
    confidence = F.avg_pool2d(
        start.cues[:, :1] * start.cues[:, 1:2],
        SURE_WINDOW,
        stride=1,
        padding=SURE_WINDOW // 2,
        count_include_pad=False,
    )
    share = ((confidence - UNSURE) / (SURE - UNSURE)).clamp(0, 1)
    above = torch.tanh((coarse - start.disparity) / FAR_APART)
    return StartingPoint(torch.lerp(coarse, start.disparity, share), torch.cat([start.cues, share, above], dim=1))


def to_scale(start: StartingPoint, size: tuple[int, int]) -> StartingPoint:
    """The start at another scale of the same images; disparities in px of that scale."""
    factor = size[1] / start.disparity.shape[-1]
    disparity = F.interpolate(start.disparity, size=size, mode="bilinear", align_corners=False) * factor
    return StartingPoint(disparity, F.interpolate(start.cues, size=size, mode="bilinear", align_corners=False))
