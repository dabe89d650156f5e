"""Elementwise operations: arithmetic, comparisons, exponentials, trigonometry, choices.

One line is one operation with all its rules: the reverse rule of each argument stands in its
column, and the same formula applied to a tangent is the forward rule. `None`: the derivative is 0.
Formulas that are not school calculus name their source.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.primitive import FUNCTIONS, UFUNCS, ZERO, Primitive
from fgrad.core.tensor import Tensor, apply, box, boxed, call_without_rule, name_of, settle
from fgrad.ops.batching import elementwise_batch
from fgrad.ops.families import answers, constant_in_pieces, elementwise, identity, linear, register, sample


def _negate(ct: Any) -> Any:
    return -ct


def _conjugate(x: Any) -> Any:
    return np.conjugate(x) if x.dtype.kind == "c" else x


def _share(ct: Any, chosen: Any, tie: Any) -> Any:
    """Give the cotangent to what was chosen, half of it at a tie, and exact zeros to the rest."""
    return np.where(chosen, ct, np.where(tie, ct * 0.5, 0))


def _unless_zero(x: Any) -> Any:
    """Return a divisor that turns 0 / 0 into 0: the subgradient of least norm."""
    return np.where(x == 0, 1, x)


def _finite_below(x: Any) -> Any:
    return np.where(x == -np.inf, 0, x)


def _power_slope(x: Any, y: Any) -> Any:
    """Return the derivative of x**y along x, which is 0 for y = 0 whatever x is."""
    if type(y) in (int, float):
        return y * x ** (y - 1) if y else 0.0 * x
    return y * x ** np.where(y == 0, 1, y - 1)


# fmt: off
# Arithmetic
elementwise(np.add,          lambda ans, x, y: identity,
                             lambda ans, x, y: identity, scales=False)
elementwise(np.subtract,     lambda ans, x, y: identity,
                             lambda ans, x, y: _negate, scales=False)
elementwise(np.multiply,     lambda ans, x, y: lambda ct: ct * y,
                             lambda ans, x, y: lambda ct: ct * x)
elementwise(np.true_divide,  lambda ans, x, y: lambda ct: ct / y,
                             lambda ans, x, y: lambda ct: ct * (-ans / y), domain=(0.4, 2))
elementwise(np.negative,     lambda ans, x: _negate, scales=False)
elementwise(np.positive,     lambda ans, x: identity, scales=False)
elementwise(np.square,       lambda ans, x: lambda ct: ct * (2 * x))
elementwise(np.reciprocal,   lambda ans, x: lambda ct: ct * (-ans * ans), domain=(0.5, 2))
elementwise(np.sqrt,         lambda ans, x: lambda ct: ct / (2 * ans), domain=(0.2, 2))
elementwise(np.cbrt,         lambda ans, x: lambda ct: ct / (3 * ans * ans), domain=(0.2, 2), complex=False)

# Exponentials and logarithms
elementwise(np.exp,          lambda ans, x: lambda ct: ct * ans)
elementwise(np.exp2,         lambda ans, x: lambda ct: ct * (ans * log(2)))
elementwise(np.expm1,        lambda ans, x: lambda ct: ct * (ans + 1))
elementwise(np.log,          lambda ans, x: lambda ct: ct / x, domain=(0.2, 3))
elementwise(np.log2,         lambda ans, x: lambda ct: ct / (x * log(2)), domain=(0.2, 3))
elementwise(np.log10,        lambda ans, x: lambda ct: ct / (x * log(10)), domain=(0.2, 3))
elementwise(np.log1p,        lambda ans, x: lambda ct: ct / (1 + x), domain=(-0.8, 2))

# Trigonometry
elementwise(np.sin,          lambda ans, x: lambda ct: ct * np.cos(x))
elementwise(np.cos,          lambda ans, x: lambda ct: ct * -np.sin(x))
elementwise(np.tan,          lambda ans, x: lambda ct: ct * (1 + ans * ans), domain=(-1, 1))
elementwise(np.arcsin,       lambda ans, x: lambda ct: ct / np.sqrt(1 - x * x), domain=(-0.9, 0.9))
elementwise(np.arccos,       lambda ans, x: lambda ct: ct / -np.sqrt(1 - x * x), domain=(-0.9, 0.9))
elementwise(np.arctan,       lambda ans, x: lambda ct: ct / (1 + x * x), domain=(-0.9, 0.9))
elementwise(np.sinh,         lambda ans, x: lambda ct: ct * np.cosh(x))
elementwise(np.cosh,         lambda ans, x: lambda ct: ct * np.sinh(x))
elementwise(np.tanh,         lambda ans, x: lambda ct: ct * (1 - ans * ans), domain=(-1, 1))
elementwise(np.arcsinh,      lambda ans, x: lambda ct: ct / np.sqrt(x * x + 1), domain=(-0.9, 0.9))
elementwise(np.arccosh,      lambda ans, x: lambda ct: ct / (np.sqrt(x - 1) * np.sqrt(x + 1)), domain=(1.2, 3))
elementwise(np.arctanh,      lambda ans, x: lambda ct: ct / (1 - x * x), domain=(-0.9, 0.9))

# Two arguments
elementwise(np.maximum,      lambda ans, x, y: lambda ct: _share(ct, x > y, x == y),
                             lambda ans, x, y: lambda ct: _share(ct, y > x, x == y),
                             scales=False, masks=True, complex=False)
elementwise(np.minimum,      lambda ans, x, y: lambda ct: _share(ct, x < y, x == y),
                             lambda ans, x, y: lambda ct: _share(ct, y < x, x == y),
                             scales=False, masks=True, complex=False)
elementwise(np.power,        lambda ans, x, y: lambda ct: ct * _power_slope(x, y),
                             lambda ans, x, y: lambda ct: ct * (ans * np.log(np.where(x == 0, 1, x))),
                             domain=(0.3, 2))
elementwise(np.arctan2,      lambda ans, y, x: lambda ct: ct * (x / _unless_zero(x * x + y * y)),
                             lambda ans, y, x: lambda ct: ct * (-y / _unless_zero(x * x + y * y)),
                             complex=False)
elementwise(np.hypot,        lambda ans, x, y: lambda ct: ct * (x / _unless_zero(ans)),
                             lambda ans, x, y: lambda ct: ct * (y / _unless_zero(ans)), complex=False)
elementwise(np.logaddexp,    lambda ans, x, y: lambda ct: ct * np.exp(x - _finite_below(ans)),
                             lambda ans, x, y: lambda ct: ct * np.exp(y - _finite_below(ans)), complex=False)
elementwise(np.remainder,    lambda ans, x, y: identity,
                             lambda ans, x, y: lambda ct: ct * -np.floor(x / y), complex=False, scales=False,
                             shapes=(((3,), ()), ((2, 3), (3,))))

# Without a derivative, or with the derivative 0 wherever it exists
_ufunc: Any
for _ufunc in (np.floor, np.ceil, np.trunc, np.rint, np.isfinite, np.isinf, np.isnan,
               np.logical_not, np.signbit, np.invert):
    elementwise(_ufunc, None, scales=False, complex=False,
                shapes=() if _ufunc is np.invert else (((),), ((2, 3),)))
for _ufunc in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
               np.floor_divide, np.logical_and, np.logical_or, np.logical_xor,
               np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift):
    elementwise(_ufunc, None, None, scales=False, complex=False,
                shapes=() if "bit" in _ufunc.__name__ or "shift" in _ufunc.__name__ else (((3,), ()), ((2, 1), (3,))))
# fmt: on


# Functions of complex numbers that have no complex derivative: the rules follow from
# dz -> a dz + b conj(dz), whose transpose takes ct to a ct + conj(b ct).


def _unit_slope(ans: Any, x: Any) -> Any:
    """Return the reverse rule of z / |z|, and None for real numbers, where it is constant."""
    if x.dtype.kind != "c":
        return None
    return lambda ct: (ct - np.conjugate(ct * ans * ans)) / (2 * _unless_zero(np.absolute(x)))


def _unit_tangent(tangents: Any, ans: Any, x: Any) -> Any:
    if x.dtype.kind != "c":
        return ZERO
    (t,) = tangents
    return (t - ans * ans * np.conjugate(t)) / (2 * _unless_zero(np.absolute(x)))


def _imaginary_part(ans: Any, x: Any) -> Any:
    return (lambda ct: ct * -1j) if x.dtype.kind == "c" else None


elementwise(np.sign, _unit_slope, jvp=_unit_tangent, scales=False)
elementwise(
    np.absolute,
    lambda ans, x: lambda ct: ct * _conjugate(np.sign(x)),
    jvp=lambda tangents, ans, x: np.real(tangents[0] * _conjugate(np.sign(x))),
    name="abs",
)
elementwise(np.conjugate, lambda ans, x: lambda ct: np.conjugate(ct), scales=False)

_real = elementwise(
    np.real, lambda ans, x: identity, jvp=lambda tangents, ans, x: np.real(tangents[0]), scales=False
)
_imag = elementwise(
    np.imag, _imaginary_part, jvp=lambda tangents, ans, x: np.imag(tangents[0]), scales=False
)


@answers(np.real)
def real(val: Any) -> Any:
    """Return the real part; of real numbers, the numbers themselves."""
    return apply(_real, (val,))


@answers(np.imag)
def imag(val: Any) -> Any:
    """Return the imaginary part; of real numbers, zeros."""
    return apply(_imag, (val,))


@answers(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """Return the angle of complex numbers in the plane, in radians or degrees."""
    radians = np.arctan2(imag(z), real(z))
    return radians * (180 / np.pi) if deg else radians


# Choices

_where = elementwise(
    np.where,
    None,
    lambda ans, condition, x, y: lambda ct: np.where(condition, ct, 0),
    lambda ans, condition, x, y: lambda ct: np.where(condition, 0, ct),
    scales=False,
    masks=True,
    shapes=(((), (), ()), ((3,), (3,), (3,)), ((3,), (2, 3), ()), ((2, 1), (3,), (2, 3)), ((0,), (0,), ())),
)


@answers(np.where)
def where(condition: Any, *choices: Any) -> Any:
    """Choose elements from two arrays; what is not chosen contributes exactly 0 to a derivative."""
    if not choices:
        return nonzero(condition)
    return apply(_where, (condition, *choices))


@answers(np.isclose)
def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Return where two arrays are equal within a tolerance; the derivative is 0."""
    near = np.less_equal(np.abs(np.subtract(a, b)), atol + rtol * np.abs(b))
    near = np.where(np.isfinite(b), near, np.equal(a, b))
    return np.logical_or(near, np.logical_and(np.isnan(a), np.isnan(b))) if equal_nan else near


@answers(np.allclose)
def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether two arrays are equal within a tolerance, which asks for the values themselves."""
    return bool(np.all(isclose(a, b, rtol, atol, equal_nan)))


@answers(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Return whether two arrays have one shape and equal elements, which asks for the values themselves."""
    if np.shape(a1) != np.shape(a2):
        return False
    equal = np.equal(a1, a2)
    return bool(np.all(np.logical_or(equal, np.logical_and(np.isnan(a1), np.isnan(a2))) if equal_nan else equal))


@answers(np.nonzero)
def nonzero(a: Any) -> Any:
    """Return the indices of the elements that are not zero, which asks for the values themselves."""
    return np.nonzero(a.numpy())


@answers(np.clip)
def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None
) -> Any:
    """Limit values to an interval; a bound that is met exactly shares the derivative with `a`."""
    if out is not None:
        raise errors.InPlaceError("np.clip", errors.users_line())
    lower = a_min if a_min is not None else min
    upper = a_max if a_max is not None else max
    result = a if lower is None else np.maximum(a, lower)
    return result if upper is None else np.minimum(result, upper)


# The less common ways to call a ufunc

@answers(np.ufunc)
def call_ufunc(ufunc: np.ufunc, method: str, inputs: Any, keywords: dict[str, Any]) -> Any:
    """Answer the less common forms of a ufunc: its methods, and `out`, `where` and `dtype`."""
    if method != "__call__":
        if (ufunc, method) in FUNCTIONS:
            return FUNCTIONS[ufunc, method](*inputs, **keywords)
        return call_without_rule(getattr(ufunc, method), f"{name_of(ufunc)}.{method}", inputs, keywords)
    if ufunc not in UFUNCS or not keywords.keys() <= {"out", "where", "dtype"}:
        return call_without_rule(ufunc, name_of(ufunc), inputs, keywords)
    (target,) = keywords.get("out", (None,))
    if target is not None and type(target) is not Tensor:
        if any(type(settle(x)) is Tensor for x in inputs):
            raise errors.InPlaceError(name_of(ufunc), errors.users_line())
        return call_without_rule(ufunc, name_of(ufunc), inputs, keywords)
    if "dtype" in keywords:
        inputs = [astype(x, keywords["dtype"]) for x in inputs]
    result = apply(UFUNCS[ufunc], inputs)
    if target is None and "where" not in keywords:
        return result
    if target is None:
        raise errors.InPlaceError(f"{name_of(ufunc)} with `where` but without `out`", errors.users_line())
    target[...] = where(keywords.get("where", True), result, target)
    return target


# Conversions

_astype = linear(
    lambda x, dtype: np.asarray(x).astype(dtype)[()],
    lambda ans, x, dtype: identity if ans.dtype.kind in "fc" else None,
    sample((2, 3), dtype=np.float64, complex=False),
    sample((2, 3), dtype=np.complex128),
    sample((), dtype=np.int64, complex=False),
    name="astype",
    batch=elementwise_batch,
)
_stop_gradient = register(Primitive("stop_gradient", lambda x: x, samples=(sample((2,)),)))
_stop_gradient.batch = elementwise_batch(_stop_gradient)
_round = constant_in_pieces(np.round, elementwise_batch, sample((3,), decimals=1))


@answers(np.ndarray.astype)
def astype(x: Any, dtype: Any, copy: bool = True) -> Any:
    """Convert to another dtype; a conversion to integers has the derivative 0."""
    return apply(_astype, (x,), {"dtype": np.dtype(dtype)})


@answers(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """Return a tensor of its own with the same value."""
    value = boxed(settle(a))
    return box(value.value, value.tracing, value.note)


@answers(np.round, np.around)
def round(a: Any, decimals: int = 0) -> Any:
    """Round to a number of decimals; the derivative is 0."""
    return apply(_round, (a,), {"decimals": decimals})


def stop_gradient_of(x: Any) -> Any:
    """Return a tensor with the value of `x` and no connection to what it was computed from."""
    return apply(_stop_gradient, (x,))
