"""Static arguments, which are constants of a program, as keys; and values that belong to objects.

Static(value)              a value as part of a key
OfInstances(make)          a value for each object, which is dropped with the object
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
    """Key of a value that is a constant of a program. Equal keys mean equal programs.

    Args:
        value: the value, also an attribute.
    """

    def __init__(self, value: Any) -> None:
        self.value = value  # kept alive, so that its id stays unique
        self._token = _token(value)
        self._hash = hash(self._token)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self._token == other._token


def _token(value: Any) -> Hashable:
    """Return a hashable key of a value: 0.0 and -0.0 differ, True and 1 differ, and nan equals nan."""
    kind = type(value)
    if kind is Tensor:
        value = strip_ended(value)
        if type(value) is Tensor:
            return object()  # traced: there is no value to compare
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
    except TypeError:  # mutable, without a record of changes
        return kind, id(value)
    return kind, value


class OfInstances(Generic[T]):
    """A value for each object, by identity: equal objects may have methods with different results.

    Objects are not kept alive.

    Args:
        make: creates the value of a new object.
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
        except TypeError:  # no weak references, as with slots: hold a limited number of objects
            for other in [key for key, each in known.items() if type(each[0]) is _Held][: 1 - _MOST_HELD]:
                del known[other]
            return _Held(instance)


class _Held:
    """A strong reference with the interface of a weak one."""

    def __init__(self, instance: Any) -> None:
        self._instance = instance

    def __call__(self) -> Any:
        return self._instance
