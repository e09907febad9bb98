"""ETH3D low-resolution two-view: grey scenes, indoors and outdoors, with laser-scanned disparity (Schöps et al., 2017).

    <root>/two_view_training/<scene>/im0.png, im1.png, calib.txt                   27 scenes
    <root>/two_view_training_gt/<scene>/disp0GT.pfm, mask0nocc.png
    <root>/two_view_testing/<scene>/im0.png, im1.png, calib.txt                    20 scenes

The files are in the Middlebury v3 format; see `linstereo.data.datasets.middlebury`. Copies with images and ground truth
side by side, as one gets by unpacking both archives into one folder, are read as well:

    <root>/<scene>/im0.png, im1.png, calib.txt, disp0GT.pfm, mask0nocc.png         or in <root>/two_view_training

Scenes without any ground truth beside them are then taken for test scenes and skipped.
"""

import os
from pathlib import Path

from linstereo.data.datasets.layout import (
    check_root,
    choose_split,
    file_names,
    folder_names,
    require_folder,
    require_some,
)
from linstereo.data.datasets.middlebury import TRUTHS, list_scenes, read_middlebury_pair
from linstereo.data.sample import ListedDataset

NAME = "eth3d"
_FOLDERS = {
    "train": "two_view_training",
    "training": "two_view_training",
    "test": "two_view_testing",
    "testing": "two_view_testing",
}
SPLITS = tuple(_FOLDERS)
"""`train` (also `training`) has ground truth, `test` (also `testing`) has none."""


def open_eth3d(root: str | os.PathLike[str], split: str | None = None) -> ListedDataset:
    """Open the two-view benchmark of ETH3D; `split` is one of `SPLITS`, None means `train`."""
    folder = choose_split(split, dataset=NAME, splits=_FOLDERS, default="train")
    base, beside = Path(root) / folder, set[str]()
    if folder == "two_view_training" and not (Path(root) / "two_view_training_gt").is_dir():
        base = base if base.is_dir() else Path(root)
        beside = _scenes_with_truth(base)
    if beside:
        files = list_scenes(base, base, dataset=NAME, prefix=folder, only=beside)
    else:
        root = check_root(root, dataset=NAME, expected=[folder])
        base, truths = root / folder, None
        if folder == "two_view_training":
            truths = require_folder(root / "two_view_training_gt", dataset=NAME, holding="<scene>/disp0GT.pfm")
        files = list_scenes(base, truths, dataset=NAME, prefix=folder)
    require_some(files, dataset=NAME, looked_for="<scene>/im0.png", where=base)
    return ListedDataset(f"{NAME}/{folder}", files, read_middlebury_pair)


def _scenes_with_truth(base: Path) -> set[str]:
    """The folders in `base` that hold an image and any ground truth, side by side."""
    if not base.is_dir():
        return set()
    found = {scene: file_names(base / scene) for scene in folder_names(base)}
    return {scene for scene, files in found.items() if "im0.png" in files and files & set(TRUTHS)}
