"""Where refinement starts: the interface of the network's start, and the simplest one.

A start is a part that `linstereo.model.presets.build` hands to the network. `DepthPriorStart` is the paper's (DPI, in
`depth_prior.py`), `CorrelationStart` (in `correlation_start.py`) serves backbones without monocular depth, `ZeroStart`
is the baseline of the ablations. None of them has weights.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor, nn

from linstereo.model.cost_volume import CostVolume
from linstereo.model.strides import FINEST

if TYPE_CHECKING:
    from linstereo.geometry.sparse_matches import SparseMatches
    from linstereo.model.depth_prior import DepthPriorReport


CoarsePass = Callable[[Tensor, int, Tensor | None], Tensor]
"""Runs the network once: images [2 B, 3, h, w], left ones first, the number of iterations, and what a still coarser
pass gave or None, to disparity [B, 1, h, w] in px."""


class StartInputs(NamedTuple):
    """What a start may look at."""

    images: Tensor  # [2 B, 3, H, W], left images first, padded at the right and bottom
    size: tuple[int, int]  # height and width of the images before padding
    depth: Tensor | None  # monocular depth of the left images, [B, 1, h, w]; None unless the start needs it
    volumes: Sequence[CostVolume]  # finest first
    matches: "Sequence[SparseMatches] | None"  # of every pair; None if nobody made them
    coarse: Tensor | None  # what `Start.coarse_disparity`, or somebody in its place, gave


class StartingPoint(NamedTuple):
    """Where refinement starts, and how much it may trust that."""

    disparity: Tensor  # [B, 1, h, w] in px of that map, >= 0
    cues: Tensor  # [B, `Start.cues`, h, w], shown to the hidden states beside the features
    reports: "Sequence[DepthPriorReport]" = ()  # what DPI did for each pair; empty for other starts


class Start(nn.Module, ABC):
    """Gives the initial disparity.

    Args:
        cues: channels that tell the hidden states how far to trust it.
        needs_depth: whether it is made from monocular depth.
    """

    def __init__(self, *, cues: int = 0, needs_depth: bool = False) -> None:
        super().__init__()
        self.cues = cues
        self.needs_depth = needs_depth

    def coarse_disparity(self, pair: Tensor, predict: CoarsePass) -> Tensor | None:
        """The result of passes over smaller images, for starts that want them.

        Args:
            pair: [2 B, 3, H, W], left images first.
            predict: runs the network on smaller images.

        Returns:
            [B, 1, H/4, W/4] of the padded images, in px of the 1/4 map; None from a start that wants none.
        """
        return None

    def trusting_cues(self, feature: Tensor) -> Tensor:
        """The cues of a start that came from elsewhere and is right: [B, cues, h, w], as `feature` [B, *, h, w]."""
        return feature.new_ones(len(feature), self.cues, *feature.shape[2:])

    @abstractmethod
    def forward(self, inputs: StartInputs) -> StartingPoint:
        """The starting point at 1/4 of the padded images."""


class ZeroStart(Start):
    """Zero disparity everywhere."""

    def forward(self, inputs: StartInputs) -> StartingPoint:
        """See `Start.forward`."""
        left, _ = inputs.images.chunk(2)
        zero = left.new_zeros(len(left), 1, left.shape[-2] // FINEST, left.shape[-1] // FINEST)
        return StartingPoint(zero, zero[:, :0])
