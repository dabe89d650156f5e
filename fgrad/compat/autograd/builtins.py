"""Python's containers and type checks. Containers are not traced themselves, so `tuple`, `list` and `dict` are Python's."""

from __future__ import annotations

import builtins
from typing import Any

from fgrad.compat.autograd.primitives import getval
from fgrad.compat.autograd.vspaces import (
    ContainerVSpace,
    DictVSpace,
    ListVSpace,
    NamedTupleVSpace,
    SequenceVSpace,
    TupleVSpace,
)

__all__ = [
    "ContainerVSpace", "DictVSpace", "ListVSpace", "NamedTupleVSpace", "SequenceVSpace", "TupleVSpace", "dict",
    "isinstance", "list", "tuple", "type",
]  # fmt: skip

tuple, list, dict = builtins.tuple, builtins.list, builtins.dict


def isinstance(x: Any, class_or_tuple: Any) -> bool:
    """Return whether the plain value of something is an instance of a class: of an array for a traced array."""
    return builtins.isinstance(getval(x), class_or_tuple)


def type(x: Any) -> Any:
    """Return the type of the plain value of something."""
    return builtins.type(getval(x))
