"""Few and hard pixels that may count more in a loss: outlines, where the disparity has steps, and what lies hidden."""

import torch
import torch.nn.functional as F
from torch import Tensor

RADIUS = 6
"""px; how far from a step a pixel is near it."""
STEP = 2.0
"""px; the least difference of disparities that is a step."""
OUTSIDE = 1 / 3
"""How much more pixels count whose match lies outside of the right image, relative to the other hard ones."""


def step_weights(disparity: Tensor, valid: Tensor, *, edge_weight: float, occluded: Tensor | None = None) -> Tensor:
    """What each pixel counts: 1, or 1 + `edge_weight` near a step or if hidden; 0 where the disparity is not known.

    Pixels whose match lies outside of the right image count 1 + `edge_weight` / 3: there are many of them in a crop
    with large disparities, and less about them can be known.

    Args:
        disparity: [B, 1, H, W] in px.
        valid: bool [B, 1, H, W].
        edge_weight: >= 0.
        occluded: bool [B, 1, H, W], what the right camera does not see. None if all pixels are seen.

    Returns:
        [B, 1, H, W].
    """
    known = valid.to(disparity.dtype)
    if not edge_weight:
        return known
    hard = near_steps(disparity, valid).to(disparity.dtype)
    if occluded is not None:
        column = torch.arange(disparity.shape[-1], device=disparity.device)
        share = torch.where(column - disparity >= 0, 1.0, OUTSIDE)
        hard = torch.maximum(hard, occluded * share)
    return known * (1 + edge_weight * hard)


def near_steps(disparity: Tensor, valid: Tensor, *, radius: int = RADIUS, step: float = STEP) -> Tensor:
    """Where known disparities within `radius` px in x and in y differ by more than `step` px: bool [B, 1, H, W]."""
    largest = _largest(torch.where(valid, disparity, -torch.inf), radius)
    smallest = -_largest(torch.where(valid, -disparity, -torch.inf), radius)
    return (largest - smallest) > step


def _largest(values: Tensor, radius: int) -> Tensor:
    """The largest value of the square around each pixel, [B, 1, H, W] -> [B, 1, H, W]."""
    for axis in (-1, -2):
        margin = (radius, radius) if axis == -1 else (0, 0, radius, radius)
        values = _window_maximum(F.pad(values, margin, value=-torch.inf), 2 * radius + 1, axis)
    return values


def _window_maximum(values: Tensor, size: int, axis: int) -> Tensor:
    """The largest of `size` values in a row along an axis, for each of the n - size + 1 places of the first of them.

    Windows of doubled length are made from two of the last; `F.max_pool2d` also looks for the places of its maxima.
    """
    length = 1
    while length < size:
        step = min(length, size - length)
        kept = values.shape[axis] - step
        values = torch.maximum(values.narrow(axis, 0, kept), values.narrow(axis, step, kept))
        length += step
    return values
