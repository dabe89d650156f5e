"""Locks that a child process does not inherit as locked, and work that no signal handler interrupts.

with Lock():             one thread at a time, which may enter again; in a forked child nobody is inside
apart(function)          runs it in a thread of its own, and waits
with STEADY:             a fork waits until it is done
imported(function)       both, for a function that imports modules

A fork copies locks as they are, but only the thread that forks: what another thread has locked would stay so for ever.
A signal handler runs in the main thread, in the middle of what that does: a lock that must not be entered again, or a
module that is being imported, is to be in the hands of another thread, which goes on while the handler waits for it.
"""

from __future__ import annotations

import _thread
import os
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_all: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A lock that the thread which has it may enter again."""

    __slots__ = ("_lock", "__weakref__")

    def __init__(self) -> None:
        self.renew()
        _all.add(self)

    def renew(self) -> None:
        """Let nobody be inside."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()


def _renew_all() -> None:
    for each in list(_all):
        each.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


STEADY = threading.Lock()
"""Held by the thread that makes something of which half is of no use to a copy of the process: forks wait for it."""

ALSO_STEADY: list[Callable[[], Any]] = []
"""What returns further locks for which forks wait, such as those of a library, or None where there is none yet."""

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


if hasattr(os, "register_at_fork"):  # at once: what is registered during a fork would end what it has not begun
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def apart(function: Callable[[], T]) -> T:
    """Return what a function returns in a thread of its own."""
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
"""The threads in which `imported` is at work; a module that is imported may ask for another one."""


def imported(load: Callable[[], T]) -> T:
    """Return what a function returns that imports modules, of which a signal handler may ask for the same."""

    def steadily() -> T:
        with STEADY:
            _importers.add(_thread.get_ident())
            try:
                return load()
            finally:
                _importers.discard(_thread.get_ident())

    return load() if _thread.get_ident() in _importers else apart(steadily)
