"""Values that a recording has frozen although they change from call to call."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.tensor import settle
from fgrad.core.variable import Variable
from fgrad.graphs.equations import Equation, Name
from fgrad.graphs.graph import Graph
from fgrad.graphs.record import recorded


def check_repeats(
    function: Callable[..., Any], examples: tuple[Any, ...], first: Graph, assigned: tuple[Variable, ...]
) -> None:
    """Record a function once more, and raise if it does something else.

    Args:
        function: of the examples.
        examples: arrays and numbers.
        first: what was recorded before.
        assigned: the variables that were assigned then.

    Raises:
        FrozenValueError: a constant, or the program, is another one.
    """
    second, again = recorded(function, examples, {}, integers=True)
    if list(first.variables.values()) != list(second.variables.values()) or assigned != again:
        raise errors.FrozenValueError(
            f"{first.__name__} uses other variables each time that it runs: one that it makes itself lives no "
            "longer than a call.\nCreate variables outside of the compiled function."
        )
    same = _Same(first, second)
    for one, other in zip_longest(first.equations, second.equations):
        if one is None or other is None or not same.equations(one, other):
            raise errors.FrozenValueError(_message(first, other or one))
    if not all(map(same.values, first.outputs, second.outputs)):
        raise errors.FrozenValueError(_message(first, None))


class _Same:
    """Compares two recordings of one function, name by name."""

    def __init__(self, first: Graph, second: Graph) -> None:
        names = zip((*first.inputs, *first.variables), (*second.inputs, *second.variables), strict=True)
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
        if isinstance(one, (int, float, complex, str)):
            return bool(one == other or one != one)
        return True  # what cannot be compared, such as functions and settings


def _message(graph: Graph, equation: Equation | None) -> str:
    where = f"\n  at {equation.line}" if equation is not None and equation.line else ""
    what = f"in the operation {equation.primitive.name}" if equation is not None else "among its results"
    return (
        f"{graph.__name__} uses a value that changes from call to call, {what}: a random number, a clock, a counter. A "
        f"compiled program would use the first one for ever.{where}\nPass the value as an argument."
    )
