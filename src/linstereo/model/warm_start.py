"""Refinement from a disparity that is known already, such as that of the frame before, where it still holds."""

from typing import NamedTuple

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


class WarmStart(NamedTuple):
    """A disparity that is known already."""

    disparity: Tensor  # [B, 1, H, W] in px, of the images before padding
    known: Tensor  # [B, 1, H, W] True where it is


def warmed(evidence: Evidence, warm: WarmStart) -> Evidence:
    """The same evidence, with the known disparity as the start of every cell in which it still holds.

    It holds where the images correlate there as well as at the network's own start, within `MARGIN`; elsewhere, and
    where nothing is known, the network's own start stays.
    """
    own = evidence.disparity  # [B, 1, h, w]
    disparity = F.avg_pool2d(_padded(at_least_float32(warm.disparity)), FINEST) / FINEST
    known = F.avg_pool2d(_padded(warm.known.to(disparity)), FINEST) >= MIN_KNOWN
    volume = evidence.volumes[0]
    before, found = _correlation(volume, disparity), _correlation(volume, own)
    holds = known & (before >= found - MARGIN * found.std())
    return evidence._replace(disparity=disparity.to(own).where(holds, own))


def _padded(values: Tensor) -> Tensor:
    """[B, 1, H, W] as large as the padded images."""
    height, width = values.shape[-2:]
    return F.pad(values, (0, padded(width) - width, 0, padded(height) - height), mode="replicate")


def _correlation(volume: CostVolume, disparity: Tensor) -> Tensor:
    """The finest correlation at a disparity [B, 1, h, w], mean over a window: [B, 1, h, w]."""
    middle = volume.lookup(disparity)[:, volume.radius : volume.radius + 1]
    side = CHECKED_WINDOW
    return F.avg_pool2d(at_least_float32(middle), side, stride=1, padding=side // 2, count_include_pad=False)
