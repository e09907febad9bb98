"""Where disparities come from, as the evaluation sees it, and the network as one such source.

`linstereo.evaluation.baselines` has the others: OpenCV's SGBM, and files that another tool wrote.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from linstereo.data.sample import StereoSample
from linstereo.errors import InputError

if TYPE_CHECKING:
    from linstereo.prediction import Prediction
    from linstereo.predictor import StereoPredictor


class Method(Protocol):
    """A source of disparity maps.

    title: what tables and reports call it.
    settings: everything that decides what it predicts, as plain JSON values. Measurements are used again only under
        equal settings.
    timed: whether the time that `predict` takes says something about the method.
    """

    title: str
    settings: Mapping[str, Any]
    timed: bool

    def for_benchmark(self, key: str, names: Sequence[str]) -> Self:
        """The method made ready for the samples `names` of the benchmark `key`; `InputError` if it cannot do them."""
        ...

    def sources(self, name: str) -> tuple[Path, ...]:
        """Files, other than the dataset's, from which the prediction of the sample `name` is read."""
        ...

    def predict(self, sample: StereoSample) -> NDArray[np.float32]:
        """Disparity of `sample`, float32 [H, W], px of its left image; not finite where there is none."""
        ...


@runtime_checkable
class ReportingMethod(Method, Protocol):
    """A method that also says what its depth prior (DPI) did, and how far its disparities can be trusted.

    zero_start: whether to measure each pair from zero disparity as well, which says what a fallback costs.
    """

    zero_start: bool

    def predict_fully(self, sample: StereoSample, *, use_prior: bool = True) -> "Prediction":
        """As `predict`, with all that is known about the disparity.

        use_prior: False starts from zero disparity, as after a fallback.
        """
        ...


class ModelMethod:
    """A network: any checkpoint or preset, with any number of iterations.

    Args:
        predictor: the network.
        iters: refinement iterations; by default the network's own number.
        scale: run on images resized by this factor; the disparity still has the size of the sample. By default the
            network's own choice for each image.
        title: what to call it; by default its name and number of iterations.
        zero_start: measure each pair from zero disparity as well; only for a network with the depth prior (DPI).
    """

    timed = True

    def __init__(
        self,
        predictor: "StereoPredictor",
        *,
        iters: int | None = None,
        scale: float | None = None,
        title: str | None = None,
        zero_start: bool = False,
    ) -> None:
        import torch

        from linstereo.run_plan import check_scale

        check_scale(scale)
        if zero_start and not predictor.engine.needs_matches:
            raise InputError(
                f"--zero-start says what a fallback of the depth prior (DPI) costs, but {predictor.name} has none; "
                "leave it out"
            )
        self._predictor = predictor
        self._iters = predictor.iterations(iters)
        self._scale = scale
        self.zero_start = zero_start
        untrained = "" if predictor.trained else ", random weights"
        reduced = "" if predictor.precision == "float32" else f", {predictor.precision}"
        if predictor.engine.backend != "torch":
            reduced += f", {predictor.engine.backend}"
        self.title = title or f"LinStereo ({predictor.name}{untrained}, T = {self._iters}{reduced})"
        self.settings: Mapping[str, Any] = {
            "method": "model",
            "weights_sha256": predictor.engine.digest(),
            "config": dataclasses.asdict(predictor.config),
            "trained": predictor.trained,
            "iterations": self._iters,
            "scale": scale,
            "device": predictor.device.type,
            "torch": str(torch.__version__),
        }
        if predictor.precision != "float32":
            self.settings = {**self.settings, "precision": predictor.precision}
        if predictor.engine.backend != "torch":
            self.settings = {**self.settings, "backend": predictor.engine.backend}
        if predictor.device.type == "cpu":  # on which the last bits of a sum depend
            self.settings = {**self.settings, "threads": torch.get_num_threads()}
        if zero_start:
            self.settings = {**self.settings, "zero_start": True}

    def for_benchmark(self, key: str, names: Sequence[str]) -> Self:
        """The same method: it can do every pair."""
        return self

    def sources(self, name: str) -> tuple[Path, ...]:
        """None: the network needs only the pair."""
        return ()

    def predict(self, sample: StereoSample) -> NDArray[np.float32]:
        """Run the network on one pair; float32 [H, W], px, >= 0."""
        return self.predict_fully(sample).disparity

    def predict_fully(self, sample: StereoSample, *, use_prior: bool = True) -> "Prediction":
        """As `predict`, with the report of the depth prior and the confidence, where the network has them."""
        return self._predictor.predict(
            sample.left, sample.right, iters=self._iters, scale=self._scale, use_prior=use_prior
        )
