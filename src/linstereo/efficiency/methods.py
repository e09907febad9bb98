"""Whole predictions, pictures in and disparity out: the model through every backend, and OpenCV's SGBM."""

from collections.abc import Callable, Mapping

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.evaluation.baselines import SGBM_SETTINGS
from linstereo.model.cost_volume import VolumeKind
from linstereo.predictor import StereoPredictor

SGBM_DISPARITIES = 192
Matcher = Callable[[NDArray[np.uint8], NDArray[np.uint8]], object]
"""Two uint8 [H, W, 3] images to anything; only its time counts."""


def torch_backend(
    predictor: StereoPredictor, *, iterations: int, scale: float | None, volume: VolumeKind | None
) -> Matcher:
    """The network as PyTorch runs it."""
    return lambda left, right: predictor.predict(left, right, iters=iterations, scale=scale, volume=volume)


BACKENDS: Mapping[str, Callable[..., Matcher]] = {"torch": torch_backend}
"""What can run a model, by name; each is called like `torch_backend`."""


def sgbm(width: int) -> tuple[str, Matcher]:
    """OpenCV's semi-global matching in its usual mode, and its name; fewer disparities where the image is too narrow.

    Args:
        width: of the images, px.
    """
    disparities = min(SGBM_DISPARITIES, max(width // 2 // 16 * 16, 16))
    matcher = cv2.StereoSGBM.create(
        minDisparity=0, numDisparities=disparities, mode=cv2.STEREO_SGBM_MODE_SGBM, **SGBM_SETTINGS
    )
    return f"SGBM (OpenCV, {disparities} disparities)", matcher.compute
