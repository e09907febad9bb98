"""The frames of a sequence for the Rerun viewer: to one that is opened, or into a file."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from linstereo.cli.track import VIEWER
from linstereo.errors import InputError
from linstereo.extras import require
from linstereo.files import atomic_path
from linstereo.geometry.calibration import StereoCalibration
from linstereo.tracking import TrackedFrame

_JPEG_QUALITY = 85
_MOST_POINTS = 100_000  # of a frame; more are slow to draw


class RerunStream:
    """Logs frames; see `opened`."""

    def __init__(self, recording: Any, rerun: Any, calibration: StereoCalibration | None) -> None:
        self._recording, self._rerun = recording, rerun
        self._calibration = calibration
        self._began = False

    @classmethod
    @contextlib.contextmanager
    def opened(cls, target: str, calibration: StereoCalibration | None) -> Iterator["RerunStream"]:
        """A stream into the file `target`, whole or not there at all, or for the word viewer to a viewer."""
        rerun = require("rerun", extra="view", purpose="--rerun")
        recording = rerun.RecordingStream("linstereo")
        with contextlib.ExitStack() as stack:
            if target == VIEWER:
                try:
                    recording.spawn()
                except (RuntimeError, OSError) as error:
                    raise InputError(
                        "the Rerun viewer cannot be opened here; write a file with --rerun FILE.rrd, and open it where "
                        "there is a display"
                    ) from error
            else:
                recording.save(stack.enter_context(atomic_path(target)))
            yield cls(recording, rerun, calibration)
            recording.flush()
            recording.disconnect()

    def log(self, index: int, frame: TrackedFrame) -> None:
        """Add a frame: the left image, its disparity, and with a calibration its depth and points."""
        rr, recording, calibration = self._rerun, self._recording, self._calibration
        if not self._began:
            self._begin(*frame.left.shape[:2])
        recording.set_time("frame", sequence=index)
        if frame.stamp is not None:
            recording.set_time("stamp", timestamp=np.datetime64(frame.stamp, "ns"))
        disparity = frame.prediction.disparity
        recording.log("camera/left/image", rr.Image(frame.left).compress(jpeg_quality=_JPEG_QUALITY))
        recording.log("disparity", rr.DepthImage(disparity))
        if calibration is None:
            return
        depth = frame.prediction.depth
        recording.log("camera/left/depth", rr.DepthImage(np.where(np.isfinite(depth), depth, 0), meter=1.0))
        cloud = frame.prediction.points()
        step = max(-(-len(cloud) // _MOST_POINTS), 1)
        recording.log("camera/points", rr.Points3D(cloud.points[::step], colors=cloud.colours[::step]))

    def _begin(self, height: int, width: int) -> None:
        self._began = True
        rr, calibration = self._rerun, self._calibration
        self._recording.log("camera", rr.ViewCoordinates.RDF, static=True)
        if calibration is not None:
            camera = rr.Pinhole(
                focal_length=[calibration.focal, calibration.focal_y],
                principal_point=[calibration.cx + 0.5, calibration.cy + 0.5],  # Rerun's pixels begin at their corners
                width=width,
                height=height,
            )
            self._recording.log("camera/left", camera, static=True)


def check_target(target: str) -> None:
    """Refuse what is neither the word viewer nor the name of a file that can be written."""
    if target == VIEWER:
        return
    if Path(target).suffix.lower() != ".rrd":
        raise InputError(f"--rerun is {target!r}; give a file that ends in .rrd, or the word {VIEWER}")
    if not Path(target).parent.is_dir():
        raise InputError(f"the folder of {target} does not exist; give --rerun a file in one that does")
