"""Python's containers and type checks. Containers are not traced: `tuple`, `list` and `dict` are Python's."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

import fgrad as fg
from fgrad.compat.autograd.vspaces import (
    ContainerVSpace,
    DictVSpace,
    ListVSpace,
    NamedTupleVSpace,
    SequenceVSpace,
    TupleVSpace,
)
from fgrad.typing import ArrayLike

__all__ = [
    "ContainerVSpace", "DictBox", "DictVSpace", "ListVSpace", "NamedTupleVSpace", "SequenceBox", "SequenceVSpace",
    "TupleVSpace", "dict", "isinstance", "list", "tuple", "type",
]  # fmt: skip

tuple, list, dict = builtins.tuple, builtins.list, builtins.dict


def _in_kind(x: object) -> Any:
    """Convert an object to the type of a tensor's plain value."""
    if not builtins.isinstance(x, (fg.Tensor, fg.Variable)):
        return x
    return np.empty(0, x.dtype) if x.shape else x.dtype.type()


def isinstance(x: Any, class_or_tuple: Any) -> bool:
    """Return whether the plain value of an object is an instance of a class: an array for a traced array."""
    return builtins.isinstance(_in_kind(x), class_or_tuple)


def type(x: ArrayLike) -> Any:
    """Return the type of the plain value of an object."""
    return builtins.type(_in_kind(x))


class _Holding(builtins.type):
    """The metaclass of classes whose instances are Python containers with traced values."""

    containers: Any

    def __instancecheck__(cls, instance: object) -> bool:
        return builtins.isinstance(instance, cls.containers) and any(map(fg.is_traced, fg.tree_leaves(instance)))


class SequenceBox(metaclass=_Holding):
    """The type of lists and tuples with traced values."""

    containers = (tuple, list)


class DictBox(metaclass=_Holding):
    """The type of dicts with traced values."""

    containers = dict
