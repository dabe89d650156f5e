"""Derivatives in which exact zeros mean "not used": they win over infinities.

`where(x > 0, sqrt(x), 0)` has the derivative 0 at 0, although `sqrt` has none there: the zero that `where` has put into
the cotangent means that `sqrt(x)` is not used. A cotangent or tangent is masked if a mask has made it, or if the user's
weights may hold such zeros; a sum is masked if all its terms are. Other operations of the function have no influence.

Masked                      a masked cotangent or tangent, as passed to rules
PRODUCTS                    the products in which its zeros win, by NumPy function
has_no_infinity(product)    whether a product needs none of these
may_hold_zeros(x)           whether an initial derivative is masked
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.core.foreign import as_payload, is_at_hand
from fgrad.core.layers import below, is_program
from fgrad.core.primitive import ZERO
from fgrad.core.tensor import Tensor
from fgrad.core.trace import running
from fgrad.core.unbroadcast import is_finite

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

    @property
    def is_known(self) -> bool:
        """Whether the numbers of the derivative are known, not only its shape."""
        return type(self.derivative) in _PLAIN or bool(_known(self.derivative))

    def __mul__(self, slope: Any) -> Any:
        if self.is_known and has_no_infinity(product := self.derivative * slope):
            return product
        return PRODUCTS[np.multiply](self.derivative, slope)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Any:
        if not hasattr(divisor, "dtype"):
            dtype = complex if type(divisor) is complex else self.dtype
            divisor = as_payload(np.asarray(divisor, dtype))  # the quotient of two integer objects is a fraction
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
        """Raise: the package sparse reads it before it multiplies, and then defers to `__rmatmul__`."""
        raise NotImplementedError

    shape = property(lambda self: self.derivative.shape)
    dtype = property(lambda self: self.derivative.dtype)
    ndim = property(lambda self: self.derivative.ndim)
    T = property(lambda self: Masked(self.derivative.T))


def unmasked(x: Any) -> Any:
    """Return a masked derivative as an array or tensor, otherwise `x`."""
    return x.derivative if type(x) is Masked else x


def may_hold_zeros(derivative: Any) -> bool:
    """Return whether an initial tangent or cotangent may hold exact zeros, which mean "not used"."""
    if type(derivative) is Tensor and type(derivative := below(derivative, is_program)) is Tensor:
        return True
    if type(derivative) is _ARRAY:  # ten times faster than `np.all`
        return bool(np.count_nonzero(derivative) != derivative.size)
    return derivative is not ZERO and not (is_at_hand(derivative) and np.all(derivative))


def has_no_infinity(product: Any) -> bool:
    """Return whether all numbers of a product are known and finite: the common case, in which no zero has to win.

    This check takes less time than a product that tests each element. Other products are counted.
    """
    known = (product,) if type(product) in _PLAIN else _known(product)
    if known and all(map(is_finite, known)):
        return True
    running.guarded += 1
    return False


def _known(x: Any) -> Sequence[Any]:
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
