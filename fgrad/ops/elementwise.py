"""Elementwise operations: arithmetic, comparisons, exponentials, trigonometry, choices.

One line is one operation with all its rules: one reverse rule per argument, in columns. The same formula applied
to a tangent is the forward rule. `None`: the derivative is 0. Formulas beyond school calculus name their source.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, perm, pi
from typing import Any

import numpy as np

from fgrad.core.coerce import PLAIN, as_array
from fgrad.core.foreign import INEXACT, as_payload, is_at_hand
from fgrad.core.masked import Masked
from fgrad.core.primitive import UFUNCS, ZERO, Primitive
from fgrad.core.reverse import conform
from fgrad.core.tensor import Tensor, apply, boxed, own_handle, strip_ended
from fgrad.core.trace import is_seen
from fgrad.core.unbroadcast import SUMMED, is_finite, summed_product
from fgrad.core.views import VIEWS, is_one_block, layout_of_one, mark_as_array, stands_for_array, view
from fgrad.ops.batching import elementwise_batch
from fgrad.ops.families import (
    answers,
    answers_member,
    check_device,
    constant_in_pieces,
    elementwise,
    identity,
    linear,
    register,
    sample,
    scale,
    scaled_sum,
)
from fgrad.ops.indexing import values_of, written
from fgrad.ops.shaping import flattened, promoted
from fgrad.typing import Array, ArrayLike, Operand


def _negate(ct: Array) -> Any:
    return -ct


def _halved(ct: Array, chosen: Array, tie: Array) -> Array:
    """Return the cotangent where the element was chosen, half of it at a tie, and exact zeros elsewhere."""
    chosen, tie = strip_ended(chosen), strip_ended(tie)
    if type(tie) is not Tensor and is_at_hand(tie) and not np.count_nonzero(tie):
        return np.where(chosen, ct, 0)
    return np.where(chosen, ct, np.where(tie, ct / 2, 0))


def _multiples(ans: Array, x: Array, y: Array) -> Any:
    """Return how many times `y` was subtracted from `x`, an integer; x / y may be rounded up to the next."""
    return np.rint((x - ans) / y)


def share_in(x: Array, total: Array, power: np.ufunc = np.exp) -> Any:
    """Return exp(x - total) of plain arrays; where both are infinite, the limits 0 (below) and 1 (above)."""
    if not is_finite(total):
        lowest, highest = _LIMITS[total.dtype.char]
        x, total = np.minimum(x, highest), np.minimum(np.maximum(total, lowest), highest)
    difference = np.subtract(x, total)
    return power(difference, out=difference) if type(difference) is np.ndarray else power(difference)


_LIMITS = {char: (np.array(np.finfo(char).min), np.array(np.finfo(char).max)) for char in "efdg"}
"""Convert to arrays, which ufuncs handle faster than NumPy scalars."""


def _unless_infinite(ans: Array, total: Array) -> Array:
    """Return the share, and 0 where the sum is infinite: the shares there are constantly 0 or 1."""
    return np.where(np.isinf(total), 0, ans)


_share = elementwise(
    share_in,
    lambda ct, ans, total: ct * _unless_infinite(ans, total),
    lambda ct, ans, total: ct * -_unless_infinite(ans, total),
    name="share",
    names="x total",
    complex=False,
)
_share_of_2 = elementwise(
    lambda x, total: share_in(x, total, np.exp2),
    lambda ct, ans, total: ct * (_unless_infinite(ans, total) * log(2)),
    lambda ct, ans, total: ct * (_unless_infinite(ans, total) * -log(2)),
    name="share_of_2",
    names="x total",
    complex=False,
)


def share(x: Array, total: Array) -> Any:
    """Return the share of an element in a sum of exponentials, from its logarithm and that of the sum."""
    if type(x) is np.ndarray and type(total) is np.ndarray and not is_seen():
        return share_in(x, total)  # fast path; `apply` would have the same result
    return apply(_share, (x, total))


def _share_2(x: Array, total: Array) -> Any:
    return apply(_share_of_2, (x, total))


def _squared_sech(x: Operand) -> Any:
    """Return 1 / cosh(x)**2. That is 1 - tanh(x)**2, which far from 0 is rounded to 0."""
    # np.iscomplexobj does not take arrays of other libraries; a number of Python's has no dtype.
    if not (x.dtype.kind == "c" if hasattr(x, "dtype") else isinstance(x, complex)):
        return np.square(1 / np.cosh(x))
    power = np.exp(np.where(np.less(np.real(x), 0), 2 * x, -2 * x))
    return 4 * power / np.square(1 + power)


_sech_square = elementwise(
    np.errstate(over="ignore", under="ignore")(_squared_sech),  # an infinite cosh makes a 0
    lambda ct, ans, x: ct * (-2 * ans * np.tanh(x)),
    name="sech_square",
    names="x",
    domain=(-1, 1),
)


def _tanh_slope(x: Array) -> Any:
    return _squared_sech(x) if type(x) is np.ndarray and not is_seen() else apply(_sech_square, (x,))


NUMBERS = (int, float, complex)
"""Python numbers, which adapt to the dtype of an array operand unless a NumPy function has converted them."""


def _squared(x: Operand) -> Any:
    return x * x if type(x) in NUMBERS else np.square(x)


def power_slope(x: Array, y: Any) -> Any:
    """Return the derivative of x**y with respect to x; it is 0 for y = 0 whatever x is."""
    if type(y) in NUMBERS:
        return y * x ** (y - 1) if y else scale(0.0, x)
    if type(x) in PLAIN and type(y) in PLAIN and not is_seen():
        return scale(y, x ** (y - 1))
    return power_derivative(1, 0, x, y)


def exponent_slope(ans: Array, x: Any, y: Array) -> Any:
    """Return the derivative of x**y with respect to y; of plain arrays from the power, and 0 where that is 0."""
    if type(x) in (int, float) and x > 0:
        return ans * log(x)
    x = ans.dtype.type(x) if type(x) in NUMBERS else x if x.dtype == ans.dtype else x.astype(ans.dtype)
    if type(x) in PLAIN and type(y) in PLAIN and not is_seen():
        return scale(ans, np.log(x))
    return power_derivative(0, 1, x, y)


def power_derivative(by_x: int, by_y: int, x: Array, y: Array) -> Any:
    """Return the mixed derivative of x**y of the given orders."""
    return apply(_derivative_of_power, (by_x, by_y, x, y))


def _derivative_value(by_x: int, by_y: int, x: Array, y: Array) -> Any:
    """Return x**(y - by_x) times a polynomial in log(x), whose coefficients are polynomials in y.

    This is one operation, since at x = 0 the factors are zeros and infinities, and the product rule fails. There a
    coefficient 0 wins over the logarithm, then the polynomial over the power, and a power 0 over everything.
    """
    # A number of Python's takes the dtype of x; that of two of them is NumPy's, where 0.0**-1.0 is infinite.
    power = x ** (y - by_x if hasattr(x, "dtype") else np.subtract(y, by_x))
    # y (y - 1) ... (y - by_x + 1) as a Taylor series in the exponent
    taylor: list[Any] = [1.0] + [0.0] * by_y
    for i in range(by_x):
        taylor = [own * (y - i) + before for own, before in zip(taylor, [0.0, *taylor], strict=False)]
    polynomial = taylor[0]
    for j in range(1, by_y + 1):
        polynomial = scale(polynomial, np.log(x)) + perm(by_y, j) * taylor[j]
    return np.where(np.equal(power, 0), 0, scale(polynomial, power)) if by_y else scale(polynomial, power)


def _of_result(ct: object, ans: Array) -> Any:
    """Return a cotangent or tangent times the result, to be scaled further; after a mask its zeros win.

    This product comes first, as in `ct * ans / y`: `ans / y` may overflow where neither `ans` nor the derivative
    does, for example in the second derivative of a density whose scale is 1e160.
    """
    return ct * ans if type(ct) is not Masked else Masked(ct * ans)


def _falling_power(ans: Array, x: Array, y: Operand) -> Callable[[Any], Any]:
    """Return the pullback of a negative power; the next lower power would overflow before `ans` does."""
    return lambda ct: _of_result(ct, ans) / x * y


def _root_of_difference(x: Array) -> Any:
    """Return sqrt(1 - x * x); for complex numbers on the correct side of the branch cut (Kahan 1987)."""
    if x.dtype.kind != "c":
        return np.sqrt((1 - x) * (1 + x))
    return np.sqrt(-(x - 1)) * np.sqrt(x + 1)


def _root_of_sum(x: Array) -> Any:
    """Return sqrt(1 + x * x); of real numbers without their square, which may overflow."""
    return np.sqrt(x * x + 1) if x.dtype.kind == "c" else np.hypot(x, 1.0)


def _contracting_second(ans: Array, x: Array, y: Array) -> Callable[[Any], Any]:
    shape = x.shape  # only the shape, since the pullback does not use the values of `x`
    return lambda ct: scaled_sum(ct, y, shape)


def _contracting_first(ans: Array, x: Array, y: Array) -> Callable[[Any], Any]:
    shape = y.shape
    return lambda ct: scaled_sum(ct, x, shape)


def _negated_sum(ans: Array, x: Array, y: Array) -> Callable[[Any], Any]:
    shape, dtype = y.shape, y.dtype
    return lambda ct: -conform(ct, shape, dtype)


def _quotient_contracted(ct: object, ans: Array, y: Array) -> Any:
    """Return the cotangent of a broadcast divisor: divide the sum of products once, not each product."""
    total = summed_product(ct, ans, y.shape)
    return -total / y if total is not None else conform(-(_of_result(ct, ans) / y), y.shape, y.dtype)


def _two_results(ufunc: np.ufunc, place: int, *rules: Any) -> None:
    """Declare a ufunc with two results, of which only the one at `place` has a derivative."""

    def reverse(rule: Callable[..., Any]) -> Callable[..., Any]:
        return lambda ans, *args: lambda cts: rule(ans, *args)(cts[place])

    def forward(tangents: list[Any], ans: object, *args: object) -> Any:
        parts = [rule(ans, *args)(t) for rule, t in zip(rules, tangents, strict=True) if t is not ZERO]
        results: list[Any] = [ZERO, ZERO]
        results[place] = sum(parts[1:], parts[0])
        return results

    shapes: Any = (((),), ((2, 3),), ((0,),)) if len(rules) == 1 else (((3,), ()), ((2, 1), (3,)))
    samples = tuple(sample(*each, domain=(0.3, 2), complex=False) for each in shapes)
    primitive = Primitive(ufunc.__name__, ufunc, tuple(map(reverse, rules)), forward, samples=samples)
    primitive.batch = elementwise_batch(primitive)
    register(primitive)


# fmt: off
# Arithmetic
elementwise(np.add,          identity,
                             identity, scales="")
elementwise(np.subtract,     identity,
                             _negate, scales="")
elementwise(np.multiply,     lambda ct, y: ct * y,
                             lambda ct, x: ct * x)
elementwise(np.true_divide,  lambda ct, y: ct / y,
                             lambda ct, ans, y: -(_of_result(ct, ans) / y), domain=(0.4, 2))
elementwise(np.negative,     _negate, scales="")
elementwise(np.positive,     identity, scales="")
elementwise(np.square,       lambda ct, x: ct * (2 * x))
elementwise(np.reciprocal,   lambda ct, ans: -(_of_result(ct, ans) * ans), domain=(0.5, 2))
elementwise(np.sqrt,         lambda ct, ans: ct / (2 * ans), domain=(0.2, 2))
elementwise(np.fabs,         lambda ct, x: ct * np.sign(x), complex=False)
elementwise(np.cbrt,         lambda ct, ans: ct / (3 * ans * ans), domain=(0.2, 2), complex=False)

# Exponentials and logarithms
elementwise(np.exp,          lambda ct, ans: ct * ans)
elementwise(np.exp2,         lambda ct, ans: ct * (ans * log(2)))
elementwise(np.expm1,        lambda ct, x: ct * np.exp(x))  # ans + 1 is rounded to 0 far below 0
elementwise(np.log,          lambda ct, x: ct / x, domain=(0.2, 3))
elementwise(np.log2,         lambda ct, x: ct / (x * log(2)), domain=(0.2, 3))
elementwise(np.log10,        lambda ct, x: ct / (x * log(10)), domain=(0.2, 3))
elementwise(np.log1p,        lambda ct, x: ct / (1 + x), domain=(-0.8, 2))

# Trigonometry
elementwise(np.sin,          lambda ct, x: ct * np.cos(x))
elementwise(np.cos,          lambda ct, x: ct * -np.sin(x))
elementwise(np.tan,          lambda ct, ans: ct * (1 + ans * ans), domain=(-1, 1))
elementwise(np.arcsin,       lambda ct, x: ct / _root_of_difference(x), domain=(-0.9, 0.9))
elementwise(np.arccos,       lambda ct, x: ct / -_root_of_difference(x), domain=(-0.9, 0.9))
elementwise(np.arctan,       lambda ct, x: ct / (1 + x * x), domain=(-0.9, 0.9))
elementwise(np.sinh,         lambda ct, x: ct * np.cosh(x))
elementwise(np.cosh,         lambda ct, x: ct * np.sinh(x))
elementwise(np.tanh,         lambda ct, x: ct * _tanh_slope(x), domain=(-1, 1))
elementwise(np.arcsinh,      lambda ct, x: ct / _root_of_sum(x), domain=(-0.9, 0.9))
elementwise(np.arccosh,      lambda ct, x: ct / (np.sqrt(x - 1) * np.sqrt(x + 1)), domain=(1.2, 3))
elementwise(np.arctanh,      lambda ct, x: ct / ((1 - x) * (1 + x)), domain=(-0.9, 0.9))
elementwise(np.deg2rad,      lambda ct: ct * (pi / 180), scales="", complex=False)
elementwise(np.radians,      lambda ct: ct * (pi / 180), scales="", complex=False)
elementwise(np.rad2deg,      lambda ct: ct * (180 / pi), scales="", complex=False)
elementwise(np.degrees,      lambda ct: ct * (180 / pi), scales="", complex=False)

# Two arguments
elementwise(np.maximum,      lambda ct, x, y: _halved(ct, x > y, x == y),
                             lambda ct, x, y: _halved(ct, y > x, x == y),
                             scales="", masks="both")
elementwise(np.minimum,      lambda ct, x, y: _halved(ct, x < y, x == y),
                             lambda ct, x, y: _halved(ct, y < x, x == y),
                             scales="", masks="both")
elementwise(np.power,        lambda ans, x, y: _falling_power(ans, x, y) if type(y) in (int, float) and y < 0
                             else lambda ct: ct * power_slope(x, y),
                             lambda ct, ans, x, y: ct * exponent_slope(ans, x, y),
                             domain=(0.3, 2))
_derivative_of_power = elementwise(_derivative_value,
                             None, None,
                             lambda ct, by_x, by_y, x, y: ct * power_derivative(by_x + 1, by_y, x, y),
                             lambda ct, by_x, by_y, x, y: ct * power_derivative(by_x, by_y + 1, x, y),
                             name="derivative_of_power", names="by_x by_y x y", leading=(1, 1), domain=(0.3, 2))
elementwise(np.logaddexp,    lambda ct, ans, x: ct * share(x, ans),
                             lambda ct, ans, y: ct * share(y, ans), complex=False)
elementwise(np.logaddexp2,   lambda ct, ans, x: ct * _share_2(x, ans),
                             lambda ct, ans, y: ct * _share_2(y, ans), complex=False)
elementwise(np.remainder,    identity,
                             lambda ct, ans, x, y: ct * -_multiples(ans, x, y), complex=False,
                             scales="", shapes=(((3,), ()), ((2, 3), (3,))))
elementwise(np.fmod,         identity,
                             lambda ct, ans, x, y: ct * -_multiples(ans, x, y), complex=False,
                             scales="", shapes=(((3,), ()), ((2, 3), (3,))))
elementwise(np.fmax,         lambda ct, x, y: _halved(ct, (x > y) | np.isnan(y), x == y),
                             lambda ct, x, y: _halved(ct, (y > x) | np.isnan(x), x == y),
                             scales="", masks="both")
elementwise(np.fmin,         lambda ct, x, y: _halved(ct, (x < y) | np.isnan(y), x == y),
                             lambda ct, x, y: _halved(ct, (y < x) | np.isnan(x), x == y),
                             scales="", masks="both")
elementwise(np.copysign,     lambda ct, x, y: ct * np.where(np.signbit(y), -np.sign(1.0 * x), np.sign(1.0 * x)),
                             None, complex=False)
elementwise(np.heaviside,    None,
                             lambda ct, x: np.where(np.equal(x, 0), ct, 0),
                             scales="", masks="both", complex=False)
elementwise(np.nextafter,    identity,
                             None, scales="", complex=False)
elementwise(np.ldexp,        lambda ct, i: np.ldexp(ct, i),
                             None, names="x i", scales="", shapes=()).samples = tuple(
    sample(shape, constants=(np.array([1, -2, 3]),), complex=False) for shape in ((), (3,), (2, 1), (0, 3)))

SUMMED[UFUNCS[np.subtract]] = (None, _negated_sum)
SUMMED[UFUNCS[np.multiply]] = (_contracting_second, _contracting_first)
SUMMED[UFUNCS[np.true_divide]] = (None, lambda ans, x, y: lambda ct: _quotient_contracted(ct, ans, y))

# Two results, of which the one at the given place has a derivative
_two_results(np.divmod, 1,   lambda ans, x, y: identity,
                             lambda ans, x, y: lambda ct: ct * -np.floor_divide(x, y))
_two_results(np.modf, 0,     lambda ans, x: identity)
_two_results(np.frexp, 0,    lambda ans, x: lambda ct: np.ldexp(ct, -np.frexp(x)[1]))

# Without a derivative, or with the derivative 0 wherever it exists
_ufunc: Any
for _ufunc in (np.floor, np.ceil, np.trunc, np.rint, np.spacing, np.isfinite, np.isinf, np.isnan,
               np.logical_not, np.signbit):
    elementwise(_ufunc, None, scales="", complex=False, shapes=(((),), ((2, 3),)))
for _ufunc in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
               np.floor_divide, np.logical_and, np.logical_or, np.logical_xor):
    elementwise(_ufunc, None, None, scales="", complex=False, shapes=(((3,), ()), ((2, 1), (3,))))

# For integers or dates only
for _ufunc in (np.invert, np.bitwise_count, np.isnat):
    elementwise(_ufunc, None, scales="", complex=False, shapes=())
for _ufunc in (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift, np.gcd, np.lcm):
    elementwise(_ufunc, None, None, scales="", complex=False, shapes=())
# fmt: on

# Names in reports
for _kind, _ufuncs in {
    "rounding": (np.floor, np.ceil, np.trunc, np.rint, np.floor_divide),
    "comparison": (
        *(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal),
        *(np.logical_and, np.logical_or, np.logical_xor, np.logical_not, np.isfinite, np.isinf, np.isnan, np.signbit),
    ),
    "choice": (np.maximum, np.minimum, np.fmax, np.fmin),
    "product": (np.multiply,),
}.items():
    for _ufunc in _ufuncs:
        UFUNCS[_ufunc].kind = _kind


# Parts of complex numbers


def _imaginary_part(ans: Array, x: Array) -> Any:
    return (lambda ct: ct * -1j) if x.dtype.kind == "c" else None


elementwise(np.conjugate, lambda ct: np.conjugate(ct), scales="")

_real = elementwise(np.real, identity, jvp=lambda tangents, ans, x: np.real(tangents[0]), scales="")
_imag = elementwise(np.imag, _imaginary_part, jvp=lambda tangents, ans, x: np.imag(tangents[0]), scales="")


@answers(np.real)
def real(val: Array) -> Any:
    """Return the real part; real input is returned unchanged."""
    return view(_real, val, {})


@answers(np.imag)
def imag(val: Array) -> Any:
    """Return the imaginary part; of real numbers, zeros."""
    return view(_imag, val, {})


# Taylor rules
for _ufunc in (
    np.add, np.subtract, np.negative, np.positive, np.conjugate, np.deg2rad, np.radians, np.rad2deg, np.degrees,
):  # fmt: skip
    UFUNCS[_ufunc].linear = "together"
UFUNCS[np.multiply].linear, _real.linear, _imag.linear = "each", "together", "together"

VIEWS[_real] = lambda x, lead: np.real(x)
VIEWS[_imag] = lambda x, lead: np.imag(x)


@answers(np.angle)
def angle(z: Array, deg: bool = False) -> Any:
    """Return the angle of complex numbers in the plane, in radians or degrees."""
    radians = np.arctan2(imag(z), real(z)) if as_array(z).dtype.kind == "c" else np.arctan2(0, z)
    return radians * (180 / np.pi) if deg else radians


@answers(np.float_power)
def float_power(x: ArrayLike, y: ArrayLike) -> Any:
    """Return powers in double precision or better, also of integers."""
    dtype = np.result_type(promoted(x), promoted(y), np.float64)
    return np.power(astype(as_array(x), dtype), astype(as_array(y), dtype))


@answers(np.real_if_close)
def real_if_close(a: Any, tol: float = 100) -> Any:
    """Return the real part if the imaginary part is only rounding; this needs concrete values."""
    if a.dtype.kind != "c":
        return a
    limit = tol if tol <= 1 else tol * np.finfo(a.dtype).eps
    return np.real(a) if np.all(np.absolute(values_of(np.imag(a), "np.real_if_close")) < limit) else a


@answers(np.isreal)
def isreal(x: ArrayLike) -> Any:
    """Return where the imaginary part is 0."""
    return np.equal(np.imag(x), 0)


@answers(np.iscomplex)
def iscomplex(x: ArrayLike) -> Any:
    """Return where the imaginary part is not 0."""
    return np.not_equal(np.imag(x), 0)


@answers(np.isposinf)
def isposinf(x: ArrayLike, out: Array | None = None) -> Any:
    """Return where an element is infinity."""
    return written("np.isposinf", out, np.logical_and(np.isinf(x), np.logical_not(np.signbit(x))))


@answers(np.isneginf)
def isneginf(x: ArrayLike, out: Array | None = None) -> Any:
    """Return where an element is minus infinity."""
    return written("np.isneginf", out, np.logical_and(np.isinf(x), np.signbit(x)))


@answers(np.fix)
def fix(x: ArrayLike, out: Array | None = None) -> Any:
    """Round towards zero; the derivative is 0."""
    return written("np.fix", out, np.trunc(x))


# The functions of `np.emath` have complex results where real ones are undefined


def _extended(name: str, ufunc: np.ufunc, leaves_domain: Callable[..., Any]) -> None:
    """Make a function of `np.emath` from the ufunc, with complex arguments where a real one leaves its domain."""

    @answers(getattr(np.emath, name))
    def extended(x: Operand) -> Any:
        return ufunc(_complex_where(leaves_domain, x, f"np.emath.{name}"))


def _complex_where(leaves_domain: Any, x: ArrayLike, name: str) -> Any:
    x = as_array(x)
    if x.dtype.kind == "c" or not np.any(leaves_domain(values_of(x, name))):
        return x
    return astype(x, np.result_type(x.dtype, np.complex64))


def _is_negative(x: Array) -> Any:
    return x < 0


for _name in ("sqrt", "log", "log2", "log10"):
    _extended(_name, getattr(np, _name), _is_negative)
for _name in ("arccos", "arcsin", "arctanh"):
    _extended(_name, getattr(np, _name), lambda x: np.abs(x) > 1)


@answers(np.emath.logn)
def emath_logn(n: Any, x: Any) -> Any:
    """Return the logarithm to a base, complex where necessary."""
    return np.divide(*(np.log(_complex_where(_is_negative, each, "np.emath.logn")) for each in (x, n)))


@answers(np.emath.power)
def emath_power(x: Any, p: ArrayLike) -> Any:
    """Return a power, complex for negative numbers."""
    x = _complex_where(_is_negative, x, "np.emath.power")
    p = as_array(p)
    whole = p.dtype.kind in "iu" and np.any(_is_negative(values_of(p, "np.emath.power")))
    return np.power(x, p * 1.0 if whole else p)


# Choices

_where = elementwise(
    np.where,
    None,
    lambda ct, condition: np.where(condition, ct, 0),
    lambda ct, condition: np.where(condition, 0, ct),
    names="condition x y",
    scales="",
    masks="both",
    shapes=(((), (), ()), ((3,), (3,), (3,)), ((3,), (2, 3), ()), ((2, 1), (3,), (2, 3)), ((0,), (0,), ())),
)

_where.kind = "comparison"  # for its condition


@answers(np.where)
def where(condition: Array | bool, *choices: Operand) -> Any:
    """Choose elements from two arrays; elements that are not chosen contribute exactly 0 to a derivative."""
    if not choices:
        return nonzero(condition)
    return apply(_where, (condition, *choices))


@answers(np.isclose)
def isclose(a: Array, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Return where two arrays are equal within a tolerance; the derivative is 0."""
    if type(b) is int:
        b = float(b)
    elif type(b) not in (float, complex):  # Python's numbers take the precision of `a`
        b = as_array(b)
        b = b if b.dtype.kind in "fcmMO" else np.multiply(b, 1.0)  # the least integer has no absolute value
    near = np.less_equal(np.abs(np.subtract(a, b)), atol + rtol * abs(b))
    near = np.logical_or(np.logical_and(near, np.isfinite(b)), np.equal(a, b))
    return np.logical_or(near, np.logical_and(np.isnan(a), np.isnan(b))) if equal_nan else near


@answers(np.allclose)
def allclose(a: Array, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether two arrays are equal within a tolerance; this needs concrete values."""
    return bool(np.all(isclose(a, b, rtol, atol, equal_nan)))


@answers(np.array_equal)
def array_equal(a1: Array, a2: Any, equal_nan: bool = False) -> bool:
    """Return whether two arrays have the same shape and equal elements; this needs concrete values."""
    if np.shape(a1) != np.shape(a2):
        return False
    equal = np.equal(a1, a2)
    return bool(np.all(np.logical_or(equal, np.logical_and(np.isnan(a1), np.isnan(a2))) if equal_nan else equal))


@answers(np.array_equiv)
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> bool:
    """Return whether two arrays are equal after broadcasting; this needs concrete values."""
    return np.array_equiv(*(values_of(as_array(a), "np.array_equiv") for a in (a1, a2)))


@answers(np.nonzero)
def nonzero(a: ArrayLike) -> Any:
    """Return the indices of nonzero elements; this needs concrete values."""
    return np.nonzero(values_of(a, "np.nonzero"))


@answers(np.clip)
def clip(
    a: ArrayLike,
    a_min: float | None = None,
    a_max: Array | float | None = None,
    out: Array | None = None,
    *,
    min: Any = None,
    max: Any = None,
) -> Any:
    """Limit values to an interval; an element equal to a bound shares the derivative with it."""
    lower = a_min if a_min is not None else min
    upper = a_max if a_max is not None else max
    dtype = as_array(a).dtype
    if dtype.kind in "iu":  # as in NumPy, which otherwise rejects Python integers outside the dtype's range
        lower = None if type(lower) is int and lower <= np.iinfo(dtype).min else lower
        upper = None if type(upper) is int and upper >= np.iinfo(dtype).max else upper
    result = np.positive(a) if lower is None else np.maximum(a, lower)
    return written("np.clip", out, result if upper is None else np.minimum(result, upper))


# Conversions

_astype = linear(
    lambda x, dtype: as_payload(x).astype(dtype)[()],
    lambda ans, x, dtype: identity if ans.dtype.kind in INEXACT else None,
    sample((2, 3), dtype=np.float64, complex=False),
    sample((2, 3), dtype=np.complex128),
    sample((), dtype=np.int64, complex=False),
    name="astype",
    batch=elementwise_batch,
)
_stop_gradient = register(Primitive("stop_gradient", lambda x: x, samples=(sample((2,)),)))
_stop_gradient.batch = elementwise_batch(_stop_gradient)
_round = constant_in_pieces(np.round, elementwise_batch, sample((3,), decimals=1), kind="rounding")
_astype.kind = "conversion"


@answers_member("astype")
def astype(x: Any, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True) -> Any:
    """Convert to another dtype; a conversion to integers has the derivative 0."""
    dtype = np.dtype(dtype)
    if casting != "unsafe" and not np.can_cast(x.dtype, dtype, casting):
        raise TypeError(f"Cannot cast array data from {x.dtype!r} to {dtype!r} according to the rule {casting!r}")
    if not copy and dtype == x.dtype and type(x) is Tensor:
        return x
    return _array_or_number(x, apply(_astype, (x,), {"dtype": dtype}))


def _array_or_number(x: Any, copied: Any) -> Any:
    """Return a copy of `x`; of shape `()`, it stands for an array if `x` does."""
    if type(copied) is Tensor and not copied.shape and type(x) is Tensor and stands_for_array(x):
        mark_as_array(copied)
    return copied


@answers(np.astype)
def astype_function(x: Any, dtype: object, /, *, copy: bool = True, device: object = None) -> Any:
    """Convert to another dtype, like the method."""
    check_device(device)
    return astype(x, dtype, copy=copy)


def copy(a: Array, order: str = "K") -> Any:
    """Return a new tensor with the same value, in the memory order of NumPy's copy."""
    value = boxed(strip_ended(a))
    array = layout_of_one(value)
    if not isinstance(array, np.ndarray):
        return own_handle(value)
    flags = array.flags
    if order == "A":
        order = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
    if not value.shape or {"C": flags.c_contiguous, "F": flags.f_contiguous, "K": flags.forc}[order]:
        return own_handle(value)
    if order == "K":
        return astype(value, value.dtype)  # contiguous
    flat = flattened(value, order)
    shaped: Any = np.reshape(flat, value.shape) if order == "C" else np.transpose(np.reshape(flat, value.shape[::-1]))
    return own_handle(shaped)  # not a view of its intermediate array


def in_c_order(value: Any) -> Any:
    """Return a new result in C order: itself if it is so."""
    return value if is_one_block(value) or not value.shape else copy(value, "C")


def in_order_of(value: Any, like: Array) -> Any:
    """Return a new result with its elements in the memory order of an array of as many axes, as in a copy of that."""
    if is_one_block(value) and is_one_block(like):
        return value
    array = layout_of_one(boxed(like))
    if not isinstance(array, np.ndarray):
        return value
    steps = array.strides[array.ndim - like.ndim :]
    axes = sorted(range(like.ndim), key=lambda axis: -abs(steps[axis]))
    if axes == sorted(axes):
        return copy(value, "C")
    ordered: Any = np.transpose(copy(np.transpose(value, axes), "C"), np.argsort(axes))
    return own_handle(ordered)


def in_c_or_f_order(value: Any, like: Array) -> Any:
    """Return a new result in F order if an array is so and not in C order, and in C order otherwise."""
    if is_one_block(value) and is_one_block(like):
        return value
    array = layout_of_one(boxed(like))
    return copy(value, "F" if isinstance(array, np.ndarray) and array.flags.fnc else "C")


@answers_member("copy")
def copied(x: Array, order: str = "C") -> Any:
    """Return the result of the `copy` method, whose default order differs from `np.copy`."""
    return _array_or_number(x, copy(x, order))


@answers(np.round, np.around)
def round(a: Array, decimals: int = 0, out: Array | None = None) -> Any:
    """Round to a number of decimals; the derivative is 0."""
    return written("np.round", out, apply(_round, (a,), {"decimals": decimals}))


def stop_gradient_of(x: Array | float) -> Any:
    """Return a tensor with the value of `x` that is not connected to its history."""
    return apply(_stop_gradient, (x,))
