"""The backbones as ONNX nodes."""

from collections.abc import Callable

from linstereo.errors import InputError
from linstereo.export.backbone_features import Features
from linstereo.export.da3 import da3_features
from linstereo.export.graph import Graph, Value, resized
from linstereo.export.layers import conv, instance_norm
from linstereo.model.backbone import Backbone, CompactBackbone, DepthAnything3
from linstereo.model.backbone.compact import DownsamplingBlock, NormalisedConv, ResidualBlock


def backbone_features(g: Graph, backbone: Backbone, images: Value, *, depth: bool) -> Features:
    """Features of all images, and depth of the first one if asked for."""
    writers: dict[type, Callable[..., Features]] = {CompactBackbone: compact_features, DepthAnything3: da3_features}
    writer = writers.get(type(backbone))
    if writer is None:
        raise InputError(f"a model with the backbone {type(backbone).__name__} cannot be exported")
    return writer(g, backbone, images, depth=depth)


def compact_features(g: Graph, backbone: CompactBackbone, images: Value, *, depth: bool) -> Features:
    """See `CompactBackbone.forward`; it gives no depth."""
    assert not depth
    x = g.op("Mul", g.op("Sub", images, g.constant(0.5)), g.constant(4.0))
    quarter = _down(g, _normalised(g, x, backbone.stem), backbone.quarter)
    eighth = _down(g, quarter, backbone.eighth)
    sixteenth = _down(g, eighth, backbone.sixteenth)
    if backbone.context is not None:
        told = _residual(g, _down(g, sixteenth, backbone.context.down), backbone.context.refine)
        sixteenth = g.op("Add", sixteenth, resized(g, conv(g, told, backbone.context.out), 2))
    told = g.op("Add", eighth, resized(g, conv(g, sixteenth, backbone.down_to_eighth), 2))
    eighth = g.op("Add", eighth, _normalised(g, told, backbone.merge_eighth))
    told = g.op("Add", quarter, resized(g, conv(g, eighth, backbone.down_to_quarter), 2))
    quarter = g.op("Add", quarter, _normalised(g, told, backbone.merge_quarter))
    if backbone.fine is not None:
        quarter = g.op("Add", quarter, conv(g, _normalised(g, quarter, backbone.fine.inner), backbone.fine.out))
    return Features((quarter, eighth, sixteenth), None)


def _normalised(g: Graph, x: Value, module: NormalisedConv) -> Value:
    return g.op("Relu", instance_norm(g, conv(g, x, module.conv), module.norm))


def _down(g: Graph, x: Value, module: DownsamplingBlock) -> Value:
    return _residual(g, _normalised(g, x, module.down), module)


def _residual(g: Graph, x: Value, module: ResidualBlock) -> Value:
    return g.op("Add", x, _normalised(g, _normalised(g, x, module.conv1), module.conv2))
