"""Starts of every quality for the full-size pass: the truth, made as wrong as a coarse pass may be.

A network that has only ever seen its own coarse pass learns to distrust it wherever that is often wrong. Shown starts
from nearly right to quite wrong, it learns to keep what the evidence does not contradict, and to repair the rest.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from linstereo.model.strides import FINEST

NOISE = (0.02, 3.0)
"""Least and greatest standard deviation of the error that is added, px of the 1/4 map; drawn log-uniformly."""
NOISE_CELLS = ((2, 4), (6, 12), (18, 36))
"""Rows and columns of the grids of random numbers, interpolated between, that the error is made of."""


def disturbed_truth(disparity: Tensor, valid: Tensor, *, seed: int) -> Tensor:
    """The true disparity at 1/4 of the size with smooth errors, and often with outlines as coarse as at 1/8 or 1/16.

    Args:
        disparity: [B, 1, H, W] in px; sides in multiples of 16.
        valid: bool [B, 1, H, W]; elsewhere the mean of the image stands in.
        seed: of all that is random.

    Returns:
        [B, 1, H/4, W/4] in px of the 1/4 map, at least 0.
    """
    random = torch.Generator().manual_seed(seed)
    total = torch.where(valid, disparity, 0.0).sum(dim=(2, 3), keepdim=True)
    mean = total / valid.sum(dim=(2, 3), keepdim=True).clamp(min=1)
    start = F.avg_pool2d(torch.where(valid, disparity, mean), FINEST) / FINEST
    size = start.shape[-2:]
    starts = []
    for one in start.chunk(len(start)):
        factor = (1, 2, 4)[int(torch.randint(3, (), generator=random))]
        coarse = F.interpolate(F.avg_pool2d(one, factor), size=size, mode="bilinear", align_corners=False)
        low, high = (math.log(limit) for limit in NOISE)
        amplitude = math.exp(low + (high - low) * float(torch.rand((), generator=random)))
        for cells in NOISE_CELLS:
            grid = torch.randn(1, 1, *cells, generator=random).to(start)
            share = float(torch.rand((), generator=random))
            noise = F.interpolate(grid, size=size, mode="bicubic", align_corners=False)
            coarse = coarse + amplitude * share * noise
        starts.append(coarse.clamp(min=0))
    return torch.cat(starts)
