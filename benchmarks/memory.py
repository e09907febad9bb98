"""Peak memory of a prediction on the CPU, and what `linstereo.model.memory` says about it beforehand.

    python benchmarks/memory.py                    # prints the table of benchmarks/memory.md
    python benchmarks/memory.py compact 480 640    # one model and size

Every run has a process of its own. Its peak is how far the resident memory rises above what it is once the model is
loaded and has seen a small pair; the libraries and the weights are not part of it.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np

from linstereo.loading import load
from linstereo.model.cost_volume import VolumeKind
from linstereo.model.memory import peak_bytes

RUNS = (
    ("compact", 480, 640),
    ("compact", 960, 1280),
    ("compact", 1080, 1920),
    ("compact", 1440, 2560),
    ("compact", 2160, 3840),
    ("compact", 64, 4096),
    ("small", 1080, 1920),
    ("paper", 480, 640),
    ("paper", 960, 1280),
    ("hidden-64", 480, 640),
    ("hidden-256", 960, 1280),
)
KINDS = ("stored", "on_the_fly")


def resident(field: str) -> int:
    """VmRSS (now) or VmHWM (peak) of this process in bytes."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def measure(model: str, height: int, width: int, kind: VolumeKind) -> None:
    """Print measured and estimated bytes of one run."""
    predictor = load(model, device="cpu")
    coarse = np.random.default_rng(0).integers(0, 256, (height // 4, width // 4, 3), dtype=np.uint8)
    left = cv2.resize(coarse, (width, height))
    right = np.roll(left, -8, axis=1)
    predictor.predict(left[:64, :64], right[:64, :64], iters=1, scale=1)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = resident("VmRSS")
    predictor.predict(left, right, iters=2, scale=1, volume=kind)
    print(resident("VmHWM") - before, peak_bytes(predictor.model.config, height, width, kind))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("height", nargs="?", type=int)
    parser.add_argument("width", nargs="?", type=int)
    parser.add_argument("kind", nargs="?", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.kind:
        measure(options.model, options.height, options.width, options.kind)
        return
    print("| model | size, px (height x width) | volume | measured, MB | estimated, MB |\n|---|---|---|---|---|")
    for run in [(options.model, options.height, options.width)] if options.model else RUNS:
        for kind in KINDS:
            command = [sys.executable, __file__, *map(str, run), kind]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            measured, estimated = (int(number) / 1e6 for number in done.stdout.split())
            name, height, width = run
            print(f"| {name} | {height} x {width} | {kind} | {measured:,.0f} | {estimated:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
