"""A start for the refinement taken from the correlations themselves, for backbones without monocular depth.

Every row of the finest volume is a distribution over matches. Semi-global aggregation (Hirschmüller 2008) lets pixels
agree with their neighbours along four directions, the best match is refined between cells, and where left and right
disagree the farther of the two nearest agreeing neighbours fills in: what one camera cannot see usually belongs to the
background.

Nothing here is learned and no gradient passes: features are trained by their own loss, the updaters by theirs.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from linstereo.model.cost_volume import CostVolume
from linstereo.model.precision import without_autocast_cache
from linstereo.model.starts import Start, StartingPoint, StartInputs
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
MOST_CELLS = 1 << 24
"""Pixels times disparities of the largest volume that is aggregated; larger images start from a coarser one."""


class CorrelationStart(Start):
    """The best matches in the cost volumes as the network's start, in one pass or in two.

    The cues are whether left and right agree and the probability of the chosen match before aggregation, both in
    [0, 1]; with two passes also the share of the correlations in the start, in [0, 1], and how far the coarse pass is
    above them, in (-1, 1).

    Args:
        coarse_iterations: iterations of a first pass over the images at half the size, whose disparity is taken where
            the correlations are unsure; 0 for a single pass. A surface without texture is half as wide there, and more
            of it is within reach of what its borders tell.
    """

    def __init__(self, *, coarse_iterations: int = 0) -> None:
        super().__init__(cues=4 if coarse_iterations else 2)
        self.coarse_iterations = coarse_iterations

    def coarse_disparity(self, pair: Tensor, predict: Callable[[Tensor, int], Tensor]) -> Tensor | None:
        """The disparity of the images at half the size, without a gradient; see `Start.coarse_disparity`."""
        if not self.coarse_iterations:
            return None
        with torch.no_grad(), without_autocast_cache(pair.device.type):
            half = F.avg_pool2d(pad_images(pair), 2)
            return F.avg_pool2d(predict(half, self.coarse_iterations), 2) / 2

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
    cost = matching_cost(by_disparity(correlation.float()))  # [B, h, w, D]
    total = aggregate(cost)
    best = total.argmin(dim=-1)  # [B, h, w]
    agree = left_right_agreement(total, best)
    probability = _window((-cost).exp(), best, radius=1).sum(dim=-1).clamp(max=1)
    disparity = fill_from_background(_between_cells(total, best), agree)
    return StartingPoint(disparity.unsqueeze(1), torch.stack([agree.to(disparity), probability], dim=1))


def by_disparity(correlation: Tensor) -> Tensor:
    """Reorder [B, h, w, w] from right columns to disparities 0 to w / 2: [B, h, w, D], -inf outside the image."""
    width = correlation.shape[-1]
    count = width // 2 + 1
    column = torch.arange(width, device=correlation.device)[:, None]
    match = column - torch.arange(count, device=correlation.device)  # [w, D]
    taken = correlation.gather(-1, match.clamp(min=0).expand(*correlation.shape[:2], width, count))
    return taken.masked_fill(match < 0, -torch.inf)


def matching_cost(score: Tensor) -> Tensor:
    """Negative log-probability of every disparity, in nats and at most `WORST`: [B, h, w, D] -> [B, h, w, D].

    Near the left border some matches lie outside of the right image, where `score` is -inf. They share what they would
    have if they were as good as matches are where all candidates are inside, so that a pixel whose match is outside
    does not have to take a poor one inside.
    """
    outside = score.isneginf()
    share = outside.to(score).mean(dim=-1)  # [B, h, w]
    inside_evidence = score.logsumexp(dim=-1)
    usual = inside_evidence[..., score.shape[-1] - 1 :].mean(dim=(1, 2))[:, None, None]
    outside_evidence = usual + share.log()
    evidence = torch.logaddexp(inside_evidence, outside_evidence).unsqueeze(-1)
    each = (outside_evidence - (share * score.shape[-1]).clamp(min=1).log()).unsqueeze(-1)
    return (evidence - torch.where(outside, each, score)).clamp(max=WORST)


def aggregate(cost: Tensor, *, small_step: float = SMALL_STEP, large_step: float = LARGE_STEP) -> Tensor:
    """Sum of the semi-global path costs of [B, h, w, D] along both rows and both columns: [B, h, w, D]."""
    total = torch.zeros_like(cost)
    for axis in (1, 2):
        _add_path_costs(cost.movedim(axis, 0), total.movedim(axis, 0), small_step, large_step)
    return total


def _add_path_costs(cost: Tensor, total: Tensor, small_step: float, large_step: float) -> None:
    """Add the cheapest ways to each disparity, less the running minimum, along the first axis and back.

    Args:
        cost: [n, ..., D].
        total: what to add to, the same shape.
        small_step: cost of a change of one disparity from one position to the next.
        large_step: cost of any larger change.
    """
    paths = torch.stack([cost[0], cost[-1]])  # [2, ..., D]: one path from each end
    for i in range(len(cost)):
        j = len(cost) - 1 - i
        if i:
            floor = paths.amin(dim=-1, keepdim=True)
            way = torch.minimum(paths, floor + large_step)
            step = paths + small_step
            torch.minimum(way[..., 1:], step[..., :-1], out=way[..., 1:])
            torch.minimum(way[..., :-1], step[..., 1:], out=way[..., :-1])
            paths = way.sub_(floor)
            paths[0] += cost[i]
            paths[1] += cost[j]
        total[i] += paths[0]
        total[j] += paths[1]


def left_right_agreement(total: Tensor, best: Tensor) -> Tensor:
    """Where the best match of a left pixel has that pixel as its own best match, within one cell: bool [B, h, w]."""
    width, count = total.shape[-2:]
    column = torch.arange(width, device=total.device)[:, None]
    left = column + torch.arange(count, device=total.device)  # [w, D] left column seen from a right one
    flat = total.flatten(2)  # [B, h, w * D]
    index = left.clamp(max=width - 1) * count + torch.arange(count, device=total.device)
    from_right = flat[..., index.flatten()].view_as(total)
    right_best = from_right.masked_fill(left >= width, torch.inf).argmin(dim=-1)  # [B, h, w]
    match = column[:, 0] - best  # [B, h, w]
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
    below, middle, above = _window(total, best, radius=1).unbind(dim=-1)
    curvature = below - 2 * middle + above
    shift = 0.5 * (below - above) / curvature.clamp(min=1e-6)
    inside = (best > 0) & (best < total.shape[-1] - 1) & curvature.isfinite() & (curvature > 1e-6)
    return best + torch.where(inside, shift.clamp(-0.5, 0.5), 0.0)


def _window(values: Tensor, centre: Tensor, *, radius: int) -> Tensor:
    """Values around an index of the last axis: [B, h, w, D] -> [B, h, w, 2 * radius + 1], clamped at the ends."""
    steps = torch.arange(-radius, radius + 1, device=values.device)
    index = (centre.unsqueeze(-1) + steps).clamp(0, values.shape[-1] - 1)
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
