"""What rendering a plan costs, from rates measured by benchmarks/seastereo.py."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from linstereo.errors import InputError
from linstereo.synthesis.seastereo.plan import FRAMES, Configuration

MEASURED: Mapping[str, tuple[float, int]] = MappingProxyType({"analytic": (41.0, 24), "volume": (178.0, 64)})
"""By mode: seconds for a shallow pair of 640 x 480 px on the two cores of the benchmark's machine, and its samples."""
DEEP_FACTOR = 1.8
"""How much longer a deep pair takes in analytic mode, where sunlight and lamps are rendered apart."""
BYTES_PER_PIXEL = 15.6
"""On disk, for a pair: two images, two disparity maps, two depth maps, masks."""
MAX_MACHINES = 1_000_000


def estimate(
    configurations: Sequence[Configuration],
    *,
    frames: int,
    height: int,
    width: int,
    mode: str,
    samples: int | None = None,
    rate: float | None = None,
    machines: int = 1,
) -> str:
    """Number of configurations and pairs, time and disk space, as a sentence.

    Args:
        configurations: which ones.
        frames: of each configuration.
        height: of the images, px.
        width: of the images, px.
        mode: of the water.
        samples: paths for each pixel; None for the usual number of the mode.
        rate: seconds for one pair on one machine; None for the measured rate.
        machines: that share the work.
    """
    if not 1 <= frames <= FRAMES:
        raise InputError(f"the number of frames is {frames}; it must be from 1 to {FRAMES}")
    if not 1 <= machines <= MAX_MACHINES:
        raise InputError(f"the number of machines is {machines}; it must be from 1 to {MAX_MACHINES:,}")
    if rate is not None and not (math.isfinite(rate) and 1e-3 <= rate <= 1e6):
        raise InputError(f"the rate is {rate:g} seconds for a pair; it must be from a thousandth to a million")
    if samples is not None and not 1 <= samples <= 65536:
        raise InputError(f"the number of samples is {samples}; it must be from 1 to 65536")
    pairs = len(configurations) * frames
    if rate is None:
        seconds, usual = MEASURED[mode]
        per_pair = seconds * (samples or usual) / usual * height * width / (480 * 640)
        deep = sum(configuration.deep for configuration in configurations) if mode == "analytic" else 0
        total = per_pair * frames * (len(configurations) + (DEEP_FACTOR - 1) * deep)
    else:
        total = rate * pairs
    share = "" if machines == 1 else f" on {machines} machines"
    return (
        f"{len(configurations):,} configurations, {pairs:,} pairs; about {_duration(total / machines)}{share} and "
        f"{_size(pairs * height * width * BYTES_PER_PIXEL)}"
    )


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds"


def _size(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e6:.1f} MB"
