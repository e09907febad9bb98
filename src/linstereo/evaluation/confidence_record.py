"""How good a method's confidence was on each image of a benchmark, and on all of them together."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linstereo.data.sample import StereoSample
from linstereo.evaluation.confidence_metrics import (
    BINS,
    STEPS,
    Reliability,
    Sparsification,
    area_under_sparsification_error,
    expected_calibration_error,
    reliability,
    right_disparities,
    sparsification,
    top_half_error,
)
from linstereo.evaluation.depth_prior_cost import counted_pixels
from linstereo.evaluation.protocol import BenchmarkProtocol


@dataclass(frozen=True)
class ConfidenceRecord:
    """The confidence of one image over the counted pixels, as `linstereo.evaluation.confidence_metrics` measures it.

    Attributes:
        pixels: how many there are in each range of confidence.
        confidence: the sum of their confidences.
        right: how many of them are right.
        error: mean error, px, of what is left after removing the least confident pixels.
        perfect: the same after removing the largest errors.
    """

    pixels: tuple[int, ...]
    confidence: tuple[float, ...]
    right: tuple[int, ...]
    error: tuple[float, ...]
    perfect: tuple[float, ...]

    @property
    def reliability(self) -> Reliability:
        """Its part that says whether the confidence means what it says."""
        return Reliability(np.array(self.pixels), np.array(self.confidence), np.array(self.right))

    @property
    def sparsification(self) -> Sparsification:
        """Its part that says whether the confidence finds the errors."""
        return Sparsification(np.arange(STEPS) / STEPS, np.array(self.error), np.array(self.perfect))

    def to_json(self) -> dict[str, Any]:
        """Plain dictionary for `json.dump`."""
        return {field.name: list(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @classmethod
    def from_json(cls, content: Any) -> "ConfidenceRecord":
        """Read what `to_json` wrote; anything else raises ValueError, KeyError or TypeError."""
        lengths = {"pixels": BINS, "confidence": BINS, "right": BINS, "error": STEPS, "perfect": STEPS}
        for name, length in lengths.items():
            values = content[name]
            kinds = (int,) if name in ("pixels", "right") else (int, float)
            if len(values) != length or not all(type(v) in kinds and math.isfinite(v) and v >= 0 for v in values):
                raise ValueError("a damaged record of the confidence")
        return cls(**{name: tuple(content[name]) for name in lengths})


@dataclass(frozen=True)
class ConfidenceSummary:
    """The confidence over a benchmark.

    Attributes:
        images: how many have one.
        ece: expected calibration error over all pixels.
        ause: mean over the images, relative to the error of each.
        top_half: error of the more confident half relative to that of all pixels, mean over the images.
        reliability: of all pixels.
        curve: mean over the images of the sparsification curves, each relative to the error of its image.
    """

    images: int
    ece: float
    ause: float
    top_half: float
    reliability: Reliability
    curve: Sparsification

    def to_json(self) -> dict[str, Any]:
        """Plain dictionary for `json.dump`."""
        return {
            "images": self.images,
            "ECE": self.ece,
            "AUSE": self.ause,
            "top50_error": self.top_half,
            "reliability": {name: part.tolist() for name, part in self.reliability._asdict().items()},
            "sparsification": {name: part.tolist() for name, part in self.curve._asdict().items()},
        }


def record_confidence(
    protocol: BenchmarkProtocol,
    sample: StereoSample,
    disparity: NDArray[np.float32],
    confidence: NDArray[np.float32],
) -> ConfidenceRecord | None:
    """Measure the confidence [H, W] of a disparity map [H, W], px; None if no pixel counts."""
    assert sample.disparity is not None
    counted = counted_pixels(protocol, sample)
    if not counted.any():
        return None
    truth, found, sure = sample.disparity[counted], disparity[counted], confidence[counted]
    counts = reliability(sure, right_disparities(found, truth))
    curve = sparsification(np.abs(found - truth), sure)
    return ConfidenceRecord(
        pixels=tuple(counts.pixels.tolist()),
        confidence=tuple(counts.confidence.tolist()),
        right=tuple(counts.right.tolist()),
        error=tuple(curve.error.tolist()),
        perfect=tuple(curve.perfect.tolist()),
    )


def summarise_confidence(records: Sequence[ConfidenceRecord]) -> ConfidenceSummary | None:
    """Put the records of a benchmark together; None if there are none, as for a method without confidence."""
    if not records:
        return None
    counts = Reliability(*(np.sum(parts, axis=0) for parts in zip(*(r.reliability for r in records), strict=True)))
    curves = [record.sparsification for record in records]
    scales = [curve.error[0] if curve.error[0] > 0 else 1.0 for curve in curves]
    return ConfidenceSummary(
        images=len(records),
        ece=expected_calibration_error(counts),
        ause=float(np.mean([area_under_sparsification_error(curve) for curve in curves])),
        top_half=float(np.mean([top_half_error(curve) for curve in curves])),
        reliability=counts,
        curve=Sparsification(
            curves[0].removed,
            np.mean([curve.error / scale for curve, scale in zip(curves, scales, strict=True)], axis=0),
            np.mean([curve.perfect / scale for curve, scale in zip(curves, scales, strict=True)], axis=0),
        ),
    )
