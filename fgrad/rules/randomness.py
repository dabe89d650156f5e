"""Random numbers of functions that are run again: each run draws the same ones.

states = RandomStates(function, leaves)     the current states of NumPy's generators that a function may use
with states.again():                        sets these states for a block; restores the later ones after it
with states.put_back():                     restores these states after a block
generators_of(function)                     the generators that a function may use
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

_GENERATORS = (np.random.Generator, np.random.RandomState)


class RandomStates:
    """The states of generators: NumPy's global one, and those that a function visibly uses.

    Visible are generators among the arguments, in the function's closure, among its defaults, as attributes of the
    object whose method it is, and among the globals that it names.

    Args:
        function: the user's function.
        leaves: the leaves of its arguments.
    """

    def __init__(self, function: Callable[..., Any], leaves: Sequence[Any] = ()) -> None:
        seen = {id(each): each for each in [np.random.mtrand._rand, *leaves, *_mentioned(function)]}
        generators = [each for each in seen.values() if isinstance(each, _GENERATORS)]
        self._states = [(each, _state(each)) for each in generators]

    @contextmanager
    def again(self) -> Iterator[None]:
        """Set the states in a block, and restore the current ones after it; unused generators are not touched."""
        now = [(generator, _state(generator)) for generator, _ in self._states]
        _set(self._states)
        try:
            yield
        finally:
            _set(now)

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """Restore the states after a block of runs whose draws do not count."""
        try:
            yield
        finally:
            _set(self._states)

    def keep_used(self) -> None:
        """Drop the generators that have not been used since."""
        self._states = [(each, state) for each, state in self._states if not _are_same(_state(each), state)]


def generators_of(function: Callable[..., Any]) -> list[Any]:
    """Return the generators that a function visibly uses."""
    return [each for each in _mentioned(function) if isinstance(each, _GENERATORS)]


def _state(generator: Any) -> Any:
    return generator.bit_generator.state if isinstance(generator, np.random.Generator) else generator.get_state(False)


def _set(states: Sequence[tuple[Any, Any]]) -> None:
    for generator, state in states:
        if _are_same(_state(generator), state):
            continue
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = state
        else:
            generator.set_state(state)


def _are_same(a: Any, b: Any) -> bool:
    """Return whether two states are equal: dicts of numbers, strings and arrays."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_are_same(value, b[key]) for key, value in a.items())
    return bool(np.array_equal(a, b))


def _mentioned(function: Callable[..., Any]) -> list[Any]:
    """Return the objects that a function closes over, or uses as globals."""
    found: list[Any] = []
    while isinstance(function, functools.partial):
        found += [*function.args, *function.keywords.values()]
        function = function.func
    if isinstance(function, types.MethodType):
        found += vars(function.__self__).values() if hasattr(function.__self__, "__dict__") else ()
        function = function.__func__
    elif not isinstance(function, types.FunctionType) and hasattr(function, "__dict__"):
        found += vars(function).values()  # a callable object
    if isinstance(function, types.FunctionType):
        found += function.__defaults__ or ()
        found += (function.__kwdefaults__ or {}).values()
        for cell in function.__closure__ or ():
            try:
                found.append(cell.cell_contents)
            except ValueError:  # the cell is still empty
                continue
        found += [function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__]
    return found
