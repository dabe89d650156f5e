"""The heap of the C library, kept from giving memory back to the system between one pass and the next.

A pass back frees what a record has held, many arrays at once. glibc gives what is free at the top of its heap back when
that is twice as large as the largest array that was freed so far, and the next pass gets it again page by page. To wait
for the system takes several times as long as to compute with arrays of some 100 KB.

What counts is the largest array that came from the system by itself and was freed, up to 32 MiB: the limit is twice its
size from then on, here as in every program that has used a large array. Other C libraries have no such limit.

Source: `man 3 mallopt`, M_MMAP_THRESHOLD, https://man7.org/linux/man-pages/man3/mallopt.3.html
"""

from __future__ import annotations

import contextlib
import sys

import numpy as np

_LARGEST = (32 << 20) - 8192
"""Bytes of the largest array that counts, with what the C library needs beside it."""


def keep_freed_memory() -> None:
    """Let up to 64 MiB of freed memory stay with the process, whose next arrays lie there; takes some microseconds."""
    if sys.platform == "linux":
        with contextlib.suppress(MemoryError):  # a process that may not have so much has none to keep
            np.empty(_LARGEST, np.uint8)  # freed at once: not one of its pages is ever touched
