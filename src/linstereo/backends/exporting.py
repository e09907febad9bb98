"""Writing a network as an ONNX file, which is run and compared with PyTorch before it is kept."""

import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from linstereo.backends.engine import Engine, EngineRequest, EngineResult, Image
from linstereo.backends.graph_engine import GraphEngine
from linstereo.backends.onnx_file import SUFFIX, read_onnx
from linstereo.backends.torch_engine import TorchEngine
from linstereo.errors import InputError
from linstereo.export.onnx_model import onnx_model
from linstereo.files import atomic_path
from linstereo.geometry.sparse_matches import match_sparse
from linstereo.model.strides import PAD_TO

TOLERANCE = 1e-2
"""Largest difference, px or of confidences, at the 99.9th percentile, between ONNX Runtime and PyTorch."""
PERCENTILE = 99.9
SCALES = (1.0, 0.8)
"""Of the images on which both are compared: the graph must not be tied to one size."""


class Agreement(NamedTuple):
    """How far two engines differ on one size of images."""

    height: int
    width: int
    percentile: float  # px, at `PERCENTILE`
    largest: float  # px
    mean: float  # disparity of the first one, px: a network that says 0 everywhere agrees with anything
    confidence: float  # difference of the confidences at `PERCENTILE`; 0 without them


def check_target(path: str | os.PathLike[str]) -> Path:
    """The path if it can be that of an ONNX file."""
    target = Path(path)
    if target.suffix.lower() != SUFFIX or target.is_dir():
        raise InputError(f"{target} is not the name of an ONNX file; give one that ends with {SUFFIX}")
    return target


def export_model(
    engine: TorchEngine,
    path: str | os.PathLike[str],
    *,
    iterations: int,
    name: str,
    trained: bool,
    licence: str,
    threads: int,
    with_confidence: bool = True,
    pair: tuple[Image, Image] | None = None,
) -> list[Agreement]:
    """Write `path`, unless ONNX Runtime computes something else from it than PyTorch.

    Args:
        engine: the network.
        path: of the file, which appears whole or not at all.
        iterations: refinement iterations, which are fixed in the file.
        name: of the model, for whoever opens the file.
        trained: False for a network with random weights.
        licence: of the weights.
        threads: of ONNX Runtime.
        with_confidence: whether the file tells how far its disparities can be trusted, if the network has learned it.
        pair: images [H, W, 3] to compare on; by default a small pair that is part of the package.

    Returns:
        How far both differ on the images at each of `SCALES`.
    """
    target = check_target(path)
    left, right = bundled_pair() if pair is None else pair
    content = onnx_model(
        engine.model,
        iterations=iterations,
        name=name,
        trained=trained,
        licence=licence,
        with_confidence=with_confidence,
    )
    with atomic_path(target) as temporary:
        temporary.write_bytes(content)
        other = GraphEngine(read_onnx(temporary), backend="onnx", threads=threads)
        found = [
            agreement(engine, other, _scaled(left, scale), _scaled(right, scale), iterations=iterations)
            for scale in SCALES
        ]
        for a in found:
            for kind, off in ((" px", a.percentile), (" in its confidence", a.confidence)):
                if not off <= TOLERANCE:
                    raise InputError(
                        f"the exported model differs from PyTorch's by {off:.2g}{kind} on images of {a.width} x "
                        f"{a.height} px, where {TOLERANCE:g} is allowed, so {target} is not written; use the "
                        "checkpoint itself"
                    )
    return found


def agreement(one: Engine, other: Engine, left: Image, right: Image, *, iterations: int) -> Agreement:
    """Compare two engines on a pair."""
    matches = match_sparse(left, right) if one.needs_matches else None
    request = EngineRequest(left, right, iterations=iterations, matches=matches)
    results = [engine.run(request) for engine in (one, other)]
    difference = np.abs(results[0].disparity - results[1].disparity)
    height, width = difference.shape
    return Agreement(
        height,
        width,
        percentile=float(np.percentile(difference, PERCENTILE)),
        largest=float(difference.max()),
        mean=float(results[0].disparity.mean()),
        confidence=_confidence_difference(*results),
    )


def _confidence_difference(one: EngineResult, other: EngineResult) -> float:
    """At `PERCENTILE`; 0 unless both have confidences."""
    if one.confidence is None or other.confidence is None:
        return 0.0
    return float(np.percentile(np.abs(one.confidence - other.confidence), PERCENTILE))


def bundled_pair() -> tuple[Image, Image]:
    """A rectified pair of 320 x 240 px, uint8 [H, W, 3] RGB."""
    folder = resources.files("linstereo").joinpath("backends", "pair")
    images = [_decoded(folder.joinpath(f"{side}.jpg").read_bytes()) for side in ("left", "right")]
    return images[0], images[1]


def _decoded(content: bytes) -> Image:
    picture = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    assert picture is not None
    return np.ascontiguousarray(picture[..., ::-1], np.uint8)


def _scaled(image: Image, scale: float) -> Image:
    size: Sequence[int] = [max(round(side * scale), PAD_TO) for side in (image.shape[1], image.shape[0])]
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
