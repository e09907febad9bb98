"""Depth Anything 3 as a frozen backbone: features at 1/4, 1/8 and 1/16, and monocular depth."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.errors import InputError
from linstereo.model.backbone.dpt import DepthHead
from linstereo.model.backbone.interface import BackboneFeatures
from linstereo.model.backbone.vit import PATCH, VisionTransformer
from linstereo.model.precision import without_autocast
from linstereo.model.strides import STRIDES

STRIDE = STRIDES[-1]  # of the patches, once the images are shrunk to 14/16
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class DA3Config:
    """Sizes of one member of the family.

    name: as people call it, for messages. dim and heads: of the transformer. stage_channels: of the
    reassembled maps at 4, 2, 1 and 1/2 times the patch grid. fusion_channels: of the depth branch.
    """

    name: str
    dim: int
    heads: int
    stage_channels: tuple[int, int, int, int]
    fusion_channels: int


VIT_S = DA3Config(name="DA3-SMALL (ViT-S)", dim=384, heads=6, stage_channels=(48, 96, 192, 384), fusion_channels=64)
VIT_B = DA3Config(name="DA3-BASE (ViT-B)", dim=768, heads=12, stage_channels=(96, 192, 384, 768), fusion_channels=128)
CONFIGS = {"vits": VIT_S, "vitb": VIT_B}


class NativeOutput(NamedTuple):
    """What the network gives for an input of 14h x 14w pixels.

    stages: reassembled maps `[B, C, 4h, 4w]`, `[B, C, 2h, 2w]`, `[B, C, h, w]` and, if depth was asked for,
        `[depth_images, C, ceil(h/2), ceil(w/2)]`.
    depth: relative depth > 0, larger = farther, `[depth_images, 1, 14h, 14w]`, or None.
    confidence: of that depth, > 1, larger = surer, same shape, or None.
    """

    stages: tuple[Tensor, ...]
    depth: Tensor | None
    confidence: Tensor | None


class DepthAnything3(nn.Module):
    """The transformer and head of Depth Anything 3, without its ray and camera parts; a `Backbone`.

    Never trained: its parameters ask for no gradient, it stays in eval mode, and its forward pass records
    nothing to differentiate.
    """

    has_depth = True

    def __init__(self, config: DA3Config) -> None:
        super().__init__()
        self.config = config
        self.channels = config.stage_channels[:3]
        self.vit = VisionTransformer(dim=config.dim, heads=config.heads)
        self.head = DepthHead(
            token_channels=2 * config.dim,
            stage_channels=config.stage_channels,
            fusion_channels=config.fusion_channels,
        )
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(3, 1, 1), persistent=False)
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> Self:
        """Stay in eval mode, whatever the model around asks for."""
        return super().train(False)

    @torch.no_grad()
    def forward(self, images: Tensor, *, depth_images: int = 0) -> BackboneFeatures:
        """Features of all images and depth of the first `depth_images`.

        images: `[B, 3, H, W]` float RGB in [0, 1], H and W multiples of 16.
        Returns features `[B, channels[i], H/s, W/s]` at s = 4, 8, 16 and, unless `depth_images` is 0,
        relative depth `[depth_images, 1, 14H/16, 14W/16]`.
        """
        self._check(images, multiple=STRIDE, depth_images=depth_images)
        height, width = images.shape[-2:]
        # A 14-pixel patch of the shrunk image covers 16 pixels of the given one, so that the maps land on
        # 1/4, 1/8 and 1/16 without resampling features. Plain bilinear sampling would nearly copy some pixels
        # and average others, in a beat of 8 pixels, and a disparity moves texture within that beat.
        # Antialiasing evens this out (noise keeps 0.71 to 0.81 of its deviation instead of 0.71 to 0.93) and
        # lets less through that would alias. A cubic filter would overshoot [0, 1].
        size = (height // STRIDE * PATCH, width // STRIDE * PATCH)
        precise = torch.promote_types(self.mean.dtype, torch.float32)  # half precision cannot be resized
        shrunk = F.interpolate(images.to(precise), size=size, mode="bilinear", antialias=True)
        inputs = ((shrunk - self.mean) / self.std).to(self.mean.dtype)  # [B, 3, 14H/16, 14W/16]
        output = self.native(inputs, depth_images=depth_images)
        fine, middle, coarse = output.stages[:3]
        pyramid = (fine.contiguous(), middle.contiguous(), coarse.contiguous())
        return BackboneFeatures(pyramid=pyramid, depth=output.depth)

    @torch.no_grad()
    def native(self, inputs: Tensor, *, depth_images: int = 0) -> NativeOutput:
        """The network on its own terms, with its fourth stage and the confidence of depth.

        inputs: `[B, 3, 14h, 14w]` float RGB, normalised by ImageNet's mean and standard deviation. The last
        transformer blocks, the fourth stage and the fusion serve only depth: they run for the first
        `depth_images` images alone.
        """
        self._check(inputs, multiple=PATCH, depth_images=depth_images)
        rows, cols = inputs.shape[-2] // PATCH, inputs.shape[-1] // PATCH
        tokens = self.vit(inputs, last_stage_images=depth_images)
        with without_autocast(inputs.device.type):  # the head was trained in full precision
            maps = [
                self.head.reassemble(stage_tokens, stage=stage, rows=rows, cols=cols)
                for stage, stage_tokens in enumerate(tokens)
            ]
            if depth_images == 0:
                return NativeOutput(stages=tuple(maps), depth=None, confidence=None)
            first, second, third, fourth = (stage_map[:depth_images] for stage_map in maps)
            depth, confidence = self.head.depth((first, second, third, fourth))
        return NativeOutput(stages=tuple(maps), depth=depth, confidence=confidence)

    def _check(self, images: Tensor, *, multiple: int, depth_images: int) -> None:
        if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
            raise InputError(
                f"the backbone needs float images [B, 3, H, W], but got {images.dtype} of shape "
                f"{tuple(images.shape)}; convert them to float RGB first"
            )
        height, width = images.shape[-2:]
        if min(height, width) < multiple or height % multiple or width % multiple:
            raise InputError(
                f"the backbone needs a height and width that are multiples of {multiple}, but got "
                f"{height}x{width}; pad or resize the images first"
            )
        if not 0 <= depth_images <= len(images):
            raise InputError(
                f"depth was asked for {depth_images} images of a batch of {len(images)}; "
                f"choose a number from 0 to {len(images)}"
            )


def build_da3(variant: Literal["vits", "vitb"]) -> DepthAnything3:
    """A backbone of the given size with random weights; `load_da3_weights` fills in the official ones."""
    if variant not in CONFIGS:
        raise InputError(f"unknown backbone {variant!r}; choose one of {', '.join(CONFIGS)}")
    return DepthAnything3(CONFIGS[variant])
