"""Batches of augmented training pairs, made by worker processes.

Everything random comes from the seed and the number of the draw, so a batch is the same whichever process makes it,
and training resumes after an interruption by starting the loader at another step.
"""

import dataclasses
import signal
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from linstereo.data.augmentation import AugmentationSettings, augment
from linstereo.data.sample import StereoSample
from linstereo.errors import InputError
from linstereo.geometry.sparse_matches import SparseMatches, match_sparse
from linstereo.training.feature_cache import image_key
from linstereo.training.sources import Draw, DrawOrder, Source

_MAX_SKIPS = 1000  # unreadable pairs in a row before giving up even if they may be skipped


@dataclasses.dataclass
class Batch:
    """Training pairs of one size.

    left, right: [B, 3, H, W] RGB; uint8 as it comes from the workers, float in [0, 1] after `to`.
    disparity: float32 [B, 1, H, W], px; any value where not valid.
    valid: bool [B, 1, H, W].
    occluded: bool [B, 1, H, W], True where the right camera does not see the point; all False if nobody knows.
    names: of the pairs, for messages.
    keys: what the images of each pair are, for caching their features; empty if nobody asked for them.
    matches: sparse matches of each pair for the depth prior, or None.
    skipped: messages about unreadable pairs that were replaced.
    """

    left: Tensor
    right: Tensor
    disparity: Tensor
    valid: Tensor
    occluded: Tensor
    names: tuple[str, ...]
    keys: tuple[str, ...]
    matches: list[SparseMatches] | None
    skipped: tuple[str, ...]

    def pin_memory(self) -> "Batch":
        """The batch in memory that a GPU can copy from without waiting; called by the loader."""
        pinned: dict[str, Any] = {n: v.pin_memory() for n, v in vars(self).items() if isinstance(v, Tensor)}
        return dataclasses.replace(self, **pinned)

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device, with images in [0, 1]."""
        moved = {n: v.to(device, non_blocking=True) for n, v in vars(self).items() if isinstance(v, Tensor)}
        images: dict[str, Any] = {name: moved[name].float().div_(255) for name in ("left", "right")}
        return dataclasses.replace(self, **moved | images)


class BadSample(NamedTuple):
    """Stands for a pair that cannot be read; exceptions lose their form on the way out of a worker process."""

    message: str


class Pair(NamedTuple):
    """One augmented pair, see `Batch`."""

    sample: StereoSample
    key: str | None
    matches: SparseMatches | None
    skipped: tuple[str, ...]


@dataclasses.dataclass
class TrainingPairs(Dataset[Pair | BadSample]):
    """The augmented pair of every draw.

    Args:
        sources: where pairs come from.
        seed: of order and augmentation.
        settings: how to augment.
        max_disparity: larger ground truth is not valid; 0 for no limit.
        with_matches: make sparse matches for the depth prior.
        with_keys: make keys for the feature cache.
        variants: 0 to augment every draw anew; else each pair has only this many variants, which take turns.
        skip_bad: replace unreadable pairs by the next readable one of their source instead of stopping.
    """

    sources: Sequence[Source]
    _: dataclasses.KW_ONLY
    seed: int
    settings: AugmentationSettings
    max_disparity: float = 0.0
    with_matches: bool = False
    with_keys: bool = False
    variants: int = 0
    skip_bad: bool = False

    def __post_init__(self) -> None:
        self.order = DrawOrder(self.sources, seed=self.seed)

    def __getitem__(self, number: int) -> Pair | BadSample:
        """The pair of draw `number`."""
        draw = self.order[number]
        source = self.sources[draw.source]
        skipped: list[str] = []
        for attempt in range(min(len(source.dataset), _MAX_SKIPS)):
            tried = dataclasses.replace(draw, index=(draw.index + attempt) % len(source.dataset))
            try:
                return self._make(tried, number, tuple(skipped))
            except InputError as error:
                if not self.skip_bad:
                    name = source.dataset.sample_name(tried.index)
                    return BadSample(
                        f"{str(error).rstrip('.')} (pair {name!r} of {source.text}; "
                        "repair or remove it, or leave such pairs out with --skip-bad)"
                    )
                skipped.append(str(error))
        return BadSample(f"none of {len(skipped)} pairs of {source.text} in a row can be read: {skipped[-1]}")

    def _make(self, draw: Draw, number: int, skipped: tuple[str, ...]) -> Pair:
        source = self.sources[draw.source]
        if self.variants:
            rng = np.random.default_rng((self.seed, 3, draw.source, draw.index, draw.epoch % self.variants))
        else:
            rng = np.random.default_rng((self.seed, 4, number))
        whole = source.dataset[draw.index]
        self._check_truth(whole)
        sample = augment(whole, rng=rng, settings=self.settings)
        matches = match_sparse(sample.left, sample.right) if self.with_matches else None
        key = image_key(sample.left, sample.right) if self.with_keys else None
        return Pair(sample, key, matches, skipped)

    def _check_truth(self, sample: StereoSample) -> None:
        """Refuse a pair that nothing can be learnt from; its loss, 0, would pass for a success."""
        if sample.valid is None or sample.disparity is None:
            return  # `augment` refuses it
        if not sample.valid.any():
            raise InputError(f"{sample.name} has no pixel with ground truth, so it cannot be used for training")
        if self.max_disparity and not (sample.valid & (sample.disparity <= self.max_disparity)).any():
            raise InputError(
                f"{sample.name} has no pixel with ground truth up to {self.max_disparity:g} px; raise max_disparity"
            )

    def collate(self, pairs: Sequence[Pair | BadSample]) -> Batch | BadSample:
        """Put pairs together; one bad pair makes the whole batch bad."""
        for pair in pairs:
            if isinstance(pair, BadSample):
                return pair
        good = [pair for pair in pairs if isinstance(pair, Pair)]
        samples = [pair.sample for pair in good]
        disparity = _stack([_known(sample.disparity) for sample in samples]).unsqueeze(1)  # [B, 1, H, W]
        valid = _stack([_known(sample.valid) for sample in samples]).unsqueeze(1)
        if self.max_disparity:
            valid &= disparity <= self.max_disparity
        unknown = np.zeros(samples[0].left.shape[:2], np.bool_)
        occluded = [unknown if sample.occluded is None else sample.occluded for sample in samples]
        matches = [pair.matches for pair in good if pair.matches is not None]
        return Batch(
            left=_stack([sample.left.transpose(2, 0, 1) for sample in samples]),  # [B, 3, H, W]
            right=_stack([sample.right.transpose(2, 0, 1) for sample in samples]),
            disparity=disparity,
            valid=valid,
            occluded=_stack(occluded).unsqueeze(1),
            names=tuple(sample.name for sample in samples),
            keys=tuple(pair.key for pair in good if pair.key is not None),
            matches=matches if self.with_matches else None,
            skipped=tuple(message for pair in good for message in pair.skipped),
        )


@dataclasses.dataclass(frozen=True)
class Shares:
    """Which draws of a step belong to which part of which process.

    Args:
        batch: draws in a step.
        parts: into how many parts a process splits its share.
        rank: this process.
        processes: how many there are.
    """

    batch: int
    parts: int = 1
    rank: int = 0
    processes: int = 1

    def __post_init__(self) -> None:
        if self.batch % (self.parts * self.processes):
            raise InputError(
                f"a batch of {self.batch} cannot be shared by {self.processes} processes in {self.parts} parts each; "
                "use a multiple of both"
            )

    def draws(self, first: int) -> list[list[int]]:
        """The draws of each part of this process in the step that begins with draw `first`."""
        size = self.batch // (self.parts * self.processes)
        starts = [first + (part * self.processes + self.rank) * size for part in range(self.parts)]
        return [list(range(start, start + size)) for start in starts]


def training_batches(
    pairs: TrainingPairs,
    shares: Shares,
    *,
    first_draw: int,
    steps: range,
    workers: int,
    pin_memory: bool = False,
) -> Iterator[list[Batch]]:
    """The parts of this process's share of every step in `steps`.

    Args:
        pairs: what to draw from.
        shares: who gets what.
        first_draw: number of the first draw of step 0.
        steps: the steps to make, such as those that are left.
        workers: processes that load and augment; 0 does it in this one.
        pin_memory: keep batches where a GPU can copy from without waiting.
    """
    options: dict[str, Any] = {"prefetch_factor": 3, "worker_init_fn": _prepare_worker} if workers else {}
    loader: DataLoader[Any] = DataLoader(
        pairs,
        batch_sampler=_Draws(shares, first_draw=first_draw, steps=steps),
        collate_fn=pairs.collate,
        num_workers=workers,
        pin_memory=pin_memory,
        **options,
    )
    parts: list[Batch] = []
    for part in loader:
        if isinstance(part, BadSample):
            raise InputError(part.message)
        parts.append(part)
        if len(parts) == shares.parts:
            yield parts
            parts = []


class _Draws:
    """The draws of every part in turn, as a loader asks for them."""

    def __init__(self, shares: Shares, *, first_draw: int, steps: range) -> None:
        self.shares, self.first_draw, self.steps = shares, first_draw, steps

    def __len__(self) -> int:
        return len(self.steps) * self.shares.parts

    def __iter__(self) -> Iterator[list[int]]:
        for step in self.steps:
            yield from self.shares.draws(self.first_draw + step * self.shares.batch)


def _stack(arrays: Sequence[NDArray[Any]]) -> Tensor:
    return torch.from_numpy(np.stack(arrays))


def _known(array: NDArray[Any] | None) -> NDArray[Any]:
    assert array is not None  # `augment` refuses pairs without ground truth
    return array


def _prepare_worker(_worker: int) -> None:
    """Leave signals, which often go to all processes of a session, to the training process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
