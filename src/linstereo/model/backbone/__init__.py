"""Backbones: the interface the stereo network asks for, Depth Anything 3 and a small one behind it."""

from linstereo.model.backbone.compact import CompactBackbone
from linstereo.model.backbone.da3 import (
    VIT_B,
    VIT_S,
    DA3Config,
    DepthAnything3,
    NativeOutput,
    build_da3,
)
from linstereo.model.backbone.protocol import Backbone, BackboneFeatures

__all__ = [
    "VIT_B",
    "VIT_S",
    "Backbone",
    "BackboneFeatures",
    "CompactBackbone",
    "DA3Config",
    "DepthAnything3",
    "NativeOutput",
    "build_da3",
]
