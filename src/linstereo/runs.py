"""Output folders: a command that is refused leaves them as they were, one that was stopped can be resumed in them."""

import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linstereo.errors import InputError
from linstereo.files import no_file_name, read_json, remove_temporaries, write_json

SETTINGS_FILE = "settings.json"
_PART_LOCK = ".part.lock"
_PATIENCE = 5.0  # seconds for which another run may look whether a lock is free
LOCK_FILE = ".lock"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_DIFFERENCES, _LONGEST_VALUE = 4, 40  # in a message


@contextlib.contextmanager
def output_folder(folder: str | os.PathLike[str], *, notes: Sequence[str] = (), leads: bool = True) -> Iterator[Path]:
    """Make `folder`, check that files can be written into it, and yield it; undo that if the block is refused.

    notes: names in `folder` of files and folders that are no result by themselves, such as the settings of a run. If
        nothing else has been added when the block ends with an exception, those that were not there before are removed,
        and so are new folders without a file in them, so that the corrected command finds what this one found.
    leads: False for all but one of several processes that share the folder; then nothing is done.
    """
    path = Path(folder)
    if not leads:
        yield path
        return
    missing: list[Path] = []
    before: set[str] = set()
    try:
        try:
            if path.exists() and not path.is_dir():
                raise InputError(f"{path} is a file; give a folder for the results")
            missing = [part for part in (path, *path.parents) if not part.exists()]
            path.mkdir(parents=True, exist_ok=True)
            before = _names(path)
            probe = path / f".{secrets.token_hex(8)}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise InputError(f"cannot write into the folder {path}: {error.strerror}; choose another one") from error
        except ValueError as error:
            raise no_file_name(folder, error) from error
        try:
            yield path
        except BaseException:
            _undo(path, _names(path) - before, notes=notes)
            raise
    except BaseException:
        _remove_empty(missing)
        raise


def check_output_folder(folder: str | os.PathLike[str]) -> None:
    """Raise an `InputError` unless files can be written into `folder`, to be made if need be; leaves nothing there."""
    with contextlib.suppress(_Possible), output_folder(folder):
        raise _Possible


@dataclass(frozen=True)
class RunFolder:
    """An output folder that belongs to one run at a time, and in which a run that was stopped is resumed.

    path: of the folder.
    notes: names of files in it that are no result by themselves, see `output_folder`.
    part: name of the part of the work that this run does, if runs of other parts may write there at the same time.
    """

    path: Path
    notes: list[str]
    part: str | None = None

    @classmethod
    @contextlib.contextmanager
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        notes: Sequence[str] = (),
        leads: bool = True,
        part: str | None = None,
    ) -> Iterator["RunFolder"]:
        """An `output_folder` from which other runs are kept out as long as the block lasts.

        With a part, only runs of the same part and of the whole are.
        """
        known = list(notes)
        with (
            output_folder(folder, notes=known, leads=leads) as path,
            _owned(path, part) if leads else contextlib.nullcontext(),
        ):
            yield cls(path, known, part)

    def settle(
        self, settings: Mapping[str, Any], *, file: str = SETTINGS_FILE, part: str | None = None
    ) -> dict[str, Any]:
        """Store the settings of a new run; in a folder that has some, check that they are the same.

        A folder that holds something else is refused. What a killed run has written half is removed, unless other runs
        may be writing.

        Args:
            settings: plain JSON values that decide what the results are.
            file: name of the file that holds them.
            part: the name they have in the file, if it holds more than them.

        Returns:
            What the file holds.
        """
        path = self.path / file
        stored: dict[str, Any] = dict(settings) if part is None else {part: settings}
        if path.is_file():
            remedy = f"delete the folder {self.path} and start again"
            stored = read_json(path, needed=() if part is None else [part], remedy=remedy)
            check_settings(self.path, stored if part is None else stored[part], settings)
        elif any(not name.startswith(".") for name in _names(self.path)):
            raise InputError(f"{self.path} is not empty and holds no {file}; choose a new folder for the results")
        else:
            self.notes.append(file)
            write_json(path, stored, indent=2)
        if self.part is None:
            remove_temporaries(self.path, below=True)
        return stored


def check_settings(folder: Path, before: object, now: Mapping[str, Any]) -> None:
    """Refuse to resume the run in `folder` with settings other than those of `before`."""
    changes = differences(before if isinstance(before, Mapping) else {}, now)
    if changes:
        raise InputError(
            f"{folder} was started with other settings ({changes}); use the same settings, or another folder"
        )


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What differs between two settings of plain JSON values, for a message; empty if nothing does."""
    found = list(_differences(*(json.loads(json.dumps(settings)) for settings in (before, now))))
    more = [f"and {len(found) - _MOST_DIFFERENCES} more"] if len(found) > _MOST_DIFFERENCES else []
    return "; ".join(found[:_MOST_DIFFERENCES] + more)


def _differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key in dict.fromkeys([*before, *now]):
        name, old, new = f"{prefix}{key}", before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{name}.")
        elif old != new and all(isinstance(value, str) and _DIGEST.fullmatch(value) for value in (old, new)):
            yield f"the content of {name} has changed"
        elif old != new:
            yield f"{name} was {_shown(old)}, is {_shown(new)}"


def _shown(value: Any) -> str:
    text = "unset" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


@contextlib.contextmanager
def _owned(folder: Path, part: str | None) -> Iterator[None]:
    """Keep runs of the same work out of the folder, see `RunFolder.open`."""
    whole = folder / LOCK_FILE
    with _locked(whole if part is None else folder / f".{part}{_PART_LOCK}"):
        for other in folder.glob(f".*{_PART_LOCK}") if part is None else [whole]:
            with _locked(other, patience=_PATIENCE):
                pass
        yield


@contextlib.contextmanager
def _locked(file: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock that a file stands for; it ends with this process, whatever ends it."""
    from filelock import FileLock, Timeout  # here, because it takes a while to load

    lock = FileLock(file)
    try:
        lock.acquire(timeout=patience)
    except Timeout as error:
        raise InputError(f"another run is writing to {file.parent}; wait for it, or choose another folder") from error
    except OSError as error:
        raise InputError(f"cannot lock the folder {file.parent}: {error.strerror}; choose another one") from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            file.unlink()  # still locked: nobody else can hold the file of this name
        lock.release()


class _Possible(Exception):
    """Ends a trial."""


def _names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()} if path.is_dir() else set()


def _undo(path: Path, added: set[str], *, notes: Sequence[str]) -> None:
    results = [name for name in added if name not in notes and _has_files(path / name)]
    if results or (path / LOCK_FILE).exists():  # a lock here is that of another run, whose notes must stay
        return
    for name in added:
        if (path / name).is_dir():
            shutil.rmtree(path / name, ignore_errors=True)
        else:
            (path / name).unlink(missing_ok=True)


def _has_files(path: Path) -> bool:
    return not path.is_dir() or any(files for _, _, files in os.walk(path))


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError, ValueError):
            folder.rmdir()
