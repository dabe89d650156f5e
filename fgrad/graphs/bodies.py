"""Loop bodies: a loop in place of a run of equations, with its carry, inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from fgrad.core.primitive import PRIMITIVES
from fgrad.graphs.equations import PYTHONS, Equation, Name
from fgrad.graphs.graph import Block
from fgrad.graphs.induction import LARGEST_COPY, Columns, Gathering, NotALoopError, Way, gatherings_of, indices_of
from fgrad.graphs.listing import Listing, places_in, template_of
from fgrad.graphs.loop import Along, Iterations, equation_of
from fgrad.graphs.periods import Run
from fgrad.ops.indexing import ARRAY

_LEADING = {"index": 1, "scatter": 1, "replace": 2}
"""The number of inputs before the index arrays of a key."""
_NOTHING = int(np.iinfo(np.int64).min)
"""Index used for inputs that no iteration reads."""

Carried = tuple[int, tuple[int, ...]]
"""An output of the period, and the values used instead in iterations -1, -2, ...: the last of these is the carry."""


class Program(Protocol):
    """The program around a loop, while it is rewritten."""

    listing: Listing

    def resolved(self, number: int) -> Any:
        """Return the name or constant of a value in the new program."""

    def column(self, sources: Sequence[int]) -> tuple[Any, Along]:
        """Return an array that holds values along its first axis, and their positions."""

    def constant(self, value: Any) -> Any:
        """Return the name of an array, or the array itself if it is short."""

    def named(self, value: Any) -> Name:
        """Return a name for an array."""

    def written(self, primitive: str, inputs: Sequence[Any], like: Any, quiet: bool = True, **metadata: Any) -> Name:
        """Write an equation, and return the name of its result."""


class Rerolled(NamedTuple):
    """A loop and its results.

    Attributes:
        equation: the equation that runs it.
        single: the names of outputs of the period in single iterations: `(slot, iteration)`.
        arrays: the names of outputs of the period, stacked over all iterations.
        gatherings: sums to be computed after the loop.
    """

    equation: Equation
    single: Mapping[tuple[int, int], Name]
    arrays: Mapping[int, Name]
    gatherings: Sequence[Gathering]


class Body:
    """The loop for a run of equations.

    Args:
        program: the program around it.
        run: its equations.
        needed: the outputs of the period that are used outside, with their iterations.

    Raises:
        NotALoopError: the run cannot be a loop.
    """

    def __init__(self, program: Program, run: Run, needed: dict[int, set[int]]) -> None:
        self._program, self._run, self._needed = program, run, needed
        self._columns = Columns(program.listing, run)
        self._gatherings = gatherings_of(self._columns, needed)
        self._local: dict[int, Any] = {}
        self._shared: dict[Name, Name] = {}
        self._carried: dict[Carried, Name] = {}
        self._read: dict[Any, tuple[Any, Along, Name]] = {}
        self._turned: dict[tuple[Name, int], Name] = {}
        self._windows: dict[Any, Name] = {}

    def rerolled(self, inside: Callable[[Block], Block]) -> Rerolled:
        """Return the loop.

        Args:
            inside: a pass applied to the body.
        """
        gone = {i for each in self._gatherings for i in each.gone}
        equations = [found for i, _ in self._columns.equations() if i not in gone for found in self._equation(i)]
        made = self._made()
        nexts = [self._next(*carried) for carried in self._carried]
        rest = [*self._carried.values(), *(name for *_, name in self._read.values())]
        body = inside(Block([*self._shared.values(), *rest], {}, equations, [*nexts, *(self._local[k] for k in made)]))
        for name, value in body.constants.items():  # constants of inner loops, the same in all iterations
            self._shared[self._program.named(value)] = name
        body = Block([*self._shared.values(), *rest], {}, body.equations, body.outputs)
        reads = [along for _, along, _ in self._read.values()]
        iterations = Iterations(body, self._run.count, len(self._shared), len(nexts), reads, [Along()] * len(made))
        arrays = [array for array, *_ in self._read.values()]
        inputs = [*self._shared, *map(self._start, self._carried), *arrays]
        equation = equation_of(iterations, inputs, self._program.listing.equations[self._run.start].place)
        found = zip(self._carried, equation.outputs, strict=False)
        single = {(slot, self._run.count - len(before)): name for (slot, before), name in found}
        return Rerolled(
            equation, single, dict(zip(made, equation.outputs[len(nexts) :], strict=True)), self._gatherings
        )

    # Equations of the body

    def _equation(self, i: int) -> Iterable[Equation]:
        """Return the body's equation for an equation; none if its results are elements of an array."""
        columns, equation = self._columns, self._program.listing.equations[i]
        element, metadata = self._element_found(i), equation.metadata
        if element is not None:
            array, way = element
            inputs = [self._element(*self._rows(array, way))]
            if not way.rest:
                self._local[columns.outputs(i).start] = inputs[0]
                return ()
            metadata = {"template": way.rest}
        else:
            inputs = [self._input(column, equation) for column in columns.inputs(i)]
            if columns.moving(i):
                inputs, metadata = self._with_arrays(i, inputs)
        outputs = tuple(map(_alike, equation.outputs))
        self._local.update(zip(columns.outputs(i), outputs, strict=True))
        quiet, direct, place = equation.quiet, equation.direct, equation.place
        return (Equation(outputs, equation.primitive, tuple(inputs), metadata, quiet, direct, place),)

    def _input(self, column: int, equation: Equation) -> Any:
        """Return the input of an equation of the body."""
        columns = self._columns
        slot, lag, sources = int(columns.slots[column]), int(columns.lags[column]), columns.sources[:, column]
        if slot >= 0 and not lag:
            return self._local[slot]
        if slot < 0 and columns.is_same[column]:
            return self._shared_one(self._program.resolved(int(sources[0])))
        outside = sources[: lag or None].tolist()
        kinds = [self._weakness(number) for number in outside]
        if not equation.primitive.is_elementwise and int in kinds:
            # It takes a Python number itself, but the value of a name as a NumPy number.
            raise NotALoopError(f"{equation.primitive.name} takes another Python number in each iteration")
        if slot >= 0:
            return self._carry(slot, tuple(outside[::-1]))
        return self._element(*self._program.column(outside), kinds[0] is not None)

    def _weakness(self, number: int) -> type | None:
        """Return `int` for a Python number, `Name` for the name of one, None for an array."""
        listing = self._program.listing
        each = listing.names[number] if number >= 0 else listing.outside[-1 - number]
        if type(each) is Name:
            return Name if each.is_weak else None
        return int if type(each) in PYTHONS else None

    def _with_arrays(self, i: int, inputs: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return inputs and metadata of an equation with index arrays for the moving items of its key."""
        columns, equation = self._columns, self._program.listing.equations[i]
        lead, moving, metadata = _LEADING[equation.primitive.name], columns.moving(i), equation.metadata
        rest = iter(inputs[lead:])
        template, arrays = list(template_of(metadata)), []
        for k, item in enumerate(template):
            if k in moving:
                template[k] = ARRAY
                places = moving[k][:, 0]
                if type(item) is slice:
                    shape = metadata.get("shape") or inputs[0].shape
                    places = self._of_slice(item, k, metadata, moving[k], shape)
                arrays.append(self._read_of(("places", places.shape, places.tobytes()), places))
            elif item is ARRAY:
                arrays.append(next(rest))
        # the template replaces that in the path, if there is one
        metadata = {key: x for key, x in metadata.items() if key != "path"}
        return [*inputs[:lead], *arrays], {**metadata, "template": tuple(template)}

    def _of_slice(
        self, item: slice, k: int, metadata: Mapping[str, Any], places: object, shape: tuple[int, ...]
    ) -> Any:
        """Return the indices of a moving slice, a row for each iteration, if they may replace it in the key."""
        template = template_of(metadata)
        alone = all(type(each) is slice for each in template[:k]) and not any(
            each is ARRAY or places_in(each) == 1 for each in template
        )
        if not alone:
            raise NotALoopError("a slice that differs between iterations is combined with other indices")
        return indices_of(item, places, shape[k])

    def _rows(self, array: Any, way: Way) -> tuple[Any, Along]:
        """Return an array whose first axis holds the elements that iterations read from another one."""
        if way.places.ndim == 1:
            return self._first_axis(array, way.axis), way.along
        key = (array if type(array) is Name else id(array), way.axis, way.places.tobytes())
        if key not in self._windows:
            like = np.take(np.broadcast_to(np.zeros((), array.dtype), array.shape), way.places, way.axis)
            if like.size > LARGEST_COPY:
                size = f"{like.size:,} elements"
                raise NotALoopError(f"each iteration uses another slice; one array of them is too large ({size})")
            inputs = (array, self._program.constant(way.places))
            found = self._program.written("index", inputs, like, template=(*way.before, ARRAY))
            self._windows[key] = self._first_axis(found, way.axis)
        return self._windows[key], Along()

    def _element_found(self, i: int) -> tuple[Any, Way] | None:
        """Return the array and the way through it if an equation reads an element of an array in each iteration."""
        columns, equation = self._columns, self._program.listing.equations[i]
        if equation.primitive is not PRIMITIVES["index"]:
            return None
        column = columns.inputs(i).start
        if columns.slots[column] >= 0 or not columns.is_same[column] or not columns.moving(i):
            return None
        array = self._program.resolved(int(columns.sources[0, column]))
        way = columns.way(i, array.shape)
        return None if way is None else (array, way)

    def _first_axis(self, array: Any, axis: int) -> Any:
        """Return an array with one of its axes moved to the front."""
        if not axis:
            return array
        if (array, axis) not in self._turned:
            order = (axis, *(k for k in range(len(array.shape)) if k != axis))
            like = np.transpose(np.broadcast_to(np.zeros((), array.dtype), array.shape), order)
            self._turned[array, axis] = self._program.written("transpose", (array,), like, axes=order)
        return self._turned[array, axis]

    # Inputs of the body

    def _shared_one(self, each: object) -> Any:
        if type(each) is not Name:
            return each
        if each not in self._shared:
            self._shared[each] = _alike(each)
        return self._shared[each]

    def _carry(self, slot: int, before: tuple[int, ...]) -> Name:
        """Return the name of a result of an earlier iteration; in the first iterations, of a value from outside."""
        if (slot, before) not in self._carried:
            if len(before) > 1:
                self._carry(slot, before[:-1])
            self._carried[slot, before] = _alike(self._columns.name(slot))
        return self._carried[slot, before]

    def _element(self, array: Any, along: Along, is_weak: bool = False) -> Name:
        """Return the name of the current iteration's element of an array."""
        return self._read_of((array if type(array) is Name else id(array), along, is_weak), array, along, is_weak)

    def _read_of(self, key: object, array: Any, along: Along | None = None, is_weak: bool = False) -> Name:
        if key not in self._read:
            row = np.broadcast_to(np.zeros((), array.dtype), array.shape[1:])
            array = array if type(array) is Name else self._program.constant(array)
            self._read[key] = array, along or Along(), Name(row, is_weak)
        return self._read[key][-1]

    # Outputs of the body

    def _made(self) -> list[int]:
        """Return the outputs that are stacked over all iterations; those used only after the last one are carried."""
        count = self._run.count
        carried = {(slot, count - len(before)) for slot, before in self._carried}
        gathered = {each.slot for each in self._gatherings}
        made = [part.slot for each in self._gatherings for part in each.parts]
        for slot, iterations in self._needed.items():
            left = {iteration for iteration in iterations if (slot, iteration) not in carried}
            if slot in gathered or not left or slot in made:
                continue
            if left == {count - 1}:
                self._carried[slot, (_NOTHING,)] = _alike(self._columns.name(slot))
            else:
                made.append(slot)
        return list(dict.fromkeys(made))

    def _next(self, slot: int, before: tuple[int, ...]) -> Name:
        return self._carried[slot, before[:-1]] if len(before) > 1 else self._local[slot]

    def _start(self, carried: Carried) -> Any:
        """Return the initial value of a carry."""
        slot, before = carried
        if before[-1] != _NOTHING:
            return self._program.resolved(before[-1])
        name = self._columns.name(slot)
        zero = np.zeros((), name.dtype)
        return zero.item() if name.is_weak else self._program.constant(np.broadcast_to(zero, name.shape))


def _alike(name: Name) -> Name:
    found = Name(name, name.is_weak)
    found.text = name.text
    return found
