"""Loops in programs: the body of an iteration, and the connections between iterations.

    iterations = Iterations(body, count, ...)    the loop
    iterations(*leaves)                          its results, for arrays and traced tensors
    equation_of(iterations, inputs)              the equation of a graph that runs it

Derivatives of loops are loops (`fgrad.graphs.loop_rules`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fgrad._locks import Lock
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import Tensor, strip_ended
from fgrad.graphs.derived import computed, outputs_of
from fgrad.graphs.equations import Equation, Name
from fgrad.graphs.graph import Block
from fgrad.graphs.record import regular
from fgrad.ops.shaping import stack
from fgrad.typing import Shape


class Along(NamedTuple):
    """Iteration k is at `start + step * k` along the first axis of an array."""

    start: int = 0
    step: int = 1

    def backwards(self, count: int) -> Along:
        """Return the positions if the order of `count` iterations is reversed."""
        return Along(self.start + self.step * (count - 1), -self.step)

    def as_slice(self, count: int) -> slice:
        """Return the positions of `count` iterations as a slice."""
        end = self.start + self.step * count
        return slice(self.start, end if end >= 0 else None, self.step)


class Masks(NamedTuple):
    """Whether the cotangents of the results and inputs of an iteration are masked (`fgrad.core.masked`)."""

    results: Sequence[bool]
    inputs: Sequence[bool]


Runner = Callable[["Iterations", Sequence[Any]], Sequence[Any]]


@dataclass(eq=False)
class Iterations:
    """A loop that runs a block repeatedly.

    The block takes values shared by all iterations, then the results of the previous iteration (the carry), then an
    element of each array that the loop reads. It returns the next carry, and an element of each array that the loop
    makes.

    The loop takes the same, with whole arrays in place of elements, and returns the last carry and the whole arrays.

    Attributes:
        body: the block of one iteration.
        count: the number of iterations, at least 1; the maximum for a loop with a condition.
        shared, carried: the number of inputs of the block that are shared by all iterations, and that of the carry.
        reads: the position that each iteration reads, for each array that the loop reads.
        writes: the position that each iteration writes, for each array that the loop makes, whose first axis has
            `count` elements: from the first to the last, or from the last to the first.
        examples: possible inputs of the first iteration, with which derivatives are recorded; without them, or if the
            loop reads only part of an array, each iteration is differentiated separately.
        recomputes: whether a backward pass reruns each iteration, keeping only the carry.
        masks: which cotangents are masked, the same in all iterations; without it, exact zeros of all mean "not used".
        results: possible results, at least the first ones, which what is recorded after the loop takes for examples.
        condition: maps the shared values and the carry to whether there is another iteration; such a loop reads and
            makes no arrays.
    """

    body: Block
    count: int
    shared: int
    carried: int
    reads: Sequence[Along]
    writes: Sequence[Along]
    examples: Sequence[Any] | None = None
    recomputes: bool = False
    masks: Masks | None = None
    results: Sequence[Any] = ()
    condition: Block | None = None
    _derived: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)  # not copied by `replace`
    _lock: Any = field(default_factory=Lock, init=False, repr=False)

    __name__ = "loop"

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        """Return the last carry, and the arrays that the loop makes."""
        if self.examples is not None and any(type(strip_ended(leaf)) is Tensor for leaf in leaves):
            return tuple(CALLED[0](self, leaves))
        return tuple(self.run(leaves))

    @property
    def middle(self) -> int:
        """The number of inputs before the arrays: those that are shared, and the carry."""
        return self.shared + self.carried

    def run(self, leaves: Sequence[Any], iteration: Callable[[Sequence[Any]], list[Any]] | None = None) -> list[Any]:
        """Run the loop in Python, as operations that traces process.

        Args:
            leaves: the inputs.
            iteration: a function that computes the body, instead of the block.
        """
        iteration = iteration or functools.partial(computed, self.body)
        shared, carry, arrays = self.parted(leaves)
        rows: list[list[Any]] = []
        for k in range(self.count):
            if self.condition is not None and not computed(self.condition, [*shared, *carry])[0]:
                break
            elements = [x[along.start + along.step * k] for x, along in zip(arrays, self.reads, strict=True)]
            found = iteration([*shared, *carry, *elements])
            carry, outputs = found[: self.carried], found[self.carried :]
            rows.append(outputs)
        columns = zip(zip(*rows, strict=True), self.writes, strict=True)
        return [*carry, *(stack(list(column[:: along.step])) for column, along in columns)]

    def parted(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the shared values, the carry, and the arrays or elements."""
        values = list(values)
        return values[: self.shared], values[self.shared : self.middle], values[self.middle :]

    def forms(self) -> list[Any]:
        """Return possible results: by default ones and regular matrices, as arrays and Python's numbers."""
        found = outputs_of(self.body)
        made = [_ones((self.count, *x.shape), x.dtype) for x in found[self.carried :]]
        others = [*map(_form, self.body.outputs[: self.carried], found), *made]
        return [*self.results, *others[len(self.results) :]]

    def goes_along_all(self) -> bool:
        """Return whether the iterations together read each element of all arrays exactly once."""
        return all(along in (Along(), Along().backwards(self.count)) for along in self.reads)

    def once(self, key: object, make: Callable[[], Any]) -> Any:
        """Return a value derived from the loop, which is computed once."""
        with self._lock:
            if key not in self._derived:
                self._derived[key] = make()
            return self._derived[key]


def _form(result: Any, form: Any) -> Any:
    is_weak = result.is_weak if type(result) is Name else type(result) in (int, float, complex)
    return np.ones((), form.dtype).item() if is_weak else _ones(form.shape, form.dtype)


def _ones(shape: Shape, dtype: Any) -> Any:
    """Return ones, of which one element is stored; or a regular matrix of moderate size, or a stack of them."""
    ones = np.broadcast_to(np.ones((), dtype), shape)
    is_square = len(shape) >= 2 and shape[-1] == shape[-2] <= _MOST_ROWS
    return regular(ones) if is_square else ones


_MOST_ROWS = 256
"""Of an example of a matrix."""


CALLED: list[Runner] = []
"""The function that runs a loop with traced inputs."""


UNLIMITED = 1 << 62
"""Larger than any number of iterations."""


def is_slight(equations: Sequence[Equation]) -> bool:
    """Return whether it is cheaper to compute equations unconditionally than to test whether they are needed."""
    only_numbers = all(equation.primitive.is_elementwise and not equation.direct for equation in equations)
    return only_numbers and sum(math.prod(equation.outputs[0].shape) for equation in equations) <= _SLIGHT


_SLIGHT = 64
"""In elements."""


def equation_of(iterations: Iterations, inputs: Sequence[Any], place: tuple[str, int] | None = None) -> Equation:
    """Return the equation of a graph that runs a loop.

    Args:
        iterations: the loop.
        inputs: names, and constants that are short enough to be inline.
        place: the user's file and line it belongs to.
    """
    outputs = tuple(Name(np.asarray(x), type(x) in (bool, int, float)) for x in iterations.forms())
    return Equation(outputs, Primitive("loop", iterations), tuple(inputs), {}, quiet=True, direct=True, place=place)


def at_most_once(block: Block, shared: int, examples: Sequence[Any]) -> Iterations:
    """Return the loop that runs a block if a boolean holds, which is a further input, the first one.

    Args:
        block: takes shared values and a carry, and returns the next carry.
        shared: the number of shared values.
        examples: possible inputs of the block.
    """
    flag = Name(np.False_)
    inputs = [flag, *block.inputs]
    body, condition = block.with_ends(inputs, block.outputs), Block(inputs, {}, [], [flag])
    return Iterations(body, 1, 1 + shared, len(block.outputs), [], [], [np.True_, *examples], condition=condition)


def iterations_of(equation: Equation) -> Iterations | None:
    """Return the loop that an equation runs, or None."""
    return loop_of(equation.primitive) if equation.direct else None


def loop_of(primitive: Primitive) -> Iterations | None:
    """Return the loop that a primitive runs, or None."""
    loop = primitive.implementation
    return loop if isinstance(loop, Iterations) else None
