"""SceneFlow: FlyingThings3D, Monkaa and Driving, synthetic pairs with dense disparity (Mayer et al., CVPR 2016).

    <root>/FlyingThings3D/{frames_cleanpass,frames_finalpass}/{TRAIN,TEST}/{A,B,C}/0000/{left,right}/0006.png
    <root>/FlyingThings3D/disparity/{TRAIN,TEST}/{A,B,C}/0000/left/0006.pfm
    <root>/Monkaa/{frames_cleanpass,frames_finalpass,disparity}/<scene>/{left,right}/0000.png
    <root>/Driving/{frames_cleanpass,frames_finalpass,disparity}/<focal>/<direction>/<speed>/{left,right}/0001.png

The names of the three folders may be written in any case. All archives unpacked into one folder (so that
<root>/frames_cleanpass holds TRAIN, TEST and the scenes of Monkaa and Driving) are read as well, and so are the WebP
images of the official site (folders frames_cleanpass_webp, frames_finalpass_webp).
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from linstereo.data.datasets.layout import (
    check_root,
    choose_split,
    file_names,
    folder_names,
    paired_views,
    require_folder,
    require_some,
    require_stems,
)
from linstereo.data.datasets.reading import read_sample
from linstereo.data.sample import ListedDataset, PairFiles
from linstereo.errors import InputError

NAME = "sceneflow"
PASSES = ("cleanpass", "finalpass")
_SETS = ("FlyingThings3D", "Monkaa", "Driving")
_PARTS: dict[str, tuple[tuple[str, str], ...]] = {
    "train": (("FlyingThings3D", "TRAIN"), ("Monkaa", ""), ("Driving", "")),
    "test": (("FlyingThings3D", "TEST"),),
    "flyingthings3d": (("FlyingThings3D", "TRAIN"),),
    "monkaa": (("Monkaa", ""),),
    "driving": (("Driving", ""),),
}
_PASS_CHOICES = {
    "": ("finalpass",),
    "-cleanpass": ("cleanpass",),
    "-finalpass": ("finalpass",),
    "-bothpasses": PASSES,
}
SPLITS = tuple(part + suffix for part in _PARTS for suffix in _PASS_CHOICES)
"""`train` is all three sets, `test` the TEST part of FlyingThings3D; without a suffix, the final pass is read."""


def open_sceneflow(root: str | os.PathLike[str], split: str | None = None) -> ListedDataset:
    """Open SceneFlow; `split` is one of `SPLITS`, None means `train`.

    Disparity is known everywhere; there are no occlusion labels, and no calibration since the scenes have no metres.
    """
    split = choose_split(split, dataset=NAME, splits={name: name for name in SPLITS}, default="train")
    part, _, suffix = split.partition("-")
    passes = _PASS_CHOICES[f"-{suffix}" if suffix else ""]
    root = Path(root)
    merged = any((root / f"frames_{name}{kind}").is_dir() for name in PASSES for kind in ("", "_webp"))
    single = next((name for name in _SETS if name.lower() == root.resolve().name.lower()), None)
    if merged and single is not None and any(name != single for name, _ in _PARTS[part]):
        raise InputError(
            f"{NAME}: the split '{split}' needs {', '.join(name for name, _ in _PARTS[part])}, but {root} "
            f"is the folder of one of them; did you mean {root.resolve().parent}?"
        )
    if not merged:
        root = check_root(root, dataset=NAME, expected=(*_spellings(root), "frames_finalpass", "frames_cleanpass"))
    files: list[PairFiles] = []
    for image_pass in passes:
        for set_name, subset in _PARTS[part]:
            base = root if merged else _set_folder(root, set_name, split=split)
            files += _list_set(base, set_name=set_name, subset=subset, image_pass=image_pass, merged=merged)
    require_some(files, dataset=NAME, looked_for="left/*.png beside right/*.png", where=root)
    return ListedDataset(f"{NAME}/{split}", files, read_sample)


def _list_set(base: Path, *, set_name: str, subset: str, image_pass: str, merged: bool) -> list[PairFiles]:
    holding = f"the {image_pass} images of {set_name}"
    frames = base / f"frames_{image_pass}"
    if not frames.is_dir() and (base / f"frames_{image_pass}_webp").is_dir():
        frames = base / f"frames_{image_pass}_webp"
    frames = require_folder(frames / subset, dataset=NAME, holding=holding)
    truths = require_folder(base / "disparity" / subset, dataset=NAME, holding=f"the disparity of {set_name}")
    scenes = [name for name in folder_names(frames) if not merged or subset or _set_of_scene(name) == set_name]
    prefix = "/".join(filter(None, (set_name, image_pass, subset)))
    files: list[PairFiles] = []
    for scene in scenes:
        for relative in _view_folders(frames / scene, scene):
            files += _list_views(frames / relative, truths / relative, prefix=f"{prefix}/{relative}")
    require_some(files, dataset=NAME, looked_for=f"{holding}: .../left/*.png and .../right/*.png", where=frames)
    return files


def _list_views(views: Path, truths: Path, *, prefix: str) -> list[PairFiles]:
    lefts, rights = paired_views(views / "left", views / "right", dataset=NAME, suffixes=(".png", ".webp"))
    truth_folder = require_folder(truths / "left", dataset=NAME, holding="the disparity of the left images")
    known = {name.removesuffix(".pfm") for name in file_names(truth_folder) if name.endswith(".pfm")}
    require_stems(lefts, known, dataset=NAME, folder=truth_folder, holding="the disparity (.pfm)")
    return [
        PairFiles(
            name=f"{prefix}/{stem}",
            left=views / "left" / name,
            right=views / "right" / rights[stem],
            disparity=truth_folder / f"{stem}.pfm",
        )
        for stem, name in lefts.items()
    ]


def _view_folders(folder: Path, relative: str) -> Iterator[str]:
    """Folders below (and including) `folder` that hold the folders `left` or `right`, in sorted order."""
    names = folder_names(folder)
    if "left" in names or "right" in names:
        yield relative
        return
    for name in names:
        yield from _view_folders(folder / name, f"{relative}/{name}")


def _set_of_scene(name: str) -> str:
    """The set to which a folder directly below frames_*pass belongs."""
    if name in ("TRAIN", "TEST"):
        return "FlyingThings3D"
    return "Driving" if name.endswith("_focallength") else "Monkaa"


def _spellings(root: Path) -> Sequence[str]:
    """The names of the three folders as they are spelt in `root`, or as they should be."""
    if not root.is_dir():
        return _SETS
    wanted = {name.lower() for name in _SETS}
    return [name for name in folder_names(root) if name.lower() in wanted] or _SETS


def _set_folder(root: Path, set_name: str, *, split: str) -> Path:
    for name in _spellings(root):
        if name.lower() == set_name.lower() and (root / name).is_dir():
            return root / name
    raise InputError(
        f"{NAME}: the split '{split}' needs the folder {root / set_name}, which is missing; "
        "add it, or choose the split of the part that is there: flyingthings3d, monkaa, driving, test"
    )
