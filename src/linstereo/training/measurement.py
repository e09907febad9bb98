"""Measuring a trained network on a fixed list of pairs, occluded pixels apart."""

import dataclasses
import statistics
from collections.abc import Iterator
from typing import Any

from linstereo.data.sample import StereoSample
from linstereo.errors import InputError
from linstereo.evaluation.metrics import score_disparity
from linstereo.predictor import StereoPredictor
from linstereo.training.recipe import Stage
from linstereo.training.sources import open_source

METRICS = ("EPE", "bad3")
REGIONS = ("all", "occ")


def spread(length: int, count: int) -> list[int]:
    """At most `count` indices below `length`, evenly spread."""
    taken = min(length, count)
    return [(2 * i + 1) * length // (2 * taken) for i in range(taken)]


def centre_crop(sample: StereoSample, size: tuple[int, int]) -> StereoSample:
    """The middle of a pair, `size` (height, width) px; 0, 0 for all of it. A side that is shorter stays as it is.

    The calibration is that of the whole picture, so it is left out.
    """
    if size == (0, 0):
        return sample
    height, width = sample.left.shape[:2]
    top, left = max((height - size[0]) // 2, 0), max((width - size[1]) // 2, 0)
    fields = ("left", "right", "disparity", "valid", "occluded", "depth")
    arrays = {name: getattr(sample, name) for name in fields}
    cut = {n: a[top : top + size[0], left : left + size[1]].copy() for n, a in arrays.items() if a is not None}
    return dataclasses.replace(sample, calibration=None, **cut)


def validation_pairs(stage: Stage, *, seed: int) -> Iterator[StereoSample]:
    """The pairs that a stage is measured on, one after the other.

    `stage` names the sources, how many pairs to take from each, and the crop; `seed` is the recipe's.
    """
    for text in stage.validation:
        dataset = open_source(text, seed=seed).dataset
        for index in spread(min(len(dataset), 1 << 31), stage.validation_count):
            yield centre_crop(dataset[index], stage.validation_crop)


def measure(predictor: StereoPredictor, stage: Stage, *, seed: int) -> dict[str, Any]:
    """Figures of a network on the pairs of a stage, with the stage's T.

    Returns:
        "EPE" (px), "bad3" (per cent) and "occ/EPE" (px, occluded pixels only; None if no pair has labels), means over
        pairs; "pairs", their number; and "EPE of pairs", the EPE of each.
    """
    values: dict[str, list[float]] = {"EPE": [], "bad3": [], "occ/EPE": []}
    for sample in validation_pairs(stage, seed=seed):
        if sample.disparity is None or sample.valid is None:
            raise InputError(f"{sample.name} has no ground truth, so nothing can be measured on it; leave it out")
        regions = score_disparity(
            predictor.predict(sample.left, sample.right, iters=stage.iterations, scale=1.0).disparity,
            sample.disparity,
            valid=sample.valid,
            occluded=sample.occluded,
            metrics=METRICS,
            regions=REGIONS,
            name=sample.name,
        )
        found = {"EPE": regions["all"].value("EPE"), "bad3": regions["all"].value("bad3")}
        found["occ/EPE"] = regions["occ"].value("EPE") if "occ" in regions else None
        for name, value in found.items():
            if value is not None:
                values[name].append(value)
    if not values["EPE"]:
        raise InputError(f"no pair of {', '.join(stage.validation)} has a pixel with ground truth; give other pairs")
    means = {name: statistics.fmean(found) if found else None for name, found in values.items()}
    return {**means, "pairs": len(values["EPE"]), "EPE of pairs": values["EPE"]}
