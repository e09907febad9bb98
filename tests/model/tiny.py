"""A tiny backbone and synthetic pairs, so that tests of the network run in seconds."""

import torch
import torch.nn.functional as F
from torch import nn

from linstereo.model.backbone import BackboneFeatures
from linstereo.model.presets import LinStereoConfig


class TinyBackbone(nn.Module):
    """Frozen random convolutions on pooled images; `depth` is what it reports as monocular depth, if given."""

    channels = (12, 16, 20)

    def __init__(self, depth=None):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        for i, c in enumerate(self.channels):
            self.register_buffer(f"filters{i}", torch.randn(c, 3, 5, 5, generator=generator) / 5)
        self.depth = depth
        self.has_depth = depth is not None
        self.calls = []

    def forward(self, images, *, depth_images=0):
        self.calls.append((tuple(images.shape), depth_images))
        pyramid = []
        for i in range(3):
            pooled = F.avg_pool2d(images - 0.5, 4 * 2**i)
            filters = getattr(self, f"filters{i}").to(images.dtype)
            pyramid.append(F.conv2d(F.pad(pooled, (2, 2, 2, 2), mode="replicate"), filters))
        depth = None
        if depth_images:
            depth = self.depth.expand(depth_images, 1, *self.depth.shape[-2:])
        return BackboneFeatures(tuple(pyramid), depth)


TINY = LinStereoConfig(start="zero", hidden=32, heads=2, feature_width=32, levels=2, radius=3, iterations=4)


def synthetic_pairs(count, height=64, width=96, seed=0):
    """Random textures, a slanted background, a nearer square: left, right [B, 3, H, W], disparity [B, 1, H, W]."""
    generator = torch.Generator().manual_seed(seed)
    right = torch.rand(count, 3, height // 2, width, generator=generator)
    right = F.interpolate(right, size=(height, width + 48), mode="bilinear", align_corners=False)
    disparity = torch.linspace(4, 8, height).view(1, 1, height, 1).repeat(count, 1, 1, width)
    disparity[..., height // 4 : height // 2, width // 3 : width // 2] = 13.0
    columns = torch.arange(width).view(1, 1, 1, width) - disparity + 24  # where left looks in the wide right image
    grid_x = (columns + 0.5) / (width + 48) * 2 - 1
    grid_y = (torch.arange(height).view(1, 1, height, 1) + 0.5).expand_as(grid_x) / height * 2 - 1
    grid = torch.stack([grid_x, grid_y], dim=-1).squeeze(1)
    left = F.grid_sample(right, grid, align_corners=False, mode="bilinear")
    return left, right[..., 24 : 24 + width], disparity
