"""Names of NumPy and SciPy, with functions that also accept lists of traced numbers.

fill(globals(), numpy)   add the names of a NumPy module
members(module, ...)     the `__getattr__` and `__dir__` of a module with the names of others
gathered(x)              a list with traced numbers as one tensor; other objects unchanged
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import fgrad.numpy as fnp
from fgrad import is_traced
from fgrad.compat.autograd.primitives import open_to_rules
from fgrad.errors import hints
from fgrad.typing import ArrayLike

_SEQUENCES = (list, tuple)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type(np.sum))


def holds_traced(x: ArrayLike) -> bool:
    """Return whether an object is traced, or a list or tuple with traced values at any depth."""
    if isinstance(x, _SEQUENCES):
        kinds = set(map(type, x))
        return not kinds <= _PLAIN and any(map(holds_traced, x))
    return is_traced(x)


_PLAIN = {float, int, bool, str, np.float64, type(None)}


def gathered(x: ArrayLike) -> Any:
    """Return a list or tuple with traced numbers as one tensor, and other objects unchanged."""
    return fnp.array(x) if isinstance(x, _SEQUENCES) and holds_traced(x) else x


def taking_lists(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that accepts lists of traced numbers like arrays."""

    @functools.wraps(function)
    def call(*args: ArrayLike, **kwargs: object) -> Any:
        for x in args:
            if isinstance(x, _SEQUENCES):
                return function(*map(gathered, args), **kwargs)
        return function(*args, **kwargs)

    return call


_OF_LISTS = {"multi_dot", "lexsort", "ix_"}
"""Functions of lists of arrays, whose shapes may differ."""


def fill(namespace: dict[str, Any], module: object) -> None:
    """Add the public names of a NumPy module; functions also accept lists of traced numbers."""
    for name in public([module]):
        value = getattr(module, name)
        is_wrapped = isinstance(value, _FUNCTIONS) and name not in _OF_LISTS
        namespace[name] = taking_lists(value) if is_wrapped else value


def members(name: str, *modules: object) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a module that looks its names up in several modules, in order.

    A function without rules accepts rules from `defvjp`: in Autograd all functions are primitives.

    Args:
        name: the name of the module.
        modules: the modules with its names.
    """

    @functools.cache
    def find(wanted: str) -> Any:
        for module in modules:
            if not wanted.startswith("_") and hasattr(module, wanted):
                return open_to_rules(getattr(module, wanted))
        raise hints.missing_name(name, wanted)

    return find, lambda: sorted(public(modules))


def public(modules: Iterable[Any]) -> set[str]:
    """Return the public names of modules."""
    return {name for module in modules for name in dir(module) if not name.startswith("_")}
