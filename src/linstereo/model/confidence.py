"""How far a disparity can be trusted: a small head on what refinement ends with, trained while all else is frozen.

It sees, on the 1/4 map: the finest hidden state, the correlations around the final disparity, the last update and the
sum of all, how far the match lies inside the right image, how far the start could be trusted, and the upsampled
disparity inside each cell relative to the cell's own. It answers for every pixel of the full map: is the disparity off
by less than a tolerance, or by less than 5 %?
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linstereo.model.strides import FINEST

RELATIVE_TOLERANCE = 0.05
"""Share of the true disparity by which a disparity may be off and still be right."""
_OTHERS = 2 + 2 + FINEST**2  # channels besides hidden state, correlations and cues: updates, places, detail
INSIDE = 8.0
"""Cells from the right image's border beyond which a match counts as well inside."""


class Outcome(NamedTuple):
    """What refinement ends with, px of the 1/4 map unless said otherwise."""

    hidden: Tensor  # finest hidden state, [B, hidden, h, w]
    correlation: Tensor  # looked up around the disparity in the finest volume, [B, samples, h, w]
    disparity: Tensor  # [B, 1, h, w]
    last_update: Tensor  # of the last iteration, [B, 1, h, w]
    all_updates: Tensor  # of all iterations together, [B, 1, h, w]
    full: Tensor  # the disparity upsampled, [B, 1, 4 h, 4 w], px of the full map
    cues: Tensor  # of the start, from -1 to 1, [B, cues, h, w]


class ConfidenceHead(nn.Module):
    """Logits of the probability that a disparity is right.

    Before training it says nothing: one half everywhere.

    Args:
        hidden: channels of the finest hidden state.
        samples: correlations of a lookup.
        cues: of the start that it sees, see `linstereo.model.starts.Start`; 0 for none.
        width: channels of its own layers.
    """

    def __init__(self, *, hidden: int, samples: int, cues: int, width: int) -> None:
        super().__init__()
        self.cues = cues
        self.inputs = hidden + samples + cues + _OTHERS
        self.layers = nn.Sequential(
            nn.Conv2d(self.inputs + 1, width, 3, padding=1),
            nn.GELU(),
            nn.Conv2d(width, width, 3, padding=2, dilation=2),
            nn.GELU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.GELU(),
        )
        self.out = nn.Conv2d(width, FINEST**2, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)  # type: ignore[arg-type]

    def forward(self, outcome: Outcome, tolerance: float) -> Tensor:
        """Logits [B, 1, 4 h, 4 w]; `tolerance` in px of the full map, > 0."""
        features = self.features(outcome)
        return self.logits(features, features.new_full((len(features),), tolerance))

    def features(self, outcome: Outcome) -> Tensor:
        """All that the head sees, [B, inputs, h, w], of about the size of 1; no weight of the head has a part in it."""
        columns = torch.arange(outcome.disparity.shape[-1], device=outcome.disparity.device)
        inside = ((columns - outcome.disparity) / INSIDE).clamp(-1, 1)
        detail = F.pixel_unshuffle(outcome.full, FINEST) - FINEST * outcome.disparity  # [B, 16, h, w]
        parts = [
            outcome.hidden,
            outcome.correlation,
            _compressed(FINEST * outcome.last_update),
            _compressed(FINEST * outcome.all_updates),
            torch.log1p(FINEST * outcome.disparity.clamp(min=0)) / 4,
            inside,
            _compressed(detail),
            outcome.cues[:, : self.cues],
        ]
        return torch.cat([part.to(self.out.weight.dtype) for part in parts], dim=1)

    def logits(self, features: Tensor, tolerance: Tensor) -> Tensor:
        """Features [B, inputs, h, w] and tolerances [B], px of the full map -> logits [B, 1, 4 h, 4 w]."""
        told = tolerance.log2().view(-1, 1, 1, 1).expand(-1, 1, *features.shape[-2:]).to(features)
        cells = self.out(self.layers(torch.cat([features, told], dim=1)))  # [B, 16, h, w]
        return F.pixel_shuffle(cells, FINEST)


def is_right(disparity: Tensor, truth: Tensor, tolerance: Tensor | float) -> Tensor:
    """Whether disparities are off by less than `tolerance` or 5 % of the true ones; all px of one map, any shape."""
    allowed = torch.maximum(RELATIVE_TOLERANCE * truth, torch.as_tensor(tolerance).to(truth))
    return (disparity - truth).abs() < allowed


def _compressed(x: Tensor) -> Tensor:
    """Signed logarithm: small values as they are, large ones not much larger than 1."""
    return x.sign() * torch.log1p(x.abs()) / math.log(8)
