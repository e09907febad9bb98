"""Clocks: laps of a run, and rounds in which everything that is compared takes its turn."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping

import torch

Laps = dict[str, float]
"""Seconds by name."""


def synchronise(device: torch.device) -> None:
    """Wait until everything that was given to the device is done; the CPU is always done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Stopwatch:
    """Adds up the seconds between one lap and the next, by name.

    Args:
        device: that does the work; it is waited for before the clock is read.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.laps: Laps = defaultdict(float)
        synchronise(device)
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """End a lap of that name; the next one begins."""
        synchronise(self._device)
        now = time.perf_counter()
        self.laps[name] += now - self._last
        self._last = now


def timed(device: torch.device, action: Callable[[], object]) -> Callable[[], Laps]:
    """An action that tells how long it took, as the only lap, with no name."""

    def run() -> Laps:
        watch = Stopwatch(device)
        action()
        watch.lap("")
        return watch.laps

    return run


def take_turns(
    actions: Mapping[str, Callable[[], Laps]], *, rounds: int, warm_up: int, on_round: Callable[[], None]
) -> dict[str, list[Laps]]:
    """Run all actions one after the other, again and again, so that a busy spell of the machine hits all of them.

    Args:
        actions: by name; each returns its laps.
        rounds: how many of them are kept.
        warm_up: rounds before that which are not.
        on_round: called after each round.
    """
    kept: dict[str, list[Laps]] = {name: [] for name in actions}
    for number in range(warm_up + rounds):
        for name, action in actions.items():
            laps = action()
            if number >= warm_up:
                kept[name].append(laps)
        on_round()
    return kept
