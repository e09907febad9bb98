"""ETH3D low-resolution two-view: grey scenes, indoors and outdoors, with laser-scanned disparity (Schöps et al., 2017).

    <root>/two_view_training/<scene>/im0.png, im1.png, calib.txt                   27 scenes
    <root>/two_view_training_gt/<scene>/disp0GT.pfm, mask0nocc.png
    <root>/two_view_testing/<scene>/im0.png, im1.png, calib.txt                    20 scenes

The files are in the Middlebury v3 format; see `linstereo.data.middlebury`.
"""

import os

from linstereo.data.layout import check_root, choose_split, folder_names, require_folder, require_some
from linstereo.data.middlebury import list_scene, read_middlebury_pair
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
    root = check_root(root, dataset=NAME, expected=[folder])
    truths = None
    if folder == "two_view_training":
        truths = require_folder(root / "two_view_training_gt", dataset=NAME, holding="<scene>/disp0GT.pfm")
    files = [
        list_scene(root / folder / scene, truths / scene if truths else None, dataset=NAME, name=f"{folder}/{scene}")
        for scene in folder_names(root / folder)
    ]
    require_some(files, dataset=NAME, looked_for="<scene>/im0.png", where=root / folder)
    return ListedDataset(f"{NAME}/{folder}", files, read_middlebury_pair)
