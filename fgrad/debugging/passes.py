"""An observed pass over a record: the cotangents between targets and a source.

Pass(record, outline, key, cotangents)    runs the pass, and observes each pullback
ran.why_zero(name), ran.why_not_finite()  the operations where the cotangent became zero or not finite
path_of(record, start, ends)              the operations on a path from one value to another
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad import errors
from fgrad.core.lazy_sum import finished
from fgrad.core.reverse import Edge, Entry, ZeroPullback, pull_back
from fgrad.debugging.notes import Note, NotedPullback, arrays_in
from fgrad.debugging.reports import Reason, counted, shown
from fgrad.tapes.tape import plain_value
from fgrad.transforms.cuts import Outline


class Step(NamedTuple):
    """An operation on a path from a source.

    Attributes:
        operation: its name.
        line: the user's line, or None if it is unknown.
    """

    operation: str
    line: str | None

    def __str__(self) -> str:
        return f"{self.operation} ({self.line.split(': ')[0]})" if self.line else self.operation


def _step(edge: Edge) -> Step:
    if isinstance(edge.pullback, ZeroPullback):
        return Step(edge.primitive.name, errors.line_at(edge.pullback.place))
    note = _note_of(edge)
    if note is None:
        name = edge.primitive.name
        return Step("a function with a custom rule" if name == "call" else name, None)
    return Step(note.operation, note.line)


def _note_of(edge: Edge) -> Note | None:
    return edge.pullback.note if isinstance(edge.pullback, NotedPullback) else None


def _is_cut(edge: Edge) -> bool:
    return isinstance(edge.pullback, ZeroPullback)


def path_of(record: Sequence[Entry], start: int, ends: Collection[int], *last: Step) -> tuple[Step, ...]:
    """Return the operations on a path from one value to the first of several others, followed by `last`."""
    came_from: dict[int, Edge] = {}
    reached = {start}
    for edge in itertools.starmap(Edge, record):
        if edge.argument in reached and edge.result not in reached:
            reached.add(edge.result)
            came_from[edge.result] = edge
    end = next((key for key in sorted(ends) if key in reached), None)
    if end is None:
        return ()
    steps: list[Step] = []
    while end != start:
        edge = came_from[end]
        if edge.primitive.kind != "part" or _note_of(edge) is not None:
            steps.append(_step(edge))
        end = edge.argument
    return (*reversed(steps), *last)


class _Event(NamedTuple):
    """An application of the pullback of an edge to its cotangent.

    Attributes:
        edge: the edge, with its own pullback.
        came, left: the number of nonzero elements of the cotangent before and after, and whether it was NaN or
            infinite.
        values: descriptions of the cotangents, if they are informative.
        sizes: the numbers of elements before and after.
    """

    edge: Edge
    came: tuple[int, bool, bool]
    left: tuple[int, bool, bool]
    values: tuple[str, ...]
    sizes: tuple[int, int]


def _watched(edge: Edge, events: list[_Event]) -> Callable[[Any], Any]:
    """Return the pullback of an edge, which records its applications."""
    pullback: Any = edge.pullback

    def pulled(cotangent: Any) -> Any:
        cotangent = finished(cotangent)
        passed = finished(pullback(cotangent))
        came, left = arrays_in(cotangent), arrays_in(passed)
        before, after = _total(came), _total(left)
        texts: tuple[str, ...] = ()
        if any(after[1:]) or after[0] < before[0]:
            texts = (*(f"cotangent: {shown(x)}" for x in came), *(f"gave: {shown(x)}" for x in left))
        sizes = sum(map(np.size, came)), sum(map(np.size, left))
        events.append(_Event(edge, before, after, texts, sizes))
        return passed

    return pulled


def _total(arrays: Iterable[Any]) -> tuple[int, bool, bool]:
    found = [counted(each) for each in arrays]
    return sum(each[0] for each in found), any(each[1] for each in found), any(each[2] for each in found)


class Pass:
    """A pass over a copy of a record, observed between the targets and one source.

    Attributes:
        path: the operations on one path between them.
        cotangents: the resulting cotangents.
        events: the application of each pullback, in the order of the pass.
        targets: keys of the targets.
    """

    def __init__(self, record: list[Entry], outline: Outline, key: int, cotangents: dict[int, Any]) -> None:
        self.record, self.outline, self.key, self.targets = record, outline, key, set(cotangents)
        self._above, self._below = outline.ancestors(cotangents), outline.descendants(key)
        edges = list(itertools.starmap(Edge, record))
        self._between = [edge for edge in edges if edge.result in self._above and edge.argument in self._below]
        live = [edge for edge in self._between if not _is_cut(edge)]
        self.path = path_of(live, key, self.targets) or path_of(self._between, key, self.targets)
        self.events: list[_Event] = []
        ours = set(map(id, live))
        watched: list[Entry] = [
            edge.pulled_by(_watched(edge, self.events)) if id(edge) in ours else edge for edge in edges
        ]
        self.cotangents = pull_back(watched, cotangents, {key})

    # Not finite

    def why_not_finite(self, targets: list[Any]) -> list[Reason]:
        """Return the first operation whose rule, or whose value, was not finite."""
        if not all(_is_finite(plain_value(target)) for target in targets):
            return [self._value_not_finite()]
        for event in self.events:
            _, nan, infinite = event.left
            if nan or infinite:
                return [self._made(event)]
        text = "Contributions of several paths are finite, and their sum is not."
        return [Reason("overflow", text)]

    def _value_not_finite(self) -> Reason:
        for edge in itertools.starmap(Edge, self.record):
            note = _note_of(edge)
            if edge.result in self._above and note is not None and not _is_finite(note.result):
                text = f"The target itself is not finite: the first such value comes from {note.operation}."
                return Reason("value not finite", text, note.operation, note.line, note.values())
        text = "The target itself is not finite. Compute it inside `with fg.debug_nans():` to see where."
        return Reason("value not finite", text)

    def _made(self, event: _Event) -> Reason:
        step = _step(event.edge)
        what = "NaN" if event.left[1] else "an infinity"
        handed = event.came[1] or event.came[2]
        text = f"{what[0].upper()}{what[1:]} comes from the reverse rule of {step.operation}"
        if handed:
            text += ", whose cotangent was already not finite."
        else:
            text += (
                ": it has no finite derivative here. Avoid this point, or select another branch with "
                "np.where: a branch that is not selected contributes exactly 0."
            )
        return Reason("rule not finite", text, step.operation, step.line, (*_values_of(event.edge), *event.values))

    # Zero

    def why_zero(self, name: str) -> list[Reason]:
        """Return the operations at which the cotangent became zero."""
        live = {self.key}
        for edge in self._between:
            if edge.argument in live and not _is_cut(edge):
                live.add(edge.result)
        if not live & self.targets:
            ends = [edge for edge in self._between if _is_cut(edge) and edge.argument in live]
            return _once(_of_constant(edge) for edge in ends)
        lost = [event for event in self.events if event.came[0] and not event.left[0]]
        reasons = _once(_of_zero(event) for event in lost if event.edge.result in live and event.edge.argument in live)
        return reasons or [self._cancelled(name)]

    def _cancelled(self, name: str) -> Reason:
        arrived: dict[int, list[_Event]] = {}
        for event in self.events:
            if event.left[0]:
                arrived.setdefault(event.edge.argument, []).append(event)
        meeting = next((events for events in reversed(arrived.values()) if len(events) > 1), [])
        lines = tuple(f"by {_step(event.edge)}" for event in meeting)
        return Reason("cancels", f"The contributions of several paths from {name} add up to 0.", values=lines)

    def masks(self) -> list[Reason]:
        """Return the operations that have set elements of the cotangent to zero."""
        masked = [event for event in self.events if event.edge.primitive.masks and event.sizes[0] == event.sizes[1]]
        return _once(_of_zero(event) for event in masked if event.left[0] < event.came[0])


def _is_finite(value: object) -> bool:
    return not any(_total(arrays_in(value))[1:])


def _once(reasons: Iterable[Reason]) -> list[Reason]:
    """Return reasons without duplicates, by operation, line and text."""
    return list({(reason.operation, reason.line, reason.text): reason for reason in reasons}.values())


def _values_of(edge: Edge) -> tuple[str, ...]:
    """Describe the arguments of an operation: from its note, or else from its residuals."""
    note = _note_of(edge)
    if note is not None:
        return note.values()
    return tuple(
        f"its rule keeps {name} = {shown(x)}"
        for name, x in _kept_by(edge).items()
        if hasattr(x, "dtype") or isinstance(x, (int, float, complex))
    )


def _kept_by(edge: Edge) -> Mapping[str, Any]:
    """Return the residuals of an edge, by name."""
    if edge.rule is edge.primitive.closure:
        return inspect.getclosurevars(edge.saved).nonlocals if inspect.isfunction(edge.saved) else {}
    return dict(zip(edge.rule.saved, edge.saved if edge.rule.count > 1 else (edge.saved,), strict=False))


def _of_constant(edge: Edge) -> Reason:
    """Describe an operation whose derivative is 0 wherever it exists."""
    step = _step(edge)
    name = step.operation
    text = _WHY_CONSTANT.get(edge.primitive.kind, "").format(name=name)
    if text:
        return Reason("integers" if edge.primitive.kind == "conversion" else edge.primitive.kind, text, name, step.line)
    text = f"The derivative of {name} is 0 wherever it exists."
    return Reason("constant", text, name, step.line)


_WHY_CONSTANT = {
    "conversion": "A conversion to integers has the derivative 0.",
    "comparison": "A comparison ({name}) has the derivative 0: its result is True or False. Use a smooth function.",
    "rounding": "A rounding ({name}) has the derivative 0.",
    "position": "A position ({name}) has the derivative 0.",
}


def _of_zero(event: _Event) -> Reason:
    """Describe an operation that has set a cotangent to zero."""
    step = _step(event.edge)
    name, count, size = step.operation, event.came[0] - event.left[0], event.came[0]
    times = "" if size == 1 else f" for all {size} elements" if count == size else f" for {count} of {size} elements"
    values = _values_of(event.edge)
    if event.edge.primitive.kind == "choice":
        text = f"{name} (which clip uses, too) selected its other argument{times}."
        return Reason("mask", text, name, step.line, values)
    if event.edge.primitive.masks and event.edge.primitive.kind != "part":
        return Reason("mask", f"{name} selected another branch{times}.", name, step.line, values)
    if event.edge.primitive.kind == "product":
        return Reason("zero factor", f"The other factor of a product is 0{times}.", name, step.line, values)
    return Reason("zero slope", f"{name} has the derivative 0 here{times}.", name, step.line, values)
