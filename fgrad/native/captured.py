"""Detection of changes in the values that a recorded function captures: globals, closures, attributes, arrays.

    captured = Captured(function, others)
    captured.change()            the name of a value that has changed, such as `self.k`; empty if none has
    captured.forget_changed()    ignore values that the function itself changes

A program is valid as long as the values to which the function refers are unchanged since the recording: its closure
cells and defaults, globals, attributes, items, the functions that it calls, and the values to which these refer. Only
attributes whose names occur in the code are compared, since others may change in each call. The code includes that of
special methods, which operators call. The methods of a library's object are not read: its arrays and functions are
compared whatever their names.
Objects are compared by identity, numbers and strings by value, arrays and tables by their elements; large arrays by
fingerprints, and read-only arrays not at all. Variables are inputs of programs, so they are not compared.
"""

from __future__ import annotations

import argparse
import array
import collections
import collections.abc
import contextvars
import dataclasses
import functools
import itertools
import operator
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from fgrad.core.foreign import package_of
from fgrad.core.snapshots import SMALL, fingerprint, is_read_only
from fgrad.core.tensor import Tensor, own_handle
from fgrad.core.variable import Variable
from fgrad.errors.places import is_library
from fgrad.rules.names import names_in
from fgrad.transforms.calls import Transformed

_MOST_OBJECTS = 10_000
"""The maximal number of objects that are visited."""
_NOTHING, _CONTENTS = object(), "contents"
_VALUES = (int, float, complex, str, bytes, np.generic)
_MAPPINGS = (dict, types.MappingProxyType, collections.ChainMap, collections.UserDict)
_CONTAINERS = (*_MAPPINGS, list, tuple, set, frozenset, collections.deque, collections.UserList)
_NAMESPACES = (types.SimpleNamespace, argparse.Namespace)
_DYNAMIC_ACCESS = {
    "vars",
    "__dict__",
    "getattr",
    "globals",
    "locals",
    "eval",
    "exec",
    "asdict",
    "astuple",
    "attrgetter",
}
"""Names in code that may access any attribute."""
_CONSTRUCTORS = {"__new__", "__init__", "__post_init__"}
_NOT_CALLED = {
    *_CONSTRUCTORS,
    *("__repr__", "__str__", "__format__", "__dir__", "__sizeof__", "__del__", "__copy__", "__deepcopy__"),
    *("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__"),
    *("__init_subclass__", "__subclasshook__", "__set_name__", "__class_getitem__"),
}
"""Special methods of objects on which computed values do not depend: they make objects, text, copies and classes."""
_USED_BY_LIBRARIES = (np.ndarray, tuple, types.FunctionType, types.MethodType, functools.partial)
_BUFFERS = (bytearray, memoryview, array.array)
_TABLES = ("pandas", "xarray", "pint")
"""Libraries whose objects hold arrays that their own methods return."""

Check = Callable[[], bool]


class Captured:
    """The current values to which a function refers.

    Args:
        function: the user's function.
        others: further values on which the program depends, such as static arguments.

    Attributes:
        arrays: the arrays and tensors to which it refers, with their names.
    """

    def __init__(self, function: Callable[..., Any], others: Sequence[Any] = ()) -> None:
        self._names: set[str] = set()
        self._open: list[tuple[str, Mapping[str, Any]]] = []
        self._seen: dict[int, Any] = {}
        self._classes: dict[type, Mapping[str, Any]] = {}
        self._waiting: list[tuple[str, Any]] = [("", function), *(("an argument", x) for x in others)]
        self._bindings: dict[int, _Bindings] = {}
        self._checks: list[tuple[str, Check]] = []
        self.arrays: list[tuple[str, Any]] = []
        while self._waiting and len(self._seen) < _MOST_OBJECTS:
            self._visit(*self._waiting.pop())
        self._seen.clear()
        self._classes.clear()
        self._open.clear()
        self._waiting.clear()
        self._identities = _Identities(self._bindings.values())

    def change(self) -> str:
        """Return the name of a value that has changed; an empty string if none has."""
        if self._bindings and not self._identities.are_identical():
            for binding in self._bindings.values():
                if changed := binding.change():
                    return changed
        for what, holds in self._checks:
            if not holds():
                return what or "what it refers to"
        return ""

    def forget_changed(self) -> None:
        """Forget values that have changed, since the function itself changes them, as when it counts its calls."""
        for each in self._bindings.values():
            each.forget_changed()
        self._identities = _Identities(self._bindings.values())
        self._checks = [(what, holds) for what, holds in self._checks if holds()]

    # Traversal of the captured values

    def _visit(self, what: str, x: Any) -> None:
        kind = type(x)
        if isinstance(x, _VALUES) or x is None or id(x) in self._seen:
            return
        self._seen[id(x)] = x  # keeps it alive, so that no other object gets its id
        if kind is Tensor or isinstance(x, np.ndarray):
            self.arrays.append((what, x))
        if kind is Tensor:
            self._checks.append((what, _tensor_check(x)))
        elif isinstance(x, np.ndarray):
            self._checks.extend(() if is_read_only(x) else [(what, _array_check(x))])
            if kind is not np.ndarray:
                self._visit_library_object(what, x)
        elif (visit := self._visits.get(kind)) is not None:
            visit(self, what, x)
        elif isinstance(x, Transformed):
            self._waiting.append((what, x.__wrapped__ if hasattr(x, "__wrapped__") else vars(x)["_function"]))
        elif isinstance(x, _CONTAINERS):
            self._visit_items(what, x)
        elif isinstance(x, _BUFFERS):
            self._checks.append((what, _same(lambda: bytes(x))))
        elif isinstance(x, Variable):
            pass
        elif (methods := getattr(kind, "_called_in_steps", None)) is not None:
            self._visit_settings(what, x, methods)
        elif isinstance(x, _NAMESPACES) or not _is_of_library(x):
            self._visit_object(what, x)
        elif not isinstance(x, (type, types.ModuleType)):
            self._visit_library_object(what, x)

    def _visit_function(self, what: str, x: types.FunctionType) -> None:
        if is_library(x.__code__.co_filename) and _is_of_its_module(x):
            return
        for name, cell in zip(x.__code__.co_freevars, x.__closure__ or (), strict=True):
            self._bind(_Cell(cell), _CONTENTS, _Cell(cell).get(_CONTENTS), name)
        self._waiting += [(f"a default of {x.__name__}", each) for each in (*(x.__defaults__ or ()), x.__kwdefaults__)]
        if is_library(x.__code__.co_filename):
            return
        self._checks.append((x.__name__, _function_check(x)))
        self._open.append((x.__name__, vars(x)))
        self._bind_attributes(x.__name__, vars(x), self._names)
        names = names_in(x.__code__)
        for name in names & x.__globals__.keys():
            self._bind(x.__globals__, name, x.__globals__[name], name)
        self._add_names(names)

    def _add_names(self, names: frozenset[str]) -> None:
        """Add names that occur in code, and record the attributes of these names."""
        new = names - self._names
        self._names |= new
        for owner, attributes in self._open if new else ():
            self._bind_attributes(owner, attributes, new)

    def _visit_method(self, what: str, x: types.MethodType) -> None:
        self._waiting += [("self", x.__self__), (what, x.__func__)]

    def _visit_partial(self, what: str, x: functools.partial[Any]) -> None:
        self._waiting.append((what, x.func))
        self._waiting += [("an argument of functools.partial", each) for each in (*x.args, *x.keywords.values())]

    def _visit_wrapped(self, what: str, x: Any) -> None:
        self._waiting.append((what, x.fget if type(x) is property else x.__func__))

    def _visit_getter(self, what: str, x: operator.attrgetter[Any]) -> None:
        paths = x.__reduce__()[1]
        self._add_names(frozenset(name for path in paths for name in str(path).split(".")))

    def _visit_context(self, what: str, x: contextvars.ContextVar[Any]) -> None:
        value = _value_in_context(x)
        self._checks.append((what, lambda: _is_same(_value_in_context(x), value)))
        self._waiting.append((what, value))

    def _visit_items(self, what: str, x: Any) -> None:
        if isinstance(x, _MAPPINGS):
            for key, value in x.items():
                self._bind(x, key, value, f"{what}[{key!r:.30}]")
            self._checks.append((what, _has_length(x)))
            return
        items = tuple(x)
        self._waiting += [(f"{what}[{position}]", each) for position, each in enumerate(items)]
        if not isinstance(x, (tuple, frozenset)):
            self._checks.append((what, lambda: len(x) == len(items) and all(map(_is_same, tuple(x), items))))

    def _visit_object(self, what: str, x: Any) -> None:
        """Record the attributes of an object and its class, or of a user's module."""
        kinds = (x.__mro__ if isinstance(x, type) else ()) + type(x).__mro__
        known = self._classes
        found: list[Mapping[str, Any]] = []
        if not isinstance(x, type):
            found += [getattr(x, "__dict__", {}), *_slot_attributes(x)]
        for kind in kinds:
            if kind not in known and not _is_of_library(kind):
                known[kind] = kind.__dict__
                found.append(known[kind])
        for each in found:
            self._open.append((what, each))
            self._bind_attributes(what, each, self._names)
            self._checks.append((what, _has_length(each)))  # a new attribute would hide that of a class
        if isinstance(x, type):  # code that refers to a class makes objects of it
            for each in [known[kind] for kind in kinds if kind in known]:
                self._bind_those(what, each, [name for name in _CONSTRUCTORS if name in each])
        else:
            self._checks.append((what, _class_check(x)))

    def _visit_settings(self, what: str, x: Any, methods: Iterable[str]) -> None:
        """Record the parameters of an optimizer or a schedule, and what methods of the user's classes refer to."""
        attributes = vars(x)
        fields = [field.name for field in dataclasses.fields(x)] if dataclasses.is_dataclass(x) else list(attributes)
        for name in fields:
            if name in attributes and not name.startswith("_"):
                self._bind(attributes, name, attributes[name], f"{what}.{name}")
        if not _is_of_library(x):
            self._visit_object(what, x)
            self._waiting += [(what, getattr(type(x), method)) for method in methods]

    def _visit_library_object(self, what: str, x: Any) -> None:
        """Record the attributes of a library's object, such as a namespace or a model, which may add further ones."""
        if package_of(type(x)) in _TABLES:
            self._checks.append((what, _same(functools.partial(_contents_of_table, x))))
        attributes = getattr(x, "__dict__", None)
        for each in [*([attributes] if isinstance(attributes, dict) else ()), *_slot_attributes(x)]:
            self._bind_those(what, each, [name for name in each if isinstance(each[name], _USED_BY_LIBRARIES)])
        if isinstance(attributes, dict) and package_of(type(x)) != "fgrad":
            self._open.append((what, attributes))
            self._bind_attributes(what, attributes, self._names)

    def _bind_attributes(self, owner: str, attributes: Mapping[str, Any], names: set[str] | frozenset[str]) -> None:
        """Record the attributes of some names; where these are all names so far, also the special methods."""
        is_dynamic, is_first = bool(names & _DYNAMIC_ACCESS), names is self._names
        self._bind_those(
            owner,
            attributes,
            [
                name
                for name, value in list(attributes.items())
                if name in names
                or (is_dynamic and not name.startswith("__"))
                or (is_first and name.startswith("__") and name not in _NOT_CALLED and callable(value))
            ],
        )

    def _bind_those(self, owner: str, attributes: Mapping[str, Any], names: Iterable[str]) -> None:
        for name in names:
            self._bind(attributes, name, attributes[name], f"{owner}.{name}")

    def _bind(self, owner: object, key: str, value: object, what: str) -> None:
        """Record that a key has a value, and visit the value."""
        self._bindings.setdefault(id(owner), _Bindings(owner)).known[key] = value, what
        self._waiting.append((what, value))

    _visits: ClassVar[dict[type, Callable[..., None]]] = {
        types.FunctionType: _visit_function,
        types.MethodType: _visit_method,
        functools.partial: _visit_partial,
        **dict.fromkeys((property, staticmethod, classmethod), _visit_wrapped),
        operator.attrgetter: _visit_getter,
        contextvars.ContextVar: _visit_context,
        weakref.ref: lambda self, what, x: self._waiting.append((what, x())),
    }


def _weakly(x: Any) -> Callable[[], Any]:
    """Return a function that returns an object, and does not keep it alive if that can be."""
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: x


def _function_check(x: types.FunctionType) -> Check:
    """Return a check that a function has its current code and defaults, which tools that reload modules replace."""
    code, defaults, by_keyword = x.__code__, x.__defaults__, x.__kwdefaults__
    return lambda: x.__code__ is code and x.__defaults__ is defaults and x.__kwdefaults__ is by_keyword


def _class_check(x: Any) -> Check:
    """Return a check that an object has its current class, which tools that reload modules replace."""
    kind, owner = type(x), _weakly(x)
    return lambda: type(owner()) is kind


def _has_length(x: Any) -> Check:
    count = len(x)
    return lambda: len(x) == count


class _Bindings:
    """The recorded values of some keys of a mapping.

    Attributes:
        owner: the mapping.
        known: for each key, the value and its name in messages.
    """

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.known: dict[Any, tuple[Any, str]] = {}

    def change(self) -> str:
        """Return the name of a value that has changed; an empty string if none has."""
        return next((what for key, (value, what) in self.known.items() if not _is_same(self._get(key), value)), "")

    def forget_changed(self) -> None:
        """Forget values that have changed."""
        self.known = {key: each for key, each in self.known.items() if _is_same(self._get(key), each[0])}

    def _get(self, key: Any) -> Any:
        return self.owner.get(key, _NOTHING)


class _Identities:
    """The recorded values of all mappings, compared by identity without a Python-level loop."""

    def __init__(self, bindings: Iterable[_Bindings]) -> None:
        bindings = [each for each in bindings if each.known]
        self._owners = [each.owner for each in bindings]
        # A single key is repeated, since itemgetter returns a tuple only for several keys.
        keys = [[*each.known, *each.known] if len(each.known) == 1 else [*each.known] for each in bindings]
        self._getters = [operator.itemgetter(*each) for each in keys]
        self._values = [binding.known[key][0] for binding, own in zip(bindings, keys, strict=True) for key in own]

    def are_identical(self) -> bool:
        """Return whether all values are the same objects as before."""
        try:
            found = itertools.chain.from_iterable(map(operator.call, self._getters, self._owners))
            return all(map(operator.is_, found, self._values))
        except KeyError:
            return False


class _SlotAttributes(dict[str, Any]):
    """The attributes of an object in slots, as a mapping.

    Args:
        owner: the object.
        names: the names of its slots.
    """

    def __init__(self, owner: Any, names: Sequence[str]) -> None:
        super().__init__({name: getattr(owner, name, _NOTHING) for name in names})
        self._owner = _weakly(owner)

    @override
    def get(self, key: str, nothing: object = None) -> Any:
        """Return the current value of a slot."""
        return getattr(self._owner(), key, _NOTHING)

    __getitem__ = get


class _Cell:
    """A closure cell, as a mapping of one value."""

    def __init__(self, cell: types.CellType) -> None:
        self._cell = cell

    def get(self, key: str, nothing: object = None) -> Any:
        """Return the current content of the cell."""
        try:
            return self._cell.cell_contents
        except ValueError:  # it is empty
            return _NOTHING

    __getitem__ = get


def _is_same(found: object, value: object) -> bool:
    """Return whether two values are equal for a program: 0.0 differs from -0.0, and nan equals nan."""
    if found is value:
        return True
    if type(found) is not type(value) or not isinstance(value, _VALUES):
        return type(value) is types.MethodType and found == value
    return repr(found) == repr(value)


def _same(value: Callable[[], Any]) -> Check:
    """Return a check that a function returns a value equal to the current one."""
    before = value()
    return lambda: bool(value() == before)


def _array_check(array: Any) -> Check:
    """Return a check that an array still has its current elements, shape, strides and dtype."""
    if array.dtype.hasobject:
        items = array.ravel().tolist()
        return lambda: all(map(_is_same, array.ravel().tolist(), items))
    return _same(functools.partial(_contents, array))


def _contents(array: Any) -> tuple[Any, ...]:
    """Return the shape, strides and dtype of an array without objects, and its elements or a fingerprint of them."""
    elements = array.tobytes() if array.nbytes <= SMALL else fingerprint(array)
    return array.shape, array.strides, array.dtype, elements


def _contents_of_table(table: Any) -> list[Any]:
    """Return the columns, labels and elements of a table or of an array with labels or units, to be compared."""
    parts = [table]
    if isinstance(table, collections.abc.Mapping):
        parts = [*table.values()]
    elif hasattr(table, "columns"):
        parts = [table.columns, *(table.iloc[:, position] for position in range(len(table.columns)))]
    elif hasattr(table, "magnitude"):
        parts = [table.magnitude, str(table.units)]
    arrays = [np.asarray(each) for each in (*parts, *([table.index] if hasattr(table, "index") else ()))]
    return [(each.shape, list(map(repr, each.ravel()))) if each.dtype.hasobject else _contents(each) for each in arrays]


def _slot_attributes(x: Any) -> list[_SlotAttributes]:
    """Return the attributes of an object in slots as a mapping, if it has any."""
    names = []
    for kind in type(x).__mro__:
        own = kind.__dict__.get("__slots__", ())
        own = [own] if isinstance(own, str) else own
        names += [_mangled(name, kind.__name__) for name in own if name not in ("__dict__", "__weakref__")]
    return [_SlotAttributes(x, names)] if names else []


def _mangled(name: str, owner: str) -> str:
    """Return the name that an attribute has outside of its class: a private one contains the name of the class."""
    is_private = name.startswith("__") and not name.endswith("__")
    return f"_{owner.lstrip('_')}{name}" if is_private else name


def _value_in_context(variable: contextvars.ContextVar[Any]) -> Any:
    try:
        return variable.get()
    except LookupError:  # it has no value, and no default
        return _NOTHING


def _tensor_check(tensor: Tensor) -> Check:
    """Return a check that a tensor still has its current value; a write into it replaces the value."""
    before = own_handle(tensor)

    def holds() -> bool:
        now = own_handle(tensor)  # the tensor itself does not hold the value after writes
        return now._payload is before._payload and now._trace is before._trace and now._mark is before._mark

    return holds


def _is_of_its_module(function: types.FunctionType) -> bool:
    """Return whether a function is the module attribute of its name, so that it is the same in each call."""
    return getattr(sys.modules.get(function.__module__), function.__qualname__, None) is function


def _is_of_library(x: object) -> bool:
    """Return whether an object is a module or class of a library or of Python, or an instance of such a class."""
    name = x.__name__ if type(x) is types.ModuleType else (x if isinstance(x, type) else type(x)).__module__
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if module is None or name == "__main__":
        return False
    return file is None or is_library(file) or "site-packages" in file or file.startswith(_PYTHON_PREFIX)


_PYTHON_PREFIX = sys.base_prefix
