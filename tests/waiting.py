"""Waiting for other processes in a way that does not depend on how fast the machine is."""

import time
from collections.abc import Callable

PATIENCE = 1800.0
"""Seconds after which something that should end is taken to hang: far beyond what the busiest machine needs."""


def wait_until(condition: Callable[[], bool]) -> None:
    """Return as soon as `condition` holds; a process that it waits for should be part of it."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
