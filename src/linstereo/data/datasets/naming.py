"""How a dataset is written on the command line and in recipes: NAME=ROOT, or NAME:SPLIT=ROOT for one of its splits."""

import re
from pathlib import Path
from typing import NamedTuple

from linstereo.errors import InputError

_SPLIT_BEHIND = re.compile(r"(.+):([\w.-]+)", re.DOTALL)


class NamedDataset(NamedTuple):
    """A dataset or benchmark, the folder that holds it, and its split; None is the usual one."""

    name: str
    split: str | None
    root: Path


def parse_dataset(text: str, *, what: str, otherwise: str = "") -> NamedDataset:
    """Take `text` apart; an `InputError` calls it `what`, and may say with `otherwise` what else could be written."""
    named, _, root = text.partition("=")
    name, colon, split = named.partition(":")
    if not name or not root or (colon and not split):
        raise InputError(
            f"{what} {text!r} is not understood; write NAME=ROOT or NAME:SPLIT=ROOT, such as "
            f"kitti2015=data/kitti2015{otherwise}"
        )
    behind = None if split else _SPLIT_BEHIND.fullmatch(root)
    if behind is not None and not Path(root).exists():
        raise InputError(f"{what} {text!r} has its split behind the folder; write {name}:{behind[2]}={behind[1]}")
    return NamedDataset(name, split or None, Path(root))
