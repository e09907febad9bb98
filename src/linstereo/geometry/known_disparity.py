"""A disparity that is known before a pair is matched."""

import dataclasses

import cv2
import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True, eq=False)
class KnownDisparity:
    """A disparity to start from, of the pixels of the left image."""

    disparity: npt.NDArray[np.float32]
    """[H, W] px of the left image."""
    known: npt.NDArray[np.bool_]
    """[H, W] where it is known."""
    places: npt.NDArray[np.float32] | None = None
    """[H, W, 2] column and row, px, where each pixel was in the frame before; None if there was none."""

    def resized(self, height: int, width: int) -> "KnownDisparity":
        """The same for images of another size, in their pixels."""
        factor = np.float32(width / self.disparity.shape[1])
        disparity, known = (
            np.asarray(cv2.resize(values, (width, height)), np.float32)
            for values in (self.disparity * factor, self.known.astype(np.float32))
        )
        places = None
        if self.places is not None:
            scale = np.array([width / self.places.shape[1], height / self.places.shape[0]], np.float32)
            # pixel x covers x to x + 1 of the image
            places = (np.asarray(cv2.resize(self.places, (width, height)), np.float32) + 0.5) * scale - 0.5
        return KnownDisparity(disparity, known > 0.5, places)
