"""Submissions to the test servers of KITTI, Middlebury and ETH3D, in their official formats.

===========  ========================================================================================================
kitti2012    000000_10.png to 000194_10.png in the root of the archive, uint16, 256 for each pixel of disparity
kitti2015    disp_0/000000_10.png to disp_0/000199_10.png, the same format
middlebury   trainingH/<scene>/disp0<METHOD>.pfm and time<METHOD>.txt, holding the seconds; testH likewise
eth3d        low_res_two_view/<scene>.pfm and <scene>.txt, holding the word runtime and the seconds
===========  ========================================================================================================

Sources: the readme files of the KITTI development kits of 2012 and 2015; for the names and contents of Middlebury's
files, vision.middlebury.edu/stereo/submit3/upload-format.html; for its folders and for ETH3D, the stereo development
kit of the Robust Vision Challenge (github.com/ozendelait/rvc_devkit), which packs archives for these servers.
"""

import re
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linstereo.data.datasets.catalogue import open_dataset
from linstereo.data.datasets.official_counts import official_count
from linstereo.data.formats.disparity import write_disparity
from linstereo.errors import InputError
from linstereo.evaluation.methods import Method
from linstereo.evaluation.runner import ProgressBar, Say
from linstereo.files import atomic_path, make_parent, write_file
from linstereo.runs import RunFolder

_METHOD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}")
_KITTI_SMALLEST, _KITTI_LARGEST = 1 / 256, 65535 / 256
_SETTINGS_FILE = "submission.json"
_MAX_SECONDS = 1_000_000
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class SubmissionFormat:
    """What one server wants.

    dataset, splits: what to open and submit.
    disparity_file, time_file: paths in the archive, with {name}, {last} (the last part of the sample's name) and
        {method}; time_file is None if times are not part of the archive.
    time_text: content of the time file, with {seconds}.
    prepare: turns a prediction into what may be written, or refuses it.
    """

    dataset: str
    splits: tuple[str, ...]
    disparity_file: str
    prepare: Callable[[NDArray[np.float32], str], NDArray[np.float32]]
    time_file: str | None = None
    time_text: str = "{seconds}"

    def paths(self, *, name: str, method: str) -> tuple[str, str | None]:
        """Paths in the archive of the disparity and the time of the sample `name`."""
        fields = {"name": name, "last": name.rpartition("/")[2], "method": method}
        time_file = None if self.time_file is None else self.time_file.format(**fields)
        return self.disparity_file.format(**fields), time_file


def kitti_disparity(disparity: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    """What KITTI's PNG files can hold: 0 where there is no finite disparity, else from 1/256 to 65535/256 px.

    A disparity of 0 px becomes 1/256, since 0 means "no estimate" there.
    """
    limited = np.clip(disparity, _KITTI_SMALLEST, _KITTI_LARGEST)
    known = np.isfinite(disparity)
    if not known.any():
        raise InputError(f"the prediction of {name} has no finite disparity at all; there is nothing to submit")
    return np.where(known, limited, 0).astype(np.float32)


def dense_disparity(disparity: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    """The disparity as it is, if it is known everywhere, as the dense results of Middlebury and ETH3D must be."""
    unknown = int(np.count_nonzero(~np.isfinite(disparity)))
    if unknown:
        raise InputError(f"the prediction of {name} has no finite disparity in {unknown} pixels; fill them first")
    return disparity


def _middlebury(size: str) -> SubmissionFormat:
    return SubmissionFormat(
        dataset="middlebury",
        splits=(f"training{size}", f"test{size}"),
        disparity_file="{name}/disp0{method}.pfm",
        time_file="{name}/time{method}.txt",
        prepare=dense_disparity,
    )


FORMATS: Mapping[str, SubmissionFormat] = {
    "kitti2012": SubmissionFormat(
        dataset="kitti2012", splits=("testing",), disparity_file="{last}.png", prepare=kitti_disparity
    ),
    "kitti2015": SubmissionFormat(
        dataset="kitti2015", splits=("testing",), disparity_file="disp_0/{last}.png", prepare=kitti_disparity
    ),
    "middlebury": _middlebury("H"),
    "middlebury-f": _middlebury("F"),
    "middlebury-q": _middlebury("Q"),
    "eth3d": SubmissionFormat(
        dataset="eth3d",
        splits=("training", "testing"),
        disparity_file="low_res_two_view/{last}.pfm",
        time_file="low_res_two_view/{last}.txt",
        time_text="runtime {seconds}",
        prepare=dense_disparity,
    ),
}


def write_submission(
    benchmark: str,
    root: Path,
    method: Method,
    *,
    name: str,
    out: Path,
    say: Say,
    progress: ProgressBar,
    splits: Sequence[str] | None = None,
    seconds: float | None = None,
) -> Path:
    """Predict all pairs a server asks for and pack them; returns the path of the archive, <out>/<benchmark>-<name>.zip.

    benchmark: one of `FORMATS`; root: of its dataset.
    name: of the method, letters, digits and hyphens.
    splits: of the dataset; by default all that can be submitted.
    seconds: time of one prediction, instead of measuring each; needed if the method cannot be timed.

    Files are collected in <out>/files as they come, so that an interrupted run resumes; files made with other
    settings are refused. Times are those of single predictions after one that does not count.
    """
    if benchmark not in FORMATS:
        raise InputError(f"there is no submission format for {benchmark!r}; choose among {', '.join(FORMATS)}")
    if not _METHOD_NAME.fullmatch(name):
        raise InputError(f"the method's name is {name!r}; use at most 40 letters, digits and hyphens")
    format_ = FORMATS[benchmark]
    if format_.time_file is not None and not method.timed and seconds is None:
        raise InputError(f"an archive for {benchmark} holds the time of each prediction; give it with --seconds")
    if seconds is not None and not 0 <= seconds <= _MAX_SECONDS:
        raise InputError(f"the time of a prediction is {seconds} s; give seconds, 0 to {_MAX_SECONDS:,}")
    settings = {"benchmark": benchmark, "name": name, "seconds": seconds, "method": dict(method.settings)}
    archive = out / f"{benchmark}-{name}.zip"
    with RunFolder.open(out) as run:
        run.settle(settings, file=_SETTINGS_FILE)
        archived: list[str] = []
        for split in splits or format_.splits:
            archived += _predict_split(
                format_,
                root,
                method,
                split=split,
                name=name,
                folder=out / "files",
                seconds=seconds,
                say=say,
                progress=progress,
            )
        _pack(archive, out / "files", archived)
    return archive


def _predict_split(
    format_: SubmissionFormat,
    root: Path,
    method: Method,
    *,
    split: str,
    name: str,
    folder: Path,
    seconds: float | None,
    say: Say,
    progress: ProgressBar,
) -> list[str]:
    """Write the files of one split that are not there yet; returns the paths in the archive of all of them.

    Predictions that are merely read from files are read again, since those files may have changed.
    """
    dataset = open_dataset(format_.dataset, root, split)
    names = [dataset.sample_name(index) for index in range(len(dataset))]
    official = official_count(dataset.name)
    if official is not None and official.count != len(names):
        has = f"{dataset.name} officially has {official.count} {official.unit}"
        say(f"{has}, but {len(names)} are here; the server may refuse them")
    method = method.for_benchmark(format_.dataset, names)
    warm = not method.timed or seconds is not None
    archived: list[str] = []
    with progress(split, len(names)) as on_image:
        for index, sample_name in enumerate(names):
            disparity_file, time_file = format_.paths(name=sample_name, method=name)
            files = [file for file in (disparity_file, time_file) if file is not None]
            archived += files
            if not method.timed or not all((folder / file).is_file() for file in files):
                sample = dataset[index]
                if not warm:
                    method.predict(sample)
                    warm = True
                begin = time.perf_counter()
                prediction = method.predict(sample)
                taken = time.perf_counter() - begin if seconds is None else seconds
                prepared = format_.prepare(prediction, sample_name)
                write_disparity(make_parent(folder / disparity_file), prepared)
                if time_file is not None:
                    text = format_.time_text.format(seconds=f"{taken:.6f}")
                    write_file(make_parent(folder / time_file), f"{text}\n")
            on_image(sample_name)
    return archived


def _pack(archive: Path, folder: Path, files: Sequence[str]) -> None:
    """Put files into a ZIP archive that depends on nothing but their content."""
    with atomic_path(archive) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as zipped:
        for file in sorted(files):
            zipped.writestr(zipfile.ZipInfo(file, _ZIP_DATE), (folder / file).read_bytes(), zipfile.ZIP_DEFLATED)
