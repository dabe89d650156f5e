"""Rerolling: loops that Python unrolled become loops again, so that a recorded `for` is one equation.

    rerolled(block)              the same program, with loops in place of the equations of their iterations
    loops_of(block)              the loops of a program, for reports

The results are equal bit by bit, with two exceptions. If cotangents of elements are gathered, -0.0 may become 0.0. And
an array read from the stacked results of another loop has their memory layout: one that was transposed before may be
summed in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fgrad.core.primitive import PRIMITIVES
from fgrad.graphs.bodies import Body
from fgrad.graphs.equations import Equation, Name, is_short, names_of
from fgrad.graphs.graph import Block
from fgrad.graphs.induction import LARGEST_COPY, Gathering, NotALoopError
from fgrad.graphs.listing import Listing
from fgrad.graphs.loop import Along, iterations_of
from fgrad.graphs.periods import FEWEST_ITERATIONS, FEWEST_SAVED, Run, runs_of
from fgrad.typing import Array


class Written(Equation):
    """An equation that was not recorded, but written to connect a loop with the rest of the program."""

    __slots__ = ()


class Loop(NamedTuple):
    """A loop of a program, for reports.

    Attributes:
        places: the user's files and lines of an iteration, in order.
        iterations: the number of iterations.
        equations: the number of equations in an iteration; inner loops count as one.
        depth: 0 for a loop of the program itself, 1 for a loop inside it, and so on.
        is_conditional: whether it ends by a condition; then `iterations` is the maximum.
    """

    places: list[tuple[str, int]]
    iterations: int
    equations: int
    depth: int
    is_conditional: bool


def rerolled(block: Block, without_last: bool = False) -> Block:
    """Return a program in which repeated equations are loops, or `block` itself if there are none.

    Args:
        block: the program; it is not changed.
        without_last: whether the last iteration of each loop remains outside: its results may be used in another way.
    """
    if len(block.equations) < FEWEST_SAVED:
        return block
    listing = Listing(block)
    runs = runs_of(listing)
    if without_last:
        runs = [run for run in (replace(each, count=each.count - 1) for each in runs) if run.is_worthwhile]
    return Rewriting(block, listing, runs, partial(rerolled, without_last=without_last)).block() if runs else block


def loops_of(block: Block) -> list[Loop]:
    """Return the loops of a program in order, each before its inner loops."""
    return list(_loops(block, 0))


def _loops(block: Block, depth: int) -> Iterator[Loop]:
    for equation in block.equations:
        iterations = iterations_of(equation)
        if iterations is not None and iterations.body.equations:
            has_condition = iterations.condition is not None
            yield Loop(
                places_of(iterations.body), iterations.count, len(iterations.body.equations), depth, has_condition
            )
            yield from _loops(iterations.body, depth + 1)


def places_of(block: Block) -> list[tuple[str, int]]:
    """Return the user's files and lines of a program, including those of its loops, in order."""
    found = {equation.place for equation in block.equations}
    found.update(
        place
        for iterations in map(iterations_of, block.equations)
        if iterations
        for place in places_of(iterations.body)
    )
    return sorted(place for place in found if place)


class _Rows(NamedTuple):
    """Consecutive values of a column: elements of an array at some positions; or separate values, without an array."""

    array: Any
    along: Along
    sources: list[int]


class Rewriting:
    """A program while it is rewritten, from the first equation to the last.

    Args:
        block, listing: the program.
        runs: the loops to write.
        inside: a pass applied to their bodies.

    Attributes:
        listing: the original program.
        equations, constants: the new program so far.
        refused: runs that are not loops, and the reasons.
    """

    def __init__(
        self, block: Block, listing: Listing, runs: Sequence[Run], inside: Callable[[Block], Block] = rerolled
    ) -> None:
        self._inside = inside
        self.listing, self._block, self._runs = listing, block, runs
        self.equations: list[Equation] = []
        self.constants = dict(block.constants)
        self.refused: list[tuple[Run, str]] = []
        self._known: dict[int, Any] = {}
        self._arrays: dict[int, Name] = {}
        self._columns: dict[tuple[int, ...], tuple[Any, Along]] = {}
        self._starts = [int(listing.first_value[run.start]) for run in runs]
        self._in_loop = np.full(len(listing.names), -1)
        self._needed = self._needs()

    def _needs(self) -> list[dict[int, set[int]]]:
        """Return, for each run, the outputs of its period that are used outside, with their iterations."""
        listing = self.listing
        run_of = np.full(len(listing.equations), -1)
        for number, run in enumerate(self._runs):
            run_of[run.start : run.end] = number
        made_in = run_of[listing.maker]
        owner = np.repeat(run_of, np.diff(listing.first_source))
        inside = listing.sources >= 0
        sources, owner = listing.sources[inside], owner[inside]
        results = [self.listing.numbers[name] for name in names_of(self._block.outputs)]
        used = [*np.unique(sources[made_in[sources] != owner]).tolist(), *(each for each in results if each >= 0)]
        needed: list[dict[int, set[int]]] = [{} for _ in self._runs]
        for number in used:
            if made_in[number] >= 0:
                slot, iteration = self._slot(number, made_in[number])
                needed[made_in[number]].setdefault(slot, set()).add(iteration)
        return needed

    def _slot(self, number: int, loop: int) -> tuple[int, int]:
        """Return the slot of a value in its period, and its iteration."""
        first, run = self._starts[loop], self._runs[loop]
        size = (int(self.listing.first_value[run.end]) - first) // run.count
        return (number - first) % size, (number - first) // size

    def block(self) -> Block:
        """Return the new program."""
        position = 0
        for number, run in enumerate(self._runs):
            self._copy(position, run.start)
            try:
                self._roll(number, run)
            except NotALoopError as error:
                self.refused.append((run, str(error)))
                self._copy(run.start, run.end)
            position = run.end
        self._copy(position, len(self.listing.equations))
        numbers = self.listing.numbers
        outputs = [self.resolved(numbers[each]) if type(each) is Name else each for each in self._block.outputs]
        return Block(self._block.inputs, self.constants, self.equations, outputs)

    def _roll(self, number: int, run: Run) -> None:
        """Write a loop, and the sums to be computed after it."""
        loop = Body(self, run, self._needed[number]).rerolled(self._inside)
        self.equations.append(loop.equation)
        first, end = self._starts[number], int(self.listing.first_value[run.end])
        size = (end - first) // run.count
        self._in_loop[first:end] = number
        self._known.update({first + iteration * size + slot: name for (slot, iteration), name in loop.single.items()})
        self._arrays.update({first + slot: name for slot, name in loop.arrays.items()})
        for each in loop.gatherings:
            self._known[end - size + each.slot] = self._gathered(each, loop.arrays)

    def _gathered(self, gathering: Gathering, arrays: Mapping[int, Name]) -> Any:
        """Write the additions of all iterations to a sum, and return its name."""
        total, equations = self.resolved(gathering.start), self.listing.equations
        for part in gathering.parts:
            rows, axis, add = arrays[part.slot], part.way.axis, equations[part.add]
            like = equations[max(part.gone)].outputs[0]
            if axis:
                order = (*range(1, axis + 1), 0, *range(axis + 1, len(rows.shape)))
                turned = np.transpose(np.broadcast_to(np.zeros((), rows.dtype), rows.shape), order)
                rows = self.written("transpose", (rows,), turned, axes=order)
            key = part.way.all_places
            added = self.written("scatter", (rows,), like, add.quiet, template=key, shape=like.shape)
            total = self.written("add", (total, added), like, add.quiet)
        return total

    def _copy(self, start: int, end: int) -> None:
        """Copy equations, with new names for their inputs where needed."""
        listing = self.listing
        for i in range(start, end):
            equation = listing.equations[i]
            sources = listing.sources[listing.first_source[i] : listing.first_source[i + 1]].tolist()
            if self._is_stack(equation, sources):
                self._known[int(listing.first_value[i])] = self._stacked(sources, equation)
                continue
            if self._in_loop.size and any(each >= 0 and self._is_new(each) for each in sources):
                equation = Equation(
                    equation.outputs, equation.primitive, tuple(map(self.resolved, sources)), equation.metadata,
                    equation.quiet, equation.direct, equation.place,
                )  # fmt: skip
            self.equations.append(equation)

    def _is_new(self, number: int) -> bool:
        return number in self._known or self._in_loop[number] >= 0

    def _is_stack(self, equation: Equation, sources: list[int]) -> bool:
        """Return whether an equation stacks the results of a loop's iterations along the first axis."""
        if equation.primitive is not PRIMITIVES["stack"] or len(sources) < FEWEST_ITERATIONS:
            return False
        alike = all(getattr(each, "dtype", None) == equation.outputs[0].dtype for each in equation.inputs)
        return alike and equation.metadata["axis"] == 0 and any(self._row(each) is not None for each in sources)

    def _stacked(self, sources: list[int], equation: Equation) -> Any:
        """Return the array that an equation stacks from values."""
        array, along = self.column(sources, limited=False)
        if along == Along() and array.shape[0] == len(sources):
            return array
        return self.written("index", (array,), equation.outputs[0], template=(along.as_slice(len(sources)),))

    def written(self, primitive: str, inputs: Sequence[Any], like: Any, quiet: bool = True, **metadata: object) -> Name:
        """Write a new equation, and return the name of its result."""
        name = Name(like, getattr(like, "is_weak", False))
        self.equations.append(Written((name,), PRIMITIVES[primitive], tuple(inputs), metadata, quiet))
        return name

    def resolved(self, number: int) -> Any:
        """Return the name or constant of a value in the new program."""
        if number < 0:
            return self.listing.outside[-1 - number]
        if number not in self._known:
            row = self._row(number) if self._in_loop[number] >= 0 else None
            name = self.listing.names[number]
            self._known[number] = name if row is None else self.written("index", row[:1], name, template=(row[1],))
        return self._known[number]

    def _row(self, number: int) -> tuple[Any, int] | None:
        """Return the array of which a value is an element along the first axis, and its position."""
        if number < 0:
            return None
        loop = int(self._in_loop[number])
        if loop >= 0:
            slot, iteration = self._slot(number, loop)
            array = self._arrays.get(self._starts[loop] + slot)
            return None if array is None else (array, iteration)
        equation = self.listing.equations[self.listing.maker[number]]
        if equation.primitive is not PRIMITIVES["index"] or equation.outputs[0].is_weak:
            return None
        template = equation.metadata["template"]
        if len(template) != 1 or type(template[0]) is not int:
            return None
        array = self.resolved(int(self.listing.sources[self.listing.first_source[self.listing.maker[number]]]))
        return (array, template[0] % array.shape[0]) if type(array) is Name else None

    def column(self, sources: Sequence[int], limited: bool = True) -> tuple[Any, Along]:
        """Return an array that holds values along its first axis, and their positions.

        Args:
            sources: the numbers of the values, which have the same shape and dtype.
            limited: whether to refuse a large new array.

        Raises:
            NotALoopError: a new array would be too large.
        """
        key = tuple(sources)
        if key in self._columns:
            return self._columns[key]
        if key[::-1] in self._columns:
            array, along = self._columns[key[::-1]]
            return array, along.backwards(len(key))
        parts = self._parts(sources)
        only = parts[0]
        if len(parts) == 1 and only.array is not None:
            found = only.array, only.along
        else:
            found = self._joined(parts, limited), Along()
        self._columns[key] = found
        return found

    def _parts(self, sources: Sequence[int]) -> list[_Rows]:
        """Split a column into ranges of elements of arrays, and values that are not elements of an array."""
        parts: list[_Rows] = []
        for number in sources:
            array, place = self._row(number) or (None, 0)
            last = parts[-1] if parts else None
            if last is not None and last.array is array:
                (start, step), count = last.along, len(last.sources)
                step = place - start if count == 1 else step  # the second element determines it
                if array is None or (step and place == start + step * count):
                    last.sources.append(number)
                    parts[-1] = last._replace(along=Along(start, step))
                    continue
            parts.append(_Rows(array, Along(place), [number]))
        return parts

    def _joined(self, parts: list[_Rows], limited: bool) -> Any:
        """Return a new array that concatenates parts."""
        form = self._form(parts[0].sources[0])
        count = sum(len(part.sources) for part in parts)
        if limited and count * form.size > LARGEST_COPY:
            size = f"{count * form.size:,} elements"
            raise NotALoopError(f"each iteration uses another array; one array of them is too large ({size})")
        pieces = [self._piece(part, form) for part in parts]
        if len(pieces) == 1:
            return pieces[0]
        return self.written("concatenate", pieces, _form_of_rows(count, form), axis=0)

    def _piece(self, part: _Rows, form: object) -> Any:
        like = _form_of_rows(len(part.sources), form)
        if part.array is not None:
            return self.written("index", (part.array,), like, template=(part.along.as_slice(len(part.sources)),))
        values = [self._value(number) for number in part.sources]
        if all(each is not None for each in values):
            return self.constant(np.stack(values))
        return self.written("stack", list(map(self.resolved, part.sources)), like, axis=0)

    def _value(self, number: int) -> Any:
        """Return a constant array, None if the value is not constant."""
        each = self.listing.outside[-1 - number] if number < 0 else None
        if type(each) is Name:
            each = self.constants.get(each)
            return each if type(each) is np.ndarray else None
        return None if each is None else np.asarray(each)

    def _form(self, number: int) -> Array:
        """Return an object with the shape and dtype of a value."""
        each = self.listing.names[number] if number >= 0 else self.listing.outside[-1 - number]
        each = each if hasattr(each, "dtype") else np.asarray(each)
        return np.broadcast_to(np.zeros((), each.dtype), each.shape)

    def constant(self, value: Any) -> Any:
        """Return the name of a constant array, or the array itself if it is short."""
        return value if is_short(value) else self.named(value)

    def named(self, value: Any) -> Name:
        """Return the name of a constant array."""
        name = Name(value)
        self.constants[name] = value
        return name


def _form_of_rows(count: int, form: Any) -> Any:
    return np.broadcast_to(np.zeros((), form.dtype), (count, *form.shape))
