"""What is part of a program: arguments that are no arrays, by value, and objects that have programs of their own.

Static(value)              a value as part of a key
OfInstances(make)          something that belongs to an object, and is gone when the object is
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import numpy as np

from fgrad._locks import Lock
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, strip_ended

T = TypeVar("T")

_MOST_HELD = 64


class Static:
    """Part of a key: something that is no input of the program. Equal are those for which a program is the same.

    Args:
        value: an attribute, too.
    """

    def __init__(self, value: Any) -> None:
        self.value = value  # which lives as long as the key, so that nothing else gets its id
        self._token = _token(value)
        self._hash = hash(self._token)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self._token == other._token


def _token(value: Any) -> Hashable:
    """Return what tells values apart for which programs differ: 0.0 is not -0.0, True is not 1, and nan is nan."""
    kind = type(value)
    if kind is Tensor:
        value = strip_ended(value)
        if type(value) is Tensor:
            return object()  # followed by a transform: there is no value to compare
    if kind in BOXES and kind is not Tensor:
        return kind, id(value)  # a variable is compared by identity, whatever its value
    if isinstance(value, (float, complex)):
        return kind, repr(value)
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        return kind, value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, (set, frozenset)):
        return kind, frozenset(map(_token, value))
    if kind is tuple:
        return kind, tuple(map(_token, value))
    try:
        hash(value)
    except TypeError:  # it may change, and says nothing of it
        return kind, id(value)
    return kind, value


class OfInstances(Generic[T]):
    """What belongs to objects, by identity: equal ones may differ in what methods do. It does not keep them alive.

    Args:
        make: makes what belongs to an object that is met for the first time.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._known: OrderedDict[int, tuple[Callable[[], Any], T]] = OrderedDict()
        self._lock = Lock()

    def __getitem__(self, instance: object) -> T:
        found = self._known.get(id(instance))
        if found is not None and found[0]() is instance:
            return found[1]
        with self._lock:
            found = self._known.get(id(instance))
            if found is None or found[0]() is not instance:
                found = self._known[id(instance)] = self._reference(instance), self._make()
            return found[1]

    def _reference(self, instance: object) -> Callable[[], Any]:
        known, key = self._known, id(instance)

        def forget(reference: object) -> None:
            if key in known and known[key][0] is reference:
                del known[key]

        try:
            return weakref.ref(instance, forget)
        except TypeError:  # a class with slots: the object is held, and not too many of them
            for other in [key for key, each in known.items() if type(each[0]) is _Held][: 1 - _MOST_HELD]:
                del known[other]
            return _Held(instance)


class _Held:
    """Refers to an object as a weak reference does, but keeps it."""

    def __init__(self, instance: Any) -> None:
        self._instance = instance

    def __call__(self) -> Any:
        return self._instance
