"""Data that a function refers to but that is not copied: attributes of classes, modules and foreign objects.

    uncopied.add(owner)             register a class, module or object that the function refers to
    uncopied.add_names(names, ...)  register globals of a module that methods of a class use
    uncopied.mention(code)          register the attributes that code names
    uncopied.look()                 take a snapshot after a run, which may itself write to attributes
    uncopied.check(name)            raise if an attribute has changed since the last snapshot

Arrays and floating-point numbers are compared; for a module, those that the function's code names.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.snapshots import SMALL, fingerprint
from fgrad.rules.names import ATTRIBUTES, names_in


class Uncopied:
    """Attributes that may be overwritten, and a snapshot of their values."""

    def __init__(self) -> None:
        self._owners: dict[int, Any] = {}
        self._modules: dict[int, tuple[Mapping[str, Any], set[str]]] = {}
        self._mentioned: set[str] = set()
        self._seen: dict[tuple[int, Any], Any] = {}

    def add(self, owner: object) -> None:
        """Register a class, a module, or an object of a foreign class together with its contents."""
        self._owners[id(owner)] = owner
        if isinstance(owner, (type, types.ModuleType)):
            return
        waiting = [*_contents(owner).values()]
        while waiting and len(self._owners) < _MOST:
            each = waiting.pop()
            if id(each) not in self._owners and not isinstance(each, _WITHOUT_CONTENTS) and (known := _contents(each)):
                self._owners[id(each)] = each
                waiting += known.values()

    def add_names(self, names: frozenset[str], module: Mapping[str, Any]) -> None:
        """Register names of a module that methods of a class use."""
        self._modules.setdefault(id(module), (module, set()))[1].update(names)

    def mention(self, code: types.CodeType) -> None:
        """Register the attributes that a function names."""
        self._mentioned |= names_in(code, ATTRIBUTES)

    def look(self) -> None:
        """Take a snapshot of the attributes."""
        self._seen = {place: _state(value) for place, value in self._attributes()}

    def check(self, name: str) -> None:
        """Compare the attributes with the snapshot after the last run.

        Args:
            name: the name of the user's function in the message.

        Raises:
            OverwrittenError: a RuntimeError; one of them has changed.
        """
        for place, value in self._attributes():
            if place in self._seen and self._seen[place] != _state(value):
                raise errors.OverwrittenError.of_attribute(name, self._written(*place), errors.users_line())

    def _attributes(self) -> Iterator[tuple[tuple[int, Any], Any]]:
        """Yield the attributes to compare, by owner and name."""
        for identity, owner in self._owners.items():
            known = _contents(owner)
            names = self._mentioned & known.keys() if isinstance(owner, types.ModuleType) else list(known)
            yield from (((identity, name), known[name]) for name in names)
        for identity, (module, chosen) in self._modules.items():
            yield from (((identity, name), module[name]) for name in chosen & module.keys())

    def _written(self, identity: int, name: object) -> str:
        """Return the name of an attribute, or item of a container, in messages."""
        if identity in self._modules:
            return f"{self._modules[identity][0].get('__name__', '')}.{name}"
        owner = self._owners[identity]
        label = getattr(owner, "__qualname__", None) or getattr(owner, "__name__", None) or type(owner).__qualname__
        is_item = isinstance(owner, (dict, list, tuple))
        return f"{label}[{name!r}]" if is_item else f"{label}.{name}"


_MOST = 200
"""The number of objects that are registered at most."""
_WITHOUT_CONTENTS = (
    *(int, float, complex, str, bytes, np.ndarray, np.generic, np.dtype, type),
    *(types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType),
)


def _contents(owner: object) -> Mapping[Any, Any]:
    """Return the attributes of a class, a module or an object, including slots, or the items of a container."""
    if isinstance(owner, (type, types.ModuleType)):
        return vars(owner)
    if isinstance(owner, dict):
        return owner
    if isinstance(owner, (list, tuple)):
        return dict(enumerate(owner[:_MOST]))
    known = dict(getattr(owner, "__dict__", {}))
    for kind in type(owner).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if isinstance(member := vars(kind).get(name), types.MemberDescriptorType) and hasattr(owner, name):
                known[name] = member.__get__(owner)
    return known


def _state(value: object) -> Any:
    """Return a fingerprint of a number or an array; None for other values."""
    if isinstance(value, (float, complex)):
        return repr(value)  # so that two nan are equal
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return value.shape, value.dtype, value.tobytes() if value.nbytes <= SMALL else fingerprint(np.asarray(value))
    return None
