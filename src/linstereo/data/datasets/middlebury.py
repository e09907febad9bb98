"""Middlebury stereo evaluation, version 3: indoor scenes with dense sub-pixel disparity (Scharstein et al., GCPR 2014).

    <root>/{trainingF,trainingH,trainingQ,testF,testH,testQ}/<scene>/im0.png, im1.png, calib.txt
    <root>/training{F,H,Q}/<scene>/disp0GT.pfm, mask0nocc.png

<root> is the folder called MiddEval3 in the official archives. F, H and Q are full, half and quarter resolution, with
15 training and 15 test scenes each. In the mask, 255 is a point seen by both cameras, 128 one seen by the left camera
only and 0 an unknown one.
"""

import os
from collections.abc import Collection
from pathlib import Path

from linstereo.data.datasets.layout import check_root, choose_split, file_names, folder_names, require_some
from linstereo.data.datasets.reading import read_sample
from linstereo.data.formats.calibration_files import read_middlebury_calibration
from linstereo.data.formats.png import read_png_values
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
VIEWS, TRUTHS = ("im0.png", "im1.png"), ("disp0GT.pfm", "mask0nocc.png")
"""The images of a scene, and its ground truth."""
VISIBLE = 255
"""Value of mask0nocc.png for a point that both cameras see."""


def open_middlebury(root: str | os.PathLike[str], split: str | None = None) -> ListedDataset:
    """Open Middlebury v3; `split` is one of `SPLITS`, None means `trainingH`."""
    split = choose_split(split, dataset=NAME, splits=_SPELLINGS, default="trainingH")
    base = check_root(root, dataset=NAME, expected=[split]) / split
    with_truth = split.startswith("training")
    files = list_scenes(base, base if with_truth else None, dataset=NAME, prefix=split)
    require_some(files, dataset=NAME, looked_for="<scene>/im0.png", where=base)
    return ListedDataset(f"{NAME}/{split}", files, read_middlebury_pair)


def list_scenes(
    views: Path, truths: Path | None, *, dataset: str, prefix: str, only: Collection[str] | None = None
) -> list[PairFiles]:
    """The scenes in the Middlebury v3 format: images in <views>/<scene>, ground truth in <truths>/<scene> (None: none).

    `prefix` and a slash go before their names. A folder with none of the files of a scene is skipped, and so are
    those that are not in `only`, if that is given.
    """
    listed = (
        _list_scene(
            views / scene, None if truths is None else truths / scene, dataset=dataset, name=f"{prefix}/{scene}"
        )
        for scene in folder_names(views)
        if only is None or scene in only
    )
    return [pair for pair in listed if pair is not None]


def _list_scene(views: Path, truths: Path | None, *, dataset: str, name: str) -> PairFiles | None:
    """The files of one scene; None if `views` has none of them."""
    found = file_names(views)
    if not found & {*VIEWS, *TRUTHS, "calib.txt"}:
        return None
    wanted = dict.fromkeys(VIEWS, (views, found))
    if truths is not None:
        in_truths = file_names(truths) if truths.is_dir() else set[str]()
        wanted |= dict.fromkeys(TRUTHS, (truths, in_truths))
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
    return read_sample(
        files,
        occluded_in=lambda path: read_png_values(path) != VISIBLE,
        calibrate=lambda path, _: read_middlebury_calibration(path),
    )
