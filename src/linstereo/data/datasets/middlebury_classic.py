"""The older Middlebury sets of 2001, 2003, 2005 and 2006, with disparity in scaled 8-bit images.

    2001:  <root>/<scene>/im2.ppm, im6.ppm, disp2.pgm                      8 x disparity
           <root>/map/im0.pgm, im1.pgm, disp0.pgm                          8 x disparity
           <root>/tsukuba/scene1.row3.col3.ppm, scene1.row3.col4.ppm, truedisp.row3.col3.pgm    16 x disparity
    2003:  <root>/<scene>/im2.png, im6.png, disp2.png                      4 x (quarter), 2 x (half), 1 x (full size)
    2005, 2006 (the two-view archives):
           <root>/<scene>/view1.png, view5.png, disp1.png                  3 x (third), 2 x (half), 1 x (full size)

The left image is the first of the two. 0 is unknown. Any image format will do, so the PNG copies of the 2001 set are
read too (tsukuba then also as im2, im6, disp2). Scenes are known by their folder's name, in any case; scenes of another
year, which may lie in the same folder, are left out. The sizes are not written in the folder names, so they are the
split; an image whose width belongs to another size is refused, since its disparity would be read with the wrong factor.
"""

import functools
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linstereo.data.datasets.layout import check_root, choose_split, files_by_stem, folder_names
from linstereo.data.datasets.reading import read_sample
from linstereo.data.formats.images import read_image
from linstereo.data.sample import ListedDataset, PairFiles, StereoSample
from linstereo.errors import InputError

_VIEWS: Mapping[int, tuple[tuple[str, str, str], ...]] = {
    2001: (
        ("im2", "im6", "disp2"),
        ("im0", "im1", "disp0"),
        ("scene1.row3.col3", "scene1.row3.col4", "truedisp.row3.col3"),
    ),
    2003: (("im2", "im6", "disp2"),),
    2005: (("view1", "view5", "disp1"),),
    2006: (("view1", "view5", "disp1"),),
}
"""Stems of the left image, the right image and the disparity of the left image; the first set that is there counts."""
_SCALES: Mapping[int, Mapping[str, int]] = {
    2001: {"all": 8},
    2003: {"quarter": 4, "half": 2, "full": 1},
    2005: {"third": 3, "half": 2, "full": 1},
    2006: {"third": 3, "half": 2, "full": 1},
}
"""Value of a disparity of one pixel, by split; the first split is the default."""
_FULL_WIDTHS: Mapping[int, tuple[int, int]] = {2003: (1800, 1800), 2005: (1240, 1400), 2006: (1240, 1400)}
"""Smallest and largest width of the full-size images, px."""
_SCALE_OF_SCENE = {(2001, "tsukuba"): 16}
SCENES: Mapping[int, tuple[str, ...]] = {
    2001: ("barn1", "barn2", "bull", "map", "poster", "sawtooth", "tsukuba", "venus"),
    2003: ("cones", "teddy"),
    2005: ("art", "books", "dolls", "laundry", "moebius", "reindeer"),
    2006: (
        *("aloe", "baby1", "baby2", "baby3", "bowling1", "bowling2", "cloth1", "cloth2", "cloth3", "cloth4"),
        *("flowerpots", "lampshade1", "lampshade2", "midd1", "midd2", "monopoly", "plastic", "rocks1", "rocks2"),
        *("wood1", "wood2"),
    ),
}
"""The scenes with public ground truth, in lower case. Other folders are left out: a scene of another year would be read
with the wrong factor, and three scenes of 2005 have no ground truth."""
SPLITS = {year: tuple(scales) for year, scales in _SCALES.items()}


def open_middlebury_classic(root: str | os.PathLike[str], split: str | None = None, *, year: int) -> ListedDataset:
    """Open the set of `year` (2001, 2003, 2005, 2006); `split` is one of `SPLITS[year]`, None means the smallest size.

    There are no occlusion labels, and no calibration since the principal point was not published.
    """
    dataset = f"middlebury{year}"
    splits = {name: name for name in SPLITS[year]}
    split = choose_split(split, dataset=dataset, splits=splits, default=SPLITS[year][0])
    root = Path(root)
    if not root.is_dir():
        check_root(root, dataset=dataset, expected=["<scene>"])
    files = []
    scales = {}
    for scene in folder_names(root):
        if scene.lower() not in SCENES[year]:
            continue
        pair = _list_scene(root / scene, year=year, dataset=dataset)
        if pair is not None:
            files.append(pair)
            scales[scene] = _SCALE_OF_SCENE.get((year, scene.lower()), _SCALES[year][split])
    if not files:
        left, right, truth = _VIEWS[year][0]
        names = ", ".join(SCENES[year][:3])
        looked_for = f"<scene>/{left}.*, {right}.* and {truth}.* of its {len(SCENES[year])} scenes ({names}, ...)"
        raise InputError(f"{dataset}: no scene in {root}, looked for {looked_for}{_hint(root, year=year)}")
    read = functools.partial(read_classic_pair, scales=scales, year=year, split=split)
    return ListedDataset(f"{dataset}/{split}", files, read)


def read_classic_pair(files: PairFiles, *, scales: Mapping[str, int], year: int, split: str) -> StereoSample:
    """Read one listed pair; `scales` is the value of one pixel of disparity, by scene."""
    sample = read_sample(files, disparity_of=functools.partial(_read_scaled, scale=scales[files.name]))
    _check_width(sample.left.shape[1], files.left, year=year, split=split)
    return sample


def _read_scaled(path: Path, *, scale: int) -> NDArray[np.float32]:
    stored = read_image(path)  # [H, W, 3]
    if not (stored[..., :1] == stored).all():
        raise InputError(f"{path} is a colour image, but a disparity is one value per pixel; download it again")
    return stored[..., 0].astype(np.float32) / np.float32(scale)  # [H, W]


def _list_scene(folder: Path, *, year: int, dataset: str) -> PairFiles | None:
    """The files of one scene; None if the folder holds no image of a scene at all."""
    found = files_by_stem(folder)
    for stems in _VIEWS[year]:
        present = [stem in found for stem in stems]
        if not any(present):
            continue
        if not all(present):
            missing = stems[present.index(False)]
            raise InputError(f"{dataset}: {missing}.* of the scene {folder.name} not found in {folder}; add it")
        left, right, truth = (folder / found[stem] for stem in stems)
        return PairFiles(name=folder.name, left=left, right=right, disparity=truth)
    return None


def _check_width(width: int, path: Path, *, year: int, split: str) -> None:
    """Refuse an image that is as wide as the images of another size are."""
    if year not in _FULL_WIDTHS:
        return
    low, high = _FULL_WIDTHS[year]
    for other, scale in _SCALES[year].items():
        if other != split and low // scale <= width <= -(-high // scale):
            raise InputError(
                f"{path} is {width} px wide, as the images of the size '{other}' are, but the split is '{split}'; "
                f"choose the split '{other}', or its disparity would be read with the wrong factor"
            )


def _hint(root: Path, *, year: int) -> str:
    """The folder above or below `root` that does hold a scene."""
    wanted = _VIEWS[year][0][0]
    if wanted in files_by_stem(root):
        return f"; did you mean {root.resolve().parent}?"
    for name in folder_names(root):
        if any(wanted in files_by_stem(root / name / scene) for scene in folder_names(root / name)[:50]):
            return f"; did you mean {root / name}?"
    return "; give the folder that holds the scenes"
