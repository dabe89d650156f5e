"""Arguments that a user's function may only read.

A function with a custom derivative gets the values of its arguments, and the code of its rule the values that it has
kept. These arrays also belong to other results of the program: a write into them would change those, and would have no
derivative.

    with OnlyRead(leaves, name):    raises InPlaceError if the block writes into one of the leaves
    only_reading(function, name)    a function of leaves that may not write into them
    sharing(leaves, others)         the leaves that share memory with others, and `may_share(x, other)` for one pair
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from fgrad import errors
from fgrad.core.layers import layers
from fgrad.core.snapshots import Locks, fingerprint, is_large
from fgrad.core.tensor import Tensor
from fgrad.core.views import origin

R = TypeVar("R")


class OnlyRead:
    """A block that must not write into arrays and tensors.

    Small arrays are compared with what they were before; large ones are read-only in the block.

    Args:
        leaves: the arrays and tensors; other objects are ignored.
        name: the name of the user's function in the message.
        of_rule: whether the code of its rule runs in the block, and the leaves are what it has kept.

    Raises:
        InPlaceError: a TypeError, at the end of the block or from the write.
    """

    __slots__ = ("_name", "_of_rule", "_leaves", "_before", "_locks")

    def __init__(self, leaves: Sequence[Any], name: str, of_rule: bool = False) -> None:
        self._name, self._of_rule, self._locks = name, of_rule, Locks()
        self._leaves = [x for x in leaves if type(x) is Tensor or isinstance(x, np.ndarray)]

    def __enter__(self) -> None:
        self._before = [None if self._is_locked(x) else _state(x) for x in self._leaves]

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._locks.release()
        if isinstance(error, ValueError) and "read-only" in str(error) and any(x is None for x in self._before):
            raise errors.InPlaceError.of_argument(self._name, self._of_rule, errors.line_of(error)) from error
        if error is None and any(map(_has_changed, self._leaves, self._before)):
            raise errors.InPlaceError.of_argument(self._name, self._of_rule, errors.users_line())

    def _is_locked(self, x: Any) -> bool:
        return type(x) is not Tensor and is_large(x) and self._locks.hold(np.asarray(x), self._name)


def _state(x: Any) -> Any:
    """Return the value of a tensor, or the bits of an array."""
    if type(x) is Tensor:
        x._trace.renewed(x)
        return x._trace, x._payload, x._mark
    return fingerprint(np.asarray(x)) if is_large(x) else x.tobytes()


def _has_changed(x: Any, before: Any) -> bool:
    """Return whether a leaf has been written to; `before` is its state, or None if it was read-only."""
    if before is None:
        return False
    if type(x) is Tensor:  # a tape that watches it in the block adds a layer
        return not any(all(map(operator.is_, _state(layer), before)) for layer in layers(x))
    return bool(_state(x) != before)


def only_reading(function: Callable[..., R], name: str) -> Callable[..., R]:
    """Return a function that raises InPlaceError if it writes into its arguments."""

    def run(*args: Any) -> R:
        with OnlyRead(args, name):
            return function(*args)

    return run


def sharing(leaves: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return the leaves that may share memory with others."""
    return [x for x in leaves if any(may_share(x, other) for other in others)]


def may_share(x: Any, other: Any) -> bool:
    """Return whether a write into one of two arrays or tensors may show in the other."""
    if type(x) is Tensor and type(other) is Tensor:
        return origin(x)[0] is origin(other)[0]
    if not (isinstance(x, np.ndarray) and isinstance(other, np.ndarray)):
        return False
    both_own = x.base is None and other.base is None  # much faster than a comparison of addresses
    return x is other or (not both_own and np.shares_memory(x, other))
