"""From 1/4 resolution to full size by a learned convex combination of the nine nearest coarse disparities."""

import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.layers import PointwiseConv


def convex_upsample(disparity: Tensor, weights: Tensor, *, factor: int) -> Tensor:
    """Blend the 3x3 coarse neighbourhood of every fine pixel.

    Args:
        disparity: [B, 1, h, w] in pixels of the coarse map.
        weights: [B, 9 * factor**2, h, w], unnormalised; for each fine pixel nine scores, softmax makes them convex.
        factor: size ratio.

    Returns:
        [B, 1, factor * h, factor * w] in pixels of the fine map, so values grow by `factor` as well.
    """
    batch, _, height, width = disparity.shape
    convex = weights.view(batch, 9, factor, factor, height, width).softmax(dim=1)
    padded = F.pad(factor * disparity, (1, 1, 1, 1), mode="replicate")
    neighbours = F.unfold(padded, 3).view(batch, 9, 1, 1, height, width)
    fine = (convex * neighbours).sum(dim=1)  # [B, factor, factor, h, w]
    return fine.permute(0, 3, 1, 4, 2).reshape(batch, 1, factor * height, factor * width)


class ConvexUpsampler(nn.Module):
    """Predicts the blending weights from the finest hidden state and applies them."""

    def __init__(self, hidden: int, *, factor: int = 4) -> None:
        super().__init__()
        self.factor = factor
        self.weights = nn.Sequential(
            nn.Conv2d(hidden, 2 * hidden, 3, padding=1),
            nn.ReLU(),
            PointwiseConv(2 * hidden, 9 * factor**2),
        )

    def forward(self, disparity: Tensor, hidden: Tensor) -> Tensor:
        """disparity [B, 1, h, w] in coarse px, hidden [B, C, h, w] -> [B, 1, factor * h, factor * w] in fine px."""
        weights = 0.25 * self.weights(hidden)  # keeps the softmax soft at the start of training
        return convex_upsample(disparity, weights, factor=self.factor)
