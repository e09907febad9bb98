"""Depth prior initialisation as ONNX nodes; see `linstereo.model.depth_prior` for what it does and why.

The sparse matches are an input of the graph, because SIFT is no tensor operation; the robust fit to them is part of it.
It runs in float32 where the network's own runs in float64, over the same hypotheses.
"""

import numpy as np

from linstereo.export.graph import Graph, Value, cut, reshape
from linstereo.model.depth_prior import (
    DEPTH_FLOOR,
    HYPOTHESES,
    MIN_INLIERS,
    MIN_SPREAD,
    REFITS,
    TOLERANCE_PX,
    TOLERANCE_RATIO,
    Fallback,
    line_draws,
)
from linstereo.model.strides import FINEST

MATCHES = Value("matches")
"""Input, float32 [K, 3]: x, y in the left image and disparity, px. Disparities <= 0 count as wrong matches."""
PRIOR = "prior"
"""Output, float32 [5], what the fit did."""
PRIOR_VALUES = ("matches", "inliers", "alpha", "beta", "fallback")
"""What it holds; the last one is a `Fallback`."""
_FAR = 1e30


def depth_prior_start(g: Graph, depth: Value, sides: Value, *, min_inlier_share: float) -> Value:
    """The first disparity [1, 1, h, w] at 1/4, px of that map, and the output `prior`.

    Args:
        g: the graph.
        depth: monocular depth [1, 1, a, b] of the padded left image.
        sides: h and w, int64 [2].
        min_inlier_share: see `linstereo.model.depth_prior.fit_scale_shift`.
    """
    inverse = _inverse_depth(g, depth)
    full = g.op("Cast", g.op("Mul", sides, g.integers(FINEST)), to=1)  # height and width of the padded image, px
    quotient, disparity, total, rejected = _usable_matches(g, inverse, full)
    alpha, beta, report = _fit(g, quotient, disparity, total, rejected, min_inlier_share)
    g.op("Concat", *report, axis=0, name=PRIOR)
    shape = g.op("Concat", g.integers(1, 1), sides, axis=0)
    small = g.op(
        "Resize", inverse, Value(""), Value(""), shape, mode="linear", coordinate_transformation_mode="half_pixel"
    )
    start = g.op("Add", g.op("Mul", small, alpha), beta)
    start = g.op("Where", g.op("IsNaN", start), g.constant(0.0), start)
    start = g.op("Max", g.op("Min", start, cut(g, full, 0, 1)), g.constant(0.0))
    return g.op("Mul", start, g.constant(1 / FINEST))


def _inverse_depth(g: Graph, depth: Value) -> Value:
    """1 / D with D clamped from below at a share of its median."""
    flat = reshape(g, depth, -1)
    usable = g.op("And", g.op("Greater", flat, g.constant(0.0)), g.op("Less", flat, g.constant(_FAR)))
    values = g.op("Where", usable, flat, g.constant(_FAR))
    half = g.op("Add", g.op("Div", g.op("Shape", flat), g.integers(2)), g.integers(1))
    smallest, _ = g.ops("TopK", values, half, names=g.fresh("smallest", 2), axis=0, largest=0, sorted=1)
    count = g.op("ReduceSum", g.op("Cast", usable, to=7), g.integers(0), keepdims=1)
    middle = g.op("Div", g.op("Max", g.op("Sub", count, g.integers(1)), g.integers(0)), g.integers(2))
    floor = g.op("Mul", g.op("Gather", smallest, middle, axis=0), g.constant(DEPTH_FLOOR))
    return g.op("Reciprocal", g.op("Max", depth, floor))


def _usable_matches(g: Graph, inverse: Value, full: Value) -> tuple[Value, Value, Value, Value]:
    """Inverse depth and disparity [K + 2] of the usable matches, these first; how many they are; how many are wrong.

    Two matches that are never usable are added, so that no tensor is empty.
    """
    never = g.constant([[0.0, 0.0, np.nan]] * 2)
    rows = g.op("Concat", MATCHES, never, axis=0)
    disparity = reshape(g, cut(g, rows, 1, 2), -1)
    rejected = g.op("LessOrEqual", disparity, g.constant(0.0))
    points = g.op("Add", g.op("Mul", cut(g, rows, 1, 0, 2), g.constant(2.0)), g.constant(1.0))
    size = g.op("Gather", full, g.integers(1, 0), axis=0)  # width, height
    grid = g.op("Unsqueeze", g.op("Sub", g.op("Div", points, size), g.constant(1.0)), g.integers(0, 1))
    sampled = reshape(g, g.op("GridSample", inverse, grid, mode="bilinear", padding_mode="border", align_corners=0), -1)
    positive = g.op("Greater", disparity, g.constant(0.0))
    finite = g.op(
        "And", g.op("Less", disparity, g.constant(_FAR)), g.op("Less", g.op("Abs", sampled), g.constant(_FAR))
    )
    usable = g.op("And", positive, finite)
    length = g.op("Shape", disparity)
    rank = g.op("CumSum", g.op("Cast", usable, to=7), g.constant(0, np.int64))
    last = g.op("Sub", length, g.integers(1))
    place = g.op("Where", usable, g.op("Sub", rank, g.integers(1)), last)
    empty = g.op("Expand", g.constant(0.0), length)
    kept = [
        g.op("ScatterElements", empty, place, g.op("Where", usable, values, g.constant(0.0)), axis=0)
        for values in (sampled, disparity)
    ]
    total = _count(g, usable)
    return kept[0], kept[1], total, _count(g, rejected)


def _count(g: Graph, which: Value) -> Value:
    """How many are true, float32 [1]."""
    return g.op("ReduceSum", g.op("Cast", which, to=1), g.integers(0), keepdims=1)


def _fit(
    g: Graph, quotient: Value, disparity: Value, total: Value, rejected: Value, min_inlier_share: float
) -> tuple[Value, Value, list[Value]]:
    """alpha and beta, both 0 after a fallback, and the values of the report, all float32 [1]."""
    zero, one = g.constant(0.0), g.constant(1.0)
    numbers = g.op("Range", zero, g.op("Cast", g.op("Squeeze", g.op("Shape", quotient)), to=1), one)
    live = g.op("Less", numbers, total)
    unit = _most(g, g.op("Where", live, g.op("Abs", quotient), zero))
    unit = g.op("Max", unit, g.constant(1e-30))
    q = g.op("Div", quotient, unit)
    tolerance = g.op("Max", g.op("Mul", g.op("Abs", disparity), g.constant(TOLERANCE_RATIO)), g.constant(TOLERANCE_PX))
    alpha, beta, found = _best_line(g, q, disparity, tolerance, live, total)
    inliers = _inliers(g, q, disparity, tolerance, live, alpha, beta)
    alike = g.constant(0.0)  # 1 where the depth was the same at all inliers of a fit
    for _ in range(REFITS):
        fitted = inliers
        share = g.op("Cast", fitted, to=1)
        few = g.op("Less", _count(g, fitted), g.constant(2.0))
        narrow = g.op("Or", few, g.op("LessOrEqual", _spread(g, q, fitted), g.constant(MIN_SPREAD)))
        alike = g.op("Max", alike, g.op("Cast", narrow, to=1))
        alpha, beta = _least_squares(g, q, disparity, share)
        inliers = _inliers(g, q, disparity, tolerance, live, alpha, beta)
    count = _count(g, fitted)
    alpha = g.op("Div", alpha, unit)
    asked = g.op("Mul", g.op("Add", total, rejected), g.constant(min_inlier_share))
    whole = g.op("Neg", g.op("Floor", g.op("Neg", asked)))  # rounded up
    needed = g.op("Max", whole, g.constant(float(MIN_INLIERS)))
    reasons = (
        (Fallback.ALPHA_NOT_POSITIVE, g.op("LessOrEqual", alpha, zero)),
        (Fallback.FEW_INLIERS, g.op("Less", count, needed)),
        (Fallback.SAME_DEPTH_AT_INLIERS, g.op("Greater", alike, zero)),
        (Fallback.NO_LINE, g.op("Not", found)),
        (Fallback.SAME_DEPTH, g.op("LessOrEqual", _spread(g, q, live), g.constant(MIN_SPREAD))),
        (Fallback.FEW_MATCHES, g.op("Less", total, g.constant(float(MIN_INLIERS)))),
    )  # the last one that holds is told
    code = g.constant([float(Fallback.NONE)])
    for reason, holds in reasons:
        code = g.op("Where", holds, g.constant(float(reason)), code)
    fits = g.op("Equal", code, g.constant(float(Fallback.NONE)))
    alpha, beta = g.op("Where", fits, alpha, zero), g.op("Where", fits, beta, zero)
    told = g.op("Or", fits, g.op("Equal", code, g.constant(float(Fallback.FEW_INLIERS))))
    return alpha, beta, [total, g.op("Where", told, count, zero), alpha, beta, code]


def _best_line(g: Graph, q: Value, d: Value, tolerance: Value, live: Value, total: Value) -> tuple[Value, Value, Value]:
    """The line of least truncated squared residual: alpha and beta [1], and whether there is one, bool [1]."""
    draws = line_draws(HYPOTHESES)
    several = g.op("Max", total, g.constant(2.0))
    first = g.op("Floor", g.op("Mul", g.constant(draws[0]), several))
    apart = g.op("Floor", g.op("Mul", g.constant(draws[1]), g.op("Sub", several, g.constant(1.0))))
    second = g.op("Add", g.op("Add", first, apart), g.constant(1.0))
    second = g.op("Where", g.op("GreaterOrEqual", second, several), g.op("Sub", second, several), second)
    ends = [g.op("Cast", index, to=7) for index in (first, second)]
    q1, q2 = (g.op("Gather", q, index, axis=0) for index in ends)
    d1, d2 = (g.op("Gather", d, index, axis=0) for index in ends)
    run = g.op("Sub", q1, q2)
    good = g.op("Greater", g.op("Abs", run), g.constant(MIN_SPREAD))
    alpha = g.op("Div", g.op("Sub", d1, d2), g.op("Where", good, run, g.constant(1.0)))
    good = g.op("And", good, g.op("Greater", alpha, g.constant(0.0)))
    beta = g.op("Sub", d1, g.op("Mul", alpha, q1))
    columns = [g.op("Unsqueeze", values, g.integers(1)) for values in (alpha, beta)]
    fitted = g.op("Add", g.op("Mul", columns[0], q), columns[1])  # [hypotheses, K + 2]
    residual = g.op("Div", g.op("Sub", fitted, d), tolerance)
    limited = g.op("Min", g.op("Mul", residual, residual), g.constant(1.0))
    cost = g.op("ReduceSum", g.op("Where", live, limited, g.constant(0.0)), g.integers(1), keepdims=0)
    best = g.op("ArgMin", g.op("Where", good, cost, g.constant(_FAR)), axis=0, keepdims=1)
    line = [g.op("Gather", values, best, axis=0) for values in (alpha, beta)]
    return line[0], line[1], g.op("Greater", _count(g, good), g.constant(0.0))


def _inliers(g: Graph, q: Value, d: Value, tolerance: Value, live: Value, alpha: Value, beta: Value) -> Value:
    residual = g.op("Abs", g.op("Sub", g.op("Add", g.op("Mul", q, alpha), beta), d))
    return g.op("And", live, g.op("LessOrEqual", residual, tolerance))


def _least_squares(g: Graph, q: Value, d: Value, share: Value) -> tuple[Value, Value]:
    """alpha and beta over the matches whose share is 1."""

    def total(x: Value) -> Value:
        return g.op("ReduceSum", g.op("Mul", x, share), g.integers(0), keepdims=1)

    count = g.op("Max", g.op("ReduceSum", share, g.integers(0), keepdims=1), g.constant(1.0))
    q_mean, d_mean = g.op("Div", total(q), count), g.op("Div", total(d), count)
    q_off, d_off = g.op("Sub", q, q_mean), g.op("Sub", d, d_mean)
    squares = g.op("Max", total(g.op("Mul", q_off, q_off)), g.constant(1e-30))
    alpha = g.op("Div", total(g.op("Mul", q_off, d_off)), squares)
    return alpha, g.op("Sub", d_mean, g.op("Mul", alpha, q_mean))


def _most(g: Graph, x: Value) -> Value:
    return g.op("ReduceMax", x, g.integers(0), keepdims=1)


def _spread(g: Graph, q: Value, which: Value) -> Value:
    """Largest less smallest value among some, float32 [1]; negative if there are none."""
    top = _most(g, g.op("Where", which, q, g.constant(-_FAR)))
    low = _most(g, g.op("Where", which, g.op("Neg", q), g.constant(-_FAR)))
    return g.op("Add", top, low)
