"""A small convolutional backbone that is trained together with the rest of the network.

It stands in for Depth Anything 3 where there is no GPU and no download: an encoder down to 1/16 or 1/32, and a path
back up that brings what the coarse levels know of the scene into the fine ones. It gives no monocular depth.
"""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.backbone.interface import BackboneFeatures
from linstereo.model.fast_paths import InstanceNorm, channels_last, conv_of_parts

WIDTHS = (24, 48, 80, 112)


class NormalisedConv(nn.Module):
    """Convolution, instance normalisation, ReLU: what a camera's exposure and contrast do is taken out at once."""

    def __init__(self, in_channels: int, out_channels: int, *, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, stride=stride, padding=kernel // 2, bias=False)
        self.norm = InstanceNorm(out_channels, affine=True)

    def forward(self, x: Tensor, *, plus: Tensor | None = None) -> Tensor:
        """[B, in, h, w] -> [B, out, h / stride, w / stride], non-negative; then `plus` is added, if there is one."""
        same_size = self.conv.stride == (1, 1)
        out = conv_of_parts([x], self.conv.weight, self.conv.bias) if same_size else self.conv(x)
        return self.norm.then_relu(out, plus=plus)


class ResidualBlock(nn.Module):
    """Two convolutions beside a residual path."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = NormalisedConv(channels, channels)
        self.conv2 = NormalisedConv(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, h, w] -> [B, C, h, w]."""
        out: Tensor = self.conv2(self.conv1(x), plus=x)
        return out


class DownsamplingBlock(ResidualBlock):
    """Halve the size, then refine with a residual block."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(out_channels)
        self.down = NormalisedConv(in_channels, out_channels, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        """[B, in, h, w] -> [B, out, h / 2, w / 2]."""
        return super().forward(self.down(x))


class ContextLevel(nn.Module):
    """A level at 1/32, where a few cells see a whole wall and many channels cost little; it adds to the map at 1/16.

    It adds nothing before training, so that a trained network can be given one.
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.down = DownsamplingBlock(channels, width)
        self.refine = ResidualBlock(width)
        self.out = nn.Conv2d(width, channels, 1)
        _zero(self.out)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, h, w] -> [B, C, h, w], signed."""
        return _twice(self.out(self.refine(self.down(x)))).add_(x)


class FineLevel(nn.Module):
    """Two more convolutions at 1/4, where it is decided which side of an outline a cell belongs to.

    They see what the coarse levels told, and add nothing before training, as `ContextLevel`.
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.inner = NormalisedConv(channels, width)
        self.out = nn.Conv2d(width, channels, 3, padding=1)
        _zero(self.out)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, h, w] -> [B, C, h, w], signed."""
        return conv_of_parts([self.inner(x)], self.out.weight, self.out.bias).add_(x)


class CompactBackbone(nn.Module):
    """Features at 1/4, 1/8 and 1/16 of an image from a few convolutions.

    Args:
        widths: channels at 1/2, 1/4, 1/8 and 1/16.
        context: channels at 1/32, see `ContextLevel`; 0 for none.
        fine: channels between the further convolutions at 1/4, see `FineLevel`; 0 for none.
    """

    has_depth = False

    def __init__(self, widths: Sequence[int] = WIDTHS, *, context: int = 0, fine: int = 0) -> None:
        super().__init__()
        half, quarter, eighth, sixteenth = widths
        self.channels = (quarter, eighth, sixteenth)
        self.stem = NormalisedConv(3, half, kernel=5, stride=2)
        self.quarter = DownsamplingBlock(half, quarter)
        self.eighth = DownsamplingBlock(quarter, eighth)
        self.sixteenth = DownsamplingBlock(eighth, sixteenth)
        self.context = ContextLevel(sixteenth, context) if context else None
        self.down_to_eighth = nn.Conv2d(sixteenth, eighth, 1)
        self.merge_eighth = NormalisedConv(eighth, eighth)
        self.down_to_quarter = nn.Conv2d(eighth, quarter, 1)
        self.merge_quarter = NormalisedConv(quarter, quarter)
        self.fine = FineLevel(quarter, fine) if fine else None

    def forward(self, images: Tensor, *, depth_images: int = 0) -> BackboneFeatures:
        """See `Backbone.__call__`; `depth_images` must be 0."""
        if depth_images:
            raise ValueError("the compact backbone gives no monocular depth")
        x = channels_last((images - 0.5).mul_(4).to(self.stem.conv.weight.dtype))
        x = self.stem(x)  # [B, half, H/2, W/2]
        quarter = self.quarter(x)  # [B, quarter, H/4, W/4]
        del x  # the largest map
        eighth = self.eighth(quarter)  # [B, eighth, H/8, W/8]
        sixteenth = self.sixteenth(eighth)  # [B, sixteenth, H/16, W/16]
        if self.context is not None:
            sixteenth = self.context(sixteenth)
        eighth = self.merge_eighth(_twice(self.down_to_eighth(sixteenth)).add_(eighth), plus=eighth)
        quarter = self.merge_quarter(_twice(self.down_to_quarter(eighth)).add_(quarter), plus=quarter)
        if self.fine is not None:
            quarter = self.fine(quarter)
        return BackboneFeatures((quarter, eighth, sixteenth), None)


def _twice(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


def _zero(conv: nn.Conv2d) -> None:
    """Make a convolution give zeros, until it is trained."""
    for parameter in conv.parameters():
        nn.init.zeros_(parameter)
