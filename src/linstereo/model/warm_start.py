"""Refinement from a disparity that is known already, such as that of the frame before, where it still holds."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from linstereo.model.cost_volume import CostVolume
from linstereo.model.linstereo import Evidence
from linstereo.model.precision import at_least_float32
from linstereo.model.strides import FINEST, padded

MIN_KNOWN = 0.75
"""Share of the pixels of a cell that must be known."""
CHECKED_WINDOW = 5
"""Side in cells of the window over which the correlations of two starts are compared."""
MARGIN = 1.0
"""Standard deviations of the correlations by which those of the known disparity may be lower than those of the
network's own start."""
MIN_FOLLOWED = 0.5
"""Share of the finest cells in a cell of a scale in which the start must hold for its hidden state to be remembered."""
REMEMBERED = 0.4
"""Share of the hidden states of the frame before in those that refinement starts with."""


class WarmStart(NamedTuple):
    """A disparity that is known already."""

    disparity: Tensor  # [B, 1, H, W] in px, of the images before padding
    known: Tensor  # [B, 1, H, W] True where it is
    places: Tensor | None = None  # [B, 2, H, W] column and row, px, of each pixel in the frame before
    hidden: Sequence[Tensor] | None = None  # at the end of the frame before, [B, hidden, H'/s, W'/s], finest first


def warmed(evidence: Evidence, warm: WarmStart) -> Evidence:
    """The same evidence, with the known disparity as the start of every cell in which it still holds.

    It holds where its match is inside of the right image and the images correlate there as well as at the network's own
    start, within `MARGIN`; elsewhere, and where nothing is known, the network's own start stays: what cannot be checked
    would drift from frame to frame. Where it holds and the hidden states of the frame before are
    given too, they have a share of `REMEMBERED` in the new ones, so that refinement goes on rather than begins anew.
    """
    own = evidence.disparity  # [B, 1, h, w]
    disparity = F.avg_pool2d(_padded(at_least_float32(warm.disparity)), FINEST) / FINEST
    known = F.avg_pool2d(_padded(warm.known.to(disparity)), FINEST) >= MIN_KNOWN
    volume = evidence.volumes[0]
    before, found = _correlation(volume, disparity), _correlation(volume, own)
    columns = torch.arange(own.shape[-1], device=disparity.device)
    holds = known & (columns >= disparity) & (before >= found - MARGIN * found.std())
    hidden = evidence.hidden
    if warm.hidden is not None and warm.places is not None and _sizes(warm.hidden) == _sizes(hidden):
        hidden = [
            _with_memory(new, old, warm.places, holds, stride=FINEST << i)
            for i, (new, old) in enumerate(zip(hidden, warm.hidden, strict=True))
        ]
    return evidence._replace(disparity=disparity.to(own).where(holds, own), hidden=hidden)


def _with_memory(new: Tensor, old: Tensor, places: Tensor, holds: Tensor, *, stride: int) -> Tensor:
    """Hidden states [B, hidden, h, w] of a scale, mixed with those of the frame before where the start holds."""
    height, width = new.shape[-2:]
    size = places.new_tensor([width, height]) * stride  # of the padded images, px
    cells = F.avg_pool2d(_padded(at_least_float32(places)), stride)  # [B, 2, h, w], px of the frame before
    grid = (2 * cells.movedim(1, -1) + 1) / size - 1  # -1 and 1 are the outer borders of the image
    moved = F.grid_sample(at_least_float32(old), grid.to(old.device), padding_mode="border", align_corners=False)
    followed = F.avg_pool2d(holds.to(moved), stride // FINEST) >= MIN_FOLLOWED
    mixed = torch.lerp(at_least_float32(new), moved, REMEMBERED)
    return mixed.where(followed, new).to(new).contiguous(memory_format=torch.channels_last)


def _sizes(maps: Sequence[Tensor]) -> list[torch.Size]:
    return [values.shape for values in maps]


def _padded(values: Tensor) -> Tensor:
    """[B, C, H, W] as large as the padded images."""
    height, width = values.shape[-2:]
    return F.pad(values, (0, padded(width) - width, 0, padded(height) - height), mode="replicate")


def _correlation(volume: CostVolume, disparity: Tensor) -> Tensor:
    """The finest correlation at a disparity [B, 1, h, w], mean over a window: [B, 1, h, w]."""
    middle = volume.lookup(disparity)[:, volume.radius : volume.radius + 1]
    side = CHECKED_WINDOW
    return F.avg_pool2d(at_least_float32(middle), side, stride=1, padding=side // 2, count_include_pad=False)
