"""Where values left a trace, and what depends on what: enough to tell why a gradient is None.

outline_if_cut(trace, record)     before a pass uses a record up, if a value has left the trace
Outline(...).exits_of(key)        where values that depend on an input left
warn_of_cuts(...)                 one line for a gradient that is None because of that
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from fgrad import errors
from fgrad.core.reverse import Entry, ReverseTrace
from fgrad.errors.places import depth_of_user

DEPARTURES = {"int()", ".item()", ".numpy()", ".tolist()"}
"""Ways to ask for the value itself by which a derivative may get lost unnoticed."""

STOP = "stop_gradient"


class Exit(NamedTuple):
    """Where values left a trace.

    Attributes:
        how: such as `.item()` or `stop_gradient`.
        place: the file and line of the user's program.
        keys: of the values, and for each the key that was next: what was computed before has a lower one.
    """

    how: str
    place: tuple[str, int]
    keys: dict[int, int]

    @property
    def line(self) -> str:
        """The user's line as text."""
        return errors.line_at(self.place)


class Outline:
    """Which values of a record depend on which, without the pullbacks; and where values left its trace.

    Attributes:
        pairs: the keys of result and argument of each edge, in order.
        exits: where values left.
    """

    def __init__(self, trace: ReverseTrace, record: Iterable[Entry]) -> None:
        self.pairs = [(result, argument) for result, _, argument, *_ in record]
        self.exits = [Exit(how, place, dict(keys)) for (how, place), keys in trace.exits.items()]

    def descendants(self, key: int) -> set[int]:
        """Return the keys of what was computed from a value, and its own."""
        found = {key}
        for result, argument in self.pairs:
            if argument in found:
                found.add(result)
        return found

    def ancestors(self, keys: Iterable[int]) -> set[int]:
        """Return the keys of what values were computed from, and their own."""
        found = set(keys)
        for result, argument in reversed(self.pairs):
            if result in found:
                found.add(argument)
        return found

    def exits_of(self, source: int, targets: Collection[int] = ()) -> list[Exit]:
        """Return where values that depend on a source left the trace before the targets were computed."""
        below = self.descendants(source)
        last = max(targets, default=None)
        return [
            each
            for each in self.exits
            if any(key in below and (last is None or later < last) for key, later in each.keys.items())
        ]


def outline_if_cut(trace: ReverseTrace, record: list[Entry]) -> Outline | None:
    """Return the outline of a record if a number has been taken out of its trace, else None."""
    if not trace.exits or not any(how in DEPARTURES for how, _ in trace.exits):
        return None
    return Outline(trace, record)


def warn_of_cuts(
    outline: Outline, sources: Iterable[tuple[str, int]], targets: Collection[int], answer: str = "None"
) -> None:
    """Warn the user of gradients that are None where a value on the way from the source has left the trace.

    There is nothing to warn of where `stop_gradient` was called on the way, which asks for just that.

    Args:
        outline: of the record that was passed over.
        sources: those that are not connected: what to call them, and their keys.
        targets: keys of the targets.
        answer: what the gradient of a source is that is not connected.
    """
    for name, key in sources:
        exits = outline.exits_of(key, targets)
        left = [each for each in exits if each.how in DEPARTURES]
        if left and not any(each.how == STOP for each in exits):
            warnings.warn(
                f"the gradient with respect to {name} is {answer}, and a value that depends on it left the trace by "
                f"{left[0].how} at {left[0].line}; fgrad.explain tells more",
                errors.NoGradientWarning,
                stacklevel=depth_of_user(),
            )


def name_of_source(source: Any, path: str = "") -> str:
    """Return what messages call a source: a variable by its name."""
    name = getattr(source, "name", None)
    return f"the variable {name!r}" if name else f"the source{path}"
