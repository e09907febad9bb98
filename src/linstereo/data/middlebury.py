"""Middlebury stereo evaluation, version 3: indoor scenes with dense sub-pixel disparity (Scharstein et al., GCPR 2014).

    <root>/{trainingF,trainingH,trainingQ,testF,testH,testQ}/<scene>/im0.png, im1.png, calib.txt
    <root>/training{F,H,Q}/<scene>/disp0GT.pfm, mask0nocc.png

<root> is the folder called MiddEval3 in the official archives. F, H and Q are full, half and quarter resolution, with
15 training and 15 test scenes each. In the mask, 255 is a point seen by both cameras, 128 one seen by the left camera
only and 0 an unknown one.
"""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linstereo.data.calibration_files import read_middlebury_calibration
from linstereo.data.disparity import read_disparity
from linstereo.data.layout import (
    check_root,
    check_size,
    choose_split,
    file_names,
    folder_names,
    read_views,
    require_some,
)
from linstereo.data.png import read_png_values
from linstereo.data.sample import ListedDataset, PairFiles, StereoSample
from linstereo.errors import InputError

NAME = "middlebury"
_SPELLINGS = {
    **{f"{part}{size}": f"{part}{size}" for part in ("training", "test") for size in "FHQ"},
    **{size: f"training{size}" for size in "FHQ"},
    "train": "trainingH",
    "test": "testH",
}
SPLITS = tuple(_SPELLINGS)
"""Official names, and short ones: F, H, Q and `train` (half size) have ground truth, `test` (half size) has none."""
VISIBLE = 255
"""Value of mask0nocc.png for a point that both cameras see."""


def open_middlebury(root: str | os.PathLike[str], split: str | None = None) -> ListedDataset:
    """Open Middlebury v3; `split` is one of `SPLITS`, None means `trainingH`."""
    split = choose_split(split, dataset=NAME, splits=_SPELLINGS, default="trainingH")
    base = check_root(root, dataset=NAME, expected=[split]) / split
    with_truth = split.startswith("training")
    files = [
        list_scene(base / scene, base / scene if with_truth else None, dataset=NAME, name=f"{split}/{scene}")
        for scene in folder_names(base)
    ]
    require_some(files, dataset=NAME, looked_for="<scene>/im0.png", where=base)
    return ListedDataset(f"{NAME}/{split}", files, read_middlebury_pair)


def list_scene(views: Path, truths: Path | None, *, dataset: str, name: str) -> PairFiles:
    """The files of one scene in the Middlebury v3 format: images in `views`, ground truth in `truths` (None: none)."""
    found = file_names(views)
    wanted = {"im0.png": (views, found), "im1.png": (views, found)}
    if truths is not None:
        in_truths = file_names(truths) if truths.is_dir() else set[str]()
        wanted |= {"disp0GT.pfm": (truths, in_truths), "mask0nocc.png": (truths, in_truths)}
    for file, (folder, available) in wanted.items():
        if file not in available:
            others = ", ".join(other for other, (place, _) in wanted.items() if place == folder and other != file)
            raise InputError(
                f"{dataset}: {file} of the scene {views.name} not found in {folder}, beside {others}; add it"
            )
    return PairFiles(
        name=name,
        left=views / "im0.png",
        right=views / "im1.png",
        disparity=None if truths is None else truths / "disp0GT.pfm",
        occlusion=None if truths is None else truths / "mask0nocc.png",
        calibration=views / "calib.txt" if "calib.txt" in found else None,
    )


def read_middlebury_pair(files: PairFiles) -> StereoSample:
    """Read one pair in the Middlebury v3 format."""
    left, right = read_views(files)
    disparity: NDArray[np.float32] | None = None
    valid: NDArray[np.bool_] | None = None
    occluded: NDArray[np.bool_] | None = None
    if files.disparity is not None and files.occlusion is not None:
        disparity = read_disparity(files.disparity)
        check_size(left, files.left, disparity, files.disparity)
        mask = read_png_values(files.occlusion)
        check_size(left, files.left, mask, files.occlusion)
        valid = disparity > 0
        occluded = valid & (mask != VISIBLE)
    return StereoSample(
        name=files.name,
        left=left,
        right=right,
        disparity=disparity,
        valid=valid,
        occluded=occluded,
        calibration=None if files.calibration is None else read_middlebury_calibration(files.calibration),
    )
