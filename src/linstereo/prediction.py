"""The result for one pair: disparity, depth in metres, confidence, masks, points, and files and pictures of them."""

import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth import depth_confidence, disparity_to_depth
from linstereo.geometry.depth_edges import flying_edges
from linstereo.geometry.occlusion import occluded_pixels
from linstereo.geometry.point_cloud import PointCloud, point_cloud
from linstereo.prediction_files import OUTPUTS, write_prediction
from linstereo.visualize import overview_picture, png_bytes

if TYPE_CHECKING:
    from linstereo.model.depth_prior import DepthPriorReport

MIN_CONFIDENCE = 0.895
"""Points of a lower confidence (`Prediction.depth_confidence`) are left out of clouds by default.

With it, flying points are 5.1 times rarer than without a filter in the package's rendered pairs, see
`docs/model_card.md`.
"""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Prediction:
    """The result for one pair.

    Attributes:
        disparity: float32 [H, W], pixels of the left input image, >= 0: left pixel (x, y) matches right (x - d, y).
        left: the left image, uint8 [H, W, 3] RGB; the rectified one if the pair was rectified first.
        iterations: refinement iterations that were run.
        prior: what the start from monocular depth did; None for a model without it.
        calibration: of the images at their own size, whatever `scale` was; None if it is unknown.
        confidence: float32 [H, W] in [0, 1]: the probability that the disparity is off by less than 1 px or 5 %; None
            if the model has not learned it.
        right_disparity: of the right image, float32 [H, W], pixels, >= 0: right pixel (x, y) matches left (x + d, y);
            None unless it was asked for (`occlusion=True`).
    """

    disparity: npt.NDArray[np.float32]
    left: npt.NDArray[np.uint8]
    iterations: int
    prior: "DepthPriorReport | None" = None
    calibration: StereoCalibration | None = None
    confidence: npt.NDArray[np.float32] | None = None
    right_disparity: npt.NDArray[np.float32] | None = None

    @property
    def depth(self) -> npt.NDArray[np.float32]:
        """Depth along the optical axis, float32 [H, W] in metres, infinite where the disparity gives none.

        An `InputError` if there is no calibration.
        """
        return self.depth_with(self._known_calibration("depth"))

    def depth_with(self, calibration: StereoCalibration) -> npt.NDArray[np.float32]:
        """`depth` by another calibration of the images at their own size."""
        return disparity_to_depth(self.disparity, calibration)

    def with_calibration(self, calibration: StereoCalibration) -> "Prediction":
        """The same result with another calibration of the images at their own size."""
        return dataclasses.replace(self, calibration=calibration)

    @property
    def depth_confidence(self) -> npt.NDArray[np.float32] | None:
        """The probability that the depth is off by less than 5 %, float32 [H, W] in [0, 1].

        None if the model has not learned its confidence. Without a calibration the right image's principal point is
        taken to be that of the left one; see `linstereo.geometry.depth.depth_confidence`.
        """
        if self.confidence is None:
            return None
        return depth_confidence(self.confidence, self.disparity, self.calibration)

    @property
    def occluded(self) -> npt.NDArray[np.bool_] | None:
        """Pixels, bool [H, W], that the right camera does not see or sees at another disparity.

        None unless the right view was predicted too (`occlusion=True`); see `linstereo.geometry.occlusion`.
        """
        return None if self.right_disparity is None else occluded_pixels(self.disparity, self.right_disparity)

    @property
    def edges(self) -> npt.NDArray[np.bool_]:
        """Pixels, bool [H, W], at jumps of the disparity, whose points would fly between near and far surfaces."""
        return flying_edges(self.disparity)

    def reliable(self, *, min_confidence: float | None = None) -> npt.NDArray[np.bool_]:
        """Pixels, bool [H, W], whose depth is confident, not occluded and not at an edge, as far as that is known.

        Args:
            min_confidence: lowest `depth_confidence`, in [0, 1], by default 0.895; an `InputError` if it is given and
                there is no confidence.
        """
        if min_confidence is not None and not 0 <= min_confidence <= 1:
            raise InputError(f"the lowest confidence is {min_confidence}; it must be from 0 to 1")
        reliable = ~self.edges
        confidence = self.depth_confidence
        if confidence is not None:
            reliable &= confidence >= (MIN_CONFIDENCE if min_confidence is None else min_confidence)
        elif min_confidence is not None:
            raise InputError(
                f"the lowest confidence is {min_confidence}, but this model gives no confidence; leave it out, or "
                "train its confidence first"
            )
        occluded = self.occluded
        return reliable if occluded is None else reliable & ~occluded

    def points(
        self,
        *,
        min_confidence: float | None = None,
        keep_all: bool = False,
        normals: bool = False,
        max_depth: float | None = None,
    ) -> PointCloud:
        """Points in metres with the colours of the left image and, if it is known, their `depth_confidence`.

        Args:
            min_confidence: see `reliable`; points that are not reliable are left out.
            keep_all: keep them.
            normals: give the points their normals.
            max_depth: farther points are left out, metres; by default those with a disparity below a pixel.
        """
        return point_cloud(
            self.disparity,
            self.left,
            self._known_calibration("points"),
            valid=None if keep_all else self.reliable(min_confidence=min_confidence),
            max_depth=max_depth,
            confidence=self.depth_confidence,
            normals=normals,
        )

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        name: str = "pair",
        outputs: Collection[str] = OUTPUTS,
        formats: Sequence[str] = ("pfm",),
        min_confidence: float | None = None,
        keep_all: bool = False,
        normals: bool = False,
        max_depth: float | None = None,
    ) -> list[Path]:
        """Write the files of `linstereo predict` into a folder, which is made if need be; gives their paths.

        Args:
            folder: where.
            name: how their names begin: `pair_disparity_px.pfm`.
            outputs: what to write, some of `linstereo.prediction_files.OUTPUTS`; what is not known is left out.
            formats: of maps, some of `linstereo.prediction_files.FORMATS`.
            min_confidence: of the points in the cloud, see `points`, like the rest.
            keep_all: keep all points.
            normals: give the points their normals.
            max_depth: of points, metres.
        """
        target = Path(folder)
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"the folder {target} cannot be made ({error.strerror}); give another one") from error
        cloud = None
        if "cloud" in outputs and self.calibration is not None:
            cloud = self.points(min_confidence=min_confidence, keep_all=keep_all, normals=normals, max_depth=max_depth)
        return write_prediction(target / name, self, outputs=outputs, formats=formats, cloud=cloud, max_depth=max_depth)

    def picture(self) -> npt.NDArray[np.uint8]:
        """The left image beside its disparity and, as far as they are known, depth and confidence: uint8 [h, w, 3]."""
        return overview_picture(
            self.left,
            self.disparity,
            depth=None if self.calibration is None else self.depth,
            confidence=self.confidence,
        )

    def show(self) -> None:
        """Show `picture`: below the cell of a notebook, elsewhere in the system's viewer."""
        if "ipykernel" in sys.modules:
            notebook = import_module("IPython.display")
            notebook.display(notebook.Image(data=self._repr_png_()))
            return
        command = _viewer()
        with tempfile.NamedTemporaryFile(prefix="linstereo-", suffix=".png", delete=False) as file:  # the viewer's now
            file.write(self._repr_png_())
        subprocess.Popen([*command, file.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _repr_png_(self) -> bytes:
        """`picture` as PNG, for notebooks."""
        return png_bytes(self.picture())

    def _known_calibration(self, wanted: str) -> StereoCalibration:
        if self.calibration is None:
            raise InputError(
                f"there is no calibration, so there are no {wanted}; give one to predict(..., calibration=...), or to "
                "with_calibration"
            )
        return self.calibration


def _viewer() -> list[str]:
    """The command that opens a picture on this desktop."""
    if sys.platform == "win32":
        return ["explorer"]
    name = "open" if sys.platform == "darwin" else "xdg-open"
    desktop = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    command = shutil.which(name) if desktop else None
    if command is None:
        raise InputError("there is no desktop here to show a picture on; write files with save(folder) instead")
    return [command]
