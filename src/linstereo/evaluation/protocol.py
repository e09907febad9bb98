"""How each benchmark is scored: split, pixels, metrics and averages, fixed in one place and told in words.

The averages follow the evaluation code that most published tables come from (that of RAFT-Stereo and its
descendants): every image gives one EPE and the mean is taken over images; the shares of bad pixels on KITTI
and SceneFlow are taken over all pixels of all images, as in KITTI's own development kit, and over images
elsewhere. Both averages of every metric are always measured; a protocol only says which one is the headline.
"""

import functools
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from linstereo.data.datasets.tank import PARTS, TankSample
from linstereo.data.sample import StereoSample
from linstereo.errors import InputError
from linstereo.evaluation.metrics import (
    DEPTH_METRICS,
    DepthRange,
    bad_threshold,
    score_depth,
    score_disparity,
)
from linstereo.evaluation.scores import PART_REGIONS, REGIONS, Average, ImageScore
from linstereo.geometry.depth import disparity_to_depth


@dataclass(frozen=True)
class BenchmarkProtocol:
    """The rules by which one benchmark is scored.

    name: what the user calls it; unique.
    dataset, split: what `linstereo.data.datasets.catalogue.open_dataset` is asked for.
    title: heading of reports.
    pairs: what the split holds, in words.
    domain: "disparity" (px) or "depth" (metres, from disparity and calibration).
    metrics: the metrics shown, in order; `linstereo.evaluation.metrics` measures more.
    regions: the regions shown, in order; those a dataset has no labels for stay empty.
    pixel_averaged: the metrics whose headline is the mean over pixels; all others are means over images.
    max_disparity: only true disparities below this count, px; None counts all.
    depth_range: only true depths inside count, metres; given exactly for the depth domain.
    truth: which pixels have ground truth, in words.
    resolution: size of the images, in words.
    """

    name: str
    dataset: str
    split: str | None
    title: str
    pairs: str
    domain: Literal["disparity", "depth"]
    metrics: tuple[str, ...]
    truth: str
    resolution: str
    regions: tuple[str, ...] = ("all",)
    pixel_averaged: tuple[str, ...] = ()
    max_disparity: float | None = None
    depth_range: DepthRange | None = None

    def average_of(self, metric: str) -> Average:
        """Which mean of this metric is the benchmark's headline."""
        return "pixel" if metric in self.pixel_averaged else "image"


_KITTI_TRUTH = (
    "every pixel with a laser measurement (disp_occ), whether the right camera sees it or not; "
    "the pixels absent from disp_noc are the occluded ones"
)
_MIDDLEBURY_TRUTH = (
    "every pixel with a finite disparity; mask0nocc.png says which of them the right camera sees; unlike the "
    "weighted ranking of the official site, every scene counts the same"
)
_AS_STORED = "the images as they are stored"


def _middlebury(letter: str, name: str) -> BenchmarkProtocol:
    size = {"F": "full", "H": "half", "Q": "quarter"}[letter]
    return BenchmarkProtocol(
        name=name,
        dataset="middlebury",
        split=f"training{letter}",
        title=f"Middlebury ({letter})",
        pairs="the 15 training scenes of Middlebury version 3",
        domain="disparity",
        metrics=("EPE", "bad2"),
        regions=REGIONS,
        truth=_MIDDLEBURY_TRUTH,
        resolution=f"the official {size}-resolution files, predicted and scored at that size",
    )


def _old_middlebury(year: str, *, split: str, pairs: str, view: str) -> BenchmarkProtocol:
    return BenchmarkProtocol(
        name=f"middlebury{year}",
        dataset=f"middlebury{year}",
        split=split,
        title=f"Middlebury {year}",
        pairs=pairs,
        domain="disparity",
        metrics=("EPE", "bad1", "bad2"),
        truth=f"every pixel of {view} whose disparity is not 0 in the file; there are no occlusion labels",
        resolution=_AS_STORED,
    )


def _sceneflow(render: str, name: str, title: str) -> BenchmarkProtocol:
    return BenchmarkProtocol(
        name=name,
        dataset="sceneflow",
        split=f"test-{render}",
        title=title,
        pairs=f"the TEST part of FlyingThings3D, {render}",
        domain="disparity",
        metrics=("EPE", "bad1", "bad3"),
        pixel_averaged=("bad1", "bad3"),
        max_disparity=192,
        truth="every pixel, the disparity being dense",
        resolution="the images as they are stored, 960 x 540",
    )


_PROTOCOLS = (
    _sceneflow("finalpass", "sceneflow", "SceneFlow (final pass)"),
    _sceneflow("cleanpass", "sceneflow-cleanpass", "SceneFlow (clean pass)"),
    BenchmarkProtocol(
        name="kitti2012",
        dataset="kitti2012",
        split="training",
        title="KITTI 2012",
        pairs="the 194 training pairs, whose ground truth is public",
        domain="disparity",
        metrics=("EPE", "bad3"),
        regions=REGIONS,
        pixel_averaged=("bad3",),
        truth=_KITTI_TRUTH,
        resolution=_AS_STORED,
    ),
    BenchmarkProtocol(
        name="kitti2015",
        dataset="kitti2015",
        split="training",
        title="KITTI 2015",
        pairs="the 200 training pairs, whose ground truth is public",
        domain="disparity",
        metrics=("EPE", "bad3", "D1"),
        regions=REGIONS,
        pixel_averaged=("bad3", "D1"),
        truth=_KITTI_TRUTH,
        resolution=_AS_STORED,
    ),
    _middlebury("H", "middlebury"),
    _middlebury("F", "middlebury-f"),
    _middlebury("Q", "middlebury-q"),
    _old_middlebury("2001", split="all", pairs="the scenes of 2001", view="the left image"),
    _old_middlebury("2003", split="quarter", pairs="cones and teddy", view="im2"),
    _old_middlebury("2005", split="third", pairs="the 6 scenes of 2005 with ground truth", view="view1"),
    _old_middlebury("2006", split="third", pairs="the 21 scenes of 2006", view="view1"),
    BenchmarkProtocol(
        name="eth3d",
        dataset="eth3d",
        split="training",
        title="ETH3D",
        pairs="the 27 two-view training pairs",
        domain="disparity",
        metrics=("EPE", "bad1"),
        regions=REGIONS,
        truth=(
            "every pixel with a finite disparity; mask0nocc.png says which of them the right camera sees "
            "(the official ranking counts only those)"
        ),
        resolution=_AS_STORED,
    ),
    BenchmarkProtocol(
        name="booster",
        dataset="booster",
        split="trainQ",
        title="Booster (Q)",
        pairs="the 228 balanced training pairs of Booster",
        domain="disparity",
        metrics=("EPE", "bad2"),
        regions=REGIONS,
        truth="every pixel with a disparity above 0, transparent and mirroring surfaces included",
        resolution=(
            "a quarter of the width and height: the first pixel of each block of 4 x 4, as in Stereo Anywhere's "
            "evaluation code, its disparity divided by 4; errors are pixels of the small image"
        ),
    ),
    BenchmarkProtocol(
        name="tartanair-uw",
        dataset="tartanair-uw",
        split="all",
        title="TartanAir-UW",
        pairs="the 22 underwater (ocean) sequences of TartanAir, 13,583 pairs",
        domain="depth",
        metrics=DEPTH_METRICS,
        depth_range=DepthRange(0.1, 50.0),
        truth="every pixel with a depth inside the range, the depth being dense; f = 320 px, baseline 0.25 m",
        resolution="the images as they are stored, 640 x 480",
    ),
    BenchmarkProtocol(
        name="squid",
        dataset="squid",
        split="all",
        title="SQUID",
        pairs="the 57 real underwater pairs of SQUID's 4 scenes",
        domain="depth",
        metrics=DEPTH_METRICS,
        depth_range=DepthRange(0.1, 50.0),
        truth=(
            "every pixel with a measured point, as depth along the optical axis of the rectified left camera; the "
            "paper does not print its range, so that of TartanAir-UW is used, the default of the authors' other code"
        ),
        resolution="the published images (2737 x 1827) after rectification, with the calibration of that size",
    ),
    BenchmarkProtocol(
        name="tank",
        dataset="tank",
        split=None,
        title="Laboratory tank",
        pairs="the real pairs of the water tank, closer than 2 m",
        domain="depth",
        metrics=DEPTH_METRICS,
        regions=("all", *PART_REGIONS),
        depth_range=DepthRange(0.1, 2.0),
        truth=("every pixel on the target (frame and ropes), rendered from its CAD model; no background"),
        resolution=_AS_STORED,
    ),
    BenchmarkProtocol(
        name="seastereo",
        dataset="seastereo",
        split="test",
        title="SeaStereo",
        pairs="the held-out part of the rendered underwater pairs",
        domain="disparity",
        metrics=("EPE", "bad1", "bad3"),
        truth="every pixel that shows a surface, the disparity being dense",
        resolution=_AS_STORED,
    ),
    BenchmarkProtocol(
        name="folder",
        dataset="folder",
        split=None,
        title="Own pairs",
        pairs="every pair of the folder that has ground truth",
        domain="disparity",
        metrics=("EPE", "bad1", "bad2", "bad3", "D1"),
        regions=REGIONS,
        truth="every pixel with a finite disparity above 0",
        resolution=_AS_STORED,
    ),
    BenchmarkProtocol(
        name="folder-depth",
        dataset="folder",
        split=None,
        title="Own pairs, depth",
        pairs="every pair of the folder that has ground truth and a calibration",
        domain="depth",
        metrics=DEPTH_METRICS,
        regions=REGIONS,
        depth_range=DepthRange(0.1, 50.0),
        truth="every pixel with a disparity or depth above 0; disparity becomes depth by the calibration",
        resolution=_AS_STORED,
    ),
)
_BY_NAME = {protocol.name: protocol for protocol in _PROTOCOLS}


def protocol_names() -> tuple[str, ...]:
    """Names of all protocols, in the order of the paper's tables."""
    return tuple(_BY_NAME)


def get_protocol(name: str) -> BenchmarkProtocol:
    """The protocol of this name; `InputError` with the known names otherwise."""
    if name not in _BY_NAME:
        raise InputError(f"there is no benchmark {name!r}; choose among {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def score_sample(
    protocol: BenchmarkProtocol, sample: StereoSample, prediction: NDArray[np.floating[Any]]
) -> ImageScore:
    """Measure one prediction by the rules of a protocol.

    prediction: float32 [H, W], disparity in px of `sample.left`, at its size. All metrics of the domain are
    measured in all regions the sample has, not only those the protocol shows.
    """
    if sample.valid is None or sample.disparity is None:
        raise InputError(f"{sample.name} has no ground truth, which {protocol.title} needs; use a split that has it")
    if protocol.depth_range is None:
        regions = score_disparity(
            prediction,
            sample.disparity,
            valid=sample.valid,
            occluded=sample.occluded,
            max_disparity=protocol.max_disparity,
            name=sample.name,
        )
        return ImageScore(name=sample.name, regions=regions)
    if sample.calibration is None:
        raise InputError(f"{sample.name} has no calibration, which {protocol.title} needs to turn disparity into depth")
    depth = sample.depth
    if depth is None:
        depth = disparity_to_depth(sample.disparity, sample.calibration)
    score = functools.partial(
        score_depth,
        prediction,
        depth,
        calibration=sample.calibration,
        depth_range=protocol.depth_range,
        name=sample.name,
    )
    regions = score(valid=sample.valid, occluded=sample.occluded)
    if isinstance(sample, TankSample) and sample.parts is not None:
        for part in PART_REGIONS:
            regions[part] = score(valid=sample.valid & (sample.parts == PARTS[part]), regions=["all"])["all"]
    return ImageScore(name=sample.name, regions=regions)


def describe(protocol: BenchmarkProtocol, *, part: str = "") -> str:
    """The whole protocol in plain words, one rule to a line, to be printed with every result.

    part: how much of the benchmark was measured if that is not all of it, such as "3 of 15 scenes".
    """
    whole = f"{protocol.pairs}{f' (split {protocol.split})' if protocol.split else ''}"
    lines = [
        f"{protocol.title} (protocol {protocol.name})",
        f"Pairs: only {part}; the whole would be {whole}." if part else f"Pairs: {whole}.",
        f"Ground truth: {protocol.truth}.",
        f"Range: {_describe_range(protocol)}.",
        f"Regions: {'; '.join(_REGION_WORDS[region] for region in protocol.regions)}.",
        f"Metrics: {'; '.join(f'{metric}, {describe_metric(metric)}' for metric in protocol.metrics)}.",
        f"Averages: {_describe_averages(protocol)}.",
        f"Size: {protocol.resolution}; the prediction has the size of the left image, nothing is resized.",
        f"Odd predictions: {_ODD_WORDS[protocol.domain]}.",
    ]
    return "\n".join(lines)


def describe_metric(metric: str) -> str:
    """What a metric is, in a few words with its unit."""
    threshold = bad_threshold(metric)
    if threshold is not None:
        return f"share of pixels off by more than {threshold:g} px, in per cent"
    return _METRIC_WORDS[metric]


_REGION_WORDS = {
    "all": "all, every pixel with ground truth",
    "nonocc": "nonocc, those that both cameras see",
    "occ": "occ, those that only the left camera sees",
    "frame": "frame, those on the rigid parts of the target",
    "rope": "rope, those on its ropes",
}
_METRIC_WORDS = {
    "EPE": "mean absolute error of the disparity in px",
    "D1": "share of pixels off by more than 3 px and more than 5 % of the true disparity, in per cent",
    "AbsRel": "mean of the error relative to the true depth",
    "SqRel": "mean of the squared error over the true depth, in m",
    "RMSE": "root of the mean squared error of the depth, in m",
    "LogRMSE": "root of the mean squared difference of the natural logarithms of the depths",
    "A1": "fraction of pixels within a factor of 1.25 of the true depth",
    "A2": "fraction of pixels within a factor of 1.25^2",
    "A3": "fraction of pixels within a factor of 1.25^3",
}
_ODD_WORDS = {
    "disparity": (
        "NaN or infinity counts as wrong in the shares of bad pixels and as disparity 0 in EPE; "
        "an image without ground truth in a region is left out of that region's mean"
    ),
    "depth": (
        "a disparity (plus doffs) of 0 or less lies at the far end of the range; so does NaN or infinity, "
        "which also counts as wrong in A1 to A3; an image without ground truth in the range is left out of "
        "the mean"
    ),
}


def _describe_range(protocol: BenchmarkProtocol) -> str:
    if protocol.depth_range is not None:
        low, high = protocol.depth_range
        return (
            f"true depths between {low:g} and {high:g} m, both ends excluded; "
            "the predicted depth, f * B / (disparity + doffs), is clamped to the same range"
        )
    if protocol.max_disparity is not None:
        return f"true disparities below {protocol.max_disparity:g} px; predictions are not limited"
    return "no limit on the disparity"


def _describe_averages(protocol: BenchmarkProtocol) -> str:
    by_image = [metric for metric in protocol.metrics if protocol.average_of(metric) == "image"]
    by_pixel = [metric for metric in protocol.metrics if protocol.average_of(metric) == "pixel"]
    parts = []
    if by_image:
        parts.append(f"{', '.join(by_image)} as the mean over images, each image counting the same")
    if by_pixel:
        parts.append(f"{', '.join(by_pixel)} over the pixels of all images, each pixel counting the same")
    return "; ".join(parts)
