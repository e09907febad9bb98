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
    check_size,
    choose_split,
    files_by_stem,
    folder_names,
    read_views,
    require_folder,
    require_some,
    require_stems,
)
from linstereo.data.formats.depth_maps import read_depth
from linstereo.data.sample import ListedDataset, PairFiles, StereoSample
from linstereo.geometry.calibration import StereoCalibration
from linstereo.geometry.depth import depth_to_disparity

NAME = "tartanair-uw"
CALIBRATION = StereoCalibration(focal=320.0, baseline=0.25, cx=320.0, cy=240.0)
_FOLDERS = (
    ("image_left", "_left", (".png",), "the left images"),
    ("image_right", "_right", (".png",), "the right images"),
    ("depth_left", "_left_depth", (".npy", ".png"), "the depth of the left images"),
)
"""Of a sequence: a folder, the ending of its files' stems, their suffixes, and what they hold."""
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
    assert files.depth is not None
    left, right = read_views(files)
    depth = read_depth(files.depth)
    check_size(left, files.left, depth, files.depth)
    return StereoSample(
        name=files.name,
        left=left,
        right=right,
        disparity=depth_to_disparity(depth, CALIBRATION),
        valid=depth > 0,
        depth=depth,
        calibration=CALIBRATION,
    )


def _list_sequence(sequence: Path, *, prefix: str) -> list[PairFiles]:
    folders = {}
    frames = {}
    if not any((sequence / folder).is_dir() for folder, *_ in _FOLDERS):
        return []  # no sequence at all
    for folder, ending, suffixes, holding in _FOLDERS:
        folders[folder] = require_folder(sequence / folder, dataset=NAME, holding=holding)
        names = files_by_stem(folders[folder], suffixes)
        frames[folder] = {stem.removesuffix(ending): name for stem, name in names.items() if stem.endswith(ending)}
    lefts, rights, depths = frames["image_left"], frames["image_right"], frames["depth_left"]
    require_stems(lefts, rights, dataset=NAME, folder=folders["image_right"], holding="the right image")
    require_stems(rights, lefts, dataset=NAME, folder=folders["image_left"], holding="the left image")
    require_stems(lefts, depths, dataset=NAME, folder=folders["depth_left"], holding="the depth")
    return [
        PairFiles(
            name=f"{prefix}/{frame}",
            left=folders["image_left"] / name,
            right=folders["image_right"] / rights[frame],
            depth=folders["depth_left"] / depths[frame],
        )
        for frame, name in lefts.items()
    ]
