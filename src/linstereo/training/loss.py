"""The training objective (paper section 3.6, Eq. 9).

Every term is a mean over the places where it is defined, so its size depends neither on the crop nor on how sparse the
ground truth is; a batch without any ground truth has loss zero. A batch that is worked on in parts, one after the other
or by several processes, has the same means if each part divides by the counts of the whole: see `sequence_counts`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

GAMMA = 0.9
SMOOTHNESS_WEIGHT = 0.001
GRADIENT_WEIGHT = 0.01
GRADIENT_SCALES = 4
AXES = (-1, -2)  # x, y


class LossTerms(NamedTuple):
    """Scalars, each already summed over iterations with the weights gamma**(T - t); `total` is Eq. 9."""

    total: Tensor
    l1: Tensor
    smoothness: Tensor
    gradient: Tensor


def sequence_loss(
    predictions: Sequence[Tensor],
    target: Tensor,
    valid: Tensor,
    image: Tensor,
    *,
    gamma: float = GAMMA,
    smoothness_weight: float = SMOOTHNESS_WEIGHT,
    gradient_weight: float = GRADIENT_WEIGHT,
    robust: float = 0.0,
    weights: Tensor | None = None,
    counts: Mapping[str, Tensor] | None = None,
) -> LossTerms:
    """Eq. 9 over all refinement iterations.

    Args:
        predictions: disparities of iterations 1 to T, each [B, 1, H, W] in px.
        target: ground truth [B, 1, H, W] in px; its values where `valid` is false do not matter, even if not finite.
        valid: bool [B, 1, H, W].
        image: the left image, [B, 3, H, W] in [0, 1].
        gamma: weight ratio of an iteration to the next.
        smoothness_weight: lambda_s.
        gradient_weight: lambda_g.
        robust: errors e well above this, in px, count as its multiple log(1 + e / robust) instead of e, so that a few
            hopeless pixels do not outweigh the precision of all others; 0, the paper's, for no such limit.
        weights: [B, 1, H, W], what each pixel counts in the first term, 0 where not valid, see
            `linstereo.training.edges`; by default all valid ones the same, as in the paper.
        counts: what to divide by, as from `sequence_counts`; by default the counts of this batch.
    """
    target = torch.where(valid, target, 0.0)
    weights = valid.to(target) if weights is None else weights
    if counts is None:
        counts = {name: count.clamp(min=1) for name, count in sequence_counts(valid, weights).items()}
    pixels, neighbours = counts["pixels"], counts["neighbours"]
    l1 = smoothness = gradient = target.new_zeros(())
    for t, prediction in enumerate(predictions, start=1):
        weight = gamma ** (len(predictions) - t)
        l1 = l1 + weight * l1_term(prediction, target, weights, robust=robust, count=pixels)
        smoothness = smoothness + weight * smoothness_term(prediction, image, valid, counts=neighbours[0])
        gradient = gradient + weight * gradient_term(prediction, target, valid, counts=neighbours)
    total = l1 + smoothness_weight * smoothness + gradient_weight * gradient
    return LossTerms(total, l1, smoothness, gradient)


def sequence_counts(valid: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """How many places the terms are defined in, for valid [B, 1, H, W]; all float32.

    Returns:
        `pixels`, the sum of the `weights`, and `neighbours` [GRADIENT_SCALES, 2]: pairs of valid pixels beside each
        other in x and in y at each scale.
    """
    parts = [valid[..., :: 2**k, :: 2**k] for k in range(GRADIENT_SCALES)]
    neighbours = [torch.stack([_both(part, axis).sum() for axis in AXES]) for part in parts]
    return {"pixels": weights.sum().float(), "neighbours": torch.stack(neighbours).float()}


def l1_term(
    prediction: Tensor, target: Tensor, weights: Tensor, *, robust: float = 0.0, count: Tensor | None = None
) -> Tensor:
    """Mean absolute error in px, each pixel weighted; all maps [B, 1, H, W], `robust` as in `sequence_loss`.

    `count` is what to divide by, as in the other terms; by default the sum of the weights.
    """
    error = (prediction - target).abs()
    if robust > 0:
        error = robust * (error / robust).log1p()
    return _masked_mean(weights * error, weights > 0, weights.sum().clamp(min=1) if count is None else count)


def smoothness_term(prediction: Tensor, image: Tensor, valid: Tensor, *, counts: Tensor | None = None) -> Tensor:
    """Edge-aware smoothness: |d'| exp(-|I'|) for neighbours in x and in y, both valid.

    Disparity differences in px; the image difference is the mean over its channels, values in [0, 1].
    """
    total = prediction.new_zeros(())
    for i, axis in enumerate(AXES):
        edge = image.diff(dim=axis).abs().mean(dim=1, keepdim=True)  # [B, 1, ...]
        roughness = prediction.diff(dim=axis).abs() * torch.exp(-edge)
        total = total + _masked_mean(roughness, _both(valid, axis), None if counts is None else counts[i])
    return total


def gradient_term(
    prediction: Tensor,
    target: Tensor,
    valid: Tensor,
    *,
    scales: int = GRADIENT_SCALES,
    counts: Tensor | None = None,
) -> Tensor:
    """Absolute difference of disparity gradients in x and in y, summed over scales 1, 1/2, 1/4, ...

    A scale takes every 2**k-th pixel, so that unknown pixels never mix with known ones.
    """
    error = prediction - target
    total = prediction.new_zeros(())
    for k in range(scales):
        part, mask = error[..., :: 2**k, :: 2**k], valid[..., :: 2**k, :: 2**k]
        for i, axis in enumerate(AXES):
            count = None if counts is None else counts[k, i]
            total = total + _masked_mean(part.diff(dim=axis).abs(), _both(mask, axis), count)
    return total


def _both(valid: Tensor, axis: int) -> Tensor:
    """Where both neighbours of a difference along an axis are valid."""
    size = valid.shape[axis]
    return valid.narrow(axis, 0, size - 1) & valid.narrow(axis, 1, size - 1)


def _masked_mean(values: Tensor, mask: Tensor, count: Tensor | None) -> Tensor:
    total = torch.where(mask, values, 0.0).sum()
    return total / (mask.sum().clamp(min=1) if count is None else count)
