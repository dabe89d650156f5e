"""Exits from a trace and dependencies between values: the data that explains why a gradient is None.

outline_if_cut(trace, record)     the dependencies of a record, before a pass consumes it, if a value has left the trace
Outline(...).exits_of(key)        where values that depend on an input left the trace
warn_of_cuts(...)                 one warning for a gradient that is None because of that
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from typing import NamedTuple

from fgrad import errors
from fgrad.core.reverse import Entry, ReverseTrace
from fgrad.errors.places import depth_of_user
from fgrad.typing import Array

DEPARTURES = {"int()", ".item()", ".numpy()", ".tolist()"}
"""Ways to request a plain value by which a derivative may get lost silently."""

STOP = "stop_gradient"


class Exit(NamedTuple):
    """A place where values left a trace.

    Attributes:
        how: the request, such as `.item()` or `stop_gradient`.
        place: the file and line of the user's program.
        keys: the keys of the values, each with the next key at that time: what was computed before has a lower key.
    """

    how: str
    place: tuple[str, int]
    keys: dict[int, int]

    @property
    def line(self) -> str:
        """The user's line, as text."""
        return errors.line_at(self.place)


class Outline:
    """The dependencies between the values of a record, without pullbacks; and the exits of its trace.

    Attributes:
        pairs: the keys of result and argument of each edge, in order.
        exits: the places where values left.
    """

    def __init__(self, trace: ReverseTrace, record: Iterable[Entry]) -> None:
        self.pairs = [(result, argument) for result, _, argument, *_ in record]
        self.exits = [Exit(how, place, dict(keys)) for (how, place), keys in trace.exits.items()]

    def descendants(self, key: int) -> set[int]:
        """Return the keys of the values computed from a value, and its own key."""
        found = {key}
        for result, argument in self.pairs:
            if argument in found:
                found.add(result)
        return found

    def ancestors(self, keys: Iterable[int]) -> set[int]:
        """Return the keys of the values from which `keys` were computed, and their own."""
        found = set(keys)
        for result, argument in reversed(self.pairs):
            if result in found:
                found.add(argument)
        return found

    def exits_of(self, source: int, targets: Collection[int] = ()) -> list[Exit]:
        """Return the exits of values that depend on a source, before the targets were computed."""
        below = self.descendants(source)
        last = max(targets, default=None)
        return [
            each
            for each in self.exits
            if any(key in below and (last is None or later < last) for key, later in each.keys.items())
        ]


def outline_if_cut(trace: ReverseTrace, record: list[Entry]) -> Outline | None:
    """Return the outline of a record if a number was taken out of its trace, else None."""
    return Outline(trace, record) if is_cut(trace) else None


def is_cut(trace: ReverseTrace) -> bool:
    """Return whether a number was taken out of a trace."""
    return bool(trace.exits) and any(how in DEPARTURES for how, _ in trace.exits)


def warn_of_cuts(
    outline: Outline, sources: Iterable[tuple[str, int]], targets: Collection[int], answer: str = "None"
) -> None:
    """Warn of gradients that are None because a value that depends on the source has left the trace.

    There is no warning if `stop_gradient` was called for such a value, which requests this.

    Args:
        outline: the outline of the record of the pass.
        sources: the unconnected sources: their names in messages, and their keys.
        targets: keys of the targets.
        answer: the gradient of an unconnected source.
    """
    for name, key in sources:
        exits = outline.exits_of(key, targets)
        left = [each for each in exits if each.how in DEPARTURES]
        if left and not any(each.how == STOP for each in exits):
            warnings.warn(
                f"the gradient with respect to {name} is {answer}: a value that depends on it left the trace by "
                f"{left[0].how} at {left[0].line}; use fgrad.explain for details",
                errors.NoGradientWarning,
                stacklevel=depth_of_user(),
            )


def name_of_source(source: Array, path: str = "") -> str:
    """Return the name of a source in messages: for a variable, its own name."""
    name = getattr(source, "name", None)
    return f"the variable {name!r}" if name else f"the source{path}"
