"""Training the features alone: which cell of the row is the match?

At every scale the correlations of a left pixel with its row are scores over the right columns, and the cross-entropy
between their softmax and the true position trains backbone and projections directly, without the decoder.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from linstereo.model.cost_volume import CostVolume
from linstereo.model.strides import STRIDES
from linstereo.training.edges import step_weights


def matching_loss(
    volumes: Sequence[CostVolume],
    disparity: Tensor,
    valid: Tensor,
    *,
    edge_weight: float = 0.0,
    counts: Mapping[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """Cross-entropy, in nats, of the soft match along the epipolar line at all scales.

    Args:
        volumes: of images whose sides are multiples of 32.
        disparity: [B, 1, H, W] in px.
        valid: bool [B, 1, H, W]; leave out occluded pixels, which have no match.
        edge_weight: how much more pixels near a step of the disparity count, see `linstereo.training.edges`.
        counts: what to divide by, as from `matching_counts`; by default the counts of this batch. A batch that is
            worked on in parts keeps its means if every part divides by the counts of the whole.

    Returns:
        `total`, the sum over scales, and each scale's own mean as `match_1_4`, `match_1_8`, ...
    """
    terms: dict[str, Tensor] = {}
    weight = step_weights(disparity, valid, edge_weight=edge_weight)
    for volume in volumes:
        stride = disparity.shape[-1] // volume.size[1]
        name = _name(stride)
        count = None if counts is None else counts[name]
        terms[name] = soft_match_loss(volume.correlations(), *_at_stride(disparity, weight, stride), count=count)
    return {"total": torch.stack(list(terms.values())).sum(), **terms}


def matching_counts(disparity: Tensor, valid: Tensor, *, edge_weight: float = 0.0) -> dict[str, Tensor]:
    """The weights of all pixels that have their match inside the image, float32, by the name of each scale's term.

    Arguments as for `matching_loss`.
    """
    weight = step_weights(disparity, valid, edge_weight=edge_weight)
    counts = {}
    for stride in STRIDES:
        small, known = _at_stride(disparity, weight, stride)
        column = torch.arange(small.shape[-1], device=small.device)
        inside = column - torch.where(known > 0, small, 0.0) >= 0
        counts[_name(stride)] = torch.where(inside, known, 0.0).sum().float()
    return counts


def _name(stride: int) -> str:
    return f"match_1_{stride}"


def _at_stride(disparity: Tensor, weight: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Disparity, in px of that scale, and weight at the middle of every cell: [B, h, w]."""
    centre = slice(stride // 2, None, stride)
    return disparity[:, 0, centre, centre] / stride, weight[:, 0, centre, centre]


def soft_match_loss(correlation: Tensor, disparity: Tensor, weight: Tensor, *, count: Tensor | None = None) -> Tensor:
    """Mean cross-entropy of one scale.

    The target is shared between the two columns beside the true position. Columns to the right of the left pixel are
    no candidates: disparities are not negative.

    Args:
        correlation: [B, h, w, w] scores.
        disparity: [B, h, w] in px of this scale.
        weight: [B, h, w], what each pixel counts; 0 where the disparity is not known.
        count: what to divide by; by default the weights of all pixels that have a match.
    """
    width = correlation.shape[-1]
    column = torch.arange(width, device=correlation.device)
    precise = torch.promote_types(correlation.dtype, torch.float32)
    log_probability = correlation.masked_fill(column > column[:, None], -torch.inf).log_softmax(dim=-1, dtype=precise)
    position = column - torch.where(weight > 0, disparity, 0.0)  # [B, h, w], column of the match in the right image
    weight = torch.where(position >= 0, weight, 0.0)
    base = position.clamp(min=0).floor()
    share = position.clamp(min=0) - base
    near = log_probability.gather(-1, base.long().unsqueeze(-1)).squeeze(-1)
    far_index = torch.minimum(base.long() + 1, column)  # at zero disparity there is no column beyond
    far = log_probability.gather(-1, far_index.unsqueeze(-1)).squeeze(-1)
    cross_entropy = -torch.lerp(near, far, share)
    total = torch.where(weight > 0, weight * cross_entropy, 0.0).sum()
    return total / (weight.sum().clamp(min=1) if count is None else count)
