"""Measuring a method on benchmarks: image by image, resumable, over any number of processes.

A run ends in the same bits however it went: alone or shared among processes, in one go or killed and started again.
Each image is measured on its own and recorded (`linstereo.evaluation.records`); the result is made from the records.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from linstereo import __version__
from linstereo.data.datasets.catalogue import open_dataset
from linstereo.data.datasets.official_counts import OfficialCount, official_count
from linstereo.data.sample import ListedDataset, StereoDataset, StereoSample
from linstereo.errors import InputError
from linstereo.evaluation.confidence_record import ConfidenceRecord, record_confidence
from linstereo.evaluation.depth_prior_cost import PriorRecord, end_point_error
from linstereo.evaluation.methods import Method, ReportingMethod
from linstereo.evaluation.pictures import Gallery
from linstereo.evaluation.protocol import BenchmarkProtocol, get_protocol, score_sample
from linstereo.evaluation.records import FORMAT, Record, RecordFolder, Stamp, names_digest, stamp_files, usable
from linstereo.evaluation.scores import ImageScore, RegionResult, aggregate, merge_scores
from linstereo.processes import Worker
from linstereo.runs import RunFolder

if TYPE_CHECKING:
    from linstereo.model.depth_prior import DepthPriorReport

Say = Callable[[str], None]
"""Takes one sentence meant for the user."""

ProgressBar = Callable[[str, int], AbstractContextManager[Callable[[str], None]]]
"""Given a title and the number of images, shows them as they are done; what it yields is told each image's name."""


@dataclass(frozen=True)
class Benchmark:
    """A protocol with the data to apply it to.

    key: its name, with the split if that is not the protocol's own; usable as a folder name.
    protocol: the rules; its split is the one that is used.
    names: all samples of the split; only the first `count` are measured, and of these none of `unreadable`.
    own_split: whether the split is the one the protocol prescribes, on which published results are.
    official: what the split officially holds; None if that is not fixed or not published.
    left_out: sentences about pairs on disk that cannot be used.
    """

    key: str
    protocol: BenchmarkProtocol
    dataset: StereoDataset
    names: tuple[str, ...]
    count: int
    own_split: bool
    official: OfficialCount | None = None
    left_out: tuple[str, ...] = ()
    unreadable: frozenset[str] = frozenset()

    @property
    def measured(self) -> int:
        """How many samples are measured."""
        return len(self.chosen)

    @property
    def complete(self) -> bool | None:
        """Whether exactly the official number of pairs is measured; None if there is no such number."""
        return None if self.official is None else self.measured == self.official.count

    @property
    def part(self) -> str:
        """How much of the benchmark is measured, such as "3 of 15 scenes"; empty if all of it is, or nobody knows."""
        return "" if self.official is None or self.complete else self.official.coverage(self.measured)

    @property
    def title(self) -> str:
        """Heading of reports, which says so if only a part is measured."""
        return f"{self.protocol.title}, {self.part}" if self.part else self.protocol.title

    @property
    def chosen(self) -> tuple[str, ...]:
        """The names of the samples that are measured."""
        return tuple(name for name in self.names[: self.count] if name not in self.unreadable)


@dataclass(frozen=True)
class BenchmarkResult:
    """What was measured on one benchmark.

    scores: of every image, in dataset order.
    regions: both averages, for each region of the protocol.
    seconds: how long each prediction took; empty if the method is not timed.
    pictures: of the worst images, worst first, as (index of the image, files by `linstereo.visualize.PARTS`).
    prior: what the depth prior did, by image; empty for a method without it.
    confidence: how good the confidence was, by image; empty for a method without it.
    """

    benchmark: Benchmark
    scores: tuple[ImageScore, ...]
    regions: Mapping[str, RegionResult]
    seconds: Mapping[str, float]
    pictures: tuple[tuple[int, Mapping[str, Path]], ...]
    prior: Mapping[str, PriorRecord] = dataclasses.field(default_factory=dict)
    confidence: Mapping[str, ConfidenceRecord] = dataclasses.field(default_factory=dict)

    def headline(self, region: str, metric: str) -> float | None:
        """The figure by which the benchmark is quoted; None if there is nothing to average."""
        return self.regions[region].mean(metric, self.benchmark.protocol.average_of(metric))


def open_benchmark(
    name: str, root: str | os.PathLike[str], *, split: str | None = None, limit: int | None = None
) -> Benchmark:
    """Open the benchmark `name` below the folder `root`.

    split: of the dataset, instead of the protocol's own; limit: measure only that many images, the first ones.
    """
    protocol = get_protocol(name)
    own_split = split is None or split == protocol.split
    if not own_split:
        protocol = dataclasses.replace(
            protocol,
            split=split,
            title=f"{protocol.title}, split {split}",
            pairs=f"another split than the benchmark's own, which is {protocol.split or 'all pairs'}",
            resolution="the images of that split",
        )
    if limit is not None and limit < 1:
        raise InputError(f"the limit is {limit} images; measure at least 1")
    dataset = open_dataset(protocol.dataset, root, protocol.split)
    names = tuple(dataset.sample_name(index) for index in range(len(dataset)))
    return Benchmark(
        key=name if own_split else f"{name}@{split}".replace("/", "-"),
        protocol=protocol,
        dataset=dataset,
        names=names,
        count=len(names) if limit is None else min(limit, len(names)),
        own_split=own_split,
        official=official_count(dataset.name),
        left_out=dataset.left_out if isinstance(dataset, ListedDataset) else (),
    )


class Run:
    """The measurement of one benchmark with one method.

    Args:
        benchmark: what to measure on.
        method: what to measure.
        out: folder of the results; records go into its folder `records`.
        worker: which share of the images this process takes.
        pictures: draw the pictures of that many images, the worst ones.
    """

    def __init__(
        self, benchmark: Benchmark, method: Method, *, out: Path, worker: Worker | None = None, pictures: int = 0
    ) -> None:
        self.benchmark = benchmark
        self._method = method.for_benchmark(benchmark.key, benchmark.chosen)
        self._worker = worker or Worker()
        self._records = RecordFolder(
            out / "records" / benchmark.key,
            {
                "format": FORMAT,
                "linstereo": __version__,
                "method": dict(method.settings),
                "protocol": dataclasses.asdict(benchmark.protocol),
                "names_sha256": names_digest(benchmark.names),
            },
        )
        self._gallery = Gallery(self._records.folder / "pictures", protocol=benchmark.protocol, keep=pictures)
        self._stamps: dict[str, Stamp] = {}

    @property
    def share(self) -> list[int]:
        """Indices of the images this process measures."""
        return [index for index in range(self.benchmark.count) if self._worker.owns(index)]

    def start(self, *, again: bool, say: Say) -> None:
        """Say which records are used and which are not; by the leading process, before `measure`.

        again: delete the records under the same settings instead of using them.
        """
        key = self.benchmark.key
        if again:
            self._records.discard()
        changes = None if self._records.folder.exists() else self._records.changes()
        if changes is not None:
            say(f"{key}: the records of an earlier run have other settings ({changes}); they are kept, but not used")
        records, damaged = self._records.read()
        known, stale = usable(records, self._current_stamps())
        if damaged:
            say(f"{key}: {damaged} damaged lines in the records are skipped, their images are measured again")
        if stale:
            say(f"{key}: the files of {len(stale)} recorded images have changed, so they are measured again")
        if known:
            say(f"{key}: {len(known)} of {self.benchmark.count} images are taken from the records of an earlier run")

    def measure(self, *, on_image: Callable[[str], None]) -> None:
        """Measure what this process has to and is not recorded yet; `on_image` is told each name when it is done."""
        known, _ = usable(self._records.read()[0], self._current_stamps())
        for index in self.share:
            name = self.benchmark.names[index]
            if name in known and known[name].unreadable is None:
                self._gallery.remember(index, known[name].score)
        for index in self.share:
            name = self.benchmark.names[index]
            if name not in known:
                self._records.append(self._measure(index), process=self._worker.rank)
            on_image(name)

    def result(self) -> BenchmarkResult:
        """Put the records of all processes together; draws pictures that are still missing."""
        benchmark = self.benchmark
        known, _ = usable(self._records.read()[0], self._current_stamps())
        missing = [name for name in benchmark.chosen if name not in known]
        if missing:
            raise InputError(
                f"{benchmark.key}: {len(missing)} images were not measured, such as {missing[0]}; its files may have "
                "changed meanwhile, run the same command again"
            )
        benchmark = _without_unreadable(benchmark, known)
        scores = merge_scores([[known[name].score for name in benchmark.chosen]], order=benchmark.chosen)
        places = {name: index for index, name in enumerate(benchmark.names)}
        worst = self._gallery.worst((places[score.name], score) for score in scores)
        for index in worst:
            if not self._gallery.has(index):
                sample = benchmark.dataset[index]
                self._gallery.draw(index, sample, self._method.predict(sample))
        return BenchmarkResult(
            benchmark=benchmark,
            scores=scores,
            regions=aggregate(scores, regions=benchmark.protocol.regions),
            seconds={name: seconds for name in benchmark.chosen if (seconds := known[name].seconds) is not None},
            pictures=tuple((index, self._gallery.files(index)) for index in worst),
            prior={name: prior for name in benchmark.chosen if (prior := known[name].prior) is not None},
            confidence={name: part for name in benchmark.chosen if (part := known[name].confidence) is not None},
        )

    def _measure(self, index: int) -> Record:
        name = self.benchmark.names[index]
        try:
            sample = self.benchmark.dataset[index]
        except InputError as error:
            if not isinstance(self.benchmark.dataset, ListedDataset) or not self.benchmark.dataset.tolerant:
                raise
            return Record(ImageScore(name, {}), self._current_stamps()[name], None, unreadable=str(error))
        method, report, sure = self._method, None, None
        begin = time.perf_counter()
        if isinstance(method, ReportingMethod):
            full = method.predict_fully(sample)
            prediction, report, sure = full.disparity, full.prior, full.confidence
        else:
            prediction = method.predict(sample)
        seconds = time.perf_counter() - begin
        score = score_sample(self.benchmark.protocol, sample, prediction)
        self._gallery.consider(index, score, sample, prediction)
        prior = None
        if report is not None and isinstance(method, ReportingMethod):
            prior = self._prior_record(method, sample, prediction, report)
        confidence = None if sure is None else record_confidence(self.benchmark.protocol, sample, prediction, sure)
        return Record(score, self._current_stamps()[name], seconds if method.timed else None, prior, confidence)

    def _prior_record(
        self, method: ReportingMethod, sample: StereoSample, prediction: NDArray[np.float32], report: "DepthPriorReport"
    ) -> PriorRecord:
        """What the depth prior did for one pair; a pair that fell back did start from zero."""
        protocol = self.benchmark.protocol
        epe = end_point_error(protocol, sample, prediction)
        if not method.zero_start or report.fell_back:
            return PriorRecord.of(report, epe=epe, zero_start_epe=epe if method.zero_start else None)
        from_zero = method.predict_fully(sample, use_prior=False).disparity
        return PriorRecord.of(report, epe=epe, zero_start_epe=end_point_error(protocol, sample, from_zero))

    def _current_stamps(self) -> dict[str, Stamp]:
        """The state of the files behind each image, taken once."""
        if not self._stamps:
            for index, name in enumerate(self.benchmark.chosen):
                paths = _dataset_files(self.benchmark.dataset, index) + self._method.sources(name)
                self._stamps[name] = stamp_files(paths)
        return self._stamps


def evaluate(
    benchmarks: Sequence[Benchmark],
    method: Method,
    *,
    out: Path,
    worker: Worker,
    pictures: int,
    again: bool,
    say: Say,
    progress: ProgressBar,
) -> list[BenchmarkResult] | None:
    """Measure a method on benchmarks; every process of a shared run calls this, and only the leading one gets results.

    out, pictures: as for `Run`; again: do not use records of earlier runs; say: takes sentences meant for the user;
    progress: shows how far a benchmark is.
    """
    runs = [Run(benchmark, method, out=out, worker=worker, pictures=pictures) for benchmark in benchmarks]
    with RunFolder.open(out, leads=worker.leads):
        for run in runs if worker.leads else ():
            run.start(again=again, say=say)
        worker.wait_for_all()
        for run in runs:
            with progress(run.benchmark.key, len(run.share)) as on_image:
                run.measure(on_image=on_image)
        worker.wait_for_all()
        return [run.result() for run in runs] if worker.leads else None


def _without_unreadable(benchmark: Benchmark, known: Mapping[str, Record]) -> Benchmark:
    """The benchmark without the images that could not be read; `InputError` if that is all of them."""
    reasons = {name: reason for name in benchmark.chosen if (reason := known[name].unreadable) is not None}
    if reasons and len(reasons) == len(benchmark.chosen):
        name, reason = next(iter(reasons.items()))
        raise InputError(f"{benchmark.key}: none of the images can be read, such as {name}: {reason}")
    told = tuple(f"{name} ({reason})" for name, reason in reasons.items())
    return dataclasses.replace(benchmark, unreadable=frozenset(reasons), left_out=benchmark.left_out + told)


def _dataset_files(dataset: StereoDataset, index: int) -> tuple[Path, ...]:
    if not isinstance(dataset, ListedDataset):
        return ()
    files = dataset.files[index]
    fields = (getattr(files, field.name) for field in dataclasses.fields(files))
    return tuple(value for value in fields if isinstance(value, Path))
