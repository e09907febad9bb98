"""KITTI stereo 2012 and 2015: street scenes with sparse disparity from a laser scanner (Geiger et al., Menze et al.).

    2015:  <root>/{training,testing}/{image_2,image_3}/000000_10.png               left and right colour images
           <root>/training/{disp_occ_0,disp_noc_0}/000000_10.png                   disparity x 256, uint16, 0 = unknown
           <root>/{training,testing}/calib_cam_to_cam/000000.txt                   calibration, a separate download
    2012:  <root>/{training,testing}/{colored_0,colored_1,image_0,image_1}/000000_10.png   colour and grey images
           <root>/training/{disp_occ,disp_noc}/000000_10.png
           <root>/{training,testing}/calib/000000.txt

Only the frames *_10 have ground truth; the frames *_11 of the scene-flow benchmark are left out. `disp_occ` holds all
ground truth, `disp_noc` only that of points which the right camera sees too. The split `train-partial` is for copies of
a part of the 2015 set: it takes the frames with any ground truth, that of `disp_noc` where `disp_occ` is missing.
"""

import functools
import os
from dataclasses import dataclass
from pathlib import Path

from linstereo.data.datasets.layout import (
    check_root,
    choose_split,
    files_by_stem,
    paired_views,
    require_folder,
    require_some,
    require_stems,
)
from linstereo.data.datasets.reading import read_sample
from linstereo.data.formats.calibration_files import read_kitti_calibration
from linstereo.data.formats.disparity import read_disparity
from linstereo.data.sample import ListedDataset, PairFiles, StereoSample

_SUFFIXES, _ENDING = (".png",), "_10"
_FOLDERS = {"train": "training", "training": "training", "test": "testing", "testing": "testing"}
_SPELLINGS_2015 = {**_FOLDERS, "train-partial": "training-partial"}
_SPELLINGS_2012 = {**_FOLDERS, "train-grey": "training-grey", "test-grey": "testing-grey"}


@dataclass(frozen=True, slots=True)
class _Edition:
    name: str
    left: str
    right: str
    occ: str
    noc: str
    calibration: str
    grey: bool = False


_COLOUR_2015 = _Edition("kitti2015", "image_2", "image_3", "disp_occ_0", "disp_noc_0", "calib_cam_to_cam")
_COLOUR_2012 = _Edition("kitti2012", "colored_0", "colored_1", "disp_occ", "disp_noc", "calib")
_GREY_2012 = _Edition("kitti2012", "image_0", "image_1", "disp_occ", "disp_noc", "calib", grey=True)


def open_kitti2015(root: str | os.PathLike[str], split: str | None = None) -> ListedDataset:
    """Open KITTI 2015 (200 training and 200 test pairs).

    `split` is `train` (the default), whose pairs have ground truth, `train-partial`, where some may lack it, or `test`.
    """
    split = choose_split(split, dataset="kitti2015", splits=_SPELLINGS_2015, default="train")
    folder, _, partial = split.partition("-")
    return _open(root, _COLOUR_2015, folder=folder, split=split, partial=bool(partial))


def open_kitti2012(root: str | os.PathLike[str], split: str | None = None) -> ListedDataset:
    """Open KITTI 2012 (194 training and 195 test pairs).

    `split` is `train` (the default) or `test`, in colour; with `-grey` the grey images of the first publication.
    """
    split = choose_split(split, dataset="kitti2012", splits=_SPELLINGS_2012, default="train")
    folder, _, grey = split.partition("-")
    return _open(root, _GREY_2012 if grey else _COLOUR_2012, folder=folder, split=split)


def read_kitti_pair(files: PairFiles, *, grey: bool = False) -> StereoSample:
    """Read one listed pair; `disparity` is the file of disp_occ (or all there is), `occlusion` of disp_noc."""
    return read_sample(
        files,
        occluded_in=lambda path: read_disparity(path) == 0,
        calibrate=lambda path, _: read_kitti_calibration(path, grey=grey),
    )


def _open(
    root: str | os.PathLike[str], edition: _Edition, *, folder: str, split: str, partial: bool = False
) -> ListedDataset:
    base = check_root(root, dataset=edition.name, expected=[f"{folder}/{edition.left}"]) / folder
    left, right = base / edition.left, base / edition.right
    lefts, rights = paired_views(left, right, dataset=edition.name, suffixes=_SUFFIXES, endings=(_ENDING, _ENDING))
    truths, visibles = base / edition.occ, base / edition.noc
    with_truth = folder == "training"
    all_points = _frames(truths) if with_truth else {}
    seen_points = _frames(visibles) if with_truth else {}
    if partial:
        lefts = {frame: name for frame, name in lefts.items() if frame in all_points or frame in seen_points}
    elif with_truth:
        require_folder(truths, dataset=edition.name, holding="the disparity of all points")
        require_stems(lefts, all_points, dataset=edition.name, folder=truths, holding="the disparity")
        if visibles.is_dir():
            holding = "the non-occluded disparity"
            require_stems(lefts, seen_points, dataset=edition.name, folder=visibles, holding=holding)
    calibrations = base / edition.calibration
    calibrated = files_by_stem(calibrations, (".txt",)) if calibrations.is_dir() else {}
    files = [
        PairFiles(
            name=f"{folder}/{frame}{_ENDING}",
            left=left / name,
            right=right / rights[frame],
            disparity=all_points.get(frame, seen_points.get(frame)),
            occlusion=seen_points.get(frame) if frame in all_points else None,
            calibration=calibrations / calibrated[frame] if frame in calibrated else None,
        )
        for frame, name in lefts.items()
    ]
    looked_for = f"*_10.png with ground truth in {edition.occ} or {edition.noc}" if partial else "*_10.png"
    require_some(files, dataset=edition.name, looked_for=looked_for, where=left)
    return ListedDataset(f"{edition.name}/{split}", files, functools.partial(read_kitti_pair, grey=edition.grey))


def _frames(folder: Path) -> dict[str, Path]:
    """The files of ground truth in a folder by frame; none if it is not there."""
    names = files_by_stem(folder, _SUFFIXES, ending=_ENDING) if folder.is_dir() else {}
    return {frame: folder / name for frame, name in names.items()}
