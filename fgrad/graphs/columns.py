"""The inputs of a loop's equations, each followed over all turns.

Columns(listing, run)        where each input of the period comes from, in each turn
gatherings_of(columns, ...)  sums to which each turn adds at another place, which can wait until the loop has ended
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fgrad.core.primitive import PRIMITIVES
from fgrad.graphs.equations import Equation, Name
from fgrad.graphs.listing import Listing, places_in
from fgrad.graphs.periods import LONGEST_CHAIN, Run
from fgrad.graphs.turns import Along
from fgrad.ops.indexing import ARRAY

LARGEST_COPY = 1 << 20
"""Elements that may be put together in front of a loop, so that it goes along them."""


class NotALoopError(Exception):
    """A run of equations stays as it is."""


class Columns:
    """The inputs of the equations of a run: a row for each turn, a column for each input of the period.

    The outputs of the period are counted, too: they are its *slots*.

    Attributes:
        sources: the numbers of the values.
        places: the integers in templates, in the same way.
        steps: how much these go up from turn to turn.
        slots: the output of the period that an input is, -1 where all turns have it from outside.
        lags: how many turns before that was made.
        is_same: the value is the same in all turns.
        first: the number of the first value that the run makes.
        size: how many outputs the period has.

    Raises:
        NotALoopError: the inputs do not follow one rule in all turns, or are carried for too long.
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

    def _check(self, is_inside: Any) -> None:
        count, first, last = self.run.count, self.first, self.sources[-1]
        expected = last - self.size * (count - 1 - np.arange(count)[:, None])
        follows = np.where(is_inside & (expected >= first), self.sources == expected, self.sources < first)
        goes_on = self.places == self.places[0] + self.steps * np.arange(count)[:, None]
        if not follows.all() or not goes_on.all() or self.lags.max(initial=0) > LONGEST_CHAIN:
            raise NotALoopError

    def equations(self) -> Iterator[tuple[int, Equation]]:
        """Return the equations of the first turn, with their places in the program."""
        for i in range(self.run.start, self.run.start + self.run.period):
            yield i, self.listing.equations[i]

    def inputs(self, i: int) -> range:
        """Return the columns of an equation."""
        start = self._first_source[self.run.start]
        return range(int(self._first_source[i] - start), int(self._first_source[i + 1] - start))

    def outputs(self, i: int) -> range:
        """Return the slots that an equation makes."""
        first = self.listing.first_value
        return range(int(first[i]) - self.first, int(first[i + 1]) - self.first)

    def name(self, slot: int) -> Name:
        """Return the name of an output in the first turn."""
        return self.listing.names[self.first + slot]

    def maker(self, slot: int) -> int:
        """Return the equation that makes an output in the first turn."""
        return int(self.listing.maker[self.first + slot])

    def moving(self, i: int) -> dict[int, NDArray[np.int64]]:
        """Return the items of an equation's template that are others in other turns, by their position.

        Of an item that is an integer there is a column with what it is in all turns, of a slice one for the start and
        one for the stop.
        """
        start = self._first_place[self.run.start]
        column, end = int(self._first_place[i] - start), int(self._first_place[i + 1] - start)
        if not self.steps[column:end].any():
            return {}
        found = {}
        for k, item in enumerate(self.listing.equations[i].metadata["template"]):
            count = places_in(item)
            if self.steps[column : column + count].any():
                found[k] = self.places[:, column : column + count]
            column += count
        return found

    def way(self, i: int, shape: tuple[int, ...]) -> Way | None:
        """Return how an equation's key goes through an array of a shape, if one item of it moves.

        There are whole axes before it, and no arrays in the key.
        """
        moving, template = self.moving(i), self.listing.equations[i].metadata.get("template", ())
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
    """Return, for each turn, the indices of what a slice finds that begins and ends elsewhere in each."""
    found = [range(*slice(start, stop, item.step).indices(size)) for start, stop in places.tolist()]
    if len({len(each) for each in found}) != 1:
        raise NotALoopError
    return np.array(found, np.int64).reshape(len(found), -1)


class Way(NamedTuple):
    """A key of which one item is another in each turn.

    Attributes:
        axis: which item that is; before it there are whole axes.
        places: the integer of each turn; or, where it is a slice, the indices of each turn as a row.
        before, after: the other items.
    """

    axis: int
    places: NDArray[np.int64]
    before: tuple[Any, ...]
    after: tuple[Any, ...]

    @property
    def along(self) -> Along:
        """Where turns are along the axis."""
        return Along(int(self.places[0]), int(self.places[1] - self.places[0]))

    @property
    def rest(self) -> tuple[Any, ...]:
        """The key of what is left when the item that moves is applied."""
        rest = (*self.before, *(slice(None) for _ in self.places.shape[1:]), *self.after)
        return () if all(map(_is_whole, rest)) else rest

    @property
    def all_places(self) -> tuple[Any, ...]:
        """Return the key with a slice of all turns' integers."""
        start, step = self.along
        end = start + step * len(self.places)
        return (*self.before, slice(start, end if end >= 0 else None, step), *self.after)


def _is_whole(item: Any) -> bool:
    return type(item) is slice and item == slice(None)


@dataclass
class Part:
    """What one equation adds: an output of the period, at a way through the sum."""

    slot: int
    way: Way
    scatter: int
    add: int


@dataclass
class Gathering:
    """A sum that is carried through the turns for nothing but to be added to, at another place each time.

    Attributes:
        slot: the output of the period that is the sum.
        start: the number of what is there before the first turn.
        parts: what is added, in an order in which each element gets what the turns add to it in theirs.
    """

    slot: int
    start: int
    parts: list[Part]

    @property
    def gone(self) -> set[int]:
        """The equations that the loop does without."""
        return {i for part in self.parts for i in (part.scatter, part.add)}


def gatherings_of(columns: Columns, needed: dict[int, set[int]]) -> list[Gathering]:
    """Return the sums that can be made when the loop has ended.

    Args:
        columns: the loop.
        needed: which outputs of the period others need, and of which turns.
    """
    uses: dict[int, list[tuple[int, int]]] = {}
    for i, _ in columns.equations():
        for column in columns.inputs(i):
            uses.setdefault(int(columns.slots[column]), []).append((i, column))
    found = []
    for i, equation in columns.equations():
        if equation.primitive is PRIMITIVES["add"]:
            for column in columns.inputs(i):
                gathering = _Chain(columns, needed, uses).from_carried(i, column) if columns.lags[column] == 1 else None
                if gathering is not None:
                    found.append(gathering)
    return found


@dataclass
class _Chain:
    """A chain of additions from one turn to the next."""

    columns: Columns
    needed: dict[int, set[int]]
    uses: dict[int, list[tuple[int, int]]]

    def from_carried(self, i: int, column: int) -> Gathering | None:
        """Return the sum to which an equation adds first in a turn, if all that is added comes at places."""
        columns, last, parts = self.columns, int(self.columns.slots[column]), []
        start = int(columns.sources[0, column])
        while True:
            part = self._part(i, column)
            if part is None:
                return None
            parts.append(part)
            (slot,) = columns.outputs(i)
            uses = self.uses.get(slot, [])
            if slot == last:
                break
            if len(uses) != 1 or columns.lags[uses[0][1]] or slot in self.needed:
                return None
            ((i, column),) = uses
        only_last = self.needed.get(last, set()) <= {columns.run.count - 1}
        if len(uses) != 1 or not only_last or len({(part.way.axis, part.way.along.step) for part in parts}) != 1:
            return None
        # An element is met by the part that is ahead first.
        parts.sort(key=lambda part: -part.way.along.start * np.sign(part.way.along.step))
        return Gathering(last, start, parts)

    def _part(self, i: int, column: int) -> Part | None:
        """Return what an addition adds to a sum, if that is nothing but elements at a place."""
        columns, equation = self.columns, self.columns.listing.equations[i]
        if equation.primitive is not PRIMITIVES["add"]:
            return None
        (other,) = (each for each in columns.inputs(i) if each != column)
        slot = int(columns.slots[other])
        if slot < 0 or columns.lags[other] or slot in self.needed or len(self.uses[slot]) != 1:
            return None
        scatter = columns.maker(slot)
        inputs = columns.inputs(scatter)
        if columns.listing.equations[scatter].primitive is not PRIMITIVES["scatter"] or len(inputs) != 1:
            return None
        total, (added,) = equation.outputs[0], inputs
        if columns.slots[added] < 0 or columns.lags[added] or columns.name(slot).shape != total.shape:
            return None
        value, way = columns.name(int(columns.slots[added])), columns.way(scatter, total.shape)
        if (
            way is None
            or way.places.ndim != 1
            or value.is_weak
            or not value.dtype == columns.name(slot).dtype == total.dtype
        ):
            return None
        found = np.broadcast_to(0, total.shape)[columns.listing.equations[scatter].metadata["template"]]
        return Part(int(columns.slots[added]), way, scatter, i) if found.shape == value.shape else None
