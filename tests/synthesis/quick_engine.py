"""A stand-in for the engine that takes no time, and a program that writes with it, to be killed by tests."""

import os
import sys
import time

import numpy as np

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.synthesis.engine import EngineSettings, RenderedPair
from linstereo.synthesis.writer import WriterSettings, write_dataset

SETTINGS = EngineSettings(height=40, width=56)


class QuickEngine:
    """Pairs of noise; each takes the milliseconds in the environment variable QUICK_ENGINE_MS."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.wait = float(os.environ.get("QUICK_ENGINE_MS", "0")) / 1000

    def render(self, seed: int, index: int) -> RenderedPair:
        time.sleep(self.wait)
        rng = np.random.default_rng((seed, index))
        size = (self.settings.height, self.settings.width)
        calibration = StereoCalibration(focal=100.0 + index, baseline=0.1, cx=20.0, cy=15.0)
        disparity = rng.uniform(1.0, 20.0, size).astype(np.float32)
        return RenderedPair(
            name=f"{index:06d}",
            left=rng.integers(0, 256, (*size, 3), np.uint8),
            right=rng.integers(0, 256, (*size, 3), np.uint8),
            disparity=disparity,
            right_disparity=rng.uniform(1.0, 20.0, size).astype(np.float32),
            depth=(calibration.focal * calibration.baseline / disparity).astype(np.float32),
            occluded=rng.random(size) < 0.2,
            right_occluded=rng.random(size) < 0.2,
            calibration=calibration,
            water="II" if index % 2 else None,
        )


class FailingEngine(QuickEngine):
    """Cannot make pair 4."""

    def render(self, seed: int, index: int) -> RenderedPair:
        if index == 4:
            raise InputError("the photograph a.jpg cannot be decoded; remove it")
        return super().render(seed, index)


class DyingEngine(QuickEngine):
    """Takes its process with it at pair 4."""

    def render(self, seed: int, index: int) -> RenderedPair:
        if index == 4:
            os._exit(3)
        return super().render(seed, index)


if __name__ == "__main__":
    out, count, workers = sys.argv[1:]
    write_dataset(out, WriterSettings(engine=SETTINGS), count=int(count), workers=int(workers), make_engine=QuickEngine)
