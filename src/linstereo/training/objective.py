"""What is minimised: the objectives by name, with the network inside, as one module."""

import contextlib
import random
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.cost_volume import CostVolume
from linstereo.model.linstereo import FINEST, Evidence, LinStereo, Refined
from linstereo.model.precision import without_autocast_cache
from linstereo.training.batches import Batch
from linstereo.training.edges import step_weights
from linstereo.training.feature_cache import FeatureCache
from linstereo.training.loss import GRADIENT_SCALES, l1_term, sequence_counts, sequence_loss
from linstereo.training.matching_loss import STRIDES, matching_counts, matching_loss
from linstereo.training.recipe import Stage
from linstereo.training.starts import disturbed_truth

TERMS = 1 + 2 * GRADIENT_SCALES
"""How many counts the sequence loss has; after them the number of known pixels follows."""


def counts_of(batch: Batch, stage: Stage) -> Tensor:
    """How many places each mean of the stage's loss is over, to be added up over the parts of a batch."""
    counts = []
    if stage.objective == "sequence":
        counts += [sequence_counts(batch.valid, _pixel_weights(batch, stage)), batch.valid.sum().float().unsqueeze(0)]
    if stage.objective == "matching" or stage.matching_weight:
        visible = batch.valid & ~batch.occluded
        counts.append(matching_counts(batch.disparity, visible, edge_weight=stage.edge_weight))
    return torch.cat(counts)


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

    def forward(self, batch: Batch, counts: Tensor) -> dict[str, Tensor]:
        """Scalars by name; `total` is the loss.

        Args:
            batch: with float images.
            counts: what the means divide by: the counts of the whole batch if this is a part of it.
        """
        with contextlib.nullcontext() if self.cache is None else self.cache.serving(batch.keys):
            return self._terms(batch, counts)

    def _terms(self, batch: Batch, counts: Tensor) -> dict[str, Tensor]:
        stage = self.stage
        if stage.objective == "matching":
            features = self.model.backbone(torch.cat([batch.left, batch.right]))
            return self._matching(self.model.cost_volumes(features.pyramid), batch, counts)
        chance = random.Random(torch.initial_seed())  # the same for all parts and processes of a step
        coarse = None
        if self.model.config.coarse_iterations and chance.random() < stage.true_starts:
            coarse = disturbed_truth(batch.disparity, batch.valid, seed=chance.getrandbits(32))
        evidence = self.model.prepare(batch.left, batch.right, matches=batch.matches, coarse=coarse)
        states = self.model.iterate(evidence)
        with torch.no_grad(), without_autocast_cache(batch.left.device.type):
            for _ in range(chance.randint(0, stage.warm_iterations)):
                next(states)
        predictions = [
            self._full_size(next(states), evidence, last=t == stage.iterations) for t in range(1, stage.iterations + 1)
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
            match = self._matching(evidence.volumes, batch, counts[-len(STRIDES) :])
            result |= match | {"total": terms.total + stage.matching_weight * match["total"]}
        with torch.no_grad():
            known = batch.valid.float()
            result["epe"] = l1_term(
                predictions[-1], torch.where(batch.valid, batch.disparity, 0.0), known, counts=counts[TERMS:]
            )
        return result

    def _full_size(self, state: Refined, evidence: Evidence, *, last: bool) -> Tensor:
        """The disparity of a state, [B, 1, H, W] in px."""
        if last or self.stage.upsample_all:
            return self.model.upsample(state, evidence).float()
        height, width = evidence.size
        full = F.interpolate(FINEST * state.disparity.float(), scale_factor=FINEST, mode="bilinear")
        return full[..., :height, :width]

    def _matching(self, volumes: Sequence[CostVolume], batch: Batch, counts: Tensor) -> dict[str, Tensor]:
        visible = batch.valid & ~batch.occluded
        return matching_loss(volumes, batch.disparity, visible, edge_weight=self.stage.edge_weight, counts=counts)


def _pixel_weights(batch: Batch, stage: Stage) -> Tensor:
    """What each pixel counts in the sequence loss, [B, 1, H, W]."""
    return step_weights(batch.disparity, batch.valid, edge_weight=stage.edge_weight, occluded=batch.occluded)
