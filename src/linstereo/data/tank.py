"""The laboratory tank: close-range underwater pairs with depth from a CAD model placed by AprilTags.

    <root>/<session>/left/0000.png, right/0000.png      rectified images of one camera set-up
    <root>/<session>/depth/0000.npy                     metres, 0 where the CAD model is not seen
    <root>/<session>/calib.json                         of the rectified pair, as seen through the water
    <root>/splits/<split>.txt                           optional: one <session>/<name> in each line

A collection in the sense of `linstereo.data.folder`, whose other optional files may be there too.
"""

import os

from linstereo.data.folder import open_collection
from linstereo.data.sample import ListedDataset

NAME = "tank"


def open_tank(root: str | os.PathLike[str], split: str | None = None) -> ListedDataset:
    """Open tank recordings; `split` names a file in <root>/splits, None means all pairs."""
    return open_collection(root, split, dataset=NAME, needs=["depth"])
