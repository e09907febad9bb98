"""The one folder in which the server keeps files of its clients: private, and gone with the server."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from linstereo.errors import InputError

PREFIX = "linstereo-serve-"
_LOCK = "in-use.lock"


@contextlib.contextmanager
def private_folder(parent: Path | None = None) -> Iterator[Path]:
    """A new folder that only this user may enter, removed at the end of the block with all that is in it.

    Folders of servers that were killed before they could do so are removed first. A lock, which the operating system
    drops when a process ends however it ends, tells them from those of servers that still run.

    Args:
        parent: where to make it; by default where temporary files belong.
    """
    place = Path(tempfile.gettempdir()) if parent is None else parent
    sweep(place)
    try:
        new = Path(tempfile.mkdtemp(prefix=f"new-{PREFIX}", dir=place))  # mode 0700
    except OSError as error:
        raise InputError(f"cannot make a folder in {place}: {error.strerror}; set TMPDIR to another one") from error
    with FileLock(new / _LOCK, mode=0o600):
        folder = new.rename(place / new.name.removeprefix("new-"))  # locked before a sweep can find it
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def sweep(parent: Path) -> None:
    """Remove the folders that servers of this user left behind when they were killed."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, Timeout):
            if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.getuid():
                continue
            with FileLock(folder / _LOCK, timeout=0):
                shutil.rmtree(folder, ignore_errors=True)
