"""Where values left a trace, and what depends on what: enough to tell why a gradient is None.

outline_if_cut(trace, record)     before a pass uses a record up, if a value has left the trace
Outline(...).exits_of(key)        where values that depend on an input left
warn_of_cuts(...)                 one line for a gradient that is None because of that
warn_of_losses(losses)            one warning for each line in which a part of a derivative may have got lost
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from fgrad import errors
from fgrad.core.conversions import Loss
from fgrad.core.reverse import Entry, ReverseTrace
from fgrad.core.trace import running
from fgrad.errors.places import depth_of_user

DEPARTURES = {"float()", "int()", "complex()", ".item()", ".numpy()", ".tolist()"}
"""Ways to ask for the value itself by which a derivative may get lost unnoticed."""

STOP = "stop_gradient"


class Exit(NamedTuple):
    """Where values left a trace.

    Attributes:
        how: such as `float()` or `stop_gradient`.
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
        losses: those exits of which the user is to be warned.
    """

    def __init__(self, trace: ReverseTrace, record: Iterable[Entry]) -> None:
        self.pairs = [(result, argument) for result, _, argument, *_ in record]
        self.exits = [Exit(how, place, dict(keys)) for (how, place), keys in trace.exits.items()]
        self.losses = trace.losses

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

    There is nothing to warn of where `stop_gradient` was called on the way, which asks for just that. Of other lines
    in which a plain number was taken the user is warned, too: a part of a gradient may be missing.

    Args:
        outline: of the record that was passed over.
        sources: those that are not connected: what to call them, and their keys.
        targets: keys of the targets.
        answer: what the gradient of a source is that is not connected.
    """
    named = set()
    for name, key in sources:
        exits = outline.exits_of(key, targets)
        left = [each for each in exits if each.how in DEPARTURES]
        if left and not any(each.how == STOP for each in exits):
            named.add(left[0].place)
            warnings.warn(
                f"the gradient with respect to {name} is {answer}, and a value that depends on it left the trace by "
                f"{left[0].how} at {left[0].line}; fgrad.explain tells more",
                errors.NoGradientWarning,
                stacklevel=depth_of_user(),
            )
    warn_of_losses(outline.losses, named)


def warn_of_losses(losses: Mapping[Any, Loss], named: Collection[tuple[str, int]] = ()) -> None:
    """Warn the user once of each line in which something took a plain number out of a trace.

    Args:
        losses: what the trace has noted.
        named: lines of which the user has been told.
    """
    if not losses:
        return
    functions: dict[tuple[str, int], dict[str, None]] = {}
    for loss in list(losses.values()):
        if not loss.is_told and loss.place not in named:
            functions.setdefault(loss.place, {})[loss.function] = None
        loss.is_told = True
    told = set() if running.call is None else running.call[2]  # code may run again, as under checkpoint
    for place in [each for each in functions if each not in told]:
        told.add(place)
        took = ", ".join(_AS_WRITTEN.get(each, each) for each in functions[place])
        warnings.warn(
            f"a part of the derivative may be missing: {took} took a plain number out of the trace, and what is "
            f"computed from it is a constant, at {errors.line_at(place)}\n" + "\n".join(map(_remedy, functions[place])),
            errors.DetachedWarning,
            stacklevel=depth_of_user(),
        )


def _remedy(function: str) -> str:
    """Return what to write instead of a function that takes plain numbers."""
    if function == "float":
        return "Write x itself for float(x); or x.item() where the plain number is meant."
    if function == "complex":
        return "Write a + 1j * b for complex(a, b); or x.item() where the plain number is meant."
    if not function:
        return (
            "Write np.sin for math.sin or cmath.sin, and x itself for float(x) or complex(x); or x.item() where the "
            "plain number is meant."
        )
    numpys = _OTHER_NAMES.get(function, f"np.{function.partition('.')[2]}")
    return f"Write {numpys} for {function}; or {function}(x.item()) where a constant is meant."


_AS_WRITTEN = {"": "something", "float": "float()", "complex": "complex()"}

_OTHER_NAMES = {
    "math.fabs": "np.abs",
    "math.fmod": "np.fmod",
    "math.remainder": "x - y * np.round(x / y)",
    "math.fma": "x * y + z",
    "math.ulp": "np.spacing",
    "math.dist": "np.linalg.norm(x - y)",
    "math.fsum": "np.sum",
    "math.comb": "scipy.special.comb",
    "math.erf": "scipy.special.erf",
    "math.erfc": "scipy.special.erfc",
    "math.gamma": "scipy.special.gamma",
    "math.lgamma": "scipy.special.gammaln",
    "cmath.phase": "np.angle",
    "cmath.polar": "np.abs and np.angle",
    "cmath.rect": "r * np.exp(1j * phi)",
}
"""What NumPy and SciPy call functions of `math`, where the names differ."""


def name_of_source(source: Any, path: str = "") -> str:
    """Return what messages call a source: a variable by its name."""
    name = getattr(source, "name", None)
    return f"the variable {name!r}" if name else f"the source{path}"
