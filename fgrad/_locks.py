"""Locks that are released in forked children, and work that signal handlers cannot interrupt.

with Lock():             a reentrant lock, which is released in a child that another thread forks
apart(function)          runs a function in a new thread, and waits
with STEADY:             a fork waits until the block is done
imported(function)       both, for a function that imports modules

A fork copies the state of locks, but only the thread that forks: a lock held by another thread would stay locked
forever. A signal handler runs in the main thread, in the middle of other work: a lock that must not be reentered, or a
module that is being imported, has to be held by another thread, which continues while the handler waits.
"""

from __future__ import annotations

import _thread
import itertools
import os
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_all: weakref.WeakSet[Lock] = weakref.WeakSet()
_numbers = itertools.count()


class Lock(_thread.RLock):  # type: ignore[misc]  # it may be subclassed, whatever its stub says
    """A reentrant lock; as the interpreter's own, it is released where an interrupt ends a `with` block.

    From Python 3.14 on, an interrupt may come between `__enter__` and the block, and then leaves it locked.

    Attributes:
        number: higher than those of earlier locks.
    """

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = next(_numbers)
        _all.add(self)

    def renew(self) -> None:
        """Release the lock, in a forked child, unless this thread holds it."""
        if not self._is_owned():  # type: ignore[attr-defined]  # as in `threading.Condition`
            self._at_fork_reinit()  # type: ignore[attr-defined]  # as in `threading.Event`


def _renew_all() -> None:
    for each in list(_all):
        each.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


STEADY = threading.Lock()
"""Held while a thread creates something that is useless to a copy of the process if incomplete: forks wait for it."""

ALSO_STEADY: list[Callable[[], Any]] = []
"""Functions that return further locks for which forks wait, such as those of a library, or None if none exists yet."""

_held: list[Any] = []


def _before_fork() -> None:
    STEADY.acquire()
    for find in ALSO_STEADY:
        lock = find()
        if lock is not None:
            lock.__enter__()
            _held.append(lock)


def _after_fork() -> None:
    while _held:
        _held.pop().__exit__(None, None, None)
    STEADY.release()


if hasattr(os, "register_at_fork"):  # together, so that no fork sees only one of them
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def apart(function: Callable[[], T]) -> T:
    """Return the result of a function, run in a new thread."""
    found = SimpleQueue[tuple[Any, BaseException | None]]()

    def run() -> None:
        try:
            found.put((function(), None))
        except BaseException as error:
            found.put((None, error))

    _thread.start_new_thread(run, ())
    result, error = found.get()
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


_importers: set[int] = set()
"""The threads in which `imported` runs; an imported module may import further ones."""


def imported(load: Callable[[], T]) -> T:
    """Return the result of a function that imports modules, which a signal handler may also import."""

    def steadily() -> T:
        with STEADY:
            _importers.add(_thread.get_ident())
            try:
                return load()
            finally:
                _importers.discard(_thread.get_ident())

    return load() if _thread.get_ident() in _importers else apart(steadily)
