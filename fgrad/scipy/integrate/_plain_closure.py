"""Copies of callbacks with plain arrays in their closures instead of tensors, for calls at NumPy's speed.

    twin = Twin(function)
    twin.function          an equivalent function; the original, if it closes over no tensor
    twin.is_up_to_date()   whether the closed-over values are unchanged

A solver calls a function hundreds of times with plain values. Untraced tensors give the same numbers,
but every operation with one takes a microsecond longer; with ten parameters this can be ten times as long. So
the cells of the function are copied with arrays in them. Code that needs tensors or mutation, such as calling
`.numpy()` or writing into a list of tensors, raises in the copy; the original function is then called.
"""

from __future__ import annotations

import dis
import functools
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, strip_ended
from fgrad.typing import Array

Function = Callable[..., Any]


class Twin:
    """A copy of a function, and of the functions that it closes over, without tensors.

    Args:
        function: any callable; a callable that is not a Python function is not copied.
    """

    def __init__(self, function: Function) -> None:
        self._copies: dict[int, Any] = {}
        self._cells: list[tuple[types.CellType, Any]] = []
        self.function: Function = self._copy(function)

    def is_up_to_date(self) -> bool:
        """Return whether the copied variables are unchanged."""
        return all(cell.cell_contents is content for cell, content in self._cells)

    def _copy(self, x: object) -> Any:
        """Return the replacement of an object: itself, unless it contains a tensor."""
        if type(x) in BOXES:
            value = strip_ended(x)
            return x if type(value) is Tensor else _read_only(value)
        if id(x) not in self._copies:
            self._copies[id(x)] = x  # a function may be in its own cell
            self._copies[id(x)] = self._copy_of_container(x)
        return self._copies[id(x)]

    def _copy_of_container(self, x: Any) -> Any:
        if isinstance(x, types.FunctionType):
            return self._copy_of_function(x)
        if isinstance(x, types.MethodType):
            function = self._copy(x.__func__)
            return x if function is x.__func__ else types.MethodType(function, x.__self__)
        rebuilt: Function
        if type(x) is functools.partial:
            items = (x.func, *x.args, *x.keywords.values())
            rebuilt = functools.partial(_partial, len(x.args), tuple(x.keywords))
        elif type(x) in (tuple, list):
            items = tuple(x)
            rebuilt = _tuple if type(x) is tuple else _frozen_list
        elif type(x) is dict:
            items = tuple(x.values())
            rebuilt = functools.partial(_frozen_dict, tuple(x))
        else:
            return x
        copies = [self._copy(item) for item in items]
        return x if all(map(operator.is_, copies, items)) else rebuilt(*copies)

    def _copy_of_function(self, function: types.FunctionType) -> Any:
        cells = [self._copy_of_cell(cell) for cell in function.__closure__ or ()]
        moved = [
            name
            for name, cell, copy in zip(function.__code__.co_freevars, function.__closure__ or (), cells, strict=True)
            if cell is not copy
        ]
        defaults = self._copy(function.__defaults__)
        keywords = self._copy(function.__kwdefaults__)
        if not moved and defaults is function.__defaults__ and keywords is function.__kwdefaults__:
            return function
        if set(moved) & _assigned_in(function.__code__):
            return function
        twin = types.FunctionType(function.__code__, function.__globals__, function.__name__, defaults, tuple(cells))
        twin.__kwdefaults__ = None if keywords is None else dict(keywords)
        twin.__dict__.update(function.__dict__)
        return twin

    def _copy_of_cell(self, cell: types.CellType) -> types.CellType:
        try:
            content = cell.cell_contents
        except ValueError:  # an empty cell
            return cell
        copy = self._copy(content)
        if copy is content:
            return cell
        self._cells.append((cell, content))
        return types.CellType(copy)


def _read_only(value: Array) -> Array:
    array = np.asarray(value).view()
    array.flags.writeable = False
    return array[()]


def _assigned_in(code: types.CodeType) -> set[str]:
    """Return the names of outer variables that a function assigns to."""
    names = {each.argval for each in dis.get_instructions(code) if each.opname in ("STORE_DEREF", "DELETE_DEREF")}
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return names.union(*map(_assigned_in, inner))


def _partial(count: int, names: tuple[str, ...], function: Callable[..., Any], *rest: object) -> Any:
    return functools.partial(function, *rest[:count], **dict(zip(names, rest[count:], strict=True)))


def _tuple(*items: object) -> tuple[Any, ...]:
    return items


def _frozen_list(*items: object) -> _FrozenList:
    return _FrozenList(items)


def _frozen_dict(keys: tuple[Any, ...], *items: object) -> _FrozenDict:
    return _FrozenDict(zip(keys, items, strict=True))


def _refuse(*args: object, **keywords: object) -> Any:
    raise TypeError("a copy of a container cannot be modified")


class _FrozenList(list[Any]):
    """A list that rejects changes, since they would be lost."""

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse


class _FrozenDict(dict[Any, Any]):
    """A dict that rejects changes."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    pop = popitem = clear = update = setdefault = _refuse
