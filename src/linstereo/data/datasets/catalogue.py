"""All datasets by name."""

import functools
import os
from collections.abc import Callable

from linstereo.data.datasets.booster import open_booster
from linstereo.data.datasets.eth3d import open_eth3d
from linstereo.data.datasets.folder import open_folder
from linstereo.data.datasets.kitti import open_kitti2012, open_kitti2015
from linstereo.data.datasets.middlebury import open_middlebury
from linstereo.data.datasets.middlebury_classic import open_middlebury_classic
from linstereo.data.datasets.sceneflow import open_sceneflow
from linstereo.data.datasets.seastereo import open_seastereo
from linstereo.data.datasets.squid import open_squid
from linstereo.data.datasets.tank import open_tank
from linstereo.data.datasets.tartanair import open_tartanair_uw
from linstereo.data.sample import StereoDataset
from linstereo.errors import InputError

_Open = Callable[[str | os.PathLike[str], str | None], StereoDataset]

_DATASETS: dict[str, _Open] = {
    "sceneflow": open_sceneflow,
    "kitti2012": open_kitti2012,
    "kitti2015": open_kitti2015,
    "middlebury": open_middlebury,
    "middlebury2001": functools.partial(open_middlebury_classic, year=2001),
    "middlebury2003": functools.partial(open_middlebury_classic, year=2003),
    "middlebury2005": functools.partial(open_middlebury_classic, year=2005),
    "middlebury2006": functools.partial(open_middlebury_classic, year=2006),
    "eth3d": open_eth3d,
    "booster": open_booster,
    "tartanair-uw": open_tartanair_uw,
    "squid": open_squid,
    "tank": open_tank,
    "seastereo": open_seastereo,
    "folder": open_folder,
}


def dataset_names() -> tuple[str, ...]:
    """The names that `open_dataset` knows."""
    return tuple(_DATASETS)


def open_dataset(name: str, root: str | os.PathLike[str], split: str | None = None) -> StereoDataset:
    """Open the dataset `name` below the folder `root`.

    `split` also chooses the variant (resolution, image pass), see docs/datasets.md; None is the usual choice: the
    training part of SceneFlow, and for the benchmarks the part with ground truth on which methods are compared.
    Folders are listed at once, in a fixed order, and a missing file is an error here; files are read when a sample is.
    """
    if name not in _DATASETS:
        raise InputError(f"there is no dataset '{name}'; choose one of {', '.join(_DATASETS)}")
    return _DATASETS[name](root, split)
