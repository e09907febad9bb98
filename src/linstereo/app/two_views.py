"""The prediction of a pair with a confidence, also by models that have not learned one."""

import dataclasses
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.occlusion import left_right_difference
from linstereo.prediction import Prediction
from linstereo.predictor import StereoPredictor

Map = npt.NDArray[np.float32]


def needs_second_view(predictor: StereoPredictor, *, confidence: bool, occlusion: bool) -> bool:
    """Whether the right image must be predicted too."""
    return occlusion or (confidence and not predictor.gives_confidence)


def predict_views(
    predictor: StereoPredictor,
    left: npt.NDArray[np.uint8],
    right: npt.NDArray[np.uint8],
    *,
    calibration: StereoCalibration | None,
    iters: int | None,
    scale: float | None,
    second: bool,
    on_iteration: Callable[[int], None],
    on_disparity: Callable[[int, Map], None] | None,
) -> Prediction:
    """`StereoPredictor.predict`, with `second` both views, whose agreement stands in for a confidence not learned."""
    prediction = predictor.predict(
        left,
        right,
        calibration=calibration,
        occlusion=second,
        iters=iters,
        scale=scale,
        on_iteration=on_iteration,
        on_disparity=on_disparity,
    )
    if prediction.confidence is not None or prediction.right_disparity is None:
        return prediction
    difference = left_right_difference(prediction.disparity, prediction.right_disparity)
    return dataclasses.replace(prediction, confidence=agreement(difference))


def agreement(difference: Map) -> Map:
    """Differences of two views, px, as a number that is 1 for none, 0.5 for 1 px and falls towards 0."""
    return np.exp2(-difference).astype(np.float32)
