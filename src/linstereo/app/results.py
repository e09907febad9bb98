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
from typing import Any

import numpy as np
import numpy.typing as npt

from linstereo.app.failures import RefusedError
from linstereo.data.formats.calibration_files import write_calibration
from linstereo.data.formats.depth_maps import write_depth
from linstereo.data.formats.disparity import write_disparity
from linstereo.data.formats.images import write_image
from linstereo.data.formats.npy import read_npy, write_npy
from linstereo.data.formats.pfm import write_pfm
from linstereo.data.formats.png import write_png_values
from linstereo.files import atomic_path
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth import disparity_to_depth
from linstereo.geometry.point_cloud import point_cloud, usable_depth, write_ply
from linstereo.visualize import colourise, depth_picture, disparity_picture

Map = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True, eq=False)
class StereoResult:
    """All that was computed for a pair of H x W px.

    Attributes:
        left: the left image that the maps belong to, rectified if it was raw; uint8 [H, W, 3] RGB.
        right: the right one.
        disparity: float32 [H, W], px, >= 0.
        confidence: float32 [H, W] in [0, 1]; None if it was not asked for.
        occluded: bool [H, W], True where the right camera does not see the point; None if it was not asked for.
        sgbm: disparity by OpenCV's SGBM, float32 [H, W], px; None if it was not asked for.
        calibration: None if nothing is known about the cameras.
        facts: what the page and programs are told besides: plain values for JSON.
    """

    left: npt.NDArray[np.uint8]
    right: npt.NDArray[np.uint8]
    disparity: Map
    confidence: Map | None
    occluded: npt.NDArray[np.bool_] | None
    sgbm: Map | None
    calibration: StereoCalibration | None
    facts: dict[str, Any]

    @property
    def depth(self) -> Map:
        """Depth along the optical axis, float32 [H, W], metres, infinite where there is none."""
        if self.calibration is None:
            raise RefusedError(422, "Depth needs a calibration; give a file, JSON, or focal length and baseline")
        return disparity_to_depth(self.disparity, self.calibration)

    def write(self, name: str, path: Path, *, min_confidence: float = 0.0, max_depth: float | None = None) -> None:
        """Write one of `file_names` to `path`; the other arguments are for the point cloud."""
        if name == "cloud.ply":
            self._write_cloud(path, min_confidence, max_depth)
        elif name == "all.zip":
            self._write_archive(path)
        else:
            _WRITERS[name](self, path)

    def file_names(self) -> list[str]:
        """All files that can be written."""
        missing = [("confidence", self.confidence), ("occlusion", self.occluded), ("sgbm", self.sgbm)]
        without = tuple(name for name, part in missing if part is None)
        if self.calibration is None:
            without += ("depth", "cloud", "calib")
        return [name for name in (*_WRITERS, "cloud.ply", "all.zip") if not name.startswith(without or "-")]

    def _write_cloud(self, path: Path, min_confidence: float, max_depth: float | None) -> None:
        if self.calibration is None:
            raise RefusedError(422, "A point cloud needs a calibration; give a file, JSON, or focal and baseline")
        if min_confidence > 0 and self.confidence is None:
            raise RefusedError(422, "There is no confidence to choose points by; ask for it, or leave the limit out")
        valid = None if self.confidence is None else self.confidence >= min_confidence
        write_ply(path, point_cloud(self.disparity, self.left, self.calibration, valid=valid, max_depth=max_depth))

    def _write_archive(self, path: Path) -> None:
        with contextlib.ExitStack() as stack:
            temporary = stack.enter_context(atomic_path(path))
            archive = stack.enter_context(zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED))
            for name in self.file_names():
                if name == "all.zip" or (name.endswith(".npy") and not name.startswith("occlusion")):
                    continue  # the .pfm files hold the same values
                part = path.with_name(f"part-of-{name}")
                try:
                    with contextlib.suppress(ValueError):  # a disparity too large for a PNG file of 16 bits
                        self.write(name, part)
                        archive.write(part, name)
                finally:
                    part.unlink(missing_ok=True)


def _confidence(result: StereoResult) -> Map:
    if result.confidence is None:
        raise RefusedError(422, "The confidence was not asked for; send confidence=true")
    return result.confidence


def _occluded(result: StereoResult) -> npt.NDArray[np.uint8]:
    if result.occluded is None:
        raise RefusedError(422, "The occlusion was not asked for; send occlusion=true")
    return result.occluded.astype(np.uint8)


def _sgbm(result: StereoResult) -> Map:
    if result.sgbm is None:
        raise RefusedError(422, "SGBM was not asked for; send sgbm=true")
    return result.sgbm


def _calibration(result: StereoResult) -> StereoCalibration:
    if result.calibration is None:
        raise RefusedError(422, "There is no calibration; give a file, JSON, or focal length and baseline")
    return result.calibration


def _depth_colours(result: StereoResult, path: Path) -> None:
    write_image(path, depth_picture(result.depth, max_depth=usable_depth(_calibration(result))))


_WRITERS: dict[str, Callable[[StereoResult, Path], None]] = {
    "disparity.pfm": lambda result, path: write_disparity(path, result.disparity),
    "disparity.npy": lambda result, path: write_disparity(path, result.disparity),
    "disparity.png": lambda result, path: write_disparity(path, result.disparity),
    "disparity_colour.png": lambda result, path: write_image(path, disparity_picture(result.disparity)),
    "depth.pfm": lambda result, path: write_depth(path, result.depth),
    "depth.npy": lambda result, path: write_depth(path, result.depth),
    "depth.png": lambda result, path: write_depth(path, result.depth),
    "depth_colour.png": _depth_colours,
    "confidence.pfm": lambda result, path: write_pfm(path, _confidence(result)),
    "confidence.npy": lambda result, path: write_npy(path, _confidence(result)),
    "confidence.png": lambda result, path: write_png_values(
        path, np.rint(_confidence(result) * 65535).astype(np.uint16)
    ),
    "confidence_colour.png": lambda result, path: write_image(path, colourise(_confidence(result), low=0.0, high=1.0)),
    "occlusion.npy": lambda result, path: write_npy(path, _occluded(result)),
    "occlusion.png": lambda result, path: write_png_values(path, _occluded(result) * np.uint8(255)),
    "sgbm.pfm": lambda result, path: write_disparity(path, _sgbm(result)),
    "sgbm.npy": lambda result, path: write_disparity(path, _sgbm(result)),
    "sgbm.png": lambda result, path: write_disparity(path, _sgbm(result)),
    "sgbm_colour.png": lambda result, path: write_image(path, disparity_picture(_sgbm(result))),
    "left.png": lambda result, path: write_image(path, result.left),
    "right.png": lambda result, path: write_image(path, result.right),
    "calib.json": lambda result, path: write_calibration(
        path, _calibration(result), size=(result.left.shape[1], result.left.shape[0])
    ),
}
"""Every file but the cloud and the archive, by its name."""


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

    def values(name: str) -> Any:
        path = folder / f"{name}.npy"
        return read_npy(path) if path.is_file() else None

    images = np.load(folder / "images.npy", allow_pickle=False)
    occluded = values("occluded")
    return StereoResult(
        left=images[0],
        right=images[1],
        disparity=values("disparity"),
        confidence=values("confidence"),
        occluded=None if occluded is None else occluded.astype(bool),
        sgbm=values("sgbm"),
        calibration=None if calibration is None else StereoCalibration(**calibration),
        facts=facts,
    )


def _save(folder: Path, result: StereoResult) -> None:
    np.save(folder / "images.npy", np.stack([result.left, result.right]), allow_pickle=False)
    for name in ("disparity", "confidence", "occluded", "sgbm"):
        values = getattr(result, name)
        if values is not None:
            write_npy(folder / f"{name}.npy", values.astype(np.uint8) if values.dtype == bool else values)
    (folder / "facts.json").write_text(json.dumps(result.facts))
