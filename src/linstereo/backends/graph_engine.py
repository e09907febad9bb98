"""An exported network, run by ONNX Runtime or OpenVINO."""

import functools
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from linstereo.backends.engine import BackendName, EngineRequest, EngineResult
from linstereo.backends.onnx_file import OnnxFile
from linstereo.errors import InputError
from linstereo.export.network import CONFIDENCE, DISPARITY, LEFT, MATCHES, PRIOR, RIGHT, TOLERANCE
from linstereo.export.onnx_model import exported_iterations, onnx_model
from linstereo.export.volumes import PRECISE
from linstereo.extras import require
from linstereo.geometry.sparse_matches import SparseMatches
from linstereo.model.cost_volume import VolumeKind
from linstereo.model.depth_prior import DepthPriorReport, report_from_values
from linstereo.model.linstereo import LinStereo
from linstereo.model.presets import LinStereoConfig, checked_iterations

Arrays = Mapping[str, NDArray[Any]]
Compiled = Callable[[Arrays], Arrays]
"""Runs a graph: inputs by name to outputs by name."""
_HINTS = {"float32": "f32", "bfloat16": "bf16"}
"""What OpenVINO calls the precisions that it computes in here."""
REMEMBERED = 4
"""Graphs, or sizes of images, that an engine keeps ready at a time."""


class GraphEngine:
    """An `Engine` around a graph.

    Args:
        source: a file, or a network to be converted here, for as many iterations as are asked for.
        backend: what runs it.
        threads: on the CPU.
        precision: of convolutions and matrix products, "float32", or "bfloat16" with OpenVINO on processors that have
            it; disparities and positions are in single precision all the same.
    """

    volumes: tuple[VolumeKind, ...] = ("stored",)
    takes_start = False
    stops_early = False

    def __init__(
        self,
        source: OnnxFile | LinStereo,
        *,
        backend: Literal["onnx", "openvino"],
        threads: int,
        precision: str = "float32",
    ) -> None:
        self.backend: BackendName = backend
        self.precision = precision
        self._source = source
        if precision != "float32":
            _check_precision(backend, precision)
        compiler: Callable[[bytes, int], Compiled] = (
            onnx_runtime if backend == "onnx" else functools.partial(openvino, precision=precision)
        )
        self._compile = functools.lru_cache(maxsize=REMEMBERED)(
            lambda iterations: compiler(self.content(iterations), threads)
        )
        if isinstance(source, OnnxFile):
            self._compile(source.iterations)  # so that what an engine refuses is told now

    @property
    def config(self) -> LinStereoConfig:
        """See `Engine.config`."""
        return self._source.config

    @property
    def gives_confidence(self) -> bool:
        """See `Engine.gives_confidence`."""
        source = self._source
        return source.gives_confidence if isinstance(source, OnnxFile) else source.confidence_head is not None

    @property
    def needs_matches(self) -> bool:
        """See `Engine.needs_matches`."""
        return self.config.start == "depth_prior"

    def iterations(self, wanted: int | None) -> int:
        """See `Engine.iterations`."""
        if not isinstance(self._source, OnnxFile):
            return exported_iterations(checked_iterations(self.config.iterations if wanted is None else wanted))
        fixed = self._source.iterations
        if wanted not in (None, fixed):
            checked_iterations(wanted)
            raise InputError(
                f"the file holds a model of {fixed} iterations, not {wanted}; leave the number out, or export the "
                f"model again (linstereo export --iters {wanted})"
            )
        return fixed

    def content(self, iterations: int) -> bytes:
        """The ONNX file that is run for so many iterations."""
        if isinstance(self._source, OnnxFile):
            return self._source.content
        return onnx_model(self._source, iterations=iterations, name="model", trained=True, licence="not stated")

    def digest(self) -> str:
        """See `Engine.digest`."""
        return hashlib.sha256(self.content(self.iterations(None))).hexdigest()

    def run(self, request: EngineRequest) -> EngineResult:
        """See `Engine.run`."""
        if request.start is not None:
            raise InputError(
                f"the backend {self.backend} cannot start from a known disparity, as sequences do; use the "
                "backend torch"
            )
        inputs: dict[str, NDArray[Any]] = {
            LEFT: np.ascontiguousarray(request.left),
            RIGHT: np.ascontiguousarray(request.right),
        }
        matches = request.matches
        if matches is not None:
            inputs[MATCHES] = match_rows(matches)
        if self.gives_confidence:
            inputs[TOLERANCE] = np.array([request.tolerance], np.float32)
        outputs = self._compile(request.iterations)(inputs)
        for t in range(1, request.iterations + 1):
            if request.on_iteration is not None:
                request.on_iteration(t)
        if request.on_disparity is not None:
            request.on_disparity(request.iterations, outputs[DISPARITY])
        prior: DepthPriorReport | None = None
        if matches is not None:
            prior = report_from_values(
                outputs[PRIOR].tolist(),
                given=len(matches.disparity),
                negative=matches.negative,
                min_inlier_share=self.config.prior_inlier_share,
            )
        return EngineResult(outputs[DISPARITY], prior, outputs.get(CONFIDENCE))


def match_rows(matches: SparseMatches) -> NDArray[np.float32]:
    """Sparse matches as the graph takes them, float32 [K, 3]: x, y and disparity, which is <= 0 for wrong ones."""
    good = np.concatenate([matches.points, matches.disparity[:, None]], axis=1, dtype=np.float32)
    wrong = np.zeros((matches.negative, 3), np.float32)
    return np.concatenate([good, wrong])


def onnx_runtime(content: bytes, threads: int) -> Compiled:
    """ONNX Runtime on the CPU."""
    runtime = require("onnxruntime", extra="export", purpose="the backend onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors; warnings are for those who wrote the graph
    # Threads that wait for work shall not keep a core busy that others need.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of types that ONNX Runtime keeps to itself
        raise InputError(f"ONNX Runtime cannot run the model ({_first_line(error)}); export it again") from error
    names = [output.name for output in session.get_outputs()]

    def run(inputs: Arrays) -> Arrays:
        try:
            return dict(zip(names, session.run(names, dict(inputs)), strict=True))
        except Exception as error:
            raise InputError(f"ONNX Runtime cannot run the model ({_first_line(error)}); export it again") from error

    return run


def openvino(content: bytes, threads: int, *, precision: str = "float32") -> Compiled:
    """OpenVINO on the CPU; compiled for each size of images, which is faster than one graph for all sizes."""
    core = _openvino_core()
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": _HINTS[precision],
        "PERFORMANCE_HINT": "LATENCY",
    }
    ready: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def run(inputs: Arrays) -> Arrays:
        key = inputs[LEFT].shape
        try:
            if key not in ready:
                model = core.read_model(content)
                model.reshape({name: list(inputs[name].shape) for name in (LEFT, RIGHT)})
                if precision != "float32":
                    _keep_precise(model)
                ready[key] = core.compile_model(model, "CPU", settings).create_infer_request()
                if len(ready) > REMEMBERED:
                    ready.popitem(last=False)
            results = ready[key].infer(dict(inputs))
        except RuntimeError as error:
            raise InputError(f"OpenVINO cannot run the model ({_first_line(error)}); use the backend onnx") from error
        named = [(name, value) for output, value in results.items() for name in output.get_names()]
        return {name: np.array(value) for name, value in named if not name.startswith(PRECISE)}

    return run


def _keep_precise(model: Any) -> None:
    """Let OpenVINO compute in single precision what has such a name, above all the positions of lookups.

    It does so with all that leads to an output without a convolution or a matrix product between, as the disparities
    do; so these become outputs.
    """
    names = [name for output in _outputs(model) for name in output.get_names() if name.startswith(PRECISE)]
    if not names:
        raise InputError(
            "the file was written by a linstereo that did not know OpenVINO in half precision; export it again, or "
            "leave out the precision"
        )
    model.add_outputs(names)


def _outputs(model: Any) -> list[Any]:
    """What the nodes of a model give."""
    return [output for node in model.get_ops() for output in node.outputs()]


def computes_in(backend: BackendName, precision: str) -> bool:
    """Whether a backend can compute in a precision on this processor; its packages must be installed."""
    if backend != "openvino" or precision == "float32":
        return backend == "torch" or precision == "float32"
    return precision in _HINTS and "BF16" in _openvino_core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def _check_precision(backend: str, precision: str) -> None:
    """Refuse a precision that a backend does not compute in."""
    if (backend, precision) != ("openvino", "bfloat16"):
        raise InputError(
            f"the backend {backend} does not compute in {precision}; leave out the precision, or use bfloat16 with the "
            "backend openvino"
        )
    if not computes_in("openvino", precision):
        raise InputError("this processor does not compute in bfloat16; leave out the precision")


def _openvino_core() -> Any:
    """OpenVINO; an `InputError` if it is not installed."""
    return _core_of(require("openvino", extra="export", purpose="the backend openvino"))


@functools.cache
def _core_of(runtime: Any) -> Any:
    """The one core of this process, kept for good.

    Each core gives its thread another stack for signal handlers and, when it goes, the one that it found. Of two that
    do not go in the reverse order of their coming, the last leaves a stack that is freed: the next Ctrl-C is a crash.
    """
    return runtime.Core()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "no reason given")[:300]
