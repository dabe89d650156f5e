"""Tuning of the C library's heap: freed memory stays with the process between passes.

A backward pass frees many arrays at once: the residuals of a record. glibc returns free memory at the top of its heap
to the system when it exceeds twice the size of the largest array freed so far, and the next pass has to request it
again, page by page. Waiting for the system takes several times as long as computing with arrays of some 100 KB.

The limit follows the largest array that was mapped separately and then freed, up to 32 MiB: it is twice that size from
then on, here as in every program that has used a large array. Other C libraries have no such limit.

Source: `man 3 mallopt`, M_MMAP_THRESHOLD, https://man7.org/linux/man-pages/man3/mallopt.3.html
"""

from __future__ import annotations

import contextlib
import sys

import numpy as np

_LARGEST = (32 << 20) - 8192
"""Bytes of the largest array that raises the limit, less the overhead of the C library."""


def keep_freed_memory() -> None:
    """Let up to 64 MiB of freed memory stay with the process for reuse; takes some microseconds."""
    if sys.platform == "linux":
        with contextlib.suppress(MemoryError):  # a process with less memory needs no such limit
            np.empty(_LARGEST, np.uint8)  # freed at once: its pages are never touched
