"""Finding the files of a dataset, and saying what was looked for and where when they are not there.

Everything here works from directory listings alone: no file is opened, every folder is listed once.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from linstereo.data.sample import PairFiles
from linstereo.errors import InputError

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".ppm", ".pgm")
"""Suffixes of image files, in the order of preference when two files share a stem."""
_STRAY = {"__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information", "lost+found", "Thumbs.db", "desktop.ini"}
"""What archivers, network storage and desktops leave behind; like hidden names, never part of a dataset."""


def check_root(root: str | os.PathLike[str], *, dataset: str, expected: Sequence[str]) -> Path:
    """Return `root` as a path if at least one of the relative folders `expected` is in it.

    Otherwise the error names them, and the folder above or below `root` that does hold one, if there is such a folder.
    """
    root = Path(root)
    looked_for = " or ".join(f"'{folder}'" for folder in expected)
    if not root.is_dir():
        raise InputError(f"{dataset}: the folder {root} does not exist; give the folder that holds {looked_for}")
    if _holds_any(root, expected):
        return root
    candidates = chain(_breadth_first(root, levels=2), root.resolve().parents[:3])
    better = next((folder for folder in candidates if _holds_any(folder, expected)), None)
    if better is not None:
        raise InputError(f"{dataset}: no folder {looked_for} in {root}; did you mean {better}?")
    there = ", ".join(folder_names(root)[:8]) or "no folder at all"
    raise InputError(f"{dataset}: no folder {looked_for} in {root}, which has {there}; give the folder that holds it")


def choose_split(split: str | None, *, dataset: str, splits: Mapping[str, str], default: str) -> str:
    """Canonical name of `split` (None: `default`), given all accepted spellings as keys of `splits`."""
    name = default if split is None else split
    if name not in splits:
        raise InputError(f"{dataset}: there is no split '{name}'; choose one of {', '.join(splits)}")
    return splits[name]


def require_folder(folder: Path, *, dataset: str, holding: str) -> Path:
    """Return `folder` if it exists; `holding` says in the error what should be in it."""
    if not folder.is_dir():
        raise InputError(f"{dataset}: the folder {folder} with {holding} is missing; add it")
    return folder


def require_file(path: Path, *, dataset: str, holding: str) -> Path:
    """Return `path` if it is a file; `holding` says in the error what it should hold."""
    if not path.is_file():
        raise InputError(f"{dataset}: the file {path} with {holding} is missing; add it")
    return path


def folder_names(folder: Path) -> list[str]:
    """Names of the sub-folders of `folder`, sorted; hidden and stray ones are left out."""
    return sorted(entry.name for entry in _entries(folder) if entry.is_dir())


def file_names(folder: Path) -> set[str]:
    """Names of the files in `folder`; hidden and stray ones are left out."""
    return {entry.name for entry in _entries(folder) if not entry.is_dir()}


def files_by_stem(folder: Path, suffixes: Sequence[str] = IMAGE_SUFFIXES, *, ending: str = "") -> dict[str, str]:
    """Map from stem to file name for the files in `folder` with one of `suffixes`, sorted by name.

    With an `ending`, only files whose stem ends so, by their stem without it.
    """
    rank = {suffix: index for index, suffix in enumerate(suffixes)}
    found: dict[str, str] = {}
    best: dict[str, int] = {}
    for name in sorted(file_names(folder)):
        stem, dot, suffix = name.rpartition(".")
        order = rank.get((dot + suffix).lower())
        if stem and stem.endswith(ending) and order is not None and order < best.get(stem, len(suffixes)):
            found[stem.removesuffix(ending)], best[stem] = name, order
    return found


def paired_views(
    left: Path,
    right: Path,
    *,
    dataset: str,
    suffixes: Sequence[str] = IMAGE_SUFFIXES,
    endings: tuple[str, str] = ("", ""),
) -> tuple[dict[str, str], dict[str, str]]:
    """The images in the folders `left` and `right`, see `files_by_stem`; no image may lack its partner."""
    lefts, rights = (
        files_by_stem(require_folder(folder, dataset=dataset, holding=f"the {side} images"), suffixes, ending=ending)
        for side, folder, ending in (("left", left, endings[0]), ("right", right, endings[1]))
    )
    require_stems(lefts, rights, dataset=dataset, folder=right, holding="the right image")
    require_stems(rights, lefts, dataset=dataset, folder=left, holding="the left image")
    return lefts, rights


def require_stems(
    stems: Collection[str], available: Collection[str], *, dataset: str, folder: Path, holding: str
) -> None:
    """Fail if one of `stems` has no file among `available`, the stems found in `folder`."""
    missing = sorted(set(stems) - set(available))
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(
            f"{dataset}: {holding} of '{missing[0]}'{more} not found in {folder}; add it, or remove what belongs to it"
        )


def require_some(files: Sequence[PairFiles], *, dataset: str, looked_for: str, where: Path) -> Sequence[PairFiles]:
    """Return `files`, or fail if there are none."""
    if not files:
        raise InputError(f"{dataset}: found no stereo pair in {where}, looked for {looked_for}; check the path")
    return files


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".") and entry.name not in _STRAY]
    except OSError as error:
        raise InputError(f"the folder {folder} cannot be listed: {error.strerror}; check its permissions") from error


def _holds_any(folder: Path, expected: Sequence[str]) -> bool:
    return any((folder / name).is_dir() for name in expected)


def _breadth_first(root: Path, *, levels: int) -> Iterator[Path]:
    """Sub-folders of `root`, level by level; large folders are cut short, since this only serves a hint."""
    current = [root]
    for _ in range(levels):
        current = [folder / name for folder in current for name in folder_names(folder)[:100]][:400]
        yield from current
