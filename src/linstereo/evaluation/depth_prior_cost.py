"""How often the depth prior (DPI) of a network fell back to zero disparity on a benchmark, and what that costs.

The paper: "a minimum inlier threshold K_min = 20, below which we fall back to zero-disparity initialization; this
occurs for 0 % of TartanAir-UW and 3.7 % of SQUID frames and costs only +0.08 px EPE". It does not say against what. Two
readings are measured here, in px of disparity whatever the benchmark's own metrics are:

- the EPE of the pairs that fell back minus that of the others, which is always there, but also holds what else differs
  between these pairs;
- on the pairs that were fitted, the EPE of starting from zero minus that of starting from the fit, pair by pair, which
  takes a second prediction of each (`linstereo evaluate --zero-start`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from linstereo.data.sample import StereoSample
from linstereo.evaluation.metrics import score_disparity
from linstereo.evaluation.protocol import BenchmarkProtocol
from linstereo.geometry.depth import disparity_to_depth

if TYPE_CHECKING:
    from linstereo.model.depth_prior import DepthPriorReport

PAPER_FALLBACKS = {"tartanair-uw": 0.0, "squid": 3.7}
"""Share of the frames that fell back in the paper, per cent, by protocol."""
PAPER_COST = 0.08
"""What that costs in the paper, px of EPE; it gives one figure for both benchmarks."""


@dataclass(frozen=True)
class PriorRecord:
    """What the depth prior did for one pair, and how the prediction came out.

    Attributes:
        fell_back, matches, inliers, reason: as in `DepthPriorReport`.
        epe: of the prediction over the counted pixels, px; None if there are none.
        zero_start_epe: of the prediction from zero disparity; None if it was not measured.
    """

    fell_back: bool
    matches: int
    inliers: int
    reason: str
    epe: float | None
    zero_start_epe: float | None = None

    @classmethod
    def of(cls, report: "DepthPriorReport", *, epe: float | None, zero_start_epe: float | None) -> "PriorRecord":
        """The record of a report of the network."""
        return cls(report.fell_back, report.matches, report.inliers, report.reason, epe, zero_start_epe)

    def to_json(self) -> dict[str, Any]:
        """Plain dictionary for `json.dump`."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Any) -> "PriorRecord":
        """Read what `to_json` wrote; anything else raises ValueError, KeyError or TypeError."""
        record = cls(**{field.name: content[field.name] for field in fields(cls)})
        if type(record.fell_back) is not bool or type(record.reason) is not str:
            raise ValueError("a damaged record of the depth prior")
        if any(type(value) is not int or value < 0 for value in (record.matches, record.inliers)):
            raise ValueError("a damaged record of the depth prior")
        for value in (record.epe, record.zero_start_epe):
            if value is not None and not (isinstance(value, float) and math.isfinite(value)):
                raise ValueError("a damaged record of the depth prior")
        return record


@dataclass(frozen=True)
class PriorSummary:
    """The depth prior over a benchmark; all errors in px of EPE, means over pairs, None if there is nothing to average.

    Attributes:
        pairs: how many there are.
        fell_back: how many of them fell back.
        epe_fitted: of the pairs that were fitted.
        epe_fell_back: of those that fell back.
        zero_start_cost: of the pairs that were fitted, what a start from zero costs; None if it was not measured.
    """

    pairs: int
    fell_back: int
    epe_fitted: float | None
    epe_fell_back: float | None
    zero_start_cost: float | None

    @property
    def share(self) -> float:
        """Pairs that fell back, per cent."""
        return 100 * self.fell_back / self.pairs

    @property
    def difference(self) -> float | None:
        """EPE of the pairs that fell back minus that of the others, px."""
        if self.epe_fitted is None or self.epe_fell_back is None:
            return None
        return self.epe_fell_back - self.epe_fitted

    def to_json(self) -> dict[str, Any]:
        """Plain dictionary for `json.dump`."""
        return {
            "pairs": self.pairs,
            "fell_back": self.fell_back,
            "fell_back_percent": self.share,
            "EPE_fitted": self.epe_fitted,
            "EPE_fell_back": self.epe_fell_back,
            "EPE_difference": self.difference,
            "EPE_zero_start_cost": self.zero_start_cost,
        }


def summarise_prior(records: Sequence[PriorRecord]) -> PriorSummary | None:
    """Put the records of a benchmark together; None if there are none, as for a method without the depth prior."""
    if not records:
        return None
    fitted = [record for record in records if not record.fell_back]
    return PriorSummary(
        pairs=len(records),
        fell_back=len(records) - len(fitted),
        epe_fitted=_mean(record.epe for record in fitted),
        epe_fell_back=_mean(record.epe for record in records if record.fell_back),
        zero_start_cost=_mean(
            record.zero_start_epe - record.epe
            for record in fitted
            if record.zero_start_epe is not None and record.epe is not None
        ),
    )


def end_point_error(
    protocol: BenchmarkProtocol, sample: StereoSample, prediction: NDArray[np.floating[Any]]
) -> float | None:
    """EPE of a prediction in px over the pixels that the protocol counts, also where it scores depth; None without any.

    prediction: float32 [H, W], disparity in px of `sample.left`.
    """
    assert sample.disparity is not None
    regions = score_disparity(
        prediction,
        sample.disparity,
        valid=counted_pixels(protocol, sample),
        metrics=["EPE"],
        regions=["all"],
        name=sample.name,
    )
    return regions["all"].value("EPE")


def counted_pixels(protocol: BenchmarkProtocol, sample: StereoSample) -> NDArray[np.bool_]:
    """Where the protocol counts, bool [H, W], in terms of the disparity, also where it scores depth."""
    assert sample.disparity is not None
    assert sample.valid is not None
    valid = sample.valid
    if protocol.depth_range is not None:
        assert sample.calibration is not None
        depth = disparity_to_depth(sample.disparity, sample.calibration) if sample.depth is None else sample.depth
        valid = valid & (depth > protocol.depth_range.minimum) & (depth < protocol.depth_range.maximum)
    return valid if protocol.max_disparity is None else valid & (sample.disparity < protocol.max_disparity)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
