"""The dense prediction head of Depth Anything 3: reassembly of tokens into maps, and the depth branch.

The official head has a second branch for camera rays; stereo matching needs none of it. Attribute names
follow the official checkpoint.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.backbone.positions import add_uv_embedding_
from linstereo.model.backbone.vit import NORM_EPS, PATCH

DEPTH_HIDDEN = 32


class ResidualUnit(nn.Module):
    """Two 3x3 convolutions, each behind a ReLU, around a skip."""

    def __init__(self, *, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """`[B, C, h, w]` to `[B, C, h, w]`."""
        out: Tensor = self.conv2(self.conv1(x.relu()).relu_())
        return out.add_(x)


class FusionBlock(nn.Module):
    """Merge a coarser map with the map of this scale (`lateral`, if any), refine, and enlarge."""

    def __init__(self, *, channels: int, lateral: bool) -> None:
        super().__init__()
        self.resConfUnit1 = ResidualUnit(channels=channels) if lateral else None
        self.resConfUnit2 = ResidualUnit(channels=channels)
        self.out_conv = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor, lateral: Tensor | None, *, size: tuple[int, int]) -> Tensor:
        """`[B, C, h, w]` (and `lateral` alike) to `[B, C, *size]`."""
        if self.resConfUnit1 is not None:
            x = x + self.resConfUnit1(lateral)
        # The official order is enlarge, then convolve. Interpolation weights sum to one, so a 1x1 convolution
        # may as well come first, on a quarter of the pixels.
        return enlarge(self.out_conv(self.resConfUnit2(x)), size)


class DepthFusion(nn.Module):
    """Four reassembled maps to the logits of depth and confidence."""

    def __init__(self, *, stage_channels: tuple[int, int, int, int], channels: int) -> None:
        super().__init__()
        self.layer1_rn = nn.Conv2d(stage_channels[0], channels, 3, padding=1, bias=False)
        self.layer2_rn = nn.Conv2d(stage_channels[1], channels, 3, padding=1, bias=False)
        self.layer3_rn = nn.Conv2d(stage_channels[2], channels, 3, padding=1, bias=False)
        self.layer4_rn = nn.Conv2d(stage_channels[3], channels, 3, padding=1, bias=False)
        self.refinenet1 = FusionBlock(channels=channels, lateral=True)
        self.refinenet2 = FusionBlock(channels=channels, lateral=True)
        self.refinenet3 = FusionBlock(channels=channels, lateral=True)
        self.refinenet4 = FusionBlock(channels=channels, lateral=False)
        self.output_conv1 = nn.Conv2d(channels, channels // 2, 3, padding=1)
        self.output_conv2 = nn.Sequential(
            nn.Conv2d(channels // 2, DEPTH_HIDDEN, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(DEPTH_HIDDEN, 2, 1),
        )

    def forward(self, stages: tuple[Tensor, Tensor, Tensor, Tensor], *, size: tuple[int, int]) -> Tensor:
        """Maps at 4, 2, 1 and 1/2 times the patch grid to `[B, 2, *size]`, `size` being that of the image."""
        level1 = self.layer1_rn(stages[0])  # [B, C, 4h, 4w]
        level2 = self.layer2_rn(stages[1])  # [B, C, 2h, 2w]
        level3 = self.layer3_rn(stages[2])  # [B, C, h, w]
        level4 = self.layer4_rn(stages[3])  # [B, C, ceil(h/2), ceil(w/2)]
        x = self.refinenet4(level4, None, size=level3.shape[2:])  # [B, C, h, w]
        x = self.refinenet3(x, level3, size=level2.shape[2:])  # [B, C, 2h, 2w]
        x = self.refinenet2(x, level2, size=level1.shape[2:])  # [B, C, 4h, 4w]
        x = self.refinenet1(x, level1, size=(2 * level1.shape[2], 2 * level1.shape[3]))  # [B, C, 8h, 8w]
        x = enlarge(self.output_conv1(x), size)  # [B, C / 2, 14h, 14w]
        out: Tensor = self.output_conv2(add_uv_embedding_(x, aspect=size[1] / size[0]))
        return out


class DepthHead(nn.Module):
    """Reassembly of the transformer's stages into feature maps, and depth from them.

    token_channels: channels of a stage's tokens (twice the transformer's). stage_channels: of the four
    reassembled maps. fusion_channels: of the depth branch.
    """

    def __init__(self, *, token_channels: int, stage_channels: tuple[int, int, int, int], fusion_channels: int) -> None:
        super().__init__()
        first, second, _, fourth = stage_channels
        self.norm = nn.LayerNorm(token_channels, eps=NORM_EPS)
        self.projects = nn.ModuleList(nn.Conv2d(token_channels, channels, 1) for channels in stage_channels)
        self.resize_layers = nn.ModuleList(
            (
                nn.ConvTranspose2d(first, first, 4, stride=4),
                nn.ConvTranspose2d(second, second, 2, stride=2),
                nn.Identity(),
                nn.Conv2d(fourth, fourth, 3, stride=2, padding=1),
            )
        )
        self.scratch = DepthFusion(stage_channels=stage_channels, channels=fusion_channels)

    def reassemble(self, tokens: Tensor, *, stage: int, rows: int, cols: int) -> Tensor:
        """Tokens `[B, rows * cols, token_channels]` of stage 0 to 3 to a map of 4, 2, 1 or 1/2 grids.

        The map is `[B, stage_channels[stage], h, w]`, in channels-last memory where that saves a copy.
        """
        x = self.norm(tokens.to(self.norm.weight.dtype))
        x = x.transpose(1, 2).unflatten(2, (rows, cols))  # [B, token_channels, h, w]
        x = add_uv_embedding_(self.projects[stage](x), aspect=cols / rows)  # [B, C, h, w]
        out: Tensor = self.resize_layers[stage](x)
        return out

    def depth(self, stages: tuple[Tensor, Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Depth > 0 (larger = farther) and its confidence > 1, both `[B, 1, 14h, 14w]`, from all maps."""
        rows, cols = stages[2].shape[2:]
        logits = self.scratch(stages, size=(PATCH * rows, PATCH * cols))  # [B, 2, 14h, 14w]
        return logits[:, :1].exp(), logits[:, 1:].exp().add_(1.0)


def enlarge(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Bilinear resize of `[B, C, h, w]` to `size` that keeps the corner pixels' centres in place."""
    return F.interpolate(x, size=tuple(size), mode="bilinear", align_corners=True)
