"""Pictures of disparity, depth and error maps."""

import cv2
import numpy as np
import numpy.typing as npt


def colorize(
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
    start = float(np.percentile(shown, 1)) if low is None else low
    end = float(np.percentile(shown, 99)) if high is None else high
    span = max(end - start, 1e-12)
    level = np.zeros(values.shape, np.uint8)
    level[known] = np.clip((shown - start) / span * 255, 0, 255).round().astype(np.uint8)
    if reverse:
        level = 255 - level
    picture = cv2.cvtColor(cv2.applyColorMap(level, cv2.COLORMAP_TURBO), cv2.COLOR_BGR2RGB)
    picture[~known] = 0
    return picture.astype(np.uint8, copy=False)


def colorize_depth(depth: npt.NDArray[np.floating], *, max_depth: float | None = None) -> npt.NDArray[np.uint8]:
    """Paint a depth map [H, W] in metres: red near, blue far, black where depth is infinite; uint8 [H, W, 3] RGB.

    What is farther than `max_depth` gets the last colour, so that the sky does not take all colours for itself.
    """
    within = np.isfinite(depth) if max_depth is None else depth <= max_depth
    high = float(np.percentile(depth[within], 99)) if within.any() else None
    return colorize(depth, high=high, reverse=True)


def captioned(image: npt.NDArray[np.uint8], text: str, *, width: int, height: int) -> npt.NDArray[np.uint8]:
    """A copy of that size with `text` in its upper left corner and a white frame: uint8 [height + 6, width + 6, 3]."""
    small = np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    (across, down), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 0.45, 1)
    cv2.rectangle(small, (0, 0), (across + 8, down + 8), (0, 0, 0), cv2.FILLED)
    cv2.putText(small, text, (4, down + 4), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (255, 255, 255), 1, cv2.LINE_AA)
    return np.pad(small, ((3, 3), (3, 3), (0, 0)), constant_values=255)
