"""The numbers that turn a disparity into metres."""

import dataclasses
import math

from linstereo.errors import InputError


@dataclasses.dataclass(frozen=True)
class StereoCalibration:
    """A rectified stereo camera.

    Pixel coordinates have their origin at the centre of the top left pixel, as in OpenCV. A point at depth Z
    metres has the disparity `focal * baseline / Z - doffs` pixels.
    """

    focal: float
    """Horizontal focal length in pixels of the left image, > 0."""
    baseline: float
    """Distance between the two cameras in metres, > 0."""
    cx: float
    """Column of the left principal point in pixels."""
    cy: float
    """Row of the left principal point in pixels."""
    doffs: float = 0.0
    """Column of the right principal point minus that of the left one, in pixels."""
    aspect: float = 1.0
    """Vertical over horizontal focal length, > 0; not 1 once an image was resized by unequal factors."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = float(getattr(self, field.name))
            if not math.isfinite(value):
                raise InputError(f"the calibration's {field.name} is {value}; it must be a finite number")
            if field.name in ("focal", "baseline", "aspect") and value <= 0:
                raise InputError(f"the calibration's {field.name} is {value:g}; it must be greater than 0")

    @property
    def focal_y(self) -> float:
        """Vertical focal length in pixels of the left image, > 0."""
        return self.focal * self.aspect

    def scaled(self, sx: float, sy: float) -> "StereoCalibration":
        """The same camera after its images were resized to `sx` times the width and `sy` times the height.

        The borders of the image stay where they are, as `cv2.resize` does it: column x moves to (x + 0.5) *
        sx - 0.5.
        """
        for name, factor in (("sx", sx), ("sy", sy)):
            if not (math.isfinite(factor) and factor > 0):
                raise InputError(f"the scale factor {name} is {factor}; it must be a finite number greater than 0")
        return StereoCalibration(
            focal=self.focal * sx,
            baseline=self.baseline,
            cx=(self.cx + 0.5) * sx - 0.5,
            cy=(self.cy + 0.5) * sy - 0.5,
            doffs=self.doffs * sx,
            aspect=self.aspect * sy / sx,
        )
