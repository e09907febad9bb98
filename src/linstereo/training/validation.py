"""Measuring a network on a fixed list of pairs, while it trains and afterwards, and drawing what it sees."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from linstereo.data.sample import StereoSample
from linstereo.errors import InputError
from linstereo.evaluation.metrics import score_disparity
from linstereo.model.correlation_start import start_from_volumes, to_scale
from linstereo.model.linstereo import LinStereo
from linstereo.model.strides import pad_images
from linstereo.predictor import StereoPredictor
from linstereo.training.recipe import Stage
from linstereo.training.sources import open_source
from linstereo.visualize import comparison_pictures, disparity_error

METRICS = ("EPE", "bad1", "bad3")
_REGIONS = {"all": "", "occ": "occ/"}  # and how the names of their figures begin
_PARTS = ("left", "truth", "prediction", "error")  # columns of the picture
_PICTURES = 6  # rows of the picture
_PICTURE_WIDTH = 240  # px of each part
_KEEP_BYTES = 1 << 30  # pairs up to this size in all are kept in memory

Predict = Callable[[StereoSample], NDArray[np.float32]]
"""Gives the disparity float32 [H, W] of a pair, px."""


class Measured(NamedTuple):
    """What was measured on one pair.

    place: of the pair in the list.
    sample: the pair, with ground truth.
    prediction: float32 [H, W], px.
    figures: `METRICS` over all pixels with ground truth, and as "occ/EPE", ... over the occluded ones if the pair has
        labels; None where no pixel counts.
    """

    place: int
    sample: StereoSample
    prediction: NDArray[np.float32]
    figures: Mapping[str, float | None]


class Row(NamedTuple):
    """The pictures of one pair beside each other, uint8 [h, w, 3]."""

    place: int
    picture: NDArray[np.uint8]


class ValidationPairs:
    """The pairs that a stage is measured on, opened once.

    Args:
        stage: names sources, number and crop of the pairs.
        seed: of the recipe.
        rank: this process; it measures every `processes`-th pair.
        processes: how many there are.
    """

    def __init__(self, stage: Stage, *, seed: int, rank: int = 0, processes: int = 1) -> None:
        self._crop = stage.validation_crop
        self._places = [
            (source.dataset, index)
            for source in (open_source(text, seed=seed) for text in stage.validation)
            for index in spread(min(len(source.dataset), 1 << 31), stage.validation_count)
        ]
        self._mine = range(rank, len(self._places), processes)
        self._kept: dict[int, StereoSample] = {}

    def __len__(self) -> int:
        return len(self._places)

    def measure(self, predict: Predict) -> Iterator[Measured]:
        """Measure this process's pairs, one after the other."""
        for place in self._mine:
            sample = self._sample(place)
            if sample.disparity is None or sample.valid is None:
                raise InputError(f"{sample.name} has no ground truth, so nothing can be measured on it; leave it out")
            prediction = predict(sample)
            scores = score_disparity(
                prediction,
                sample.disparity,
                valid=sample.valid,
                occluded=sample.occluded,
                metrics=METRICS,
                regions=tuple(_REGIONS),
                name=sample.name,
            )
            figures = {f"{_REGIONS[region]}{m}": score.value(m) for region, score in scores.items() for m in METRICS}
            yield Measured(place, sample, prediction, figures)

    def _sample(self, place: int) -> StereoSample:
        if place in self._kept:
            return self._kept[place]
        dataset, index = self._places[place]
        sample = centre_crop(dataset[index], self._crop)
        if len(self._places) * _size_in_bytes(sample) <= _KEEP_BYTES:
            self._kept[place] = sample
        return sample


@torch.inference_mode()
def validate(
    pairs: ValidationPairs, model: LinStereo, stage: Stage, device: torch.device, *, pictures: bool
) -> tuple[NDArray[np.float64], list[Row]]:
    """Sums of the metrics over this process's pairs and, last, their number; and rows of the picture."""
    predictor = StereoPredictor(model, device=device)

    def predict(sample: StereoSample) -> NDArray[np.float32]:
        if stage.objective == "matching":
            return _best_matches(model, sample, predictor.device)
        return predictor.predict(sample.left, sample.right, iters=stage.iterations, scale=1.0).disparity

    total = np.zeros(len(METRICS) + 1)
    rows: list[Row] = []
    for measured in pairs.measure(predict):
        values = [measured.figures[metric] for metric in METRICS]
        if None not in values:
            total += [*(value or 0.0 for value in values), 1]
        if pictures and measured.place < _PICTURES:
            rows.append(Row(measured.place, _draw_row(measured.sample, measured.prediction)))
    return total, rows


def means(total: NDArray[np.float64]) -> dict[str, float]:
    """The metrics from the sums of all processes; nothing if no pair has ground truth."""
    count = total[-1]
    return {name: float(value / count) for name, value in zip(METRICS, total, strict=False)} if count else {}


def put_together(rows: Sequence[Row]) -> NDArray[np.uint8] | None:
    """One picture from the rows: left image, truth, prediction and error of each pair."""
    if not rows:
        return None
    ordered = [row.picture for row in sorted(rows, key=lambda row: row.place)]
    width = max(picture.shape[1] for picture in ordered)
    return np.concatenate([np.pad(p, ((0, 4), (0, width - p.shape[1]), (0, 0))) for p in ordered])


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


def _best_matches(model: LinStereo, sample: StereoSample, device: torch.device) -> NDArray[np.float32]:
    """Disparity [H, W] from the correlations alone, for a network whose decoder is not trained yet."""
    height, width = sample.left.shape[:2]
    pair = np.stack([sample.left, sample.right]).transpose(0, 3, 1, 2)
    images = pad_images(torch.from_numpy(np.ascontiguousarray(pair)).to(device).float() / 255)  # [2, 3, H', W']
    start = start_from_volumes(model.cost_volumes(model.backbone(images).pyramid))
    full = to_scale(start, (images.shape[-2], images.shape[-1])).disparity
    return np.ascontiguousarray(full[0, 0, :height, :width].float().cpu().numpy())


def _draw_row(sample: StereoSample, prediction: NDArray[np.float32]) -> NDArray[np.uint8]:
    assert sample.disparity is not None
    assert sample.valid is not None
    error = disparity_error(prediction, sample.disparity)
    pictures = comparison_pictures(
        sample.left, prediction, sample.disparity, error=error, valid=sample.valid, counted=sample.valid
    )
    height = round(_PICTURE_WIDTH * sample.left.shape[0] / sample.left.shape[1])
    parts = [cv2.resize(pictures[p], (_PICTURE_WIDTH, height), interpolation=cv2.INTER_AREA) for p in _PARTS]
    return np.concatenate(parts, axis=1)


def _size_in_bytes(sample: StereoSample) -> int:
    arrays = (sample.left, sample.right, sample.disparity, sample.valid)
    return sum(array.nbytes for array in arrays if array is not None)
