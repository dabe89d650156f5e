"""What a program has taken from around its function: numbers, arrays, and the objects that names stand for.

    captured = Captured(function, others)
    captured.change()               what is another now, as `self.k`; an empty text if nothing is
    captured.leave_out_changed()    what the function itself changes as it runs is of no account

A program is what the function did when it was recorded. So it holds as long as all that the function refers to is what
it was then: its cells and defaults, the names of its module, attributes, items, functions that it calls, and what these
refer to. Of objects those attributes count whose names occur in the code: others may change each time.
Names and items are compared by identity, and numbers and texts by value; arrays by what they hold. Of large ones
fingerprints are compared, and of what can only be read nothing. Variables are inputs of programs.
"""

from __future__ import annotations

import collections
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

from fgrad.core.snapshots import SMALL, fingerprint, is_read_only
from fgrad.core.tensor import Tensor, own_handle
from fgrad.core.variable import Variable
from fgrad.errors.places import is_library
from fgrad.rules.names import names_in
from fgrad.transforms.calls import Transformed

_MOST_OBJECTS = 10_000
"""How many objects are looked at."""
_NOTHING, _CONTENTS = object(), "contents"
_VALUES = (int, float, complex, str, bytes, np.generic)
_MAPPINGS = (dict, types.MappingProxyType, collections.ChainMap, collections.UserDict)
_CONTAINERS = (*_MAPPINGS, list, tuple, set, frozenset, collections.deque, collections.UserList)
_DYNAMIC_ACCESS = {"vars", "__dict__", "getattr", "globals", "locals", "eval", "exec"}
"""Names in code that may ask for any attribute."""

Check = Callable[[], bool]


class Captured:
    """What a function refers to, as it is now.

    Args:
        function: the user's.
        others: more that the program depends on, such as arguments that are no inputs.
    """

    def __init__(self, function: Callable[..., Any], others: Sequence[Any] = ()) -> None:
        self._names: set[str] = set()
        self._open: list[tuple[str, Mapping[str, Any]]] = []
        self._seen: dict[int, Any] = {}
        self._waiting: list[tuple[str, Any]] = [("", function), *(("an argument", x) for x in others)]
        self._bindings: dict[int, _Bindings] = {}
        self._checks: list[tuple[str, Check]] = []
        while self._waiting and len(self._seen) < _MOST_OBJECTS:
            self._visit(*self._waiting.pop())
        self._seen.clear()
        self._open.clear()
        self._waiting.clear()
        self._identities = _Identities(self._bindings.values())

    def change(self) -> str:
        """Return what to call something that is another than it was; an empty text if there is nothing."""
        if self._bindings and not self._identities.are_identical():
            for binding in self._bindings.values():
                if changed := binding.change():
                    return changed
        for what, holds in self._checks:
            if not holds():
                return what or "what it refers to"
        return ""

    def forget_changed(self) -> None:
        """Forget what is another now, since the function itself has changed it: it notes its calls, or counts them."""
        for each in self._bindings.values():
            each.forget_changed()
        self._identities = _Identities(self._bindings.values())
        self._checks = [(what, holds) for what, holds in self._checks if holds()]

    # What there is

    def _visit(self, what: str, x: Any) -> None:
        kind = type(x)
        if isinstance(x, _VALUES) or x is None or id(x) in self._seen:
            return
        self._seen[id(x)] = x  # so that no other object gets its id
        if kind is Tensor:
            self._checks.append((what, _tensor_check(x)))
        elif isinstance(x, np.ndarray):
            self._checks.extend(() if is_read_only(x) else [(what, _array_check(x))])
        elif (visit := self._visits.get(kind)) is not None:
            visit(self, what, x)
        elif isinstance(x, Transformed):
            self._waiting.append((what, x.__wrapped__ if hasattr(x, "__wrapped__") else vars(x)["_function"]))
        elif isinstance(x, _CONTAINERS):
            self._visit_items(what, x)
        elif isinstance(x, Variable):
            pass
        elif not _is_of_library(x):
            self._visit_object(what, x)
        elif not isinstance(x, (type, types.ModuleType)) and not type(x).__module__.startswith("fgrad."):
            self._visit_library_object(what, x)

    def _visit_function(self, what: str, x: types.FunctionType) -> None:
        if is_library(x.__code__.co_filename) and _is_of_its_module(x):
            return
        for name, cell in zip(x.__code__.co_freevars, x.__closure__ or (), strict=True):
            self._bind(_Cell(cell), _CONTENTS, _Cell(cell).get(_CONTENTS), name)
        for default in (*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()):
            self._waiting.append((f"a default of {x.__name__}", default))
        if is_library(x.__code__.co_filename):
            return
        names = names_in(x.__code__)
        for name in names & x.__globals__.keys():
            self._bind(x.__globals__, name, x.__globals__[name], name)
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

    def _visit_items(self, what: str, x: Any) -> None:
        if isinstance(x, _MAPPINGS):
            for key, value in x.items():
                self._bind(x, key, value, f"{what}[{key!r:.30}]")
            self._checks.append((what, _has_length(x)))
            return
        items = tuple(x)
        self._waiting += [(f"{what}[{place}]", each) for place, each in enumerate(items)]
        if not isinstance(x, (tuple, frozenset)):
            self._checks.append((what, lambda: len(x) == len(items) and all(map(_is_same, tuple(x), items))))

    def _visit_object(self, what: str, x: Any) -> None:
        """Note the attributes of an object, its class, or a module of the user's."""
        kinds = x.__mro__ if isinstance(x, type) else type(x).__mro__
        attributes = getattr(x, "__dict__", {})
        self._checks.append((what, _has_length(attributes)))  # a new one would come before that of the class
        slots = (
            [name for kind in kinds for name in kind.__dict__.get("__slots__", ())] if not isinstance(x, type) else []
        )
        for each in [
            attributes,
            *([_SlotAttributes(x, slots)] if slots else ()),
            *(kind.__dict__ for kind in kinds if not _is_of_library(kind)),
        ]:
            self._open.append((what, each))
            self._bind_attributes(what, each, self._names)

    def _visit_library_object(self, what: str, x: Any) -> None:
        """Note the attributes of a library's object, such as a namespace or a model; it may add others as it likes."""
        attributes = getattr(x, "__dict__", None)
        if isinstance(attributes, dict):
            self._open.append((what, attributes))
            self._bind_attributes(what, attributes, self._names)

    def _bind_attributes(self, owner: str, attributes: Mapping[str, Any], names: set[str] | frozenset[str]) -> None:
        for name, value in list(attributes.items()):
            is_special = name == "__call__" and names is self._names
            if name in names or is_special or (names & _DYNAMIC_ACCESS and not name.startswith("__")):
                self._bind(attributes, name, value, f"{owner}.{name}")

    def _bind(self, owner: object, key: str, value: object, what: str) -> None:
        """Note that a value is found under a key, and what it refers to."""
        self._bindings.setdefault(id(owner), _Bindings(owner)).known[key] = value, what
        self._waiting.append((what, value))

    _visits: ClassVar[dict[type, Callable[..., None]]] = {
        types.FunctionType: _visit_function,
        types.MethodType: _visit_method,
        functools.partial: _visit_partial,
        **dict.fromkeys((property, staticmethod, classmethod), _visit_wrapped),
    }


def _has_length(x: Any) -> Check:
    count = len(x)
    return lambda: len(x) == count


class _Bindings:
    """Values under some keys of a mapping.

    Attributes:
        owner: the mapping.
        known: by key, the value, and what to call it.
    """

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.known: dict[Any, tuple[Any, str]] = {}

    def change(self) -> str:
        """Return what to call a value that is another one; an empty text if there is none."""
        return next((what for key, (value, what) in self.known.items() if not _is_same(self._get(key), value)), "")

    def forget_changed(self) -> None:
        """Forget values that are others now."""
        self.known = {key: each for key, each in self.known.items() if _is_same(self._get(key), each[0])}

    def _get(self, key: object) -> Any:
        return self.owner.get(key, _NOTHING)


class _Identities:
    """The values in all places, which are compared without a step of Python's for each of them."""

    def __init__(self, bindings: Iterable[_Bindings]) -> None:
        bindings = [each for each in bindings if each.known]
        self._owners = [each.owner for each in bindings]
        # The key of a single value is there twice: without a second one there would be no tuple.
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
    """The attributes of an object that lie in slots, as a mapping.

    Args:
        owner: the object.
        names: of its slots.
    """

    def __init__(self, owner: Any, names: Sequence[str]) -> None:
        super().__init__({name: getattr(owner, name, _NOTHING) for name in names})
        try:
            self._owner: Callable[[], Any] = weakref.ref(owner)  # which the program is not to keep alive
        except TypeError:
            self._owner = lambda: owner

    @override
    def get(self, key: str, nothing: object = None) -> Any:
        """Return what is there now."""
        return getattr(self._owner(), key, _NOTHING)

    __getitem__ = get


class _Cell:
    """A cell of a function as a mapping of one value."""

    def __init__(self, cell: types.CellType) -> None:
        self._cell = cell

    def get(self, key: str, nothing: object = None) -> Any:
        """Return what is in it."""
        try:
            return self._cell.cell_contents
        except ValueError:  # nothing yet
            return _NOTHING

    __getitem__ = get


def _is_same(found: object, value: object) -> bool:
    """Return whether two values are the same for a program: 0.0 is not -0.0, and nan is nan."""
    if found is value:
        return True
    if type(found) is not type(value) or not isinstance(value, _VALUES):
        return type(value) is types.MethodType and found == value
    return repr(found) == repr(value)


def _array_check(array: Any) -> Check:
    """Return what finds out whether an array holds what it holds now."""
    form = array.shape, array.strides, array.dtype
    if array.dtype.hasobject:
        items = array.ravel().tolist()
        return lambda: all(map(_is_same, array.ravel().tolist(), items))
    if array.nbytes <= SMALL:
        content = array.tobytes()
        return lambda: array.tobytes() == content and (array.shape, array.strides, array.dtype) == form
    before = fingerprint(array)
    return lambda: (array.shape, array.strides, array.dtype) == form and fingerprint(array) == before


def _tensor_check(tensor: Tensor) -> Check:
    """Return what finds out whether a tensor stands for what it stands for now: a write makes it stand for another."""
    before = own_handle(tensor)

    def holds() -> bool:
        now = own_handle(tensor)  # what was written to is not at hand in the tensor itself
        return now._payload is before._payload and now._trace is before._trace and now._mark is before._mark

    return holds


def _is_of_its_module(function: types.FunctionType) -> bool:
    """Return whether a function is what its module has under its name, so that it is the same in every call."""
    return getattr(sys.modules.get(function.__module__), function.__qualname__, None) is function


def _is_of_library(x: object) -> bool:
    """Return whether something is a module or class of a library or of Python's, or an object of such a class."""
    name = x.__name__ if type(x) is types.ModuleType else (x if isinstance(x, type) else type(x)).__module__
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if module is None or name == "__main__":
        return False
    return file is None or is_library(file) or "site-packages" in file or file.startswith(_PYTHON_PREFIX)


_PYTHON_PREFIX = sys.base_prefix
