"""What the confidence head learns from: how refinement ended on pairs with ground truth, kept on disk.

The rest of the network is frozen, so each pair is predicted once. A few crops of what the head sees are stored with the
true disparity, all at the size at which the network ran.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from linstereo.checkpoints.checkpoint_file import read_safetensors
from linstereo.data.sample import StereoSample
from linstereo.files import atomic_path, make_parent
from linstereo.geometry.depth_edges import sharpened
from linstereo.model.confidence import ConfidenceHead, Outcome
from linstereo.model.strides import FINEST
from linstereo.predictor import StereoPredictor

CROP = (64, 96)
"""Cells of the 1/4 map, rows and columns, of each crop."""
CROPS = 3
"""Crops that are kept of each pair."""


@dataclasses.dataclass(frozen=True)
class CapturedState:
    """A crop of how refinement ended; h x w cells, maps of 4 h x 4 w px."""

    features: Tensor
    """[inputs, h, w], what the head sees, float16."""
    disparity: Tensor
    """[4 h, 4 w] px of the images as they were run, float32."""
    truth: Tensor
    """[4 h, 4 w] the same of the true disparity, 0 where it is unknown."""
    scale: Tensor
    """[] px of the images as they were run for each px of the given ones: the tolerance of 1 px."""


class Batch(NamedTuple):
    """Several states; the fields of `CapturedState` with a leading dimension, cut to the smallest of them."""

    features: Tensor
    disparity: Tensor
    truth: Tensor
    scale: Tensor


class _Recorder(nn.Module):
    """Takes the place of the head in a prediction and keeps what the head would see."""

    def __init__(self, head: ConfidenceHead) -> None:
        super().__init__()
        self.head = head
        self.features: Tensor | None = None
        self.full: Tensor | None = None

    def forward(self, outcome: Outcome, tolerance: float) -> Tensor:
        """Keep the outcome; answer one half everywhere."""
        self.features, self.full = self.head.features(outcome), outcome.full
        return torch.zeros_like(outcome.full)


@contextmanager
def recording(predictor: StereoPredictor, head: ConfidenceHead) -> Iterator[_Recorder]:
    """Put a recorder into the predictor's network as long as the context lasts."""
    model = predictor.model
    before, recorder = model.confidence_head, _Recorder(head)
    model.confidence_head = recorder  # type: ignore[assignment]
    try:
        yield recorder
    finally:
        model.confidence_head = before


def capture(
    predictor: StereoPredictor, head: ConfidenceHead, sample: StereoSample, *, rng: np.random.Generator
) -> list[CapturedState]:
    """Predict a pair as a user would, half of the time at another scale, and keep random crops of how it ended."""
    assert sample.disparity is not None
    assert sample.valid is not None
    width = sample.left.shape[1]
    scale = float(2 ** rng.uniform(0, 1)) if rng.random() < 0.5 else None
    plan = predictor.plan_of(sample.left, scale=scale)
    with recording(predictor, head) as recorder:
        predictor.predict(sample.left, sample.right, scale=scale)
    assert recorder.features is not None
    assert recorder.full is not None
    factor = plan.width / width
    size = (plan.width, plan.height)
    truth = np.where(sample.valid, sample.disparity, 0).astype(np.float32)
    enlarged = factor * cv2.resize(truth, size, interpolation=cv2.INTER_NEAREST)  # [H, W] as run
    found = recorder.full[0, 0].clamp(min=0).to("cpu", torch.float32).numpy()
    if predictor.config.sharp_steps:
        found = sharpened(found)
    states = []
    for _ in range(CROPS):
        cells = [_random_part(side // FINEST, most, rng) for most, side in zip(CROP, enlarged.shape, strict=True)]
        pixels = tuple(slice(FINEST * part.start, FINEST * part.stop) for part in cells)
        state = CapturedState(
            features=recorder.features[0][:, *cells].to("cpu", torch.float16).contiguous(),
            disparity=torch.from_numpy(np.ascontiguousarray(found[pixels])),
            truth=torch.from_numpy(np.ascontiguousarray(enlarged[pixels])),
            scale=torch.tensor(factor, dtype=torch.float32),
        )
        states.append(state)
    return states


def _random_part(length: int, most: int, rng: np.random.Generator) -> slice:
    """`most` places in a row out of `length`, or all if they are fewer."""
    kept = min(most, length)
    first = int(rng.integers(length - kept + 1))
    return slice(first, first + kept)


def save_captured(states: Sequence[CapturedState], path: Path) -> None:
    """Write the states of a pair, all of one size; the file appears whole or not at all."""
    names = [field.name for field in dataclasses.fields(CapturedState)]
    with atomic_path(make_parent(path)) as temporary:
        save_file({name: torch.stack([getattr(state, name) for state in states]) for name in names}, temporary)


def load_captured(path: Path) -> list[CapturedState]:
    """Read the states of a pair back."""
    fields = {name: tensor.unbind() for name, tensor in read_safetensors(path).items()}
    return [CapturedState(**dict(zip(fields, values, strict=True))) for values in zip(*fields.values(), strict=True)]


def stack(states: Sequence[CapturedState]) -> Batch:
    """States as a batch."""
    rows, columns = (min(state.features.shape[axis] for state in states) for axis in (1, 2))
    return Batch(
        features=torch.stack([state.features[:, :rows, :columns].float() for state in states]),
        disparity=torch.stack([state.disparity[: FINEST * rows, : FINEST * columns] for state in states]),
        truth=torch.stack([state.truth[: FINEST * rows, : FINEST * columns] for state in states]),
        scale=torch.stack([state.scale for state in states]),
    )
