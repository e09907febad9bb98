"""How much there is to match in an image: nothing tells matches apart where the brightness hardly changes in a row."""

import cv2
import numpy as np
import numpy.typing as npt

MAX_STEP = 3.0
"""Grey levels of 255 by which pixels two apart may differ on average where an image is plain."""
NOISE_BLUR = 1.5
"""px; standard deviation of the blur that keeps noise from looking like texture."""
WINDOW = 15
"""Side in px of the window over which the differences are averaged."""
MOSTLY = 0.75
"""Share of plain pixels from which an image is plain as a whole."""
DARK = 40.0
"""Mean of an image, of 255, below which its texture is too dark to be seen in this way."""

_MEAN = np.full((1, 3), 1 / 3, np.float32)


def plain_pixels(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Where the brightness of an RGB image [H, W, 3] hardly changes along the row, noise aside: bool [H, W].

    The mean of |I(x + 1) - I(x - 1)| over 15 x 15 px, after a blur of 1.5 px, is below 3 of 255 there.
    """
    grey = cv2.GaussianBlur(cv2.transform(image.astype(np.float32), _MEAN), (0, 0), NOISE_BLUR)
    step = np.abs(cv2.filter2D(grey, -1, np.array([[-1, 0, 1]], np.float32)))
    return np.asarray(cv2.blur(step, (WINDOW, WINDOW)) < MAX_STEP)


def mostly_plain(image: npt.NDArray[np.uint8]) -> bool:
    """Whether at least three quarters of the pixels of an RGB image [H, W, 3] are plain.

    A dark image has small differences whatever it shows, and is not called plain.
    """
    return bool(np.mean(cv2.mean(image)[:3]) >= DARK and plain_pixels(image).mean() >= MOSTLY)
