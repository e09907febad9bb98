"""One refinement step: motion encoders, coarse-to-fine updaters (Eq. 4 to 6 and 8) and the residual head.

Two recurrent units share one interface: `PALAUnit`, the paper's, and `ConvGRUUnit`, the local baseline it is compared
with. Hidden states are [B, hidden, H/s, W/s], finest scale first, and live in channels-last memory, so that the
permutations between convolutions and per-position layers are views.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.fast_paths import fast, linear_gelu, single_channel_conv
from linstereo.model.layers import DepthwiseConv, PointwiseConv
from linstereo.model.pala import PALABlock, complex_table, rotary_table

UnitFactory = Callable[[int, int], nn.Module]
DISPARITY_SCALE = 0.1
"""Factor of disparities as the motion encoders see them, so that they are no larger than the other features."""


class MotionEncoder(nn.Module):
    """MotionEnc_s: the looked-up correlations and the current disparity of one scale, as features.

    Both come in float32 and are rounded here to the precision the network computes in.

    The last output channel is the disparity itself, times `DISPARITY_SCALE`.
    """

    def __init__(self, correlation_channels: int, out_channels: int) -> None:
        super().__init__()
        half = out_channels // 2
        self.correlation1 = PointwiseConv(correlation_channels, half)
        self.correlation2 = nn.Conv2d(half, half, 3, padding=1)
        self.disparity1 = nn.Conv2d(1, half, 7, padding=3)
        self.disparity2 = nn.Conv2d(half, half, 3, padding=1)
        self.fuse = nn.Conv2d(2 * half, out_channels - 1, 3, padding=1)

    def forward(self, disparity: Tensor, correlation: Tensor) -> Tensor:
        """disparity [B, 1, h, w] in px of this scale, correlation [B, K, h, w] -> [B, out_channels, h, w]."""
        dtype = self.correlation1.weight.dtype
        correlation, disparity = correlation.to(dtype), _channels_last((DISPARITY_SCALE * disparity).to(dtype))
        c = self.correlation2(self.correlation1(correlation).relu_()).relu_()
        d = self.disparity2(self.disparity1(disparity).relu_()).relu_()
        if fast(c):  # a spare channel for the disparity, so that nothing is joined afterwards
            weight = F.pad(self.fuse.weight, (0, 0, 0, 0, 0, 0, 0, 1))
            bias = None if self.fuse.bias is None else F.pad(self.fuse.bias, (0, 1))
            motion = F.conv2d(torch.cat([c, d], dim=1), weight, bias, padding=1).relu_()
            motion[:, -1:] = disparity
            return motion
        fused = self.fuse(torch.cat([c, d], dim=1)).relu_()
        return torch.cat([fused, disparity.to(fused.dtype)], dim=1)


def _channels_last(single: Tensor) -> Tensor:
    """A map [B, 1, h, w] with the strides of channels-last memory, which a single channel does not have by itself.

    Without them, what is computed from it, and then all that it is joined with, would be in the other order.
    """
    return single.reshape(*single.shape[:1], *single.shape[2:], 1).permute(0, 3, 1, 2)


class PALAUnit(nn.Module):
    """PALA_s: project [h || inputs] to the hidden width, attend globally, update through a gate (Eq. 8).

    Args:
        hidden: channels of the hidden state.
        input_channels: channels of all inputs together.
        blocks: the attention blocks, of the hidden width; one in the paper.
    """

    def __init__(self, hidden: int, input_channels: int, *, blocks: Sequence[PALABlock]) -> None:
        super().__init__()
        self.project = PointwiseConv(hidden + input_channels, hidden)
        self.blocks = nn.ModuleList(blocks)
        self.gate = nn.Conv2d(2 * hidden, hidden, 3, padding=1)

    def forward(self, hidden: Tensor, inputs: Sequence[Tensor], table: Tensor) -> Tensor:
        """hidden [B, C, h, w], inputs each [B, *, h, w] or coarser, table of the h x w grid -> new hidden [B, C, h, w].

        Coarser inputs are interpolated.
        """
        x = self.project_all(hidden, inputs)  # [B, h, w, C]
        for block in self.blocks:
            x = block(x, table)
        out = x.permute(0, 3, 1, 2)  # [B, C, h, w]
        gate = self.gate(torch.cat([hidden, out], dim=1)).sigmoid_()
        return torch.lerp(hidden, out.tanh_() if fast(out) else torch.tanh(out), gate)

    def project_all(self, hidden: Tensor, inputs: Sequence[Tensor]) -> Tensor:
        """The projection of the hidden state and all inputs, as in `forward`: [B, h, w, C]."""
        if not fast(hidden):
            joined = torch.cat([hidden, *_of_one_size(inputs, hidden)], dim=1)
            projected: Tensor = self.project(joined)
            return projected.permute(0, 2, 3, 1)
        # Products of the parts, added up: nothing is joined, and a coarser input is interpolated after its product.
        parts = torch.split(self.project.weight.flatten(1), [x.shape[1] for x in (hidden, *inputs)], dim=1)
        total = F.linear(hidden.permute(0, 2, 3, 1), parts[0], self.project.bias)  # [B, h, w, C]
        flat = total.view(-1, total.shape[-1])
        for x, weight in zip(inputs, parts[1:], strict=True):
            if x.shape[-2:] == hidden.shape[-2:]:
                flat.addmm_(x.permute(0, 2, 3, 1).reshape(-1, x.shape[1]), weight.t())
            else:
                coarse = F.linear(x.permute(0, 2, 3, 1), weight).permute(0, 3, 1, 2)
                total += _enlarged(coarse, hidden).permute(0, 2, 3, 1)
        return total


def _enlarged(x: Tensor, like: Tensor) -> Tensor:
    return F.interpolate(x, size=like.shape[-2:], mode="bilinear", align_corners=False)


def _of_one_size(inputs: Sequence[Tensor], hidden: Tensor) -> list[Tensor]:
    return [x if x.shape[-2:] == hidden.shape[-2:] else _enlarged(x, hidden) for x in inputs]


class ConvGRUUnit(nn.Module):
    """The local baseline: a convolutional GRU with 3x3 kernels, as RAFT-Stereo's, without context injection."""

    def __init__(self, hidden: int, input_channels: int) -> None:
        super().__init__()
        self.gates = nn.Conv2d(hidden + input_channels, 2 * hidden, 3, padding=1)
        self.candidate = nn.Conv2d(hidden + input_channels, hidden, 3, padding=1)

    def forward(self, hidden: Tensor, inputs: Sequence[Tensor], table: Tensor) -> Tensor:
        """As `PALAUnit.forward`; positions are not used."""
        x = torch.cat(_of_one_size(inputs, hidden), dim=1)
        update, reset = self.gates(torch.cat([hidden, x], dim=1)).sigmoid_().chunk(2, dim=1)
        candidate = self.candidate(torch.cat([reset * hidden, x], dim=1)).tanh_()
        return torch.lerp(hidden, candidate, update)


class MultiScaleUpdater(nn.Module):
    """The recurrent units of all scales, run coarse to fine (figure 1b, Eq. 4 to 6).

    h16 from (h16, m16, h8); h8 from (h8, m8, h4, new h16); h4 from (h4, m4, new h8). A finer neighbour arrives by 2x2
    average pooling, a coarser one as it is; the unit interpolates it. With fewer scales the coarsest ones are absent.

    Args:
        make_unit: builds a unit from (hidden, input channels).
        hidden: channels of each scale's hidden state, finest first.
        motion_channels: width of the motion features of each scale, finest first; 0 where a scale has none.
        heads: attention heads of the units.
    """

    def __init__(
        self, make_unit: UnitFactory, *, hidden: Sequence[int], motion_channels: Sequence[int], heads: int
    ) -> None:
        super().__init__()
        self.heads = heads
        self.units = nn.ModuleList()
        for i, (own, motion) in enumerate(zip(hidden, motion_channels, strict=True)):
            neighbours = sum(hidden[max(i - 1, 0) : i + 2]) - own
            self.units.append(make_unit(own, motion + neighbours))

    def positions(self, hidden: Sequence[Tensor]) -> list[Tensor]:
        """Rotary tables of all scales, made once per image pair because they do not change between iterations."""
        precise = torch.promote_types(hidden[0].dtype, torch.float32)
        grids = [(h.shape[2], h.shape[3], h.shape[1] // self.heads) for h in hidden]
        tables = [rotary_table(*grid, device=hidden[0].device, dtype=precise) for grid in grids]
        return [complex_table(table, self.heads) for table in tables] if fast(hidden[0]) else tables

    def forward(
        self, hidden: Sequence[Tensor], motion: Sequence[Tensor | None], tables: Sequence[Tensor]
    ) -> list[Tensor]:
        """New hidden states from old ones; all sequences are finest first, motion is None where there is none."""
        new = list(hidden)
        for i in reversed(range(len(new))):
            inputs = []
            features = motion[i]
            if features is not None:
                inputs.append(features)
            if i > 0:
                inputs.append(F.avg_pool2d(new[i - 1], 2))
            if i < len(new) - 1:
                inputs.append(new[i + 1])
            new[i] = self.units[i](new[i], inputs, tables[i])
        return new


class DepthwiseBlock(nn.Module):
    """Depth-wise 3x3 and point-wise convolution with a residual path, on channels-last maps."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.spatial = DepthwiseConv(channels)
        self.pointwise = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] -> [B, h, w, C]."""
        return linear_gelu(self.pointwise, self.spatial(x)).add_(x)


class ResidualHead(nn.Module):
    """Decodes the disparity residual from the finest hidden state by stacked depth-wise blocks.

    Before training the residual is small: refinement begins with what it starts from.
    """

    def __init__(self, hidden: int, *, blocks: int = 2) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(DepthwiseBlock(hidden) for _ in range(blocks)))
        self.out = nn.Conv2d(hidden, 1, 3, padding=1)
        with torch.no_grad():
            for parameter in self.out.parameters():
                parameter.mul_(0.1)

    def forward(self, hidden: Tensor) -> Tensor:
        """[B, C, h, w] -> signed residual [B, 1, h, w] in px of the finest scale."""
        x = self.blocks(hidden.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)  # [B, C, h, w]
        return single_channel_conv(self.out, x)
