"""Sequences: error and flicker of frames that start from the one before, against single pairs.

    python benchmarks/sequences.py --write

renders sequences of 100 frames along a smooth path (`linstereo.synthesis.sequences`; some only with --kind), predicts
each frame by frame as single pairs with T and with T / 2 iterations, and as a sequence with T / 2; then cuts from it
into another scene. Writes benchmarks/sequences.md.

EPE is the mean error over all pixels, bad1 the share that is off by more than a pixel, TEPE the flicker: the mean
change of a pixel's error from one frame to the next (`linstereo.evaluation.metrics`).
"""

import argparse
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

import linstereo
from linstereo.data.sample import StereoSample
from linstereo.evaluation.metrics import temporal_error
from linstereo.predictor import StereoPredictor
from linstereo.synthesis.sequences import StereoSequence

SEQUENCES = {"workshop": (1, True), "tabletop": (3, False)}
"""Kind of scene, with the seed and whether the cameras are noisy."""
CUT_KIND, CUT_SEED = "road", 4
SCALE = 1.0  # the bundled model would enlarge the frames

Floats = NDArray[np.float32]


class Scores:
    """Means over the frames of a sequence."""

    def __init__(self) -> None:
        self.errors: list[float] = []
        self.bad: list[float] = []
        self.flicker: list[float] = []
        self._last: tuple[Floats, Floats] | None = None

    def add(self, prediction: Floats, truth: Floats) -> None:
        error = np.abs(prediction - truth)
        self.errors.append(float(error.mean()))
        self.bad.append(100 * float((error > 1).mean()))
        if self._last is not None:
            self.flicker.append(temporal_error((self._last[0], prediction), (self._last[1], truth)))
        self._last = prediction, truth


def rendered(sequence: StereoSequence, frames: int) -> Iterator[StereoSample]:
    for index in tqdm(range(frames), file=sys.stderr, disable=None):
        yield sequence.frame(index)


def singles(predictor: StereoPredictor, samples: Iterator[StereoSample], iters: int) -> Iterator[Floats]:
    for sample in samples:
        yield predictor.predict(sample.left, sample.right, iters=iters, scale=SCALE).disparity


def tracked(predictor: StereoPredictor, samples: Iterator[StereoSample]) -> Iterator[Floats]:
    pairs = ((sample.left, sample.right) for sample in samples)
    for frame in predictor.track(pairs, scale=SCALE):
        yield frame.prediction.disparity


def measure(predictor: StereoPredictor, sequence: StereoSequence, frames: int) -> dict[str, Scores]:
    """All methods in lockstep, so that every frame is rendered once."""
    cold = predictor.iterations(None)
    samples, *copies = itertools.tee(rendered(sequence, frames), 4)
    methods = {
        f"single pairs, T = {cold}": singles(predictor, copies[0], cold),
        f"single pairs, T = {cold // 2}": singles(predictor, copies[1], cold // 2),
        f"sequence, T = {cold // 2}": tracked(predictor, copies[2]),
    }
    scores = {name: Scores() for name in methods}
    for sample in samples:
        assert sample.disparity is not None
        for name, predictions in methods.items():
            scores[name].add(next(predictions), sample.disparity)
    return scores


def noticed_cut(predictor: StereoPredictor, sequence: StereoSequence, other: StereoSequence) -> tuple[bool, float]:
    """Whether of five frames, three of one scene and two of another, only the fourth starts anew, and its share."""
    samples = [*(sequence.frame(index) for index in range(3)), *(other.frame(index) for index in range(2))]
    found = list(predictor.track([(s.left, s.right) for s in samples], scale=SCALE))
    return [frame.cold for frame in found] == [True, False, False, True, False], found[3].followed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=100, help="of each sequence (default: 100)")
    parser.add_argument("--kind", action="append", choices=SEQUENCES, help="which (default: all)")
    parser.add_argument("--model", help="a checkpoint; by default the bundled model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write benchmarks/sequences.md")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    predictor = linstereo.load(options.model)
    other = StereoSequence(CUT_SEED, kind=CUT_KIND)
    lines = [
        "# Sequences",
        "",
        "Made by `python benchmarks/sequences.py --write`, which says what is measured.",
        "",
        f"{options.frames} frames of 320 x 640 px each, run at their own size; EPE and TEPE in px, bad1 in per cent.",
        "",
        "| sequence | method | EPE | bad1 | TEPE (flicker) |",
        "|---|---|---|---|---|",
    ]
    cuts = []
    for kind in options.kind or SEQUENCES:
        seed, noisy = SEQUENCES[kind]
        sequence = StereoSequence(seed, kind=kind, noisy=noisy)
        scores = measure(predictor, sequence, options.frames)
        for name, score in scores.items():
            figures = f"{np.mean(score.errors):.3f} | {np.mean(score.bad):.2f} | {np.mean(score.flicker):.3f}"
            lines.append(f"| {kind}{', noisy' * noisy} | {name} | {figures} |")
        seen, share = noticed_cut(predictor, sequence, other)
        cuts.append(f"{kind}: {'noticed' if seen else 'NOT noticed'}, {share:.0%} of the pixels were found")
        print("\n".join(lines[-len(scores) :]), cuts[-1], sep="\n", flush=True)
    lines += ["", f"A cut into another scene ({CUT_KIND}): {'; '.join(cuts)}."]
    if options.write:
        Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
