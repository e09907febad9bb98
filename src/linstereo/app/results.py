"""What is kept of a job: its maps as files in a private folder, and every file that can be made of them."""

import contextlib
import dataclasses
import json
import secrets
import shutil
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from linstereo.app.failures import RefusedError
from linstereo.app.two_views import Map
from linstereo.data.formats.calibration_files import write_calibration
from linstereo.data.formats.confidence_maps import write_confidence
from linstereo.data.formats.depth_maps import write_depth
from linstereo.data.formats.disparity import write_disparity
from linstereo.data.formats.images import write_image
from linstereo.data.formats.npy import read_npy, write_npy
from linstereo.files import atomic_path
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.point_cloud import usable_depth, write_ply
from linstereo.prediction import Prediction
from linstereo.visualize import confidence_picture, depth_picture, disparity_picture, mask_picture

_MAPS = ("disparity", "confidence", "right_disparity")
Part = TypeVar("Part")


@dataclasses.dataclass(frozen=True, eq=False)
class StereoResult:
    """All that was computed for a pair of H x W px.

    Attributes:
        prediction: of the network.
        right: the right image that belongs to its left one, uint8 [H, W, 3] RGB.
        sgbm: disparity by OpenCV's SGBM, float32 [H, W], px; None if it was not asked for.
        facts: what the page and programs are told besides: plain values for JSON.
    """

    prediction: Prediction
    right: npt.NDArray[np.uint8]
    sgbm: Map | None
    facts: dict[str, Any]

    @property
    def calibration(self) -> StereoCalibration:
        """Of the pair; a `RefusedError` if nothing is known."""
        return _known(self.prediction.calibration, "a calibration", "give a file, JSON, or focal length and baseline")

    @property
    def confidence(self) -> Map:
        """In [0, 1], float32 [H, W]; a `RefusedError` if it was not asked for."""
        return _known(self.prediction.confidence, "a confidence", "ask for it with confidence=true")

    @property
    def occluded(self) -> npt.NDArray[np.bool_]:
        """What the right camera does not see, bool [H, W]; a `RefusedError` if it was not asked for."""
        return _known(self.prediction.occluded, "an occlusion", "ask for it with occlusion=true")

    def file_names(self) -> list[str]:
        """All files that can be written."""
        prediction = self.prediction
        parts = {
            "confidence": prediction.confidence,
            "occlusion": prediction.right_disparity,
            "sgbm": self.sgbm,
            **dict.fromkeys(("depth", "cloud", "calib"), prediction.calibration),
        }
        missing = tuple(name for name, part in parts.items() if part is None)
        return [name for name in FILE_NAMES if not name.startswith(missing)]

    def write(
        self, name: str, path: Path, *, min_confidence: float | None = None, max_depth: float | None = None
    ) -> None:
        """Write one of `file_names` to `path`; the other arguments are those of `Prediction.points`."""
        if name == "cloud.ply":
            _ = self.calibration
            lowest = 0.0 if min_confidence is None and self.prediction.confidence is not None else min_confidence
            write_ply(path, self.prediction.points(min_confidence=lowest, max_depth=max_depth))
        elif name == "all.zip":
            self._write_archive(path)
        else:
            _WRITERS[name](self, path)

    def _write_archive(self, path: Path) -> None:
        with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            for name in self.file_names():
                if name.endswith((".zip", ".npy")):  # .pfm and .png files hold the same values
                    continue
                part = path.with_name(f"part-of-{name}")
                try:
                    with contextlib.suppress(ValueError):  # a disparity too large for a PNG file of 16 bits
                        self.write(name, part)
                        archive.write(part, name)
                finally:
                    part.unlink(missing_ok=True)


def _known(part: Part | None, name: str, remedy: str) -> Part:
    if part is None:
        raise RefusedError(422, f"There is no {name.partition(' ')[2]} here, and this needs one; {remedy}")
    return part


def _sgbm(result: StereoResult) -> Map:
    return _known(result.sgbm, "an SGBM disparity", "ask for it with sgbm=true")


def _write_depth_picture(result: StereoResult, path: Path) -> None:
    limit = usable_depth(result.calibration)
    write_image(path, depth_picture(result.prediction.depth, max_depth=limit))


def _write_calibration(result: StereoResult, path: Path) -> None:
    height, width = result.right.shape[:2]
    write_calibration(path, result.calibration, size=(width, height))


_WRITERS: dict[str, Callable[[StereoResult, Path], None]] = {
    **dict.fromkeys(
        ("disparity.pfm", "disparity.npy", "disparity.png"),
        lambda result, path: write_disparity(path, result.prediction.disparity),
    ),
    "disparity_colour.png": lambda result, path: write_image(path, disparity_picture(result.prediction.disparity)),
    **dict.fromkeys(
        ("depth.pfm", "depth.npy", "depth.png"),
        lambda result, path: write_depth(path, result.prediction.depth_with(result.calibration)),
    ),
    "depth_colour.png": _write_depth_picture,
    **dict.fromkeys(
        ("confidence.pfm", "confidence.npy", "confidence.png"),
        lambda result, path: write_confidence(path, result.confidence),
    ),
    "confidence_colour.png": lambda result, path: write_image(path, confidence_picture(result.confidence)),
    "occlusion.npy": lambda result, path: write_npy(path, result.occluded.astype(np.uint8)),
    "occlusion.png": lambda result, path: write_image(path, mask_picture(result.occluded)),
    "edges.npy": lambda result, path: write_npy(path, result.prediction.edges.astype(np.uint8)),
    "edges.png": lambda result, path: write_image(path, mask_picture(result.prediction.edges)),
    **dict.fromkeys(("sgbm.pfm", "sgbm.npy", "sgbm.png"), lambda result, path: write_disparity(path, _sgbm(result))),
    "sgbm_colour.png": lambda result, path: write_image(path, disparity_picture(_sgbm(result))),
    "left.png": lambda result, path: write_image(path, result.prediction.left),
    "right.png": lambda result, path: write_image(path, result.right),
    "calib.json": _write_calibration,
}
"""Every file but the cloud and the archive, by its name."""
FILE_NAMES = (*_WRITERS, "cloud.ply", "all.zip")
"""Every file that a result can have."""


class ResultStore:
    """Results of the page's jobs, each in a folder of its own that only its random key leads to.

    Args:
        folder: the private folder of the server.
        most: results that are kept; the oldest one goes first.
        seconds: that a result is kept.
    """

    def __init__(self, folder: Path, *, most: int, seconds: float) -> None:
        self._folder = folder
        self._most = most
        self._seconds = seconds
        self._kept: dict[str, float] = {}  # key -> when it was made

    def add(self, result: StereoResult) -> str:
        """Keep a result; returns its key."""
        key = secrets.token_hex(16)
        folder = self._folder / f"result-{key}"
        folder.mkdir(mode=0o700)
        _save(folder, result)
        self._kept[key] = time.monotonic()
        self.expire()
        return key

    def get(self, key: str) -> Path:
        """The folder of a result; a `RefusedError` if there is none (any more)."""
        self.expire()
        if key not in self._kept:
            raise RefusedError(404, "This result is not kept any more; compute it again")
        return self._folder / f"result-{key}"

    def remove(self, key: str) -> None:
        """Forget a result; harmless if there is none."""
        if self._kept.pop(key, None) is not None:
            shutil.rmtree(self._folder / f"result-{key}", ignore_errors=True)

    def expire(self) -> None:
        """Forget results that are too old or too many."""
        now = time.monotonic()
        for key, made in list(self._kept.items()):
            if now - made > self._seconds or len(self._kept) > self._most:
                self.remove(key)


def load_result(folder: Path) -> StereoResult:
    """The result that `ResultStore` saved in a folder."""
    facts = json.loads((folder / "facts.json").read_bytes())
    calibration = facts["calibration"]
    images = np.load(folder / "images.npy", allow_pickle=False)  # [2, H, W, 3]

    def values(name: str) -> Any:
        path = folder / f"{name}.npy"
        return read_npy(path) if path.is_file() else None

    prediction = Prediction(
        left=images[0],
        iterations=facts["iterations"],
        calibration=None if calibration is None else StereoCalibration(**calibration),
        **{name: values(name) for name in _MAPS},
    )
    return StereoResult(prediction, images[1], values("sgbm"), facts)


def _save(folder: Path, result: StereoResult) -> None:
    prediction = result.prediction
    np.save(folder / "images.npy", np.stack([prediction.left, result.right]), allow_pickle=False)
    maps = {name: getattr(prediction, name) for name in _MAPS} | {"sgbm": result.sgbm}
    for name, values in maps.items():
        if values is not None:
            write_npy(folder / f"{name}.npy", values)
    (folder / "facts.json").write_text(json.dumps(result.facts))
