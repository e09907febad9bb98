"""How much memory this process may still take, and the errors that say it took too much.

Asked before a large computation, so that one which cannot end well is refused in a sentence instead of being killed by
the system half-way. Linux only: elsewhere nothing is known and nothing is refused.
"""

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path

from linstereo.errors import InputError

_OUT_OF_MEMORY = re.compile(
    # the last one is what oneDNN says if it has no memory for its code
    r"out of memory|not enough memory|can't allocate memory|insufficient memory|bad_alloc|could not create a primitive",
    re.I,
)


def available_memory(root: Path = Path("/"), *, enough: int | None = None) -> int | None:
    """Bytes that this process may still take; None where nothing tells.

    The smallest of: what the system has left (MemAvailable and free swap), what each memory cgroup around the process
    leaves (versions 1 and 2, file caches that can be dropped not counted), and what its address space may still grow
    (ulimit -v). Memory that the process has freed but keeps for itself is available too.

    Args:
        root: where /proc and /sys/fs/cgroup are looked for.
        enough: bytes that suffice: what the process keeps for itself, which takes milliseconds to count, is left out
            if there are as many without it.
    """
    limits = [_system_memory(root), *_cgroup_memory(root), _address_space(root)]
    known = [limit for limit in limits if limit is not None]
    if not known:
        return None
    left = max(min(known), 0)
    return left if enough is not None and left >= enough else left + _kept_by_allocator()


def within_budget(available: int | None, budget: int | None) -> int | None:
    """Bytes that may still be taken if this process is to hold at most `budget` bytes; None if nobody limits it.

    Args:
        available: what `available_memory` says.
        budget: bytes of resident memory that the process may have; None for no such limit.
    """
    if budget is None:
        return available
    left = max(budget - _resident(), 0) + _kept_by_allocator()
    return left if available is None else min(left, available)


def _resident() -> int:
    """Bytes of memory that this process holds; 0 where the system does not tell."""
    fields = _text(Path("/proc/self/statm")).split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else 0


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception of Python, numpy, OpenCV or PyTorch says that memory has run out."""
    return isinstance(error, MemoryError) or (
        isinstance(error, Exception) and not isinstance(error, OSError) and bool(_OUT_OF_MEMORY.search(str(error)))
    )


@contextlib.contextmanager
def memory_errors_told(what: str, remedy: str) -> Iterator[None]:
    """Turn running out of memory inside the context into an `InputError`: `what` does not fit; `remedy`."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise InputError(f"{what} does not fit into the memory that is there; {remedy}") from error


def _system_memory(root: Path) -> int | None:
    fields = dict(re.findall(r"^(MemAvailable|SwapFree):\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE))
    if "MemAvailable" not in fields:
        return None
    return 1024 * sum(int(kilobytes) for kilobytes in fields.values())


def _cgroup_memory(root: Path) -> Iterator[int]:
    """What the cgroup of this process and each one above it leave, for those that have a limit.

    In a container the path in /proc/self/cgroup may be that of the host, which is not visible; then only the topmost
    folder that is visible counts, which is the container's own.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top, files = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        own = top / path.strip("/")
        for folder in (own, *own.parents):
            limit, used = (_text(folder / name).strip() for name in files[:2])
            if limit.isdigit() and used.isdigit():
                cache = re.search(rf"^{files[2]} (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
                yield int(limit) - int(used) + (int(cache[1]) if cache else 0)
            if folder == top:
                break


def _address_space(root: Path) -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _text(root / "proc/self/statm").split()
    if limit == resource.RLIM_INFINITY or not pages:
        return None
    return limit - int(pages[0]) * resource.getpagesize()


class _MallocInfo(ctypes.Structure):
    """The result of glibc's mallinfo2: ten numbers of bytes and blocks."""

    _fields_ = (("before", ctypes.c_size_t * 8), ("fordblks", ctypes.c_size_t), ("keepcost", ctypes.c_size_t))


def _kept_by_allocator() -> int:
    """Bytes that the C library holds for this process and can hand out again; 0 where it does not tell."""
    if os.name != "posix":
        return 0
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):  # another C library, or glibc before 2.33
        return 0
    mallinfo.restype = _MallocInfo
    return int(mallinfo().fordblks)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
