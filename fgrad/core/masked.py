"""Derivatives in which exact zeros mean "not used": they win over infinities.

`where(x > 0, sqrt(x), 0)` has the derivative 0 at 0, although `sqrt` has none there: the zero that `where` has put into
the cotangent says that nothing of `sqrt(x)` is used. A cotangent or tangent is masked if a mask has made it, or the
user's weights may hold such zeros; a sum is masked if all its terms are. What other operations of a function do is
of no account.

Masked                      a masked cotangent or tangent, as rules are handed it
PRODUCTS                    the products in which its zeros win, by NumPy's function
pulled_by_masked            what a reverse rule passes on of one
may_hold_zeros(x)           whether a derivative with which a pass begins is masked
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

_ARRAY = np.ndarray
_PLAIN = {_ARRAY, np.float64}

PRODUCTS: dict[np.ufunc, Callable[[Any, Any], Any]] = {}
"""The products in which exact zeros of a masked factor win over infinities of the other one."""


class Masked:
    """A masked cotangent or tangent, as it is handed to rules of primitives that are said to scale.

    NumPy's functions that move elements, such as `np.swapaxes`, keep it what it is.

    Args:
        derivative: an array or tensor.
    """

    __slots__ = ("derivative",)
    __array_ufunc__ = None  # so that operators of arrays leave it to those below

    def __init__(self, derivative: Any) -> None:
        self.derivative = derivative

    def __mul__(self, slope: Any) -> Any:
        return PRODUCTS[np.multiply](self.derivative, slope)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Any:
        if not hasattr(divisor, "dtype"):
            dtype = complex if type(divisor) is complex else self.dtype
            divisor = as_payload(np.asarray(divisor, dtype))  # of two integers among objects the quotient is a fraction
        return self * (1 / divisor)

    def __matmul__(self, other: Any) -> Any:
        return PRODUCTS[np.matmul](self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return PRODUCTS[np.matmul](other, self)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        result = function(*map(unmasked, args), **keywords)
        return Masked(result) if hasattr(result, "dtype") else result

    def __getitem__(self, key: Any) -> Masked:
        return Masked(self.derivative[key])

    def reshape(self, shape: Any) -> Masked:
        return Masked(self.derivative.reshape(shape))

    @property
    def size(self) -> int:
        """Refuse what arrays of the package sparse ask for before they multiply; then they leave `@` to those above."""
        raise NotImplementedError

    shape = property(lambda self: self.derivative.shape)
    dtype = property(lambda self: self.derivative.dtype)
    ndim = property(lambda self: self.derivative.ndim)
    T = property(lambda self: Masked(self.derivative.T))


def unmasked(x: Any) -> Any:
    """Return a masked derivative as an array or tensor, and all else unchanged."""
    return x.derivative if type(x) is Masked else x


def may_hold_zeros(derivative: Any) -> bool:
    """Return whether a first tangent or cotangent may hold exact zeros, which mean "not used"."""
    if type(derivative) is Tensor and type(derivative := below(derivative, is_program)) is Tensor:
        return True
    if type(derivative) is _ARRAY:  # of which this takes a tenth of the time
        return bool(np.count_nonzero(derivative) != derivative.size)
    return derivative is not ZERO and not (is_at_hand(derivative) and np.all(derivative))


_PURE = {FunctionType, ChecksumGuard}
"""Pullbacks that may be called twice, which nobody sees."""


def pulled_by_masked(rule: ReverseRule, saved: Any, cotangent: Any) -> Any:
    """Return what a rule that scales passes on of a masked cotangent.

    Where all is finite, as it mostly is, no zero has met an infinity. To find that out afterwards takes less time than
    products that look at each element.
    """
    is_pure = rule is not rule.primitive.closure or type(saved) in _PURE
    if is_pure and (type(cotangent) in _PLAIN or _known(cotangent)):
        passed = rule.function(cotangent, saved) if rule.count == 1 else rule.pull(cotangent, saved)
        if _is_known_to_be_finite(passed):
            return passed
        running.guarded += 1
    return rule.pull(Masked(cotangent), saved)


def _is_known_to_be_finite(x: Any) -> bool:
    if type(x) in _PLAIN:
        return is_finite(x)
    known = _known(x)
    return bool(known) and all(map(is_finite, known))


def _known(x: Any) -> Sequence[Any]:
    """Return the plain arrays and numbers that make up a cotangent, with all that traces have of it; empty: unknown."""
    if type(x) is not Tensor:
        return (x,) if type(x) in _PLAIN else ()
    found: list[Any] = []
    for part in x._trace.known_of(x):
        known = _known(part)
        if not known:
            return ()
        found += known
    return found
