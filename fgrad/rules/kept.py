"""Snapshots of the data that a function refers to, for functions that run again later, as in a backward pass.

    kept = Kept()
    later = kept.now(function)      the same function, with copies of the plain data that it refers to
    with kept.given(name):          variables have their values at the time of the copy; raises if an array that was
                                    too large to copy has been overwritten

A solver's function runs again to be differentiated. By then the user may have overwritten an array that it closes over,
assigned to a variable of the loop around it, or changed an attribute. So the function is copied together with the
objects it refers to: its cells and defaults, globals of its module, the object whose method it is, and the functions,
objects and containers in these. Each array, list or object gets a single copy, so that functions which share a work
buffer still share it. Traced tensors are not copied, since they are replaced by identity (`closures.py`). The user's
objects themselves are never changed.
"""

from __future__ import annotations

import array
import collections
import dis
import functools
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import numpy as np

from fgrad.core.snapshots import LARGE, SMALL, ChecksumGuard, are_same, is_large
from fgrad.core.tensor import Tensor, own_handle
from fgrad.core.trace import Observer, Trace
from fgrad.core.variable import Cell, Variable, VariableWatch
from fgrad.errors.places import is_library
from fgrad.rules.closures import Given, given_now, running_layers
from fgrad.rules.names import GLOBALS, names_in
from fgrad.rules.uncopied import Uncopied
from fgrad.transforms.calls import PickledByName, Transformed

MOST = 10_000
"""The number of objects that are copied at most; further ones are shared."""

_shared: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Copies of arrays that are not small, by the ids of the arrays, shared between calls."""


class Kept:
    """Copies of objects that functions refer to; functions copied by one instance share what they shared before."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Any, Any]] = {}  # with the original, so that no other object gets its id
        self._unfilled: list[Callable[[], None]] = []
        self._large: list[Any] = []
        self._variables: dict[Variable, Any] = {}
        self._unless_written: ChecksumGuard | None = None
        self._uncopied = Uncopied()

    def now(self, x: object) -> Any:
        """Return a copy of a function, or of any other object."""
        copy = self._copy(x)
        while self._unfilled:
            self._unfilled.pop()()
        self._uncopied.look()
        return copy

    @contextmanager
    def given(self, name: str) -> Iterator[None]:
        """Give variables their earlier values, for a run of copied functions.

        Args:
            name: the name of the user's function in messages.

        Raises:
            OverwrittenError: a RuntimeError; a large array has changed since the first run, or an attribute of an
                object that is not copied has changed since the last run.
        """
        self._uncopied.check(name)
        try:
            with self._given(name):
                yield
        finally:
            self._uncopied.look()

    @contextmanager
    def _given(self, name: str) -> Iterator[None]:
        if self._unless_written is None:
            self._unless_written = ChecksumGuard(lambda _: None, self._large, name)
        elif self._large:
            self._unless_written(None)
        if not self._variables:
            yield
            return
        with Given({}, self._variables):
            yield

    def _copy(self, x: Any) -> Any:
        kind = type(x)
        if kind in _CONSTANTS:
            return x
        if kind is Tensor:
            return self._copy_of_tensor(x)
        known = self._copies.get(id(x))
        if known is not None:
            return known[1]
        if len(self._copies) >= MOST:
            return x
        self._copies[id(x)] = x, x
        how = self._copies_by_kind.get(kind)
        copy = self._copy_of_other(x) if how is None else how(self, x)
        self._copies[id(x)] = x, copy
        return copy

    def _copy_of_tensor(self, x: Tensor) -> Tensor:
        """Return a tensor object that the user does not write to; the same one if it may be replaced."""
        is_known = next(running_layers(x), None) is not None or any(each.is_replaced(x) for each in given_now())
        return x if is_known else own_handle(x)

    def _later(self, fill: Callable[[], None]) -> None:
        """Fill a copy after it is registered: its contents may refer to it."""
        self._unfilled.append(fill)

    def _copy_of_other(self, x: object) -> Any:
        if isinstance(x, np.ndarray):
            if is_large(x):
                self._large.append(x)
                return x
            return _copy_of_array(x)
        if isinstance(x, Variable) and not isinstance(x, Cell):
            self._variables[x] = x._value
            return x
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return type(x)._make(map(self._copy, x))  # type: ignore[attr-defined]
        kind: Any = type(x)
        if _is_open(kind):
            for each in kind.__mro__[:-1]:
                self._copy(each)
            return self._copy_of_object(x)
        if isinstance(x, type):
            return self._note_class(x)
        if not kind.__module__.startswith("fgrad."):
            self._uncopied.add(x)
        return x

    def _copy_of_list(self, x: list[Any]) -> list[Any]:
        if len(x) * 8 > LARGE:
            return x
        own: list[Any] = []
        self._later(lambda: own.extend(map(self._copy, x)))
        return own

    def _copy_of_tuple(self, x: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(self._copy, x))

    def _copy_of_dict(self, x: dict[Any, Any]) -> dict[Any, Any]:
        own = x.copy()
        own.clear()
        self._later(lambda: own.update({self._key(key): self._copy(value) for key, value in x.items()}))
        return own

    def _copy_of_set(self, x: set[Any] | frozenset[Any]) -> Any:
        return type(x)(map(self._key, x))

    def _key(self, x: object) -> Any:
        """Return the key for a copied dict or set: the copy of an object that hashes by identity, otherwise `x`."""
        identity: Any = object.__hash__
        return self._copy(x) if type(x).__hash__ is identity else x

    def _copy_of_object(self, x: object) -> Any:
        state = object.__reduce_ex__(x, 2)[2] if type(x) is not Transformed else vars(x)
        if not state:
            return x
        own = object.__new__(type(x))
        parts = state if isinstance(state, tuple) else (state,)

        def fill() -> None:
            for part in parts:
                for name, value in (part or {}).items():
                    object.__setattr__(own, name, self._copy(value))

        self._later(fill)
        return own

    def _note_module(self, x: types.ModuleType) -> types.ModuleType:
        if not is_library(getattr(x, "__file__", None) or dis.__file__):
            self._uncopied.add(x)
        return x

    def _note_class(self, x: type[Any]) -> Any:
        """Register a class of the user's, and the names that its methods use."""
        if not _is_python(x) or is_library(getattr(sys.modules.get(x.__module__), "__file__", None) or ""):
            return x
        self._uncopied.add(x)
        for function in filter(None, map(_function_of, vars(x).values())):
            if _is_users(function):
                self._uncopied.mention(function.__code__)
                self._uncopied.add_names(names_in(function.__code__, GLOBALS), function.__globals__)
        return x

    def _copy_of_method(self, x: types.MethodType) -> types.MethodType:
        return types.MethodType(self._copy(x.__func__), self._copy(x.__self__))

    def _copy_of_partial(self, x: functools.partial[Any]) -> Any:
        keywords = {name: self._copy(value) for name, value in x.keywords.items()}
        return functools.partial(self._copy(x.func), *map(self._copy, x.args), **keywords)

    def _copy_of_namespace(self, x: types.SimpleNamespace) -> types.SimpleNamespace:
        own = types.SimpleNamespace()
        self._later(lambda: vars(own).update({name: self._copy(value) for name, value in vars(x).items()}))
        return own

    def _copy_of_function(self, x: types.FunctionType) -> types.FunctionType:
        is_users = _is_users(x)
        if is_users:
            self._uncopied.mention(x.__code__)
        if not is_users and not x.__closure__:
            return x
        cells = tuple(map(self._copy, x.__closure__ or ()))
        known = self._globals_of(x) if is_users else x.__globals__
        own = types.FunctionType(x.__code__, known, x.__name__, None, cells)
        own.__qualname__, own.__doc__, own.__module__ = x.__qualname__, x.__doc__, x.__module__

        def fill() -> None:
            own.__defaults__, own.__kwdefaults__ = self._copy(x.__defaults__), self._copy(x.__kwdefaults__)
            own.__dict__.update({name: self._copy(value) for name, value in x.__dict__.items()})

        self._later(fill)
        return own

    def _globals_of(self, x: types.FunctionType) -> dict[str, Any]:
        """Return the globals that a function uses, in a dict shared by the functions of the module."""
        known, names = x.__globals__, names_in(x.__code__, GLOBALS)
        if names & {"globals", "eval", "exec"}:  # the names it uses are unknown
            return known
        if id(known) not in self._copies:
            special = {name: value for name, value in known.items() if name.startswith("__") and name.endswith("__")}
            self._copies[id(known)] = known, special
        own: dict[str, Any] = self._copies[id(known)][1]

        def fill() -> None:
            for name in names & known.keys() - own.keys():
                own[name] = self._copy(known[name])

        self._later(fill)
        return own

    def _copy_of_cell(self, x: types.CellType) -> types.CellType:
        own = types.CellType()

        def fill() -> None:
            with suppress(ValueError):  # the cell is still empty
                own.cell_contents = self._copy(x.cell_contents)

        self._later(fill)
        return own

    def _copy_by_itself(self, x: Any) -> Any:
        return x[:]

    _copies_by_kind: ClassVar[dict[type, Callable[..., Any]]] = {
        list: _copy_of_list,
        tuple: _copy_of_tuple,
        **dict.fromkeys((dict, collections.OrderedDict, collections.defaultdict), _copy_of_dict),
        **dict.fromkeys((set, frozenset), _copy_of_set),
        **dict.fromkeys((bytearray, array.array), _copy_by_itself),
        types.FunctionType: _copy_of_function,
        types.MethodType: _copy_of_method,
        types.CellType: _copy_of_cell,
        types.SimpleNamespace: _copy_of_namespace,
        types.ModuleType: _note_module,
        type: _note_class,
        functools.partial: _copy_of_partial,
    }


_CONSTANTS = {
    *(int, float, complex, bool, str, bytes, range, slice, type(None), type(...), np.ufunc, np.dtype),
    *(types.BuiltinFunctionType, types.CodeType, np.float64, np.float32, np.int64, np.bool_),
}


def _is_users(function: types.FunctionType) -> bool:
    return not is_library(function.__code__.co_filename)


def _function_of(x: Any) -> types.FunctionType | None:
    """Return the function of a class attribute: a method, or the getter of a property."""
    found = getattr(x, "__func__", getattr(x, "fget", x))
    return found if isinstance(found, types.FunctionType) else None


def _copy_of_array(x: Any) -> Any:
    """Return a copy of an array; the function may use it as a work buffer."""
    if x.nbytes <= SMALL or x.dtype.kind == "O":
        return x.copy("K")
    known = _shared.get(id(x))
    if known is None or type(known) is not type(x) or not are_same(x, known):
        known = _shared[id(x)] = x.copy("K")
    return known


_OWN = ("fgrad.rules.", "fgrad.scipy.", "fgrad.transforms.")
_WAYS = ("__reduce__", "__reduce_ex__", "__getstate__")
_OWN_WAYS = ("__setstate__", "__copy__", "__deepcopy__", "__getnewargs__", "__getnewargs_ex__", "__del__")


@functools.lru_cache(maxsize=1024)
def _is_open(kind: type) -> bool:
    """Return whether instances of a class consist of their attributes; the class is the user's or fgrad's."""
    if kind is Transformed:
        return True
    if issubclass(kind, (Trace, Observer, VariableWatch, Variable)) or not all(map(_is_python, kind.__mro__)):
        return False
    known = (object, PickledByName)
    if any(getattr(kind, name, None) not in [getattr(each, name, None) for each in known] for name in _WAYS):
        return False
    if any(hasattr(kind, name) for name in _OWN_WAYS):
        return False
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return file is None or not is_library(file) or kind.__module__.startswith(_OWN)


def _is_python(kind: type) -> bool:
    return kind is object or kind.__module__ in ("typing", "abc") or bool(kind.__flags__ & 1 << 9)
