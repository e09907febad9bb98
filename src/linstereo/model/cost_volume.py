"""HSCV: hierarchical semantic cost volumes (paper section 3.3, Eq. 1).

Every backbone scale gets its own projection and its own one-dimensional all-pairs correlation volume, and every volume
its own pyramid along the disparity axis. All of them stay available: each refinement step looks up all of them again.

Two volumes share one interface (`CostVolume`): `StoredVolume` keeps the correlations, whose number grows with width
times pixels; `OnTheFlyVolume` keeps only features and correlates what a lookup asks for, so its memory grows linearly
with the number of pixels. They agree because pooling correlations along the right image's columns is the same as
correlating with pooled right features.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.fast_paths import CHUNK, InstanceNorm, channels_last, conv_of_parts, fast
from linstereo.model.layers import PointwiseConv
from linstereo.model.precision import at_least_float32

VolumeKind = Literal["stored", "on_the_fly"]


class CostVolume(Protocol):
    """What a refinement step asks of the matching evidence of one scale.

    size: height and width of its maps.
    radius: samples on either side of the current match in each level.
    """

    size: tuple[int, int]
    radius: int

    def lookup(self, disparity: Tensor) -> Tensor:
        """Sample the correlation pyramid around the current match.

        Args:
            disparity: [B, 1, h, w], positive, in pixels of this scale.

        Returns:
            [B, levels * (2 * radius + 1), h, w], float32 or better. Level by level from fine to coarse; inside a level
            the samples are at disparity + k * 2**level for k from -radius to radius, linearly interpolated, zero
            outside the right image.
        """
        ...

    def correlations(self) -> Tensor:
        """All correlations of the finest level: [B, h, w, w], left column before right column."""
        ...


def build_volume(left: Tensor, right: Tensor, *, levels: int, radius: int, kind: VolumeKind = "stored") -> CostVolume:
    """Build the correlation volume of one scale from projected features.

    Args:
        left: [B, C, h, w] features of the left image.
        right: [B, C, h, w] features of the right image.
        levels: depth of the pyramid along the disparity axis.
        radius: samples on either side of the current match in each level.
        kind: "stored" for speed, "on_the_fly" for memory.
    """
    volume = StoredVolume if kind == "stored" else OnTheFlyVolume
    return volume(left, right, levels=levels, radius=radius)


class StoredVolume:
    """All correlations of Eq. 1, computed once and kept."""

    def __init__(self, left: Tensor, right: Tensor, *, levels: int, radius: int) -> None:
        self.radius = radius
        self.size = (left.shape[-2], left.shape[-1])
        channels = left.shape[1]
        rows_left = left.permute(0, 2, 3, 1) * (1 / math.sqrt(channels))  # [B, h, w, C]
        self.levels: LevelsInOne | None = None
        if fast(left):
            self.levels = LevelsInOne(rows_left, right, levels=levels, radius=radius)
            self.pyramid = self.levels.pyramid
            return
        rows_right = right.permute(0, 2, 1, 3)  # [B, h, C, w]
        correlation = rows_left @ rows_right  # [B, h, w, w]
        self.pyramid = [correlation]
        for _ in range(levels - 1):
            self.pyramid.append(_halve_columns(self.pyramid[-1]))  # [B, h, w, ceil(w / 2)]

    def lookup(self, disparity: Tensor) -> Tensor:
        """Sample the stored pyramid; see `CostVolume.lookup`."""
        if self.levels is not None and fast(disparity):
            return self.levels.lookup(disparity)
        samples = []
        for level, correlation in enumerate(self.pyramid):
            base, fraction = _split_position(disparity, level)  # [B, h, w]
            columns = _tap_columns(base, self.radius)  # [B, h, w, taps]
            nearest = columns.clamp(0, correlation.shape[-1] - 1)
            taps = correlation.gather(-1, nearest).masked_fill_(columns != nearest, 0)  # zero outside
            samples.append(_interpolate(taps, fraction))
        return _channels_first(samples)

    def correlations(self) -> Tensor:
        """The stored correlations; see `CostVolume.correlations`."""
        return self.pyramid[0]


class LevelsInOne:
    """All levels of a correlation pyramid in one map, side by side, with zeros around each: fast to make and to sample.

    One product with the pooled right features makes them all. The taps of a lookup are neighbours in memory and end in
    the zeros if they are outside, so a lookup copies one short piece for each pixel and level.

    Args:
        left: features [B, h, w, C], already scaled.
        right: features [B, C, h, w].
        levels: depth of the pyramid.
        radius: samples on either side of the current match in each level.
    """

    def __init__(self, left: Tensor, right: Tensor, *, levels: int, radius: int) -> None:
        self.radius, self.taps = radius, 2 * radius + 2
        pooled = [right.permute(0, 2, 3, 1)]  # [B, h, w, C]
        for _ in range(levels - 1):
            pooled.append(_halve_columns(pooled[-1], dim=2))
        widths = [level.shape[2] for level in pooled]
        gap = right.new_zeros(*pooled[0].shape[:2], self.taps, right.shape[1])
        table = torch.cat([gap, *(part for level in pooled for part in (level, gap))], dim=2)
        self.map = left @ table.transpose(-1, -2)  # [B, h, w, all levels and gaps]
        starts = [self.taps + sum(widths[:i]) + i * self.taps for i in range(levels)]
        self.pyramid = [self.map[..., start : start + width] for start, width in zip(starts, widths, strict=True)]
        pixels = torch.arange(left[..., 0].numel()).view(*left.shape[:3], 1) * self.map.shape[-1]
        self.first = pixels + torch.tensor(starts) - radius  # [B, h, w, levels], where taps around column 0 begin
        # Positions all of whose taps are in the gaps before and behind a level.
        self.lowest = left.new_full((levels,), -2.0 - radius)
        self.highest = left.new_tensor(widths) + radius

    def lookup(self, disparity: Tensor) -> Tensor:
        """See `CostVolume.lookup`."""
        scale = 0.5 ** torch.arange(len(self.pyramid), dtype=disparity.dtype)
        column = torch.arange(disparity.shape[-1], dtype=disparity.dtype) + 0.5
        position = (column - disparity.squeeze(1)).unsqueeze(-1) * scale - 0.5  # [B, h, w, levels]
        position = position.clamp(self.lowest, self.highest)
        base = position.floor()
        fraction = position.sub_(base)
        pieces = self.map.view(-1).as_strided((self.map.numel() - self.taps + 1, self.taps), (1, 1))
        index = base.long().add_(self.first).clamp_(0, len(pieces) - 1)  # only what is not a number is out of range
        taps = pieces.index_select(0, index.view(-1)).view(*index.shape, self.taps)  # rising columns
        samples = torch.lerp(taps[..., :-1], taps[..., 1:], fraction.unsqueeze(-1)).flip(-1)  # rising disparity
        return samples.flatten(-2).permute(0, 3, 1, 2)


class OnTheFlyVolume:
    """The same evidence, correlated at lookup from left features and a pyramid of pooled right features."""

    def __init__(self, left: Tensor, right: Tensor, *, levels: int, radius: int) -> None:
        self.radius = radius
        self.size = (left.shape[-2], left.shape[-1])
        channels = left.shape[1]
        self.left = (left * (1 / math.sqrt(channels))).permute(0, 2, 3, 1).contiguous()  # [B, h, w, C]
        pooled = [right]
        for _ in range(levels - 1):
            pooled.append(_halve_columns(pooled[-1]))
        self.right_pyramid = [level.permute(0, 2, 3, 1).contiguous() for level in pooled]  # [B, h, w_level, C]

    def lookup(self, disparity: Tensor) -> Tensor:
        """Correlate around the current match; see `CostVolume.lookup`."""
        samples = []
        for level, right in enumerate(self.right_pyramid):
            base, fraction = _split_position(disparity, level)  # [B, h, w]
            if fast(self.left):
                taps = _correlate_windows(self.left, right, base, self.radius)
            else:
                columns = _tap_columns(base, self.radius)  # [B, h, w, taps]
                taps = _TapCorrelation.apply(self.left, right, columns)  # type: ignore[no-untyped-call]
            samples.append(_interpolate(taps, fraction))
        return _channels_first(samples)

    def correlations(self) -> Tensor:
        """Correlate everything, and keep nothing of it; see `CostVolume.correlations`."""
        return self.left @ self.right_pyramid[0].transpose(-1, -2)


class _TapCorrelation(torch.autograd.Function):
    """Correlate each left pixel with a few columns of its own row, keeping no gathered features for the gradient."""

    CHUNK = 1 << 22  # gathered feature values held at once

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, columns: Tensor) -> Tensor:
        """left [B, h, w, C], right [B, h, v, C], columns [B, h, w, taps] -> [B, h, w, taps], zero outside."""
        ctx.save_for_backward(left, right, columns)
        queries, table, index, inside = _flatten_rows(left, right, columns)
        taps = torch.empty(index.shape, dtype=left.dtype, device=left.device)  # [P, taps]
        for part in _chunks(index, queries.shape[1], _TapCorrelation.CHUNK):
            keys = table[index[part]]  # [p, taps, C]
            taps[part] = torch.bmm(keys, queries[part].unsqueeze(-1)).squeeze(-1)
        return (taps * inside).view(columns.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        """Gather again chunk by chunk instead of having kept it."""
        left, right, columns = ctx.saved_tensors
        queries, table, index, inside = _flatten_rows(left, right, columns)
        grad = grads[0].reshape(index.shape) * inside  # [P, taps]
        grad_queries = torch.empty_like(queries)
        grad_table = torch.zeros_like(table)
        for part in _chunks(index, queries.shape[1], _TapCorrelation.CHUNK):
            keys = table[index[part]]  # [p, taps, C]
            grad_queries[part] = torch.bmm(grad[part].unsqueeze(1), keys).squeeze(1)
            contribution = grad[part].unsqueeze(-1) * queries[part].unsqueeze(1)  # [p, taps, C]
            grad_table.index_add_(0, index[part].flatten(), contribution.flatten(0, 1))
        return grad_queries.view(left.shape), grad_table.view(right.shape), None


def _correlate_windows(left: Tensor, right: Tensor, base: Tensor, radius: int) -> Tensor:
    """What `_TapCorrelation` gives for `_tap_columns(base, radius)`, without a gradient and several times faster.

    The columns of a pixel are neighbours, so that their features are copied as one piece. There are zeros between the
    rows, as many as a pixel has taps, and none reaches beyond them.
    """
    taps = 2 * radius + 2
    batch, height, _, channels = left.shape
    table = F.pad(right, (0, 0, taps, taps)).flatten(0, 2)  # [Q, C]
    windows = table.as_strided((len(table) - taps + 1, taps * channels), (channels, 1))  # overlap each other
    rows = torch.arange(batch * height, device=left.device).view(batch, height, 1)
    first = (base - radius).clamp_(-taps, right.shape[2]) + taps + rows * (right.shape[2] + 2 * taps)  # [B, h, w]
    queries, first = left.reshape(-1, 1, channels), first.flatten()  # [P, 1, C], [P]
    products = left.new_empty(len(queries), taps)
    step = max(CHUNK // (taps * channels), 1)
    for part in (slice(start, start + step) for start in range(0, len(queries), step)):
        keys = windows.index_select(0, first[part]).view(-1, taps, channels)
        torch.sum(keys.mul_(queries[part]), dim=-1, out=products[part])
    return products.flip(-1).view(*base.shape, taps)  # columns rise here, disparities there


def _flatten_rows(left: Tensor, right: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Number all pixels of all rows: queries [P, C], table [Q, C], row index into it [P, taps], inside [P, taps]."""
    batch, height, width, channels = left.shape
    right_width = right.shape[2]
    inside = (columns >= 0) & (columns < right_width)
    first = torch.arange(batch * height, device=left.device).view(batch, height, 1, 1) * right_width
    index = columns.clamp(0, right_width - 1) + first  # [B, h, w, taps]
    pixels = batch * height * width
    return (
        left.reshape(pixels, channels),
        right.reshape(-1, channels),
        index.view(pixels, -1),
        inside.view(pixels, -1),
    )


def _chunks(index: Tensor, channels: int, limit: int) -> list[slice]:
    pixels, taps = index.shape
    step = max(1, limit // (taps * channels))
    return [slice(start, start + step) for start in range(0, pixels, step)]


def _halve_columns(x: Tensor, *, dim: int = 3) -> Tensor:
    """Average neighbouring columns (axis `dim` of four); beyond an odd edge the correlation is zero, as in a lookup."""
    if x.shape[dim] % 2:
        x = F.pad(x, (0, 0) * (3 - dim) + (0, 1))
    first, second = x.reshape(*x.shape[:dim], -1, 2, *x.shape[dim + 1 :]).unbind(dim + 1)
    return 0.5 * (first + second)


def _split_position(disparity: Tensor, level: int) -> tuple[Tensor, Tensor]:
    """Column of the match in a pyramid level as integer part and fraction (float32 or better), each [B, h, w].

    Column m of level l averages 2**l columns of the right image, so its centre is at (m + 0.5) * 2**l - 0.5.
    """
    disparity = at_least_float32(disparity)
    width = disparity.shape[-1]
    column = torch.arange(width, device=disparity.device, dtype=disparity.dtype)
    position = (column - disparity.squeeze(1) + 0.5) / 2**level - 0.5  # [B, h, w]
    position = position.clamp(-(2.0**20), 2.0**20)  # far outside is outside; keeps the integer part representable
    base = position.floor()
    return base.long(), position - base


def _tap_columns(base: Tensor, radius: int) -> Tensor:
    """Integer columns base + radius + 1 down to base - radius: rising disparity, [B, h, w, 2 * radius + 2]."""
    steps = torch.arange(radius + 1, -radius - 1, -1, device=base.device)
    return base.unsqueeze(-1) + steps


def _interpolate(taps: Tensor, fraction: Tensor) -> Tensor:
    """Blend neighbouring taps in the precision of the fraction: [B, h, w, n + 1] -> [B, h, w, n]."""
    taps = taps.to(fraction.dtype)
    return torch.lerp(taps[..., 1:], taps[..., :-1], fraction.unsqueeze(-1))


def _channels_first(samples: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(samples), dim=-1).permute(0, 3, 1, 2)  # [B, levels * (2 * radius + 1), h, w]


class ResidualBlock(nn.Module):
    """Two instance-normalised 3x3 convolutions around an identity path: [B, C, h, w] -> [B, C, h, w]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm1 = InstanceNorm(channels)
        self.norm2 = InstanceNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, h, w] -> [B, C, h, w]."""
        y = self.norm1.then_relu(conv_of_parts([x], self.conv1.weight, self.conv1.bias))
        return self.norm2.then_relu(conv_of_parts([y], self.conv2.weight, self.conv2.bias), plus=x).relu_()


class FeatureProjection(nn.Module):
    """psi_s: instance-normalised residual block, then a 1x1 convolution to the common width c_f."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.block = ResidualBlock(in_channels)
        self.out = PointwiseConv(in_channels, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        """[B, in_channels, h, w] -> [B, out_channels, h, w]."""
        y: Tensor = self.out(self.block(channels_last(x)))
        return y


class HierarchicalCostVolumes(nn.Module):
    """One projected correlation volume per scale, all of them kept (the paper's HSCV).

    With one entry in `channels` it is the single volume at 1/4 of the ablation without HSCV.
    """

    def __init__(self, channels: Sequence[int], *, width: int, levels: int, radius: int) -> None:
        super().__init__()
        self.levels, self.radius = levels, radius
        self.project = nn.ModuleList(FeatureProjection(c, width) for c in channels)

    def forward(self, features: Sequence[Tensor], *, kind: VolumeKind = "stored") -> list[CostVolume]:
        """Build the volumes, finest first.

        Args:
            features: one [2 * B, C_s, h_s, w_s] tensor per scale; the B left images first, then the B right ones.
            kind: which implementation holds the correlations.
        """
        sides = [projected.chunk(2) for projected in self.projected(features)]  # [B, c_f, h, w] each
        return [self.volume(left, right, kind=kind) for left, right in sides]

    def projected(self, features: Sequence[Tensor]) -> list[Tensor]:
        """What is correlated, of each image by itself: [B, c_f, h, w] for each volume, finest first."""
        return [project(feature) for project, feature in zip(self.project, features, strict=False)]

    def volume(self, left: Tensor, right: Tensor, *, kind: VolumeKind) -> CostVolume:
        """The volume of one scale from `projected` features."""
        return build_volume(left, right, levels=self.levels, radius=self.radius, kind=kind)


class PooledCostVolume(HierarchicalCostVolumes):
    """The ablation "HSCV (pooled)": all scales brought to 1/4, summed into one feature, one volume."""

    def projected(self, features: Sequence[Tensor]) -> list[Tensor]:
        """The sum of all scales at 1/4; see `HierarchicalCostVolumes.projected`."""
        size = features[0].shape[-2:]
        scales = [
            F.interpolate(project(feature), size=size, mode="bilinear", align_corners=False)
            for project, feature in zip(self.project, features, strict=True)
        ]
        return [torch.stack(scales).sum(dim=0)]  # [B, c_f, H/4, W/4]
