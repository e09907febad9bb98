"""The results of `linstereo track`: a file for each frame, an index of them, and a video made of them at the end."""

import csv
import dataclasses
import io
import itertools
from collections.abc import Collection, Sequence
from pathlib import Path

import cv2
import numpy as np
from tqdm import tqdm

from linstereo.data.formats.depth_maps import write_depth
from linstereo.data.formats.disparity import read_disparity, write_disparity
from linstereo.errors import InputError
from linstereo.files import atomic_path, make_parent, write_file
from linstereo.geometry.point_cloud import write_ply
from linstereo.tracking import TrackedFrame
from linstereo.visualize import DisparityPainter

INDEX = "frames.csv"
VIDEO = "disparity.mp4"
_COLUMNS = ("frame", "stamp_ns", "start", "followed", "disparity_low_px", "disparity_high_px")
_RANGE = (1, 99)  # percentiles of the disparities of a frame that its colours should cover
_SPARE = 0.05  # share of the frames whose range may be cut at either end
_RATES = (1.0, 120.0)  # frames per second that players cope with


@dataclasses.dataclass(frozen=True)
class Row:
    """A frame in the index."""

    stamp: int | None
    cold: bool
    followed: float
    low: float
    high: float


class SequenceFiles:
    """Writes frames below a folder, and knows which of them are there.

    Args:
        folder: of the results.
        outputs: some of disparity, depth, cloud and video, which is made from the disparities.
        suffix: of disparity and depth, png, pfm or npy.
        keep_all: keep unreliable points in the clouds, see `Prediction.points`.
        max_depth: farther points are left out of the clouds, metres; None stands for a disparity of 1 px.
    """

    def __init__(
        self,
        folder: Path,
        *,
        outputs: Collection[str],
        suffix: str,
        keep_all: bool = False,
        max_depth: float | None = None,
    ) -> None:
        self._folder = folder
        self._outputs = set(outputs) | ({"disparity"} if "video" in outputs else set())
        self._suffix = suffix
        self._keep_all = keep_all
        self._max_depth = max_depth
        self.rows = _read_index(folder / INDEX)
        write_file(folder / INDEX, _text([_COLUMNS, *map(_cells, itertools.count(), self.rows)]))

    def add(self, frame: TrackedFrame) -> None:
        """Write the results of the next frame, and then its line in the index.

        Without a calibration there is neither depth nor cloud.
        """
        number = len(self.rows)
        disparity, calibration = frame.prediction.disparity, frame.prediction.calibration
        if "disparity" in self._outputs:
            write_disparity(make_parent(self.disparity_file(number)), disparity)
        if calibration is not None and "depth" in self._outputs:
            unit = "mm" if self._suffix == "png" else "m"
            write_depth(
                make_parent(self._folder / f"depth_{unit}" / f"{number:06d}.{self._suffix}"),
                frame.prediction.depth,
            )
        if calibration is not None and "cloud" in self._outputs:
            cloud = frame.prediction.points(keep_all=self._keep_all, max_depth=self._max_depth)
            write_ply(make_parent(self._folder / "cloud_m" / f"{number:06d}.ply"), cloud)
        low, high = (float(value) for value in np.percentile(disparity, _RANGE))
        row = Row(frame.stamp, frame.cold, frame.followed, low, high)
        with (self._folder / INDEX).open("a", encoding="utf-8", newline="") as stream:
            stream.write(_text([_cells(number, row)]))
        self.rows.append(row)

    def disparity_file(self, number: int) -> Path:
        """Of the disparity of a frame."""
        unit = "px_times_256" if self._suffix == "png" else "px"
        return self._folder / f"disparity_{unit}" / f"{number:06d}.{self._suffix}"

    def write_video(self) -> Path:
        """The disparities as a video, all in the same colours; atomic."""
        lows, highs = [row.low for row in self.rows], [row.high for row in self.rows]
        low, high = float(np.quantile(lows, _SPARE)), float(np.quantile(highs, 1 - _SPARE))
        path = self._folder / VIDEO
        with atomic_path(path) as temporary:
            writer = None
            try:
                for number in tqdm(range(len(self.rows)), desc="video", unit="frame", disable=None):
                    disparity = read_disparity(self.disparity_file(number))
                    if writer is None:
                        painter = DisparityPainter(len(disparity), low=low, high=max(high, low + 1))
                        writer = _writer(temporary, painter.paint(disparity).shape, _rate(self.rows))
                    writer.write(cv2.cvtColor(painter.paint(disparity), cv2.COLOR_RGB2BGR))
            finally:
                if writer is not None:
                    writer.release()
            if temporary.stat().st_size == 0:
                raise InputError(f"OpenCV cannot write {path} here; leave video out of --outputs")
        return path


def _writer(path: Path, shape: Sequence[int], rate: float) -> cv2.VideoWriter:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), rate, (shape[1], shape[0]))
    if not writer.isOpened():
        size = f"{shape[1]} x {shape[0]} px"
        raise InputError(f"OpenCV has no encoder for MPEG-4 videos of {size}; leave video out of --outputs")
    return writer


def _rate(rows: Sequence[Row]) -> float:
    """Frames per second, from the stamps."""
    stamps = [row.stamp for row in rows if row.stamp is not None]
    steps = np.diff(stamps) if len(stamps) > 1 else np.array([1e9 / 30])
    return float(np.clip(1e9 / max(float(np.median(steps)), 1.0), *_RATES))


def _cells(number: int, row: Row) -> tuple[str, ...]:
    return (
        str(number),
        "" if row.stamp is None else str(row.stamp),
        "cold" if row.cold else "warm",
        f"{row.followed:.3f}",
        f"{row.low:.3f}",
        f"{row.high:.3f}",
    )


def _text(rows: Sequence[Sequence[str]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def _read_index(path: Path) -> list[Row]:
    """The frames that are done; a last line that was cut off by a kill does not count."""
    if not path.exists():
        return []
    lines = path.read_text("utf-8", errors="replace").split("\n")[:-1]
    rows: list[Row] = []
    remedy = f"delete the folder {path.parent} and start again"
    if not lines or lines[0].split(",") != list(_COLUMNS):
        raise InputError(f"{path} is damaged in line 1; {remedy}")
    for number, cells in enumerate(csv.reader(lines[1:])):
        try:
            place, stamp, start, followed, low, high = cells
            if int(place) != number or start not in ("cold", "warm"):
                raise ValueError
            rows.append(Row(int(stamp) if stamp else None, start == "cold", float(followed), float(low), float(high)))
        except ValueError as error:
            raise InputError(f"{path} is damaged in line {number + 2}; {remedy}") from error
    return rows
