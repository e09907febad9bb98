"""One prediction taken apart into the boxes of the paper's figure, with a call at the end of each."""

import contextlib
import functools
from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from linstereo.checkpoints.summary import Summary
from linstereo.efficiency.decoder import autocast
from linstereo.geometry.sparse_matches import match_sparse
from linstereo.predictor import StereoPredictor
from linstereo.run_plan import RunPlan

COUNTED_AS = {
    "backbone": "backbone",
    "cost volumes": "cost volumes",
    "hidden state projections": "start",
    "motion encoders": "iterations",
    "updaters": "iterations",
    "residual head": "iterations",
    "upsampler": "upsampling",
    "confidence head": "confidence",
    "coarse passes": "coarse passes",
}
"""The part measured here that holds each part that `linstereo.checkpoints.summary` counts."""
MATCHING = "sparse matches (SIFT, on the CPU)"


def part_names(predictor: StereoPredictor) -> list[str]:
    """The parts of a prediction in the order in which they run."""
    matching = [MATCHING] if predictor.model.start.needs_depth else []
    coarse = ["coarse passes"] if predictor.model.config.coarse_iterations else []
    confidence = ["confidence"] if predictor.gives_confidence else []
    return [*matching, *coarse, "backbone", "cost volumes", "start", "iterations", "upsampling", *confidence]


def counted(summary: Summary) -> dict[str, tuple[int, float]]:
    """Parameters and GFLOPs of the parts, by name."""
    counts: dict[str, tuple[int, float]] = {}
    for part in summary.parts:
        name = COUNTED_AS[part.name]
        parameters, gflops = counts.get(name, (0, 0.0))
        counts[name] = (parameters + part.parameters, gflops + part.gflops)
    return counts


def run_parts(
    predictor: StereoPredictor,
    left: NDArray[np.uint8],
    right: NDArray[np.uint8],
    plan: RunPlan,
    iterations: int,
    on_part: Callable[[str], None],
) -> Tensor:
    """Predict a pair and say when each part is done; in all else the same as `StereoPredictor.predict`.

    Args:
        predictor: the model.
        left: uint8 [H, W, 3] RGB, of the size that the plan says.
        right: the same.
        plan: how to run it.
        iterations: refinement iterations T.
        on_part: called with the name of the part that has just ended, "iterations" after each of them; with "" before
            the first one.

    Returns:
        Disparity [1, 1, H, W] in px.
    """
    model = predictor.model
    tensors = [
        torch.from_numpy(image).to(predictor.device).permute(2, 0, 1).unsqueeze(0).float() / 255
        for image in (left, right)
    ]
    with torch.inference_mode(), autocast(predictor.device, predictor.precision):
        on_part("")
        matches = None
        if model.start.needs_depth:
            matches = [match_sparse(left, right)]
            on_part(MATCHING)
        coarse = model.start.coarse_disparity(
            torch.cat(tensors), functools.partial(model.single_pass, volume=plan.volume)
        )
        if coarse is not None:
            on_part("coarse passes")
        with (
            _told(model.backbone, functools.partial(on_part, "backbone")),
            _told(model.cost_volumes, functools.partial(on_part, "cost volumes")),
        ):
            evidence = model.prepare(*tensors, matches=matches, volume=plan.volume, coarse=coarse)
        on_part("start")
        before = current = evidence.disparity
        for state in model.iterate(evidence, iterations):
            last, before, current = state, current, state.disparity
            on_part("iterations")
        disparity = model.upsample(last, evidence)
        on_part("upsampling")
        if model.confidence(last, evidence, before=before, full=disparity, tolerance=1.0) is not None:
            on_part("confidence")
    return disparity


@contextlib.contextmanager
def _told(module: object, on_done: Callable[[], None]) -> Iterator[None]:
    """Call `on_done` whenever a module has run, as long as the context lasts."""
    assert isinstance(module, nn.Module)
    handle = module.register_forward_hook(lambda *_: on_done())
    try:
        yield
    finally:
        handle.remove()
