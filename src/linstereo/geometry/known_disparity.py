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

    def resized(self, height: int, width: int) -> "KnownDisparity":
        """The same for images of another size, in their pixels."""
        factor = np.float32(width / self.disparity.shape[1])
        disparity, known = (
            np.asarray(cv2.resize(values, (width, height)), np.float32)
            for values in (self.disparity * factor, self.known.astype(np.float32))
        )
        return KnownDisparity(disparity, known > 0.5)
