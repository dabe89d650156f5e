"""The inputs of a loop's equations, each followed over all iterations.

Columns(listing, run)        where each input of the period comes from, in each iteration
gatherings_of(columns, ...)  sums to which each iteration adds at another place, which can wait until the loop has ended
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
"""Elements that may be put together in front of a loop, so that it goes along them."""


class NotALoopError(Exception):
    """A run of equations stays as it is, for the reason that is given."""


class Columns:
    """The inputs of the equations of a run: a row for each iteration, a column for each input of the period.

    The outputs of the period are counted, too: they are its *slots*.

    Attributes:
        sources: the numbers of the values.
        places: the integers in templates, in the same way.
        steps: how much these go up from iteration to iteration.
        slots: the output of the period that an input is, -1 where all iterations have it from outside.
        lags: how many iterations before that was made.
        is_same: the value is the same in all iterations.
        first: the number of the first value that the run makes.
        size: how many outputs the period has.

    Raises:
        NotALoopError: the inputs do not follow one rule in all iterations, or are carried for too long.
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
            raise NotALoopError("inputs of an operation follow no rule from iteration to iteration")

    def equations(self) -> Iterator[tuple[int, Equation]]:
        """Return the equations of the first iteration, with their places in the program."""
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
        """Return the name of an output in the first iteration."""
        return self.listing.names[self.first + slot]

    def maker(self, slot: int) -> int:
        """Return the equation that makes an output in the first iteration."""
        return int(self.listing.maker[self.first + slot])

    def moving(self, i: int) -> dict[int, NDArray[np.int64]]:
        """Return the items of an equation's template that are others in other iterations, by their position.

        Of an item that is an integer there is a column with what it is in all iterations, of a slice one for the start
        and one for the stop.
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
        """Return how an equation's key goes through an array of a shape, if one item of it moves.

        There are whole axes before it, and no arrays in the key.
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
    """Return, for each iteration, the indices of what a slice finds that begins and ends elsewhere in each."""
    found = [range(*slice(start, stop, item.step).indices(size)) for start, stop in places.tolist()]
    if len({len(each) for each in found}) != 1:
        raise NotALoopError("a slice is cut short by the end of its array in some iterations")
    return np.array(found, np.int64).reshape(len(found), -1)


class Way(NamedTuple):
    """A key of which one item is another in each iteration.

    Attributes:
        axis: which item that is; before it there are whole axes.
        places: the integer of each iteration; or, where it is a slice, the indices of each iteration as a row.
        before, after: the other items.
    """

    axis: int
    places: NDArray[np.int64]
    before: tuple[Any, ...]
    after: tuple[Any, ...]

    @property
    def along(self) -> Along:
        """Where iterations are along the axis."""
        return Along(int(self.places[0]), int(self.places[1] - self.places[0]))

    @property
    def rest(self) -> tuple[Any, ...]:
        """The key of what is left when the item that moves is applied."""
        rest = (*self.before, *(slice(None) for _ in self.places.shape[1:]), *self.after)
        return () if all(map(_is_whole, rest)) else rest

    def is_same(self, other: Way) -> bool:
        """Return whether it is another key of the same elements."""
        same_places = np.array_equal(self.places, other.places)
        return same_places and (self.before, self.after) == (other.before, other.after)

    @property
    def all_places(self) -> tuple[Any, ...]:
        """Return the key with a slice of all iterations' integers."""
        start, step = self.along
        end = start + step * len(self.places)
        return (*self.before, slice(start, end if end >= 0 else None, step), *self.after)


def _is_whole(item: Any) -> bool:
    return type(item) is slice and item == slice(None)


class Part(NamedTuple):
    """What one equation adds: an output of the period, at a way through the sum.

    Attributes:
        slot: the output that is added.
        way: where.
        add: the equation that adds.
        gone: the equations that the loop does without.
    """

    slot: int
    way: Way
    add: int
    gone: tuple[int, ...]


class Gathering(NamedTuple):
    """A sum that is carried through the iterations for nothing but to be added to, at another place each time.

    Attributes:
        slot: the output of the period that is the sum.
        start: the number of what is there before the first iteration.
        parts: what is added, in an order in which each element gets what the iterations add to it in theirs.
    """

    slot: int
    start: int
    parts: list[Part]

    @property
    def gone(self) -> set[int]:
        """The equations that the loop does without."""
        return {i for part in self.parts for i in part.gone}


Use = tuple[int, int]
"""An equation and the column of one of its inputs."""


def gatherings_of(columns: Columns, needed: dict[int, set[int]]) -> list[Gathering]:
    """Return the sums that can be made when the loop has ended.

    Args:
        columns: the loop.
        needed: which outputs of the period others need, and of which iterations.
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
    """The chains of additions from one iteration to the next."""

    columns: Columns
    needed: dict[int, set[int]]
    uses: dict[int, list[Use]]

    def gathering(self, last: int) -> Gathering | None:
        """Return how an output of the period is put together, if all that is added to it comes at places."""
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
        # An element is met by the part that is ahead first.
        parts.sort(key=lambda part: -part.way.along.start * np.sign(part.way.along.step))
        return Gathering(last, starts.pop(), parts)

    def _scattered(self, uses: list[Use]) -> Part | None:
        """Return what is added in the way of `x + scatter(value)`."""
        columns, ((add, column),) = self.columns, uses
        other = self._other(add, column)
        scatter = None if other is None else self._only(other, "scatter")
        if scatter is None or len(columns.inputs(scatter)) != 1:
            return None
        return self._part(columns.inputs(scatter).start, scatter, add, (scatter, add))

    def _written(self, uses: list[Use]) -> Part | None:
        """Return what is added in the way of `x[key] = x[key] + value`."""
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
        """Return the equation of that name whose result is an input of the same iteration, and nothing else."""
        columns, slot = self.columns, int(self.columns.slots[column])
        if slot < 0 or columns.lags[column] or slot in self.needed or len(self.uses[slot]) != 1:
            return None
        maker = columns.maker(slot)
        return maker if columns.listing.equations[maker].primitive is PRIMITIVES[primitive] else None

    def _part(self, added: int, keyed: int, add: int, gone: tuple[int, ...]) -> Part | None:
        """Return what is added at the key of an equation, if it has the form of what is there."""
        columns, slot = self.columns, int(self.columns.slots[added])
        if slot < 0 or columns.lags[added]:
            return None
        value, total = columns.name(slot), columns.name(columns.outputs(max(gone)).start)
        way = columns.way(keyed, total.shape)
        if way is None or way.places.ndim != 1 or value.is_weak or value.dtype != total.dtype:
            return None
        found = np.broadcast_to(0, total.shape)[template_of(columns.listing.equations[keyed].metadata)]
        return Part(slot, way, add, gone) if found.shape == value.shape else None
