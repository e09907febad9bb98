"""Keeping large blocks of memory between operations on the CPU.

A feature map of a large image takes tens of megabytes. The GNU C library returns every freed block above 32 MB to the
system at once and fetches fresh, zeroed pages for the next one; at 960x1280 px that costs more than a third of a
refinement iteration. PyTorch has no cache of its own on the CPU, so the C library is told to
keep such blocks instead.
"""

import contextlib
import ctypes
import sys

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
KEEP = 1 << 30  # bytes: largest block taken from the heap, and how much free memory at its end is kept


def keep_freed_memory() -> bool:
    """Make this process reuse freed blocks of up to 1 GiB; it then gives back only free memory beyond that.

    Returns False, and changes nothing, where the C library is another one. Calling it again does no harm.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # musl and others
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, KEEP)) and bool(mallopt(M_TRIM_THRESHOLD, KEEP))


def give_back_freed_memory() -> None:
    """Return what is free between kept blocks to the system, before other sizes of blocks are needed than before.

    Blocks that do not fit into the gaps would make the process grow; fresh pages cost less than that where memory is
    short. Does nothing where the C library is another one.
    """
    if sys.platform.startswith("linux"):
        with contextlib.suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
