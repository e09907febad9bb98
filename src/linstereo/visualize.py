"""Pictures of disparity, depth and error maps, with colour bars that say what the colours mean."""

import math

import cv2
import numpy as np
import numpy.typing as npt

MIN_BAR_HEIGHT = 96
"""A picture that is lower, in px, gets white below it, so that the values of its colour bar can be read."""
PARTS = ("left", "prediction", "truth", "error")
"""The pictures that compare a prediction with its ground truth."""
LARGEST_DISPARITY_ERROR = 5.0
"""Error at which the colours end, px."""
_ROW_LINES = 23
_COMPARISON_WIDTH = 480  # largest width of a picture that compares, px


def colourise(
    values: npt.NDArray[np.floating],
    *,
    valid: npt.NDArray[np.bool_] | None = None,
    low: float | None = None,
    high: float | None = None,
    reverse: bool = False,
) -> npt.NDArray[np.uint8]:
    """Paint a map with the turbo colours: dark blue for `low`, over green, to dark red for `high`.

    Args:
        values: [H, W], any unit.
        valid: where there is a value; elsewhere, and where a value is not finite, the picture is black.
        low: value of the first colour; by default the 1st percentile of the valid values.
        high: value of the last colour; by default their 99th percentile.
        reverse: dark red for `low`, dark blue for `high`: near things in depth maps then look as in disparity maps.

    Returns:
        uint8 [H, W, 3] RGB.
    """
    known = np.isfinite(values) if valid is None else valid & np.isfinite(values)
    shown = values[known].astype(np.float64)
    if shown.size == 0:
        return np.zeros((*values.shape, 3), np.uint8)
    start, end = _colour_range(shown, low, high)
    span = max(end - start, 1e-12)
    level = np.zeros(values.shape, np.uint8)
    level[known] = np.clip((shown - start) / span * 255, 0, 255).round().astype(np.uint8)
    if reverse:
        level = 255 - level
    picture = cv2.cvtColor(cv2.applyColorMap(level, cv2.COLORMAP_TURBO), cv2.COLOR_BGR2RGB)
    picture[~known] = 0
    return picture.astype(np.uint8, copy=False)


def row_picture(left: npt.NDArray[np.uint8], right: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Two images of one size, uint8 [H, W, 3] RGB, side by side with lines along the rows; uint8 [H, 2 W, 3].

    In a rectified pair, each line passes through the same points of the scene in both images.
    """
    picture = np.concatenate([left, right], axis=1)
    height = len(picture)
    thickness = max(1, height // 600)
    colours = ((255, 64, 64), (64, 255, 64), (80, 140, 255))
    for number, row in enumerate(np.linspace(0, height, _ROW_LINES + 2)[1:-1].round().astype(int)):
        picture[row : row + thickness] = colours[number % len(colours)]
    return picture


def colourise_depth(depth: npt.NDArray[np.floating], *, max_depth: float | None = None) -> npt.NDArray[np.uint8]:
    """Paint a depth map [H, W] in metres: red near, blue far, black where depth is infinite; uint8 [H, W, 3] RGB.

    What is farther than `max_depth` gets the last colour, so that the sky does not take all colours for itself.
    """
    return colourise(depth, high=_shown_depth(depth, max_depth), reverse=True)


def disparity_picture(disparity: npt.NDArray[np.floating]) -> npt.NDArray[np.uint8]:
    """A disparity map [H, W] in px as `colourise` paints it, with a colour bar to its right: uint8 [H', W', 3] RGB.

    The first H rows and W columns are the map, pixel by pixel.
    """
    return _with_bar(colourise(disparity), disparity, unit="px")


def depth_picture(depth: npt.NDArray[np.floating], *, max_depth: float | None = None) -> npt.NDArray[np.uint8]:
    """A depth map [H, W] in metres as `colourise_depth` paints it, with a colour bar to its right: uint8 [H', W', 3].

    The first H rows and W columns are the map, pixel by pixel.
    """
    picture = colourise_depth(depth, max_depth=max_depth)
    return _with_bar(picture, depth, high=_shown_depth(depth, max_depth), unit="m", reverse=True)


def confidence_picture(confidence: npt.NDArray[np.floating]) -> npt.NDArray[np.uint8]:
    """A confidence map [H, W] in [0, 1] with a colour bar to its right: uint8 [H', W', 3] RGB.

    Dark blue is 0, dark red 1, whatever the map holds. The first H rows and W columns are the map, pixel by pixel.
    """
    return _with_bar(colourise(confidence, low=0.0, high=1.0), confidence, low=0.0, high=1.0, unit="P")


def mask_picture(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """A mask [H, W] as grey values, uint8 [H, W]: 255 where it is True, else 0."""
    return np.where(mask, 255, 0).astype(np.uint8)


def overview_picture(
    left: npt.NDArray[np.uint8],
    disparity: npt.NDArray[np.floating],
    *,
    depth: npt.NDArray[np.floating] | None = None,
    confidence: npt.NDArray[np.floating] | None = None,
) -> npt.NDArray[np.uint8]:
    """A result at a glance, uint8 [h, w, 3] RGB: the left image and the maps with their colour bars, two in a row.

    Args:
        left: uint8 [H, W, 3] RGB.
        disparity: [H, W] px.
        depth: [H, W] metres, if it is known.
        confidence: [H, W] in [0, 1], if it is known.
    """
    width, height = picture_size(left.shape[1], left.shape[0])
    height = max(height, MIN_BAR_HEIGHT)

    def small(values: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        return np.asarray(cv2.resize(values, (width, height), interpolation=cv2.INTER_NEAREST))

    tiles = [np.asarray(cv2.resize(left, (width, height), interpolation=cv2.INTER_AREA), np.uint8)]
    tiles.append(disparity_picture(small(disparity)))
    if confidence is not None:
        tiles.append(confidence_picture(small(confidence)))
    if depth is not None:
        tiles.append(depth_picture(small(depth)))
    widest = max(tile.shape[1] for tile in tiles)
    canvas = [np.pad(tile, ((3, 3), (3, 3 + widest - tile.shape[1]), (0, 0)), constant_values=255) for tile in tiles]
    if len(canvas) % 2:
        canvas.append(np.full_like(canvas[0], 255))
    return np.vstack([np.hstack(canvas[row : row + 2]) for row in range(0, len(canvas), 2)])


def png_bytes(picture: npt.NDArray[np.uint8]) -> bytes:
    """A picture, uint8 [H, W, 3] RGB, as the content of a PNG file."""
    _, encoded = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    return bytes(encoded.tobytes())


class DisparityPainter:
    """Paints disparity maps of one size with the same colours for the same values, beside one colour bar.

    Args:
        height: of the maps, px.
        low: disparity of the first colour, px.
        high: disparity of the last colour, px.
    """

    def __init__(self, height: int, *, low: float, high: float) -> None:
        self._low, self._high = low, high
        self._lacking = max(MIN_BAR_HEIGHT - height, 0)
        self._bar = colour_bar(height + self._lacking, low=low, high=high, unit="px", below=True, above=True)

    def paint(self, disparity: npt.NDArray[np.floating]) -> npt.NDArray[np.uint8]:
        """A map [H, W] in px with the bar to its right, uint8 [H', W', 3] RGB with even sides, as videos need them."""
        picture = colourise(disparity, low=self._low, high=self._high)
        canvas = np.pad(picture, ((0, self._lacking), (0, 0), (0, 0)), constant_values=255)
        whole = np.hstack([canvas, self._bar])
        odd = [(0, side % 2) for side in whole.shape[:2]]
        return np.pad(whole, (*odd, (0, 0)), constant_values=255)


def colour_bar(
    height: int,
    *,
    low: float,
    high: float,
    unit: str,
    reverse: bool = False,
    below: bool = False,
    above: bool = False,
) -> npt.NDArray[np.uint8]:
    """The colours of `colourise` from `low` (bottom) to `high` (top), with round values and their unit beside them.

    Args:
        height: of the bar, px; the text grows with it. At least 96.
        low: value of the first colour.
        high: value of the last colour.
        unit: written above the values.
        reverse: as in `colourise`.
        below: values below `low` occur: the bar ends in a point there.
        above: the same for values above `high`.

    Returns:
        uint8 [height, w, 3] RGB on white.
    """
    em = 4 * min(max(height / 34, 10.5), 60)  # height of the text; all is drawn four times as large, then reduced
    ink, weight, whole = (40, 40, 40), max(round(em / 14), 1), 4 * height
    left, right = round(0.9 * em), round(2.2 * em)
    top, bottom = round(3.4 * em), whole - round(1.6 * em)
    points = round(0.9 * em)
    ticks = round_values(low, high, most=max(int((bottom - top) / (2.6 * em)), 2))
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 10.0 ** math.floor(math.log10(abs(low) or 1) - 2)
    decimals = max(-math.floor(math.log10(step) + 1e-9), 0)
    labels = [f"{value:,.{decimals}f}" for value in ticks]
    scale = cv2.getFontScaleFromHeight(cv2.FONT_HERSHEY_SIMPLEX, round(em * 0.72), weight)
    widths = [cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, weight)[0][0] for text in [*labels, unit]]
    text_left = right + round(0.75 * em)
    strip = np.full((whole, -(-(text_left + max(widths) + left) // 4) * 4, 3), 255, np.uint8)

    levels = np.linspace(high, low, bottom - top)[:, None]
    colours = colourise(levels, low=low, high=high, reverse=reverse)  # [bottom - top, 1, 3]
    strip[top:bottom, left:right] = colours
    middle = (left + right) // 2
    for wanted, base, tip, colour in ((above, top, -points, colours[0, 0]), (below, bottom, points, colours[-1, 0])):
        if wanted:
            corners = np.array([(left, base), (right - 1, base), (middle, base + tip)], np.int32)
            cv2.fillPoly(strip, [corners], tuple(int(value) for value in colour), cv2.LINE_AA)

    def write(text: str, x: int, y: float) -> None:
        """Write `text` from column x on, centred on row y."""
        cv2.putText(strip, text, (x, round(y + 0.36 * em)), cv2.FONT_HERSHEY_SIMPLEX, scale, ink, weight, cv2.LINE_AA)

    for value, label in zip(ticks, labels, strict=True):
        share = (value - low) / (high - low) if high > low else 0.5
        row = round(bottom - 1 - share * (bottom - 1 - top))
        cv2.line(strip, (right, row), (right + round(0.35 * em), row), ink, weight, cv2.LINE_AA)
        write(label, text_left, row)
    write(unit, left, 1.5 * em)
    return np.asarray(cv2.resize(strip, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA), np.uint8)


def round_values(low: float, high: float, *, most: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten from `low` to `high`, at most `most`; `low` itself if they agree."""
    span = high - low
    if not span > 1e-6 * max(abs(low), abs(high), 1e-6):
        return [low]
    exponent = math.floor(math.log10(span / most))
    for factor in (1, 2, 5, 10, 20, 50, 100):
        step = factor * 10.0**exponent
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            break
    return [index * step for index in range(first, last + 1)] or [low]


def captioned(image: npt.NDArray[np.uint8], text: str, *, width: int, height: int) -> npt.NDArray[np.uint8]:
    """A copy of that size with `text` in its upper left corner and a white frame: uint8 [height + 6, width + 6, 3]."""
    small = np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    (across, down), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 0.45, 1)
    cv2.rectangle(small, (0, 0), (across + 8, down + 8), (0, 0, 0), cv2.FILLED)
    cv2.putText(small, text, (4, down + 4), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (255, 255, 255), 1, cv2.LINE_AA)
    return np.pad(small, ((3, 3), (3, 3), (0, 0)), constant_values=255)


def comparison_pictures(
    left: npt.NDArray[np.uint8],
    prediction: npt.NDArray[np.float32],
    truth: npt.NDArray[np.float32],
    *,
    valid: npt.NDArray[np.bool_],
    error: npt.NDArray[np.float32],
    counted: npt.NDArray[np.bool_],
    largest_error: float = LARGEST_DISPARITY_ERROR,
) -> dict[str, npt.NDArray[np.uint8]]:
    """The pictures of one image by `PARTS`, uint8 [h, w, 3] RGB, at most 480 px wide; black where nothing is known.

    Args:
        left: the left image, uint8 [H, W, 3] RGB.
        prediction: disparity [H, W], px.
        truth: the same, painted in the same colours.
        valid: bool [H, W], where the truth is known.
        error: [H, W], any unit, such as from `disparity_error`.
        counted: bool [H, W], where the error is shown.
        largest_error: at which the colours end.
    """
    finite = np.isfinite(prediction)
    shown = truth[valid] if valid.any() else prediction[finite]
    low, high = (float(value) for value in np.percentile(shown, (1, 99))) if shown.size else (0.0, 1.0)
    high = max(high, low + 1)  # a constant disparity has no range of its own
    size = picture_size(left.shape[1], left.shape[0])
    return {
        "left": np.asarray(cv2.resize(left, size, interpolation=cv2.INTER_AREA), np.uint8),
        "prediction": _reduced(prediction, finite, size, low=low, high=high),
        "truth": _reduced(truth, valid, size, low=low, high=high),
        "error": _reduced(error, counted, size, low=0.0, high=largest_error),
    }


def disparity_error(prediction: npt.NDArray[np.float32], truth: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Absolute error [H, W], px; infinite where the prediction is not finite."""
    lost = ~np.isfinite(prediction)
    return np.where(lost, np.inf, np.abs(np.where(lost, 0, prediction) - truth)).astype(np.float32)


def paint(
    values: npt.NDArray[np.float32], *, valid: npt.NDArray[np.bool_] | None = None, low: float, high: float
) -> npt.NDArray[np.uint8]:
    """Colours from `low` to `high`, uint8 [h, w, 3]; the darkest ones are not used, so nothing known looks black."""
    return colourise(values, valid=valid, low=low - 0.1 * (high - low), high=high)


def picture_size(width: int, height: int) -> tuple[int, int]:
    """Width and height of the pictures that compare, px, which are only ever smaller than the image."""
    factor = min(_COMPARISON_WIDTH / width, 1.0)
    return max(round(width * factor), 1), max(round(height * factor), 1)


def _reduced(
    values: npt.NDArray[np.float32], known: npt.NDArray[np.bool_], size: tuple[int, int], *, low: float, high: float
) -> npt.NDArray[np.uint8]:
    """Paint a map at a smaller size; a pixel is the mean of the known ones it covers, so sparse maps stay legible."""
    limited = np.where(known, np.clip(values, low, high), 0).astype(np.float32)
    weight = cv2.resize(known.astype(np.float32), size, interpolation=cv2.INTER_AREA)
    total = cv2.resize(limited, size, interpolation=cv2.INTER_AREA)
    some = weight > 1e-6
    mean = np.zeros(total.shape, np.float32)
    np.divide(total, weight, out=mean, where=some)
    return paint(mean, valid=some, low=low, high=high)


def _with_bar(
    picture: npt.NDArray[np.uint8],
    values: npt.NDArray[np.floating],
    *,
    low: float | None = None,
    high: float | None = None,
    unit: str,
    reverse: bool = False,
) -> npt.NDArray[np.uint8]:
    """`picture` of `values`, painted from `low` to `high`, with its colour bar; as it is if there is no value."""
    known = values[np.isfinite(values)]
    if known.size == 0:
        return picture
    start, end = _colour_range(known, low, high)
    lacking = max(MIN_BAR_HEIGHT - len(picture), 0)
    canvas = np.pad(picture, ((0, lacking), (0, 0), (0, 0)), constant_values=255)
    below, above = bool(known.min() < start), bool(known.max() > end)
    bar = colour_bar(len(canvas), low=start, high=end, unit=unit, reverse=reverse, below=below, above=above)
    return np.hstack([canvas, bar])


def _colour_range(known: npt.NDArray[np.floating], low: float | None, high: float | None) -> tuple[float, float]:
    """The values of the first and the last colour: as given, else the 1st and the 99th percentile of `known`."""
    start = float(np.percentile(known, 1)) if low is None else low
    return start, float(np.percentile(known, 99)) if high is None else high


def _shown_depth(depth: npt.NDArray[np.floating], max_depth: float | None) -> float | None:
    """The depth of the last colour, m: the 99th percentile of what is within `max_depth`; None if nothing is."""
    most = math.inf if max_depth is None else max_depth
    within = depth <= min(most, float(np.finfo(depth.dtype).max))
    return float(np.percentile(depth[within], 99)) if within.any() else None
