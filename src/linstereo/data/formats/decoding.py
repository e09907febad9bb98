"""OpenCV's image codecs behind errors that name the file."""

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from linstereo.errors import InputError
from linstereo.files import atomic_path
from linstereo.memory_limits import is_out_of_memory


def decode(data: bytes, *, path: str | os.PathLike[str]) -> npt.NDArray[Any]:
    """Decode a picture in memory, read from `path`, whose size was checked before.

    Returns [H, W] or [H, W, C] as stored, channels in OpenCV's order (BGR, BGRA). A rotation written in the
    EXIF data is not applied: calibration and ground truth belong to the pixels as stored, and turning only
    one image of a pair would ruin its rectification.
    """
    with quiet_opencv():
        try:
            decoded = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), cv2.IMREAD_UNCHANGED)
        except (cv2.error, MemoryError) as error:
            if is_out_of_memory(error):
                raise InputError(f"{path} does not fit into memory once it is decoded; scale it down") from error
            raise _damaged(path) from error
    if decoded is None or decoded.size == 0:
        raise _damaged(path)
    return np.asarray(decoded)


def write_encoded(
    path: str | os.PathLike[str], array: npt.NDArray[Any], *, suffix: str, options: tuple[int, ...] = ()
) -> None:
    """Encode `array` (uint8 or uint16; grey, BGR or BGRA) in the format of `suffix` and write it; atomic."""
    size = f"{array.shape[1]} x {array.shape[0]}"
    refusal = f"cannot write {path}: {suffix} does not take this picture of {size} pixels; choose .png"
    with quiet_opencv():
        try:
            done, encoded = cv2.imencode(suffix, array, options)
        except cv2.error as error:
            raise InputError(refusal) from error
    if not done:
        raise InputError(refusal)
    with atomic_path(path) as temporary:
        temporary.write_bytes(encoded.tobytes())


def incomplete(path: str | os.PathLike[str], reason: str) -> InputError:
    """The error about a picture whose file is cut off or contradicts itself."""
    return InputError(f"{path} is not a complete picture ({reason}); copy or download it again")


def _damaged(path: str | os.PathLike[str]) -> InputError:
    return InputError(f"{path} cannot be decoded, it is damaged or of an unknown kind; copy or download it again")


class _Quiet:
    """How many threads want OpenCV's log to be silent, and the level to go back to after the last of them."""

    lock = threading.Lock()
    users = 0
    level = 0

    @classmethod
    def forget_threads(cls) -> None:
        """In a forked process only the forking thread lives on, and it does not decode at that moment."""
        cls.lock = threading.Lock()
        if cls.users:
            cls.users = 0
            cv2.utils.logging.setLogLevel(cls.level)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Quiet.forget_threads)


@contextlib.contextmanager
def quiet_opencv() -> Iterator[None]:
    """Keep OpenCV from logging what is raised as an exception anyway; safe with several threads."""
    with _Quiet.lock:
        if _Quiet.users == 0:
            _Quiet.level = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
        _Quiet.users += 1
    try:
        yield
    finally:
        with _Quiet.lock:
            _Quiet.users -= 1
            if _Quiet.users == 0:
                cv2.utils.logging.setLogLevel(_Quiet.level)
