"""The whole network as one ONNX graph, top to bottom as `linstereo.model.linstereo` has it.

Inputs are the images as cameras give them, uint8 [H, W, 3] RGB of any size from 32 px a side; the output is the
disparity, float32 [H, W] in px. The refinement iterations are written out one after the other. A network that starts
from monocular depth also takes sparse matches, see `linstereo.export.depth_prior`.
"""

from typing import NamedTuple

import numpy as np

from linstereo.export.backbone_features import Features
from linstereo.export.backbones import backbone_features
from linstereo.export.confidence import CONFIDENCE, TOLERANCE, Outcome, confidence
from linstereo.export.correlation_start import StartValues, start_from_volumes, with_coarse_pass
from linstereo.export.depth_prior import MATCHES, PRIOR, PRIOR_VALUES, depth_prior_start
from linstereo.export.graph import Graph, Value, cut, pooled, resized, side, transpose
from linstereo.export.layers import concat, conv, convolution
from linstereo.export.refinement import Grid, grid, image_guide, motion_features, residual, updated, upsampled
from linstereo.export.volumes import Volume, volumes
from linstereo.model.correlation_start import CorrelationStart
from linstereo.model.depth_prior import DepthPriorStart
from linstereo.model.linstereo import LinStereo
from linstereo.model.starts import ZeroStart
from linstereo.model.strides import PAD_TO

__all__ = [
    "CONFIDENCE",
    "DISPARITY",
    "LEFT",
    "MATCHES",
    "PRIOR",
    "PRIOR_VALUES",
    "RIGHT",
    "TOLERANCE",
    "write_network",
]

LEFT, RIGHT, DISPARITY = Value("left"), Value("right"), "disparity"


class Evidence(NamedTuple):
    """What refinement starts from and keeps looking at; see `linstereo.model.linstereo.Evidence`."""

    volumes: list[Volume]
    grids: list[Grid]
    hidden: list[Value]
    start: StartValues
    guide: Value | None


class Refined(NamedTuple):
    """Where refinement ends."""

    disparity: Value  # [1, 1, h, w], px of the 1/4 map
    before: Value  # the same before the last iteration
    hidden: list[Value]  # of all scales, finest first
    full: Value  # the disparity upsampled, [1, 1, 4 h, 4 w], px of the full map


def write_network(g: Graph, model: LinStereo, iterations: int, *, with_confidence: bool) -> None:
    """Add all nodes from the inputs `left` and `right` to the output `disparity`.

    Also those from the input `tolerance` to the output `confidence` if they are asked for; the model has to have
    learned it.
    """
    rows, columns = side(g, LEFT, 0), side(g, LEFT, 1)
    pair = image_pair(g)
    coarse = coarse_disparity(g, model, pair, model.start) if isinstance(model.start, CorrelationStart) else None
    evidence = prepared(g, model, pair, coarse=coarse)
    end = refined(g, model, evidence, iterations)

    def visible(full: Value) -> Value:
        return cut(g, cut(g, full, 2, 0, rows), 3, 0, columns)  # without what was padded

    shown = visible(end.full)
    g.op("Max", g.op("Squeeze", shown, g.integers(0, 1)), g.constant(0.0), name=DISPARITY)
    if with_confidence:
        assert model.confidence_head is not None
        outcome = Outcome(
            hidden=end.hidden[0],
            volume=evidence.volumes[0],
            disparity=end.disparity,
            before=end.before,
            start=evidence.start.disparity,
            full=padded(g, shown),
            cues=evidence.start.cues,
        )
        sure = confidence(g, model.confidence_head, outcome, TOLERANCE)
        g.op("Squeeze", visible(sure), g.integers(0, 1), name=CONFIDENCE)


def coarse_disparity(
    g: Graph, model: LinStereo, pair: Value, start: CorrelationStart, *, passes: int | None = None
) -> Value | None:
    """What all coarse passes, or so many, find for padded images: [1, 1, H'/4, W'/4] in px of that map; None without.

    See `linstereo.model.correlation_start.CorrelationStart.coarse_disparity`.
    """
    passes = start.coarse_passes if passes is None else passes
    if not passes:
        return None
    half = padded(g, half_size(g, pair))
    before = coarse_disparity(g, model, half, start, passes=passes - 1)
    found = refined(g, model, prepared(g, model, half, coarse=before), start.coarse_iterations).full
    found = cut(g, cut(g, found, 2, 0, _half(g, side(g, pair, 2))), 3, 0, _half(g, side(g, pair, 3)))
    return g.op("Mul", pooled(g, found, 2, 2), g.constant(0.5))


def half_size(g: Graph, images: Value) -> Value:
    """Images [2, 3, h, w] of even sides at half the size, by means of 2 x 2 pixels.

    A convolution, like the layers that see the images: pooling would have them in another order in memory.
    """
    mean = np.zeros((3, 3, 2, 2), np.float32)
    mean[range(3), range(3)] = 0.25
    return convolution(g, images, mean, None, stride=2, pad=0)


def image_pair(g: Graph) -> Value:
    """Both images as float32 [2, 3, H', W'] in [0, 1], padded."""
    both = g.op("Concat", *[g.op("Unsqueeze", image, g.integers(0)) for image in (LEFT, RIGHT)], axis=0)
    values = transpose(g, g.op("Cast", both, to=1), 0, 3, 1, 2)
    return padded(g, g.op("Div", values, g.constant(255.0)))


def padded(g: Graph, images: Value) -> Value:
    """Repeat the right and bottom edge up to the next multiple."""
    missing = [g.op("Mod", g.op("Neg", side(g, images, axis)), g.integers(PAD_TO)) for axis in (2, 3)]
    pads = g.op("Concat", g.integers(0, 0, 0, 0, 0, 0), *missing, axis=0)
    return g.op("Pad", images, pads, mode="edge")


def refined(g: Graph, model: LinStereo, evidence: Evidence, iterations: int) -> Refined:
    """All iterations and the upsampling."""
    disparity, hidden = evidence.start.disparity, evidence.hidden
    before = disparity
    for _ in range(iterations):
        motion: list[Value | None] = [None] * len(hidden)
        for i, (volume, encoder) in enumerate(zip(evidence.volumes, model.motion_encoders, strict=True)):
            scaled = disparity if i == 0 else g.op("Mul", pooled(g, disparity, 2**i, 2**i), g.constant(0.5**i))
            motion[i] = motion_features(g, encoder, volume, scaled)  # type: ignore[arg-type]
        hidden = updated(g, model.updater, hidden, motion, evidence.grids)
        before, disparity = disparity, g.op("Add", disparity, residual(g, model.residual_head, hidden[0]))
    return Refined(disparity, before, hidden, upsampled(g, model.upsampler, disparity, hidden[0], evidence.guide))


def prepared(g: Graph, model: LinStereo, pair: Value, *, coarse: Value | None) -> Evidence:
    """Everything before refinement, without a coarse pass unless `coarse` holds its result."""
    features = backbone_features(g, model.backbone, pair, depth=model.start.needs_depth)
    cost_volumes = volumes(g, features.pyramid, model.cost_volumes)
    start = starting_point(g, model, features, cost_volumes, coarse)
    left = cut(g, pair, 0, 0, 1)
    hidden = []
    for i, project in enumerate(model.hidden_projection):
        feature = cut(g, features.pyramid[i], 0, 0, 1)
        if model.start.cues:
            feature = concat(g, feature, start.cues if i == 0 else resized(g, start.cues, 0.5**i))
        hidden.append(g.op("Tanh", conv(g, feature, project)))  # type: ignore[arg-type]
    widths = model.config.hidden_widths
    return Evidence(
        volumes=cost_volumes,
        grids=[grid(g, h, width // model.updater.heads) for h, width in zip(hidden, widths, strict=True)],
        hidden=hidden,
        start=start,
        guide=None if model.upsampler.guide is None else image_guide(g, model.upsampler.guide, left),
    )


def starting_point(
    g: Graph, model: LinStereo, features: Features, cost_volumes: list[Volume], coarse: Value | None
) -> StartValues:
    """The start at 1/4."""
    if isinstance(model.start, CorrelationStart):
        start = start_from_volumes(g, cost_volumes)
        return with_coarse_pass(g, start, coarse) if model.start.coarse_iterations else start
    sides = g.op("Shape", features.pyramid[0], start=2)
    if isinstance(model.start, DepthPriorStart):
        assert features.depth is not None
        disparity = depth_prior_start(g, features.depth, sides, min_inlier_share=model.start.min_inlier_share)
        return StartValues(disparity, disparity)
    assert isinstance(model.start, ZeroStart)
    zero = g.op("Expand", g.constant(np.zeros((1, 1, 1, 1))), g.op("Concat", g.integers(1, 1), sides, axis=0))
    return StartValues(zero, zero)


def _half(g: Graph, length: Value) -> Value:
    return g.op("Div", length, g.integers(2))
