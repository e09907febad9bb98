"""How a pair will be run: the size that the network sees, how correlations are held, and whether that fits into memory.

Judged before anything is computed, from the sizes, and from what is known of the images.
"""

import dataclasses
import math

from linstereo.errors import InputError
from linstereo.model.cost_volume import VolumeKind
from linstereo.model.large_images import Strips
from linstereo.model.memory import peak_bytes, volume_bytes
from linstereo.model.presets import LinStereoConfig
from linstereo.model.strides import PAD_TO, padded

MIN_SIDE = PAD_TO  # px; the smallest image the network takes
MAX_SCALE = 4.0  # largest factor by which images may be enlarged
MAX_OWN_SCALE = 2.0  # largest factor by which they are unless the user says so
STORED_VOLUME_LIMIT = 1 << 30  # bytes of correlations above which they are computed on the fly
IMAGE_BYTES = 24  # for each pixel of a pair: both images as decoded and as RGB, and the disparity
ADVICE_SHARE = 0.75  # of the available memory that advice counts on; later runs find less
COARSE_PIXELS = 1_000_000  # that the images of the coarse pass have, about, where the whole does not fit
LARGE_BYTES = 160  # for each pixel of a large pair: images, features of both while one is made, and the disparity
HELD_BYTES = 66  # for each pixel of it: images, and features of both during the coarse pass
STRIP_BYTES = 60  # for each pixel of a strip
MIN_STRIP, MAX_STRIP = 64, 512  # px of height; below, most of the work is done twice, and above, no time is saved
LARGE_FIXED = 64 << 20  # bytes that do not depend on the size
RESULT_BYTES = 120  # for each pixel: what making depth, point cloud and pictures takes


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """The size that the network sees, in px, how correlations are held, and in which strips a large pair is run."""

    height: int
    width: int
    volume: VolumeKind
    strips: Strips | None = None


def plan_run(
    config: LinStereoConfig,
    height: int,
    width: int,
    *,
    scale: float | None = None,
    volume: VolumeKind | None = None,
    available: int | None = None,
    plain: bool = False,
) -> RunPlan:
    """How a pair of images is run; an `InputError` if it cannot be, or cannot fit into memory.

    Args:
        config: settings of the network.
        height: of the images, px.
        width: of the images, px.
        scale: factor by which they are resized, in (0, 4]; None stands for 1, or for `working_size` if the network
            wants small images enlarged. Images of which the whole does not fit are run in two passes
            (`linstereo.model.large_images`), but only for None.
        volume: how correlations are held; None stands for stored while that takes at most 1 GiB and fits.
        available: bytes of memory that may be taken; None if nobody knows.
        plain: whether the images are known to be plain nearly everywhere; such are not enlarged as far.
    """
    check_scale(scale)
    config = _enlarging(config, plain=plain)
    run_height, run_width = _run_size(config, height, width, scale)
    if min(run_height, run_width) < MIN_SIDE:
        raise InputError(
            f"the images are {run_width} x {run_height} px after scaling by {scale}; use a larger scale, at least "
            f"{MIN_SIDE} px a side are needed"
        )
    stored = volume_bytes(config, run_height, run_width) <= STORED_VOLUME_LIMIT
    kinds: tuple[VolumeKind, ...] = (volume,) if volume else ("stored", "on_the_fly") if stored else ("on_the_fly",)
    for kind in kinds:
        if available is None or needed_bytes(config, height, width, scale=scale, volume=kind) <= available:
            return RunPlan(run_height, run_width, kind)
    assert available is not None
    if scale is None and volume is None and (run_height, run_width) == (height, width):
        strips = _strips(config, height, width, available=available)
        if strips is not None:
            return RunPlan(height, width, "on_the_fly", strips)
    needed = needed_bytes(config, height, width, scale=scale, volume=kinds[-1])
    at = "" if (run_height, run_width) == (height, width) else f", run at {run_width} x {run_height} px,"
    raise InputError(
        f"a pair of {width} x {height} px{at} needs about {_gigabytes(needed)} of memory, but {_gigabytes(available)} "
        f"are available; {_advice(config, height, width, scale=scale, kind=kinds[-1], available=available)}"
    )


def bytes_without_limit(
    config: LinStereoConfig, height: int, width: int, *, scale: float | None, volume: VolumeKind | None, plain: bool
) -> int:
    """Bytes that a pair takes at most if memory is no concern; arguments as those of `plan_run`."""
    plan = plan_run(config, height, width, scale=scale, volume=volume, available=None, plain=plain)
    return needed_bytes(_enlarging(config, plain=plain), height, width, scale=scale, volume=plan.volume)


def needed_bytes(config: LinStereoConfig, height: int, width: int, *, scale: float | None, volume: VolumeKind) -> int:
    """Bytes that a pair of height x width px takes at most: images, prediction, and making results of it."""
    network = peak_bytes(config, *_run_size(config, height, width, scale), volume)
    return IMAGE_BYTES * height * width + max(network, RESULT_BYTES * height * width)


def strips_bytes(config: LinStereoConfig, height: int, width: int, strips: Strips) -> int:
    """Bytes that a pair of height x width px takes at most in two passes; as `needed_bytes`."""
    pixels = height * width
    coarse = HELD_BYTES * pixels + peak_bytes(config, strips.coarse_height, strips.coarse_width, "stored")
    strip = min(strips.rows, padded(height)) * width
    refinement = LARGE_FIXED + LARGE_BYTES * pixels + STRIP_BYTES * strip
    return max(coarse, refinement, (IMAGE_BYTES + RESULT_BYTES) * pixels)


def _strips(config: LinStereoConfig, height: int, width: int, *, available: int) -> Strips | None:
    """The tallest strips that fit into memory; None if none do, or the images are too small for two passes.

    For the compact backbone only: what others take for whole images leaves nothing to be saved by strips. And for PALA
    only, of which strips need to know so little of each other.
    """
    if config.backbone != "compact" or config.update != "pala":
        return None
    factor = min(math.sqrt(COARSE_PIXELS / (height * width)), 0.5)
    coarse_height, coarse_width = (round(factor * side / PAD_TO) * PAD_TO for side in (height, width))
    if min(coarse_height, coarse_width) < 2 * PAD_TO:
        return None
    for rows in range(min(padded(height), MAX_STRIP), MIN_STRIP - 1, -PAD_TO):
        strips = Strips(coarse_height, coarse_width, rows)
        if strips_bytes(config, height, width, strips) <= available:
            return strips
    return None


def check_scale(scale: float | None) -> None:
    """Refuse a factor by which images cannot be resized; None leaves it to the network."""
    if scale is not None and not 0 < scale <= MAX_SCALE:
        raise InputError(f"the scale is {scale}; use a factor above 0 and at most {MAX_SCALE:g}")


def working_size(height: int, width: int, pixels: int) -> tuple[int, int]:
    """Height and width to which images of height x width px are enlarged, to have about `pixels` px; 0 for not at all.

    The factor is at most about 2. Enlarged sides are multiples of what the network would pad them to, so that no time
    goes into padding; that changes the ratio of the sides by a few per cent. No side becomes shorter.
    """
    scale = min(math.sqrt(pixels / (height * width)), MAX_OWN_SCALE)
    if scale <= 1:
        return height, width
    rows, columns = (max(round(scale * side / PAD_TO), math.ceil(side / PAD_TO)) for side in (height, width))
    return rows * PAD_TO, columns * PAD_TO


def _enlarging(config: LinStereoConfig, *, plain: bool) -> LinStereoConfig:
    """The settings with as many working pixels as images get that are plain nearly everywhere, or not."""
    if not (plain and config.plain_pixels):
        return config
    return dataclasses.replace(config, working_pixels=min(config.working_pixels, config.plain_pixels))


def _run_size(config: LinStereoConfig, height: int, width: int, scale: float | None) -> tuple[int, int]:
    if scale is None:
        return working_size(height, width, config.working_pixels)
    return max(round(scale * height), 1), max(round(scale * width), 1)


def _advice(
    config: LinStereoConfig, height: int, width: int, *, scale: float | None, kind: VolumeKind, available: int
) -> str:
    """What would make the pair fit."""
    if kind == "stored" and needed_bytes(config, height, width, scale=scale, volume="on_the_fly") <= available:
        return "compute the correlations on the fly (--volume on_the_fly)"
    for percent in range(95, 0, -5):
        smaller = percent / 100
        large_enough = min(_run_size(config, height, width, smaller)) >= MIN_SIDE
        needed = needed_bytes(config, height, width, scale=smaller, volume="on_the_fly")
        if large_enough and needed <= ADVICE_SHARE * available:
            return f"run it at a scale of at most {smaller:g} (--scale {smaller:g})"
    return "give smaller images, or free memory"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size < 1e10 else f"{size / 1e9:,.0f} GB"
