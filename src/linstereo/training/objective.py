"""What is minimised: the objectives by name, with the network inside, as one module."""

import contextlib

import torch
from torch import Tensor, nn

from linstereo.model.linstereo import LinStereo
from linstereo.training.batches import Batch
from linstereo.training.feature_cache import FeatureCache
from linstereo.training.loss import l1_term, sequence_counts, sequence_loss
from linstereo.training.matching_loss import matching_counts, matching_loss
from linstereo.training.recipe import Stage


def counts_of(batch: Batch, stage: Stage) -> Tensor:
    """How many places each mean of the stage's loss is over, to be added up over the parts of a batch."""
    if stage.objective == "matching":
        return matching_counts(batch.disparity, batch.valid & ~batch.occluded)
    return sequence_counts(batch.valid)


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
            visible = batch.valid & ~batch.occluded
            return matching_loss(self.model, batch.left, batch.right, batch.disparity, visible, counts=counts)
        predictions: list[Tensor] = self.model(
            batch.left, batch.right, stage.iterations, all_iterations=True, matches=batch.matches
        )
        terms = sequence_loss(
            [prediction.float() for prediction in predictions],
            batch.disparity,
            batch.valid,
            batch.left,
            gamma=stage.gamma,
            smoothness_weight=stage.smoothness_weight,
            gradient_weight=stage.gradient_weight,
            counts=counts,
        )
        with torch.no_grad():
            error = l1_term(predictions[-1].float(), batch.disparity, batch.valid, counts=counts)
        return {**terms._asdict(), "epe": error}
