"""From two pictures to a disparity map: numpy in, numpy out."""

import dataclasses
import os
from collections.abc import Callable, Sequence

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from linstereo.checkpoints.checkpoint import BUNDLED, bundled_weights, is_bundled, is_random_preset
from linstereo.checkpoints.da3_weights import load_da3_weights
from linstereo.cpu_memory import keep_freed_memory
from linstereo.data.formats.images import colour_values, image_size, read_image, read_pixels, to_rgb8, used_bits
from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth import disparity_to_depth
from linstereo.geometry.pair_checks import doubts_about_pair
from linstereo.geometry.point_cloud import PointCloud, point_cloud
from linstereo.geometry.sparse_matches import SparseMatches, match_sparse
from linstereo.memory_limits import available_memory, memory_errors_told, within_budget
from linstereo.model.backbone import DepthAnything3
from linstereo.model.cost_volume import VolumeKind
from linstereo.model.depth_prior import DepthPriorReport
from linstereo.model.large_images import predict_in_strips
from linstereo.model.linstereo import LinStereo
from linstereo.model.precision import PRECISIONS
from linstereo.model.presets import build, checked_iterations, preset
from linstereo.run_plan import MIN_SIDE, RunPlan, plan_run

ImageLike = npt.ArrayLike | str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The result for one pair.

    Attributes:
        disparity: float32 [H, W], pixels of the left input image, >= 0: left pixel (x, y) matches right (x - d, y).
        iterations: refinement iterations that were run.
        prior: what the start from monocular depth did; None for a model without it.
    """

    disparity: npt.NDArray[np.float32]
    iterations: int
    prior: DepthPriorReport | None

    def depth(self, calibration: StereoCalibration) -> npt.NDArray[np.float32]:
        """Depth along the optical axis, float32 [H, W] in metres, infinite where the disparity gives none.

        `calibration` is that of the input images at their own size, whatever `scale` was.
        """
        return disparity_to_depth(self.disparity, calibration)

    def point_cloud(
        self, left: ImageLike, calibration: StereoCalibration, *, max_depth: float | None = None
    ) -> PointCloud:
        """Points in metres with the colours of the left image, as `linstereo.geometry.point_cloud` makes them.

        Args:
            left: the left image, as given to `predict`.
            calibration: of the input images at their own size.
            max_depth: farther points are left out; by default those with a disparity below a pixel.
        """
        return point_cloud(self.disparity, _read(left, name="the left image"), calibration, max_depth=max_depth)


class StereoPredictor:
    """A model made ready for pictures of any kind and size.

    Args:
        model: the network; moved to `device` and put in eval mode.
        device: where it runs; by default CUDA if there is one, else the CPU.
        trained: False for a network with random weights, whose output means nothing.
        name: what to call the model in messages.
        precision: of convolutions and matrix products, "float32", "bfloat16" or "float16"; disparities, positions and
            long sums are in float32 in any case.
    """

    def __init__(
        self,
        model: LinStereo,
        *,
        device: str | torch.device | None = None,
        trained: bool = True,
        name: str = "model",
        precision: str = "float32",
    ) -> None:
        if precision not in PRECISIONS:
            raise InputError(f"the precision is {precision!r}; use {' or '.join(PRECISIONS)}")
        self.device = pick_device(device)
        if self.device.type == "cpu":
            keep_freed_memory()
        self.memory: int | None = None
        """Bytes that the process may take, by the user's word; None for all that is free."""
        self.model = model.to(self.device).eval()
        self.trained = trained
        self.name = name
        self.precision = precision

    @torch.inference_mode()
    def predict(
        self,
        left: ImageLike,
        right: ImageLike,
        *,
        iters: int | None = None,
        scale: float | None = None,
        volume: VolumeKind | None = None,
        on_iteration: Callable[[int], None] | None = None,
        use_prior: bool = True,
        on_note: Callable[[str], None] | None = None,
        strict: bool = False,
    ) -> Prediction:
        """Disparity of a rectified pair.

        Args:
            left: path, or uint8 or uint16 array: RGB [H, W, 3], RGBA or grey; at least 32 px a side.
            right: the same size.
            iters: refinement iterations, at least 1; by default the model's own number.
            scale: run on images resized by this factor, in (0, 4]; the result still has the input size and its pixels.
                By default 1, or for small images what `linstereo.run_plan.working_size` says if the model has one.
            volume: how correlations are held; by default stored while they fit into 1 GiB and into memory.
            on_iteration: called with 1, 2, ... after each iteration, for progress bars.
            use_prior: False makes a model that starts from monocular depth (DPI) start from zero disparity, as it does
                where it falls back.
            on_note: called with a sentence about whatever looks wrong with the pair: rows that are not aligned, left
                and right swapped, two identical or unrelated images (`linstereo.geometry.pair_checks`), values of
                fewer bits than their type has. Without it, and without `strict`, nothing is checked.
            strict: raise an `InputError` instead if the pair looks wrong.
        """
        iterations = self.iterations(iters)
        height, width = pair_size(left, right)
        plan = self.plan(height, width, scale=scale, volume=volume)
        what = f"a pair of {width} x {height} px, run at {plan.width} x {plan.height} px,"
        dtype = PRECISIONS[self.precision]
        with (
            memory_errors_told(what, "use a smaller scale, or images of fewer pixels"),
            torch.autocast(self.device.type, dtype, enabled=dtype != torch.float32),
        ):
            images = read_pair(left, right, on_note=on_note)
            if strict or on_note is not None:
                for doubt in doubts_about_pair(*images, names=_names(left, right)):
                    if strict or on_note is None:
                        raise InputError(doubt)
                    on_note(doubt)
            return self._run(*images, plan, iterations, on_iteration, use_prior)

    def iterations(self, iters: int | None) -> int:
        """Refinement iterations that `predict` runs when it is asked for `iters`; an `InputError` if it cannot."""
        return checked_iterations(self.model.config.iterations if iters is None else iters)

    def plan(self, height: int, width: int, *, scale: float | None = None, volume: VolumeKind | None = None) -> RunPlan:
        """How a pair of height x width px will be predicted; an `InputError` if that cannot fit into memory.

        On the CPU the memory it will take is estimated from its size and compared with what is available. Arguments
        are those of `predict`.
        """
        available = within_budget(available_memory(), self.memory) if self.device.type == "cpu" else None
        return plan_run(self.model.config, height, width, scale=scale, volume=volume, available=available)

    def _run(
        self,
        left: npt.NDArray[np.uint8],
        right: npt.NDArray[np.uint8],
        plan: RunPlan,
        iterations: int,
        on_iteration: Callable[[int], None] | None,
        use_prior: bool,
    ) -> Prediction:
        """Predict a pair of images, uint8 [H, W, 3]."""
        height, width = left.shape[:2]
        if plan.strips is not None:
            disparity = self._run_large(left, right, plan, iterations, on_iteration, use_prior)
            return Prediction(disparity, iterations, None)
        run_height, run_width = plan.height, plan.width
        small = [_resized(image, run_height, run_width) for image in (left, right)]
        matches = None
        if self.model.start.needs_depth:
            matches = [match_sparse(*small) if use_prior else SparseMatches.none((run_height, run_width))]
        tensors = [_to_tensor(image, self.device) for image in small]
        evidence = self.model.prepare(tensors[0], tensors[1], matches=matches, volume=plan.volume)
        states = self.model.iterate(evidence, iterations)
        for t in range(1, iterations + 1):
            state = next(states)
            if on_iteration is not None:
                on_iteration(t)
        disparity = self.model.upsample(state, evidence)[0, 0].clamp(min=0).float().cpu().numpy()
        if disparity.shape != (height, width):
            disparity = cv2.resize(disparity, (width, height), interpolation=cv2.INTER_LINEAR) * (width / run_width)
        prior = evidence.prior[0] if evidence.prior else None
        return Prediction(np.ascontiguousarray(disparity, dtype=np.float32), iterations, prior)

    def _run_large(
        self,
        left: npt.NDArray[np.uint8],
        right: npt.NDArray[np.uint8],
        plan: RunPlan,
        iterations: int,
        on_iteration: Callable[[int], None] | None,
        use_prior: bool,
    ) -> npt.NDArray[np.float32]:
        """The disparity of a large pair, see `linstereo.model.large_images`."""
        assert plan.strips is not None
        matches = None
        if self.model.start.needs_depth:
            size = (plan.strips.coarse_height, plan.strips.coarse_width)
            small = [_resized(image, *size) for image in (left, right)]
            matches = [match_sparse(*small) if use_prior else SparseMatches.none(size)]
        disparity = predict_in_strips(
            self.model,
            torch.from_numpy(left),
            torch.from_numpy(right),
            plan.strips,
            iterations=iterations,
            volume=plan.volume,
            matches=matches,
            on_iteration=on_iteration,
        )
        return np.ascontiguousarray(disparity.clamp(min=0).float().cpu().numpy())


def load(
    name_or_path: str | os.PathLike[str] | None = None,
    *,
    device: str | torch.device | None = None,
    backbone_weights: str | os.PathLike[str] | None = None,
    precision: str = "float32",
) -> StereoPredictor:
    """Get a model ready to predict.

    Args:
        name_or_path: a checkpoint file or folder, a hub repository, or a preset's name. None and `compact` stand for
            the trained model that is part of the package; all other presets have random weights, for measuring and
            testing, and `trained` of the result is then False.
        device: where to run, see `StereoPredictor`.
        backbone_weights: official DA3 weights for the frozen backbone, a path or hub name; from the hub by default.
        precision: of the arithmetic, see `StereoPredictor`.
    """
    name = BUNDLED if name_or_path is None else str(name_or_path)
    bundled = name_or_path is None or is_bundled(name_or_path)
    random = not bundled and is_random_preset(name)
    if random:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = build(preset(name))
    else:
        model = LinStereo.from_pretrained(bundled_weights() if bundled else name, backbone_weights=backbone_weights)
    if backbone_weights is not None:
        if not isinstance(model.backbone, DepthAnything3):
            raise InputError(f"the model {name!r} has a backbone of its own; leave out the backbone weights")
        if random:
            load_da3_weights(model.backbone, backbone_weights)
    return StereoPredictor(
        model,
        device=device,
        trained=not random,
        name=f"{name} (bundled)" if bundled else name,
        precision=precision,
    )


def pair_size(left: ImageLike, right: ImageLike) -> tuple[int, int]:
    """Height and width of a pair, checked to be large enough and of one size; files are not decoded for it."""
    sizes = [_size(image, name=name) for image, name in zip((left, right), _names(left, right), strict=True)]
    return _check_sizes(sizes, _names(left, right))


def read_pair(
    left: ImageLike, right: ImageLike, *, on_note: Callable[[str], None] | None = None
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Both images as uint8 [H, W, 3] RGB, checked to be large enough and of one size.

    Values of more than 8 bits are scaled alike in both, by the bits that they use (see
    `linstereo.data.formats.images.used_bits`); `on_note` is called with a sentence if those are fewer than the type
    has.
    """
    names = _names(left, right)
    images = [
        read_pixels(image) if isinstance(image, str | os.PathLike) else colour_values(image, name=name)
        for image, name in zip((left, right), names, strict=True)
    ]
    _check_sizes([image.shape[:2] for image in images], names)
    bits = used_bits(*images)
    if on_note is not None and bits < 16 and any(image.dtype == np.uint16 for image in images):
        on_note(
            f"{names[0]} and its right image hold {bits}-bit values in 16 bits; they are scaled so that "
            f"{2**bits - 1} is white"
        )
    return to_rgb8(images[0], bits=bits), to_rgb8(images[1], bits=bits)


def _names(*images: ImageLike) -> list[str]:
    sides = zip(("left", "right"), images, strict=True)
    return [os.fspath(image) if isinstance(image, str | os.PathLike) else f"the {side} image" for side, image in sides]


def _size(image: ImageLike, *, name: str) -> tuple[int, int]:
    """Height and width."""
    if isinstance(image, str | os.PathLike):
        width, height = image_size(image)
        return height, width
    height, width = colour_values(image, name=name).shape[:2]
    return height, width


def _check_sizes(sizes: Sequence[Sequence[int]], names: Sequence[str]) -> tuple[int, int]:
    for (height, width), name in zip(sizes, names, strict=True):
        if min(height, width) < MIN_SIDE:
            raise InputError(f"{name} is {width} x {height} px; use an image of at least {MIN_SIDE} px a side")
    (h0, w0), (h1, w1) = sizes
    if (h0, w0) != (h1, w1):
        raise InputError(
            f"{names[0]} is {w0} x {h0} px but {names[1]} is {w1} x {h1} px; give a rectified pair of one size"
        )
    return h0, w0


def _read(image: ImageLike, *, name: str) -> npt.NDArray[np.uint8]:
    return read_image(image) if isinstance(image, str | os.PathLike) else to_rgb8(image, name=name)


def _resized(image: npt.NDArray[np.uint8], height: int, width: int) -> npt.NDArray[np.uint8]:
    if image.shape[:2] == (height, width):
        return image
    method = cv2.INTER_AREA if height < image.shape[0] else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(image, (width, height), interpolation=method), np.uint8)


def _to_tensor(image: npt.NDArray[np.uint8], device: torch.device) -> Tensor:
    """uint8 [H, W, 3] -> float [1, 3, H, W] in [0, 1]."""
    return torch.from_numpy(image).to(device).permute(2, 0, 1).unsqueeze(0).float() / 255


def pick_device(device: str | torch.device | None) -> torch.device:
    """The device of that name, checked to be usable; for None CUDA if there is one, else the CPU."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"the device {device!r} cannot be used here; use cpu, or leave the choice out") from error
    return chosen
