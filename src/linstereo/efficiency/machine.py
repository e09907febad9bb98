"""The machine that measures: what it is, and how much of it others used meanwhile."""

import contextlib
import dataclasses
import os
import platform
import re
from pathlib import Path

import cv2
import torch


def describe_machine(device: torch.device, root: Path = Path("/")) -> dict[str, str | int]:
    """Processor or GPU, threads and versions, without anything that names the machine itself.

    Args:
        device: that the network runs on.
        root: where /proc is looked for.
    """
    described: dict[str, str | int] = {"processor": _processor(root), "cpus": os.cpu_count() or 1}
    if device.type == "cuda":
        described["gpu"] = torch.cuda.get_device_name(device)
    return described | {
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "opencv": cv2.__version__,
    }


def _processor(root: Path) -> str:
    with contextlib.suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.+)$", (root / "proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine() or "unknown"


@dataclasses.dataclass(frozen=True)
class Load:
    """How busy the machine was while something was measured; None where the system does not tell.

    Attributes:
        load_average: runnable processes over the last minute, at the end.
        others_percent: share of all processor time that went to other processes, 0 to 100.
    """

    load_average: float | None
    others_percent: float | None


QUIET_PERCENT = 5.0
"""Share of the processor time that others may take before the report warns of its times."""


class LoadMeter:
    """Watches the machine from its construction on.

    Args:
        root: where /proc is looked for.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._before = self._read()

    def load(self) -> Load:
        """What happened since."""
        average = None
        with contextlib.suppress(OSError, AttributeError):  # AttributeError: Windows has none
            average = os.getloadavg()[0]
        before, now = self._before, self._read()
        if before is None or now is None or now[0] <= before[0]:
            return Load(average, None)
        total, busy, own = (b - a for a, b in zip(before, now, strict=True))
        return Load(average, 100 * min(max(busy - own, 0.0) / total, 1.0))

    def _read(self) -> tuple[float, float, float] | None:
        """Seconds of all processors since the start of the system, the busy ones of them, and those of this process."""
        try:
            first = (self._root / "proc/stat").read_text("ascii").splitlines()[0].split()
            ticks = [int(word) for word in first[1:9]]  # user, nice, system, idle, iowait, irq, softirq, steal
            second = os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError, AttributeError):
            return None
        if first[0] != "cpu" or len(ticks) < 5:
            return None
        idle = ticks[3] + ticks[4]
        return sum(ticks) / second, (sum(ticks) - idle) / second, sum(os.times()[:4])
