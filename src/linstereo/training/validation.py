"""Measuring the network on a fixed list of pairs while it trains, and drawing what it sees."""

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from linstereo.data.sample import StereoSample
from linstereo.errors import InputError
from linstereo.evaluation.metrics import score_disparity
from linstereo.evaluation.pictures import draw_pictures
from linstereo.evaluation.protocol import Protocol
from linstereo.model.correlation_start import start_from_volumes, to_scale
from linstereo.model.linstereo import LinStereo
from linstereo.model.strides import pad_images
from linstereo.predictor import StereoPredictor
from linstereo.training.measurement import centre_crop, spread
from linstereo.training.recipe import Stage
from linstereo.training.sources import open_source

METRICS = ("EPE", "bad1", "bad3")
_PARTS = ("left", "truth", "prediction", "error")  # columns of the picture
_PICTURES = 6  # rows of the picture
_PICTURE_WIDTH = 240  # px of each part
_KEEP_BYTES = 1 << 30  # pairs up to this size in all are kept in memory
_RULES = Protocol(
    name="validation",
    dataset="",
    split=None,
    title="validation",
    pairs="",
    domain="disparity",
    metrics=METRICS,
    truth="",
    resolution="",
)


class Row(NamedTuple):
    """The pictures of one pair beside each other, uint8 [h, w, 3]."""

    place: int
    picture: NDArray[np.uint8]


class Validator:
    """The pairs to measure, opened once.

    Args:
        stage: names sources, number and crop of the pairs, the objective and T.
        seed: of the run.
        rank: this process; it measures every `processes`-th pair.
        processes: how many there are.
    """

    def __init__(self, stage: Stage, *, seed: int, rank: int = 0, processes: int = 1) -> None:
        self.stage = stage
        self._places = [
            (source.dataset, index)
            for source in (open_source(text, seed=seed) for text in stage.validation)
            for index in spread(min(len(source.dataset), 1 << 31), stage.validation_count)
        ]
        self._mine = range(rank, len(self._places), processes)
        self._kept: dict[int, StereoSample] = {}

    def __len__(self) -> int:
        return len(self._places)

    @torch.inference_mode()
    def sums(self, model: LinStereo, device: torch.device, *, pictures: bool) -> tuple[NDArray[np.float64], list[Row]]:
        """Sums of the metrics over this process's pairs and, last, their number; and rows of the picture."""
        predictor = StereoPredictor(model, device=device)
        total = np.zeros(len(METRICS) + 1)
        rows: list[Row] = []
        for place in self._mine:
            sample = self._sample(place)
            if sample.disparity is None or sample.valid is None:
                raise InputError(f"{sample.name} has no ground truth, so it cannot be used for validation")
            prediction = self._predict(predictor, sample)
            score = score_disparity(prediction, sample.disparity, valid=sample.valid, metrics=METRICS, regions=("all",))
            values = [score["all"].value(metric) for metric in METRICS]
            if None not in values:
                total += [*(value or 0.0 for value in values), 1]
            if pictures and place < _PICTURES:
                rows.append(Row(place, _draw_row(sample, prediction)))
        return total, rows

    def _predict(self, predictor: StereoPredictor, sample: StereoSample) -> NDArray[np.float32]:
        if self.stage.objective == "matching":
            return _best_matches(predictor.model, sample, predictor.device)
        return predictor.predict(sample.left, sample.right, iters=self.stage.iterations, scale=1.0).disparity

    def _sample(self, place: int) -> StereoSample:
        if place in self._kept:
            return self._kept[place]
        dataset, index = self._places[place]
        sample = centre_crop(dataset[index], self.stage.validation_crop)
        if len(self._places) * _size_in_bytes(sample) <= _KEEP_BYTES:
            self._kept[place] = sample
        return sample


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


def _best_matches(model: LinStereo, sample: StereoSample, device: torch.device) -> NDArray[np.float32]:
    """Disparity [H, W] from the correlations alone, for a network whose decoder is not trained yet."""
    height, width = sample.left.shape[:2]
    pair = np.stack([sample.left, sample.right]).transpose(0, 3, 1, 2)
    images = pad_images(torch.from_numpy(np.ascontiguousarray(pair)).to(device).float() / 255)  # [2, 3, H', W']
    start = start_from_volumes(model.cost_volumes(model.backbone(images).pyramid))
    full = to_scale(start, (images.shape[-2], images.shape[-1])).disparity
    return np.ascontiguousarray(full[0, 0, :height, :width].float().cpu().numpy())


def _draw_row(sample: StereoSample, prediction: NDArray[np.float32]) -> NDArray[np.uint8]:
    pictures = draw_pictures(_RULES, sample, prediction)
    height = round(_PICTURE_WIDTH * sample.left.shape[0] / sample.left.shape[1])
    parts = [cv2.resize(pictures[p], (_PICTURE_WIDTH, height), interpolation=cv2.INTER_AREA) for p in _PARTS]
    return np.concatenate(parts, axis=1)


def _size_in_bytes(sample: StereoSample) -> int:
    arrays = (sample.left, sample.right, sample.disparity, sample.valid)
    return sum(array.nbytes for array in arrays if array is not None)
