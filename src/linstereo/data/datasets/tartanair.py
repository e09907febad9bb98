"""TartanAir-UW: the underwater environment `ocean` of TartanAir, version 1 (Wang et al., IROS 2020).

    <root>/ocean/{Easy,Hard}/P000/{image_left,image_right}/000000_left.png, 000000_right.png     640 x 480
    <root>/ocean/{Easy,Hard}/P000/depth_left/000000_left_depth.npy         metres, float32 (or .png, the same packed)

Ground truth is depth; the camera is the same in all of TartanAir, f = 320 px and a baseline of 0.25 m, so that a
disparity is 80 / depth px. The sky is about 10,000 m away and counts as known depth: evaluation limits the range.
"""

import os
from pathlib import Path

from linstereo.data.datasets.layout import (
    check_root,
    choose_split,
    files_by_stem,
    folder_names,
    paired_views,
    require_folder,
    require_some,
    require_stems,
)
from linstereo.data.datasets.reading import read_sample
from linstereo.data.sample import ListedDataset, PairFiles, StereoSample
from linstereo.geometry.calibration import StereoCalibration

NAME = "tartanair-uw"
CALIBRATION = StereoCalibration(focal=320.0, baseline=0.25, cx=320.0, cy=240.0)
_FOLDERS = ("image_left", "image_right", "depth_left")
_LEVELS = {"all": ("Easy", "Hard"), "easy": ("Easy",), "hard": ("Hard",)}
SPLITS = tuple(_LEVELS)
"""`all` are both levels of motion, the 22 sequences of 13,583 pairs on which the paper evaluates."""


def open_tartanair_uw(
    root: str | os.PathLike[str], split: str | None = None, *, environment: str = "ocean"
) -> ListedDataset:
    """Open the ocean sequences of TartanAir; `split` is one of `SPLITS`, None means `all`.

    `environment` names the folder of another environment of TartanAir, all of which share this layout and camera.
    """
    split = choose_split(split, dataset=NAME, splits={name: name for name in _LEVELS}, default="all")
    levels = _LEVELS[split]
    root = check_root(root, dataset=NAME, expected=[f"{environment}/{level}" for level in levels])
    files: list[PairFiles] = []
    for level in levels:
        base = require_folder(root / environment / level, dataset=NAME, holding=f"the sequences of the level {level}")
        for sequence in folder_names(base):
            files += _list_sequence(base / sequence, prefix=f"{environment}/{level}/{sequence}")
    require_some(files, dataset=NAME, looked_for="P*/image_left/*_left.png", where=root / environment)
    return ListedDataset(f"{NAME}/{split}", files, read_tartanair_pair)


def read_tartanair_pair(files: PairFiles) -> StereoSample:
    """Read one listed pair with its depth and the disparity that follows from it."""
    return read_sample(files, calibration=CALIBRATION)


def _list_sequence(sequence: Path, *, prefix: str) -> list[PairFiles]:
    left, right, truth = folders = [sequence / name for name in _FOLDERS]
    if not any(folder.is_dir() for folder in folders):
        return []  # no sequence at all
    lefts, rights = paired_views(left, right, dataset=NAME, suffixes=(".png",), endings=("_left", "_right"))
    require_folder(truth, dataset=NAME, holding="the depth of the left images")
    depths = files_by_stem(truth, (".npy", ".png"), ending="_left_depth")
    require_stems(lefts, depths, dataset=NAME, folder=truth, holding="the depth")
    return [
        PairFiles(
            name=f"{prefix}/{frame}",
            left=left / name,
            right=right / rights[frame],
            depth=truth / depths[frame],
        )
        for frame, name in lefts.items()
    ]
