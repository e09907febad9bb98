"""LinStereo, top to bottom as in the paper's figure 1.

left, right ─► backbone ─► features 1/4, 1/8, 1/16 ─► cost volumes (HSCV) ─┐
                  └──────► monocular depth ─► depth prior (DPI) ───────────┤
                                                                           ▼
                         disparity ◄─ upsample ◄─ T x (lookup, motion encoders, updaters, residual)
"""

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.backbone import Backbone
from linstereo.model.correlation_start import start_from_volumes, to_scale, with_coarse_pass
from linstereo.model.cost_volume import (
    CostVolume,
    HierarchicalCostVolumes,
    PooledCostVolume,
    VolumeKind,
)
from linstereo.model.depth_prior import DepthPriorReport, SparseMatches, initial_disparity, match_sparse
from linstereo.model.pala import position_tables
from linstereo.model.precision import at_least_float32, without_autocast_cache
from linstereo.model.updater import MotionEncoder, MultiScaleUpdater, ResidualHead
from linstereo.model.upsample import ConvexUpsampler

if TYPE_CHECKING:
    from linstereo.model.presets import LinStereoConfig

FINEST = 4  # stride of the finest scale, where the disparity is refined
PAD_TO = 32  # image sides are padded to this multiple


class Evidence(NamedTuple):
    """What refinement starts from and keeps looking at; nothing in it changes between iterations."""

    volumes: list[CostVolume]  # one per scale that has matching evidence, finest first
    tables: list[Tensor]  # positions of every scale for RoPE
    hidden: list[Tensor]  # initial hidden states, [B, hidden, H/s, W/s]
    disparity: Tensor  # initial disparity, [B, 1, H/4, W/4], in px of the 1/4 map, float32 or better
    prior: list[DepthPriorReport]  # what DPI did for each pair; empty without DPI
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
        config: the settings it was built from; stored with its checkpoints.
        backbone: multi-scale features and monocular depth; frozen unless it is the compact one.
        cost_volumes: HSCV, or a single volume.
        hidden_projection: one module per update scale that maps left features to the initial hidden state.
        motion_encoders: one per cost volume.
        updater: the recurrent units of all update scales.
        residual_head: finest hidden state to disparity residual.
        upsampler: 1/4 to full resolution.
    """

    def __init__(
        self,
        *,
        config: "LinStereoConfig",
        backbone: Backbone,
        cost_volumes: HierarchicalCostVolumes | PooledCostVolume,
        hidden_projection: nn.ModuleList,
        motion_encoders: Sequence[MotionEncoder],
        updater: MultiScaleUpdater,
        residual_head: ResidualHead,
        upsampler: ConvexUpsampler,
    ) -> None:
        super().__init__()
        self.config = config
        self.backbone = backbone
        self.cost_volumes = cost_volumes
        self.hidden_projection = hidden_projection
        self.motion_encoders = nn.ModuleList(motion_encoders)
        self.updater = updater
        self.residual_head = residual_head
        self.upsampler = upsampler

    @property
    def use_depth_prior(self) -> bool:
        """Whether refinement starts from monocular depth (DPI), which needs sparse matches."""
        return self.config.start == "depth_prior"

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

    @overload
    def forward(
        self,
        left: Tensor,
        right: Tensor,
        iters: int = ...,
        *,
        all_iterations: Literal[False] = ...,
        matches: Sequence[SparseMatches] | None = ...,
        volume: VolumeKind = ...,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        left: Tensor,
        right: Tensor,
        iters: int = ...,
        *,
        all_iterations: Literal[True],
        matches: Sequence[SparseMatches] | None = ...,
        volume: VolumeKind = ...,
    ) -> list[Tensor]: ...

    def forward(
        self,
        left: Tensor,
        right: Tensor,
        iters: int = 8,
        *,
        all_iterations: bool = False,
        matches: Sequence[SparseMatches] | None = None,
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
        for t, state in zip(range(1, iters + 1), self.iterate(evidence), strict=False):
            if all_iterations or t == iters:
                outputs.append(self.upsample(state, evidence))
        return outputs if all_iterations else outputs[-1]

    def prepare(
        self,
        left: Tensor,
        right: Tensor,
        *,
        matches: Sequence[SparseMatches] | None = None,
        volume: VolumeKind = "stored",
        coarse: Tensor | None = None,
    ) -> Evidence:
        """Everything before refinement (figure 1a): features, volumes, initial hidden states, initial disparity.

        `coarse` stands in for the result of the coarse pass of a network that has one, see `coarse_disparity`.
        """
        if left.shape != right.shape or left.dim() != 4 or left.shape[1] != 3:
            raise ValueError(f"left is {tuple(left.shape)} and right {tuple(right.shape)}; both must be [B, 3, H, W]")
        pair = _pad(torch.cat([left, right]))  # [2 B, 3, H', W']
        if coarse is None and self.config.coarse_iterations:
            coarse = self.coarse_disparity(pair, volume=volume)
        return self._evidence(pair, _size(left), matches=matches, volume=volume, coarse=coarse)

    @torch.no_grad()
    def coarse_disparity(self, pair: Tensor, *, volume: VolumeKind = "stored") -> Tensor:
        """The first of two passes: the disparity of the images at half the size.

        A surface without texture is half as wide there, and more of it is within reach of what its borders tell. No
        gradient passes through it.

        Args:
            pair: [2 B, 3, H, W], left images first; sides in multiples of 32.
            volume: see `forward`.

        Returns:
            [B, 1, H/4, W/4] in px of the 1/4 map.
        """
        half = F.avg_pool2d(pair, 2)
        with without_autocast_cache(pair.device.type):
            evidence = self._evidence(_pad(half), _size(half), matches=None, volume=volume, coarse=None)
            state = next(itertools.islice(self.iterate(evidence), self.config.coarse_iterations - 1, None))
            return F.avg_pool2d(self.upsample(state, evidence), 2) / 2

    def _evidence(
        self,
        pair: Tensor,
        size: tuple[int, int],
        *,
        matches: Sequence[SparseMatches] | None,
        volume: VolumeKind,
        coarse: Tensor | None,
    ) -> Evidence:
        batch = len(pair) // 2
        features = self.backbone(pair, depth_images=batch if self.use_depth_prior else 0)

        volumes = self.cost_volumes(features.pyramid, kind=volume)
        context = [feature[:batch] for feature in features.pyramid[: self.config.scales]]  # [B, C_s, H'/s, W'/s]
        precise = torch.promote_types(context[0].dtype, torch.float32)  # of disparities and positions
        disparity = context[0].new_zeros(batch, 1, *_size(context[0]), dtype=precise)
        prior: list[DepthPriorReport] = []
        if features.depth is not None:
            if matches is None:
                images = pair[..., : size[0], : size[1]]
                matches = [match_sparse(_to_uint8(a), _to_uint8(b)) for a, b in zip(*images.chunk(2), strict=True)]
            depth, prior = initial_disparity(
                features.depth,
                matches,
                full_size=_size(pair),
                out_size=_size(disparity),
                min_inlier_share=self.config.prior_inlier_share,
            )
            disparity = depth.to(disparity) / FINEST
        elif self.config.start == "correlation":
            start = to_scale(start_from_volumes(volumes), _size(disparity))
            if self.config.coarse_iterations:
                start = with_coarse_pass(start, coarse)
            disparity = start.disparity.to(disparity)
            context = [torch.cat([c, to_scale(start, _size(c)).cues.to(c)], dim=1) for c in context]

        hidden = [
            torch.tanh(project(c)).contiguous(memory_format=torch.channels_last)
            for project, c in zip(self.hidden_projection, context, strict=True)
        ]  # each [B, hidden, H'/s, W'/s]
        tables = position_tables(
            [_size(h) for h in hidden],
            [h.shape[1] // self.config.heads for h in hidden],
            device=disparity.device,
            dtype=precise,
        )
        return Evidence(volumes, tables, hidden, disparity, prior, self.guide(pair[:batch]), size)

    def iterate(self, evidence: Evidence) -> Iterator[Refined]:
        """Refine without end, one state per iteration; the caller stops when it has enough."""
        disparity, hidden = evidence.disparity, evidence.hidden
        while True:
            disparity = disparity.detach()
            hidden, residual = self.step(evidence, disparity, hidden)
            disparity = disparity + residual
            yield Refined(disparity, hidden)

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
        for i, (cost_volume, encode) in enumerate(zip(volumes, self.motion_encoders, strict=True)):
            scaled = F.avg_pool2d(disparity, 2**i) / 2**i if i else disparity  # [B, 1, H/s, W/s], px of scale s
            motion[i] = encode(scaled, cost_volume.lookup(scaled))
        return motion

    def upsample(self, state: Refined, evidence: Evidence) -> Tensor:
        """Full-resolution disparity [B, 1, H, W] of a state, in px of the left image, cut to the unpadded size."""
        full: Tensor = self.upsampler(state.disparity, state.hidden[0], evidence.guide)
        return full[..., : evidence.size[0], : evidence.size[1]]

    def guide(self, image: Tensor) -> Tensor | None:
        """Detail of the padded left image [B, 3, H', W'] for the upsampling; None for a network that uses none."""
        return None if self.upsampler.guide is None else self.upsampler.guide(image)

    def trained_parameters(self) -> dict[str, nn.Parameter]:
        """The parameters that training changes, by name: everything but a frozen backbone."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}


def _size(x: Tensor) -> tuple[int, int]:
    return x.shape[-2], x.shape[-1]


def _pad(images: Tensor) -> Tensor:
    """Repeat the right and bottom edge up to the next multiple of 32; pixel coordinates stay as they are."""
    height, width = images.shape[-2:]
    padding = (0, -width % PAD_TO, 0, -height % PAD_TO)
    return F.pad(images, padding, mode="replicate") if any(padding) else images


def _to_uint8(image: Tensor) -> Any:
    """[3, H, W] in [0, 1] -> uint8 array [H, W, 3] for SIFT."""
    values = (at_least_float32(image.detach()).clamp(0, 1) * 255).round().to(torch.uint8)
    return values.permute(1, 2, 0).contiguous().cpu().numpy()
