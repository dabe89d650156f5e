"""Induction analysis: the inputs of a loop's equations over all iterations.

Columns(listing, run)        the origin of each input of the period, in each iteration
gatherings_of(columns, ...)  sums with increments at different positions, which can be computed after the loop
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fgrad.core.primitive import PRIMITIVES
from fgrad.graphs.equations import Equation, Name
from fgrad.graphs.listing import Listing, places_in, template_of
from fgrad.graphs.loop import Along
from fgrad.graphs.periods import LONGEST_CHAIN, Run
from fgrad.ops.indexing import ARRAY

LARGEST_COPY = 1 << 20
"""The number of elements that may be copied before a loop into an array that the loop reads."""


class NotALoopError(Exception):
    """A run of equations cannot become a loop, for the given reason."""


class Columns:
    """The inputs of the equations of a run: a row for each iteration, a column for each input of the period.

    The outputs of the period are numbered, too; their numbers are called *slots*.

    Attributes:
        sources: the numbers of the input values.
        places: the integers in templates, arranged in the same way.
        steps: the increments of these integers per iteration.
        slots: the slot of an input, -1 if it comes from outside in all iterations.
        lags: how many iterations earlier the input was computed.
        is_same: whether the input is the same in all iterations.
        first: the number of the first value computed in the run.
        size: the number of outputs of the period.

    Raises:
        NotALoopError: the inputs do not follow one pattern in all iterations, or are carried for too long.
    """

    def __init__(self, listing: Listing, run: Run) -> None:
        self.listing, self.run = listing, run
        self._first_source, self._first_place = listing.first_source, listing.first_place
        start, end, count = run.start, run.end, run.count
        self.sources = listing.sources[self._first_source[start] : self._first_source[end]].reshape(count, -1)
        self.places = listing.places[self._first_place[start] : self._first_place[end]].reshape(count, -1)
        self.steps = self.places[1] - self.places[0]
        self.first = int(listing.first_value[start])
        self.size = (int(listing.first_value[end]) - self.first) // count
        last, size = self.sources[-1], max(self.size, 1)
        is_inside = last >= self.first
        self.slots = np.where(is_inside, (last - self.first) % size, -1)
        self.lags = np.where(is_inside, count - 1 - (last - self.first) // size, 0)
        self.is_same = (self.sources == self.sources[0]).all(0)
        self._check(is_inside)

    def _check(self, is_inside: object) -> None:
        count, first, last = self.run.count, self.first, self.sources[-1]
        expected = last - self.size * (count - 1 - np.arange(count)[:, None])
        follows = np.where(is_inside & (expected >= first), self.sources == expected, self.sources < first)
        goes_on = self.places == self.places[0] + self.steps * np.arange(count)[:, None]
        if not follows.all() or not goes_on.all() or self.lags.max(initial=0) > LONGEST_CHAIN:
            raise NotALoopError("inputs of an operation follow no pattern over the iterations")

    def equations(self) -> Iterator[tuple[int, Equation]]:
        """Return the equations of the first iteration, with their positions in the program."""
        for i in range(self.run.start, self.run.start + self.run.period):
            yield i, self.listing.equations[i]

    def inputs(self, i: int) -> range:
        """Return the columns of an equation."""
        start = self._first_source[self.run.start]
        return range(int(self._first_source[i] - start), int(self._first_source[i + 1] - start))

    def outputs(self, i: int) -> range:
        """Return the slots of an equation's outputs."""
        first = self.listing.first_value
        return range(int(first[i]) - self.first, int(first[i + 1]) - self.first)

    def name(self, slot: int) -> Name:
        """Return the name of a slot in the first iteration."""
        return self.listing.names[self.first + slot]

    def maker(self, slot: int) -> int:
        """Return the equation that computes a slot in the first iteration."""
        return int(self.listing.maker[self.first + slot])

    def moving(self, i: int) -> dict[int, NDArray[np.int64]]:
        """Return the items of an equation's template that differ between iterations, by position.

        An integer item has one column with its values in all iterations, a slice has one for the start and one for the
        stop.
        """
        start = self._first_place[self.run.start]
        column, end = int(self._first_place[i] - start), int(self._first_place[i + 1] - start)
        if not self.steps[column:end].any():
            return {}
        found = {}
        for k, item in enumerate(template_of(self.listing.equations[i].metadata)):
            count = places_in(item)
            if self.steps[column : column + count].any():
                found[k] = self.places[:, column : column + count]
            column += count
        return found

    def way(self, i: int, shape: tuple[int, ...]) -> Way | None:
        """Return how an equation's key moves through an array of a given shape, if exactly one item moves.

        Only full slices precede this item, and the key contains no arrays.
        """
        moving, template = self.moving(i), template_of(self.listing.equations[i].metadata)
        if len(moving) != 1 or any(item is ARRAY for item in template):
            return None
        ((axis, places),) = moving.items()
        if any(not _is_whole(item) for item in template[:axis]):
            return None
        if places.shape[1] == 2:
            return Way(axis, indices_of(template[axis], places, shape[axis]), template[:axis], template[axis + 1 :])
        found = places[:, 0] + shape[axis] if (places < 0).all() else places[:, 0]
        if found.min() < 0 or found.max() >= shape[axis]:
            return None
        return Way(axis, found, template[:axis], template[axis + 1 :])


def indices_of(item: slice, places: Any, size: int) -> Any:
    """Return the indices selected by a moving slice, for each iteration."""
    found = [range(*slice(start, stop, item.step).indices(size)) for start, stop in places.tolist()]
    if len({len(each) for each in found}) != 1:
        raise NotALoopError("a slice is cut short by the end of its array in some iterations")
    return np.array(found, np.int64).reshape(len(found), -1)


class Way(NamedTuple):
    """A key with one item that differs between iterations.

    Attributes:
        axis: the position of this item; only full slices precede it.
        places: the integer of each iteration; or, for a slice, the indices of each iteration as a row.
        before, after: the other items.
    """

    axis: int
    places: NDArray[np.int64]
    before: tuple[Any, ...]
    after: tuple[Any, ...]

    @property
    def along(self) -> Along:
        """The positions of the iterations along the axis."""
        return Along(int(self.places[0]), int(self.places[1] - self.places[0]))

    @property
    def rest(self) -> tuple[Any, ...]:
        """The remaining key after the moving item has been applied."""
        rest = (*self.before, *(slice(None) for _ in self.places.shape[1:]), *self.after)
        return () if all(map(_is_whole, rest)) else rest

    def is_same(self, other: Way) -> bool:
        """Return whether another key selects the same elements."""
        same_places = np.array_equal(self.places, other.places)
        return same_places and (self.before, self.after) == (other.before, other.after)

    @property
    def all_places(self) -> tuple[Any, ...]:
        """Return the key with a slice of the integers of all iterations."""
        return (*self.before, self.along.as_slice(len(self.places)), *self.after)


def _is_whole(item: object) -> bool:
    return type(item) is slice and item == slice(None)


class Part(NamedTuple):
    """The increment of one equation: an output of the period, and where it is added in a sum.

    Attributes:
        slot: the output that is added.
        way: its position in the sum.
        add: the equation that adds it.
        gone: the equations that the loop no longer needs.
    """

    slot: int
    way: Way
    add: int
    gone: tuple[int, ...]


class Gathering(NamedTuple):
    """A sum that is carried through the iterations only to be added to, at another position each time.

    Attributes:
        slot: the output of the period that is the sum.
        start: the number of its initial value.
        parts: the increments, in an order that preserves the order of additions to each element.
    """

    slot: int
    start: int
    parts: list[Part]

    @property
    def gone(self) -> set[int]:
        """The equations that the loop no longer needs."""
        return {i for part in self.parts for i in part.gone}


Use = tuple[int, int]
"""An equation, and the column of one of its inputs."""


def gatherings_of(columns: Columns, needed: dict[int, set[int]]) -> list[Gathering]:
    """Return the sums that can be computed after the loop.

    Args:
        columns: the loop.
        needed: the outputs of the period that are used outside, with their iterations.
    """
    uses: dict[int, list[Use]] = {}
    for i, _ in columns.equations():
        for column in columns.inputs(i):
            if columns.slots[column] >= 0:
                uses.setdefault(int(columns.slots[column]), []).append((i, column))
    sums = _Sums(columns, needed, uses)
    found = [sums.gathering(slot) for slot in uses if needed.get(slot, set()) <= {columns.run.count - 1}]
    return [each for each in found if each is not None]


class _Sums(NamedTuple):
    """Chains of additions that continue from one iteration to the next."""

    columns: Columns
    needed: dict[int, set[int]]
    uses: dict[int, list[Use]]

    def gathering(self, last: int) -> Gathering | None:
        """Return the parts of a sum if every increment has a position; else None."""
        columns, slot, lag = self.columns, last, 1
        parts: list[Part] = []
        starts = {int(columns.sources[0, column]) for _, column in self.uses[last]}
        while not parts or slot != last:
            uses = self.uses.get(slot, [])
            if any(columns.lags[column] != lag for _, column in uses) or (parts and slot in self.needed):
                return None
            part = self._scattered(uses) if len(uses) == 1 else self._written(uses) if len(uses) == 2 else None
            if part is None:
                return None
            parts.append(part)
            slot, lag = columns.outputs(max(part.gone)).start, 0
        if len(starts) != 1 or len({(part.way.axis, part.way.along.step) for part in parts}) != 1:
            return None
        # Each element is reached first by the part that is ahead.
        parts.sort(key=lambda part: -part.way.along.start * np.sign(part.way.along.step))
        return Gathering(last, starts.pop(), parts)

    def _scattered(self, uses: list[Use]) -> Part | None:
        """Return the increment of a statement `x + scatter(value)`."""
        columns, ((add, column),) = self.columns, uses
        other = self._other(add, column)
        scatter = None if other is None else self._only(other, "scatter")
        if scatter is None or len(columns.inputs(scatter)) != 1:
            return None
        return self._part(columns.inputs(scatter).start, scatter, add, (scatter, add))

    def _written(self, uses: list[Use]) -> Part | None:
        """Return the increment of a statement `x[key] = x[key] + value`."""
        columns, ((index, _), (replace, target)) = self.columns, uses
        inputs = columns.inputs(replace)
        names = [columns.listing.equations[i].primitive for i in (index, replace)]
        if names != [PRIMITIVES["index"], PRIMITIVES["replace"]] or len(inputs) != 2 or target != inputs.start:
            return None
        add = self._only(inputs.start + 1, "add")
        found = (
            next((each for each in columns.inputs(add) if self._only(each, "index") == index), None) if add else None
        )
        other = None if add is None or found is None else self._other(add, found)
        if add is None or other is None or len(columns.inputs(index)) != 1:
            return None
        ways = [columns.way(i, columns.name(columns.outputs(replace).start).shape) for i in (index, replace)]
        if None in ways or not ways[0].is_same(ways[1]):  # type: ignore[union-attr, arg-type]
            return None
        return self._part(other, replace, add, (index, add, replace))

    def _other(self, add: int, column: int) -> int | None:
        """Return the other input of an addition."""
        if self.columns.listing.equations[add].primitive is not PRIMITIVES["add"]:
            return None
        others = [each for each in self.columns.inputs(add) if each != column]
        return others[0] if len(others) == 1 else None

    def _only(self, column: int, primitive: str) -> int | None:
        """Return the equation of a given primitive whose result is only used for this input, in the same iteration."""
        columns, slot = self.columns, int(self.columns.slots[column])
        if slot < 0 or columns.lags[column] or slot in self.needed or len(self.uses[slot]) != 1:
            return None
        maker = columns.maker(slot)
        return maker if columns.listing.equations[maker].primitive is PRIMITIVES[primitive] else None

    def _part(self, added: int, keyed: int, add: int, gone: tuple[int, ...]) -> Part | None:
        """Return the increment at the key of an equation, if its shape and dtype match."""
        columns, slot = self.columns, int(self.columns.slots[added])
        if slot < 0 or columns.lags[added]:
            return None
        value, total = columns.name(slot), columns.name(columns.outputs(max(gone)).start)
        way = columns.way(keyed, total.shape)
        if way is None or way.places.ndim != 1 or value.is_weak or value.dtype != total.dtype:
            return None
        found = np.broadcast_to(0, total.shape)[template_of(columns.listing.equations[keyed].metadata)]
        return Part(slot, way, add, gone) if found.shape == value.shape else None
