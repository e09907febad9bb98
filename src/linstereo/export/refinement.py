"""Motion encoders, updaters, residual head and upsampling as ONNX nodes, on maps [1, C, h, w]."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from linstereo.export.graph import Graph, Value, array, halves, pooled, reshape, reshape_to, resized, side, transpose
from linstereo.export.layers import blend, concat, conv, convolution, gelu, linear, normalised_linear, pointwise
from linstereo.export.volumes import Volume, lookup
from linstereo.model.pala import EPSILON, PALA, PALABlock
from linstereo.model.updater import (
    DISPARITY_SCALE,
    ConvGRUUnit,
    MotionEncoder,
    MultiScaleUpdater,
    PALAUnit,
    ResidualHead,
)
from linstereo.model.upsample import SOFTNESS, ConvexUpsampler, ImageGuide

ROPE_BASE = 10000.0


@dataclasses.dataclass(frozen=True)
class Grid:
    """Size of a scale's maps, and what its positions turn queries and keys by.

    Attributes:
        rows: int64 [1].
        columns: int64 [1].
        cosine: float32 [1, head_dim / 2, N].
        sine: the same shape.
    """

    rows: Value
    columns: Value
    cosine: Value
    sine: Value


def motion_features(g: Graph, module: MotionEncoder, volume: Volume, disparity: Value) -> Value:
    """Matching evidence around `disparity` [1, 1, h, w], px of this scale, as features [1, C, h, w]."""
    samples = lookup(g, volume, disparity)  # [h, w, K]
    first = module.correlation1
    assert first.bias is not None
    matrix = array(first.weight).reshape(first.out_channels, -1).T
    narrow = g.op("Add", g.op("MatMul", samples, g.constant(matrix)), g.constant(array(first.bias)))
    narrow = g.op("Unsqueeze", transpose(g, g.op("Relu", narrow), 2, 0, 1), g.integers(0))  # [1, half, h, w]
    c = g.op("Relu", conv(g, narrow, module.correlation2))
    shown = g.op("Mul", disparity, g.constant(DISPARITY_SCALE))
    d = g.op("Relu", conv(g, g.op("Relu", conv(g, shown, module.disparity1)), module.disparity2))
    return concat(g, g.op("Relu", conv(g, concat(g, c, d), module.fuse)), shown)


def grid(g: Graph, hidden: Value, head_dim: int) -> Grid:
    """The positions of a map [1, C, h, w]."""
    rows, columns = side(g, hidden, 2), side(g, hidden, 3)
    pairs = head_dim // 4
    frequency = g.constant((ROPE_BASE ** (-np.arange(pairs) / pairs)).reshape(-1, 1, 1))
    zero, one = g.constant(0.0), g.constant(1.0)

    def places(count: Value, axis: int) -> Value:
        numbers = g.op("Range", zero, g.op("Squeeze", g.op("Cast", count, to=1)), one)
        return g.op("Mul", g.op("Unsqueeze", numbers, g.integers(0, axis)), frequency)

    sides = g.op("Concat", g.integers(pairs), rows, columns, axis=0)
    angles = [g.op("Expand", places(count, axis), sides) for count, axis in ((rows, 2), (columns, 1))]
    angle = reshape(g, g.op("Concat", *angles, axis=0), 1, 2 * pairs, -1)  # [1, 2 pairs, N]
    return Grid(rows, columns, g.op("Cos", angle), g.op("Sin", angle))


def attention(g: Graph, module: PALA, mixed: Value, places: Grid) -> Value:
    """Position-aware linear attention of `mixed` [1, C, h, w] to itself: [1, C, h, w].

    The channels of queries and keys are sorted, first ones of all RoPE pairs before second ones, by sorting the rows of
    the weights: dot products do not depend on their order, and pairs become two tensors. In each, the heads of the
    queries come before those of the keys.
    """
    assert module.query_key.bias is not None
    heads, dim = module.heads, module.query_key.in_features
    head_dim = dim // heads
    order = np.arange(2 * dim).reshape(2 * heads, head_dim // 2, 2).transpose(2, 0, 1).reshape(2, dim)
    weights, biases = array(module.query_key.weight), array(module.query_key.bias)
    pair = []
    for rows in order:  # two products: engines take long to split the channels of one
        features = g.op("Add", g.op("Elu", pointwise(g, mixed, weights[rows], biases[rows])), g.constant(1.0))
        pair.append(reshape(g, features, 2 * heads, head_dim // 2, -1))
    first, second = pair
    plain = g.op("Concat", first, second, axis=1)  # [2 heads, head_dim, N]
    turned = plain
    if module.rope:
        cosine, sine = places.cosine, places.sine
        turned = g.op(
            "Concat",
            g.op("Sub", g.op("Mul", first, cosine), g.op("Mul", second, sine)),
            g.op("Add", g.op("Mul", second, cosine), g.op("Mul", first, sine)),
            axis=1,
        )
    query, key = halves(g, turned, 0)  # [heads, head_dim, N]
    value = reshape(g, mixed, heads, head_dim, -1)
    count = g.op("Cast", side(g, value, 2), to=1)
    summary = g.op("Div", g.op("MatMul", value, transpose(g, key, 0, 2, 1)), count)  # [heads, head_dim (v), head_dim]
    weighing, weighed = (query, key) if module.symmetric_rope else halves(g, plain, 0)
    mean_key = g.op("ReduceMean", weighed, g.integers(2), keepdims=0)  # [heads, head_dim]
    weight = g.op("MatMul", g.op("Unsqueeze", mean_key, g.integers(1)), weighing)  # [heads, 1, N]
    if module.symmetric_rope:
        weight = g.op("Abs", weight)
    attended = g.op("Div", g.op("MatMul", summary, query), g.op("Add", weight, g.constant(EPSILON)))
    return reshape_to(g, attended, 1, dim, places.rows, places.columns)


def pala_block(g: Graph, module: PALABlock, x: Value, places: Grid) -> Value:
    """CPE, LayerNorm, PALA, residual, CPE, LayerNorm, MLP, residual."""
    if module.cpe1 is not None:
        x = g.op("Add", conv(g, x, module.cpe1), x)
    pala = module.attention
    if pala.context is None:
        mixed, context = normalised_linear(g, x, module.norm1, pala.encode), None
    else:
        both = normalised_linear(g, x, module.norm1, pala.encode, pala.context)
        mixed, context = halves(g, both, 1)
    if pala.mix is not None:
        mixed = conv(g, mixed, pala.mix)
    attended = attention(g, pala, mixed, places)
    if pala.value_encoding is not None:
        attended = g.op("Add", conv(g, mixed, pala.value_encoding), attended)
    if context is not None:
        attended = g.op("Mul", attended, g.op("Mul", context, g.op("Sigmoid", context)))
    x = g.op("Add", linear(g, attended, pala.aggregate), x)
    if module.cpe2 is not None:
        x = g.op("Add", conv(g, x, module.cpe2), x)
    wide = gelu(g, normalised_linear(g, x, module.norm2, module.mlp[0]))  # type: ignore[arg-type]
    return g.op("Add", linear(g, wide, module.mlp[2]), x)  # type: ignore[arg-type]


def pala_unit(g: Graph, module: PALAUnit, hidden: Value, inputs: Sequence[Value], places: Grid) -> Value:
    """The new hidden state."""
    x = linear(g, concat(g, hidden, *inputs), module.project)
    for block in module.blocks:
        x = pala_block(g, block, x, places)  # type: ignore[arg-type]
    gate = g.op("Sigmoid", conv(g, concat(g, hidden, x), module.gate))
    return blend(g, hidden, g.op("Tanh", x), gate)


def gru_unit(g: Graph, module: ConvGRUUnit, hidden: Value, inputs: Sequence[Value]) -> Value:
    """The new hidden state of the local baseline."""
    x = concat(g, *inputs)
    update, reset = halves(g, g.op("Sigmoid", conv(g, concat(g, hidden, x), module.gates)), 1)
    candidate = g.op("Tanh", conv(g, concat(g, g.op("Mul", reset, hidden), x), module.candidate))
    return blend(g, hidden, candidate, update)


def updated(
    g: Graph,
    module: MultiScaleUpdater,
    hidden: Sequence[Value],
    motion: Sequence[Value | None],
    grids: Sequence[Grid],
) -> list[Value]:
    """New hidden states of all scales, coarse to fine; all sequences are finest first."""
    new = list(hidden)
    for i in reversed(range(len(new))):
        features = motion[i]
        inputs = [] if features is None else [features]
        if i > 0:
            inputs.append(pooled(g, new[i - 1], 2, 2))
        if i < len(new) - 1:
            inputs.append(resized(g, new[i + 1], 2))
        unit = module.units[i]
        if isinstance(unit, ConvGRUUnit):
            new[i] = gru_unit(g, unit, new[i], inputs)
        else:
            assert isinstance(unit, PALAUnit)
            new[i] = pala_unit(g, unit, new[i], inputs, grids[i])
    return new


def residual(g: Graph, module: ResidualHead, hidden: Value) -> Value:
    """Signed change of the disparity, [1, 1, h, w] in px of the finest scale."""
    x = hidden
    for block in module.blocks:
        x = g.op("Add", gelu(g, linear(g, conv(g, x, block.spatial), block.pointwise)), x)  # type: ignore[arg-type]
    return conv(g, x, module.out)


def image_guide(g: Graph, module: ImageGuide, image: Value) -> Value:
    """Detail of the left image [1, 3, H, W] as features [1, C, H / factor, W / factor].

    Cutting the image into cells and taking their mean off is linear: with it, the 3x3 convolution over cells becomes
    one over pixels.
    """
    factor = module.factor
    assert module.conv.bias is not None
    weight = array(module.conv.weight).reshape(-1, 3, factor**2, 3, 3)
    weight = 4 * (weight - weight.mean(axis=2, keepdims=True))
    weight = weight.reshape(-1, 3, factor, factor, 3, 3).transpose(0, 1, 4, 2, 5, 3)  # [C, 3, 3, factor, 3, factor]
    weight = weight.reshape(-1, 3, 3 * factor, 3 * factor)
    return g.op("Relu", convolution(g, image, weight, array(module.conv.bias), stride=factor, pad=factor))


def upsampled(g: Graph, module: ConvexUpsampler, disparity: Value, hidden: Value, guide: Value | None) -> Value:
    """Full-size disparity [1, 1, H, W] in px of the image, from [1, 1, h, w] in px of the finest scale."""
    factor = module.factor
    last = module.weights[2]
    inputs = hidden if guide is None else concat(g, hidden, guide)
    wide = g.op("Relu", conv(g, inputs, module.weights[0]))  # type: ignore[arg-type]
    scores = pointwise(g, wide, SOFTNESS * array(last.weight), SOFTNESS * array(last.bias))
    rows, columns = side(g, hidden, 2), side(g, hidden, 3)
    scores = reshape_to(g, scores, 9, factor**2, rows, columns)
    axis = g.integers(0)
    shares = g.op("Exp", g.op("Sub", scores, g.op("ReduceMax", scores, axis, keepdims=1)))
    framed = g.op("Pad", disparity, g.integers(0, 0, 1, 1, 0, 0, 1, 1), mode="edge")
    pick = factor * np.eye(9, dtype=np.float32).reshape(9, 1, 3, 3)
    around = convolution(g, framed, pick, None, pad=0)  # [1, 9, h, w]
    around = transpose(g, around, 1, 0, 2, 3)  # [9, 1, h, w]
    sums = g.op("ReduceSum", g.op("Mul", shares, around), axis, keepdims=1)  # [1, factor**2, h, w]
    fine = g.op("Div", sums, g.op("ReduceSum", shares, axis, keepdims=1))
    return g.op("DepthToSpace", fine, blocksize=factor, mode="CRD")
