"""Reading a file whole, with clear errors, and writing files that are either whole or not there at all."""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from linstereo.errors import InputError

MAX_PIXELS = 2**27
"""Largest picture decoded from a compressed file, whose header alone decides how much is allocated."""
MAX_SIDE = 2**14
"""Largest height and width, px, of pictures that are rendered or planned for."""


def read_file(path: str | os.PathLike[str]) -> bytes:
    """The content of a regular, readable, non-empty file; anything else is an `InputError` naming it."""
    file = Path(path)
    with readable(file):
        data = file.read_bytes()
    if not data:
        raise InputError(f"{file} is empty; copy or download it again")
    return data


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
        if target.exists() and not target.is_file():
            raise OSError(None, "it is not a regular file")
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        usual = stat.S_IMODE(temporary.stat().st_mode)
    except OSError as error:
        raise _cannot_write(target, error) from error
    except ValueError as error:
        raise no_file_name(path, error) from error
    try:
        yield temporary
        temporary.chmod(usual)
        temporary.replace(target)
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _cannot_write(target: Path, error: OSError) -> InputError:
    reason = error.strerror or str(error)
    return InputError(f"cannot write {target}: {reason}; choose a file name in a folder that exists and is writable")


def no_file_name(path: str | os.PathLike[str], error: ValueError) -> InputError:
    """`error` itself if it is an InputError, else one about a path that no file can have (a null byte in it)."""
    return error if isinstance(error, InputError) else InputError(f"{path!r} cannot be a file name: {error}")
