"""One refinement step: motion encoders, coarse-to-fine updaters (Eq. 4 to 6 and 8) and the residual head.

Two recurrent units share one interface: `PALAUnit`, the paper's, and `ConvGRUUnit`, the local baseline it is compared
with. Hidden states are [B, hidden, H/s, W/s], finest scale first, and live in channels-last memory, so that the
permutations between convolutions and per-position layers are views.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.fast_paths import (
    add_product_,
    chunks,
    conv_of_parts,
    fast,
    linear_gelu,
    single_channel_conv,
    tanh_,
    tanh_of_map_,
)
from linstereo.model.layers import DepthwiseConv, PointwiseConv
from linstereo.model.pala import PALABlock, Summary, complex_table, rotary_table

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
        c = _conv_relu(self.correlation2, self.correlation1(correlation).relu_())
        d = _conv_relu(self.disparity2, _conv_relu(self.disparity1, disparity))
        if fast(c):  # a spare channel for the disparity, so that nothing is joined afterwards
            weight = F.pad(self.fuse.weight, (0, 0, 0, 0, 0, 0, 0, 1))
            bias = None if self.fuse.bias is None else F.pad(self.fuse.bias, (0, 1))
            motion = conv_of_parts([c, d], weight, bias, relu=True)
            motion[:, -1:] = disparity
            return motion
        fused = self.fuse(torch.cat([c, d], dim=1)).relu_()
        return torch.cat([fused, disparity.to(fused.dtype)], dim=1)


def _conv_relu(conv: nn.Conv2d, x: Tensor) -> Tensor:
    return conv_of_parts([x], conv.weight, conv.bias, relu=True)


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
        return self.update(hidden, self.project_all(hidden, inputs), table)

    def update(self, hidden: Tensor, x: Tensor, table: Tensor, summaries: Sequence[Summary] | None = None) -> Tensor:
        """The new hidden state from the old one and the projection `x` [B, h, w, C].

        For a part of an image, `summaries` has for each block what it keeps of the whole.
        """
        known: Sequence[Summary | None] = summaries or [None] * len(self.blocks)
        for block, summary in zip(self.blocks, known, strict=True):
            x = block(x, table, summary)
        out = x.permute(0, 3, 1, 2)  # [B, C, h, w]
        gate = conv_of_parts([hidden, out], self.gate.weight, self.gate.bias)
        if not fast(out):
            return torch.lerp(hidden, torch.tanh(out), gate.sigmoid_())
        before, after, share = (_rows(x) for x in (hidden, out, gate))
        for part in chunks(share):
            torch.lerp(before[part], tanh_(after[part]), share[part].sigmoid_(), out=share[part])
        return gate

    def project_all(self, hidden: Tensor, inputs: Sequence[Tensor]) -> Tensor:
        """The projection of the hidden state and all inputs, as in `forward`: [B, h, w, C]."""
        if not fast(hidden):
            joined = torch.cat([hidden, *_of_one_size(inputs, hidden)], dim=1)
            projected: Tensor = self.project(joined)
            return projected.permute(0, 2, 3, 1)
        # Products of the parts, added up: nothing is joined, and a coarser input is interpolated after its product.
        maps = [hidden, *inputs]
        parts = torch.split(self.project.weight.flatten(1), [x.shape[1] for x in maps], dim=1)
        fine = [i for i, x in enumerate(maps) if x.shape[-2:] == hidden.shape[-2:]]
        coarse = [i for i in range(len(maps)) if i not in fine]
        assert self.project.bias is not None
        total = self.project.bias.expand(len(hidden), *hidden.shape[-2:], -1).contiguous()  # [B, h, w, C]
        for i in coarse:
            product = F.linear(maps[i].permute(0, 2, 3, 1), parts[i]).permute(0, 3, 1, 2)
            total += _enlarged(product, hidden).permute(0, 2, 3, 1)
        sums = total.view(-1, total.shape[-1])
        products = [(_rows(maps[i]), parts[i].contiguous()) for i in fine]
        for part in chunks(sums):
            for rows, weight in products:
                add_product_(sums[part], rows[part], weight)
        return total


def _rows(x: Tensor) -> Tensor:
    """A map [B, C, h, w] as [B * h * w, C]; a view if it is in channels-last memory."""
    return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])


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
        others = _of_one_size(inputs, hidden)
        gates = conv_of_parts([hidden, *others], self.gates.weight, self.gates.bias)
        update, reset = gates.sigmoid_().chunk(2, dim=1)
        candidate = conv_of_parts([reset * hidden, *others], self.candidate.weight, self.candidate.bias)
        return torch.lerp(hidden, tanh_of_map_(candidate), update)


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
        return [self.table(h) for h in hidden]

    def table(self, hidden: Tensor, *, first_row: int = 0) -> Tensor:
        """The rotary table of a map [B, C, h, w], or of rows of one, of which the first is `first_row` of the map."""
        precise = torch.promote_types(hidden.dtype, torch.float32)
        _, channels, height, width = hidden.shape
        offset = (float(first_row), 0.0)
        grid = (height, width, channels // self.heads)
        table = rotary_table(*grid, offset=offset, device=hidden.device, dtype=precise)
        return complex_table(table, self.heads) if fast(hidden) else table

    def forward(
        self, hidden: Sequence[Tensor], motion: Sequence[Tensor | None], tables: Sequence[Tensor]
    ) -> list[Tensor]:
        """New hidden states from old ones; all sequences are finest first, motion is None where there is none."""
        new = list(hidden)
        for i in reversed(range(len(new))):
            new[i] = self.units[i](new[i], self.inputs(i, new, motion[i]), tables[i])
        return new

    def inputs(self, i: int, hidden: Sequence[Tensor], motion: Tensor | None) -> list[Tensor]:
        """What the unit of scale i sees beside its own state; `hidden` is finest first, coarser ones are new."""
        inputs = [] if motion is None else [motion]
        if i > 0:
            inputs.append(F.avg_pool2d(hidden[i - 1], 2))
        if i < len(hidden) - 1:
            inputs.append(hidden[i + 1])
        return inputs


class DepthwiseBlock(nn.Module):
    """Depth-wise 3x3 and point-wise convolution with a residual path, on channels-last maps."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.spatial = DepthwiseConv(channels)
        self.pointwise = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """[B, h, w, C] -> [B, h, w, C]."""
        spatial: Tensor = self.spatial(x)
        if not fast(x):
            return linear_gelu(self.pointwise, spatial).add_(x)
        before, out = x.flatten(0, 2), spatial.flatten(0, 2)  # [N, C]
        for part in chunks(out):
            torch.add(linear_gelu(self.pointwise, out[part]), before[part], out=out[part])
        return out.view(x.shape)


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
