"""Two cameras as they stand, before rectification: their matrices, lens distortion and relative pose."""

import dataclasses
import math
from typing import Literal

import cv2
import numpy as np
import numpy.typing as npt

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration

DistortionKind = Literal["radial-tangential", "equidistant"]
COEFFICIENTS: dict[DistortionKind, tuple[int, ...]] = {
    "radial-tangential": (0, 4, 5, 8, 12, 14),
    "equidistant": (4,),
}
"""How many distortion coefficients each model has."""
_CONVERGED = (cv2.TERM_CRITERIA_COUNT + cv2.TERM_CRITERIA_EPS, 200, 1e-10)
_ALIGNED = 1e-6  # radians, and shares of the focal length and the baseline: a rig this close needs no rectification


@dataclasses.dataclass(frozen=True)
class Distortion:
    """What a lens adds to a pinhole camera, in OpenCV's terms."""

    kind: DistortionKind = "radial-tangential"
    """Radial and tangential polynomials in the tangent of the angle (Brown-Conrady), or `equidistant`: a polynomial in
    the angle itself (Kannala-Brandt), for fisheye lenses."""
    coefficients: tuple[float, ...] = ()
    """k1 k2 p1 p2 [k3 [k4 k5 k6 [s1 s2 s3 s4 [tx ty]]]] for radial-tangential, k1 k2 k3 k4 for equidistant."""

    def __post_init__(self) -> None:
        if self.kind not in COEFFICIENTS:
            raise InputError(f"the distortion model is {self.kind!r}; it must be one of {', '.join(COEFFICIENTS)}")
        counts = COEFFICIENTS[self.kind]
        if len(self.coefficients) not in counts:
            raise InputError(
                f"there are {len(self.coefficients)} {self.kind} distortion coefficients; there must be "
                f"{' or '.join(map(str, counts))}"
            )
        if not all(math.isfinite(value) for value in self.coefficients):
            raise InputError(f"the distortion coefficients are {list(self.coefficients)}; they must be finite numbers")

    @property
    def absent(self) -> bool:
        """Whether the camera is a plain pinhole."""
        return self.kind == "radial-tangential" and not any(self.coefficients)

    @property
    def array(self) -> npt.NDArray[np.float64]:
        """The coefficients as OpenCV takes them, five zeros for none."""
        return np.array(self.coefficients or (0.0,) * 5, dtype=np.float64)

    def rays(
        self, pixels: npt.NDArray[np.float64], matrix: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Directions in which a camera sees its pixels.

        `pixels` is [N, 2], columns and rows; `matrix` is the [3, 3] camera matrix. Returns unit vectors [N, 3] in
        camera coordinates, and for each whether the model has one: beyond the edge of a fisheye lens it has none.
        """
        points = np.ascontiguousarray(pixels, dtype=np.float64).reshape(-1, 1, 2)
        if self.kind == "radial-tangential":
            normal = cv2.undistortPoints(points, matrix, self.array, criteria=_CONVERGED).reshape(-1, 2)
            rays = np.concatenate([normal, np.ones((len(normal), 1))], axis=1)
            return rays / np.linalg.norm(rays, axis=1, keepdims=True), np.isfinite(rays).all(axis=1)
        skewed = np.linalg.solve(matrix, np.concatenate([points[:, 0], np.ones((len(points), 1))], axis=1).T).T
        bent = np.hypot(skewed[:, 0], skewed[:, 1])  # [N], the distorted angle
        angle, found = self._angles(bent)
        scale = np.where(bent > 0, np.sin(angle) / np.where(bent > 0, bent, 1.0), 1.0)
        return np.stack([skewed[:, 0] * scale, skewed[:, 1] * scale, np.cos(angle)], axis=1), found

    def _angles(self, bent: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """The angle from the axis of each distorted angle, radians, by inverting the polynomial where it rises."""
        angles = np.linspace(0, np.pi, 20001)
        k1, k2, k3, k4 = self.coefficients
        squares = angles**2
        values = angles * (1 + squares * (k1 + squares * (k2 + squares * (k3 + squares * k4))))
        falls = np.flatnonzero(np.diff(values) <= 0)
        end = int(falls[0]) + 1 if len(falls) else len(angles)
        return np.interp(bent, values[:end], angles[:end]), bent <= values[end - 1]


@dataclasses.dataclass(frozen=True, eq=False)
class StereoRig:
    """Two cameras, with the distortion of their lenses, and how they stand to each other."""

    left_matrix: npt.NDArray[np.float64]
    """[3, 3], [f_x 0 c_x; 0 f_y c_y; 0 0 1] in pixels, the centre of the top left pixel being (0, 0)."""
    right_matrix: npt.NDArray[np.float64]
    """[3, 3], the same for the right camera."""
    rotation: npt.NDArray[np.float64]
    """[3, 3], with `translation`: the right camera sees the left camera's point X at rotation @ X + translation."""
    translation: npt.NDArray[np.float64]
    """[3], metres; the first number is negative when the right camera is on the right."""
    width: int
    """Of the images of both cameras, in pixels."""
    height: int
    """Of the images of both cameras, in pixels."""
    left_distortion: Distortion = Distortion()
    """Of the left lens; by default none, as of images that were undistorted."""
    right_distortion: Distortion = Distortion()
    """Of the right lens."""

    def __post_init__(self) -> None:
        for name, shape in (
            ("left_matrix", (3, 3)),
            ("right_matrix", (3, 3)),
            ("rotation", (3, 3)),
            ("translation", (3,)),
        ):
            value = getattr(self, name)
            if value.shape != shape or not np.isfinite(value).all():
                raise InputError(f"the rig's {name} is {value.tolist()}; it must be {shape} finite numbers")
        for name in ("left_matrix", "right_matrix"):
            matrix = getattr(self, name)
            if min(matrix[0, 0], matrix[1, 1]) <= 0 or matrix[1, 0] != 0 or not np.array_equal(matrix[2], [0, 0, 1]):
                raise InputError(f"the rig's {name} is {matrix.tolist()}; it must be [f_x 0 c_x; 0 f_y c_y; 0 0 1]")
        if np.abs(self.rotation @ self.rotation.T - np.eye(3)).max() > 1e-3 or np.linalg.det(self.rotation) < 0:
            raise InputError(f"the rig's rotation is {self.rotation.tolist()}; it must be a rotation matrix")
        if self.width <= 0 or self.height <= 0:
            raise InputError(f"the rig's images are {self.width} x {self.height} pixels; both must be greater than 0")
        if self.translation[0] >= 0:
            raise InputError("the rig's right camera is not on the right of the left one; swap the two images")
        if abs(self.translation[1]) > abs(self.translation[0]):
            raise InputError(
                f"the rig's translation is {self.translation.tolist()}: one camera stands above the other; turn the "
                "images by 90 degrees and calibrate those"
            )

    @property
    def baseline(self) -> float:
        """Distance between the two cameras in metres, > 0."""
        return float(np.linalg.norm(self.translation))

    def resized(self, width: int, height: int) -> "StereoRig":
        """The same cameras after their whole images were resized to `width` x `height` px, as `cv2.resize` does."""
        sx, sy = width / self.width, height / self.height
        resize = np.array([[sx, 0, (sx - 1) / 2], [0, sy, (sy - 1) / 2], [0, 0, 1]])
        return dataclasses.replace(
            self,
            left_matrix=resize @ self.left_matrix,
            right_matrix=resize @ self.right_matrix,
            width=width,
            height=height,
        )

    def rectified(self) -> StereoCalibration | None:
        """The calibration of the images as they are if they are rectified already, else None."""
        left, right = self.left_matrix, self.right_matrix
        close = _ALIGNED * left[0, 0]
        same = np.abs(left - right) <= close
        same[0, 2] = True  # the columns of the principal points may differ
        aligned = (
            self.left_distortion.absent
            and self.right_distortion.absent
            and np.abs(self.rotation - np.eye(3)).max() <= _ALIGNED
            and np.abs(self.translation[1:]).max() <= _ALIGNED * self.baseline
            and same.all()
            and abs(left[0, 1]) <= close
        )
        if not aligned:
            return None
        return StereoCalibration(
            focal=float(left[0, 0]),
            baseline=self.baseline,
            cx=float(left[0, 2]),
            cy=float(left[1, 2]),
            doffs=float(right[0, 2] - left[0, 2]),
            aspect=float(left[1, 1] / left[0, 0]),
        )
