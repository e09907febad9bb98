"""Stereo frames from videos, cameras and streams, whatever OpenCV opens.

One source shows both images, side by side or the left above the right; or there are two, one for each side, that run
alike.
"""

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import cv2
import numpy as np
import numpy.typing as npt

from linstereo.data.formats.decoding import quiet_opencv
from linstereo.data.sequences.frames import DEFAULT_RATE, FrameSource, StereoFrame, check_rate, stamp_at
from linstereo.errors import InputError
from linstereo.files import readable

Layout = Literal["side-by-side", "top-bottom"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
VIDEO_SUFFIXES = (".mp4", ".avi", ".mkv", ".mov", ".webm", ".m4v", ".mpg", ".mpeg", ".ts", ".wmv", ".svo")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_LARGEST_DEVICE = 99
# FFmpeg writes what it dislikes to stderr, where our one sentence stands; OpenCV reads this when FFmpeg is first used.
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")


class Videos(FrameSource):
    """A video or camera that shows both images, or two of them.

    Args:
        left: path of a video, number of a camera, or URL of a stream; of both images, or of the left one.
        right: the same of the right image; None if `left` shows both.
        layout: how `left` shows both.
        rate: frames per second, if the video does not say it.
    """

    def __init__(
        self,
        left: str | os.PathLike[str],
        right: str | os.PathLike[str] | None = None,
        *,
        layout: Layout = "side-by-side",
        rate: float = DEFAULT_RATE,
    ) -> None:
        if layout not in LAYOUTS:
            raise InputError(f"the layout is {layout!r}; use {' or '.join(LAYOUTS)}")
        check_rate(rate)
        self._inputs = [os.fspath(left)] + ([] if right is None else [os.fspath(right)])
        self._layout = layout
        live = any(is_live(name) for name in self._inputs)
        counts, rates = [], []
        for name in self._inputs if not live else ():
            with _opened(name) as capture:
                counts.append(int(capture.get(cv2.CAP_PROP_FRAME_COUNT)))
                rates.append(float(capture.get(cv2.CAP_PROP_FPS)))
        super().__init__(" and ".join(self._inputs), count=_least(counts), live=live)
        if len(rates) == 2 and abs(rates[0] - rates[1]) > 0.01 * max(rates):
            raise InputError(
                f"{self._inputs[0]} has {rates[0]:g} frames per second and {self._inputs[1]} {rates[1]:g}; give two "
                "videos that were taken together"
            )
        self._rate = rates[0] if rates and 1e-3 < rates[0] < 1e5 else rate
        self._counts = counts

    def __iter__(self) -> Iterator[StereoFrame]:
        with contextlib.ExitStack() as stack:
            captures = [stack.enter_context(_opened(name)) for name in self._inputs]
            index, last = 0, -1
            while True:
                if not all(capture.grab() for capture in captures):
                    break
                stamp = self._stamp(captures[0], index, last)
                pictures = [picture for picture in map(_decoded, captures) if picture is not None]
                if len(pictures) < len(captures):
                    break
                left, right = pictures if len(pictures) == 2 else self._halves(pictures[0])
                yield StereoFrame(stamp, left, right)
                index, last = index + 1, stamp
            if index == 0:
                raise InputError(f"{self.name} holds no frame that can be decoded; copy or convert it again")

    def remarks(self) -> list[str]:
        """See `FrameSource.remarks`."""
        if len(self._counts) == 2 and min(self._counts) > 0 and self._counts[0] != self._counts[1]:
            return [
                f"{self._inputs[0]} has {self._counts[0]} frames and {self._inputs[1]} {self._counts[1]}; the longer "
                "one is read as far as the other goes"
            ]
        return []

    def _stamp(self, capture: Any, index: int, last: int) -> int:
        if self.live:
            return time.time_ns()
        told = round(float(capture.get(cv2.CAP_PROP_POS_MSEC)) * 1e6)
        return told if told > last and (told > 0 or index == 0) else max(stamp_at(index, self._rate), last + 1)

    def _halves(self, picture: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        axis = 1 if self._layout == "side-by-side" else 0
        if picture.shape[axis] % 2:
            side = "columns" if axis else "rows"
            raise InputError(
                f"{self.name} has {picture.shape[axis]} {side}, which do not make two images {self._layout}; check "
                "the layout, or give the videos of both cameras"
            )
        left, right = np.split(picture, 2, axis=axis)
        return np.ascontiguousarray(left), np.ascontiguousarray(right)


def is_live(name: str) -> bool:
    """Whether a source is the number of a camera or a URL, not a file."""
    return name.isdigit() or _URL.match(name) is not None


def is_video(name: str) -> bool:
    """Whether the name of a source is that of a video file, a camera or a stream."""
    return is_live(name) or Path(name).suffix.lower() in VIDEO_SUFFIXES


@contextlib.contextmanager
def _opened(name: str) -> Iterator[Any]:
    """An open `cv2.VideoCapture`; an `InputError` if there is nothing to open."""
    with quiet_opencv():
        if name.isdigit():
            if len(name) > 2 or int(name) > _LARGEST_DEVICE:
                raise InputError(f"there is no camera {name[:20]}; give its number, such as 0")
            capture, what = cv2.VideoCapture(int(name)), f"the camera {name}"
        elif is_live(name):
            capture, what = cv2.VideoCapture(name, cv2.CAP_FFMPEG), name
        else:
            with readable(name):
                capture, what = cv2.VideoCapture(name, cv2.CAP_FFMPEG), name
        if not capture.isOpened():
            capture.release()
            kind = "the number or the address" if is_live(name) else "that it is a complete video"
            raise InputError(f"{what} cannot be opened; check {kind}")
    try:
        yield capture
    finally:
        capture.release()


def _decoded(capture: Any) -> npt.NDArray[np.uint8] | None:
    """The grabbed picture as uint8 [H, W, 3] RGB, None if it cannot be decoded."""
    fine, picture = capture.retrieve()
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), np.uint8) if fine and picture is not None else None


def _least(counts: list[int]) -> int | None:
    known = [count for count in counts if count > 0]
    return min(known) if known else None
