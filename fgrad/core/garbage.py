"""Python's collector of cyclic garbage, kept from going through records again and again.

A record of a million operations is some million objects, none of them garbage. The collector looks at all objects that
are new whenever there are 700 of them, and at everything now and then: a third of the time of a long record. While one
is made, it looks more seldom. What is garbage meanwhile is collected all the same, some megabytes later.

    seldom(key, trace)     from now on for whoever the key stands for, as long as the trace is there
    usual(key)             no longer for that one

There is no lock, which an interrupt could leave closed. Threads that come in between each other's steps can only let
the collector look too often.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

_SELDOM = (100_000, 50, 100)

_wanted: dict[int, weakref.ref[Any] | None] = {}
"""By key the trace, if that may be dropped without a word."""

_usual = _SELDOM


def seldom(key: int, trace: Any = None) -> None:
    """Let the collector look seldom; to say so twice for one key is to say it once."""
    global _usual
    _wanted[key] = None if trace is None else weakref.ref(trace)
    now = gc.get_threshold()
    if 0 < now[0] < _SELDOM[0]:
        _usual = now
        gc.set_threshold(*_SELDOM)


def usual(key: int) -> None:
    """Let the collector look as it did before, if nobody else wants it otherwise."""
    _wanted.pop(key, None)
    if _wanted:
        if any(trace is None or trace() is not None for trace in tuple(_wanted.values())):
            return
        _wanted.clear()
    if gc.get_threshold() == _SELDOM:  # and the user has not changed it
        gc.set_threshold(*_usual)
