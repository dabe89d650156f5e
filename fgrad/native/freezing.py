"""Values that a recording has frozen although they change from call to call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import zip_longest
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.tensor import Tensor, settle
from fgrad.core.variable import Variable
from fgrad.graphs.equations import Equation, Name
from fgrad.graphs.graph import Block, Graph
from fgrad.graphs.record import held, recorded
from fgrad.graphs.turns import Turns, turns_of


def check_repeats(
    function: Callable[..., Any],
    examples: tuple[Any, ...],
    first: Graph,
    assigned: tuple[Variable, ...],
    lifts: bool = False,
) -> None:
    """Record a function once more, and raise if it does something else.

    Args:
        function: of the examples.
        examples: arrays and numbers.
        first: what was recorded before.
        assigned: the variables that were assigned then.
        lifts: as `recorded` was told.

    Raises:
        FrozenValueError: a constant, or the program, is another one.
    """
    second, again = recorded(function, examples, {}, integers=True, lifts=lifts)
    if _variables(first, assigned) != _variables(second, again):
        raise errors.FrozenValueError(
            f"{first.__name__} uses other variables each time that it runs: one that it makes itself lives no "
            "longer than a call.\nCreate variables outside of the compiled function."
        )
    names = zip((*first.inputs, *first.variables), (*second.inputs, *second.variables), strict=True)
    same = _Same(names, first, second)
    for one, other in zip_longest(first.equations, second.equations):
        if one is None or other is None or not same.equations(one, other):
            raise errors.FrozenValueError(_message(first, other or one))
    if first.treedef != second.treedef or not all(map(same.values, first.outputs, second.outputs)):
        raise errors.FrozenValueError(_message(first, None))


def _variables(graph: Graph, assigned: tuple[Variable, ...]) -> list[list[int]]:
    """Return the variables that are read, assigned and returned, by their ids."""
    returned = [x for x in map(held, graph.outputs) if type(x) is Variable]
    return [list(map(id, each)) for each in (graph.variables.values(), assigned, returned)]


class _Same:
    """Compares two recordings of one function, name by name."""

    def __init__(self, names: Iterable[tuple[Name, Name]], first: Block, second: Block) -> None:
        self._names: dict[Name, Name] = dict(names)
        self._constants = first.constants, second.constants

    def equations(self, one: Equation, other: Equation) -> bool:
        """Return whether two equations do the same."""
        is_same = (
            one.primitive.name == other.primitive.name
            and len(one.inputs) == len(other.inputs)
            and all(map(self.values, one.inputs, other.inputs))
            and one.metadata.keys() == other.metadata.keys()
            and all(self.values(value, other.metadata[name]) for name, value in one.metadata.items())
            and _same_loops(turns_of(one), turns_of(other))
        )
        self._names.update(zip(one.outputs, other.outputs, strict=False))
        return is_same

    def values(self, one: Any, other: Any) -> bool:
        """Return whether two constants, names or entries of metadata mean the same."""
        if type(one) is Name and type(other) is Name:
            if one in self._constants[0] and other in self._constants[1]:
                return self.values(self._constants[0][one], self._constants[1][other])
            return self._names.get(one) is other
        one, other = settle(one), settle(other)
        if type(one) is not type(other):
            return False
        if isinstance(one, (np.ndarray, np.generic)):
            return bool(one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes())
        if isinstance(one, (tuple, list)):
            return len(one) == len(other) and all(map(self.values, one, other))
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(self.values(x, other[key]) for key, x in one.items())
        if isinstance(one, slice):
            return self.values((one.start, one.stop, one.step), (other.start, other.stop, other.step))
        if isinstance(one, (float, complex)):
            return repr(one) == repr(other)  # nan is nan, and 0.0 is not -0.0
        return bool(one is other or type(one).__eq__ in _CANNOT_TELL or one == other)


def _same_loops(one: Turns | None, other: Turns | None) -> bool:
    """Return whether two loops do the same in each turn; None stands for what is no loop."""
    if one is None or other is None:
        return one is other
    bodies = one.body, other.body
    if len(bodies[0].inputs) != len(bodies[1].inputs) or len(bodies[0].equations) != len(bodies[1].equations):
        return False
    same = _Same(zip(bodies[0].inputs, bodies[1].inputs, strict=True), *bodies)
    return all(map(same.equations, bodies[0].equations, bodies[1].equations)) and all(
        map(same.values, bodies[0].outputs, bodies[1].outputs)
    )


_CANNOT_TELL = (object.__eq__, FunctionType.__eq__, MethodType.__eq__, Tensor.__eq__, np.ufunc.__eq__)
"""What says nothing of whether two objects mean the same, such as two functions that were made in the same place."""


def _message(graph: Graph, equation: Equation | None) -> str:
    where = f"\n  at {equation.line}" if equation is not None and equation.line else ""
    what = f"in the operation {equation.primitive.name}" if equation is not None else "among its results"
    return (
        f"{graph.__name__} uses a value that changes from call to call, {what}: a random number, a clock, a counter. A "
        f"compiled program would use the first one for ever.{where}\nPass the value as an argument."
    )
