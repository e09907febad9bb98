"""Training the features alone: which cell of the row is the match?

At every scale the correlations of a left pixel with its row are scores over the right columns, and the cross-entropy
between their softmax and the true position trains backbone and projections directly, without the decoder.
"""

import torch
from torch import Tensor

from linstereo.model.linstereo import LinStereo


def matching_loss(model: LinStereo, left: Tensor, right: Tensor, disparity: Tensor, valid: Tensor) -> dict[str, Tensor]:
    """Cross-entropy, in nats, of the soft match along the epipolar line at all scales.

    Args:
        model: only its backbone and cost volumes take part.
        left: [B, 3, H, W] in [0, 1], H and W multiples of 32.
        right: the same shape.
        disparity: [B, 1, H, W] in px.
        valid: bool [B, 1, H, W]; leave out occluded pixels, which have no match.

    Returns:
        `total`, the sum over scales, and each scale's own mean as `match_1_4`, `match_1_8`, ...
    """
    features = model.backbone(torch.cat([left, right]))
    terms: dict[str, Tensor] = {}
    for volume in model.cost_volumes(features.pyramid):
        correlation = volume.correlations()  # [B, h, w, w]
        stride = left.shape[-1] // correlation.shape[-1]
        centre = slice(stride // 2, None, stride)
        terms[f"match_1_{stride}"] = soft_match_loss(
            correlation, disparity[:, 0, centre, centre] / stride, valid[:, 0, centre, centre]
        )
    return {"total": torch.stack(list(terms.values())).sum(), **terms}


def soft_match_loss(correlation: Tensor, disparity: Tensor, valid: Tensor) -> Tensor:
    """Mean cross-entropy of one scale.

    The target is shared between the two columns beside the true position. Columns to the right of the left pixel are
    no candidates: disparities are not negative.

    Args:
        correlation: [B, h, w, w] scores.
        disparity: [B, h, w] in px of this scale.
        valid: bool [B, h, w].
    """
    width = correlation.shape[-1]
    column = torch.arange(width, device=correlation.device)
    log_probability = correlation.masked_fill(column > column[:, None], -torch.inf).log_softmax(dim=-1)
    position = column - torch.where(valid, disparity, 0.0)  # [B, h, w], column of the match in the right image
    inside = valid & (position >= 0)
    base = position.clamp(min=0).floor()
    share = position.clamp(min=0) - base
    near = log_probability.gather(-1, base.long().unsqueeze(-1)).squeeze(-1)
    far_index = torch.minimum(base.long() + 1, column)  # at zero disparity there is no column beyond
    far = log_probability.gather(-1, far_index.unsqueeze(-1)).squeeze(-1)
    cross_entropy = -torch.lerp(near, far, share)
    return torch.where(inside, cross_entropy, 0.0).sum() / inside.sum().clamp(min=1)
