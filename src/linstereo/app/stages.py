"""The work on one pair: read, rectify, check, predict, compare; each stage is timed and told to whoever waits."""

import base64
import contextlib
import dataclasses
import time
from collections.abc import Iterator
from typing import Any, Protocol

import cv2
import numpy as np
import numpy.typing as npt

from linstereo.app.job_queue import Event
from linstereo.app.job_request import JobRequest
from linstereo.app.results import StereoResult
from linstereo.app.two_views import Map, needs_second_view, predict_views
from linstereo.data.formats.images import colour_values, read_pixels
from linstereo.errors import InputError
from linstereo.evaluation.baselines import sgbm_disparity
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.pair_checks import doubts_about_pair
from linstereo.geometry.rectification import Rectification
from linstereo.geometry.stereo_rig import StereoRig
from linstereo.image_pairs import read_pair
from linstereo.memory_limits import memory_errors_told
from linstereo.prediction import Prediction
from linstereo.predictor import StereoPredictor

PREVIEW_WIDTH = 384
"""Largest width of a disparity that is sent while it is refined, px."""
PREVIEW_SCALE = 64
"""A preview holds this many levels for each pixel of disparity."""
_IMAGES = ("the left image", "the right image")


class Listener(Protocol):
    """Whoever waits for a job, as the work sees it."""

    def tell(self, event: Event) -> None:
        """Take notice of progress."""

    def check(self) -> None:
        """Raise an exception if the work should end."""


@dataclasses.dataclass(frozen=True)
class StageTime:
    """How long a stage took, s."""

    name: str
    seconds: float


def process_pair(
    request: JobRequest, predictor: StereoPredictor, listener: Listener, *, previews: bool = False
) -> StereoResult:
    """Do what a request asks for; an `InputError` or a `RefusedError` says what cannot be done.

    Args:
        request: what to do.
        predictor: the model.
        listener: told about stages, notes and iterations; asked between them whether to go on.
        previews: tell the disparity after each iteration, which takes an upsampling for each.
    """
    try:
        return _Work(request, predictor, listener, previews).result()
    except InputError as error:
        raise request.names.refusal(error) from error


class _Work:
    def __init__(self, request: JobRequest, predictor: StereoPredictor, listener: Listener, previews: bool) -> None:
        self.request = request
        self.predictor = predictor
        self.listener = listener
        self.previews = previews
        self.times: list[StageTime] = []
        self.notes: list[str] = []

    def result(self) -> StereoResult:
        request = self.request
        with memory_errors_told("the pair", "send smaller images"):
            with self._stage("read"):
                left, right = read_pair(*self._images(), on_note=self._note)
            calibration: StereoCalibration | None
            if isinstance(request.cameras, StereoRig):
                with self._stage("rectify"):
                    rectification = Rectification(request.cameras)
                    left, right = rectification.left(left), rectification.right(right)
                calibration = rectification.calibration
                self._note("the calibration is for raw images, so the pair was rectified; all results belong to that")
            else:
                calibration = request.cameras
            with self._stage("check"):
                for doubt in doubts_about_pair(left, right, names=_IMAGES):
                    self._note(doubt)
            self.listener.check()
            prediction = self._predict(left, right, calibration)
            sgbm = None
            if request.sgbm:
                with self._stage("sgbm"):
                    sgbm = sgbm_disparity(left, right)
        return StereoResult(prediction, right, sgbm, self._facts(prediction))

    def _images(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | tuple[Any, Any]:
        if self.request.right is not None:
            return self.request.left, self.request.right
        both = colour_values(read_pixels(self.request.left))
        half = both.shape[1] // 2
        return both[:, :half], both[:, half:]

    def _predict(
        self, left: npt.NDArray[np.uint8], right: npt.NDArray[np.uint8], calibration: StereoCalibration | None
    ) -> Prediction:
        """The maps; with previews, the times of features, refinement and the second view are told apart."""
        request, iterations = self.request, self.predictor.iterations(self.request.iterations)
        second = needs_second_view(self.predictor, confidence=request.confidence, occlusion=request.occlusion)
        stages = ["features", "refine"] if self.previews else ["network"]
        ends: list[float] = []
        self.listener.tell({"event": "stage", "stage": stages[0]})
        started = time.perf_counter()

        def on_iteration(t: int) -> None:
            self.listener.check()
            if t == iterations:
                ends.append(time.perf_counter())
            if t > iterations:
                self.listener.tell({"event": "second_view", "iteration": t - iterations, "iterations": iterations})

        def on_disparity(t: int, disparity: Map) -> None:
            if t == 0:
                ends.append(time.perf_counter())
            told = {"event": "iteration", "iteration": t, "iterations": iterations, **preview(disparity)}
            self.listener.tell(told)

        prediction = predict_views(
            self.predictor,
            left,
            right,
            calibration=calibration,
            iters=request.iterations,
            scale=request.scale,
            second=second,
            on_iteration=on_iteration,
            on_disparity=on_disparity if self.previews else None,
        )
        if second:
            stages.append("second_view")
            ends.append(time.perf_counter())
        else:
            ends[-1] = time.perf_counter()
        for stage, begin, end in zip(stages, [started, *ends], ends, strict=False):
            self.times.append(StageTime(stage, end - begin))
        return prediction

    def _facts(self, prediction: Prediction) -> dict[str, Any]:
        height, width = prediction.disparity.shape
        kind = "learned" if self.predictor.gives_confidence else "agreement of both views"
        calibration = prediction.calibration
        return {
            "width": width,
            "height": height,
            "iterations": prediction.iterations,
            "confidence": None if prediction.confidence is None else kind,
            "model": self.predictor.name,
            "trained": self.predictor.trained,
            "notes": self.notes,
            "stages": [dataclasses.asdict(time) for time in self.times],
            "calibration": None if calibration is None else dataclasses.asdict(calibration),
        }

    def _note(self, sentence: str) -> None:
        told = self.request.names.told(sentence)
        self.notes.append(told)
        self.listener.tell({"event": "note", "text": told})

    @contextlib.contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        self.listener.check()
        self.listener.tell({"event": "stage", "stage": name})
        started = time.perf_counter()
        yield
        self.times.append(StageTime(name, time.perf_counter() - started))


def preview(disparity: Map) -> Event:
    """A disparity map [H, W], px, small enough to be sent often: 16-bit levels, little-endian, as base64."""
    height, width = disparity.shape
    factor = min(PREVIEW_WIDTH / width, 1.0)
    size = (max(round(width * factor), 1), max(round(height * factor), 1))
    small = cv2.resize(disparity, size, interpolation=cv2.INTER_AREA)
    levels = np.clip(np.rint(small * PREVIEW_SCALE), 0, 65535).astype("<u2")
    return {
        "width": size[0],
        "height": size[1],
        "scale": PREVIEW_SCALE,
        "values": base64.b64encode(levels.tobytes()).decode("ascii"),
    }
