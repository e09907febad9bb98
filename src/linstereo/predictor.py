"""From two pictures to a disparity map: numpy in, numpy out."""

import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import cv2
import numpy as np
import numpy.typing as npt
import torch

from linstereo.backends.devices import pick_device
from linstereo.backends.engine import Engine, EngineMemory, EngineRequest
from linstereo.backends.torch_engine import TorchEngine
from linstereo.cpu_memory import keep_freed_memory
from linstereo.data.formats.camera_files import cameras_for_size
from linstereo.data.formats.images import to_rgb8, used_bits
from linstereo.data.sequences.frames import StereoFrame
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth_edges import at_size, sharpened
from linstereo.geometry.known_disparity import KnownDisparity
from linstereo.geometry.pair_checks import doubts_about_pair
from linstereo.geometry.rectification import Rectification
from linstereo.geometry.sparse_matches import SparseMatches, match_sparse
from linstereo.geometry.stereo_rig import StereoRig
from linstereo.geometry.texture import mostly_plain
from linstereo.image_pairs import Image, ImageLike, image_names, pair_size, read_pair, read_values
from linstereo.memory_limits import available_memory, memory_errors_told, within_budget
from linstereo.model.cost_volume import VolumeKind
from linstereo.model.linstereo import LinStereo
from linstereo.model.precision import PRECISIONS
from linstereo.model.presets import LinStereoConfig
from linstereo.prediction import Prediction
from linstereo.run_plan import RunPlan, bytes_without_limit, plan_run
from linstereo.tracking import TrackedFrame, Tracker

Dtype = TypeVar("Dtype", bound=np.generic)
CalibrationLike = StereoCalibration | StereoRig | str | os.PathLike[str]


class StereoPredictor:
    """A model made ready for pictures of any kind and size.

    Args:
        model: the network, moved to `device` and put in eval mode; or an engine that runs it.
        device: where it runs; by default CUDA if there is one, else the CPU. Engines other than PyTorch run on the CPU.
        trained: False for a network with random weights, whose output means nothing.
        name: what to call the model in messages.
        precision: of convolutions and matrix products, "float32", "bfloat16" or "float16"; disparities, positions and
            long sums are in float32 in any case.
    """

    def __init__(
        self,
        model: LinStereo | Engine,
        *,
        device: str | torch.device | None = None,
        trained: bool = True,
        name: str = "model",
        precision: str = "float32",
    ) -> None:
        if precision not in PRECISIONS:
            raise InputError(f"the precision is {precision!r}; use {' or '.join(PRECISIONS)}")
        network = isinstance(model, torch.nn.Module)
        self.device = pick_device(device if network or device is not None else "cpu")
        if self.device.type == "cpu":
            keep_freed_memory()
        self.engine: Engine = TorchEngine(model, device=self.device) if isinstance(model, torch.nn.Module) else model
        if not network and (self.device.type != "cpu" or precision != self.engine.precision):
            raise InputError(
                f"the backend {self.engine.backend} runs on the CPU, here in {self.engine.precision}; leave out the "
                "device and the precision, or load the model with them"
            )
        self.memory: int | None = None
        """Bytes that the process may take, by the user's word; None for all that is free."""
        self.trained = trained
        self.name = name
        self.precision = precision

    @property
    def model(self) -> LinStereo:
        """The network itself; an `InputError` if it is not PyTorch that runs it."""
        return self.torch_engine.model

    @property
    def torch_engine(self) -> TorchEngine:
        """PyTorch with the network; an `InputError` if something else runs it."""
        if not isinstance(self.engine, TorchEngine):
            raise InputError(f"{self.name} is run by {self.engine.backend}; give the checkpoint that it was made from")
        return self.engine

    @property
    def config(self) -> LinStereoConfig:
        """Settings of the network, whatever runs it."""
        return self.engine.config

    @torch.inference_mode()
    def predict(
        self,
        left: ImageLike,
        right: ImageLike,
        *,
        calibration: CalibrationLike | None = None,
        occlusion: bool = False,
        iters: int | None = None,
        scale: float | None = None,
        volume: VolumeKind | None = None,
        on_iteration: Callable[[int], None] | None = None,
        on_disparity: Callable[[int, npt.NDArray[np.float32]], None] | None = None,
        use_prior: bool = True,
        on_note: Callable[[str], None] | None = None,
        strict: bool = False,
        start: KnownDisparity | None = None,
        memory: EngineMemory | None = None,
        stop_below: float | None = None,
    ) -> Prediction:
        """Disparity of a pair.

        Args:
            left: path, or uint8 or uint16 array: RGB [H, W, 3], RGBA or grey; at least 32 px a side.
            right: the same size.
            calibration: of the pair at its own size, or a file of it (`linstereo.data.formats.camera_files`), for depth
                and points. A `StereoRig` is that of raw images, which are rectified first; the result then belongs to
                the rectified left image. Without it the pair must be rectified.
            occlusion: predict the right view too, which takes twice the time, for `Prediction.occluded`.
            iters: refinement iterations, at least 1; by default the model's own number.
            scale: run on images resized by this factor, in (0, 4]; the result still has the input size and its pixels.
                By default 1, or for small images what `plan_of` says if the model wants them enlarged.
            volume: how correlations are held; by default stored while they fit into 1 GiB and into memory.
            on_iteration: called with 1, 2, ... after each iteration, for progress bars; those of the right view come
                after those of the left one.
            on_disparity: called with 0 and the disparity that refinement starts from, then with 1, 2, ... and the
                disparity after each iteration of the left view; float32 [H, W], pixels. Each costs an upsampling.
            use_prior: False makes a model that starts from monocular depth (DPI) start from zero disparity, as it does
                where it falls back.
            on_note: called with a sentence about whatever looks wrong with the pair: rows that are not aligned, left
                and right swapped, two identical or unrelated images (`linstereo.geometry.pair_checks`), values of
                fewer bits than their type has. Without it, and without `strict`, nothing is checked.
            strict: raise an `InputError` instead if the pair looks wrong.
            start: a disparity that is known already, such as that of the frame before (see `track`); refinement starts
                from it wherever the images agree with it.
            memory: what the network remembers of the frame before, which `start` must then come from; afterwards what
                it remembers of this one (see `track`).
            stop_below: px of the left image, >= 0: no further iteration follows one that changes the disparity by less
                on average, and `Prediction.iterations` tells how many there were. By default, and with 0, all are run;
                so they are for pairs that are run in strips because they do not fit into memory.
        """
        iterations = self.iterations(iters)
        least_update = self.checked_stop(stop_below)
        height, width = pair_size(left, right)
        camera, rectification = _cameras(calibration, width=width, height=height, image=image_names(left, right)[0])
        plan = self.plan(height, width, scale=scale, volume=volume)  # the largest, before anything is read
        what = f"a pair of {width} x {height} px, run at {plan.width} x {plan.height} px,"
        dtype = PRECISIONS[self.precision]
        with (
            memory_errors_told(what, "use a smaller scale, or images of fewer pixels"),
            torch.autocast(self.device.type, dtype, enabled=dtype != torch.float32),
        ):
            images = read_pair(left, right, on_note=on_note)
            if rectification is not None:
                images = rectification.left(images[0]), rectification.right(images[1])
            if strict or on_note is not None:
                for doubt in doubts_about_pair(*images, names=image_names(left, right)):
                    if strict or on_note is None:
                        raise InputError(doubt)
                    on_note(doubt)
            if plan.height * plan.width > height * width and self._is_plain(images[0], memory):
                plan = self.plan(*images[0].shape[:2], scale=scale, volume=volume, plain=True)
            result = self._run(
                *images,
                plan,
                iterations,
                on_iteration,
                on_disparity,
                use_prior,
                start=start,
                memory=memory,
                stop_below=least_update,
            )
            right_disparity = None
            if occlusion:
                later = None if on_iteration is None else lambda t: on_iteration(iterations + t)
                left_of_mirror, right_of_mirror = _mirrored(images[1]), _mirrored(images[0])
                mirrored = self._run(
                    left_of_mirror, right_of_mirror, plan, iterations, later, None, use_prior, stop_below=least_update
                )
                right_disparity = _mirrored(mirrored.disparity)
            return dataclasses.replace(result, calibration=camera, right_disparity=right_disparity)

    def track(
        self,
        frames: Iterable[StereoFrame | tuple[ImageLike, ImageLike]],
        *,
        calibration: CalibrationLike | None = None,
        iters: int | None = None,
        cold_iters: int | None = None,
        scale: float | None = None,
        volume: VolumeKind | None = None,
        steady: bool = True,
        on_iteration: Callable[[int], None] | None = None,
    ) -> Iterator[TrackedFrame]:
        """Disparities of the frames of a sequence, each as soon as it is asked for.

        Every frame starts from the disparity of the one before where that still holds, see `linstereo.tracking`.

        Args:
            frames: pairs (left, right) of images such as `predict` takes, or what the sources of
                `linstereo.data.sequences` give.
            calibration: of all frames, see `predict`, for depth and points; raw frames are rectified with it.
            iters: iterations of a frame that starts from the one before; by default half of `cold_iters`.
            cold_iters: iterations of the first frame and of one after a cut; by default the model's own number.
            scale: see `predict`, like `volume` and `on_iteration`.
            volume: how correlations are held.
            steady: whether to steady what did not change between two frames.
            on_iteration: called with 1, 2, ... after each iteration of a frame.
        """
        self.check_tracks()
        cold = self.iterations(cold_iters)
        warm = self.iterations(max(cold // 2, 1) if iters is None else iters)
        camera: StereoCalibration | None = None
        rectification: Rectification | None = None
        memory = EngineMemory()

        def predict(left: Image, right: Image, known: KnownDisparity | None) -> Prediction:
            return self.predict(
                left,
                right,
                calibration=camera,
                iters=cold if known is None else warm,
                scale=scale,
                volume=volume,
                on_iteration=on_iteration,
                start=known,
                memory=memory,
            )

        tracker = Tracker(predict, steady=steady)
        bits = 8
        for frame in frames:
            stamp = frame.stamp if isinstance(frame, StereoFrame) else None
            values = read_values(*frame[-2:])
            bits = max(bits, used_bits(*values))  # brightness must not jump when a frame holds no bright pixel
            left, right = (to_rgb8(image, bits=bits) for image in values)
            if calibration is not None and camera is None:
                height, width = left.shape[:2]
                camera, rectification = _cameras(calibration, width=width, height=height, image="the left image")
            if rectification is not None:
                left, right = rectification.left(left), rectification.right(right)
            yield tracker.follow(left, right, stamp=stamp)

    def check_tracks(self) -> None:
        """An `InputError` if what runs the network cannot start from the frame before."""
        if not self.engine.takes_start:
            raise InputError(f"the backend {self.engine.backend} cannot follow a sequence; use the backend torch")

    def iterations(self, iters: int | None) -> int:
        """Refinement iterations that `predict` runs when it is asked for `iters`; an `InputError` if it cannot."""
        return self.engine.iterations(iters)

    def checked_stop(self, stop_below: float | None) -> float:
        """The update in px below which `predict` stops, 0 for None; an `InputError` if it cannot."""
        if stop_below is None:
            return 0.0
        if not 0 <= stop_below < math.inf:
            raise InputError(f"iterations are to stop below an update of {stop_below} px; use a number from 0")
        if stop_below and not self.engine.stops_early:
            raise InputError(
                f"the backend {self.engine.backend} cannot stop before the last iteration; use the backend torch"
            )
        return float(stop_below)

    @property
    def gives_confidence(self) -> bool:
        """Whether the model has learned how far its disparities can be trusted, see `Prediction.confidence`."""
        return self.engine.gives_confidence

    def plan(
        self,
        height: int,
        width: int,
        *,
        scale: float | None = None,
        volume: VolumeKind | None = None,
        plain: bool = False,
    ) -> RunPlan:
        """How a pair of height x width px will be predicted; an `InputError` if that cannot fit into memory.

        On the CPU the memory it will take is estimated from its size and compared with what is available. `plain` is
        for images that are known to be so, see `plan_of`; the other arguments are those of `predict`.
        """
        if volume not in (None, *self.engine.volumes):
            raise InputError(f"the backend {self.engine.backend} has no volume {volume!r}; use the backend torch")
        volume = self.engine.volumes[0] if len(self.engine.volumes) == 1 else volume
        available = None
        if self.device.type == "cpu":
            most = bytes_without_limit(self.config, height, width, scale=scale, volume=volume, plain=plain)
            available = within_budget(available_memory(enough=most), self.memory)
        return plan_run(self.config, height, width, scale=scale, volume=volume, available=available, plain=plain)

    def plan_of(
        self,
        left: Image,
        *,
        scale: float | None = None,
        volume: VolumeKind | None = None,
        memory: EngineMemory | None = None,
    ) -> RunPlan:
        """How a pair with this left image, uint8 RGB [H, W, 3], will be predicted.

        As `plan`, but images that are plain nearly everywhere (`linstereo.geometry.texture`) are not enlarged as far.
        All frames of a sequence, which share a `memory`, are enlarged as the first one.
        """
        return self.plan(*left.shape[:2], scale=scale, volume=volume, plain=self._is_plain(left, memory))

    @staticmethod
    def _is_plain(left: Image, memory: EngineMemory | None) -> bool:
        """Whether an image, or the first one of its sequence, is plain nearly everywhere."""
        plain = mostly_plain(left) if memory is None or memory.plain is None else memory.plain
        if memory is not None:
            memory.plain = plain
        return plain

    def _run(
        self,
        left: Image,
        right: Image,
        plan: RunPlan,
        iterations: int,
        on_iteration: Callable[[int], None] | None,
        on_disparity: Callable[[int, npt.NDArray[np.float32]], None] | None,
        use_prior: bool,
        *,
        start: KnownDisparity | None = None,
        memory: EngineMemory | None = None,
        stop_below: float,
    ) -> Prediction:
        """Predict a pair of images, uint8 [H, W, 3]."""
        if plan.strips is not None:
            if memory is not None:
                memory.hidden = None
            large = self.torch_engine.run_large(
                left, right, plan.strips, iterations=iterations, on_iteration=on_iteration
            )
            disparity = self._finished(large.disparity, *left.shape[:2])
            if on_disparity is not None:
                on_disparity(iterations, disparity)
            return Prediction(disparity=disparity, left=left, iterations=iterations, confidence=large.confidence)
        height, width = left.shape[:2]
        run_height, run_width = plan.height, plan.width
        small = [_resized(image, run_height, run_width) for image in (left, right)]
        start_here = None if start is None else start.resized(run_height, run_width)
        shown = None
        if on_disparity is not None:

            def shown(t: int, disparity: npt.NDArray[np.float32]) -> None:
                on_disparity(t, self._finished(disparity, height, width))

        matches = None
        if self.engine.needs_matches:
            matches = match_sparse(*small) if use_prior else SparseMatches.none((run_height, run_width))
        result = self.engine.run(
            EngineRequest(
                small[0],
                small[1],
                iterations=iterations,
                volume=plan.volume,
                matches=matches,
                start=start_here,
                memory=memory,
                tolerance=run_width / width,
                stop_below=stop_below * run_width / width,
                on_iteration=on_iteration,
                on_disparity=shown,
            )
        )
        confidence = result.confidence
        if confidence is not None and confidence.shape != (height, width):
            confidence = np.asarray(cv2.resize(confidence, (width, height)), np.float32)
        return Prediction(
            disparity=self._finished(result.disparity, height, width),
            left=left,
            iterations=iterations if result.iterations is None else result.iterations,
            prior=result.prior,
            confidence=confidence,
        )

    def _finished(self, disparity: npt.NDArray[np.float32], height: int, width: int) -> npt.NDArray[np.float32]:
        """What a network says of a pair as run, [h, w] px, as it is told of the pair itself, [H, W] px."""
        return at_size(sharpened(disparity) if self.config.sharp_steps else disparity, height, width)


def _cameras(
    calibration: CalibrationLike | None, *, width: int, height: int, image: str
) -> tuple[StereoCalibration | None, Rectification | None]:
    """The calibration of rectified images, and how raw ones of width x height px are rectified if they are to be."""
    if isinstance(calibration, str | os.PathLike):
        calibration = cameras_for_size(calibration, width=width, height=height, image=image)
    if isinstance(calibration, StereoRig):
        rectification = Rectification(calibration)
        return rectification.calibration, rectification
    return calibration, None


def _mirrored(values: npt.NDArray[Dtype]) -> npt.NDArray[Dtype]:
    """An image or a map [H, W, ...] with left and right exchanged."""
    return np.ascontiguousarray(values[:, ::-1])


def _resized(image: Image, height: int, width: int) -> Image:
    if image.shape[:2] == (height, width):
        return image
    method = cv2.INTER_AREA if height < image.shape[0] else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(image, (width, height), interpolation=method), np.uint8)
