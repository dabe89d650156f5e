"""Combinatorial functions, continued to real numbers: factorials, combinations, permutations.

    factorial(n), factorial2(n, extend="complex"), factorialk(n, k, extend="complex"), comb(N, k), perm(N, k)

They are redefined here because SciPy's do not accept tensors. With `exact=True` they count in integers, which
have no derivative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import astype
from fgrad.ops.indexing import values_of
from fgrad.ops.tracing import boxed_leaves, raw_array
from fgrad.scipy import _special as special
from fgrad.scipy._plain import differentiates
from fgrad.typing import Array, ArrayLike

_scipy: Any = special
"""SciPy's functions, for calls with keywords known at run time."""
_FACTORIALS = """
Args:
    n: numbers.
    exact: whether to compute in integers, which requires integer `n`.
    extend: "zero", for integers only, or "complex".

Returns:
    An array of the shape of `n`.

Raises:
    ValueError: as in SciPy; real numbers require `extend="complex"`.
"""

_CHOICES = """
Args:
    N: the number of things.
    k: the number of chosen things; the result is 0 if it is negative or larger than `N`.
    exact: whether to compute in integers, which requires integers.

Returns:
    An array of the shape to which `N` and `k` broadcast.

Raises:
    ValueError: as in SciPy.
"""


@differentiates(special.factorial, _FACTORIALS)
def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    """Return the factorial of `n`, for real numbers gamma(n + 1).

    Args:
        extend: "zero", for 0 at negative `n`, or "complex", for the gamma function.

    Raises:
        ValueError: as in SciPy.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(factorial)(1.0)
        Tensor(0.42278434)
    """
    if exact:
        return boxed_leaves(_scipy.factorial(values_of(n, "factorial(n, exact=True)"), exact=True, extend=extend))
    scipys = _scipy.factorial(raw_array(n), extend=extend)  # also for its checks and messages
    result = special.gamma(n + 1)
    return astype(np.where(n < 0, 0, result) if extend == "zero" else result, scipys.dtype)


@differentiates(special.factorial2, _FACTORIALS)
def factorial2(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    """Return the double factorial of `n`, continued by the gamma function.

    Example:
        >>> import fgrad as fg
        >>> print(f"{fg.grad(lambda n: factorial2(n, extend='complex'))(3.0):.4f}")
        2.0945
    """
    if exact or extend != "complex":
        return boxed_leaves(_scipy.factorial2(values_of(n, "factorial2(n)"), exact=exact, extend=extend))
    scipys = _scipy.factorial2(raw_array(n), extend=extend)  # also for its checks and messages
    return astype(_multifactorial(n, 2), scipys.dtype)


@differentiates(special.factorialk, _FACTORIALS)
def factorialk(n: Any, k: Any, exact: bool = False, extend: str = "zero") -> Any:
    """Return the product n (n - k) (n - 2 k) ..., continued by the gamma function.

    Args:
        k: the step, one number.

    Example:
        >>> import fgrad as fg
        >>> print(f"{fg.grad(lambda n: factorialk(n, 3, extend='complex'))(4.0):.4f}")
        2.2888
    """
    if exact or extend != "complex":
        plain = [values_of(x, "factorialk(n, k)")[()] for x in (n, k)]
        return boxed_leaves(_scipy.factorialk(*plain, exact=exact, extend=extend))
    scipys = _scipy.factorialk(raw_array(n), raw_array(k), extend=extend)  # also for its checks and messages
    return astype(_multifactorial(n, k), scipys.dtype)


def _multifactorial(n: Array, k: float) -> Any:
    if np.all(np.real(raw_array(k)) < 0):
        k = as_array(k) * (1 + 0j)
    return k ** ((n - 1) / k) * special.gamma(n / k + 1) * special.rgamma(1 / k + 1)


@differentiates(special.comb, _CHOICES)
def comb(N: ArrayLike, k: ArrayLike, *, exact: bool = False, repetition: bool = False) -> Any:  # noqa: N803  # SciPy's name
    """Return the number of combinations of `k` out of `N`, continued by the gamma function.

    Args:
        repetition: whether a thing may be chosen more than once.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda n: comb(n, 2))(5.0)
        Tensor(4.5)
    """
    if exact:
        plain = [values_of(x, "comb(N, k, exact=True)")[()] for x in (N, k)]
        return _scipy.comb(*plain, exact=True, repetition=repetition)
    n, k = as_array(N), as_array(k)
    if repetition:
        nothing = np.logical_and(np.equal(k, 0), np.equal(n, 0))
        return np.where(nothing, 1, special.binom(n + k - 1, k))
    return np.where(_is_choice(n, k), special.binom(n, k), 0)


@differentiates(special.perm, _CHOICES)
def perm(N: ArrayLike, k: ArrayLike, exact: bool = False) -> Any:  # noqa: N803  # SciPy's name
    """Return the number of ordered choices of `k` out of `N`, continued by the gamma function.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda n: perm(n, 2))(5.0)
        Tensor(9.)
    """
    if exact:
        plain = [values_of(x, "perm(N, k, exact=True)")[()] for x in (N, k)]
        return _scipy.perm(*plain, exact=True)
    n, k = as_array(N), as_array(k)
    return np.where(_is_choice(n, k), special.poch(n - k + 1, k), 0)


def _is_choice(n: Array, k: Array) -> Any:
    return np.logical_and(np.logical_and(k <= n, n >= 0), k >= 0)
