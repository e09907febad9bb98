"""What the predictor asks of whatever runs a network."""

import dataclasses
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from linstereo.geometry.known_disparity import KnownDisparity
from linstereo.geometry.sparse_matches import SparseMatches
from linstereo.model.cost_volume import VolumeKind
from linstereo.model.depth_prior import DepthPriorReport
from linstereo.model.presets import LinStereoConfig

BackendName = Literal["torch", "onnx", "openvino"]
BACKENDS: tuple[BackendName, ...] = ("torch", "onnx", "openvino")
"""What can run a network, by name."""
Image = NDArray[np.uint8]


@dataclasses.dataclass(eq=False)
class EngineMemory:
    """What is remembered from one frame of a sequence to the next; every run with it writes the hidden states anew."""

    hidden: list[Tensor] | None = None
    """Hidden states at the end of the frame before, [1, hidden, h/s, w/s], finest first; None if there are none."""
    plain: bool | None = None
    """Whether the first frame was plain nearly everywhere, see `StereoPredictor.plan_of`; None before it."""


@dataclasses.dataclass(frozen=True, eq=False)
class EngineRequest:
    """A pair of images of the size that the network is to see.

    Attributes:
        left: [h, w, 3] RGB.
        right: the same size.
        iterations: as `Engine.iterations` gave them.
        volume: how correlations are held, one of `Engine.volumes`.
        matches: sparse matches of the pair, for a network that starts from monocular depth.
        start: a disparity that is known already, of images of this size; only for engines that take one.
        memory: of the frame before, used along with `start`, and then that of this one; only for engines that take a
            start.
        tolerance: px by which a disparity may be off and still count as right for the confidence, > 0.
        stop_below: px of these images, >= 0; no further iteration follows one that changes the disparity by less on
            average. 0 for all iterations; more only for engines that can stop early.
        on_iteration: called with 1, 2, ... after each iteration; all at the end if the engine cannot tell.
        on_disparity: called with 0 and the disparity [h, w] at the start, in px, then with that after each
            iteration; an engine that cannot tell calls it at the end only.
    """

    left: Image
    right: Image
    _: dataclasses.KW_ONLY
    iterations: int
    volume: VolumeKind = "stored"
    matches: SparseMatches | None = None
    start: KnownDisparity | None = None
    memory: EngineMemory | None = None
    tolerance: float = 1.0
    stop_below: float = 0.0
    on_iteration: Callable[[int], None] | None = None
    on_disparity: Callable[[int, NDArray[np.float32]], None] | None = None


class EngineResult(NamedTuple):
    """What a network says about a pair of h x w px."""

    disparity: NDArray[np.float32]  # [h, w], px, >= 0
    prior: DepthPriorReport | None  # what the start from monocular depth did; None for a network without it
    confidence: NDArray[np.float32] | None = None  # [h, w] in [0, 1], None if the network or the engine has none
    iterations: int | None = None  # that were run; None for as many as were asked for


class Engine(Protocol):
    """A network made ready to run.

    backend: its name.
    precision: that it computes convolutions and matrix products in by itself, one of
        `linstereo.model.precision.PRECISIONS`; "float32" for PyTorch, which follows autocast.
    config: settings of the network.
    volumes: the ways of holding correlations that it knows.
    gives_confidence: whether results have a confidence.
    takes_start: whether it can start from a known disparity.
    stops_early: whether it can leave out iterations that would change little.
    """

    backend: BackendName
    precision: str
    volumes: tuple[VolumeKind, ...]
    takes_start: bool
    stops_early: bool

    @property
    def config(self) -> LinStereoConfig:
        """Settings of the network."""
        ...

    @property
    def gives_confidence(self) -> bool:
        """Whether results have a confidence."""
        ...

    @property
    def needs_matches(self) -> bool:
        """Whether it starts from monocular depth, and so from sparse matches."""
        ...

    def iterations(self, wanted: int | None) -> int:
        """Iterations that are run when asked for `wanted`, None for the usual number; an `InputError` if it cannot."""
        ...

    def digest(self) -> str:
        """SHA-256 of what decides the results: the same for the same network."""
        ...

    def run(self, request: EngineRequest) -> EngineResult:
        """Disparity of a pair; an `InputError` if it is asked for what the engine cannot do."""
        ...
