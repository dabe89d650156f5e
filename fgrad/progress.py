"""How far a loop has come: a bar by `tqdm` where it is installed, a line of text now and then where it is not.

    for epoch in track(range(40), "training"):      shows the loop
        ...
    with track(batches) as bar:                     and with a note beside it
        for batch in bar:
            bar.note(f"loss {loss:.4f}")

The library tqdm comes by `pip install tqdm`; nothing here needs it.
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


def __dir__() -> list[str]:
    return __all__


T = TypeVar("T")

_SECONDS_BETWEEN_LINES = 5.0


class _Lines:
    """Stands in for tqdm: writes a line when the loop ends, and before that every few seconds."""

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
    """An iterable that shows how far it has been gone through; made by `track`.

    Args:
        steps: what to go through.
        description: what it is, in a word or two.
        show: whether to show anything.

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
        """Show a short text beside the bar, such as the loss."""
        if self._bar is not None:
            self._bar.set_postfix_str(text, refresh=False)  # the next update shows it, when it is due

    def close(self) -> None:
        """Show no more; the end of the loop, or of the `with` block, does this."""
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
    """Return an iterable over `steps` that shows on stderr how far a loop over it has come.

    Args:
        steps: what to go through; the bar shows the whole way if its length is known.
        description: what stands before the bar.
        show: False shows nothing, so that one switch is enough for a loop.

    Returns:
        A `Track`: to iterate over, with `note(text)` for a text beside the bar. As a context manager it
        closes the bar also when the loop is left by an error.

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
