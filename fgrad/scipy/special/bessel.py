"""Bessel functions J, Y, I, K and Hankel functions, also exponentially scaled or spherical; and their derivatives.

The derivatives are differences or sums of neighbouring orders. Where these cancel almost completely, as for scaled
functions of large arguments, the asymptotic expansions are differentiated instead. There is no closed form in the
order. SciPy's spherical functions are Python functions of plain arrays; those of this module also accept tensors.
Sections are those of https://dlmf.nist.gov.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb, pi
from typing import Any, NamedTuple

import numpy as np

from fgrad.core.primitive import Primitive
from fgrad.core.tensor import Tensor, apply
from fgrad.ops.batching import elementwise_batch
from fgrad.ops.elementwise import astype
from fgrad.ops.families import register, sample, scale
from fgrad.scipy import _special as special
from fgrad.scipy._plain import differentiates
from fgrad.scipy.special._declaring import dtype_of
from fgrad.scipy.special._several import along_last, far, in_halves, near, order
from fgrad.typing import Array, ArrayLike, Operand

# Derivatives by the recurrences 10.6.1 and 10.29.1


def _half_difference(function: Callable[..., Any], v: Operand, z: Array) -> Any:
    return 0.5 * function(v - 1, z) - 0.5 * function(v + 1, z)


def _half_sum(function: Callable[..., Any], v: Operand, z: Array) -> Any:
    return 0.5 * function(v - 1, z) + 0.5 * function(v + 1, z)


def _unless_infinite(infinite: Array, slope: Array) -> Array:
    """Return the derivative of Y_v, v > 0, near its pole: minus infinity, where the formula gives NaN."""
    return np.where(np.isinf(infinite), -infinite, slope)


def _second_kind(function: Callable[..., Any], v: Operand, z: Array) -> Any:
    """Return the derivative of Y; near 0 the neighbour of larger order overflows first."""
    before, after = function(v - 1, z), function(v + 1, z)
    slope = 0.5 * before - 0.5 * after
    if z.dtype.kind == "c":
        return slope
    return np.where(np.isinf(before), _unless_infinite(np.where(np.greater_equal(v, 0), after, -before), slope), slope)


def _order_one(zero: Callable[..., Any], one: Array, two: Callable[..., Any], sign: int, x: Array) -> Any:
    """Return the derivative of a function of order 1 from its neighbours, or from the function's own value from 1 on.

    The functions of order 2 lose digits for very large arguments, and overflow early.
    """
    is_near, before = np.abs(x) < 1, zero(x)
    beyond = np.where(np.isinf(before), before, before - one / far(x, is_near))
    return np.where(is_near, 0.5 * (before + sign * two(2, near(x, is_near))), beyond)


# Functions of complex numbers scaled by the modulus of an exponential: their derivative is the
# recurrence in dz, plus the real or imaginary part of dz from the exponent.


def _scaled_by_imaginary_part(function: Callable[..., Any], ans: Array, v: Operand, z: Array) -> Any:
    slope = _half_difference(function, v, z)
    if z.dtype.kind != "c":
        return slope
    turn = 0.5j * np.sign(np.imag(z)) * ans
    return slope + turn, -turn


def _scaled_by_real_part(function: Callable[..., Any], ans: Array, v: Operand, z: Array) -> Any:
    if z.dtype.kind != "c":
        return scaled_derivative("ive", v, z)
    decay = 0.5 * np.sign(np.real(z)) * ans
    return _half_sum(function, v, z) - decay, -decay


# Derivatives of scaled functions. The derivative with respect to z is s times the function plus half the sum or
# difference of its neighbours; the n-th derivative is the n-th power of this operator. From 50 on, and if the square
# of the order allows, the expansions 10.17.5, 10.17.6, 10.40.1 and 10.40.2 are differentiated term by term.


class _Kind(NamedTuple):
    """A scaled function: its ufunc, the recurrence of its derivative, and its expansion.

    Attributes:
        function: the ufunc.
        step: the weights of the functions of order v - 1, v, v + 1 in its derivative, for z > 0.
        turn: the ratio of the signs of successive terms of the expansion.
        lead: the leading factor for an order; without 1 / sqrt(z).
        holds: the domain of the expansion; for Hankel functions one half of the real axis is excluded.
    """

    function: Callable[..., Any]
    step: list[Any]
    turn: complex
    lead: Callable[..., Any]
    holds: Callable[..., Any]


_KINDS = {
    "ive": _Kind(special.ive, [0.5, -1, 0.5], -1, lambda v: (2 * pi) ** -0.5, lambda z: True),
    "kve": _Kind(special.kve, [-0.5, 1, -0.5], 1, lambda v: (pi / 2) ** 0.5, lambda z: True),
    "hankel1e": _Kind(
        special.hankel1e, [0.5, -1j, -0.5], 1j, lambda v: (2 / pi) ** 0.5 * np.exp(-1j * pi * (v / 2 + 0.25)),
        lambda z: (np.real(z) > 0) | (np.imag(z) >= 0) | (np.imag(z) < -20),
    ),
    "hankel2e": _Kind(
        special.hankel2e, [0.5, 1j, -0.5], -1j, lambda v: (2 / pi) ** 0.5 * np.exp(1j * pi * (v / 2 + 0.25)),
        lambda z: (np.real(z) > 0) | (np.imag(z) <= 0) | (np.imag(z) > 20),
    ),
}  # fmt: skip


def _expansion(kind: _Kind, v: Array, z: Array, n: int) -> Any:
    """Return the n-th derivative of the expansion for large arguments."""
    term: Any = kind.lead(v) * z ** (-0.5 - n)
    total: Any = 0.0
    for k in range(30):
        if k:
            term = term * (kind.turn * (4 * v * v - (2 * k - 1) ** 2) / (8 * k)) / z
        total = total + term * float(np.prod([-0.5 - k - j for j in range(n)]))
    return total


def _by_neighbours(kind: _Kind, v: Array, z: Array, n: int) -> Any:
    """Return the n-th derivative by the recurrence, n times."""
    weights = np.ones(1)
    for _ in range(n):
        weights = np.convolve(weights, kind.step)
    terms = [kind.function(v + j, z) for j in range(-n, n + 1)]
    found = sum(weight * term for weight, term in zip(weights, terms, strict=True))
    if kind.function is not special.kve or z.dtype.kind == "c":
        return found
    # Next to the pole the terms are infinite, with opposite signs.
    return np.where(np.isinf(np.maximum(terms[0], terms[-1])), (-1) ** n * np.inf, found)


def _reflected(v: Array, x: Array, n: int) -> Array:
    """Return the sign of ive(v, x) relative to ive(v, |x|) after n derivatives; at 0 the mean of both sides."""
    parity = 1.0 - 2 * np.remainder(v + n, 2)
    sign = np.where(x < 0, parity, np.where(x == 0, (1 + parity) / 2, 1.0))
    return np.where(np.equal(v, np.rint(v)), sign, np.where(x < 0, np.nan, 1.0))


def _derivative_value(v: Array | float, z: Array, kind: str, n: int) -> Array:
    """Return the n-th derivative of a scaled function with respect to z."""
    known = _KINDS[kind]
    dtype = known.function(v, z).dtype
    v, z = np.broadcast_arrays(np.asarray(v, np.float64), np.asarray(z, np.result_type(z, np.float64)))
    positive = np.abs(z) if kind == "ive" else z
    found = np.full(z.shape, np.nan, np.result_type(dtype, np.float64))
    with np.errstate(all="ignore"):
        is_far = (np.abs(z) > np.maximum(50, v * v / 4)) & known.holds(positive)
        is_near = np.logical_not(is_far | np.isnan(z))
        found[is_far] = _expansion(known, v[is_far], positive[is_far], n)
        found[is_near] = _by_neighbours(known, v[is_near], positive[is_near], n)
        if kind == "ive":
            found = found * _reflected(v, z, n)
    return found.astype(dtype)[()]


def scaled_derivative(kind: str, v: ArrayLike, z: ArrayLike, n: int = 1) -> Any:
    """Return the n-th derivative of a scaled function with respect to z, itself differentiable."""
    return apply(_derivatives, (v, z), {"kind": kind, "n": n})


_derivatives = register(
    Primitive(
        "scaled_bessel_derivative",
        _derivative_value,
        (
            lambda ans, v, z, kind, n: order(kind, "v", 0)(ans, v, z),
            lambda ans, v, z, kind, n: lambda ct: ct * scaled_derivative(kind, v, z, n + 1),
        ),
        lambda tangents, ans, v, z, kind, n: scale(tangents[1], scaled_derivative(kind, v, z, n + 1)),
        broadcasts=True,
        scales="pullback",
        samples=(
            *(sample((2, 3), domain=(0.5, 90.0), leading=(1.5,), complex=False, kind=kind, n=1) for kind in _KINDS),
            sample((), domain=(0.5, 9.0), leading=(0.7,), kind="kve", n=1),
            sample((0,), domain=(0.5, 9.0), leading=(2,), kind="hankel1e", n=2),
        ),
    )
)
_derivatives.batch = elementwise_batch(_derivatives)

# fmt: off
# Orders 0 and 1
_POSITIVE = (0.3, 6.0)
_REAL: dict[str, Any] = {"domain": _POSITIVE, "complex": False}
along_last(special.j0,  lambda x: -special.j1(x), **_REAL)
along_last(special.j1,  lambda ans, x: _order_one(special.j0, ans, special.jv, -1, x), keeps_ans=True, **_REAL)
along_last(special.y0,  lambda x: -special.y1(x), **_REAL)
along_last(special.y1,  lambda ans, x: _unless_infinite(ans, special.y0(x) - ans / x), keeps_ans=True, **_REAL)
along_last(special.i0,  lambda x: special.i1(x), **_REAL)
along_last(special.i1,  lambda ans, x: _order_one(special.i0, ans, special.iv, 1, x), keeps_ans=True, **_REAL)
along_last(special.k0,  lambda x: -special.k1(x), **_REAL)
along_last(special.k1,  lambda ans, x: -special.k0(x) - ans / x, keeps_ans=True, **_REAL)
along_last(special.i0e, lambda x: scaled_derivative("ive", 0, x), **_REAL)
along_last(special.i1e, lambda x: scaled_derivative("ive", 1, x), **_REAL)
along_last(special.k0e, lambda x: scaled_derivative("kve", 0, x), **_REAL)
along_last(special.k1e, lambda x: scaled_derivative("kve", 1, x), **_REAL)

# Arbitrary constant orders; SciPy truncates those of `yn` and `kn`
_ORDER: dict[str, Any] = {"constants": "v", "leading": (1.5,), "domain": _POSITIVE}
_WHOLE: dict[str, Any] = {"constants": "n", "leading": (2,), "domain": _POSITIVE, "complex": False}
along_last(special.jv,       lambda v, z: _half_difference(special.jv, v, z), **_ORDER)
along_last(special.yv,       lambda v, z: _second_kind(special.yv, v, z), **_ORDER)
along_last(special.iv,       lambda v, z: _half_sum(special.iv, v, z), **_ORDER)
along_last(special.kv,       lambda v, z: -_half_sum(special.kv, v, z), **_ORDER)
along_last(special.hankel1,  lambda v, z: _half_difference(special.hankel1, v, z), **_ORDER)
along_last(special.hankel2,  lambda v, z: _half_difference(special.hankel2, v, z), **_ORDER)
along_last(special.yn,       lambda n, x: _second_kind(special.yn, np.trunc(n), x), **_WHOLE)
along_last(special.kn,       lambda n, x: -_half_sum(special.kn, np.trunc(n), x), **_WHOLE)
along_last(special.kve,      lambda v, z: scaled_derivative("kve", v, z), **_ORDER)
along_last(special.hankel1e, lambda v, z: scaled_derivative("hankel1e", v, z), **_ORDER)
along_last(special.hankel2e, lambda v, z: scaled_derivative("hankel2e", v, z), **_ORDER)
in_halves(special.jve,       lambda ans, v, z: _scaled_by_imaginary_part(special.jve, ans, v, z), **_ORDER)
in_halves(special.yve,       lambda ans, v, z: _scaled_by_imaginary_part(special.yve, ans, v, z), **_ORDER)
in_halves(special.ive,       lambda ans, v, z: _scaled_by_real_part(special.ive, ans, v, z), **_ORDER)
# fmt: on


# Derivatives as functions (10.6.7, 10.29.5)


def _of_order(
    scipys: Callable[..., Any],
    function: Callable[..., Any],
    v: ArrayLike,
    z: ArrayLike,
    n: int,
    sign: int,
    lead: int = 1,
) -> Any:
    """Return the n-th derivative of a Bessel function, as a sum over orders."""
    scipys(0, 1.0, n)  # SciPy's checks of `n`, and its messages
    if n == 0:
        return function(v, z)
    v = v if type(v) is Tensor else np.asarray(v)
    terms = [sign**i * comb(n, i) * function(v - n + 2 * i, z) for i in range(n + 1)]
    return lead**n * sum(terms[1:], terms[0]) / 2.0**n


def _enter(name: str, function: np.ufunc, what: str, sign: int, lead: int, call: str, shown: str) -> Callable[..., Any]:
    scipys = getattr(special, name)

    def answer(v: ArrayLike, z: ArrayLike, n: int = 1) -> Any:
        return _of_order(scipys, function, v, z, n, sign, lead)

    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = f"""Return the n-th derivative of {what} with respect to `z`, as `scipy.special.{name}` does.

    Args:
        v: the order, a constant.
        z: real or complex numbers.
        n: how often the function is differentiated.

    Returns:
        An array of the shape to which `v` and `z` broadcast.

    Raises:
        NoClosedFormError: a NotImplementedError; `v` is traced.
        ValueError: `n` is negative or not an integer.

    Example:
        >>> import fgrad as fg, fgrad.scipy.special
        >>> print(f"{{fg.grad(lambda z: fgrad.scipy.special.{name}{call})(1.5):.6f}}")
        {shown}
    """
    found: Callable[..., Any] = differentiates(scipys)(answer)
    return found


jvp = _enter("jvp", special.jv, "the Bessel function J", -1, 1, "(0, z)", "-0.139870")
yvp = _enter("yvp", special.yv, "the Bessel function Y", -1, 1, "(0, z)", "-0.657321")
ivp = _enter("ivp", special.iv, "the modified Bessel function I", 1, 1, "(0, z)", "0.992279")
kvp = _enter("kvp", special.kv, "the modified Bessel function K", 1, -1, "(0, z)", "0.398731")
h1vp = _enter("h1vp", special.hankel1, "Hankel's function of the first kind", -1, 1, "(0, z).real", "-0.139870")
h2vp = _enter("h2vp", special.hankel2, "Hankel's function of the second kind", -1, 1, "(0, z).real", "-0.139870")


# Spherical functions, whose derivatives combine neighbouring orders without a pole


def _spherical(name: str, before: int, after: int, what: str, example: str) -> Callable[..., Any]:
    """Declare one kind by the signs of its neighbours in the derivative (10.51.2, 10.51.5).

    (2 n + 1) f_n' = before * n f_(n - 1) + after * (n + 1) f_(n + 1)
    """
    scipys = getattr(special, name)

    def slope(n: Array | float, z: Array) -> Any:
        lower = n * apply(primitive, (np.maximum(n - 1, 0), z))
        upper = (n + 1) * apply(primitive, (n + 1, z))
        found = (before * lower + after * upper) / (2 * n + 1.0)
        # Near the pole of the second kind the larger order is infinite, and dominates.
        return np.where(np.isinf(upper), after * upper, found) if name in ("spherical_yn", "spherical_kn") else found

    primitive = along_last(scipys, slope, "n", leading=(2,), domain=(0.3, 6.0))

    def answer(n: ArrayLike, z: Any, derivative: bool = False) -> Any:
        n = n if type(n) is Tensor else np.asarray(n, np.int_)
        return astype(slope(n, z), dtype_of(scipys, n, z, True)) if derivative else apply(primitive, (n, z))

    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = f"""Return {what} of order `n`, or its derivative, as `scipy.special.{name}` does.

    Args:
        n: nonnegative integers, which are constants.
        z: real or complex numbers.
        derivative: return the derivative with respect to `z`, which is itself differentiable.

    Returns:
        An array of the shape to which `n` and `z` broadcast.

    Raises:
        NoClosedFormError: a NotImplementedError; `n` is traced.

    Example:
        >>> import fgrad as fg, fgrad.scipy.special
        >>> slope = fg.grad(lambda z: fgrad.scipy.special.{name}(1, z))(1.5)
        >>> print(f"{{slope:.6f}}")
        {example}
    """
    found: Callable[..., Any] = differentiates(scipys)(answer)
    return found


spherical_jn = _spherical("spherical_jn", 1, -1, "the spherical Bessel function of the first kind", "0.136766")
spherical_yn = _spherical("spherical_yn", 1, -1, "the spherical Bessel function of the second kind", "0.881422")
spherical_in = _spherical("spherical_in", 1, 1, "the modified spherical Bessel function of the first kind", "0.590284")
spherical_kn = _spherical(
    "spherical_kn", -1, -1, "the modified spherical Bessel function of the second kind", "-0.752909"
)
