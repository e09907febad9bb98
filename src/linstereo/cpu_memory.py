"""Keeping large blocks of memory between operations on the CPU.

A feature map of a large image takes tens of megabytes. The GNU C library returns every freed block above 32 MB to the
system at once and fetches fresh, zeroed pages for the next one; at 960x1280 px that costs more than a third of a
refinement iteration. PyTorch has no cache of its own on the CPU, so the C library is told to
keep such blocks instead.
"""

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
