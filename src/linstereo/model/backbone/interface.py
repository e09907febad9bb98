"""What the stereo network asks of a backbone, whichever one it is."""

from typing import NamedTuple, Protocol

from torch import Tensor


class BackboneFeatures(NamedTuple):
    """What a backbone says about a batch of B images of H x W pixels.

    pyramid: features at 1/4, 1/8 and 1/16 of the image, `[B, channels[i], H/s, W/s]`.
    depth: relative monocular depth of the first `depth_images` images, `[depth_images, 1, h, w]`, > 0 and
        larger = farther, up to an unknown scale, at the backbone's own resolution; None if none was asked
        for.
    """

    pyramid: tuple[Tensor, Tensor, Tensor]
    depth: Tensor | None


class Backbone(Protocol):
    """A feature extractor with optional monocular depth.

    channels: feature channels at 1/4, 1/8 and 1/16.
    has_depth: whether the backbone can give depth; without it `depth_images` must be 0.
    """

    channels: tuple[int, int, int]
    has_depth: bool

    def __call__(self, images: Tensor, *, depth_images: int = 0) -> BackboneFeatures:
        """Extract features of all images, and depth of the first `depth_images` of them.

        images: `[B, 3, H, W]` float RGB in [0, 1], H and W multiples of 32; in any precision, whatever that of the
            weights.
        """
        ...
