"""What is minimised: the objectives by name, with the network inside, as one module."""

import random
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.cost_volume import CostVolume
from linstereo.model.linstereo import Evidence, LinStereo, Refined
from linstereo.model.precision import without_autocast_cache
from linstereo.model.strides import FINEST
from linstereo.training.batches import Batch
from linstereo.training.edges import step_weights
from linstereo.training.feature_cache import CachedBackbone, FeatureCache
from linstereo.training.loss import l1_term, sequence_counts, sequence_loss
from linstereo.training.matching_loss import matching_counts, matching_loss
from linstereo.training.recipe import Stage
from linstereo.training.starts import disturbed_truth


def counts_of(batch: Batch, stage: Stage) -> dict[str, Tensor]:
    """How many places each mean of the stage's loss is over, by name, to be added up over the parts of a batch."""
    counts: dict[str, Tensor] = {}
    if stage.objective == "sequence":
        counts |= sequence_counts(batch.valid, _pixel_weights(batch, stage)) | {"epe": batch.valid.sum().float()}
    if stage.objective == "matching" or stage.matching_weight:
        visible = batch.valid & ~batch.occluded
        counts |= matching_counts(batch.disparity, visible, edge_weight=stage.edge_weight)
    return counts


class Objective(nn.Module):
    """The loss of a batch, or of a part of one; a module, so that several processes can share the work.

    Args:
        model: the network.
        stage: which objective, and its numbers.
        cache: where the features of a frozen backbone are taken from; None to compute them.
    """

    def __init__(self, model: LinStereo, stage: Stage, *, cache: FeatureCache | None = None) -> None:
        super().__init__()
        self.model = model
        self.stage = stage
        self.cache = cache

    def forward(self, batch: Batch, counts: Mapping[str, Tensor], *, seed: int) -> dict[str, Tensor]:
        """Scalars by name; `total` is the loss.

        Args:
            batch: with float images.
            counts: what the means divide by: the counts of the whole batch if this is a part of it.
            seed: of all that is random; the same for all parts and processes of a step.
        """
        stage = self.stage
        backbone = self.model.backbone if self.cache is None else CachedBackbone(self.cache, batch.keys)
        if stage.objective == "matching":
            features = backbone(torch.cat([batch.left, batch.right]))
            return self._matching(self.model.cost_volumes(features.pyramid), batch, counts)
        chance = random.Random(seed)
        coarse = None
        if self.model.config.coarse_iterations and chance.random() < stage.true_starts:
            coarse = disturbed_truth(batch.disparity, batch.valid, seed=chance.getrandbits(32))
        evidence = self.model.prepare(batch.left, batch.right, matches=batch.matches, coarse=coarse, backbone=backbone)
        warm = chance.randint(0, stage.warm_iterations)
        states = self.model.iterate(evidence, warm + stage.iterations)
        with torch.no_grad(), without_autocast_cache(batch.left.device.type):
            for _ in range(warm):
                next(states)
        predictions = [
            self._full_size(state, evidence, last=t == stage.iterations) for t, state in enumerate(states, start=1)
        ]
        terms = sequence_loss(
            predictions,
            batch.disparity,
            batch.valid,
            batch.left,
            gamma=stage.gamma,
            smoothness_weight=stage.smoothness_weight,
            gradient_weight=stage.gradient_weight,
            robust=stage.robust,
            weights=_pixel_weights(batch, stage),
            counts=counts,
        )
        result = terms._asdict()
        if stage.matching_weight:
            match = self._matching(evidence.volumes, batch, counts)
            result |= match | {"total": terms.total + stage.matching_weight * match["total"]}
        with torch.no_grad():
            known = batch.valid.float()
            result["epe"] = l1_term(
                predictions[-1], torch.where(batch.valid, batch.disparity, 0.0), known, count=counts["epe"]
            )
        return result

    def _full_size(self, state: Refined, evidence: Evidence, *, last: bool) -> Tensor:
        """The disparity of a state, [B, 1, H, W] in px."""
        if last or self.stage.upsample_all:
            return self.model.upsample(state, evidence).float()
        height, width = evidence.size
        full = F.interpolate(FINEST * state.disparity.float(), scale_factor=FINEST, mode="bilinear")
        return full[..., :height, :width]

    def _matching(self, volumes: Sequence[CostVolume], batch: Batch, counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        visible = batch.valid & ~batch.occluded
        return matching_loss(volumes, batch.disparity, visible, edge_weight=self.stage.edge_weight, counts=counts)


def _pixel_weights(batch: Batch, stage: Stage) -> Tensor:
    """What each pixel counts in the sequence loss, [B, 1, H, W]."""
    return step_weights(batch.disparity, batch.valid, edge_weight=stage.edge_weight, occluded=batch.occluded)
