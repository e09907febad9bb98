"""One iteration of PALA against convolutional GRUs of the sizes of RAFT-Stereo and IGEV-Stereo.

An iteration is lookup, motion encoders, the updaters of three scales and the residual head, without upsampling. All are
built from this package's own parts, so that they differ in what is compared and in nothing else; the sizes are those
that the public configurations of the two methods have by default:

- RAFT-Stereo (Lipson et al. 2021): three ConvGRUs of width 128 at 1/4, 1/8 and 1/16, one all-pairs volume at 1/4 with 4
  levels and radius 4, whose 36 samples reach the finest GRU only.
- IGEV-Stereo (Xu et al. 2023): the same three ConvGRUs; 2 levels and radius 4 of a geometry encoding volume of 8 groups
  and 48 disparities (192 px) and of an all-pairs volume, together 162 samples.

This package's fast paths on the CPU serve all of them. The ConvGRU of RAFT-Stereo's size is there without them too: as
plain PyTorch runs it, which is how that method's own code does.
"""

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from linstereo.efficiency.decoder import Decoder
from linstereo.model.cost_volume import StoredVolume
from linstereo.model.fast_paths import plain_paths
from linstereo.model.linstereo import Evidence, LinStereo
from linstereo.model.presets import preset
from linstereo.model.updater import MotionEncoder

PALA = "PALA"
RAFT_STEREO = "ConvGRU, RAFT-Stereo's size"
PLAIN = "ConvGRU, RAFT-Stereo's size, plain PyTorch"
IGEV = "ConvGRU, IGEV-Stereo's size"
SAME_EVIDENCE = "ConvGRU, PALA's motion features"
PUBLISHED = {PALA: "LinStereo PALA", RAFT_STEREO: "RAFT-Stereo ConvGRU", IGEV: "IGEV ConvGRU"}
"""The rows of the paper's table of latencies that the operators stand beside."""
IGEV_LEVELS, IGEV_RADIUS, IGEV_GROUPS, IGEV_DISPARITIES = 2, 4, 8, 48

Step = Callable[[], tuple[list[Tensor], Tensor]]


@dataclasses.dataclass(frozen=True)
class Operator:
    """An update operator ready to run.

    Attributes:
        name: what it is.
        parameters: of motion encoders, updaters and residual head.
        gflops: of one iteration; a multiplication and an addition count as two.
        step: runs one iteration: hidden states and residual, see `LinStereo.step`.
    """

    name: str
    parameters: int
    gflops: float
    step: Step


def build_operators(height: int, width: int, device: torch.device) -> list[Operator]:
    """PALA as in the paper's network and the ConvGRUs, for images of height x width px."""
    made = []
    for name, base in (
        (PALA, "components-hscv-pala"),
        (RAFT_STEREO, "components-none"),
        (IGEV, "components-none"),
        (SAME_EVIDENCE, "components-hscv"),
    ):
        decoder = Decoder.make(preset(base), height, width, device)
        with torch.no_grad():
            evidence = decoder.prepare("stored")
            if name == IGEV:
                evidence = _with_geometry_volume(decoder.model, evidence)
            made.append(_operator(name, decoder, evidence))
            if name == RAFT_STEREO:
                made.append(dataclasses.replace(made[-1], name=PLAIN, step=_plainly(made[-1].step)))
    return made


def _plainly(step: Step) -> Step:
    def run() -> tuple[list[Tensor], Tensor]:
        with plain_paths():
            return step()

    return run


def _operator(name: str, decoder: Decoder, evidence: Evidence) -> Operator:
    model = decoder.model
    with plain_paths(), FlopCounterMode(display=False) as counter:  # the fast paths merge and skip some operations
        decoder.step(evidence)
    parts = (model.motion_encoders, model.updater, model.residual_head)
    parameters = sum(p.numel() for part in parts for p in part.parameters())
    return Operator(name, parameters, counter.get_total_flops() / 1e9, lambda: decoder.step(evidence))


def _with_geometry_volume(model: LinStereo, evidence: Evidence) -> Evidence:
    """Let a network with a single all-pairs volume see a geometry encoding volume beside it, as IGEV-Stereo does."""
    height, width = evidence.volumes[0].size
    hidden = evidence.hidden[0]
    channels = model.config.feature_width
    left, right = (torch.randn(1, channels, height, width, device=hidden.device) for _ in range(2))
    volume = GeometryVolume(left, right)
    encoder = MotionEncoder(volume.samples, hidden.shape[1]).to(hidden.device).eval()
    model.motion_encoders = nn.ModuleList([encoder])
    return evidence._replace(volumes=[volume])


class GeometryVolume:
    """A lookup of IGEV-Stereo's size: random geometry features over disparities, and all-pairs correlations.

    Follows `linstereo.model.cost_volume.CostVolume`.

    Args:
        left: [B, C, h, w] features of the left image.
        right: [B, C, h, w] features of the right image.
    """

    samples = IGEV_LEVELS * (2 * IGEV_RADIUS + 1) * (IGEV_GROUPS + 1)
    radius = IGEV_RADIUS

    def __init__(self, left: Tensor, right: Tensor) -> None:
        self.all_pairs = StoredVolume(left, right, levels=IGEV_LEVELS, radius=IGEV_RADIUS)
        self.size, self.radius = self.all_pairs.size, IGEV_RADIUS
        geometry = left.new_empty(len(left), *self.size, IGEV_GROUPS, IGEV_DISPARITIES).normal_()
        self.pyramid = [geometry]  # [B, h, w, groups, disparities]
        for _ in range(IGEV_LEVELS - 1):
            finer = self.pyramid[-1]
            self.pyramid.append(0.5 * (finer[..., 0::2] + finer[..., 1::2]))

    def lookup(self, disparity: Tensor) -> Tensor:
        """[B, 1, h, w] in px of this scale -> [B, samples, h, w]."""
        found = [self.all_pairs.lookup(disparity)]
        steps = torch.arange(-IGEV_RADIUS, IGEV_RADIUS + 2, device=disparity.device)
        for level, geometry in enumerate(self.pyramid):
            position = disparity.squeeze(1) / 2**level  # [B, h, w]
            base = position.floor()
            wanted = base.long().unsqueeze(-1) + steps  # [B, h, w, taps]
            nearest = wanted.clamp(0, geometry.shape[-1] - 1)
            taps = geometry.gather(-1, nearest.unsqueeze(-2).expand(*geometry.shape[:-1], -1))
            taps = taps * (wanted == nearest).unsqueeze(-2)
            between = (position - base)[..., None, None]
            found.append(torch.lerp(taps[..., :-1], taps[..., 1:], between).flatten(-2).permute(0, 3, 1, 2))
        return torch.cat(found, dim=1)

    def correlations(self) -> Tensor:
        """The all-pairs correlations, [B, h, w, w]."""
        return self.all_pairs.correlations()
