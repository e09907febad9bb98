"""One stereo pair with what is known about it, and what a dataset of such pairs looks like."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from linstereo.errors import InputError
from linstereo.geometry.calibration import StereoCalibration


@dataclass(frozen=True, eq=False)
class StereoSample:
    """A rectified stereo pair and its ground truth.

    `name` is unique inside its dataset and usable as a relative file name. All arrays have the height H and width W
    of the left image. A benchmark without public ground truth has None in `disparity` and `valid`.
    """

    name: str
    left: NDArray[np.uint8]
    """[H, W, 3], RGB."""
    right: NDArray[np.uint8]
    """[H, W, 3], RGB."""
    disparity: NDArray[np.float32] | None = None
    """[H, W], px of the left image, positive, 0 where unknown."""
    valid: NDArray[np.bool_] | None = None
    """[H, W], True where `disparity` (and `depth`, if given) is ground truth."""
    occluded: NDArray[np.bool_] | None = None
    """[H, W], True where ground truth is known and the point is seen by the left camera only; None: no such labels."""
    depth: NDArray[np.float32] | None = None
    """[H, W], metres, 0 where unknown; only for datasets whose ground truth is depth."""
    calibration: StereoCalibration | None = None

    def __post_init__(self) -> None:
        size = self.left.shape[:2]
        for field in ("left", "right"):
            shape = getattr(self, field).shape
            if shape != (*size, 3):
                raise InputError(
                    f"{field} image of {self.name} has shape {shape}, expected {(*size, 3)}; "
                    "both images must be RGB and of one size"
                )
        for field in ("disparity", "valid", "occluded", "depth"):
            array = getattr(self, field)
            if array is not None and array.shape != size:
                raise InputError(f"{field} of {self.name} has shape {array.shape}, but its images have {size}")
        if (self.disparity is None) != (self.valid is None):
            raise InputError(f"{self.name} needs disparity and valid together, or neither")


class StereoDataset(Protocol):
    """Stereo pairs in a fixed order, read from disk when asked for."""

    name: str

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> StereoSample: ...

    def sample_name(self, index: int) -> str:
        """Name of sample `index`, without reading its files."""
        ...


@dataclass(frozen=True, slots=True)
class PairFiles:
    """Where the files of one stereo pair are; what each file holds is the business of the dataset."""

    name: str
    left: Path
    right: Path
    disparity: Path | None = None
    depth: Path | None = None
    occlusion: Path | None = None
    calibration: Path | None = None


class ListedDataset:
    """A `StereoDataset` made of a list of files and a function that reads one entry.

    `read` must be a module-level function (or a `functools.partial` of one), so that data-loading workers can be
    started by any method.

    `left_out` are sentences about pairs that are on disk but not usable, each of which names one; empty for a dataset
    whose pairs must all be whole. `tolerant` says that an evaluation continues without a pair that cannot be read.
    """

    def __init__(
        self,
        name: str,
        files: Sequence[PairFiles],
        read: Callable[[PairFiles], StereoSample],
        *,
        left_out: Sequence[str] = (),
        tolerant: bool = False,
    ) -> None:
        self.name = name
        self.files = tuple(files)
        self.left_out = tuple(left_out)
        self.tolerant = tolerant
        self._read = read

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int, /) -> StereoSample:
        return self._read(self.files[index])

    def __iter__(self) -> Iterator[StereoSample]:
        return map(self._read, self.files)

    def sample_name(self, index: int) -> str:
        """Name of sample `index`, without reading its files."""
        return self.files[index].name


class DatasetPart:
    """Samples `start` to `stop` (left out) of a dataset, as a `StereoDataset`."""

    def __init__(self, dataset: StereoDataset, start: int, stop: int) -> None:
        self.name = dataset.name
        self._dataset = dataset
        self._range = range(start, stop)

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, index: int, /) -> StereoSample:
        return self._dataset[self._range[index]]

    def sample_name(self, index: int) -> str:
        """Name of sample `index`, without reading its files."""
        return self._dataset.sample_name(self._range[index])
