"""Arguments that a user's function may only read.

A function with a custom derivative gets the values of its arguments, and the code of its rule the values that it has
kept. These arrays also belong to other results of the program: a write into them would change those, and would have no
derivative.

    with OnlyRead(leaves, name):    raises InPlaceError if the block writes into one of the leaves
    only_reading(function, name)    a function of leaves that may not write into them
    own(x)                          the array or tensor as one that may be written to, and no other with it
    Residuals(kept, ...)            what a rule keeps for its calls, in which it writes into none of the others
    may_share(x, other)             whether a write into one of two arrays or tensors may show in the other
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import numpy as np

from fgrad import errors
from fgrad.core.layers import layers
from fgrad.core.snapshots import Locks, fingerprint, is_large
from fgrad.core.tensor import Tensor, own_handle
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
        self._leaves = _arrays_of(leaves)

    def __enter__(self) -> None:
        self._before = [None if self._is_locked(x) else _state(x) for x in self._leaves]

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._locks.release()
        if isinstance(error, ValueError) and "read-only" in str(error) and any(x is None for x in self._before):
            raise errors.InPlaceError.of_argument(self._name, self._of_rule, errors.line_of(error), True) from error
        if error is None and any(map(_has_changed, self._leaves, self._before)):
            raise errors.InPlaceError.of_argument(self._name, self._of_rule, errors.users_line())

    def _is_locked(self, x: Any) -> bool:
        return type(x) is not Tensor and is_large(x) and self._locks.hold(np.asarray(x), self._name)


def _arrays_of(leaves: Sequence[Any]) -> list[Any]:
    """Return the arrays and tensors among leaves."""
    return [x for x in leaves if type(x) is Tensor or isinstance(x, np.ndarray)]


def _state(x: Any) -> Any:
    """Return the value of a tensor, or the bits of an array."""
    if type(x) is Tensor:
        x._trace.renewed(x)
        return x._trace, x._payload, x._mark
    return fingerprint(np.asarray(x)) if is_large(x) else x.tobytes()


def _state_if_alive(x: Any) -> Any:
    """Return the state of an array or a tensor; None for a tensor of a batch that has ended."""
    with suppress(errors.LeakedTensorError):
        return _state(x)
    return None


def _has_changed(x: Any, before: Any) -> bool:
    """Return whether a leaf has been written to; `before` is its state, or None if it cannot have been."""
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


def own(x: Any) -> Any:
    """Return an array or a tensor as one of its own: what is written into it shows nowhere else."""
    if type(x) is Tensor:
        return own_handle(x)
    return x.copy("K") if isinstance(x, np.ndarray) else x


class Residuals:
    """What a rule keeps for its calls: arguments, results, and values of its own.

    A rule is called several times by a persistent tape, and in forward mode. So it may only read arguments and results;
    if it changes other arrays or tensors that it has kept, another call raises.

    Args:
        kept: returns the leaves that the rule keeps at the moment.
        leaves: these leaves now.
        others: the arguments and results.
        name: the name of the user's function in the message.
    """

    def __init__(
        self, kept: Callable[[], Sequence[Any]], leaves: Sequence[Any], others: Sequence[Any], name: str
    ) -> None:
        self._kept, self._name, self._has_changed = kept, name, False
        self._leaves = _arrays_of(leaves)
        is_shared = [any(may_share(x, other) for other in others) for x in self._leaves]
        self._shared = [x for x, shared in zip(self._leaves, is_shared, strict=True) if shared]
        self._own = [x for x, shared in zip(self._leaves, is_shared, strict=True) if not shared]

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Check that a call of the rule, in the block, finds what it has kept.

        Raises:
            InPlaceError: a TypeError; it writes into an argument or a result, or an earlier call has changed the rest.
        """
        if self._has_changed:
            raise errors.InPlaceError.of_residuals(self._name, errors.users_line())
        before = list(map(_state_if_alive, self._own))
        with OnlyRead(self._shared, self._name, of_rule=True):
            yield
        now = set(map(id, self._kept()))
        is_replaced = any(id(x) not in now for x in self._leaves)
        self._has_changed = is_replaced or any(map(_has_changed, self._own, before))


def may_share(x: Any, other: Any) -> bool:
    """Return whether a write into one of two arrays or tensors may show in the other."""
    if type(x) is Tensor and type(other) is Tensor:
        return origin(x)[0] is origin(other)[0]
    if not (isinstance(x, np.ndarray) and isinstance(other, np.ndarray)):
        return False
    both_own = x.base is None and other.base is None  # much faster than a comparison of addresses
    return x is other or (not both_own and np.shares_memory(x, other))
