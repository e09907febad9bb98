"""Plain walls as small cameras see them: rendered rooms, noisy, once in colour and once in grey.

    python benchmarks/plain_rooms.py --write

renders 60 rooms with plain walls, floors and furniture (disparities up to 8 % of the width, noise of small cameras),
each with a colour and with a grey camera, runs the bundled model and SGBM on them, and writes
benchmarks/plain_rooms.md: the error on plain pixels and on the others, and how far plain flat surfaces are from flat.

Plain pixels are those of `linstereo.geometry.texture`. Flatness is measured in windows of 61 x 61 px on one plain
plane (the true disparity is within 0.05 px of a plane, nine in ten pixels are plain): the mean distance of the
prediction from the plane that fits it best.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

import linstereo
from linstereo.data.sample import StereoSample
from linstereo.evaluation.baselines import SgbmMethod
from linstereo.evaluation.methods import Method, ModelMethod
from linstereo.geometry.texture import plain_pixels
from linstereo.synthesis.engine import EngineSettings, StereoEngine

SEED = 4_000_001
HEIGHT, WIDTH = 400, 640
MAX_DISPARITY = 0.08
WINDOW, STRIDE = 61, 30

Floats = NDArray[np.float64]


def plain_windows(plain: NDArray[np.bool_], *, share: float) -> Iterator[tuple[slice, slice]]:
    """The windows in which at least this share of the pixels is plain."""
    for top in range(0, plain.shape[0] - WINDOW + 1, STRIDE):
        for left in range(0, plain.shape[1] - WINDOW + 1, STRIDE):
            window = (slice(top, top + WINDOW), slice(left, left + WINDOW))
            if plain[window].mean() >= share:
                yield window


def off_plane(values: NDArray[np.float32]) -> Floats:
    """Signed distances of a window's values from the plane that fits them best in the sense of least squares."""
    y, x = np.indices(values.shape)
    system = np.stack([x.ravel(), y.ravel(), np.ones(values.size)], axis=1)
    plane, *_ = np.linalg.lstsq(system, values.ravel().astype(np.float64), rcond=None)
    return np.asarray(values.ravel() - system @ plane)


def measure(method: Method, samples: Sequence[StereoSample]) -> dict[str, float]:
    """Errors in px: on plain pixels, on the others, and off their planes in the mean and in the worst tenth."""
    plain_errors, other_errors, deviations = [], [], []
    for sample in samples:
        assert sample.disparity is not None
        prediction = method.predict(sample)
        error = np.abs(prediction - sample.disparity)
        plain = plain_pixels(sample.left)
        plain_errors.append(error[plain])
        other_errors.append(error[~plain])
        for window in plain_windows(plain, share=0.9):
            if np.abs(off_plane(sample.disparity[window])).max() < 0.05:  # one plane
                deviations.append(float(np.abs(off_plane(prediction[window])).mean()))
    worst = np.sort(deviations)[-max(len(deviations) // 10, 1) :]
    return {
        "plain": float(np.concatenate(plain_errors).mean()),
        "other": float(np.concatenate(other_errors).mean()),
        "flat": float(np.mean(deviations)),
        "worst": float(worst.mean()),
        "windows": len(deviations),
    }


def rooms(count: int, *, grey: bool, photos: str | None) -> list[StereoSample]:
    settings = EngineSettings(
        height=HEIGHT,
        width=WIDTH,
        underwater=0.0,
        max_disparity=MAX_DISPARITY,
        plain=1.0,
        noisy=1.0,
        grey=float(grey),
        margins=0.0,
        photos=photos,
    )
    engine = StereoEngine(settings)
    title = "grey" if grey else "colour"
    return [engine.sample(SEED, index) for index in tqdm(range(count), desc=title, file=sys.stderr, disable=None)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60, help="number of rooms (default: 60)")
    parser.add_argument("--model", action="append", default=[], help="a checkpoint; by default the bundled model")
    parser.add_argument("--photos", metavar="DIR", help="photographs to use as textures too")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write benchmarks/plain_rooms.md")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    methods: list[Method] = [SgbmMethod(), *(ModelMethod(linstereo.load(name)) for name in options.model or [None])]
    lines = [
        f"{options.count} rooms of {HEIGHT} x {WIDTH} px, seed {SEED}; errors in px.",
        "",
        "| cameras | method | EPE, plain pixels | EPE, other pixels | off their planes | the worst tenth |",
        "|---|---|---|---|---|---|",
    ]
    for grey in (False, True):
        samples = rooms(options.count, grey=grey, photos=options.photos)
        for method in methods:
            found = measure(method, samples)
            cells = " | ".join(f"{found[name]:.3f}" for name in ("plain", "other", "flat", "worst"))
            lines.append(f"| {'grey' if grey else 'colour'} | {method.title} | {cells} |")
            print(lines[-1], f"({found['windows']} windows)", flush=True)
    if options.write:
        page = "# Plain rooms\n\nMade by `python benchmarks/plain_rooms.py --write`, which says what is measured.\n\n"
        Path(__file__).with_suffix(".md").write_text(page + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
