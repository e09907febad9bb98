"""Images that are too large to be refined in one piece: a coarse pass, then the whole width strip by strip.

The coarse pass sees the images at a reduced size and finds every match. Its disparity starts the refinement at full
size. Features are made of whole images, one after the other, since their normalisation looks at all of an image. The
refinement runs on horizontal strips that reach from one side of the images to the other, so that all matches lie
inside; they overlap, and where they do their results are blended, so that no seam shows.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from linstereo.model.cost_volume import VolumeKind
from linstereo.model.linstereo import Evidence, LinStereo
from linstereo.model.strides import FINEST, PAD_TO, STRIDES, pad_images, padded

OVERLAP = 2 * PAD_TO
"""Rows that two neighbouring strips share, px."""
REFINEMENT = 1
"""Refinement iterations at full size: the coarse pass has left little to do, and each costs as much as all of those."""


@dataclasses.dataclass(frozen=True)
class Strips:
    """How a large pair is run.

    Attributes:
        coarse_height: of the images in the coarse pass, px.
        coarse_width: of them.
        rows: height of a strip, px, overlaps included; a multiple of 32, or at least the height of the images.
    """

    coarse_height: int
    coarse_width: int
    rows: int


def predict_in_strips(
    model: LinStereo,
    left: Tensor,
    right: Tensor,
    strips: Strips,
    *,
    iterations: int,
    volume: VolumeKind,
    on_iteration: Callable[[int], None] | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Disparity of one large pair.

    Args:
        model: the network, which must not start from monocular depth.
        left: uint8 [H, W, 3] RGB, on any device.
        right: the same.
        strips: sizes.
        iterations: T of the coarse pass; the strips take `REFINEMENT` of them, or fewer.
        volume: how correlations of the strips are held; those of the coarse pass are stored.
        on_iteration: called with 1, 2, ... T as the work proceeds.

    Returns:
        The disparity [H, W] in px of the left image, float32 or better, and the probability [H, W] that it is off by
        less than 1 px or 5 %; None for a network without a confidence head.
    """
    device = next(model.parameters()).device
    size = (strips.coarse_height, strips.coarse_width)
    evidence = model.prepare(*(_reduced(_to_network(image, device), size) for image in (left, right)), volume="stored")
    for t, state in enumerate(model.iterate(evidence, iterations), start=1):
        last = state
        if on_iteration is not None and t < iterations:
            on_iteration(t)
    coarse = model.upsample(last, evidence)  # [1, 1, h, w], px of the reduced images
    del evidence, last, state
    height, width = left.shape[:2]
    disparity = coarse.new_zeros(height, width)
    confidence = None if model.confidence_head is None else coarse.new_zeros(height, width)
    sides = [_Side.of(model, image, keep=image is left) for image in (left, right)]
    for begin, end in strip_bounds(height, strips.rows):
        evidence = _evidence(model, left, sides, coarse, (begin, end), volume)
        before = current = evidence.disparity
        for state in model.iterate(evidence, min(iterations, REFINEMENT)):
            last, before, current = state, current, state.disparity
        part = model.upsample(last, evidence)  # [1, 1, rows, W]
        share = blending_weights(height, begin, end).to(part)[:, None]
        disparity[begin:end] += share * part[0, 0]
        sure = model.confidence(last, evidence, before=before, full=part, tolerance=1.0)
        if confidence is not None and sure is not None:
            confidence[begin:end] += share * sure[0, 0]
        del evidence, state, last, part, before, current, sure  # before the next strip needs as much
    if on_iteration is not None:
        on_iteration(iterations)
    return disparity, confidence


def strip_bounds(height: int, rows: int) -> Iterator[tuple[int, int]]:
    """First row and the one behind the last of every strip; neighbours share `OVERLAP` rows."""
    begin = 0
    while begin + rows < height:
        yield begin, begin + rows
        begin += rows - OVERLAP
    yield begin, height


def blending_weights(height: int, begin: int, end: int) -> Tensor:
    """Share of a strip in each of its rows, [end - begin]; those of all strips add up to 1 in every row."""
    weights = torch.ones(end - begin)
    ramp = (torch.arange(OVERLAP) + 0.5) / OVERLAP
    if begin > 0:
        weights[:OVERLAP] = ramp
    if end < height:
        weights[-OVERLAP:] = ramp.flip(0)
    return weights


class _Side(NamedTuple):
    """What the network makes of one image of a pair."""

    features: list[Tensor]  # of the backbone, [1, C, H/s, W/s], finest first; of the left image only
    matched: list[Tensor]  # projected for the cost volumes

    @classmethod
    def of(cls, model: LinStereo, image: Tensor, *, keep: bool) -> "_Side":
        device = next(model.parameters()).device
        features = model.backbone(pad_images(_to_network(image, device))).pyramid
        matched = model.cost_volumes.projected(features)
        return cls(list(features[: model.config.scales]) if keep else [], matched)


def _evidence(
    model: LinStereo,
    left: Tensor,
    sides: list[_Side],
    coarse: Tensor,
    rows: tuple[int, int],
    volume: VolumeKind,
) -> Evidence:
    """What `LinStereo.prepare` would give for a strip, from the features of the whole images and the coarse pass."""
    begin, end = rows
    height, width = left.shape[:2]
    last = padded(end) if end == height else end
    scales = list(zip(STRIDES, *(side.matched for side in sides), strict=False))
    volumes = [
        model.cost_volumes.volume(*(side[..., begin // stride : last // stride, :] for side in pair), kind=volume)
        for stride, *pair in scales
    ]
    features = [f[..., begin // s : last // s, :] for s, f in zip(STRIDES, sides[0].features, strict=False)]
    cells = (features[0].shape[-2], features[0].shape[-1])
    centres = _cell_centres(begin, cells, (height, width), coarse)
    start = F.grid_sample(coarse, centres, mode="bilinear", padding_mode="border", align_corners=False)
    hidden = model.initial_hidden(features, start.new_ones(1, model.start.cues, *cells))
    return Evidence(
        volumes=volumes,
        tables=model.updater.positions(hidden),
        hidden=hidden,
        disparity=start * (width / coarse.shape[-1] / FINEST),  # px of the coarse pass -> px of the 1/4 map
        prior=[],
        guide=model.guide(pad_images(_to_network(left[begin:end], coarse.device))),
        size=(end - begin, width),
    )


def _cell_centres(begin: int, cells: tuple[int, int], size: tuple[int, int], like: Tensor) -> Tensor:
    """Where the cells of a strip at 1/4 lie in the images, for `grid_sample`: [1, h, w, 2], x before y, in [-1, 1]."""
    y = (begin + FINEST * (torch.arange(cells[0], device=like.device, dtype=like.dtype) + 0.5)) / size[0] * 2 - 1
    x = FINEST * (torch.arange(cells[1], device=like.device, dtype=like.dtype) + 0.5) / size[1] * 2 - 1
    return torch.stack([x.expand(cells[0], -1), y[:, None].expand(-1, cells[1])], dim=-1).unsqueeze(0)


def _to_network(image: Tensor, device: torch.device) -> Tensor:
    """uint8 [h, w, 3] -> float [1, 3, h, w] in [0, 1]."""
    return image.to(device).permute(2, 0, 1).unsqueeze(0).float().div_(255)


def _reduced(image: Tensor, size: tuple[int, int]) -> Tensor:
    return F.interpolate(image, size=size, mode="bilinear", align_corners=False, antialias=True)
