"""A folder of the user's own stereo pairs, and collections of such folders.

    <root>/left/<name>.png                 left images, any common format
    <root>/right/<name>.png                right images of the same names; the format may differ
    <root>/disparity/<name>.pfm            optional: .pfm, .png (16 bit, 256 for a pixel), .npy or .exr; px
    <root>/depth/<name>.npy                optional: .npy, .pfm, .exr (metres) or .png (16 bit, millimetres)
    <root>/occlusion/<name>.png            optional: not 0 where only the left camera sees the point
    <root>/calib.json or calib.txt         optional; needed with depth alone, to know the disparity
    <root>/calib/<name>.json or .txt       optional: one calibration for each pair, instead of one for all
    <root>/splits/<split>.txt              optional: one <name> in each line

The pairs must be rectified. In disparity and depth, 0, inf and nan are unknown. Each optional folder that is there must
have a file for every pair; other folders are ignored. calib.txt is in the Middlebury or the KITTI format; calib.json
holds the numbers "focal" (px), "baseline" (metres), "cx", "cy" (px) and, unless it is 0, "doffs" (px). It may hold
"width" and "height" of the images it is for; images of another size than a calibration says are refused.

A collection is a folder of such folders, <root>/<session>/left/<name>.png and so on, with its splits in
<root>/splits/<split>.txt, where a line is <session>/<name>.
"""

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path

from linstereo.data.datasets.layout import (
    check_root,
    files_by_stem,
    folder_names,
    paired_views,
    require_some,
    require_stems,
)
from linstereo.data.datasets.reading import read_sample
from linstereo.data.formats.calibration_files import (
    is_kitti_calibration,
    kitti_image_size,
    middlebury_image_size,
    read_kitti_calibration,
    read_middlebury_calibration,
)
from linstereo.data.formats.depth_maps import SUFFIXES as DEPTH_SUFFIXES
from linstereo.data.sample import ListedDataset, PairFiles, StereoSample
from linstereo.errors import InputError
from linstereo.files import atomic_path, read_file
from linstereo.geometry.calibration import StereoCalibration

NAME = "folder"
DISPARITY_SUFFIXES = (".pfm", ".png", ".npy", ".exr")
CALIBRATION_SUFFIXES = (".json", ".txt")
CALIBRATION_FILES = tuple(f"calib{suffix}" for suffix in CALIBRATION_SUFFIXES)
_SIZE_FIELDS = ("width", "height")
_ASPECT_TOLERANCE = 0.02  # of a resized picture's sides, besides their rounding to whole pixels


def open_folder(root: str | os.PathLike[str], split: str | None = None) -> ListedDataset:
    """Open a folder of stereo pairs; `split` names a file in <root>/splits, None means all pairs."""
    root = check_root(root, dataset=NAME, expected=["left"])
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


def read_calibration(path: str | os.PathLike[str], *, grey: bool = False) -> StereoCalibration:
    """Read calib.json (the fields of `StereoCalibration` by name) or a text file in Middlebury's or KITTI's format.

    `grey` stands for the grey cameras of a KITTI file instead of the colour ones.
    """
    if Path(path).suffix.lower() != ".json":
        if is_kitti_calibration(path):
            return read_kitti_calibration(path, grey=grey)
        return read_middlebury_calibration(path)
    fields = {field.name: field for field in dataclasses.fields(StereoCalibration)}
    required = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
    content = _read_json(path)
    if not set(required) <= set(content) <= {*fields, *_SIZE_FIELDS}:
        optional = [*(name for name in fields if name not in required), *_SIZE_FIELDS]
        raise InputError(
            f"{path} must hold the numbers {', '.join(required)} and may hold {', '.join(optional)}, but nothing else"
        )
    try:
        return StereoCalibration(**{name: value for name, value in content.items() if name in fields})
    except (InputError, OverflowError) as error:
        raise InputError(f"{path} is not a valid calibration: {error}") from error


def calibration_for_size(
    path: str | os.PathLike[str],
    *,
    width: int,
    height: int,
    image: str | os.PathLike[str],
    resize: bool = False,
    grey: bool = False,
) -> StereoCalibration:
    """Read a calibration for images of `width` x `height` px; an `InputError` if it says that it is for others.

    Args:
        path: the calibration file, see `read_calibration`.
        width: of the images, px.
        height: of the images, px.
        image: which image that is, for the error.
        resize: scale the calibration to the size of the images instead. They must be the whole picture: proportions
            that are off by more than 2 % are still refused.
        grey: see `read_calibration`.
    """
    calibration = read_calibration(path, grey=grey)
    size = _calibrated_size(path, grey=grey)
    if size is None or size == (width, height):
        return calibration
    sizes = f"{path} is for images of {size[0]} x {size[1]} px, but {image} is {width} x {height} px"
    if min(size) < 1:
        raise InputError(f"{sizes}; correct the size in the calibration")
    sx, sy = width / size[0], height / size[1]
    if not resize:
        raise InputError(
            f"{sizes}; give the calibration for that size, or have it scaled if the whole picture was resized "
            "(linstereo predict --scale-calib)"
        )
    if abs(sx / sy - 1) > _ASPECT_TOLERANCE + 1 / min(width, height):
        raise InputError(f"{sizes}, which is not the same picture resized; give the calibration of the cropped image")
    return calibration.scaled(sx, sy)


def write_calibration(path: str | os.PathLike[str], calibration: StereoCalibration) -> None:
    """Write calib.json; reading it gives back `calibration`. Atomic."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(dataclasses.asdict(calibration), indent=2) + "\n", encoding="ascii")


def _read_json(path: str | os.PathLike[str]) -> dict[str, int | float]:
    """The numbers by name that a JSON file holds."""
    try:
        content = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f'{path} must hold numbers by name, such as {{"focal": 720.0, ...}}')
    for name, value in content.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{path}: {name} is {value!r}, but must be a number")
    return content


def _calibrated_size(path: str | os.PathLike[str], *, grey: bool) -> tuple[int, int] | None:
    """Width and height of the images that a calibration says it is for; None if it does not say."""
    if Path(path).suffix.lower() != ".json":
        return kitti_image_size(path, grey=grey) if is_kitti_calibration(path) else middlebury_image_size(path)
    content = _read_json(path)
    if not set(_SIZE_FIELDS) <= set(content):
        return None
    try:
        return int(content["width"]), int(content["height"])
    except (ValueError, OverflowError) as error:  # NaN, infinity
        raise InputError(f"{path}: width and height must be whole numbers of pixels") from error


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
