"""Time and memory of one refinement iteration: PALA against the ConvGRU baseline, stored against on-the-fly volume.

    python benchmarks/iteration.py            # prints the tables of benchmarks/iteration.md
    python benchmarks/iteration.py --rounds 3 # quicker, noisier

An iteration is lookup, motion encoders, updaters of three scales and residual head, without upsampling. The networks
have random weights and get random features of the right size, so the backbone plays no part. The variants take turns
within one run and the medians are compared, because a single time says little on a busy machine.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

import torch
from torch import Tensor

from linstereo.cpu_memory import keep_freed_memory
from linstereo.model.backbone import BackboneFeatures
from linstereo.model.cost_volume import VolumeKind
from linstereo.model.linstereo import Evidence, LinStereo
from linstereo.model.presets import build, preset

VARIANTS = {
    "PALA": "components-hscv-pala",
    "ConvGRU, same evidence (motion features at all three scales)": "components-hscv",
    "ConvGRU, as in RAFT-Stereo (motion features at 1/4 only)": "components-none",
}


class RandomFeatures(torch.nn.Module):
    """Noise in place of DA3 ViT-B features."""

    channels = (96, 192, 384)
    has_depth = False

    def forward(self, images: Tensor, *, depth_images: int = 0) -> BackboneFeatures:
        count, _, height, width = images.shape
        f4, f8, f16 = (
            torch.randn(count, c, height // s, width // s) for c, s in zip(self.channels, (4, 8, 16), strict=True)
        )
        return BackboneFeatures((f4, f8, f16), None)


def prepared(name: str, height: int, width: int, volume: VolumeKind = "stored") -> tuple[LinStereo, Evidence]:
    torch.manual_seed(0)
    model = build(preset(name), backbone=RandomFeatures()).eval()
    image = torch.empty(1, 3, height, width)
    evidence = model.prepare(image, image, volume=volume)
    return model, evidence._replace(disparity=width / 40 * torch.rand(evidence.disparity.shape))


def seconds(model: LinStereo, evidence: Evidence) -> float:
    start = time.perf_counter()
    model.step(evidence, evidence.disparity, evidence.hidden)
    return time.perf_counter() - start


def medians(runs: list[tuple[LinStereo, Evidence]], rounds: int) -> list[float]:
    times: list[list[float]] = [[] for _ in runs]
    for round_ in range(rounds + 2):
        for kept, (model, evidence) in zip(times, runs, strict=True):
            elapsed = seconds(model, evidence)
            if round_ >= 2:
                kept.append(elapsed)
    return [statistics.median(kept) for kept in times]


def time_table(rounds: int) -> None:
    print("\n| update operator, 480 x 640 px | ms per iteration | PALA's time relative to it |")
    print("|---|---|---|")
    results = medians([prepared(name, 480, 640) for name in VARIANTS.values()], rounds)
    for title, median in zip(VARIANTS, results, strict=True):
        print(f"| {title} | {1e3 * median:.0f} | {results[0] / median:.2f} |")
    name = VARIANTS["PALA"]
    small, large = medians([prepared(name, 480, 640), prepared(name, 960, 1280)], rounds)
    print(f"\nFrom 480 x 640 to 960 x 1280 px, 4 times the pixels, PALA's time grows {large / small:.2f} times.")


def memory_table() -> None:
    print("| volume, 1080 x 1920 px | kept for lookups, MB | peak of volumes and one iteration, MB |")
    print("|---|---|---|")
    for kind in ("stored", "on_the_fly"):
        command = [sys.executable, __file__, "--measure-memory", kind]
        kept, peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        print(f"| {kind.replace('_', ' ')} | {kept} | {peak} |")


def measure_memory(kind: VolumeKind) -> None:
    """Print the size of the volumes, and how far building and using them raises the memory of a fresh process."""
    height, width = 1088, 1920
    model, warm = prepared(VARIANTS["PALA"], 64, 64, kind)
    model.step(warm, warm.disparity, warm.hidden)
    features = RandomFeatures()(torch.empty(2, 3, height, width))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    volumes = model.cost_volumes(features.pyramid, kind=kind)
    disparity = width / 40 * torch.rand(1, 1, height // 4, width // 4)
    model.encode_motion(volumes, disparity, 3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tensors = [t for v in volumes for x in vars(v).values() for t in (x if isinstance(x, list) else [x])]
    kept = sum(t.nbytes for t in tensors if isinstance(t, Tensor))
    print(round(kept / 1e6), round((peak - before) * 1024 / 1e6))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--measure-memory", choices=["stored", "on_the_fly"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    with torch.inference_mode():
        if options.measure_memory:
            measure_memory(options.measure_memory)
            return
        print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, float32, median of {options.rounds}\n")
        memory_table()  # first: on Linux a child's peak starts at what its parent holds
        keep_freed_memory()  # as the predictor does on the CPU
        time_table(options.rounds)


if __name__ == "__main__":
    main()
