"""Cost volumes and their lookup as ONNX nodes.

All levels of a scale's pyramid are one tensor [h, w, cells], made by one matrix product: the levels lie side by side
with zeros between them, as wide as a lookup is. A lookup is then one gather, and what lies outside of the right image
needs no care.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from linstereo.export.graph import (
    Graph,
    Value,
    array,
    cut,
    halves,
    pooled,
    reshape,
    resized,
    side,
    transpose,
)
from linstereo.export.layers import conv, instance_norm, pointwise
from linstereo.model.cost_volume import FeatureProjection, HierarchicalCostVolumes, PooledCostVolume
from linstereo.model.strides import PAD_TO, STRIDES

PRECISE = "precise"
"""How the names of tensors begin that an engine must compute in single precision whatever it does with the others."""


@dataclasses.dataclass(frozen=True)
class Volume:
    """The correlations of one scale.

    Attributes:
        cells: [h, w, gap + w + gap + w / 2 + gap + ... + gap].
        queries: left features [h, w, C].
        right: right features [C, h, w].
        levels: of the pyramid.
        radius: samples on either side of the current match in each level.
        columns: of the left map, plus a half: float32 [w, 1].
        limits: largest column in each level from which something is seen, float32 [levels].
        offsets: cell of column 0 of each level, float32 [levels].
    """

    cells: Value
    queries: Value
    right: Value
    levels: int
    radius: int
    columns: Value
    limits: Value
    offsets: Value

    @property
    def taps(self) -> int:
        """Cells that a lookup reads in each level."""
        return 2 * self.radius + 2


def projected(g: Graph, x: Value, module: FeatureProjection) -> Value:
    """Features to the common width; the scale of the correlations, 1 / sqrt(width), is shared by both sides."""
    block = module.block
    y = g.op("Relu", instance_norm(g, conv(g, x, block.conv1), block.norm1))
    y = g.op("Relu", instance_norm(g, conv(g, y, block.conv2), block.norm2))
    y = g.op("Relu", g.op("Add", x, y))
    assert module.out.bias is not None
    share = np.float32(module.out.out_channels**-0.25)
    return pointwise(g, y, share * array(module.out.weight), share * array(module.out.bias))


def volumes(g: Graph, features: Sequence[Value], module: HierarchicalCostVolumes) -> list[Volume]:
    """The volumes of all scales, finest first; features are [2, C, h, w], the left image first."""
    maps = [
        projected(g, feature, project)  # type: ignore[arg-type]
        for project, feature in zip(module.project, features, strict=False)
    ]
    if isinstance(module, PooledCostVolume):
        grown = [feature if i == 0 else resized(g, feature, 2**i) for i, feature in enumerate(maps)]
        maps = [g.op("Sum", *grown)]
    return [
        volume(g, feature, stride=stride, levels=module.levels, radius=module.radius)
        for feature, stride in zip(maps, STRIDES, strict=False)
    ]


def volume(g: Graph, features: Value, *, stride: int, levels: int, radius: int) -> Volume:
    """The volume of features [2, C, h, w]."""
    left, right = halves(g, features, 0)  # [1, C, h, w]
    seen = g.op("Squeeze", right, g.integers(0))
    gap = 2 * radius + 2
    multiple = 2 ** (levels - 1)
    width = side(g, right, 3)
    columns = g.op("Range", g.constant(0.0), g.op("Cast", g.op("Squeeze", width), to=1), g.constant(1.0))
    if (PAD_TO // stride) % multiple:  # zeros beyond the right edge, so that every level halves evenly
        rest = g.op("Mod", g.op("Neg", width), g.integers(multiple))
        pads = g.op("Concat", g.integers(0, 0, 0, 0, 0, 0, 0), rest, axis=0)
        right = g.op("Pad", right, pads, g.constant(0.0))
        width = side(g, right, 3)
    parts, level = [], right
    for i in range(levels):
        level = pooled(g, level, 1, 2) if i else right
        after = gap if i == levels - 1 else 0
        parts.append(g.op("Pad", level, g.integers(0, 0, 0, gap, 0, 0, 0, after), g.constant(0.0)))
    joined = parts[0] if levels == 1 else g.op("Concat", *parts, axis=3)  # [1, C, h, cells]
    queries = transpose(g, g.op("Squeeze", left, g.integers(0)), 1, 2, 0)  # [h, w, C]
    keys = transpose(g, g.op("Squeeze", joined, g.integers(0)), 1, 0, 2)  # [h, C, cells]
    length = g.op("Cast", width, to=1)
    steps = np.arange(levels)
    level_widths = g.op("Mul", length, g.constant(0.5**steps))
    return Volume(
        cells=g.op("MatMul", queries, keys),
        queries=queries,
        right=seen,
        levels=levels,
        radius=radius,
        columns=g.op("Unsqueeze", g.op("Add", columns, g.constant(0.5)), g.integers(1)),
        limits=g.op("Add", level_widths, g.constant(float(radius))),
        offsets=g.op("Add", g.op("Mul", length, g.constant(2 - 2 * 0.5**steps)), g.constant(gap * (steps + 1.0))),
    )


def lookup(g: Graph, volume: Volume, disparity: Value) -> Value:
    """Correlations around the matches of `disparity` [1, 1, h, w], as [h, w, levels * (2 * radius + 1)].

    In each level the samples are in the order of rising disparity, hence of falling column.
    """
    levels, radius, taps = volume.levels, volume.radius, volume.taps
    places = g.op("Sub", volume.columns, transpose(g, g.op("Squeeze", disparity, g.integers(0)), 1, 2, 0))  # [h, w, 1]
    scaled = g.op("Sub", g.op("Mul", places, g.constant(0.5 ** np.arange(levels))), g.constant(0.5))  # [h, w, levels]
    base = g.op("Floor", scaled)
    share = g.op("Sub", scaled, base, name=g.fresh(PRECISE, 1)[0])
    base = g.op("Max", g.op("Min", base, volume.limits), g.constant(-(radius + 2.0)))
    first = g.op("Cast", g.op("Add", base, volume.offsets), to=6, name=g.fresh(PRECISE, 1)[0])  # int32
    steps = g.constant(np.arange(radius + 1, -radius - 1, -1), np.int32)
    index = g.op("Add", g.op("Unsqueeze", first, g.integers(3)), steps)  # [h, w, levels, taps]
    found = g.op("GatherElements", volume.cells, reshape(g, index, 0, 0, levels * taps), axis=2)
    found = reshape(g, found, 0, 0, levels, taps)
    nearer, farther = cut(g, found, 3, 0, -1), cut(g, found, 3, 1)
    share = g.op("Unsqueeze", share, g.integers(3))
    samples = g.op("Add", farther, g.op("Mul", share, g.op("Sub", nearer, farther)))
    return reshape(g, samples, 0, 0, levels * (2 * radius + 1))


def mirrored_correlations(g: Graph, volume: Volume) -> Value:
    """All correlations of the finest level, [h, w, 1 + w]: left column before right column, the last of those first.

    They are multiplied anew: engines do that faster than they cut them out of the cells. In front of them is a column
    that means nothing.
    """
    width = g.op("Squeeze", side(g, volume.right, 2))
    falling = g.op("Range", width, g.constant(-1, np.int64), g.constant(-1, np.int64))  # w, w - 1, ... 0
    columns = g.op("Min", falling, g.op("Sub", width, g.constant(1, np.int64)))
    keys = g.op("Gather", volume.right, columns, axis=2)
    return g.op("MatMul", volume.queries, transpose(g, keys, 1, 0, 2))
