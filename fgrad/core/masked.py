"""Derivatives in which exact zeros mean "not used": they win over infinities.

`where(x > 0, sqrt(x), 0)` has the derivative 0 at 0, although `sqrt` has none there: the zero that `where` has put into
the cotangent means that `sqrt(x)` is not used. A cotangent or tangent is masked if a mask has made it, or if the user's
weights may hold such zeros; a sum is masked if all its terms are. Other operations of the function have no influence.

Masked                      a masked cotangent or tangent, as passed to rules
PRODUCTS                    the products in which its zeros win, by NumPy function
pulled_by_masked            the cotangent that a reverse rule returns for a masked one
may_hold_zeros(x)           whether an initial derivative is masked
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from fgrad.core.foreign import as_payload, is_at_hand
from fgrad.core.layers import below, is_program
from fgrad.core.primitive import ZERO, ReverseRule
from fgrad.core.snapshots import ChecksumGuard
from fgrad.core.tensor import Tensor
from fgrad.core.trace import running
from fgrad.core.unbroadcast import is_finite
from fgrad.typing import Array, Operand

_ARRAY = np.ndarray
_PLAIN = {_ARRAY, np.float64}

PRODUCTS: dict[np.ufunc, Callable[[Any, Any], Any]] = {}
"""The products in which exact zeros of a masked factor win over infinities of the other factor."""


class Masked:
    """A masked cotangent or tangent, as passed to rules of primitives with `scales`.

    NumPy functions that move elements, such as `np.swapaxes`, return a `Masked`, too.

    Args:
        derivative: an array or tensor.
    """

    __slots__ = ("derivative",)
    __array_ufunc__ = None  # so that operators of arrays call the reflected ones below

    def __init__(self, derivative: Any) -> None:
        self.derivative = derivative

    def __mul__(self, slope: Any) -> Any:
        return PRODUCTS[np.multiply](self.derivative, slope)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Operand) -> Any:
        if not hasattr(divisor, "dtype"):
            dtype = complex if type(divisor) is complex else self.dtype
            divisor = as_payload(np.asarray(divisor, dtype))  # the quotient of two integer objects is a fraction
        return self * (1 / divisor)

    def __matmul__(self, other: Array) -> Any:
        return PRODUCTS[np.matmul](self, other)

    def __rmatmul__(self, other: Array) -> Any:
        return PRODUCTS[np.matmul](other, self)

    def __array_function__(
        self, function: Callable[..., Any], types: tuple[Any, ...], args: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> Any:
        result = function(*map(unmasked, args), **keywords)
        return Masked(result) if hasattr(result, "dtype") else result

    def __getitem__(self, key: object) -> Masked:
        return Masked(self.derivative[key])

    def reshape(self, shape: object) -> Masked:
        return Masked(self.derivative.reshape(shape))

    @property
    def size(self) -> int:
        """Raise: the package sparse reads it before it multiplies, and then defers to `__rmatmul__`."""
        raise NotImplementedError

    shape = property(lambda self: self.derivative.shape)
    dtype = property(lambda self: self.derivative.dtype)
    ndim = property(lambda self: self.derivative.ndim)
    T = property(lambda self: Masked(self.derivative.T))


def unmasked(x: object) -> Any:
    """Return a masked derivative as an array or tensor, otherwise `x`."""
    return x.derivative if type(x) is Masked else x


def may_hold_zeros(derivative: Any) -> bool:
    """Return whether an initial tangent or cotangent may hold exact zeros, which mean "not used"."""
    if type(derivative) is Tensor and type(derivative := below(derivative, is_program)) is Tensor:
        return True
    if type(derivative) is _ARRAY:  # ten times faster than `np.all`
        return bool(np.count_nonzero(derivative) != derivative.size)
    return derivative is not ZERO and not (is_at_hand(derivative) and np.all(derivative))


_PURE = {FunctionType, ChecksumGuard}
"""Types of pullbacks that may be called twice, since no observer wraps them."""


def pulled_by_masked(rule: ReverseRule, saved: object, cotangent: Array) -> Any:
    """Return the cotangent that a rule with `scales` gives for a masked cotangent.

    If all of the result is finite, the common case, no zero has met an infinity. A check of the result takes less time
    than products that test each element.
    """
    is_pure = rule is not rule.primitive.closure or type(saved) in _PURE
    if is_pure and (type(cotangent) in _PLAIN or _known(cotangent)):
        passed = rule.function(cotangent, saved) if rule.count == 1 else rule.pull(cotangent, saved)
        if _is_known_to_be_finite(passed):
            return passed
        running.guarded += 1
    return rule.pull(Masked(cotangent), saved)


def _is_known_to_be_finite(x: Array) -> bool:
    if type(x) in _PLAIN:
        return is_finite(x)
    known = _known(x)
    return bool(known) and all(map(is_finite, known))


def _known(x: object) -> Sequence[Any]:
    """Return all plain arrays and numbers in a cotangent and its traces; empty if they are unknown."""
    if type(x) is not Tensor:
        return (x,) if type(x) in _PLAIN else ()
    found: list[Any] = []
    for part in x._trace.known_of(x):
        known = _known(part)
        if not known:
            return ()
        found += known
    return found
