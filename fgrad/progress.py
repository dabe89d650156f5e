"""Progress of loops: a bar by `tqdm` if it is installed, otherwise a line of text every few seconds.

    for epoch in track(range(40), "training"):      shows the progress of the loop
        ...
    with track(batches) as bar:                     with a note next to the bar
        for batch in bar:
            bar.note(f"loss {loss:.4f}")

tqdm is optional: `pip install tqdm`.
"""

from __future__ import annotations

import importlib
import operator
import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

__all__ = ["Track", "track"]

__dir__ = __all__.copy

T = TypeVar("T")

_SECONDS_BETWEEN_LINES = 5.0


class _Lines:
    """Replacement for tqdm: writes a line when the loop ends, and before that every few seconds."""

    def __init__(self, total: int | None, description: str) -> None:
        self._total, self._description = total, description or "progress"
        self._done, self._note, self._written, self._last = 0, "", -1, time.monotonic()

    def update(self) -> None:
        self._done += 1
        if time.monotonic() - self._last >= _SECONDS_BETWEEN_LINES:
            self._write()

    def set_postfix_str(self, text: str, refresh: bool) -> None:
        self._note = text

    def close(self) -> None:
        if self._written != self._done:
            self._write()

    def _write(self) -> None:
        self._written, self._last = self._done, time.monotonic()
        total = "" if self._total is None else f" of {self._total}"
        note = f", {self._note}" if self._note else ""
        print(f"{self._description}: {self._done}{total}{note}", file=sys.stderr)


class Track(Generic[T]):
    """An iterable that shows its progress; made by `track`.

    Args:
        steps: the iterable.
        description: a short description.
        show: whether to show the progress.

    Example:
        >>> with Track("abc", "letters", show=False) as bar:
        ...     for letter in bar:
        ...         bar.note(f"at {letter}")
        >>> letter
        'c'
    """

    def __init__(self, steps: Iterable[T], description: str, show: bool) -> None:
        self._steps, self._description, self._show = steps, description, show
        self._bar: Any = None

    def __iter__(self) -> Iterator[T]:
        self.close()
        if self._show:
            self._bar = _bar(operator.length_hint(self._steps) or None, self._description)
        try:
            for step in self._steps:
                yield step
                if self._bar is not None:
                    self._bar.update()
        finally:
            self.close()

    def note(self, text: str) -> None:
        """Show a short text next to the bar, such as the loss."""
        if self._bar is not None:
            self._bar.set_postfix_str(text, refresh=False)  # shown at the next update

    def close(self) -> None:
        """Close the bar; called at the end of the loop, or of the `with` block."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _bar(total: int | None, description: str) -> Any:
    try:
        tqdm = importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return _Lines(total, description)
    return tqdm(total=total, desc=description or None)


def track(steps: Iterable[T], description: str = "", show: bool = True) -> Track[T]:
    """Return an iterable over `steps` that shows the progress of a loop on stderr.

    Args:
        steps: the iterable; the bar shows the total if its length is known.
        description: the text before the bar.
        show: False disables the output.

    Returns:
        A `Track`: an iterable, with `note(text)` for a text next to the bar. As a context manager it closes the bar
        also if the loop is left by an exception.

    Example:
        >>> with track(range(3), "summing", show=False) as bar:
        ...     total = 0
        ...     for number in bar:
        ...         total += number
        ...         bar.note(f"total {total}")
        >>> total
        3
    """
    return Track(steps, description, show)
