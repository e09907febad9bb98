"""An exponential moving average of the weights: smoother than the last step's, and what is validated and kept."""

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor


class WeightAverage:
    """average = d average + (1 - d) weights after each step, d = min(decay, (1 + n) / (10 + n)) at the n-th update.

    The lower d of the first updates lets the average forget the weights it started from.

    Args:
        weights: the tensors to average, by name; they are looked at, never changed, except by `swapped`.
        decay: of the average, in [0, 1); 0 makes it follow the weights.
    """

    def __init__(self, weights: Mapping[str, Tensor], *, decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self._weights = {name: weight.detach() for name, weight in weights.items()}
        self.average = {name: weight.clone() for name, weight in self._weights.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Take in the present weights."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates)) if self.decay else 0.0
        self.updates += 1
        if self.average:
            torch._foreach_lerp_(list(self.average.values()), list(self._weights.values()), 1 - decay)

    @torch.no_grad()
    def load(self, average: Mapping[str, Tensor], *, updates: int) -> None:
        """Go on from a stored average."""
        for name, value in self.average.items():
            value.copy_(average[name])
        self.updates = updates

    @torch.no_grad()
    def apply(self) -> None:
        """Set the weights to their average, for good."""
        for name, weight in self._weights.items():
            weight.copy_(self.average[name])

    @contextlib.contextmanager
    def swapped(self) -> Iterator[None]:
        """The weights are their average as long as the context lasts."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, weight in self._weights.items():
            kept = weight.clone()
            weight.copy_(self.average[name])
            self.average[name].copy_(kept)
