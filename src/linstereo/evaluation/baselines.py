"""Disparities to compare with: OpenCV's semi-global matching, and files that another tool wrote."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.data.formats.disparity import read_disparity
from linstereo.data.formats.float_files import is_float_file, read_float_file
from linstereo.data.sample import StereoSample
from linstereo.errors import InputError

SGBM_SETTINGS: Mapping[str, int] = {
    "blockSize": 5,
    "P1": 600,
    "P2": 2400,
    "uniquenessRatio": 10,
    "speckleWindowSize": 100,
    "speckleRange": 2,
    "disp12MaxDiff": 1,
}
"""Arguments of `cv2.StereoSGBM.create`; P1 and P2 are 8 and 32 times the 75 values of a colour block."""

PREDICTION_SUFFIXES = (".pfm", ".npy", ".exr", ".png")
"""Kinds of prediction files, in the order of preference; 16-bit PNG last, since a PNG may be a mere picture."""


class SgbmMethod:
    """OpenCV's StereoSGBM with `SGBM_SETTINGS`, made dense; see `sgbm_disparity`."""

    timed = True

    def __init__(self, *, title: str | None = None) -> None:
        self.title = title or "SGBM (OpenCV)"
        self.settings: Mapping[str, Any] = {"method": "sgbm", **SGBM_SETTINGS, "opencv": cv2.__version__}

    def for_benchmark(self, key: str, names: Sequence[str]) -> Self:
        """The same method: it can do every pair."""
        return self

    def sources(self, name: str) -> tuple[Path, ...]:
        """None: matching needs only the pair."""
        return ()

    def predict(self, sample: StereoSample) -> NDArray[np.float32]:
        """Match one pair; float32 [H, W], px, >= 0."""
        return sgbm_disparity(sample.left, sample.right)


def disparity_range(width: int) -> int:
    """Disparities SGBM searches in an image of this width: a quarter of it, a multiple of 16 from 64 to 256."""
    quarter = -(-width // 4)
    return min(max(-(-quarter // 16) * 16, 64), 256)


def sgbm_disparity(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Dense disparity of a rectified pair by StereoSGBM, float32 [H, W], px, >= 0.

    left, right: uint8 [H, W, 3]. Both are widened to the left by the searched range, repeating their first column,
    since SGBM finds nothing in a strip of that width at the left border. What it leaves open is filled by `fill_rows`.
    """
    count = disparity_range(left.shape[1])
    matcher = cv2.StereoSGBM.create(minDisparity=0, numDisparities=count, **SGBM_SETTINGS)
    wide = [cv2.copyMakeBorder(view, 0, 0, count, 0, cv2.BORDER_REPLICATE) for view in (left, right)]
    sixteenths = matcher.compute(wide[0], wide[1])[:, count:]  # int16 [H, W], px / 16, negative where not found
    found = sixteenths.astype(np.float32) / np.float32(16)
    return fill_rows(found, known=found >= 0)


def fill_rows(disparity: NDArray[np.float32], *, known: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Give each unknown pixel the smaller disparity of the nearest known ones to its left and right.

    disparity: float32 [H, W]; known: bool [H, W]. The smaller one is the farther one: what a matcher cannot see is
    mostly hidden behind something nearer. A row without any known pixel becomes 0.
    """
    width = disparity.shape[1]
    columns = np.arange(width)
    before = np.maximum.accumulate(np.where(known, columns, -1), axis=1)  # [H, W], -1: none
    after = np.minimum.accumulate(np.where(known, columns, width)[:, ::-1], axis=1)[:, ::-1]  # [H, W], width: none
    candidates = [
        np.where(exists, np.take_along_axis(disparity, column.clip(0, width - 1), axis=1), np.inf)
        for column, exists in ((before, before >= 0), (after, after < width))
    ]
    filled = np.minimum(*candidates)
    return np.where(np.isfinite(filled), filled, 0).astype(np.float32)


class FolderMethod:
    """Predictions of another tool, one file for each sample.

    The prediction of the sample `name` is <folder>/<name> with one of `PREDICTION_SUFFIXES`, or, where that is
    unambiguous in the benchmark, just the last part of the name. If there is a folder <folder>/<benchmark>, it is
    looked up there, so that one folder can hold several benchmarks.
    """

    timed = False

    def __init__(self, folder: str | os.PathLike[str], *, title: str | None = None) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise InputError(f"there is no folder {self.folder} with predictions; check the path after 'folder:'")
        self.title = title or self.folder.resolve().name or str(self.folder)
        self.settings: Mapping[str, Any] = {"method": "folder", "folder": str(folder)}
        self._paths: dict[str, Path] = {}

    def for_benchmark(self, key: str, names: Sequence[str]) -> Self:
        """Find the file of every sample; the first that is missing is an `InputError` saying what was looked for."""
        chosen = type(self)(self.folder, title=self.title)
        base = self.folder / key if (self.folder / key).is_dir() else self.folder
        chosen._paths = find_predictions(base, names)
        return chosen

    def sources(self, name: str) -> tuple[Path, ...]:
        """The file of the sample `name`."""
        return (self._paths[name],)

    def predict(self, sample: StereoSample) -> NDArray[np.float32]:
        """Read the file of one sample; float32 [H, W], px."""
        path = self._paths[sample.name]
        disparity = read_prediction(path)
        if disparity.shape != sample.left.shape[:2]:
            height, width = sample.left.shape[:2]
            raise InputError(
                f"{path} is {disparity.shape[1]} x {disparity.shape[0]} px, but the left image of {sample.name} is "
                f"{width} x {height} px; resize the prediction, and multiply it by the same factor as its width"
            )
        return disparity


def find_predictions(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """The prediction file of each sample, see `FolderMethod`."""
    last_parts = [name.rpartition("/")[2] for name in names]
    unambiguous = len(set(last_parts)) == len(last_parts)
    paths: dict[str, Path] = {}
    missing: list[str] = []
    for name, last in zip(names, last_parts, strict=True):
        stems = dict.fromkeys((name, last) if unambiguous else (name,))
        candidates = (folder / f"{stem}{suffix}" for stem in stems for suffix in PREDICTION_SUFFIXES)
        path = next((candidate for candidate in candidates if candidate.is_file()), None)
        if path is None:
            missing.append(" or ".join(str(folder / stem) for stem in stems))
        else:
            paths[name] = path
    if missing:
        more = f" ({len(missing)} of {len(names)} predictions are missing)" if len(missing) > 1 else ""
        raise InputError(f"no prediction found, looked for {missing[0]} with {', '.join(PREDICTION_SUFFIXES)}{more}")
    return paths


def read_prediction(path: Path) -> NDArray[np.float32]:
    """Read a predicted disparity, float32 [H, W], px; unlike in ground truth, nothing is taken for unknown.

    NaN and infinity stay as they are, so that they count as wrong; 0 is a disparity of 0. A 16-bit PNG holds 256 for
    each pixel of disparity. A file whose values are all negative follows the opposite sign and is an `InputError`.
    """
    if not is_float_file(path):
        return read_disparity(path)
    disparity = read_float_file(path)
    finite = disparity[np.isfinite(disparity)]
    if finite.size and finite.max() < 0:
        raise InputError(f"{path} holds only negative disparities; change their sign, disparity is positive here")
    return disparity
