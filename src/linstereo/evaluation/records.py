"""Measurements on disk, written image by image, so that an interrupted run resumes where it was.

    <out>/records/<benchmark>/<fingerprint>/settings.json      under which settings the records were made
    <out>/records/<benchmark>/<fingerprint>/process-0.jsonl    one line for each image that process 0 measured

The fingerprint is that of the settings: other settings have other records, and never see these. A file is only ever
appended to, a whole line at a time. A line that was cut short when the process was killed is no JSON, is skipped, and
its image measured again.
"""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linstereo.errors import InputError
from linstereo.evaluation.confidence_record import ConfidenceRecord
from linstereo.evaluation.depth_prior_cost import PriorRecord
from linstereo.evaluation.scores import ImageScore
from linstereo.files import make_parent, read_json, write_json
from linstereo.runs import SETTINGS_FILE, differences

FORMAT = 3

Stamp = tuple[tuple[int, int], ...]
"""Size in bytes and time of last change in ns of each file a measurement depends on."""


@dataclass(frozen=True)
class Record:
    """One measured image.

    score: what was measured; stamp: the state of the files it came from; seconds: how long the prediction took.
    prior: what the depth prior did; None for a method without it.
    confidence: how good the confidence was; None for a method without it.
    unreadable: why the image could not be read, which its score, without any region, does not say; None if it could.
    """

    score: ImageScore
    stamp: Stamp
    seconds: float | None
    prior: PriorRecord | None = None
    confidence: ConfidenceRecord | None = None
    unreadable: str | None = None

    def to_line(self) -> bytes:
        """One line of JSON, and a newline on both sides: a line that was cut short before it stays alone."""
        content = {
            "score": self.score.to_json(),
            "stamp": self.stamp,
            "seconds": self.seconds,
            "prior": None if self.prior is None else self.prior.to_json(),
            "confidence": None if self.confidence is None else self.confidence.to_json(),
            "unreadable": self.unreadable,
        }
        return f"\n{json.dumps(content, allow_nan=False)}\n".encode()

    @classmethod
    def from_line(cls, line: bytes) -> "Record | None":
        """Read one line; None if it is damaged."""
        try:
            content = json.loads(line)
            stamp = tuple((int(size), int(time)) for size, time in content["stamp"])
            seconds, prior, unreadable = content["seconds"], content["prior"], content["unreadable"]
            confidence = content["confidence"]
            return cls(
                ImageScore.from_json(content["score"]),
                stamp,
                None if seconds is None else float(seconds),
                None if prior is None else PriorRecord.from_json(prior),
                None if confidence is None else ConfidenceRecord.from_json(confidence),
                None if unreadable is None else str(unreadable),
            )
        except (ValueError, KeyError, TypeError, RecursionError):  # InputError is a ValueError
            return None


class RecordFolder:
    """The records of one benchmark under one set of settings.

    Args:
        base: <out>/records/<benchmark>.
        settings: what decides the scores, as plain JSON values.
    """

    def __init__(self, base: Path, settings: Mapping[str, Any]) -> None:
        self.base = base
        self.settings = settings
        self.folder = base / fingerprint(settings)

    def discard(self) -> None:
        """Delete the records under these settings."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def append(self, record: Record, *, process: int) -> None:
        """Add one record to the file of the process with this number; the first one makes the folder."""
        path, settings = self.folder / f"process-{process}.jsonl", self.folder / SETTINGS_FILE
        if not settings.exists():
            write_json(make_parent(settings), self.settings, indent=2)
        try:
            with path.open("ab", buffering=0) as stream:
                stream.write(record.to_line())
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}; make room or choose another --out") from error

    def read(self) -> tuple[list[Record], int]:
        """All records of all processes, and the number of damaged lines."""
        records: list[Record] = []
        damaged = 0
        for path in sorted(self.folder.glob("process-*.jsonl")):
            for line in path.read_bytes().splitlines():
                if line.strip():
                    record = Record.from_line(line)
                    damaged += record is None
                    records += [record] if record is not None else []
        return records, damaged

    def changes(self) -> str | None:
        """What differs from the newest other settings under which there are records; None if there are none."""
        others = [path for path in self.base.glob(f"*/{SETTINGS_FILE}") if path.parent != self.folder]
        for path in sorted(others, key=lambda other: other.stat().st_mtime, reverse=True):
            with contextlib.suppress(InputError):
                return differences(read_json(path), self.settings)
        return None


def fingerprint(settings: Mapping[str, Any]) -> str:
    """A short name that two settings share only if they are equal."""
    text = json.dumps(settings, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def names_digest(names: Iterable[str]) -> str:
    """SHA-256 of a list of names, in its order."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def stamp_files(paths: Iterable[Path]) -> Stamp:
    """The state of files; a file that cannot be looked at stands as (-1, -1), and its reader will say why."""
    return tuple(_stamp(path) for path in paths)


def usable(records: Iterable[Record], stamps: Mapping[str, Stamp]) -> tuple[dict[str, Record], Sequence[str]]:
    """The records whose files are still as they were, by name, and the names of those whose files changed.

    stamps: the state of the files of each image now. Records of other images are left out. Two different scores of one
    image under the same state of its files are an `InputError`.
    """
    known: dict[str, Record] = {}
    stale: set[str] = set()
    for record in records:
        name = record.score.name
        if name in stamps:
            if record.stamp != stamps[name]:
                stale.add(name)
            elif known.setdefault(name, record).score != record.score:
                raise InputError(
                    f"there are two different records of {name}, as if two runs wrote to one folder; run with --again"
                )
    return known, sorted(stale - known.keys())


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (-1, -1)
    return status.st_size, status.st_mtime_ns
