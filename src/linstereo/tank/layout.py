"""Where the tags are on the target: the layout file.

    {
      "family": "tag16h5",
      "unit": "m",
      "tags": [
        {"id": 0, "size": 0.04, "corners": [[-0.2, -0.1, 0.0], [-0.16, -0.1, 0.0], [-0.16, -0.06, 0.0], ...]},
        ...
      ]
    }

`unit` is "m" or "mm" and holds for all numbers; it may be left out for metres. `size` is the side of the black square,
as measured on the print. `corners` are the four corners of the black square in the coordinates of the CAD model,
clockwise as seen from the front, from the upper left one of the upright tag (as the AprilTag project and
`linstereo tank target` draw it): upper left, upper right, lower right, lower left.
"""

import json
import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.files import read_json, write_file
from linstereo.tank.family import CODES, NAME

UNITS = {"m": 1.0, "mm": 1e-3}
"""Metres in each unit that files may be in."""
_SMALLEST, _LARGEST = 0.004, 1.0  # metres, sides of tags that a tank may hold
_TOLERANCE = 0.02  # of the side: by how much a tag may fail to be a square of its size

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TagLayout:
    """The tags of a target.

    Args:
        ids: their numbers, each once.
        corners: [T, 4, 3] metres in the frame of the target, clockwise seen from the front, from the upper left one.
    """

    ids: tuple[int, ...]
    corners: Floats

    def __post_init__(self) -> None:
        if not self.ids or self.corners.shape != (len(self.ids), 4, 3):
            raise InputError(
                f"a tag layout has {len(self.ids)} ids and corners of shape {self.corners.shape}; give at least one "
                "tag and [T, 4, 3] corners"
            )

    @property
    def sizes(self) -> Floats:
        """[T] metres, the mean side of each black square."""
        return np.asarray(np.linalg.norm(np.roll(self.corners, -1, axis=1) - self.corners, axis=2).mean(axis=1))

    @property
    def centres(self) -> Floats:
        """[T, 3] metres."""
        return np.asarray(self.corners.mean(axis=1))

    @property
    def fronts(self) -> Floats:
        """[T, 3] unit vectors from each tag towards whoever sees it."""
        right, down = self.corners[:, 1] - self.corners[:, 0], self.corners[:, 3] - self.corners[:, 0]
        normal = np.cross(down, right)
        return np.asarray(normal / np.linalg.norm(normal, axis=1, keepdims=True))

    def index_of(self, tag: int) -> int:
        """Row of a tag in `corners`."""
        return self.ids.index(tag)


def read_layout(path: str | os.PathLike[str]) -> TagLayout:
    """Read a layout file; anything odd about it is an `InputError` that names the tag."""
    content = read_json(path)
    if not isinstance(content.get("tags"), list) or not content["tags"]:
        raise InputError(f'the tag layout {path} holds no tags; it must be an object with the list "tags"')
    family = content.get("family", NAME)
    if family != NAME:
        raise InputError(f"the tag layout {path} is for the family {family!r}; only {NAME} is read")
    unit = content.get("unit", "m")
    if not isinstance(unit, str) or unit not in UNITS:
        raise InputError(f"the tag layout {path} has the unit {unit!r}; choose one of {', '.join(UNITS)}")
    seen: dict[int, Floats] = {}
    for entry in content["tags"]:
        tag, corners = _tag(entry, scale=UNITS[unit], path=path)
        if tag in seen:
            raise InputError(f"the tag layout {path} has the tag {tag} twice; every tag may be on the target once")
        seen[tag] = corners
    return TagLayout(tuple(seen), np.stack(list(seen.values())))


def write_layout(path: str | os.PathLike[str], layout: TagLayout) -> None:
    """Write a layout file in metres, to a thousandth of a millimetre; atomic."""
    tags = [
        {"id": tag, "size": round(float(size), 6), "corners": np.round(corners, 6).tolist()}
        for tag, size, corners in zip(layout.ids, layout.sizes, layout.corners, strict=True)
    ]
    lines = ",\n".join(f"    {json.dumps(tag)}" for tag in tags)
    write_file(path, f'{{\n  "family": "{NAME}",\n  "unit": "m",\n  "tags": [\n{lines}\n  ]\n}}\n')


def _tag(entry: Any, *, scale: float, path: str | os.PathLike[str]) -> tuple[int, Floats]:
    """Number and corners [4, 3] in metres of one entry."""
    if not isinstance(entry, dict) or not {"id", "size", "corners"} <= set(entry):
        raise InputError(f'a tag in {path} is {str(entry)[:60]!r}; each needs "id", "size" and "corners"')
    tag, size = entry["id"], entry["size"]
    if type(tag) is not int or not 0 <= tag < len(CODES):
        raise InputError(f"a tag in {path} has the id {tag!r}; {NAME} has the tags 0 to {len(CODES) - 1}")
    if isinstance(size, bool) or not isinstance(size, int | float) or not (math.isfinite(size) and size > 0):
        raise InputError(f"tag {tag} in {path} has the size {size!r}; it must be a length greater than 0")
    try:
        corners = np.array(entry["corners"], np.float64) * scale
    except (ValueError, TypeError) as error:
        raise InputError(f"tag {tag} in {path} has corners that are no numbers; give four points x, y, z") from error
    if corners.shape != (4, 3) or not np.isfinite(corners).all():
        raise InputError(f"tag {tag} in {path} has corners of shape {corners.shape}; give four points x, y, z")
    side = size * scale
    if not _SMALLEST <= side <= _LARGEST:
        raise InputError(
            f"tag {tag} in {path} would be {side:g} m wide; check the unit, and write "
            '"unit": "mm" or "unit": "m" beside "tags"'
        )
    _check_square(corners, side, tag=tag, path=path)
    return tag, corners


def _check_square(corners: Floats, side: float, *, tag: int, path: str | os.PathLike[str]) -> None:
    sides = np.linalg.norm(np.roll(corners, -1, axis=0) - corners, axis=1)  # [4]
    worst = float(sides[np.abs(sides - side).argmax()])
    if abs(worst - side) > _TOLERANCE * side:
        raise InputError(
            f"tag {tag} in {path} has the size {1e3 * side:.4g} mm, but two neighbouring corners are "
            f"{1e3 * worst:.4g} mm apart; measure the black square, and list its corners one after the other"
        )
    diagonals = np.linalg.norm(corners[2:] - corners[:2], axis=1)  # [2]
    if np.abs(diagonals - math.sqrt(2) * side).max() > _TOLERANCE * math.sqrt(2) * side:
        raise InputError(f"the corners of tag {tag} in {path} do not make a square; check them")
