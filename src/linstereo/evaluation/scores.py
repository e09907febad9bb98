"""Exact counts and sums of measured images: from them come the figures of an image and both averages.

An image is kept as counts (int) and sums (float64) per region and metric, and nothing is averaged before the
end. A run that was interrupted, or spread over several processes, therefore ends in the same bits as a single
run: its records are brought back into dataset order (`merge_scores`) and every sum over images is rounded
once (`math.fsum`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from linstereo.errors import InputError

REGIONS = ("all", "nonocc", "occ")
PART_REGIONS = ("frame", "rope")
"""Parts of the target of the laboratory tank, where its samples label them."""

Average = Literal["image", "pixel"]

_MEAN_ERRORS = ("EPE", "AbsRel", "SqRel")
_ROOT_MEAN_SQUARES = ("RMSE", "LogRMSE")
_FRACTIONS = ("A1", "A2", "A3")


@dataclass(frozen=True)
class RegionSums:
    """The counts and sums of one region of one image, or of several images pooled.

    pixels: counted pixels.
    non_finite: how many of them have a NaN or infinite prediction.
    sums: what each metric averages: the number of pixels (int) for badK, D1 and A1 to A3; the sum of absolute
        or relative errors (float) for EPE, AbsRel and SqRel; the sum of squares (float) for RMSE and LogRMSE.
    """

    pixels: int
    non_finite: int
    sums: Mapping[str, int | float]

    def value(self, metric: str) -> float | None:
        """The metric over the pixels of this region, in its own unit; None if there is no pixel."""
        if metric not in self.sums:
            raise InputError(f"{metric} was not measured; measured are {', '.join(self.sums)}")
        if self.pixels == 0:
            return None
        total = self.sums[metric]
        if metric in _ROOT_MEAN_SQUARES:
            return math.sqrt(total / self.pixels)
        return (100 * total if is_percentage(metric) else total) / self.pixels

    def values(self) -> dict[str, float | None]:
        """All metrics of this region by name."""
        return {metric: self.value(metric) for metric in self.sums}


@dataclass(frozen=True)
class ImageScore:
    """Everything measured on one image: its name in the dataset, and the sums of each region it has."""

    name: str
    regions: Mapping[str, RegionSums]

    def to_json(self) -> dict[str, Any]:
        """Plain dictionary for `json.dump`; `from_json` gives back an equal score, to the last bit."""
        return {
            "name": self.name,
            "regions": {
                region: {"pixels": part.pixels, "non_finite": part.non_finite, "sums": dict(part.sums)}
                for region, part in self.regions.items()
            },
        }

    @classmethod
    def from_json(cls, record: Any) -> "ImageScore":
        """Read what `to_json` wrote; anything else raises `InputError`."""
        if not isinstance(record, dict) or not isinstance(record.get("name"), str):
            raise InputError("a stored image score has no name; delete the damaged result file and run again")
        name = record["name"]
        try:
            regions = {region: _region_from_json(region, part) for region, part in record["regions"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"the stored score of {name} is damaged ({error}); delete the result file and run again"
            ) from error
        return cls(name=name, regions=regions)


@dataclass(frozen=True)
class RegionResult:
    """One region over a whole benchmark, averaged in both ways.

    image_mean: mean of the images' own figures, every image counting the same.
    pixel_mean: the figure over the pixels of all images together, every pixel counting the same; RMSE and
        LogRMSE are the square root of the pooled mean square.
    images: images with at least one counted pixel; only these enter the means, which are None without any.
    images_without_pixels: images of which no pixel counts here.
    images_without_labels: images whose dataset does not label this region.
    pixels, non_finite_pixels: counted pixels, and those of them with a NaN or infinite prediction.
    """

    region: str
    image_mean: Mapping[str, float | None]
    pixel_mean: Mapping[str, float | None]
    images: int
    images_without_pixels: int
    images_without_labels: int
    pixels: int
    non_finite_pixels: int

    def mean(self, metric: str, average: Average) -> float | None:
        """The metric averaged over images or over pixels; None if there was nothing to average."""
        means = self.image_mean if average == "image" else self.pixel_mean
        if means and metric not in means:
            raise InputError(f"{metric} was not measured; measured are {', '.join(means)}")
        return means.get(metric)

    def to_json(self) -> dict[str, Any]:
        """Plain dictionary for `json.dump`, without the region's name."""
        return {
            "image_mean": dict(self.image_mean),
            "pixel_mean": dict(self.pixel_mean),
            "images": self.images,
            "images_without_pixels": self.images_without_pixels,
            "images_without_labels": self.images_without_labels,
            "pixels": self.pixels,
            "non_finite_pixels": self.non_finite_pixels,
        }


def is_percentage(metric: str) -> bool:
    """Whether the metric is given in per cent (badK and D1); A1 to A3 are fractions of 1."""
    return metric == "D1" or metric.startswith("bad")


def column_key(region: str, metric: str) -> str:
    """Name of a table's column: the metric alone for the region `all`, else such as `occ/EPE`."""
    return metric if region == "all" else f"{region}/{metric}"


def merge_scores(parts: Iterable[Iterable[ImageScore]], *, order: Sequence[str]) -> tuple[ImageScore, ...]:
    """Join the scores of several processes, or of an interrupted run and its sequel, into dataset order.

    order: the names of all images of the benchmark. Images not scored yet are simply absent from the result.
    An image scored twice must have the same score both times, and every image must be one of `order`.
    """
    place = {name: index for index, name in enumerate(order)}
    merged: dict[str, ImageScore] = {}
    for part in parts:
        for score in part:
            if score.name not in place:
                raise InputError(
                    f"there is a score for {score.name}, which is not in the dataset; "
                    "delete the old result file or use the dataset it was made with"
                )
            if merged.setdefault(score.name, score) != score:
                raise InputError(
                    f"there are two different scores for {score.name}; delete the old results and run again"
                )
    return tuple(sorted(merged.values(), key=lambda score: place[score.name]))


def aggregate(scores: Sequence[ImageScore], *, regions: Sequence[str] = REGIONS) -> dict[str, RegionResult]:
    """Average a benchmark over its images and over its pixels, for each of `regions`.

    The result does not depend on the order of `scores`. A region that no image has comes back with None for
    every metric.
    """
    measured = [part for score in scores for part in score.regions.values()]
    metrics = list(measured[0].sums) if measured else []
    if any(part.sums.keys() != set(metrics) for part in measured):
        raise InputError("the images were not all measured with the same metrics; delete the old results and run again")
    return {region: _aggregate_region(region, scores, metrics=metrics) for region in regions}


def _aggregate_region(region: str, scores: Sequence[ImageScore], *, metrics: Sequence[str]) -> RegionResult:
    parts = [score.regions[region] for score in scores if region in score.regions]
    pooled = RegionSums(
        pixels=sum(part.pixels for part in parts),
        non_finite=sum(part.non_finite for part in parts),
        sums={metric: _exact_sum([part.sums[metric] for part in parts]) for metric in metrics},
    )
    image_mean: dict[str, float | None] = {}
    for metric in metrics:
        values = [value for part in parts if (value := part.value(metric)) is not None]
        image_mean[metric] = math.fsum(values) / len(values) if values else None
    images = sum(part.pixels > 0 for part in parts)
    return RegionResult(
        region=region,
        image_mean=image_mean,
        pixel_mean=pooled.values(),
        images=images,
        images_without_pixels=len(parts) - images,
        images_without_labels=len(scores) - len(parts),
        pixels=pooled.pixels,
        non_finite_pixels=pooled.non_finite,
    )


def _exact_sum(values: Sequence[int | float]) -> int | float:
    if all(isinstance(value, int) for value in values):
        return sum(values)
    return math.fsum(values)


def _region_from_json(region: str, part: Any) -> RegionSums:
    if region not in (*REGIONS, *PART_REGIONS):
        raise ValueError(f"unknown region {region}")
    pixels, non_finite, sums = part["pixels"], part["non_finite"], part["sums"]
    if type(pixels) is not int or type(non_finite) is not int or not 0 <= non_finite <= pixels:
        raise ValueError(f"{region} has {pixels!r} pixels, {non_finite!r} of them not finite")
    for metric, total in sums.items():
        is_count = is_percentage(metric) or metric in _FRACTIONS
        if not is_count and metric not in (*_MEAN_ERRORS, *_ROOT_MEAN_SQUARES):
            raise ValueError(f"unknown metric {metric}")
        if type(total) is not (int if is_count else float) or not 0 <= total < math.inf:
            raise ValueError(f"the sum of {metric} is {total!r}")
        if is_count and total > pixels:
            raise ValueError(f"{metric} counts {total} of {pixels} pixels")
    return RegionSums(pixels=pixels, non_finite=non_finite, sums=dict(sums))
