"""Images that are too large to be refined in one piece: a coarse pass, then one iteration at full size, by strips.

The coarse pass sees the images at a reduced size and finds every match. Its disparity starts the refinement at full
size. Features are made of whole images, one after the other, since their normalisation looks at all of an image; maps
at 1/8 and 1/16 are small, and are refined whole. At 1/4 every step runs on horizontal strips, one after the other, and
each strip is computed with as many rows around it as the step's convolutions reach, which are cut off again. Attention,
which reaches everywhere, needs only a summary of all strips, and that is made first. So nothing is blended, and the
result is that of one strip up to rounding.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from linstereo.cpu_memory import give_back_freed_memory
from linstereo.model.cost_volume import CostVolume
from linstereo.model.linstereo import Evidence, LinStereo, Refined
from linstereo.model.pala import PALABlock, Summary
from linstereo.model.starts import StartingPoint
from linstereo.model.strides import FINEST, padded
from linstereo.model.updater import PALAUnit

_MOTION_REACH = 6
"""Rows that the motion encoder sees above and below, 3 + 1 + 1; even, so that rows at 1/8 are whole."""
_GATE_REACH = 1
_RESIDUAL_REACH = 3
_UPSAMPLING_REACH = 2
"""That of the convolution over the hidden state and, before it, of the one over the image."""
_CONFIDENCE_REACH = 4


@dataclasses.dataclass(frozen=True)
class Strips:
    """How a large pair is run.

    Attributes:
        coarse_height: of the images in the coarse pass, px.
        coarse_width: of them.
        rows: height of a strip, px; a multiple of 32, or at least the height of the images.
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
    on_iteration: Callable[[int], None] | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Disparity of one large pair.

    Args:
        model: the network; its updaters must be PALA, and it must not start from monocular depth.
        left: uint8 [H, W, 3] RGB, on any device.
        right: the same.
        strips: sizes.
        iterations: T of the coarse pass; at full size there is one, because the coarse pass has left little to do, and
            each costs as much as all of those.
        on_iteration: called with 1, 2, ... T as the work proceeds.

    Returns:
        The disparity [H, W] in px of the left image, float32 or better, and the probability [H, W] that it is off by
        less than 1 px or 5 %; None for a network without a confidence head.
    """
    pair = _LargePair.of(model, left, right, rows=strips.rows)  # takes most, so it comes before all else
    coarse = _coarse_pass(model, left, right, strips, iterations, on_iteration)
    start = _start(coarse, (left.shape[0], left.shape[1]))
    del coarse
    give_back_freed_memory()
    result = pair.outcome(start, pair.refined(start.disparity))
    if on_iteration is not None:
        on_iteration(iterations)
    return result


def _coarse_pass(
    model: LinStereo,
    left: Tensor,
    right: Tensor,
    strips: Strips,
    iterations: int,
    on_iteration: Callable[[int], None] | None,
) -> StartingPoint:
    """The disparity [1, 1, h, w] of the reduced images, in their px, and the cues [1, cues, h/4, w/4] of its own start.

    The last iteration is not told.
    """
    device = next(model.parameters()).device
    size = (strips.coarse_height, strips.coarse_width)
    evidence = model.prepare(*(_reduced(_to_network(image, device), size) for image in (left, right)), volume="stored")
    for t, state in enumerate(model.iterate(evidence, iterations), start=1):
        last = state
        if on_iteration is not None and t < iterations:
            on_iteration(t)
    return StartingPoint(model.upsample(last, evidence), evidence.cues)


def _start(coarse: StartingPoint, size: tuple[int, int]) -> StartingPoint:
    """The outcome of the coarse pass at 1/4 of padded images of a size (height, width), in px of that map."""
    found = coarse.disparity
    cells = [padded(side) // FINEST for side in size]
    # Where the cells lie in the images, from -1 to 1.
    y, x = (
        FINEST * (torch.arange(count, device=found.device, dtype=found.dtype) + 0.5) / side * 2 - 1
        for count, side in zip(cells, size, strict=True)
    )
    centres = torch.stack([x.expand(cells[0], -1), y[:, None].expand(-1, cells[1])], dim=-1).unsqueeze(0)
    start, cues = (
        F.grid_sample(values.to(centres), centres, mode="bilinear", padding_mode="border", align_corners=False)
        for values in (found, coarse.cues)
    )
    return StartingPoint(start * (size[1] / found.shape[-1] / FINEST), cues)


class Part(NamedTuple):
    """Rows of a map that are computed at a time."""

    kept: slice  # rows of the map that are wanted
    seen: slice  # those and the rows around that they depend on
    inner: slice  # the wanted ones, counted from the first that is seen


def parts(height: int, rows: int, *, reach: int) -> Iterator[Part]:
    """Divide a map of some height into parts of so many rows, each of which sees `reach` rows above and below."""
    for begin in range(0, height, rows):
        end = min(begin + rows, height)
        first = max(begin - reach, 0)
        yield Part(slice(begin, end), slice(first, min(end + reach, height)), slice(begin - first, end - first))


@dataclasses.dataclass
class _LargePair:
    """What the network makes of two whole images, and one iteration on it. Maps are finest first."""

    model: LinStereo
    image: Tensor  # the left one, uint8 [H, W, 3]
    sides: list[list[Tensor]]  # features of the left and the right image for the cost volumes, [1, c_f, H/s, W/s]
    hidden: list[Tensor]  # [1, hidden, H/s, W/s]
    rows: int  # of a strip, in cells of the 1/4 map

    @classmethod
    def of(cls, model: LinStereo, left: Tensor, right: Tensor, *, rows: int) -> "_LargePair":
        """Everything that does not depend on the start; `rows` in px."""
        features = _features(model, left)
        hidden = model.initial_hidden(features, model.start.trusting_cues(features[0]))
        sides = [model.cost_volumes.projected(features)]
        del features  # before the other image needs as much
        give_back_freed_memory()
        sides.append(model.cost_volumes.projected(_features(model, right)))
        return cls(model, left, sides, hidden, rows // FINEST)

    def refined(self, start: Tensor) -> Refined:
        """The state after an iteration from a disparity [1, 1, H/4, W/4] in px of that map; that before is given up."""
        hidden = self._coarse_updates(start)
        hidden[0] = self._finest_update(hidden, start)
        self.hidden = hidden
        disparity = torch.empty_like(start)
        for part in self._parts(_RESIDUAL_REACH):
            residual = self.model.residual_head(hidden[0][:, :, part.seen])
            disparity[:, :, part.kept] = start[:, :, part.kept] + residual[:, :, part.inner]
        return Refined(disparity, hidden)

    def outcome(self, start: StartingPoint, state: Refined) -> tuple[Tensor, Tensor | None]:
        """The disparity at full size, and how far it can be trusted; both [H, W], as from `predict_in_strips`."""
        height, width = self.image.shape[:2]
        full = start.disparity.new_empty(height, width)
        for part in self._parts(_UPSAMPLING_REACH):
            guide = self.model.guide(_image_rows(self.image, part.seen, full.device))
            evidence = self._evidence(part.seen, start, volumes=[], guide=guide)
            fine = self.model.upsample(_state_rows(state, part.seen), evidence)
            _keep(full, fine, part)
        if self.model.confidence_head is None:
            return full, None
        confidence = torch.empty_like(full)
        for part in self._parts(_CONFIDENCE_REACH):
            evidence = self._evidence(part.seen, start, volumes=[self._volume(0, part.seen)], guide=None)
            sure = self.model.confidence(
                _state_rows(state, part.seen),
                evidence,
                before=evidence.disparity,
                full=_full_rows(full, part.seen)[None, None],
                tolerance=1.0,
            )
            assert sure is not None
            _keep(confidence, sure, part)
        return full, confidence

    def _coarse_updates(self, start: Tensor) -> list[Tensor]:
        """Hidden states of which all but the finest are new."""
        updater, hidden = self.model.updater, list(self.hidden)
        for i in reversed(range(1, len(hidden))):
            motion = self.model.motion(i, self._volume(i), start) if i < len(self.sides[0]) else None
            hidden[i] = updater.units[i](hidden[i], updater.inputs(i, hidden, motion), updater.table(hidden[i]))
        return hidden

    def _finest_update(self, hidden: list[Tensor], start: Tensor) -> Tensor:
        """The new hidden state at 1/4."""
        unit = self.model.updater.units[0]
        assert isinstance(unit, PALAUnit)
        old = hidden[0]
        x = torch.empty_like(old).permute(0, 2, 3, 1)  # [1, H/4, W/4, C]
        for part in self._parts(_MOTION_REACH):
            motion = self.model.motion(0, self._volume(0, part.seen), start[:, :, part.seen])
            inputs = self.model.updater.inputs(0, [_rows_of(h, part.seen, old) for h in hidden[:2]], motion)
            x[:, part.kept] = unit.project_all(old[:, :, part.seen], inputs)[:, part.inner]
        summaries = self._summaries(unit, x)
        new = torch.empty_like(old)
        for part in self._parts(PALABlock.reach * len(unit.blocks) + _GATE_REACH):
            updated = unit.update(old[:, :, part.seen], x[:, part.seen], self._table(part.seen), summaries)
            new[:, :, part.kept] = updated[:, :, part.inner]
        return new

    def _summaries(self, unit: PALAUnit, x: Tensor) -> list[Summary]:
        """What each block of the unit keeps of the whole image, from the projection [1, H/4, W/4, C]."""
        summaries: list[Summary] = []
        for block in unit.blocks:
            assert isinstance(block, PALABlock)
            total = None
            for part in self._parts(PALABlock.reach * len(summaries) + PALABlock.summary_reach):
                seen = x[:, part.seen]
                for earlier, known in zip(unit.blocks, summaries, strict=False):
                    seen = earlier(seen, self._table(part.seen), known)
                own = block.summarise(seen, self._table(part.kept), part.inner)
                total = own if total is None else total.joined(own)
            assert total is not None
            summaries.append(total)
        return summaries

    def _parts(self, reach: int) -> Iterator[Part]:
        return parts(self.hidden[0].shape[2], self.rows, reach=reach)

    def _table(self, rows: slice) -> Tensor:
        """Positions of rows of the 1/4 map, in the whole map."""
        return self.model.updater.table(self.hidden[0][:, :, rows], first_row=rows.start)

    def _volume(self, i: int, rows: slice = slice(None)) -> CostVolume:
        """Correlations of some rows of scale i."""
        left, right = (side[i][:, :, rows] for side in self.sides)
        return self.model.cost_volumes.volume(left, right, kind="on_the_fly")

    def _evidence(
        self, rows: slice, start: StartingPoint, *, volumes: list[CostVolume], guide: Tensor | None
    ) -> Evidence:
        """What upsampling and confidence look at, for rows of the 1/4 map."""
        return Evidence(
            volumes=volumes,
            tables=[],
            hidden=[],
            disparity=start.disparity[:, :, rows],
            cues=start.cues[:, :, rows],
            prior=[],
            guide=guide,
            size=(FINEST * (rows.stop - rows.start), self.image.shape[1]),
        )


def _features(model: LinStereo, image: Tensor) -> list[Tensor]:
    """Those of the backbone, [1, C, H/s, W/s], finest first."""
    device = next(model.parameters()).device
    whole = slice(0, padded(len(image)) // FINEST)
    return list(model.backbone(_image_rows(image, whole, device)).pyramid)


def _state_rows(state: Refined, rows: slice) -> Refined:
    """What upsampling and confidence need of a state, for rows of the 1/4 map."""
    return Refined(state.disparity[:, :, rows], [state.hidden[0][:, :, rows]])


def _rows_of(coarse: Tensor, rows: slice, finest: Tensor) -> Tensor:
    """The rows of a map [B, C, h, w] of any scale that belong to `rows` of the finest one."""
    ratio = finest.shape[2] // coarse.shape[2]
    return coarse[:, :, rows.start // ratio : rows.stop // ratio]


def _full_rows(image: Tensor, rows: slice) -> Tensor:
    """The rows of [H, W, ...] that belong to `rows` of the 1/4 map; below the image its last row is repeated."""
    index = torch.arange(FINEST * rows.start, FINEST * rows.stop, device=image.device)
    return image[index.clamp(max=len(image) - 1)]


def _image_rows(image: Tensor, rows: slice, device: torch.device) -> Tensor:
    """The same of an image, padded as the network wants it: uint8 [H, W, 3] -> float [1, 3, h, W'] in [0, 1]."""
    part = _full_rows(image, rows)
    margin = padded(image.shape[1]) - image.shape[1]
    return _to_network(torch.cat([part, part[:, -1:].expand(-1, margin, -1)], dim=1) if margin else part, device)


def _keep(full: Tensor, fine: Tensor, part: Part) -> None:
    """Write what is wanted of [1, 1, rows, W], which was computed for `part` of the 1/4 map, into [H, W]."""
    begin, end = FINEST * part.kept.start, min(FINEST * part.kept.stop, len(full))
    first = FINEST * part.inner.start
    full[begin:end] = fine[0, 0, first : first + end - begin]


def _to_network(image: Tensor, device: torch.device) -> Tensor:
    """uint8 [h, w, 3] -> float [1, 3, h, w] in [0, 1], in channels-last memory."""
    return image.to(device).unsqueeze(0).float().div_(255).permute(0, 3, 1, 2)


def _reduced(image: Tensor, size: tuple[int, int]) -> Tensor:
    return F.interpolate(image, size=size, mode="bilinear", align_corners=False, antialias=True)
