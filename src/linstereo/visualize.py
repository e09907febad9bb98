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
) -> npt.NDArray[np.uint8]:
    """Paint a map with the turbo colours: dark blue for `low`, over green, to dark red for `high`.

    Args:
        values: [H, W], any unit.
        valid: where there is a value; elsewhere, and where a value is not finite, the picture is black.
        low: value of the first colour; by default the 1st percentile of the valid values.
        high: value of the last colour; by default their 99th percentile.

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
    picture = cv2.cvtColor(cv2.applyColorMap(level, cv2.COLORMAP_TURBO), cv2.COLOR_BGR2RGB)
    picture[~known] = 0
    return picture.astype(np.uint8, copy=False)
