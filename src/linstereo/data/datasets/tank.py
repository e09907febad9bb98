"""The laboratory tank: close-range underwater pairs with depth from a CAD model placed by AprilTags.

    <root>/<session>/left/0000.png, right/0000.png      rectified images of one camera set-up
    <root>/<session>/depth/0000.npy                     metres, 0 where the CAD model is not seen
    <root>/<session>/parts/0000.png                     optional: 1 on the frame, 2 on ropes, 0 elsewhere
    <root>/<session>/calib.json                         of the rectified pair, as seen through the water
    <root>/splits/<split>.txt                           optional: one <session>/<name> in each line

A collection in the sense of `linstereo.data.datasets.folder`, whose other optional files may be there too.
`linstereo tank ground-truth` writes such sessions.

Where there are parts, the splits `frame` and `rope` are all pairs with the ground truth of that part alone, and
`<split>-frame` and `<split>-rope` those of a split.
"""

import dataclasses
import functools
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linstereo.data.datasets.folder import open_collection, read_folder_pair
from linstereo.data.datasets.layout import require_file
from linstereo.data.datasets.reading import check_size
from linstereo.data.formats.png import read_png_values
from linstereo.data.sample import ListedDataset, PairFiles, StereoSample

NAME = "tank"
PARTS = {"frame": 1, "rope": 2}
"""Values of the parts in the files of `parts`."""


def open_tank(root: str | os.PathLike[str], split: str | None = None) -> ListedDataset:
    """Open tank recordings; `split` names a file in <root>/splits and a part, None means all pairs and parts."""
    base, part = _part_of(Path(root), split)
    whole = open_collection(root, base, dataset=NAME, needs=["depth"])
    if part is None:
        return ListedDataset(whole.name, whole.files, read_tank_pair)
    for files in whole.files:
        require_file(parts_file(files), dataset=NAME, holding=f"the parts of {files.name}")
    return ListedDataset(f"{NAME}/{split}", whole.files, functools.partial(_read_part, part=part))


@dataclasses.dataclass(frozen=True, eq=False)
class TankSample(StereoSample):
    """A pair of the tank with the parts of its target."""

    parts: NDArray[np.uint8] | NDArray[np.uint16] | None = None
    """[H, W], the values of `PARTS`, 0 elsewhere; None: no such labels."""


def read_tank_pair(files: PairFiles) -> TankSample:
    """Read one pair, with its parts where they are labelled."""
    sample, path = read_folder_pair(files), parts_file(files)
    labels = read_png_values(path) if path.is_file() else None
    if labels is not None:
        check_size(sample.left, files.left, labels, path)
    return TankSample(**vars(sample), parts=labels)


def parts_file(files: PairFiles) -> Path:
    """Where the parts of a pair are, whether they are there or not."""
    return files.left.parent.parent / "parts" / f"{files.left.stem}.png"


def _part_of(root: Path, split: str | None) -> tuple[str | None, str | None]:
    """The split without its part, and the part; a file of that very name is a split of its own."""
    if split is None or (root / "splits" / f"{split}.txt").is_file():
        return split, None
    base, _, part = split.rpartition("-")
    return (base or None, part) if part in PARTS else (split, None)


def _read_part(files: PairFiles, *, part: str) -> StereoSample:
    """Read one pair with the ground truth of one part; what is known elsewhere becomes unknown."""
    sample = read_tank_pair(files)
    assert sample.parts is not None
    chosen = sample.parts == PARTS[part]
    zero = np.float32(0)
    return dataclasses.replace(
        sample,
        disparity=None if sample.disparity is None else np.where(chosen, sample.disparity, zero),
        valid=None if sample.valid is None else sample.valid & chosen,
        occluded=None if sample.occluded is None else sample.occluded & chosen,
        depth=None if sample.depth is None else np.where(chosen, sample.depth, zero),
    )
