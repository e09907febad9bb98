"""The enumeration of SeaStereo: which configurations there are, and what is random in each.

7 camera trajectories x 4 camera models (2 focal lengths x 2 baselines) x 12 water settings x 3 iterations are 1,008
configurations, each of 40 frames. A water setting is a Jerlov type with its sea floor shallow or deep; the turbid types
III and 3C come shallow only. Every iteration samples the depth of the sea floor anew.

The paper gives these counts; focal lengths, baselines and the ranges of depth are ours.
"""

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.synthesis.water import WATER_TYPES

TRAJECTORIES = (1, 2, 3, 4, 5, 6, 7)
FOCAL_LENGTHS = (24, 35)
"""mm on a sensor 36 mm wide: 74 and 54 degrees of horizontal view."""
BASELINES = (65, 120)
"""mm between the two cameras: the distance of human eyes, and that of a small stereo rig."""
ITERATIONS = (1, 2, 3)
FRAMES = 40
SENSOR_WIDTH = 36.0
FLOOR_DEPTHS = MappingProxyType({"shallow": (5.0, 10.0), "deep": (20.0, 45.0)})
"""Metres of the sea floor below the surface, from which every configuration samples its own."""
TURBID = ("III", "3C")
WATER_SETTINGS = tuple(
    (water, depth)
    for water in ("I", "IA", "IB", "II", "1C", "III", "3C")
    for depth in FLOOR_DEPTHS
    if depth == "shallow" or water not in TURBID
)
MAX_SEED = 2**32 - 1


@dataclass(frozen=True)
class Configuration:
    """One of the 1,008.

    Args:
        index: its place in the enumeration, 0 to 1,007.
        trajectory: 1 to 7.
        focal_mm: focal length on a sensor 36 mm wide.
        baseline_mm: millimetres between the cameras.
        water: Jerlov type.
        depth: `shallow` or `deep`.
        iteration: 1 to 3.
        seed: of the whole dataset.
        floor_depth: metres of the sea floor below the surface.
    """

    index: int
    trajectory: int
    focal_mm: int
    baseline_mm: int
    water: str
    depth: str
    iteration: int
    seed: int
    floor_depth: float

    @property
    def name(self) -> str:
        """Name of its folder, such as `t1_f24_b065_IA_deep_2`."""
        camera = f"f{self.focal_mm}_b{self.baseline_mm:03d}"
        return f"t{self.trajectory}_{camera}_{self.water}_{self.depth}_{self.iteration}"

    @property
    def deep(self) -> bool:
        """Whether the scene is lit by the camera's lamps."""
        return self.depth == "deep"

    @property
    def baseline(self) -> float:
        """Metres between the cameras."""
        return self.baseline_mm / 1000

    def calibration(self, *, height: int, width: int) -> StereoCalibration:
        """The rectified camera for images of `height` x `width` px, its principal point in the middle of the image."""
        return StereoCalibration(
            focal=self.focal_mm / SENSOR_WIDTH * width,
            baseline=self.baseline,
            cx=(width - 1) / 2,
            cy=(height - 1) / 2,
        )

    def rng(self, purpose: int) -> np.random.Generator:
        """A generator of its own for each purpose, so that one choice does not shift the others."""
        return _rng(self.seed, self.index, purpose)


def all_configurations(seed: int = 0) -> tuple[Configuration, ...]:
    """The whole enumeration, in the order trajectory, focal length, baseline, water, depth, iteration."""
    if not 0 <= seed <= MAX_SEED:
        raise InputError(f"the seed is {seed}; it must be from 0 to {MAX_SEED}")
    return tuple(_enumerate(seed))


def choose(
    configurations: Sequence[Configuration],
    *,
    trajectories: Collection[int] = (),
    focal_lengths: Collection[int] = (),
    baselines: Collection[int] = (),
    waters: Collection[str] = (),
    depths: Collection[str] = (),
    iterations: Collection[int] = (),
) -> tuple[Configuration, ...]:
    """Those configurations that have one of the given values in every feature for which any is given."""
    asked = (
        ("trajectory", trajectories, TRAJECTORIES),
        ("focal_mm", focal_lengths, FOCAL_LENGTHS),
        ("baseline_mm", baselines, BASELINES),
        ("water", waters, WATER_TYPES),
        ("depth", depths, tuple(FLOOR_DEPTHS)),
        ("iteration", iterations, ITERATIONS),
    )
    for field, wanted, known in asked:
        for value in wanted:
            if value not in known:
                raise InputError(f"no configuration has {field} {value}; choose one of {', '.join(map(str, known))}")
    chosen = tuple(
        configuration
        for configuration in configurations
        if all(not wanted or getattr(configuration, field) in wanted for field, wanted, _ in asked)
    )
    if not chosen:
        raise InputError(f"no configuration is left: {' and '.join(TURBID)} come shallow only; choose other values")
    return chosen


def _enumerate(seed: int) -> Iterator[Configuration]:
    features = itertools.product(TRAJECTORIES, FOCAL_LENGTHS, BASELINES, WATER_SETTINGS, ITERATIONS)
    for index, (trajectory, focal, baseline, (water, depth), iteration) in enumerate(features):
        yield Configuration(
            index=index,
            trajectory=trajectory,
            focal_mm=focal,
            baseline_mm=baseline,
            water=water,
            depth=depth,
            iteration=iteration,
            seed=seed,
            floor_depth=round(float(_rng(seed, index, 0).uniform(*FLOOR_DEPTHS[depth])), 3),
        )


def _rng(seed: int, index: int, purpose: int) -> np.random.Generator:
    return np.random.default_rng([seed, index, purpose])
