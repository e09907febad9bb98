"""Stereo frames one after the other: each starts from the disparity of the one before, where that still holds.

The disparity is carried along with the motion of the left image (`linstereo.geometry.motion`), and with it what the
network remembers; the network checks it against its own start (`linstereo.model.warm_start`), and half the iterations
do. After a cut, or a motion that cannot
be followed, the network starts as for a single pair. A light filter steadies what did not change.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from linstereo.geometry.known_disparity import KnownDisparity
from linstereo.geometry.motion import Motion, motion_since

if TYPE_CHECKING:
    from linstereo.prediction import Prediction

STEADY_WEIGHT = 0.5
"""Share of the frame before in what is steadied."""
STEADY_PIXELS = 1.0
"""Only disparities that differ by less than this from what was expected are steadied, px."""
_TREND_SAMPLES = 10_000
_FEWEST_SAMPLES = 100
_TREND_ROUNDS = 3
_RIDGE = 1e-6  # keeps a scene of one disparity, or a few pixels, from asking for the impossible
_OUTLIER = 2.5  # times the median deviation


@dataclasses.dataclass(frozen=True, eq=False)
class TrackedFrame:
    """The result for one frame of a sequence."""

    stamp: int | None
    """As the source gave it, nanoseconds; None from a source without stamps."""
    left: npt.NDArray[np.uint8]
    """[H, W, 3] RGB, the left image."""
    prediction: "Prediction"
    """With the disparity of the left image."""
    cold: bool
    """It did not start from the frame before: it is the first one, or there was a cut."""
    followed: float
    """Share of its pixels that were found in the frame before, 0 to 1; 0 for the first."""


Predict = Callable[[npt.NDArray[np.uint8], npt.NDArray[np.uint8], KnownDisparity | None], "Prediction"]


class Tracker:
    """Remembers the last frame.

    Args:
        predict: the prediction for a pair, uint8 [H, W, 3] each, that starts from what is known; cold for None.
        steady: whether to steady what did not change, see `steadied`.
    """

    def __init__(self, predict: Predict, *, steady: bool = True) -> None:
        self._predict = predict
        self._steady = steady
        self._last: tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]] | None = None

    def follow(
        self, left: npt.NDArray[np.uint8], right: npt.NDArray[np.uint8], *, stamp: int | None = None
    ) -> TrackedFrame:
        """The next frame of the sequence, uint8 [H, W, 3] RGB images."""
        motion = None
        if self._last is not None and self._last[0].shape == left.shape:
            motion = motion_since(self._last[0], left)
        known = None
        if motion is not None and motion.same_scene and self._last is not None:
            known = KnownDisparity(motion.carried(self._last[1]), motion.found, motion.places)
        prediction = self._predict(left, right, known)
        if known is not None and self._steady:
            calm = steadied(prediction.disparity, known)
            prediction = dataclasses.replace(prediction, disparity=calm)
        self._last = left, prediction.disparity
        return TrackedFrame(stamp, left, prediction, known is None, _share(motion))


def steadied(disparity: npt.NDArray[np.float32], known: KnownDisparity) -> npt.NDArray[np.float32]:
    """Half way to what the frame before lets expect, where the two are less than `STEADY_PIXELS` apart.

    Between frames the disparities of a rigid scene change along a smooth function of place and disparity, since the
    camera moves; it is fitted and taken into account, so that the result does not lag behind.

    Args:
        disparity: [H, W] px, of this frame.
        known: that of the frame before, carried along.
    """
    expected = known.disparity + _trend(disparity, known)
    difference = expected - disparity
    near = known.known & (np.abs(difference) < STEADY_PIXELS)
    steady = np.maximum(disparity + STEADY_WEIGHT * difference, 0)
    return np.where(near, steady, disparity).astype(np.float32)


def _trend(disparity: npt.NDArray[np.float32], known: KnownDisparity) -> npt.NDArray[np.float32]:
    """[H, W] px by which the disparities of all things changed since the frame before, apart from noise."""
    change = disparity - known.disparity
    usable = np.flatnonzero(known.known & (np.abs(change) < STEADY_PIXELS))
    chosen = usable[:: max(len(usable) // _TREND_SAMPLES, 1)]
    if len(chosen) < _FEWEST_SAMPLES:
        return np.zeros_like(disparity)
    height, width = disparity.shape
    x = np.linspace(-0.5, 0.5, width, dtype=np.float32)[None, :]
    y = np.linspace(-0.5, 0.5, height, dtype=np.float32)[:, None]
    near = known.disparity / np.float32(max(float(np.abs(known.disparity).max()), 1e-6))
    # to first order, the change is linear in these when a camera moves in a rigid scene
    u, v, s = x[0, chosen % width], y[chosen // width, 0], near.ravel()[chosen]
    system, values = np.stack([np.ones_like(s), u, v, s, s * s, u * s, v * s], axis=1), change.ravel()[chosen]
    for _ in range(_TREND_ROUNDS):
        squares = system.T.astype(np.float64) @ system + _RIDGE * len(system) * np.eye(system.shape[1])
        fitted = np.linalg.solve(squares, system.T.astype(np.float64) @ values)
        deviation = np.abs(values - system @ fitted)
        kept = deviation <= _OUTLIER * np.median(deviation)
        system, values = system[kept], values[kept]
    one, of_x, of_y, of_near, squared, x_near, y_near = fitted.astype(np.float32)
    trend = (one + of_x * x + of_y * y) + near * ((of_near + x_near * x + y_near * y) + squared * near)
    return np.asarray(trend, np.float32)


def _share(motion: Motion | None) -> float:
    return 0.0 if motion is None else motion.share
