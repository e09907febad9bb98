"""Pictures of the worst images of a benchmark: left image, prediction, ground truth and error, as small JPEG files."""

import heapq
from collections.abc import Iterable, Mapping
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.data.formats.decoding import write_encoded
from linstereo.data.sample import StereoSample
from linstereo.evaluation.protocol import BenchmarkProtocol
from linstereo.evaluation.scores import ImageScore
from linstereo.files import make_parent
from linstereo.geometry.depth import disparity_to_depth
from linstereo.visualize import LARGEST_DISPARITY_ERROR, PARTS, comparison_pictures, disparity_error

_JPEG_OPTIONS = (cv2.IMWRITE_JPEG_QUALITY, 80)
LARGEST_DEPTH_ERROR = 0.25
"""Error at which the colours end, as a fraction of the true depth."""


class Gallery:
    """The pictures of the `keep` worst images of a benchmark, kept as the images come.

    The worst images are those with the largest value of the protocol's first metric. An image gets its pictures when
    it is among the worst so far, and loses them when it is no longer; so each image needs to be predicted only once.
    """

    def __init__(self, folder: Path, *, protocol: BenchmarkProtocol, keep: int) -> None:
        self.folder = folder
        self._protocol = protocol
        self._keep = keep
        self._heap: list[tuple[float, int]] = []  # the least bad first

    def remember(self, index: int, score: ImageScore) -> None:
        """Count an image that was measured by an earlier run, whose pictures are there if it was among the worst."""
        self._enter(index, score)

    def consider(self, index: int, score: ImageScore, sample: StereoSample, prediction: NDArray[np.float32]) -> None:
        """Draw the image `index` if it is among the worst so far."""
        if self._enter(index, score):
            self.draw(index, sample, prediction)

    def worst(self, scores: Iterable[tuple[int, ImageScore]]) -> list[int]:
        """The indices of the images to show, the worst one first; images without a value are never shown."""
        ranked = [(value, index) for index, score in scores if (value := self._badness(score)) is not None]
        return [index for _, index in sorted(ranked, reverse=True)[: self._keep]]

    def files(self, index: int) -> Mapping[str, Path]:
        """Where the pictures of the image `index` are, by part."""
        return {part: self.folder / f"{index:06d}-{part}.jpg" for part in PARTS}

    def has(self, index: int) -> bool:
        """Whether all pictures of the image `index` are there."""
        return all(path.is_file() for path in self.files(index).values())

    def draw(self, index: int, sample: StereoSample, prediction: NDArray[np.float32]) -> None:
        """Write the pictures of one image."""
        pictures = draw_pictures(self._protocol, sample, prediction)
        for part, path in self.files(index).items():
            write_encoded(
                make_parent(path), cv2.cvtColor(pictures[part], cv2.COLOR_RGB2BGR), suffix=".jpg", options=_JPEG_OPTIONS
            )

    def _enter(self, index: int, score: ImageScore) -> bool:
        """Put an image among the worst if it belongs there; whichever it displaces loses its pictures."""
        value = self._badness(score)
        if value is None or self._keep == 0:
            return False
        if len(self._heap) < self._keep:
            heapq.heappush(self._heap, (value, index))
            return True
        _, displaced = heapq.heappushpop(self._heap, (value, index))
        for path in self.files(displaced).values():
            path.unlink(missing_ok=True)
        return displaced != index

    def _badness(self, score: ImageScore) -> float | None:
        return score.regions["all"].value(self._protocol.metrics[0])


def draw_pictures(
    protocol: BenchmarkProtocol, sample: StereoSample, prediction: NDArray[np.float32]
) -> dict[str, NDArray[np.uint8]]:
    """The four pictures of one image by part, uint8 [h, w, 3] RGB, see `linstereo.visualize.comparison_pictures`.

    Prediction and ground truth are disparities in the same colours; the error is that of the disparity in px, or of the
    depth relative to the true one, where the protocol counts it. What is unknown, or does not count, is black.
    """
    assert sample.disparity is not None
    assert sample.valid is not None
    error, counted = error_map(protocol, sample, prediction)
    largest = LARGEST_DISPARITY_ERROR if protocol.depth_range is None else LARGEST_DEPTH_ERROR
    return comparison_pictures(
        sample.left,
        prediction,
        sample.disparity,
        error=error,
        valid=sample.valid,
        counted=counted,
        largest_error=largest,
    )


def error_map(
    protocol: BenchmarkProtocol, sample: StereoSample, prediction: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The error that the protocol looks at, float32 [H, W], and where it counts, bool [H, W].

    Disparity: px. Depth: fraction of the true depth. A prediction that is not finite has an infinite error.
    """
    assert sample.disparity is not None
    assert sample.valid is not None
    if protocol.depth_range is None:
        counted = sample.valid
        if protocol.max_disparity is not None:
            counted = counted & (sample.disparity < protocol.max_disparity)
        return disparity_error(prediction, sample.disparity), counted
    assert sample.calibration is not None
    low, high = protocol.depth_range
    truth = sample.depth if sample.depth is not None else disparity_to_depth(sample.disparity, sample.calibration)
    counted = sample.valid & (truth > low) & (truth < high)
    predicted = np.clip(disparity_to_depth(prediction, sample.calibration), low, high)
    error = np.zeros_like(truth)
    np.divide(np.abs(predicted - truth), truth, out=error, where=counted)
    return np.where(np.isfinite(prediction), error, np.inf).astype(np.float32), counted
