"""From 1/4 resolution to full size by a learned convex combination of the nine nearest coarse disparities."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.fast_paths import channels_last, chunks, conv_of_parts, fast, product
from linstereo.model.layers import PointwiseConv
from linstereo.model.strides import FINEST

SOFTNESS = 0.25
"""Factor of the predicted scores; keeps the softmax soft at the start of training."""
NO_SHARE = 0.005
"""Share of a neighbour that bilinear interpolation does not use, before training."""


def convex_upsample(disparity: Tensor, weights: Tensor, *, factor: int) -> Tensor:
    """Blend the 3x3 coarse neighbourhood of every fine pixel.

    Args:
        disparity: [B, 1, h, w] in pixels of the coarse map; its precision is that of the result.
        weights: [B, 9 * factor**2, h, w], unnormalised; for each fine pixel nine scores, softmax makes them convex.
        factor: size ratio.

    Returns:
        [B, 1, factor * h, factor * w] in pixels of the fine map, so values grow by `factor` as well.
    """
    batch, _, height, width = disparity.shape
    scores = weights.permute(0, 2, 3, 1).reshape(batch, height, width, 9, factor**2)  # a view if channels-last
    shares = scores.softmax(dim=3, dtype=disparity.dtype)  # [B, h, w, 9, factor**2]
    fine = (shares * _neighbours(disparity, factor)).sum(dim=3)  # [B, h, w, factor**2]
    return _pixels_of_cells(fine, factor)


def _neighbours(disparity: Tensor, factor: int) -> Tensor:
    """The 3x3 neighbourhood of every coarse pixel, in px of the fine map: [B, 1, h, w] -> [B, h, w, 9, 1]."""
    padded = F.pad(factor * disparity[:, 0], (1, 1, 1, 1), mode="replicate")  # [B, h + 2, w + 2]
    return padded.unfold(1, 3, 1).unfold(2, 3, 1).flatten(3).unsqueeze(-1)


def _pixels_of_cells(fine: Tensor, factor: int) -> Tensor:
    """The pixels of every cell in their places: [B, h, w, factor**2] -> [B, 1, factor * h, factor * w]."""
    batch, height, width, _ = fine.shape
    fine = fine.view(batch, height, width, factor, factor).permute(0, 1, 3, 2, 4)
    return fine.reshape(batch, 1, factor * height, factor * width)


def bilinear_shares(factor: int) -> Tensor:
    """What bilinear interpolation takes of the nine neighbours for each fine pixel of a cell: [9, factor, factor]."""
    position = (torch.arange(factor) + 0.5) / factor - 0.5  # of fine pixels, in cells from the cell's centre
    along = (1 - (torch.arange(-1, 2)[:, None] - position).abs()).clamp(min=0)  # [3, factor]
    return torch.einsum("iu,jv->ijuv", along, along).reshape(9, factor, factor)


class ImageGuide(nn.Module):
    """What the image shows inside the cells: its pixels, less the cell's mean colour, as features of the coarse map."""

    def __init__(self, channels: int, *, factor: int) -> None:
        super().__init__()
        self.factor = factor
        self.conv = nn.Conv2d(3 * factor**2, channels, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        """[B, 3, factor * h, factor * w] in [0, 1] -> [B, channels, h, w], non-negative."""
        if fast(image) and self.conv.weight.dtype == image.dtype:
            pixels = channels_last(F.pixel_unshuffle(image, self.factor))
            return conv_of_parts([pixels], self._weight_of_pixels(), self.conv.bias, relu=True)
        cells = F.avg_pool2d(image, self.factor).repeat_interleave(self.factor**2, dim=1)  # [B, 3 factor**2, h, w]
        detail = 4 * (F.pixel_unshuffle(image, self.factor) - cells)
        return F.relu(self.conv(channels_last(detail.to(self.conv.weight.dtype))), inplace=True)

    def _weight_of_pixels(self) -> Tensor:
        """The weight for pixels as they are: the difference to the cell's mean is taken among the weights instead."""
        weight = self.conv.weight.view(-1, 3, self.factor**2, 3, 3)  # [channels, 3, factor**2, 3, 3]
        return 4 * (weight - weight.mean(dim=2, keepdim=True)).flatten(1, 2)


class ConvexUpsampler(nn.Module):
    """Predicts the blending weights from the finest hidden state and applies them.

    Before training it interpolates bilinearly, but for the small random part of the weights.

    Args:
        hidden: channels of the finest hidden state.
        factor: size ratio.
        guide: channels of the image's own detail beside the hidden state; 0, as in the paper, for none.
    """

    def __init__(self, hidden: int, *, factor: int = FINEST, guide: int = 0) -> None:
        super().__init__()
        self.factor = factor
        self.guide = ImageGuide(guide, factor=factor) if guide else None
        last = PointwiseConv(2 * hidden, 9 * factor**2)
        self.weights = nn.Sequential(nn.Conv2d(hidden + guide, 2 * hidden, 3, padding=1), nn.ReLU(), last)
        assert last.bias is not None
        with torch.no_grad():
            last.bias.copy_((bilinear_shares(factor) + NO_SHARE).log().flatten() / SOFTNESS)

    def forward(self, disparity: Tensor, hidden: Tensor, guide: Tensor | None = None) -> Tensor:
        """Full-size disparity.

        Args:
            disparity: [B, 1, h, w] in coarse px.
            hidden: [B, C, h, w].
            guide: the image's detail, `self.guide(image)`; needed if there is one.

        Returns:
            [B, 1, factor * h, factor * w] in fine px.
        """
        first, last = self.weights[0], self.weights[2]
        assert isinstance(first, nn.Conv2d)
        assert isinstance(last, PointwiseConv)
        inputs = [hidden] if guide is None else [hidden, guide]
        features = conv_of_parts(inputs, first.weight, first.bias, relu=True)  # [B, 2 * C, h, w]
        if fast(features) and disparity.dtype == torch.float32:
            return self._in_chunks(disparity, features.permute(0, 2, 3, 1), last)
        return convex_upsample(disparity, SOFTNESS * last(features), factor=self.factor)

    def _in_chunks(self, disparity: Tensor, features: Tensor, last: PointwiseConv) -> Tensor:
        """`convex_upsample` with the scores of `features` [B, h, w, C], some pixels at a time: none leave the cache."""
        assert last.bias is not None
        weight, bias = SOFTNESS * last.weight.flatten(1), SOFTNESS * last.bias
        cells = self.factor**2
        rows, neighbours = (
            features.flatten(0, 2),
            _neighbours(disparity, self.factor).flatten(0, 2),
        )  # [N, C], [N, 9, 1]
        fine = rows.new_empty(len(rows), cells)
        for part in chunks(bias.expand(len(rows), -1)):
            shares = product(rows[part], weight, bias).view(-1, 9, cells)
            shares.sub_(shares.amax(dim=1, keepdim=True)).exp_()
            total = shares.sum(dim=1)
            torch.div(shares.mul_(neighbours[part]).sum(dim=1), total, out=fine[part])
        return _pixels_of_cells(fine.view(*features.shape[:3], cells), self.factor)
