"""Output folders: a command that is refused leaves them as they were."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from linstereo.errors import InputError
from linstereo.files import no_file_name


@contextlib.contextmanager
def output_folder(folder: str | os.PathLike[str], *, notes: Sequence[str] = ()) -> Iterator[Path]:
    """Make `folder`, check that files can be written into it, and yield it; undo that if the block is refused.

    notes: names in `folder` of files and folders that are no result by themselves, such as the settings of a run. If
        nothing else has been added when the block ends with an exception, those that were not there before are removed,
        and so are new folders without a file in them, so that the corrected command finds what this one found.
    """
    path = Path(folder)
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


class _Possible(Exception):
    """Ends a trial."""


def _names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()} if path.is_dir() else set()


def _undo(path: Path, added: set[str], *, notes: Sequence[str]) -> None:
    results = [name for name in added if name not in notes and _has_files(path / name)]
    if results:
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
