"""The network's layers as ONNX nodes, on maps [B, C, h, w].

Per-position layers are 1x1 convolutions and the channels stay in front of the positions, so that nothing is transposed
between the layers.
"""

import math

import numpy as np
from numpy.typing import NDArray
from torch import nn

from linstereo.export.graph import Graph, Value, array
from linstereo.model.layers import PointwiseConv

FloatArray = NDArray[np.float32]


def convolution(
    g: Graph,
    x: Value,
    weight: FloatArray,
    bias: FloatArray | None,
    *,
    stride: int = 1,
    groups: int = 1,
    pad: int = -1,
    dilation: int = 1,
) -> Value:
    """A convolution with an odd kernel that keeps the size, but for the stride, unless `pad` says otherwise."""
    kernel = list(weight.shape[2:])
    pads = [k // 2 for k in kernel] * 2 if pad < 0 else [pad] * 4
    inputs = [g.constant(weight)] + ([] if bias is None else [g.constant(bias)])
    steps, gaps = [stride, stride], [dilation, dilation]
    return g.op("Conv", x, *inputs, kernel_shape=kernel, pads=pads, strides=steps, dilations=gaps, group=groups)


def conv(g: Graph, x: Value, module: nn.Conv2d) -> Value:
    """`module` as it is."""
    bias = None if module.bias is None else array(module.bias)
    stride, pad, dilation = (int(pair[0]) for pair in (module.stride, module.padding, module.dilation))
    weight = array(module.weight)
    return convolution(g, x, weight, bias, stride=stride, groups=module.groups, pad=pad, dilation=dilation)


def pointwise(g: Graph, x: Value, weight: FloatArray, bias: FloatArray | None) -> Value:
    """A matrix [D, C] and a bias [D] at every position."""
    return convolution(g, x, weight.reshape(*weight.shape[:2], 1, 1), bias)


def linear(g: Graph, x: Value, module: nn.Linear | PointwiseConv) -> Value:
    """`module` at every position."""
    return pointwise(g, x, array(module.weight), None if module.bias is None else array(module.bias))


def transposed_conv(g: Graph, x: Value, module: nn.ConvTranspose2d) -> Value:
    """`module`, whose stride is its kernel: no two outputs overlap."""
    assert module.bias is not None
    strides = [int(s) for s in module.stride]
    weights = g.constant(array(module.weight)), g.constant(array(module.bias))
    return g.op("ConvTranspose", x, *weights, kernel_shape=strides, strides=strides)


def instance_norm(g: Graph, x: Value, module: nn.InstanceNorm2d) -> Value:
    """Every channel of every image to zero mean and unit variance, then `module`'s own scale and shift."""
    affine = module.weight is not None
    scale = array(module.weight) if affine else np.ones(module.num_features, np.float32)
    shift = array(module.bias) if affine else np.zeros(module.num_features, np.float32)
    return g.op("InstanceNormalization", x, g.constant(scale), g.constant(shift), epsilon=module.eps)


def normalised_linear(g: Graph, x: Value, norm: nn.LayerNorm, *modules: nn.Linear) -> Value:
    """The outputs of linear layers that read the normalised `x`, one after the other along the channels.

    A LayerNorm subtracts the mean over the channels, divides by the deviation, scales and shifts. All but the division
    is linear and becomes part of the layers' weights.
    """
    weight = np.concatenate([array(module.weight) for module in modules]).astype(np.float64)  # [D, C]
    bias = np.concatenate([array(module.bias) for module in modules]).astype(np.float64)
    bias = bias + weight @ array(norm.bias)
    weight = weight * array(norm.weight)
    weight = weight - weight.mean(axis=1, keepdims=True)
    axis = g.integers(1)
    centred = g.op("Sub", x, g.op("ReduceMean", x, axis, keepdims=1))
    variance = g.op("ReduceMean", g.op("Mul", centred, centred), axis, keepdims=1)
    deviation = g.op("Sqrt", g.op("Add", variance, g.constant(norm.eps)))
    return pointwise(g, g.op("Div", centred, deviation), weight.astype(np.float32), bias.astype(np.float32))


def gelu(g: Graph, x: Value) -> Value:
    """Exact GELU."""
    grown = g.op("Add", g.op("Erf", g.op("Div", x, g.constant(math.sqrt(2)))), g.constant(1.0))
    return g.op("Mul", g.op("Mul", x, grown), g.constant(0.5))


def blend(g: Graph, start: Value, end: Value, share: Value) -> Value:
    """start + share * (end - start)."""
    return g.op("Add", start, g.op("Mul", share, g.op("Sub", end, start)))


def concat(g: Graph, *maps: Value, axis: int = 1) -> Value:
    """Along the channels."""
    return maps[0] if len(maps) == 1 else g.op("Concat", *maps, axis=axis)
