"""The start from the correlations as ONNX nodes; see `linstereo.model.correlation_start` for what it does and why.

The paths of the semi-global aggregation are loops over rows and columns, which ONNX knows as Scan. Costs are negated,
so that the cheapest way is a maximum. Changes of axes from columns to disparities are shears, which cutting and
reshaping do without a gather.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from linstereo.export.graph import (
    Graph,
    Value,
    cut,
    halves,
    reshape,
    reshape_to,
    resized,
    side,
    transpose,
)
from linstereo.export.layers import blend, concat
from linstereo.export.volumes import Volume, mirrored_correlations
from linstereo.model.correlation_start import (
    FAR_APART,
    LARGE_STEP,
    MOST_CELLS,
    SMALL_STEP,
    SURE,
    SURE_WINDOW,
    UNSURE,
    WORST,
)

_FAR = 1e30
"""Stands for infinity where a difference of two is taken."""


class StartValues(NamedTuple):
    """Where refinement starts."""

    disparity: Value  # [1, 1, h, w], px of that map
    cues: Value  # [1, 2, h, w], or 4 with coarse passes


def start_from_volumes(g: Graph, given: Sequence[Volume]) -> StartValues:
    """The start at 1/4, from the finest volume that is not too large for it."""
    return _from_scale(g, given, factor=1)


def _from_scale(g: Graph, given: Sequence[Volume], *, factor: int) -> StartValues:
    """The start at 1/4 from the first volume, whose cells are `factor` cells of 1/4 wide, or from a coarser one."""
    volume = given[0]
    if len(given) == 1:
        return _branch_values(g, volume, factor)
    rows, columns = side(g, volume.cells, 0), side(g, volume.cells, 1)
    count = g.op("Add", g.op("Div", columns, g.integers(2)), g.integers(1))
    cells = g.op("Mul", g.op("Mul", rows, columns), count)
    fits = g.op("Squeeze", g.op("LessOrEqual", cells, g.integers(MOST_CELLS)))
    here, coarser = Graph(g), Graph(g)
    values = _branch_values(here, volume, factor)
    rest = _from_scale(coarser, given[1:], factor=2 * factor)
    names = g.fresh("start", 2)
    return StartValues(
        *g.ops(
            "If",
            fits,
            names=names,
            then_branch=here.body([], values, "start_here"),
            else_branch=coarser.body([], rest, "start_from_a_coarser_volume"),
        )
    )


def _branch_values(g: Graph, volume: Volume, factor: int) -> StartValues:
    values = correlation_start(g, mirrored_correlations(g, volume))
    if factor == 1:
        return values
    disparity = g.op("Mul", resized(g, values.disparity, factor), g.constant(float(factor)))
    return StartValues(disparity, resized(g, values.cues, factor))


def correlation_start(g: Graph, mirrored: Value) -> StartValues:
    """The start from the correlations of one scale, see `mirrored_correlations`."""
    width = side(g, mirrored, 1)
    count = g.op("Add", g.op("Div", width, g.integers(2)), g.integers(1))  # disparities, D
    score = by_disparity(g, mirrored, width, count)
    merit = matching_merit(g, score, count)  # [h, D, w]
    total = aggregated(g, merit)
    best = g.op("ArgMax", total, axis=1, keepdims=1)  # [h, 1, w]
    agree = left_right_agreement(g, total, best, width)  # [h, w]
    steps = g.constant([[[-1], [0], [1]]], np.int64)
    last = g.op("Sub", count, g.integers(1))
    window = g.op("Max", g.op("Min", g.op("Add", best, steps), last), g.integers(0))  # [h, 3, w]
    chances = g.op("Exp", g.op("GatherElements", merit, window, axis=1))
    chance = g.op("Min", g.op("ReduceSum", chances, g.integers(1), keepdims=1), g.constant(1.0))  # [h, 1, w]
    found = _between_cells(g, g.op("GatherElements", total, window, axis=1), best, last)
    disparity = fill_from_background(g, found, agree, width)
    sure = g.op("Unsqueeze", g.op("Cast", agree, to=1), g.integers(0, 1))
    chance = transpose(g, g.op("Unsqueeze", chance, g.integers(0)), 0, 2, 1, 3)
    return StartValues(g.op("Unsqueeze", disparity, g.integers(0, 1)), concat(g, sure, chance))


def by_disparity(g: Graph, mirrored: Value, width: Value, count: Value) -> Value:
    """[h, w, 1 + w], last right column first, to disparities, [h, w, D]; what it holds outside means nothing.

    In a row of the flattened map, disparity d of column x is at (x + 1) * w + d.
    """
    longer = g.op("Add", width, g.integers(1))
    sheared = reshape_to(g, mirrored, 0, longer, width)
    starts, ends = g.integers(1, 0), g.op("Concat", longer, count, axis=0)
    return g.op("Slice", sheared, starts, ends, g.integers(1, 2), g.integers(1, 1))


def matching_merit(g: Graph, score: Value, count: Value) -> Value:
    """Log-probability of every disparity, at least -`WORST`: [h, w, D] -> [h, D, w]."""
    zero, one = g.constant(0, np.int64), g.constant(1, np.int64)
    width, depth = g.op("Squeeze", side(g, score, 1)), g.op("Squeeze", count)
    column = g.op("Unsqueeze", g.op("Range", zero, width, one), g.integers(1))
    outside = g.op("Greater", g.op("Range", zero, depth, one), column)  # [w, D]
    total = g.op("Cast", count, to=1)
    share = g.op(
        "Div", g.op("ReduceSum", g.op("Cast", outside, to=1), g.integers(1), keepdims=1), total
    )  # [w, 1], of the disparities that lie outside
    inside = g.op("Where", outside, g.constant(-_FAR), score)
    most = g.op("ReduceMax", inside, g.integers(2), keepdims=1)
    mass = g.op("ReduceSum", g.op("Exp", g.op("Sub", inside, most)), g.integers(2), keepdims=1)
    evidence = g.op("Add", most, g.op("Log", mass))  # [h, w, 1]
    complete = cut(g, evidence, 1, g.op("Sub", count, g.integers(1)))
    usual = g.op("ReduceMean", complete, g.integers(0, 1, 2), keepdims=1)  # [1, 1, 1]
    beyond = g.op("Add", usual, g.op("Log", g.op("Max", share, g.constant(1e-30))))  # [1, w, 1]
    larger = g.op("Max", evidence, beyond)
    sums = [g.op("Exp", g.op("Sub", part, larger)) for part in (evidence, beyond)]
    overall = g.op("Add", larger, g.op("Log", g.op("Add", *sums)))
    each = g.op("Sub", beyond, g.op("Log", g.op("Max", g.op("Mul", share, total), g.constant(1.0))))
    merit = g.op("Sub", g.op("Where", outside, each, score), overall)
    return transpose(g, g.op("Max", merit, g.constant(-WORST)), 0, 2, 1)


def aggregated(g: Graph, merit: Value) -> Value:
    """Sum of the semi-global path merits of [h, D, w] along both rows and both columns: [h, D, w]."""
    down = _along_first_axis(g, merit)
    across = _along_first_axis(g, transpose(g, merit, 2, 1, 0))  # [w, D, h]
    return g.op("Add", down, transpose(g, across, 2, 1, 0))


def _along_first_axis(g: Graph, merit: Value) -> Value:
    """Paths from both ends of the first axis of [n, D, m], added up.

    One loop walks both ways at once, which reads `merit` from both of its ends and writes there.
    """
    ends = g.op("Concat", g.integers(2), g.op("Shape", merit, start=1), axis=0)
    nothing = g.op("ConstantOfShape", ends)  # [2, D, m]
    step = Graph(g)
    before, first, last = Value("path_before"), Value("merit_from_the_first"), Value("merit_from_the_last")
    here = step.op("Concat", *[step.op("Unsqueeze", x, step.integers(0)) for x in (first, last)], axis=0)
    top = step.op("ReduceMax", before, step.integers(1), keepdims=1)  # [2, 1, m]
    jump = step.op("Sub", top, step.constant(LARGE_STEP))
    # Slices of a padded map: engines are several times slower at pooling one that has hardly any channels.
    framed = step.op("Pad", before, step.integers(0, 1, 0, 0, 1, 0), step.constant(-_FAR))
    near = step.op("Max", cut(step, framed, 1, 0, -2), cut(step, framed, 1, 2))
    way = step.op("Max", before, jump, step.op("Sub", near, step.constant(SMALL_STEP)))
    path = step.op("Add", step.op("Sub", way, top), here)
    forth, back = (step.op("Squeeze", end, step.integers(0)) for end in halves(step, path, 0))
    map_shape: list[int | str | None] = [None, None]
    inputs = [(before, [2, *map_shape]), (first, map_shape), (last, map_shape)]
    _, *paths = g.ops(
        "Scan",
        *(nothing, merit, merit),
        names=g.fresh("paths", 3),
        body=step.body(inputs, [path, forth, back], "path"),
        num_scan_inputs=2,
        scan_input_directions=[0, 1],
        scan_output_directions=[0, 1],
    )
    return g.op("Add", *paths)


def left_right_agreement(g: Graph, total: Value, best: Value, width: Value) -> Value:
    """Where the best match of a left pixel has that pixel as its own best match, within a cell: bool [h, w].

    In a row of the flattened map [D, w], what a right column x sees at disparity d is at d * (w + 1) + x.
    """
    count = side(g, total, 1)
    pads = g.op("Concat", g.integers(0, 0, 0), count, axis=0)
    flat = g.op("Pad", reshape(g, total, 0, -1), pads, g.constant(0.0))
    sheared = cut(g, reshape_to(g, flat, 0, count, -1), 2, 0, width)  # [h, D, w]
    zero, one = g.constant(0, np.int64), g.constant(1, np.int64)
    column = g.op("Range", zero, g.op("Squeeze", width), one)  # [w]
    disparity = g.op("Unsqueeze", g.op("Range", zero, g.op("Squeeze", count), one), g.integers(1))
    outside = g.op("GreaterOrEqual", g.op("Add", column, disparity), width)  # [D, w]
    seen = g.op("Where", outside, g.constant(-_FAR), sheared)
    right_best = g.op("ArgMax", seen, axis=1, keepdims=0)  # [h, w]
    chosen = g.op("Squeeze", best, g.integers(1))
    match = g.op("Sub", column, chosen)
    inside = g.op("GreaterOrEqual", match, g.integers(0))
    returned = g.op("GatherElements", right_best, g.op("Max", match, g.integers(0)), axis=1)
    near = g.op("LessOrEqual", g.op("Abs", g.op("Sub", returned, chosen)), g.integers(1))
    return g.op("And", inside, near)


def _between_cells(g: Graph, window: Value, best: Value, last: Value) -> Value:
    """Vertex of the parabola through a maximum and its two neighbours, [h, 3, w] -> [h, w] in cells."""
    below, middle, above = g.ops("Split", window, names=g.fresh("tap", 3), axis=1, num_outputs=3)
    curvature = g.op("Sub", g.op("Add", middle, middle), g.op("Add", below, above))
    slope = g.op("Mul", g.op("Sub", above, below), g.constant(0.5))
    shift = g.op("Div", slope, g.op("Max", curvature, g.constant(1e-6)))
    shift = g.op("Min", g.op("Max", shift, g.constant(-0.5)), g.constant(0.5))
    within = g.op("And", g.op("Greater", best, g.integers(0)), g.op("Less", best, last))
    curved = g.op("And", within, g.op("Greater", curvature, g.constant(1e-6)))
    place = g.op("Add", g.op("Cast", best, to=1), g.op("Where", curved, shift, g.constant(0.0)))
    return g.op("Squeeze", place, g.integers(1))


def fill_from_background(g: Graph, disparity: Value, trusted: Value, width: Value) -> Value:
    """Replace what is not trusted by the smaller of the nearest trusted values in its row, [h, w] -> [h, w].

    Trusted values are numbered from 1 along their row and kept under their number, all others under one beyond; 0 and
    numbers that nobody has are far.
    """
    rank = g.op("CumSum", g.op("Cast", trusted, to=6), g.constant(1, np.int64))  # int32
    beyond = g.op("Cast", g.op("Add", width, g.integers(1)), to=6)
    slot = g.op("Where", trusted, rank, beyond)
    rows = side(g, disparity, 0)
    sides = g.op("Concat", rows, g.op("Add", width, g.integers(2)), axis=0)
    empty = g.op("Expand", g.constant(_FAR), sides)
    kept = g.op("ScatterElements", empty, slot, disparity, axis=1)
    after = g.op("Where", trusted, rank, g.op("Add", rank, g.constant(1, np.int32)))
    nearest = [g.op("GatherElements", kept, index, axis=1) for index in (rank, after)]
    filled = g.op("Min", *nearest)
    return g.op("Where", g.op("Less", filled, g.constant(_FAR / 2)), filled, disparity)


def with_coarse_pass(g: Graph, start: StartValues, coarse: Value | None) -> StartValues:
    """Take the result of a coarser pass [1, 1, h, w] where the correlations are unsure; None in that pass itself."""
    if coarse is None:
        nothing = g.op("Sub", start.disparity, start.disparity)
        return StartValues(start.disparity, concat(g, start.cues, g.op("Add", nothing, g.constant(1.0)), nothing))
    sure = g.op("Mul", *halves(g, start.cues, 1))
    confidence = g.op(
        "AveragePool",
        sure,
        kernel_shape=[SURE_WINDOW, SURE_WINDOW],
        pads=[SURE_WINDOW // 2] * 4,
        strides=[1, 1],
        count_include_pad=0,
    )
    share = g.op("Div", g.op("Sub", confidence, g.constant(UNSURE)), g.constant(SURE - UNSURE))
    share = g.op("Min", g.op("Max", share, g.constant(0.0)), g.constant(1.0))
    above = g.op("Tanh", g.op("Div", g.op("Sub", coarse, start.disparity), g.constant(FAR_APART)))
    return StartValues(blend(g, coarse, start.disparity, share), concat(g, start.cues, share, above))
