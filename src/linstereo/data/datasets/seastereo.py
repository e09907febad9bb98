"""SeaStereo: rendered underwater pairs in many kinds of water, from many cameras.

    <root>/<configuration>/left/000000.png, right/000000.png      rendered images
    <root>/<configuration>/disparity/000000.pfm                   px; or depth/000000.exr (or .npy), metres
    <root>/<configuration>/calib.json                             of the rendered camera
    <root>/splits/{train,val,test}.txt                            one <configuration>/<name> in each line

A configuration is one combination of camera path, camera, objects, water type and depth of the sea floor. A collection
in the sense of `linstereo.data.datasets.folder`, whose other optional files may be there too.
"""

import os

from linstereo.data.datasets.folder import open_collection
from linstereo.data.sample import ListedDataset

NAME = "seastereo"


def open_seastereo(root: str | os.PathLike[str], split: str | None = None) -> ListedDataset:
    """Open SeaStereo; `split` names a file in <root>/splits (train, val, test), None means all pairs."""
    return open_collection(root, split, dataset=NAME, needs=["disparity", "depth"])
