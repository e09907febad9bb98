"""Booster: indoor scenes with glass, mirrors and metal, 12 megapixels (Zama Ramirez et al., CVPR 2022 and TPAMI 2024).

    <root>/train/balanced/<scene>/camera_00/im0.png, im1.png, ...          left, one image for each illumination
    <root>/train/balanced/<scene>/camera_02/im0.png, im1.png, ...          right, the same names
    <root>/train/balanced/<scene>/disp_00.npy                              disparity of the left images, px, 0 = unknown
    <root>/train/balanced/<scene>/mask_00.png                              255 seen by both cameras, 0 occluded
    <root>/train/balanced/<scene>/calib_00-02.xml                          rectified calibration, OpenCV XML

228 pairs of 38 scenes, 4112 x 3008 px; the test part has no public ground truth. At quarter resolution (Q) images,
disparity and masks keep the first pixel of each block of 4 x 4 (nearest neighbour), and the disparity is divided by 4:
so does the published evaluation code of Stereo Anywhere (test.py --iscale 4 --oscale 4). In the splits with
`-averaged`, images are averaged over the blocks instead, which does not alias fine texture.
"""

import dataclasses
import functools
import os
from pathlib import Path
from typing import TypeVar
from xml.etree import ElementTree

import cv2
import numpy as np
from numpy.typing import NDArray

from linstereo.data.datasets.layout import (
    check_root,
    choose_split,
    folder_names,
    paired_views,
    require_file,
    require_some,
)
from linstereo.data.datasets.reading import read_sample
from linstereo.data.formats.calibration_fields import naming_calibration
from linstereo.data.formats.png import read_png_values
from linstereo.data.sample import ListedDataset, PairFiles, StereoSample
from linstereo.errors import InputError
from linstereo.files import read_file
from linstereo.geometry.calibration import StereoCalibration

NAME = "booster"
_REDUCTIONS = {"trainQ": 4, "trainH": 2, "trainF": 1}
_AVERAGED = {"trainQ-averaged": "trainQ", "trainH-averaged": "trainH"}
_SPELLINGS = {
    **{split: split for split in (*_REDUCTIONS, *_AVERAGED)},
    **{"Q": "trainQ", "H": "trainH", "F": "trainF", "train": "trainQ"},
}
SPLITS = tuple(_SPELLINGS)
"""The balanced training part at quarter (Q, also `train`), half (H) or full (F) resolution."""
_LARGEST_XML = 1 << 20
_Value = TypeVar("_Value", bound=np.generic)


def open_booster(root: str | os.PathLike[str], split: str | None = None) -> ListedDataset:
    """Open the balanced training part of Booster; `split` is one of `SPLITS`, None means `trainQ`."""
    split = choose_split(split, dataset=NAME, splits=_SPELLINGS, default="trainQ")
    base = check_root(root, dataset=NAME, expected=["train/balanced"]) / "train" / "balanced"
    files = [pair for scene in folder_names(base) for pair in _list_scene(base / scene)]
    require_some(files, dataset=NAME, looked_for="<scene>/camera_00/*.png", where=base)
    reduction = _REDUCTIONS[_AVERAGED.get(split, split)]
    read = functools.partial(read_booster_pair, reduction=reduction, average=split in _AVERAGED)
    return ListedDataset(f"{NAME}/{split}", files, read)


def read_booster_pair(files: PairFiles, *, reduction: int = 4, average: bool = False) -> StereoSample:
    """Read one listed pair at 1 / `reduction` of its resolution; with `average`, images are averaged over blocks."""
    whole = read_sample(
        files,
        occluded_in=lambda path: read_png_values(path) == 0,
        calibrate=lambda path, _: read_booster_calibration(path),
    )
    assert whole.disparity is not None
    assert whole.valid is not None
    assert whole.occluded is not None
    assert whole.calibration is not None
    full_height, full_width = whole.disparity.shape
    height, width = full_height // reduction, full_width // reduction
    every = functools.partial(_every, step=reduction, height=height, width=width)
    shrink = functools.partial(cv2.resize, dsize=(width, height), interpolation=cv2.INTER_AREA) if average else every
    sx, sy = width / full_width, height / full_height
    return dataclasses.replace(
        whole,
        left=np.asarray(shrink(whole.left), np.uint8),
        right=np.asarray(shrink(whole.right), np.uint8),
        disparity=every(whole.disparity) * np.float32(sx),
        valid=every(whole.valid),
        occluded=every(whole.occluded),
        calibration=whole.calibration.scaled(sx, sy),
    )


def read_booster_calibration(path: str | os.PathLike[str]) -> StereoCalibration:
    """Read calib_00-02.xml: the projection matrices `proj_matL` and `proj_matR`, and `baselineLR` in millimetres."""
    data = read_file(path)
    if len(data) > _LARGEST_XML:
        raise InputError(f"{path} is no calibration file: it has more than {_LARGEST_XML} bytes")
    try:
        storage = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise InputError(f"{path} is not valid XML ({error}); download it again") from error
    try:
        left, right = (_matrix(storage, name) for name in ("proj_matL", "proj_matR"))
        baseline = float(storage.findtext("baselineLR", ""))
    except ValueError as error:
        raise InputError(
            f"{path} must hold the 3 x 4 matrices proj_matL and proj_matR and the number baselineLR; download it again"
        ) from error
    with naming_calibration(path):
        return StereoCalibration(
            focal=float(left[0, 0]),
            baseline=baseline / 1000,
            cx=float(left[0, 2]),
            cy=float(left[1, 2]),
            doffs=float(right[0, 2] - left[0, 2]),
            aspect=float(left[1, 1] / left[0, 0]) if left[0, 0] > 0 else 1.0,
        )


def _list_scene(scene: Path) -> list[PairFiles]:
    folders = (scene / "camera_00", scene / "camera_02")
    if not any(folder.is_dir() for folder in folders) and not (scene / "disp_00.npy").is_file():
        return []  # no scene at all
    lefts, rights = paired_views(*folders, dataset=NAME, suffixes=(".png",))
    truth = require_file(scene / "disp_00.npy", dataset=NAME, holding="the disparity")
    mask = require_file(scene / "mask_00.png", dataset=NAME, holding="the occlusion mask")
    calibration = require_file(scene / "calib_00-02.xml", dataset=NAME, holding="the calibration")
    return [
        PairFiles(
            name=f"{scene.name}/{stem}",
            left=folders[0] / name,
            right=folders[1] / rights[stem],
            disparity=truth,
            occlusion=mask,
            calibration=calibration,
        )
        for stem, name in lefts.items()
    ]


def _matrix(storage: ElementTree.Element, name: str) -> NDArray[np.float64]:
    """The 3 x 4 matrix `name`; ValueError if it is missing or of another size."""
    return np.array(storage.findtext(f"{name}/data", "").split(), dtype=np.float64).reshape(3, 4)


def _every(array: NDArray[_Value], *, step: int, height: int, width: int) -> NDArray[_Value]:
    """The first pixel of each block of `step` x `step`; [height, width, ...]."""
    return np.ascontiguousarray(array[::step, ::step][:height, :width])
