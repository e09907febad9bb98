"""Backbones: the interface the stereo network asks for, Depth Anything 3 and a small one behind it."""

from linstereo.model.backbone.compact import CompactBackbone
from linstereo.model.backbone.da3 import DepthAnything3, build_da3
from linstereo.model.backbone.interface import Backbone, BackboneFeatures

__all__ = ["Backbone", "BackboneFeatures", "CompactBackbone", "DepthAnything3", "build_da3"]
