"""What every source of stereo frames gives, and the plainest source: image files."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linstereo.data.formats.calibration_fields import Cameras
from linstereo.data.formats.images import read_pixels
from linstereo.errors import InputError

NANOSECONDS = 1_000_000_000
"""In a second."""
DEFAULT_RATE = 30.0
"""Frames per second of sources that do not say it."""
_DIGITS = {10: 9, 13: 6, 16: 3, 19: 0}  # of a time since 1970 in a name, and the power of ten to nanoseconds
_STAMP = re.compile(r"\d{10}\.\d{1,9}|\d{10,19}")


class StereoFrame(NamedTuple):
    """Both images of one moment."""

    stamp: int
    """When the left one was taken, nanoseconds: since 1970 where the source says so, else since the start."""
    left: npt.NDArray[Any]
    """uint8 or uint16, grey [H, W] or [H, W, 1], or RGB [H, W, 3]."""
    right: npt.NDArray[Any]
    """The same for the right image."""


class FrameSource(ABC):
    """Stereo frames in the order of time; can be iterated again, from the start, unless it is live.

    Attributes:
        name: what to call it in messages.
        count: about how many frames there are; None if nobody knows.
        live: it is a camera or a stream, which ends when the user says so.
        cameras: what the source itself says about the calibration of the cameras, None if nothing.
        rectified: the source says that its images are rectified.
    """

    def __init__(
        self,
        name: str,
        *,
        count: int | None = None,
        live: bool = False,
        cameras: Cameras | None = None,
        rectified: bool = False,
    ) -> None:
        self.name = name
        self.count = count
        self.live = live
        self.cameras = cameras
        self.rectified = rectified

    @abstractmethod
    def __iter__(self) -> Iterator[StereoFrame]:
        """The frames; an `InputError` where one cannot be read."""

    def remarks(self) -> list[str]:
        """What the user should know after the frames were read, such as how many had no partner: a sentence each."""
        return []


class ImageFiles(FrameSource):
    """Pairs of image files in the order given.

    The stamps are those in the names of the left files, if each has one that is a time since 1970 (10 digits for
    seconds, 13, 16 or 19 for milli-, micro- and nanoseconds, or seconds with a decimal point) and they rise; else the
    frames are taken to come at `rate` per second, from 0 on.
    """

    def __init__(self, pairs: Sequence[tuple[Path, Path]], *, rate: float = DEFAULT_RATE) -> None:
        if not pairs:
            raise InputError("a sequence of image files needs at least one pair; give two folders of images")
        check_rate(rate)
        super().__init__(f"{pairs[0][0].parent} and {pairs[0][1].parent}", count=len(pairs))
        self.pairs = list(pairs)
        self.stamps = stamps_of([left for left, _ in pairs]) or [stamp_at(i, rate) for i in range(len(pairs))]

    def __iter__(self) -> Iterator[StereoFrame]:
        for stamp, (left, right) in zip(self.stamps, self.pairs, strict=True):
            yield StereoFrame(stamp, read_pixels(left), read_pixels(right))


def check_rate(rate: float) -> None:
    """Refuse a number of frames per second that no camera has."""
    if not 1e-3 <= rate <= 1e5:
        raise InputError(f"the frame rate is {rate}; give frames per second, from 0.001 to 100000")


def stamp_at(index: int, rate: float) -> int:
    """Nanoseconds from the start at which frame `index` comes, at `rate` frames per second."""
    return round(index * NANOSECONDS / rate)


def stamps_of(files: Sequence[str | os.PathLike[str]]) -> list[int] | None:
    """The rising time stamps that the names of all files hold, nanoseconds since 1970; None if they hold none."""
    found = []
    for file in files:
        stamps = [_nanoseconds(text) for text in _STAMP.findall(Path(file).stem)]
        known = [stamp for stamp in stamps if stamp is not None]
        if len(known) != 1:
            return None
        found.append(known[0])
    return found if all(np.diff(found) > 0) else None


def _nanoseconds(text: str) -> int | None:
    if "." in text:
        return int(Decimal(text) * NANOSECONDS)
    return int(text) * 10 ** _DIGITS[len(text)] if len(text) in _DIGITS else None
