"""The confidence head as ONNX nodes; see `linstereo.model.confidence` for what it sees and says."""

import math
from typing import NamedTuple

import numpy as np
from torch import nn

from linstereo.export.graph import Graph, Value, cut, side, transpose
from linstereo.export.layers import concat, conv, gelu
from linstereo.export.volumes import PRECISE, Volume, lookup
from linstereo.model.confidence import INSIDE, ConfidenceHead
from linstereo.model.strides import FINEST

TOLERANCE, CONFIDENCE = Value("tolerance"), "confidence"


class Outcome(NamedTuple):
    """What refinement ends with, px of the 1/4 map unless said otherwise; as `linstereo.model.confidence.Outcome`."""

    hidden: Value  # finest hidden state, [1, hidden, h, w]
    volume: Volume  # the finest one
    disparity: Value  # [1, 1, h, w]
    before: Value  # the disparity before the last iteration
    start: Value  # the disparity that refinement started from
    full: Value  # the disparity upsampled, [1, 1, 4 h, 4 w], px of the full map
    cues: Value  # of the start, [1, cues, h, w]


def confidence(g: Graph, head: ConfidenceHead, outcome: Outcome, tolerance: Value) -> Value:
    """Probability [1, 1, 4 h, 4 w] that the disparity is off by less than `tolerance` [1] px of the full map or 5 %."""
    scaled = g.op("Mul", outcome.disparity, g.constant(float(FINEST)))
    updates = [g.op("Sub", outcome.disparity, earlier) for earlier in (outcome.before, outcome.start)]
    updates = [g.op("Mul", update, g.constant(float(FINEST))) for update in updates]
    far = g.op("Div", _log1p(g, g.op("Max", scaled, g.constant(0.0))), g.constant(4.0))
    detail = g.op("Sub", g.op("SpaceToDepth", outcome.full, blocksize=FINEST), scaled)  # [1, 16, h, w]
    parts = [
        outcome.hidden,
        g.op("Unsqueeze", transpose(g, lookup(g, outcome.volume, outcome.disparity), 2, 0, 1), g.integers(0)),
        *(_compressed(g, update) for update in updates),
        far,
        _inside(g, outcome.disparity),
        _compressed(g, detail),
        *([cut(g, outcome.cues, 1, 0, head.cues)] if head.cues else []),
    ]
    octaves = g.op("Div", g.op("Log", tolerance), g.constant(math.log(2)))  # [1]
    told = g.op("Add", g.op("Sub", outcome.disparity, outcome.disparity), octaves)
    x = concat(g, *parts, told)
    for layer in head.layers:
        x = conv(g, x, layer) if isinstance(layer, nn.Conv2d) else gelu(g, x)
    return g.op("Sigmoid", g.op("DepthToSpace", conv(g, x, head.out), blocksize=FINEST, mode="CRD"))


def _inside(g: Graph, disparity: Value) -> Value:
    """How far the match lies inside of the right image, from -1 to 1."""
    width = g.op("Squeeze", g.op("Cast", side(g, disparity, 3), to=1))
    columns = g.op("Range", g.constant(0.0), width, g.constant(1.0))
    cells = g.op("Div", g.op("Sub", columns, disparity), g.constant(INSIDE))
    return _precise(g, "Max", g.op("Min", cells, g.constant(1.0)), g.constant(-1.0))


def _compressed(g: Graph, x: Value) -> Value:
    """Signed logarithm: small values as they are, large ones not much larger than 1."""
    zero = g.constant(0.0)
    above, below = (_log1p(g, g.op("Max", part, zero)) for part in (x, g.op("Neg", x)))
    return _precise(g, "Div", g.op("Sub", above, below), g.constant(math.log(8)))


def _log1p(g: Graph, x: Value) -> Value:
    """Of values from 0 on."""
    return g.op("Log", g.op("Add", x, g.constant(np.float32(1))))


def _precise(g: Graph, kind: str, *inputs: Value) -> Value:
    """A node whose inputs do not survive rounding to half precision."""
    return g.op(kind, *inputs, name=g.fresh(PRECISE, 1)[0])
