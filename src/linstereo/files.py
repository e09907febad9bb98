"""Reading a file whole, with clear errors, and writing files that are either whole or not there at all."""

import contextlib
import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from linstereo.errors import InputError

MAX_PIXELS = 2**27
"""Largest picture decoded from a compressed file, whose header alone decides how much is allocated."""
MAX_SIDE = 2**14
"""Largest height and width, px, of pictures that are rendered or planned for."""
_TEMPORARY = re.compile(r"\..+-[0-9a-f]{16}(\.\w+)?")  # names that `atomic_path` gives


def read_file(path: str | os.PathLike[str]) -> bytes:
    """The content of a regular, readable, non-empty file; anything else is an `InputError` naming it."""
    file = Path(path)
    with readable(file):
        data = file.read_bytes()
    if not data:
        raise InputError(f"{file} is empty; copy or download it again")
    return data


def read_json(
    path: str | os.PathLike[str], *, needed: Collection[str] = (), remedy: str = "correct it, or copy it again"
) -> dict[str, Any]:
    """The object that a JSON file holds.

    Args:
        path: of the file.
        needed: names that the object must have.
        remedy: what the user is told to do if the file holds anything else, which is an `InputError`.
    """
    data = read_file(path)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON: {error}; {remedy}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} does not hold a JSON object; {remedy}")
    for name in needed:
        if name not in content:
            raise InputError(f"{path} is damaged, it holds no {name!r}; {remedy}")
    return content


@contextlib.contextmanager
def readable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Check that `path` is a regular file, and turn a failure to read it in the block into an `InputError` naming it.

    Pipes and devices are refused before they are opened, because reading them could wait or go on for ever.
    """
    file = Path(path)
    try:
        mode = file.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError(f"{file} is a folder; give the path of a file")
        if not stat.S_ISREG(mode):
            raise InputError(f"{file} is not a regular file; give the path of a file on disk")
        yield
    except FileNotFoundError as error:
        raise InputError(f"{file} does not exist; check the path") from error
    except PermissionError as error:
        raise InputError(f"{file} may not be read by this user; change its permissions") from error
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}; check the path and the disk") from error
    except ValueError as error:
        raise no_file_name(path, error) from error


def check_pixel_count(*, width: int, height: int, path: str | os.PathLike[str]) -> None:
    """Refuse a picture without pixels or too large to decode; called before anything is allocated for it."""
    if width <= 0 or height <= 0:
        raise InputError(f"{path} says it is {width} x {height} pixels; the file is damaged, copy or download it again")
    if width * height > MAX_PIXELS:
        raise InputError(
            f"{path} says it is {width} x {height} pixels, more than the {MAX_PIXELS} that are read; "
            "scale it down, or copy it again if that size is wrong"
        )


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path` and rename it to `path` on success.

    The temporary name keeps the suffix of `path`, since many writers choose the format by it. On any
    exception the temporary file is removed and an existing `path` stays as it was. The folder must exist. An
    `OSError` on the way (no such folder, no permission, disk full) becomes an `InputError` naming `path`. Who may
    read the file is what is usual for new files, also after writers that make theirs private (safetensors does).
    """
    target = Path(path)
    temporary = target.with_name(f".{target.stem[:64]}-{secrets.token_hex(8)}{target.suffix}")
    try:
        usual = _make(temporary, target)
        yield temporary
        temporary.chmod(usual)
        temporary.replace(target)
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:  # also of a signal that came while the file was made
        with contextlib.suppress(OSError, ValueError):
            temporary.unlink(missing_ok=True)


def _make(temporary: Path, target: Path) -> int:
    """Make the empty file that is to become `target`; returns the permissions that are usual for new files."""
    try:
        if target.exists() and not target.is_file():
            raise OSError(None, "it is not a regular file")
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        return stat.S_IMODE(temporary.stat().st_mode)
    except ValueError as error:
        raise no_file_name(os.fspath(target), error) from error


def write_file(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write bytes, or text as UTF-8; atomic."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def write_json(path: str | os.PathLike[str], content: Any, *, indent: int | None = 1) -> None:
    """Write plain values as JSON, which has no NaN and no infinity; atomic. `indent` None puts it all on one line."""
    write_file(path, json.dumps(content, indent=indent, allow_nan=False, ensure_ascii=False) + "\n")


def make_parent(path: str | os.PathLike[str]) -> Path:
    """Make the folder of a file that is to be written, and those above it; returns the path of the file."""
    file = Path(path)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {file.parent}: {error.strerror}; choose another one") from error
    return file


def remove_temporaries(folder: Path, *, below: bool = False) -> None:
    """Remove what processes that were killed in `atomic_path` left; only safe while no other one writes there.

    below: in the folders below it too.
    """
    for base, folders, names in os.walk(folder):
        for name in filter(_TEMPORARY.fullmatch, names):
            Path(base, name).unlink(missing_ok=True)
        if not below:
            folders.clear()


@contextlib.contextmanager
def filling(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Tell a full disk in one sentence, in a block that writes into the folder of a run that can be resumed."""
    try:
        yield
    except (InputError, OSError) as error:
        reason = error if isinstance(error, OSError) else error.__cause__
        if isinstance(reason, OSError) and reason.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InputError(
                f"the disk of {folder} is full; free some space and run the same command again, it resumes where it "
                "stopped"
            ) from error
        if isinstance(error, OSError):
            raise InputError(f"cannot write into {folder}: {error.strerror}; check its permissions") from error
        raise


def _cannot_write(target: Path, error: OSError) -> InputError:
    reason = error.strerror or str(error)
    return InputError(f"cannot write {target}: {reason}; choose a file name in a folder that exists and is writable")


def no_file_name(path: str | os.PathLike[str], error: ValueError) -> InputError:
    """`error` itself if it is an InputError, else one about a path that no file can have (a null byte in it)."""
    return error if isinstance(error, InputError) else InputError(f"{path!r} cannot be a file name: {error}")
