"""From the radiance at the lens to the file of a real camera, with the faults of one.

In this order: rectification error (right camera only), lens blur, vignetting, exposure, shot, read and fixed-pattern
noise, white balance, interpolation of the colours that a mosaic sensor lacks, tone curve (sRGB and a gamma), 8 bits,
black margins of a rectified wide-angle lens, JPEG. A grey camera has one channel through all of it; a small colour
camera has one value a pixel too, of one colour (Bayer's pattern), and so no more light and no less noise than a grey
one. Exposure and white balance are found once for both cameras, as a stereo camera
does, and differ a little between them. The common exposure is what the scene asks for, however dark the water is, but
not so much that its brightest parts burn out.

Nothing here moves the left image. What moves the right one to the side, by at most `MAX_HORIZONTAL_ERROR`, has to be
taken from the disparity of the ideal cameras: see `rectification_error`.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError

MAX_HORIZONTAL_ERROR = 0.2
"""px; the most by which a rectification error moves a point of the right image to the left or right."""
MAX_VERTICAL_ERROR = 1.0
"""px; the most by which it moves a point up or down."""
BURNT_OUT = 0.025
"""The usual limit of the share of pixels that the common exposure lets burn out."""
SMEARED = 0.5
"""Share of the cameras with margins whose margins are smeared instead of black."""
TONE_STEPS = 16384


@dataclass(frozen=True)
class CameraFaults:
    """What is wrong with one camera.

    Args:
        exposure: factor on the exposure that both cameras share.
        white_balance: factors on the common red, green and blue gains.
        blur: standard deviation of the lens blur, px.
        defocus: radius of the blur disc of a lens out of focus, px.
        full_well: electrons of a white pixel; the fewer, the more shot noise.
        read_noise: standard deviation of the noise of the read-out, electrons.
        gain_pattern: standard deviation of the pixels' own sensitivities, relative; the same in every channel.
        column_pattern: standard deviation of the columns' own offsets, electrons.
        mosaic: whether each pixel of a colour camera sees one colour only, the others being interpolated.
        vignetting: part of the light that is lost in the corners, 0 to 1.
        gamma: exponent after the sRGB curve.
        jpeg_quality: 1 to 100; 0 does not compress.
        vertical_error: px by which the image is too low: constant, growing to the right edge, and to the lower edge.
        horizontal_error: px by which the image is too far right: constant, growing to the lower edge.
        margins: widths of the margins in the middle of the left, right, upper and lower side, as shares of that extent
            of the image, and by how much more they are in the corners.
        smeared: whether the margins repeat the pixel beside them, as rectification does that takes the nearest pixel
            of the sensor for what lies outside of it; else they are black.
    """

    exposure: float = 1.0
    white_balance: tuple[float, float, float] = (1.0, 1.0, 1.0)
    blur: float = 0.0
    defocus: float = 0.0
    full_well: float = math.inf
    read_noise: float = 0.0
    gain_pattern: float = 0.0
    column_pattern: float = 0.0
    mosaic: bool = False
    vignetting: float = 0.0
    gamma: float = 1.0
    jpeg_quality: int = 0
    vertical_error: tuple[float, float, float] = (0.0, 0.0, 0.0)
    horizontal_error: tuple[float, float] = (0.0, 0.0)
    margins: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)
    smeared: bool = False


@dataclass(frozen=True)
class PairFaults:
    """The faults of both cameras, and how the camera chooses what they share.

    Args:
        left: of the left camera; it has no rectification error.
        right: of the right camera.
        brightness: mean linear value that the common exposure aims at, of white = 1.
        white_balance: how far colours are balanced to grey: 0 not at all, 1 entirely.
        burnt_out: the largest share of pixels that the common exposure lets burn out.
        grey: what part red, green and blue have in the one channel of a grey camera; None for a colour camera.
    """

    left: CameraFaults
    right: CameraFaults
    brightness: float = 0.2
    white_balance: float = 0.0
    burnt_out: float = BURNT_OUT
    grey: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class CameraKinds:
    """Shares of the pairs, each 0 to 1, that are taken by cameras of a kind.

    Args:
        grey: cameras without colour.
        noisy: small cameras with much noise, some of them in the dark.
        margins: wide-angle lenses whose rectified images have margins, black or smeared ones.
    """

    grey: float = 1 / 3
    noisy: float = 0.5
    margins: float = 0.08

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            share = getattr(self, field.name)
            if not 0 <= share <= 1:
                raise InputError(f"{field.name} is {share:g}; it is a share of the pairs, between 0 and 1")


EVERY_KIND = CameraKinds()


def random_faults(rng: np.random.Generator, *, underwater: bool, kinds: CameraKinds = EVERY_KIND) -> PairFaults:
    """Faults as real stereo cameras have them: good cameras, small noisy ones, and some that are hard."""
    hard = rng.random() < 0.2
    noisy = rng.random() < kinds.noisy
    spread = 0.06 if hard else 0.015
    full_well = 10.0 ** (rng.uniform(2.5, 3.5) if hard or noisy else rng.uniform(3.5, 4.6))
    read_noise = rng.uniform(3.0, 14.0) if noisy else rng.uniform(2.0, 8.0)
    gain_pattern = rng.uniform(0.0, 0.02) if noisy else 0.0
    column_pattern = rng.uniform(0.0, 2.5) if noisy else 0.0
    blur = rng.uniform(0.3, 1.2) if hard and rng.random() < 0.5 else rng.uniform(0.0, 0.6)
    defocus = rng.uniform(0.8, 2.0) if hard and rng.random() < 0.25 else 0.0
    gamma = rng.uniform(0.85, 1.2)
    vignetting = rng.uniform(0.0, 0.75 if noisy else 0.5) if rng.random() < 0.5 else 0.0
    quality = int(rng.integers(40, 96)) if rng.random() < (0.5 if hard else 0.25) else 0
    misaligned = rng.random() < (0.6 if hard else 0.25)
    reach = rng.uniform(0.2, MAX_VERTICAL_ERROR) if misaligned else rng.uniform(0.0, 0.15)
    grey = rng.dirichlet((6.0, 8.0, 3.0)) if rng.random() < kinds.grey else None
    margins = rng.uniform(0.0, 0.05, 4) * (rng.random(4) < 0.7) if rng.random() < kinds.margins else np.zeros(4)
    bow = rng.uniform(0.0, 0.1) if margins.any() else 0.0
    (smear,) = rng.spawn(1)
    smeared = bool(margins.any() and smear.random() < SMEARED)
    if smeared:
        bow *= 0.25

    def camera(*, moved: bool) -> CameraFaults:
        red, green, blue = np.exp(rng.normal(0.0, spread, 3))
        vertical, horizontal = _random_error(rng, reach) if moved else ((0.0, 0.0, 0.0), (0.0, 0.0))
        own_margins = margins * rng.uniform(0.6, 1.4, 4)
        if smeared:  # they are narrow, and seldom on the same sides of both images
            own_margins *= smear.random(4) < 0.5
        return CameraFaults(
            exposure=float(np.exp(rng.normal(0.0, 1.5 * spread))),
            white_balance=(float(red), float(green), float(blue)),
            blur=float(blur * rng.uniform(0.85, 1.15)),
            defocus=float(defocus * rng.uniform(0.7, 1.3)),
            full_well=float(full_well),
            read_noise=float(read_noise),
            gain_pattern=float(gain_pattern),
            column_pattern=float(column_pattern),
            mosaic=noisy and grey is None,
            vignetting=float(min(vignetting * rng.uniform(0.9, 1.1), 1.0)),
            gamma=float(gamma * np.exp(rng.normal(0.0, spread / 2))),
            jpeg_quality=quality,
            vertical_error=vertical,
            horizontal_error=horizontal,
            margins=(*(float(share) for share in own_margins), float(bow)),  # type: ignore[arg-type]
            smeared=smeared,
        )

    return PairFaults(
        left=camera(moved=False),
        right=camera(moved=True),
        brightness=float(rng.uniform(0.03, 0.14) if noisy and rng.random() < 0.2 else rng.uniform(0.14, 0.38)),
        white_balance=float(rng.uniform(0.0, 0.5 if underwater else 0.6)),
        burnt_out=float(rng.uniform(BURNT_OUT, 0.15)) if rng.random() < 0.15 else BURNT_OUT,
        grey=None if grey is None else (float(grey[0]), float(grey[1]), float(grey[2])),
    )


def expose_pair(
    left: NDArray[np.float32], right: NDArray[np.float32], faults: PairFaults, rng: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Both images of a pair: linear radiance [H, W, 3] of any scale to uint8 [H, W, 3] RGB."""
    if faults.grey is not None:
        left, right = (view @ np.array(faults.grey, np.float32)[:, None] for view in (left, right))  # [H, W, 1]
    gains = common_gains(
        left, right, brightness=faults.brightness, white_balance=faults.white_balance, burnt_out=faults.burnt_out
    )
    return expose(left, faults.left, rng, gains=gains), expose(right, faults.right, rng, gains=gains)


def common_gains(
    left: NDArray[np.float32],
    right: NDArray[np.float32],
    *,
    brightness: float,
    white_balance: float,
    burnt_out: float = BURNT_OUT,
) -> tuple[float, float, float, float]:
    """The exposure of both cameras, and their gains of red, green and blue after it (green's is 1 unless it is scarce).

    The exposure brings the mean over both images to `brightness`, but lowers that until at most `burnt_out` of all
    pixels burn out. The gains bring the channels' means together by the exponent `white_balance`, at most fivefold.
    """
    sparse = [view[2::5, 2::5].reshape(-1, view.shape[2]) for view in (left, right)]
    values = np.concatenate(sparse).astype(np.float64)  # [N, 3], or [N, 1] of a grey camera
    means = values.mean(axis=0) + 1e-12
    gains = np.clip((means.max() / means) ** white_balance, 1.0, 5.0)
    balanced = values * gains
    exposure = brightness / (balanced.mean() + 1e-12)
    highlight = float(np.quantile(balanced.max(axis=1), 1 - burnt_out)) + 1e-12
    red, green, blue = (float(gain) for gain in np.broadcast_to(gains, 3))
    return min(float(exposure), 1.0 / highlight), red, green, blue


def expose(
    radiance: NDArray[np.float32],
    faults: CameraFaults,
    rng: np.random.Generator,
    *,
    gains: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0),
) -> NDArray[np.uint8]:
    """The image of one camera.

    Args:
        radiance: [H, W, 3] linear, at least 0; [H, W, 1] for a grey camera.
        faults: of this camera.
        rng: source of the noise.
        gains: exposure and gains of red, green and blue, as from `common_gains`; the result 1 is white.

    Returns:
        uint8 [H, W, 3] RGB.
    """
    height, width, depth = radiance.shape
    image = _misalign(radiance, faults)
    if faults.blur > 0.2:
        image = np.asarray(cv2.GaussianBlur(image, (0, 0), faults.blur), np.float32)
    if faults.defocus > 0.5:
        image = np.asarray(cv2.filter2D(image, -1, _disc(round(faults.defocus, 1))), np.float32)
    light = _falloff(height, width, round(faults.vignetting, 3)) * np.float32(gains[0] * faults.exposure)  # [H, W]
    if faults.gain_pattern:
        light = light * (1 + np.float32(faults.gain_pattern) * rng.standard_normal((height, width), np.float32))
    offset = np.float32(0)
    if faults.column_pattern and math.isfinite(faults.full_well):
        offset = np.float32(faults.column_pattern / faults.full_well) * rng.standard_normal(width, np.float32)  # [W]
    factors = [np.float32(gains[1 + i] * faults.white_balance[i] * (TONE_STEPS - 1)) for i in range(depth)]
    planes = [plane * light for plane in cv2.split(image)]
    if faults.mosaic and depth == 3:
        seen, factor = mosaic(planes), mosaic([np.full((height, width), factor) for factor in factors])
        steps = cv2.split(cv2.demosaicing(_read_out(seen, offset, factor, faults, rng), cv2.COLOR_BAYER_RGGB2RGB_EA))
    else:
        steps = [_read_out(plane, offset, factor, faults, rng) for plane, factor in zip(planes, factors, strict=True)]
    curve = tone_curve(faults.gamma)
    rgb = np.asarray(cv2.merge([curve[plane] for plane in steps] * (3 // depth)), np.uint8)  # [H, W, 3]
    if any(faults.margins[:4]):
        rgb = with_margins(rgb, faults)
    return _compress(rgb, faults.jpeg_quality) if faults.jpeg_quality else rgb


def mosaic(planes: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """What the pixels of a mosaic sensor see of red, green and blue, each [H, W]: [H, W].

    Bayer's pattern: red and green in even rows, green and blue in odd ones.
    """
    red, green, blue = planes
    seen = green.copy()
    seen[::2, ::2] = red[::2, ::2]
    seen[1::2, 1::2] = blue[1::2, 1::2]
    return seen


def _read_out(
    values: NDArray[np.float32],
    offset: NDArray[np.float32] | np.float32,
    factor: NDArray[np.float32] | np.float32,
    faults: CameraFaults,
    rng: np.random.Generator,
) -> NDArray[np.uint16]:
    """Steps of the tone curve [H, W] of exposed values [H, W], which are overwritten.

    Args:
        values: white = 1.
        offset: of the columns, white = 1.
        factor: the gain of the colour, times the number of steps.
        faults: of this camera.
        rng: source of the noise.
    """
    if math.isfinite(faults.full_well):
        values += noise(values, faults, rng)
    values += offset
    values *= factor
    np.clip(values, 0, TONE_STEPS - 1, out=values)
    return values.astype(np.uint16)


def noise(image: NDArray[np.float32], faults: CameraFaults, rng: np.random.Generator) -> NDArray[np.float32]:
    """Noise of an exposed image of any shape (white = 1); variance: image / full_well + (read_noise / full_well)^2."""
    deviation = image * np.float32(1.0 / faults.full_well)
    deviation += np.float32((faults.read_noise / faults.full_well) ** 2)
    np.sqrt(np.maximum(deviation, 0, out=deviation), out=deviation)
    deviation *= rng.standard_normal(image.shape, np.float32)
    return deviation


def with_margins(image: NDArray[np.uint8], faults: CameraFaults) -> NDArray[np.uint8]:
    """A rectified image [H, W, 3] with the margins of its camera, black or smeared."""
    height, width = image.shape[:2]
    margin = margin_mask(height, width, faults.margins)
    if not faults.smeared:
        return np.where(margin[..., None], np.uint8(0), image)
    rows = np.flatnonzero(~margin.all(axis=1))
    row = np.clip(np.arange(height), rows[0], rows[-1])  # [H], the nearest row that shows anything
    first, last = (~margin).argmax(axis=1)[row], width - 1 - (~margin[:, ::-1]).argmax(axis=1)[row]
    column = np.clip(np.arange(width), first[:, None], last[:, None])  # [H, W]
    return image[row[:, None], column]


def margin_mask(height: int, width: int, margins: tuple[float, float, float, float, float]) -> NDArray[np.bool_]:
    """bool [H, W]: True in the margins of a rectified image, see `CameraFaults.margins`."""
    left, right, top, bottom, bow = margins
    x, y = (np.arange(width) + 0.5) / width, ((np.arange(height) + 0.5) / height)[:, None]
    across, along = bow * (2 * x - 1) ** 2, bow * (2 * y - 1) ** 2  # how much wider towards the corners
    sides = ((x, left, along), (1 - x, right, along), (y, top, across), (1 - y, bottom, across))
    black = np.zeros((height, width), np.bool_)
    for distance, margin, more in sides:
        if margin:
            black |= distance < margin + more
    return black


def rectification_error(
    height: int, width: int, faults: CameraFaults
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """How far right and how far down [H, W] px each point of the image is from where ideal rectification puts it."""
    across = np.linspace(-1.0, 1.0, width, dtype=np.float32)[None, :]
    along = np.linspace(-1.0, 1.0, height, dtype=np.float32)[:, None]
    right = np.broadcast_to(faults.horizontal_error[0] + faults.horizontal_error[1] * along, (height, width))
    low = faults.vertical_error[0] + faults.vertical_error[1] * across + faults.vertical_error[2] * along
    return right.astype(np.float32), low.astype(np.float32)


@functools.lru_cache(maxsize=16)
def tone_curve(gamma: float) -> NDArray[np.uint8]:
    """sRGB's curve and an exponent after it: 8-bit values of `TONE_STEPS` even steps of linear light from 0 to 1."""
    linear = np.linspace(0.0, 1.0, TONE_STEPS)
    curve = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.rint(255.0 * curve**gamma).astype(np.uint8)


def _random_error(rng: np.random.Generator, reach: float) -> tuple[tuple[float, float, float], tuple[float, float]]:
    """Vertical and horizontal coefficients of an error of at most `reach` px down and 0.2 px to the side."""
    shares = rng.dirichlet((1.0, 1.0, 1.0)) * rng.choice((-1.0, 1.0), 3) * reach
    side = rng.dirichlet((1.0, 1.0)) * rng.choice((-1.0, 1.0), 2) * min(0.5 * reach, MAX_HORIZONTAL_ERROR)
    return (float(shares[0]), float(shares[1]), float(shares[2])), (float(side[0]), float(side[1]))


def _misalign(radiance: NDArray[np.float32], faults: CameraFaults) -> NDArray[np.float32]:
    """The image of a camera whose rectification is off by its errors."""
    if not any(faults.vertical_error + faults.horizontal_error):
        return radiance
    height, width = radiance.shape[:2]
    right, low = rectification_error(height, width, faults)
    columns = np.arange(width, dtype=np.float32) - right
    rows = np.arange(height, dtype=np.float32)[:, None] - low
    moved = cv2.remap(radiance, columns, rows, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return np.maximum(np.asarray(moved, np.float32), 0)


@functools.lru_cache(maxsize=32)
def _disc(radius: float) -> NDArray[np.float32]:
    """A blur kernel: a disc with a soft rim, sum 1."""
    reach = math.ceil(radius)
    offsets = np.arange(-reach, reach + 1)
    weights = np.clip(radius + 0.5 - np.hypot(offsets[:, None], offsets), 0.0, 1.0)
    return np.asarray(weights / weights.sum(), np.float32)


@functools.lru_cache(maxsize=8)
def _falloff(height: int, width: int, vignetting: float) -> NDArray[np.float32]:
    """[H, W] factors of the light, 1 at the centre and 1 - `vignetting` in the corners."""
    across, along = np.linspace(-1.0, 1.0, width), np.linspace(-1.0, 1.0, height)[:, None]
    aspect = height / width
    squared = (across**2 + (along * aspect) ** 2) / (1.0 + aspect**2)
    return np.asarray(1.0 - vignetting * squared, np.float32)


def _compress(rgb: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """What is left of an image after JPEG compression."""
    _, data = cv2.imencode(".jpg", rgb[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    return np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR_RGB), np.uint8)
