"""Whole predictions, pictures in and disparity out: the model through every backend, and OpenCV's SGBM."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from linstereo.backends.engine import BackendName
from linstereo.backends.graph_engine import GraphEngine, computes_in
from linstereo.evaluation.baselines import SGBM_SETTINGS
from linstereo.model.cost_volume import VolumeKind
from linstereo.predictor import StereoPredictor

SGBM_DISPARITIES = 192
Matcher = Callable[[NDArray[np.uint8], NDArray[np.uint8]], object]
"""Two uint8 [H, W, 3] images to anything; only its time counts."""


_PACKAGES: dict[BackendName, list[str]] = {
    "torch": ["torch"],
    "onnx": ["onnx", "onnxruntime"],
    "openvino": ["onnx", "openvino"],
}


class Way(NamedTuple):
    """What runs a network, and the precision of its convolutions and matrix products."""

    backend: BackendName
    precision: str = "float32"

    def __str__(self) -> str:
        """As in tables."""
        return self.backend if self.precision == "float32" else f"{self.backend}, {self.precision}"


def installed_ways() -> list[Way]:
    """All ways in single precision whose packages are installed here, and OpenVINO's in half where it can."""
    ways = [Way(name) for name, packages in _PACKAGES.items() if all(find_spec(package) for package in packages)]
    half = Way("openvino", "bfloat16")
    return [*ways, half] if Way("openvino") in ways and computes_in(*half) else ways


def whole_prediction(
    predictor: StereoPredictor,
    way: Way,
    *,
    iterations: int,
    scale: float | None,
    volume: VolumeKind | None,
) -> Matcher:
    """The network as `way` runs it; converted here unless that is how the predictor runs it already.

    Other engines than PyTorch hold all correlations, whatever `volume` says.
    """
    if way.backend != "torch":
        volume = None
        if predictor.engine.backend == "torch":
            threads = torch.get_num_threads()
            engine = GraphEngine(predictor.model, backend=way.backend, threads=threads, precision=way.precision)
            predictor = StereoPredictor(engine, trained=predictor.trained, name=predictor.name, precision=way.precision)
    return lambda left, right: predictor.predict(left, right, iters=iterations, scale=scale, volume=volume)


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
