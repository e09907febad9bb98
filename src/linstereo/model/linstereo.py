"""LinStereo, top to bottom as in the paper's figure 1.

left, right ─► backbone ─► features 1/4, 1/8, 1/16 ─► cost volumes (HSCV) ─┐
                  └──────► monocular depth ─► start (DPI) ─────────────────┤
                                                                           ▼
                         disparity ◄─ upsample ◄─ T x (lookup, motion encoders, updaters, residual)
"""

import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.backbone import Backbone
from linstereo.model.confidence import ConfidenceHead, Outcome
from linstereo.model.cost_volume import CostVolume, HierarchicalCostVolumes, VolumeKind
from linstereo.model.fast_paths import channels_last, conv_of_parts, tanh_of_map_
from linstereo.model.starts import Start, StartingPoint, StartInputs
from linstereo.model.strides import FINEST, pad_images
from linstereo.model.updater import MotionEncoder, MultiScaleUpdater, ResidualHead
from linstereo.model.upsample import ConvexUpsampler

if TYPE_CHECKING:
    from linstereo.geometry.sparse_matches import SparseMatches
    from linstereo.model.depth_prior import DepthPriorReport
    from linstereo.model.presets import LinStereoConfig


class Evidence(NamedTuple):
    """What refinement starts from and keeps looking at; nothing in it changes between iterations."""

    volumes: list[CostVolume]  # one per scale that has matching evidence, finest first
    tables: list[Tensor]  # positions of every scale for RoPE
    hidden: list[Tensor]  # initial hidden states, [B, hidden, H/s, W/s]
    disparity: Tensor  # initial disparity, [B, 1, H/4, W/4], in px of the 1/4 map, float32 or better
    cues: Tensor  # how far to trust it, [B, cues, H/4, W/4]
    prior: "list[DepthPriorReport]"  # what DPI did for each pair; empty without DPI
    guide: Tensor | None  # detail of the left image for the upsampling, [B, C, H/4, W/4]; None without it
    size: tuple[int, int]  # height and width of the images before padding


class Refined(NamedTuple):
    """The state after an iteration."""

    disparity: Tensor  # [B, 1, H/4, W/4], in px of the 1/4 map, float32 or better
    hidden: list[Tensor]  # [B, hidden, H/s, W/s], finest first


class LinStereo(nn.Module):
    """Iterative stereo matching with global, linear-cost updates.

    Build it with `linstereo.model.presets.build` or `LinStereo.from_pretrained`.

    Args:
        config: the settings it was built from, kept for its checkpoints and for whoever runs it; not read here.
        backbone: multi-scale features and monocular depth; frozen unless it is the compact one.
        cost_volumes: HSCV, or a single volume.
        start: where refinement starts: from monocular depth (DPI), from the correlations, or from zero.
        hidden_projection: one module per update scale that maps left features to the initial hidden state.
        motion_encoders: one per cost volume.
        updater: the recurrent units of all update scales.
        residual_head: finest hidden state to disparity residual.
        upsampler: 1/4 to full resolution.
        confidence_head: how far the result can be trusted; None for a network that has not learned it.
    """

    def __init__(
        self,
        *,
        config: "LinStereoConfig",
        backbone: Backbone,
        cost_volumes: HierarchicalCostVolumes,
        start: Start,
        hidden_projection: nn.ModuleList,
        motion_encoders: Sequence[MotionEncoder],
        updater: MultiScaleUpdater,
        residual_head: ResidualHead,
        upsampler: ConvexUpsampler,
        confidence_head: ConfidenceHead | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.backbone = backbone
        self.cost_volumes = cost_volumes
        self.start = start
        self.hidden_projection = hidden_projection
        self.motion_encoders = nn.ModuleList(motion_encoders)
        self.updater = updater
        self.residual_head = residual_head
        self.upsampler = upsampler
        self.confidence_head = confidence_head

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | os.PathLike[str],
        *,
        backbone_weights: str | os.PathLike[str] | None = None,
        backbone: Backbone | None = None,
    ) -> "LinStereo":
        """Load a trained model, in eval mode on the CPU.

        Args:
            name_or_path: a `.safetensors` checkpoint, a folder that holds `linstereo.safetensors`, the name of a hub
                repository that does, or `compact` for the trained model that is part of the package.
            backbone_weights: official DA3 `model.safetensors`, or its hub name; by default the one that the checkpoint
                was trained on, from the hub.
            backbone: the backbone itself, for a checkpoint that was trained on another one than DA3.
        """
        from linstereo.checkpoints.checkpoint import load_checkpoint

        return load_checkpoint(name_or_path, backbone_weights=backbone_weights, backbone=backbone)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write `linstereo.safetensors` into an existing folder and return its path."""
        from linstereo.checkpoints.checkpoint import save_checkpoint

        return save_checkpoint(self, Path(folder) / "linstereo.safetensors")

    def forward(
        self,
        left: Tensor,
        right: Tensor,
        iters: int = 8,
        *,
        all_iterations: bool = False,
        matches: "Sequence[SparseMatches] | None" = None,
        volume: VolumeKind = "stored",
    ) -> Tensor | list[Tensor]:
        """Disparity of a rectified pair.

        Args:
            left: [B, 3, H, W] float RGB in [0, 1], any size of at least 32 px a side; in any precision.
            right: the same shape.
            iters: refinement iterations T, at least 1.
            all_iterations: give the disparity after each iteration, not only after the last.
            matches: sparse matches for DPI made beforehand, e.g. in data-loading workers; made here if None.
            volume: how correlations are held, see `linstereo.model.cost_volume`.

        Returns:
            [B, 1, H, W] in pixels of the left image, positive where the match lies to the left in the right image; or
            a list of T of them. float32 even if the network computes in half precision.
        """
        if iters < 1:
            raise ValueError(f"iters is {iters}; it must be at least 1")
        evidence = self.prepare(left, right, matches=matches, volume=volume)
        outputs = []
        for t, state in enumerate(self.iterate(evidence, iters), start=1):
            if all_iterations or t == iters:
                outputs.append(self.upsample(state, evidence))
        return outputs if all_iterations else outputs[-1]

    def prepare(
        self,
        left: Tensor,
        right: Tensor,
        *,
        matches: "Sequence[SparseMatches] | None" = None,
        volume: VolumeKind = "stored",
        coarse: Tensor | None = None,
        backbone: Backbone | None = None,
    ) -> Evidence:
        """Everything before refinement (figure 1a): features, volumes, initial hidden states, initial disparity.

        `coarse` stands in for the coarse passes of a start that has any, see `Start.coarse_disparity`; `backbone` for
        the network's own, such as one that remembers features. All else is as in `forward`.
        """
        if left.shape != right.shape or left.dim() != 4 or left.shape[1] != 3:
            raise ValueError(f"left is {tuple(left.shape)} and right {tuple(right.shape)}; both must be [B, 3, H, W]")
        pair = torch.cat([left, right])  # [2 B, 3, H, W]
        if coarse is None:
            single_pass = functools.partial(self.single_pass, volume=volume, backbone=backbone)
            coarse = self.start.coarse_disparity(pair, single_pass)
        return self._evidence(pair, matches=matches, volume=volume, coarse=coarse, backbone=backbone)

    def single_pass(
        self,
        pair: Tensor,
        iterations: int,
        coarse: Tensor | None = None,
        *,
        volume: VolumeKind = "stored",
        backbone: Backbone | None = None,
    ) -> Tensor:
        """The disparity [B, 1, H, W] in px of images [2 B, 3, H, W], left ones first.

        No coarse pass comes before; `coarse` has what one gave.
        """
        evidence = self._evidence(pair, matches=None, volume=volume, coarse=coarse, backbone=backbone)
        for state in self.iterate(evidence, iterations):
            last = state
        return self.upsample(last, evidence)

    def _evidence(
        self,
        pair: Tensor,
        *,
        matches: "Sequence[SparseMatches] | None",
        volume: VolumeKind,
        coarse: Tensor | None,
        backbone: Backbone | None,
    ) -> Evidence:
        size, batch = _size(pair), len(pair) // 2
        pair = pad_images(pair)  # [2 B, 3, H', W']
        extract = self.backbone if backbone is None else backbone
        features = extract(pair, depth_images=batch if self.start.needs_depth else 0)
        volumes = self.cost_volumes(features.pyramid, kind=volume)  # one per scale
        start: StartingPoint = self.start(StartInputs(pair, size, features.depth, volumes, matches, coarse))
        hidden = self.initial_hidden([feature[:batch] for feature in features.pyramid], start.cues)
        precise = torch.promote_types(features.pyramid[0].dtype, torch.float32)  # of disparities
        return Evidence(
            volumes=volumes,
            tables=self.updater.positions(hidden),
            hidden=hidden,
            disparity=start.disparity.to(hidden[0].device, precise),
            cues=start.cues.to(hidden[0].device),
            prior=list(start.reports),
            guide=self.guide(pair[:batch]),
            size=size,
        )

    def initial_hidden(self, features: Sequence[Tensor], cues: Tensor) -> list[Tensor]:
        """The hidden states h_0 of all update scales, each [B, hidden, H/s, W/s], finest first.

        Args:
            features: of the left images, [B, C_s, H/s, W/s].
            cues: of the start, [B, cues, H/4, W/4].
        """
        hidden = []
        for project, feature in zip(self.hidden_projection, features, strict=False):
            parts = [feature]
            if self.start.cues:
                scaled = F.interpolate(cues, size=_size(feature), mode="bilinear", align_corners=False)
                parts.append(channels_last(scaled.to(feature)))
            assert isinstance(project, nn.Conv2d)
            projected = conv_of_parts(parts, project.weight, project.bias)
            hidden.append(tanh_of_map_(projected).contiguous(memory_format=torch.channels_last))
        return hidden

    def iterate(self, evidence: Evidence, iterations: int, *, stop_below: float = 0.0) -> Iterator[Refined]:
        """Refine, one state per iteration; the caller may stop before.

        Args:
            evidence: what `prepare` gave.
            iterations: how many at most.
            stop_below: px of the images, >= 0; no further iteration follows one that changes the disparity by less on
                average. 0 for all iterations.
        """
        disparity, hidden = evidence.disparity, evidence.hidden
        for _ in range(iterations):
            disparity = disparity.detach()
            hidden, residual = self.step(evidence, disparity, hidden)
            disparity = disparity + residual
            yield Refined(disparity, hidden)
            if stop_below > 0 and FINEST * float(residual.abs().mean()) < stop_below:
                return

    def step(self, evidence: Evidence, disparity: Tensor, hidden: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        """One refinement iteration: new hidden states and the residual [B, 1, H/4, W/4] in px of the 1/4 map."""
        motion = self.encode_motion(evidence.volumes, disparity, len(hidden))
        hidden = self.updater(hidden, motion, evidence.tables)
        return hidden, self.residual_head(hidden[0])

    def encode_motion(self, volumes: list[CostVolume], disparity: Tensor, scales: int) -> list[Tensor | None]:
        """Matching evidence around `disparity` ([B, 1, H/4, W/4], px of the 1/4 map) as features of every scale.

        The list has an entry per update scale, finest first; None where a scale has no volume of its own.
        """
        motion: list[Tensor | None] = [None] * scales
        for i, volume in enumerate(volumes):
            motion[i] = self.motion(i, volume, disparity)
        return motion

    def motion(self, i: int, volume: CostVolume, disparity: Tensor) -> Tensor:
        """Matching evidence of scale i around `disparity`, see `encode_motion`: [B, hidden, H/s, W/s]."""
        scaled = F.avg_pool2d(disparity, 2**i) / 2**i if i else disparity  # [B, 1, H/s, W/s], px of scale s
        encoded: Tensor = self.motion_encoders[i](scaled, volume.lookup(scaled))
        return encoded

    def upsample(self, state: Refined, evidence: Evidence) -> Tensor:
        """Full-resolution disparity [B, 1, H, W] of a state, in px of the left image, cut to the unpadded size."""
        full: Tensor = self.upsampler(state.disparity, state.hidden[0], evidence.guide)
        return full[..., : evidence.size[0], : evidence.size[1]]

    def confidence(
        self, state: Refined, evidence: Evidence, *, before: Tensor, full: Tensor, tolerance: float
    ) -> Tensor | None:
        """Probability [B, 1, H, W] that the disparity is off by less than `tolerance` px of the left image or 5 %.

        None for a network without a confidence head. Nothing else depends on it.

        Args:
            state: the last one.
            evidence: what refinement started from.
            before: disparity before the last iteration, [B, 1, H/4, W/4], px of the 1/4 map.
            full: the upsampled disparity of `state`, [B, 1, H, W], px.
            tolerance: px, > 0.
        """
        if self.confidence_head is None:
            return None
        height, width = (FINEST * side for side in _size(state.disparity))
        margin = (0, width - full.shape[-1], 0, height - full.shape[-2])  # of padding, which `upsample` has cut off
        outcome = Outcome(
            hidden=state.hidden[0],
            correlation=evidence.volumes[0].lookup(state.disparity),
            disparity=state.disparity,
            last_update=state.disparity - before,
            all_updates=state.disparity - evidence.disparity,
            full=F.pad(full, margin, mode="replicate") if any(margin) else full,
            cues=evidence.cues,
        )
        logits: Tensor = self.confidence_head(outcome, tolerance)
        return logits[..., : evidence.size[0], : evidence.size[1]].float().sigmoid()

    def guide(self, image: Tensor) -> Tensor | None:
        """Detail of the padded left image [B, 3, H', W'] for the upsampling; None for a network that uses none."""
        return None if self.upsampler.guide is None else self.upsampler.guide(image)

    def trained_parameters(self) -> dict[str, nn.Parameter]:
        """The parameters that training changes, by name: everything but a frozen backbone."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}


def _size(x: Tensor) -> tuple[int, int]:
    return x.shape[-2], x.shape[-1]
