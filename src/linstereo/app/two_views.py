"""The network's view of a pair from both sides: what it is sure of, and what the right camera cannot see."""

import dataclasses
from collections.abc import Callable

import cv2
import numpy as np
import numpy.typing as npt

from linstereo.app.results import Map
from linstereo.predictor import StereoPredictor

MAX_DIFFERENCE = 1.0
"""Disparities of the two views that differ by more, px, do not belong to one point."""


@dataclasses.dataclass(frozen=True, eq=False)
class Views:
    """Maps of the left image.

    Attributes:
        disparity: float32 [H, W], px, >= 0.
        confidence: float32 [H, W] in [0, 1]; None if nothing tells it.
        confidence_kind: "learned" by the network, or the "agreement" of both views; None without it.
        occluded: bool [H, W]; None without the second view.
    """

    disparity: Map
    confidence: Map | None
    confidence_kind: str | None
    occluded: npt.NDArray[np.bool_] | None


def needs_second_view(predictor: StereoPredictor, *, confidence: bool, occlusion: bool) -> bool:
    """Whether the right image must be predicted too."""
    return occlusion or confidence


def predict_views(
    predictor: StereoPredictor,
    left: npt.NDArray[np.uint8],
    right: npt.NDArray[np.uint8],
    *,
    iters: int | None,
    scale: float | None,
    second: bool,
    on_iteration: Callable[[int], None],
    on_disparity: Callable[[int, Map], None] | None,
) -> Views:
    """Predict a pair, and with `second` the same pair seen in a mirror, whose left image is the right one.

    `on_iteration` counts on through the second view; the rest is as in `StereoPredictor.predict`.
    """
    first = predictor.predict(
        left, right, iters=iters, scale=scale, on_iteration=on_iteration, on_disparity=on_disparity
    )
    if not second:
        return Views(first.disparity, None, None, None)
    mirrored = (np.ascontiguousarray(image[:, ::-1]) for image in (right, left))
    other = predictor.predict(
        *mirrored, iters=iters, scale=scale, on_iteration=lambda t: on_iteration(first.iterations + t)
    )
    difference = view_difference(first.disparity, np.ascontiguousarray(other.disparity[:, ::-1]))
    return Views(first.disparity, agreement(difference), "agreement", difference > MAX_DIFFERENCE)


def view_difference(disparity: Map, right_disparity: Map) -> Map:
    """How much the right view contradicts each disparity of the left one: float32 [H, W], px, infinite outside of it.

    Args:
        disparity: of the left image, float32 [H, W], px: left (x, y) matches right (x - d, y).
        right_disparity: of the right image, float32 [H, W], px: right (x, y) matches left (x + d, y).
    """
    height, width = disparity.shape
    columns = np.arange(width, dtype=np.float32) - disparity  # [H, W], where the right camera should see it
    rows = np.broadcast_to(np.arange(height, dtype=np.float32)[:, None], columns.shape)
    seen = cv2.remap(right_disparity, columns, np.ascontiguousarray(rows), cv2.INTER_LINEAR)
    return np.where(columns >= 0, np.abs(seen - disparity), np.inf).astype(np.float32)


def agreement(difference: Map) -> Map:
    """Differences of two views, px, as a number that is 1 for none, 0.5 for 1 px and falls towards 0."""
    return np.exp2(-difference).astype(np.float32)
