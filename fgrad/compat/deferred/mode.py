"""The execution mode: whether a call is executed immediately or becomes a node of a graph.

Inside of `with graph.as_default()` calls are deferred, and inside of a running session they are not; otherwise the
mode of the namespace of the call decides: `compat.tensorflow` is eager at first, and
`compat.tensorflow1` is not.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass
class Mode:
    """The default mode of a namespace."""

    eager: bool

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Return a context in which this is the mode of the namespace."""
        previous, _here.mode = _here.mode, self
        try:
            yield
        finally:
            _here.mode = previous


TENSORFLOW = Mode(eager=True)
TENSORFLOW_1 = Mode(eager=False)


class _Here(threading.local):
    """The thread's mode, and its open blocks: a graph means deferred, None means immediate execution."""

    def __init__(self) -> None:
        self.mode = TENSORFLOW
        self.blocks: list[Any] = []
        self.sessions: list[Any] = []


_here = _Here()


def current() -> Mode:
    """Return the mode of the namespace of the current call."""
    return _here.mode


def is_deferring() -> bool:
    """Return whether calls become nodes of a graph."""
    return _here.blocks[-1] is not None if _here.blocks else not _here.mode.eager


def is_running() -> bool:
    """Return whether a session evaluates the current call."""
    return bool(_here.blocks) and _here.blocks[-1] is None


def open_graph() -> Any:
    """Return the graph of the innermost block, or None."""
    return next((block for block in reversed(_here.blocks) if block is not None), None)


@contextlib.contextmanager
def block(graph: object) -> Iterator[Any]:
    """Return a context in which calls become nodes of `graph`, or are executed immediately if it is None."""
    _here.blocks.append(graph)
    try:
        yield graph
    finally:
        _here.blocks.pop()


def open_session() -> Any:
    """Return the session of the innermost block, or None."""
    return _here.sessions[-1] if _here.sessions else None


@contextlib.contextmanager
def session_block(session: object) -> Iterator[Any]:
    """Return a context in which `session` is the default session."""
    _here.sessions.append(session)
    try:
        yield session
    finally:
        _here.sessions.remove(session)
