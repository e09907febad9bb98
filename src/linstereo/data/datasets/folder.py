"""A folder of the user's own stereo pairs, and collections of such folders.

    <root>/left/<name>.png                 left images, any common format
    <root>/right/<name>.png                right images of the same names; the format may differ
    <root>/disparity/<name>.pfm            optional: .pfm, .png (16 bit, 256 for a pixel), .npy or .exr; px
    <root>/depth/<name>.npy                optional: .npy, .pfm, .exr (metres) or .png (16 bit, millimetres)
    <root>/occlusion/<name>.png            optional: not 0 where only the left camera sees the point
    <root>/calib.json or calib.txt         optional; needed with depth alone, to know the disparity
    <root>/calib/<name>.json or .txt       optional: one calibration for each pair, instead of one for all
    <root>/splits/<split>.txt              optional: one <name> in each line
    <root>/disparity_right/<name>.pfm      for the split `mirrored` only: the same of the right images
    <root>/occlusion_right/<name>.png      optional beside them: not 0 where only the right camera sees the point

The pairs must be rectified. In disparity and depth, 0, inf and nan are unknown. Each optional folder that is there must
have a file for every pair; other folders are ignored. The split `mirrored` holds the pairs as in a mirror, where the
right camera is the left one: as many further pairs to train on. calib.txt is in the Middlebury or the KITTI format;
calib.json holds the numbers "focal" (px), "baseline" (metres), "cx", "cy" (px) and, unless it is 0, "doffs" (px). It
may hold "width" and "height" of the images it is for; images of another size than a calibration says are refused.

A collection is a folder of such folders, <root>/<session>/left/<name>.png and so on, with its splits in
<root>/splits/<split>.txt, where a line is <session>/<name>.
"""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linstereo.data.datasets.layout import (
    check_root,
    files_by_stem,
    folder_names,
    paired_views,
    require_some,
    require_stems,
)
from linstereo.data.datasets.reading import read_sample
from linstereo.data.formats.calibration_files import CALIBRATION_FILES, CALIBRATION_SUFFIXES, calibration_for_size
from linstereo.data.formats.depth_maps import SUFFIXES as DEPTH_SUFFIXES
from linstereo.data.sample import ListedDataset, PairFiles, StereoSample
from linstereo.errors import InputError
from linstereo.files import read_file

NAME = "folder"
MIRRORED = "mirrored"
DISPARITY_SUFFIXES = (".pfm", ".png", ".npy", ".exr")


def open_folder(root: str | os.PathLike[str], split: str | None = None) -> ListedDataset:
    """Open a folder of stereo pairs; `split` names a file in <root>/splits, None means all pairs.

    `mirrored` are all pairs in a mirror, unless there is a file of that name.
    """
    root = check_root(root, dataset=NAME, expected=["left"])
    if split == MIRRORED and not (root / "splits" / f"{MIRRORED}.txt").is_file():
        return ListedDataset(f"{NAME}/{split}", list_mirrored(root), read_mirrored_pair)
    files = choose_listed(list_folder(root, dataset=NAME), root, split, dataset=NAME)
    return ListedDataset(f"{NAME}/{split or 'all'}", files, read_folder_pair)


def open_collection(
    root: str | os.PathLike[str], split: str | None = None, *, dataset: str, needs: Sequence[str]
) -> ListedDataset:
    """Open a collection of such folders; each must have one of the folders `needs`, and a calibration."""
    root = check_root(root, dataset=dataset, expected=["."])
    sessions = [name for name in folder_names(root) if name != "splits"]
    if not _holds_sessions(root):
        candidates = [root.resolve().parent] if "left" in sessions else [root / name for name in sessions]
        better = next((folder for folder in candidates if _holds_sessions(folder)), None)
        hint = "" if better is None else f"; did you mean {better}?"
        raise InputError(f"{dataset}: no stereo pair in {root}, looked for <session>/left/*.png{hint}")
    files: list[PairFiles] = []
    for session in sessions:
        base = root / session
        if not any((base / folder).is_dir() for folder in ("left", "right", *needs)):
            continue  # no session at all
        if not any((base / folder).is_dir() for folder in needs):
            looked_for = " or ".join(str(base / folder) for folder in needs)
            raise InputError(f"{dataset}: the ground truth of {session} is missing, looked for {looked_for}; add it")
        listed = list_folder(base, dataset=dataset, prefix=f"{session}/")
        if listed[0].calibration is None:
            looked_for = " or ".join(CALIBRATION_FILES)
            raise InputError(
                f"{dataset}: the calibration of {session} is missing, looked for {looked_for} in {base}; add it"
            )
        files += listed
    return ListedDataset(
        f"{dataset}/{split or 'all'}", choose_listed(files, root, split, dataset=dataset), read_folder_pair
    )


def list_folder(folder: Path, *, dataset: str, prefix: str = "") -> Sequence[PairFiles]:
    """The pairs of one folder in the layout of this module; `prefix` goes before their names."""
    lefts, rights = paired_views(folder / "left", folder / "right", dataset=dataset)
    disparities = _optional(folder / "disparity", DISPARITY_SUFFIXES, lefts, dataset=dataset, holding="the disparity")
    depths = _optional(folder / "depth", DEPTH_SUFFIXES, lefts, dataset=dataset, holding="the depth")
    occlusions = _optional(folder / "occlusion", (".png",), lefts, dataset=dataset, holding="the occlusion mask")
    calibration = next((folder / name for name in CALIBRATION_FILES if (folder / name).is_file()), None)
    calibrations = _optional(folder / "calib", CALIBRATION_SUFFIXES, lefts, dataset=dataset, holding="the calibration")
    if depths and not disparities and calibration is None and not calibrations:
        raise InputError(
            f"{dataset}: {folder} has depth but neither disparity nor a calibration; "
            f"add {' or '.join(CALIBRATION_FILES)}, so that the disparity is known"
        )
    files = [
        PairFiles(
            name=f"{prefix}{stem}",
            left=folder / "left" / name,
            right=folder / "right" / rights[stem],
            disparity=disparities.get(stem),
            depth=depths.get(stem),
            occlusion=occlusions.get(stem),
            calibration=calibrations.get(stem, calibration),
        )
        for stem, name in lefts.items()
    ]
    return require_some(files, dataset=dataset, looked_for="images", where=folder / "left")


def list_mirrored(folder: Path) -> Sequence[PairFiles]:
    """The pairs of one folder with the right camera as the left one; `read_mirrored_pair` reads them."""
    lefts, rights = paired_views(folder / "left", folder / "right", dataset=NAME)
    truth = folder / "disparity_right"
    disparities = _optional(truth, DISPARITY_SUFFIXES, lefts, dataset=NAME, holding="the right disparity")
    if lefts and not disparities:
        raise InputError(
            f"{NAME}: mirrored pairs need the disparity of the right images, looked for {truth}; add it, or leave out "
            f"':{MIRRORED}'"
        )
    occlusions = _optional(folder / "occlusion_right", (".png",), lefts, dataset=NAME, holding="the occlusion mask")
    files = [
        PairFiles(
            name=stem,
            left=folder / "right" / rights[stem],
            right=folder / "left" / name,
            disparity=disparities[stem],
            occlusion=occlusions.get(stem),
        )
        for stem, name in lefts.items()
    ]
    return require_some(files, dataset=NAME, looked_for="images", where=folder / "left")


def choose_listed(files: Sequence[PairFiles], root: Path, split: str | None, *, dataset: str) -> Sequence[PairFiles]:
    """The pairs that <root>/splits/<split>.txt names, in its order; all if `split` is None or `all`."""
    if split is None or split == "all":
        return files
    path = root / "splits" / f"{split}.txt"
    if not path.is_file():
        available = sorted(files_by_stem(path.parent, (".txt",))) if path.parent.is_dir() else []
        raise InputError(
            f"{dataset}: there is no split '{split}', looked for the file {path}; choose one of "
            f"{', '.join(['all', *(name for name in available if name != 'all')])}"
        )
    try:
        lines = read_file(path).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file; it must hold the name of one pair in each line") from error
    by_name = {pair.name: pair for pair in files}
    chosen = []
    for number, line in enumerate(lines, start=1):
        name = line.strip()
        if name and name not in by_name:
            raise InputError(f"{path}, line {number}: there is no pair '{name}' in {root}; correct or remove the line")
        if name:
            chosen.append(by_name[name])
    return require_some(chosen, dataset=dataset, looked_for="the name of one pair in each line", where=path)


def read_folder_pair(files: PairFiles) -> StereoSample:
    """Read one listed pair with whatever is known about it."""
    return read_sample(
        files,
        calibrate=lambda path, left: calibration_for_size(
            path, width=left.shape[1], height=left.shape[0], image=files.left
        ),
    )


def read_mirrored_pair(files: PairFiles) -> StereoSample:
    """Read one pair that `list_mirrored` lists: its columns from right to left, no calibration."""
    sample = read_sample(files)
    arrays = {field: getattr(sample, field) for field in ("left", "right", "disparity", "valid", "occluded")}
    flipped: dict[str, Any] = {
        field: None if array is None else np.ascontiguousarray(array[:, ::-1]) for field, array in arrays.items()
    }
    return dataclasses.replace(sample, **flipped)


def _holds_sessions(folder: Path) -> bool:
    return any((folder / name / "left").is_dir() for name in folder_names(folder))


def _optional(
    folder: Path, suffixes: Sequence[str], stems: dict[str, str], *, dataset: str, holding: str
) -> dict[str, Path]:
    """Files of an optional folder by stem; none if it is not there, but all of `stems` if it is."""
    if not folder.is_dir():
        return {}
    names = files_by_stem(folder, suffixes)
    require_stems(stems, names, dataset=dataset, folder=folder, holding=f"{holding} ({', '.join(suffixes)})")
    return {stem: folder / name for stem, name in names.items()}
