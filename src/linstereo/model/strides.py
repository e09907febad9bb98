"""The scales of the network: how much smaller than the images its maps are, and the padding that makes them fit."""

import torch.nn.functional as F
from torch import Tensor

STRIDES = (4, 8, 16)
"""Image px per cell of the feature maps, finest first."""
FINEST = STRIDES[0]
"""Stride of the map on which the disparity is refined."""
PAD_TO = 32
"""Image sides are padded to this multiple, px; no side may be shorter."""


def padded(side: int) -> int:
    """The length of an image side after padding, px."""
    return -(-side // PAD_TO) * PAD_TO


def pad_images(images: Tensor) -> Tensor:
    """Repeat the right and bottom edge of [B, 3, H, W] up to the next multiple; pixel coordinates stay as they are."""
    height, width = images.shape[-2:]
    padding = (0, padded(width) - width, 0, padded(height) - height)
    return F.pad(images, padding, mode="replicate") if any(padding) else images
