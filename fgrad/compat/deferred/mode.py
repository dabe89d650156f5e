"""Whether a call happens now or becomes a node of a graph.

A `with graph.as_default()` block defers, a running session does not; where neither is open, the mode
of the namespace decides through which the call came: `compat.tensorflow` is eager at first, and
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
    """What a namespace does where nothing else decides."""

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
    """The present thread's mode, and its open blocks: a graph defers, None runs at once."""

    def __init__(self) -> None:
        self.mode = TENSORFLOW
        self.blocks: list[Any] = []
        self.sessions: list[Any] = []


_here = _Here()


def current() -> Mode:
    """Return the mode of the namespace through which the present call came."""
    return _here.mode


def is_deferring() -> bool:
    """Return whether calls become nodes of a graph."""
    return _here.blocks[-1] is not None if _here.blocks else not _here.mode.eager


def is_running() -> bool:
    """Return whether a session evaluates the present call."""
    return bool(_here.blocks) and _here.blocks[-1] is None


def open_graph() -> Any:
    """Return the graph whose block is innermost, or None."""
    return next((block for block in reversed(_here.blocks) if block is not None), None)


@contextlib.contextmanager
def block(graph: Any) -> Iterator[Any]:
    """Return a context in which calls become nodes of `graph`, or happen at once if it is None."""
    _here.blocks.append(graph)
    try:
        yield graph
    finally:
        _here.blocks.pop()


def open_session() -> Any:
    """Return the session whose block is innermost, or None."""
    return _here.sessions[-1] if _here.sessions else None


@contextlib.contextmanager
def session_block(session: Any) -> Iterator[Any]:
    """Return a context in which tensors are evaluated in `session` where none is named."""
    _here.sessions.append(session)
    try:
        yield session
    finally:
        _here.sessions.remove(session)
