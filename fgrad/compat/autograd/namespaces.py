"""Names of NumPy and SciPy, of which functions also take lists of traced numbers.

fill(globals(), numpy)   enter the names of one of NumPy's modules
members(module, ...)     the `__getattr__` and `__dir__` of a module that answers with the names of others
gathered(x)              a list that holds traced numbers as one tensor, and anything else as it is
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

_SEQUENCES = (list, tuple)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type(np.sum))


def holds_traced(x: Any) -> bool:
    """Return whether something is traced, or a list or tuple that holds what is traced at any depth."""
    if isinstance(x, _SEQUENCES):
        kinds = set(map(type, x))
        return not kinds <= _PLAIN and any(map(holds_traced, x))
    return is_traced(x)


_PLAIN = {float, int, bool, str, np.float64, type(None)}


def gathered(x: Any) -> Any:
    """Return a list or tuple that holds traced numbers as one tensor, and anything else as it is."""
    return fnp.array(x) if isinstance(x, _SEQUENCES) and holds_traced(x) else x


def taking_lists(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes lists of traced numbers as it takes arrays."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for x in args:
            if isinstance(x, _SEQUENCES):
                return function(*map(gathered, args), **kwargs)
        return function(*args, **kwargs)

    return call


_OF_LISTS = {"multi_dot", "lexsort", "ix_"}
"""Functions of lists of arrays, which may differ in shape."""


def fill(namespace: dict[str, Any], module: Any) -> None:
    """Enter the public names of one of NumPy's modules, of which functions take lists of traced numbers, too."""
    for name in public([module]):
        value = getattr(module, name)
        is_wrapped = isinstance(value, _FUNCTIONS) and name not in _OF_LISTS
        namespace[name] = taking_lists(value) if is_wrapped else value


def members(name: str, *modules: Any) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return what answers for a module's names: with those of the first of several modules that has them.

    A function without rules takes those that `defvjp` is handed for it: with Autograd all functions are primitives.

    Args:
        name: of the module that answers.
        modules: where its names come from.
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
