"""Whole predictions, pictures in and disparity out: the model through every backend, and OpenCV's SGBM."""

import functools
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Literal

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from linstereo.backends.engine import BackendName
from linstereo.backends.graph_engine import GraphEngine
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


def graph_backend(
    predictor: StereoPredictor,
    *,
    iterations: int,
    scale: float | None,
    volume: VolumeKind | None,
    backend: Literal["onnx", "openvino"],
) -> Matcher:
    """The network as ONNX Runtime or OpenVINO runs it, on the CPU; it is converted here, unless it is a file of theirs.

    These engines hold all correlations, whatever `volume` says.
    """
    if predictor.engine.backend == "torch":
        engine = GraphEngine(predictor.model, backend=backend, threads=torch.get_num_threads())
        predictor = StereoPredictor(engine, trained=predictor.trained, name=predictor.name)
    return torch_backend(predictor, iterations=iterations, scale=scale, volume=None)


BACKENDS: Mapping[BackendName, Callable[..., Matcher]] = {
    "torch": torch_backend,
    "onnx": functools.partial(graph_backend, backend="onnx"),
    "openvino": functools.partial(graph_backend, backend="openvino"),
}
"""What can run a model, by name; each is called like `torch_backend`."""


def installed_backends() -> list[BackendName]:
    """Those of `BACKENDS` whose packages are installed here."""
    packages = {"torch": ["torch"], "onnx": ["onnx", "onnxruntime"], "openvino": ["onnx", "openvino"]}
    return [name for name in BACKENDS if all(find_spec(package) for package in packages[name])]


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
