"""Depth Anything 3 as ONNX nodes: the transformer on tokens [B, N, C], the head on maps [B, C, h, w]."""

from typing import NamedTuple

import numpy as np
from torch import nn

from linstereo.export.backbone_features import Features
from linstereo.export.graph import Graph, Value, array, cut, halves, reshape, reshape_to, side, transpose
from linstereo.export.layers import conv, gelu, transposed_conv
from linstereo.model.backbone import DepthAnything3
from linstereo.model.backbone.da3 import STRIDE
from linstereo.model.backbone.dpt import DepthHead, FusionBlock, ResidualUnit
from linstereo.model.backbone.positions import GRID_OFFSET, ROPE_BASE, UV_BASE, UV_WEIGHT
from linstereo.model.backbone.vit import (
    BLOCK_NORM_EPS,
    NORM_EPS,
    PATCH,
    PLAIN_BLOCKS,
    STAGES,
    TRAINING_GRID,
    Attention,
    Block,
    VisionTransformer,
)


class PatchGrid(NamedTuple):
    """How many patches there are, int64 [1] each, and the width of the image over its height, float32 [1]."""

    rows: Value
    columns: Value
    aspect: Value


class Rotation(NamedTuple):
    """Cosines and sines [N, D] of the tokens' positions; see `linstereo.model.backbone.positions.RopeTable`."""

    cosine: Value
    sine: Value


def da3_features(g: Graph, backbone: DepthAnything3, images: Value, *, depth: bool) -> Features:
    """See `DepthAnything3.forward`."""
    rows, columns = (g.op("Div", side(g, images, axis), g.integers(STRIDE)) for axis in (2, 3))
    ratio = g.op("Div", g.op("Cast", columns, to=1), g.op("Cast", rows, to=1))
    patches = PatchGrid(rows, columns, ratio)
    mean, deviation = array(backbone.mean)[None], array(backbone.std)[None]
    shrunk = g.op("MatMul", _shrinking(g, rows), images)
    shrunk = g.op("MatMul", shrunk, transpose(g, _shrinking(g, columns), 1, 0))
    inputs = g.op("Div", g.op("Sub", shrunk, g.constant(mean)), g.constant(deviation))
    tokens = vit_stages(g, backbone.vit, inputs, patches, depth=depth)
    maps = [reassembled(g, backbone.head, stage, i, patches) for i, stage in enumerate(tokens)]
    pyramid = (maps[0], maps[1], maps[2])
    if not depth:
        return Features(pyramid, None)
    firsts = [cut(g, stage_map, 0, 0, 1) for stage_map in maps]
    return Features(pyramid, monocular_depth(g, backbone.head, firsts, patches))


def _shrinking(g: Graph, count: Value) -> Value:
    """The matrix that shrinks `count` * 16 px to `count` * 14 with a triangle filter: [14 count, 16 count].

    A dense product, because not every engine has the resizing with a filter that PyTorch's `antialias` is.
    """
    zero, one = g.constant(0.0), g.constant(1.0)

    def centres(patch: int) -> Value:
        length = g.op("Cast", g.op("Squeeze", g.op("Mul", count, g.integers(patch))), to=1)
        return g.op("Add", g.op("Range", zero, length, one), g.constant(0.5))

    source = g.op("Mul", centres(STRIDE), g.constant(PATCH / STRIDE))
    target = g.op("Unsqueeze", centres(PATCH), g.integers(1))
    weight = g.op("Relu", g.op("Sub", one, g.op("Abs", g.op("Sub", source, target))))
    return g.op("Div", weight, g.op("ReduceSum", weight, g.integers(1), keepdims=1))


def vit_stages(g: Graph, vit: VisionTransformer, images: Value, patches: PatchGrid, *, depth: bool) -> list[Value]:
    """Patch tokens [B, N, 2C] of each stage; of the fourth, which only depth needs, for the first image alone."""
    batch = side(g, images, 0)
    dim = vit.cls_token.shape[-1]

    def for_each_image(token: Value) -> Value:
        return g.op("Expand", token, g.op("Concat", batch, g.integers(1, dim), axis=0))

    embedding = conv(g, images, vit.patch_embed.proj)  # [B, C, h, w]
    embedding = transpose(g, reshape(g, embedding, 0, 0, -1), 0, 2, 1)
    tokens = g.op("Concat", for_each_image(g.constant(array(vit.cls_token))), embedding, axis=1)
    tokens = g.op("Add", tokens, position_embedding(g, vit, patches))
    for block in vit.blocks[:PLAIN_BLOCKS]:
        tokens = transformer_block(g, block, tokens, None)  # type: ignore[arg-type]
    camera = for_each_image(g.constant(array(vit.camera_token)[:, :1]))
    tokens = g.op("Concat", camera, cut(g, tokens, 1, 1), axis=1)
    local_turn, shared_turn = _rotations(g, vit.head_dim, patches)
    stages = []
    alternating = vit.blocks[PLAIN_BLOCKS:]
    for stage in range(STAGES if depth else STAGES - 1):
        if stage == STAGES - 1:
            tokens = cut(g, tokens, 0, 0, 1)
        local = transformer_block(g, alternating[2 * stage], tokens, local_turn)  # type: ignore[arg-type]
        tokens = transformer_block(g, alternating[2 * stage + 1], local, shared_turn)  # type: ignore[arg-type]
        normed = layer_norm(g, cut(g, tokens, 1, 1), vit.norm, NORM_EPS)
        stages.append(g.op("Concat", cut(g, local, 1, 1), normed, axis=2))
    return stages


def layer_norm(g: Graph, x: Value, norm: nn.LayerNorm, epsilon: float) -> Value:
    """Over the last axis."""
    weights = g.constant(array(norm.weight)), g.constant(array(norm.bias))
    return g.op("LayerNormalization", x, *weights, axis=-1, epsilon=epsilon)


def dense(g: Graph, x: Value, module: nn.Linear, gain: nn.Parameter | None = None) -> Value:
    """`module` over the last axis, its outputs times `gain`."""
    factor = np.float32(1) if gain is None else array(gain)
    weight, bias = array(module.weight).T * factor, array(module.bias) * factor
    return g.op("Add", g.op("MatMul", x, g.constant(weight)), g.constant(bias))


def transformer_block(g: Graph, block: Block, x: Value, turn: Rotation | None) -> Value:
    """Attention and MLP, each behind a LayerNorm; the learned weights of the residuals are part of their layers."""
    x = g.op(
        "Add", x, self_attention(g, block.attn, layer_norm(g, x, block.norm1, BLOCK_NORM_EPS), turn, block.ls1.gamma)
    )
    wide = gelu(g, dense(g, layer_norm(g, x, block.norm2, BLOCK_NORM_EPS), block.mlp.fc1))
    return g.op("Add", x, dense(g, wide, block.mlp.fc2, block.ls2.gamma))


def self_attention(g: Graph, module: Attention, x: Value, turn: Rotation | None, gain: nn.Parameter) -> Value:
    """[B, N, C] -> [B, N, C]."""
    heads, dim = module.heads, module.qkv.in_features
    qkv = reshape(g, dense(g, x, module.qkv), 0, 0, 3, heads, dim // heads)
    qkv = transpose(g, qkv, 2, 0, 3, 1, 4)  # [3, B, heads, N, D]
    parts = g.ops("Split", qkv, names=g.fresh("qkv", 3), axis=0, num_outputs=3)
    q, k, v = (g.op("Squeeze", part, g.integers(0)) for part in parts)
    if isinstance(module.q_norm, nn.LayerNorm) and isinstance(module.k_norm, nn.LayerNorm):
        q, k = layer_norm(g, q, module.q_norm, NORM_EPS), layer_norm(g, k, module.k_norm, NORM_EPS)
    if turn is not None:
        q, k = _turned(g, q, turn), _turned(g, k, turn)
    scale = g.constant((dim // heads) ** -0.5)
    scores = g.op("MatMul", g.op("Mul", q, scale), transpose(g, k, 0, 1, 3, 2))
    mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), v)  # [B, heads, N, D]
    return dense(g, reshape(g, transpose(g, mixed, 0, 2, 1, 3), 0, 0, dim), module.proj, gain)


def _turned(g: Graph, x: Value, turn: Rotation) -> Value:
    parts = g.ops("Split", x, names=g.fresh("pair", 4), axis=3, num_outputs=4)
    partner = g.op("Concat", parts[1], parts[0], parts[3], parts[2], axis=3)
    return g.op("Add", g.op("Mul", x, turn.cosine), g.op("Mul", partner, turn.sine))


def _rotations(g: Graph, head_dim: int, patches: PatchGrid) -> tuple[Rotation, Rotation]:
    """Of a camera token at (0, 0) and the patches from (1, 1) on; and of patches that are all at (1, 1)."""
    one = g.constant(1.0)
    sides = g.op("Concat", patches.rows, patches.columns, axis=0)
    places = []
    for count, axis in ((patches.rows, 1), (patches.columns, 0)):
        numbers = g.op("Range", one, g.op("Add", g.op("Cast", g.op("Squeeze", count), to=1), one), one)
        grid = g.op("Expand", g.op("Unsqueeze", numbers, g.integers(axis)), sides)
        places.append(reshape(g, grid, -1, 1))  # [h * w, 1]
    position = g.op("Concat", *places, axis=1)  # [h * w, 2]
    same = g.op("Add", g.op("Sub", position, position), one)
    camera = g.constant(np.zeros((1, 2)))
    pairs = head_dim // 4
    exponents = np.arange(pairs, dtype=np.float32) / np.float32(pairs)
    frequencies = g.constant(1 / np.float32(ROPE_BASE) ** exponents)

    def rotation(patch_positions: Value) -> Rotation:
        token_positions = g.op("Concat", camera, patch_positions, axis=0)
        angles = g.op("Mul", g.op("Unsqueeze", token_positions, g.integers(2)), frequencies)  # [N, 2, pairs]
        cosine, sine = g.op("Cos", angles), g.op("Sin", angles)
        both = g.op("Concat", cosine, cosine, axis=2), g.op("Concat", g.op("Neg", sine), sine, axis=2)
        return Rotation(*(reshape(g, table, 0, head_dim) for table in both))

    return rotation(position), rotation(same)


def position_embedding(g: Graph, vit: VisionTransformer, patches: PatchGrid) -> Value:
    """The learned embedding, interpolated to this size, [1, 1 + h * w, C]."""
    table = array(vit.pos_embed)
    channels = table.shape[2]
    square = table[:, 1:].reshape(1, TRAINING_GRID, TRAINING_GRID, channels).transpose(0, 3, 1, 2)
    sides = g.op("Concat", patches.rows, patches.columns, axis=0)
    known = g.op("ReduceMin", g.op("Cast", g.op("Equal", sides, g.integers(TRAINING_GRID)), to=1), g.integers(0))
    beyond = g.op("Mul", g.op("Sub", g.constant(1.0), known), g.constant(GRID_OFFSET))  # none on the training grid
    scales = g.op("Div", g.op("Add", g.op("Cast", sides, to=1), beyond), g.constant(float(TRAINING_GRID)))
    grown = g.op(
        "Resize",
        g.constant(square),
        Value(""),
        g.op("Concat", g.constant([1.0, 1.0]), scales, axis=0),
        mode="cubic",
        cubic_coeff_a=-0.75,
        coordinate_transformation_mode="half_pixel",
    )  # [1, C, h, w]
    flat = transpose(g, reshape(g, grown, 0, 0, -1), 0, 2, 1)
    return g.op("Concat", g.constant(table[:, :1]), flat, axis=1)


def reassembled(g: Graph, head: DepthHead, tokens: Value, stage: int, patches: PatchGrid) -> Value:
    """Tokens of a stage to a map of 4, 2, 1 or 1/2 times the patch grid."""
    x = layer_norm(g, tokens, head.norm, NORM_EPS)
    x = reshape_to(g, transpose(g, x, 0, 2, 1), 0, 0, patches.rows, patches.columns)
    project, resize = head.projects[stage], head.resize_layers[stage]
    assert isinstance(project, nn.Conv2d)
    x = _with_uv_embedding(g, conv(g, x, project), project.out_channels, patches.aspect)
    if isinstance(resize, nn.ConvTranspose2d):
        return transposed_conv(g, x, resize)
    return conv(g, x, resize) if isinstance(resize, nn.Conv2d) else x


def _with_uv_embedding(g: Graph, x: Value, channels: int, aspect: Value) -> Value:
    """`x` [B, C, h, w] plus the head's fixed position embedding: half of the channels by column, half by row."""
    half = channels // 2
    diagonal = g.op("Sqrt", g.op("Add", g.op("Mul", aspect, aspect), g.constant(1.0)))
    spans = g.op("Div", aspect, diagonal), g.op("Reciprocal", diagonal)
    octaves = np.arange(half // 2, dtype=np.float32) / np.float32(half / 2)
    frequency = g.constant((1 / np.float32(UV_BASE) ** octaves).reshape(1, -1, 1))
    waves = []
    for axis, span in ((3, spans[0]), (2, spans[1])):
        steps = g.op("Cast", side(g, x, axis), to=1)
        numbers = g.op("Range", g.constant(0.0), g.op("Squeeze", steps), g.constant(1.0))
        doubled = g.op("Add", g.op("Add", numbers, numbers), g.op("Sub", g.constant(1.0), steps))
        angles = g.op("Mul", g.op("Mul", g.op("Div", doubled, steps), span), frequency)  # [1, half / 2, steps]
        wave = g.op("Concat", g.op("Sin", angles), g.op("Cos", angles), axis=1)
        shape = (1, half, 1, -1) if axis == 3 else (1, half, -1, 1)
        waves.append(reshape(g, g.op("Mul", wave, g.constant(UV_WEIGHT)), *shape))
    parts = [g.op("Add", part, wave) for part, wave in zip(halves(g, x, 1), waves, strict=True)]
    return g.op("Concat", *parts, axis=1)


def monocular_depth(g: Graph, head: DepthHead, maps: list[Value], patches: PatchGrid) -> Value:
    """Depth [1, 1, 14h, 14w] > 0 of the first image, larger = farther."""
    scratch = head.scratch
    layers = (scratch.layer1_rn, scratch.layer2_rn, scratch.layer3_rn, scratch.layer4_rn)
    levels = [conv(g, stage_map, layer) for stage_map, layer in zip(maps, layers, strict=True)]
    x = fused(g, scratch.refinenet4, levels[3], None, _sides(g, levels[2]))
    x = fused(g, scratch.refinenet3, x, levels[2], _sides(g, levels[1]))
    x = fused(g, scratch.refinenet2, x, levels[1], _sides(g, levels[0]))
    x = fused(g, scratch.refinenet1, x, levels[0], g.op("Mul", _sides(g, levels[0]), g.integers(2)))
    whole = g.op("Mul", g.op("Concat", patches.rows, patches.columns, axis=0), g.integers(PATCH))
    x = _enlarged(g, conv(g, x, scratch.output_conv1), whole)
    x = _with_uv_embedding(g, x, scratch.output_conv1.out_channels, patches.aspect)
    first, _, last = scratch.output_conv2
    assert isinstance(first, nn.Conv2d)
    assert isinstance(last, nn.Conv2d)
    logits = conv(g, g.op("Relu", conv(g, x, first)), last)
    return g.op("Exp", cut(g, logits, 1, 0, 1))


def fused(g: Graph, block: FusionBlock, x: Value, lateral: Value | None, size: Value) -> Value:
    """Merge a coarser map with that of this scale, refine, and enlarge to `size`, int64 [2]."""
    if lateral is not None:
        assert block.resConfUnit1 is not None
        x = g.op("Add", x, _residual_unit(g, block.resConfUnit1, lateral))
    return _enlarged(g, conv(g, _residual_unit(g, block.resConfUnit2, x), block.out_conv), size)


def _residual_unit(g: Graph, unit: ResidualUnit, x: Value) -> Value:
    y = conv(g, g.op("Relu", x), unit.conv1)
    return g.op("Add", conv(g, g.op("Relu", y), unit.conv2), x)


def _sides(g: Graph, x: Value) -> Value:
    return g.op("Shape", x, start=2)


def _enlarged(g: Graph, x: Value, size: Value) -> Value:
    sides = g.op("Concat", g.op("Shape", x, end=2), size, axis=0)
    none = Value("")
    return g.op("Resize", x, none, none, sides, mode="linear", coordinate_transformation_mode="align_corners")
