"""Everything behind the backbone, made ready for single iterations on random features.

What an iteration costs depends on sizes, not on values: random weights and features of the right size serve, and the
backbone, which has its own row among the parts, need not run.
"""

import dataclasses

import torch
from torch import Tensor, nn

from linstereo.model.backbone import BackboneFeatures
from linstereo.model.cost_volume import VolumeKind
from linstereo.model.linstereo import Evidence, LinStereo
from linstereo.model.precision import PRECISIONS
from linstereo.model.presets import LinStereoConfig, build
from linstereo.model.strides import STRIDES, padded


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """The context in which a network computes in one of `linstereo.model.precision.PRECISIONS`."""
    dtype = PRECISIONS[precision]
    return torch.autocast(device.type, dtype, enabled=dtype != torch.float32)


class RandomFeatures(nn.Module):
    """Noise in place of a backbone's features, made once for one pair of one size.

    Args:
        channels: at 1/4, 1/8 and 1/16.
        height: of the padded images, px.
        width: of them.
        device: where the features are.
    """

    has_depth = False

    def __init__(self, channels: tuple[int, int, int], height: int, width: int, device: torch.device) -> None:
        super().__init__()
        self.channels = channels
        f4, f8, f16 = (
            torch.randn(2, c, height // s, width // s, device=device) for c, s in zip(channels, STRIDES, strict=True)
        )
        self.features = BackboneFeatures((f4, f8, f16), None)

    def forward(self, images: Tensor, *, depth_images: int = 0) -> BackboneFeatures:
        """The features, whatever the images."""
        return self.features


@dataclasses.dataclass(frozen=True)
class Decoder:
    """A network behind random features, and the pair of images that it pretends to see."""

    model: LinStereo
    image: Tensor

    @classmethod
    def make(cls, config: LinStereoConfig, height: int, width: int, device: torch.device) -> "Decoder":
        """The decoder of a network for images of height x width px, which are padded; it starts from zero disparity."""
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            torch.manual_seed(0)
            with torch.device("meta"):
                channels = build(config).backbone.channels
            height, width = padded(height), padded(width)
            single = dataclasses.replace(config, start="zero", coarse_iterations=0)
            model = build(single, backbone=RandomFeatures(channels, height, width, device))
        return cls(model.to(device).eval(), torch.zeros(1, 3, height, width, device=device))

    def prepare(self, volume: VolumeKind) -> Evidence:
        """What refinement needs, with a random disparity of up to a tenth of the width to look up."""
        evidence = self.model.prepare(self.image, self.image, volume=volume)
        most = evidence.disparity.shape[-1] / 10  # px of the 1/4 map
        return evidence._replace(disparity=most * torch.rand_like(evidence.disparity))

    def step(self, evidence: Evidence) -> tuple[list[Tensor], Tensor]:
        """One iteration: lookup, motion encoders, updaters and residual head; see `LinStereo.step`."""
        return self.model.step(evidence, evidence.disparity, evidence.hidden)

    def refine(self, volume: VolumeKind, iterations: int) -> Tensor:
        """All of the decoder: volumes, iterations and upsampling; disparity [1, 1, H, W] in px."""
        evidence = self.prepare(volume)
        for state in self.model.iterate(evidence, iterations):
            last = state
        return self.model.upsample(last, evidence)
