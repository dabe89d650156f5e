"""Lengths: `abs`, `hypot`, norms and standard deviations, and functions of them: `sign`, `arctan2`.

A length has a kink at 0. Its derivative there is 0 by convention, but has no derivative itself: the second
derivative is infinite or NaN. The square of a length is smooth, and `norm(x)**2` is common: so a length carries
its square.

    along(ct, x, r)     ct * x / r, where r is the length of x, or of an array that contains x
    product_into(ct, y) ct * y in the memory of y
    length(x, axis)     the square root of the sum, or mean, of squares along axes
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import fgrad.ops.elementwise  # noqa: F401  # its squares are given an answer here
from fgrad.core.foreign import total
from fgrad.core.masked import Masked
from fgrad.core.primitive import ANSWERS, BOXES, UFUNCS, ZERO, Primitive
from fgrad.core.tensor import Tensor, apply, own_handle, strip_ended
from fgrad.core.trace import NOTHING
from fgrad.core.views import as_number
from fgrad.ops.batching import elementwise_batch
from fgrad.ops.families import elementwise, register, sample, scale
from fgrad.ops.matrices import conjugated
from fgrad.ops.patterns import along_axis
from fgrad.typing import Array, Operand


def unless_zero(x: Array) -> Array:
    """Return a divisor that turns 0 / 0 into 0: the subgradient of least norm."""
    return np.where(np.equal(x, 0), 1, x)


def product_into(ct: object, fresh: Array) -> Any:
    """Return a cotangent times a temporary array, which is overwritten where the result fits."""
    if not (type(ct) is np.ndarray and type(fresh) is np.ndarray and ct.dtype == fresh.dtype and ct.ndim == fresh.ndim):
        return ct * fresh
    fits = all(size in (1, own) for size, own in zip(ct.shape, fresh.shape, strict=True))
    return np.multiply(ct, fresh, out=fresh if fits else None)


def along(ct: object, x: Array, r: Array) -> Any:
    """Return ct * x / r, where r is the length of x or of an array that contains x; 0 where r is 0."""
    return ct * apply(_along, (1.0, x, r)) if type(ct) is Masked else apply(_along, (ct, x, r))


_along = elementwise(
    lambda ct, x, r: product_into(ct, x / np.where(np.equal(r, 0), np.inf, r)),
    lambda ct, x, r: along(ct, x, r),
    lambda ct, cotangent, r: scale(ct, cotangent / r),  # infinite, or NaN, where r is 0
    lambda ct, ans, r: ct * -(ans / unless_zero(r)),
    name="along",
    names="cotangent x r",
    domain=((-2, 2), (-2, 2), (0.5, 2)),
    scales="",
)
_along.kind = "guard"


# The square of a length


def of_square(length: Array, square: Primitive, args: Sequence[Any], metadata: Mapping[str, Any] = NOTHING) -> Array:
    """Attach the square to a length, as an operation on the same arguments; return the tensor.

    With plain array arguments it is not attached: they may be overwritten before the square is computed.
    """
    if type(length) is Tensor and length._trace.level:
        held = [_as_now(x) for x in args]
        if all(type(x) is Tensor or isinstance(x, (int, float, complex, np.generic)) for x in held):
            length._squared = functools.partial(apply, square, held, metadata)
    return length


def _as_now(x: Operand) -> Any:
    """Return a value that later writes to tensors and assignments to variables do not change."""
    x = strip_ended(x) if type(x) in BOXES else x
    return own_handle(x) if type(x) is Tensor else x


def _knows(ufunc: np.ufunc, square: Primitive) -> None:
    """Attach squares to the results of a ufunc."""
    primitive = UFUNCS[ufunc]
    ANSWERS[ufunc] = lambda *args: of_square(apply(primitive, args), square, args)


def _squared(x: Array) -> Any:
    square = x._squared if type(x) is Tensor else None
    return apply(UFUNCS[np.square], (x,)) if square is None else square()


ANSWERS[np.square] = _squared


# Scalars. The functions of complex numbers have no complex derivative: the rules follow from
# dz -> a dz + b conj(dz), whose transpose maps ct to a ct + conj(b ct).


def _along_number(ct: object, x: Array, r: Array) -> Any:
    """Return a cotangent or tangent times the slope of r = |x|."""
    return ct * np.sign(x) if x.dtype.kind != "c" else along(ct, np.conjugate(x), r)


elementwise(
    np.absolute,
    lambda ct, ans, x: _along_number(ct, x, ans),
    jvp=lambda tangents, ans, x: np.real(_along_number(tangents[0], x, ans)),
    name="abs",
    scales="both",
)
_knows(
    np.absolute,
    elementwise(
        lambda x: np.square(np.absolute(x)),
        lambda ct, x: ct * (2 * conjugated(x)),
        jvp=lambda tangents, ans, x: np.real(tangents[0] * (2 * conjugated(x))),
        name="abs_squared",
    ),
)


def _unit_slope(ans: Array, x: Array) -> Callable[[Any], Any] | None:
    """Return the reverse rule of z / |z|, and None for real numbers, where it is constant."""
    if x.dtype.kind != "c":
        return None
    return lambda ct: (ct - np.conjugate(ct * ans * ans)) / (2 * np.absolute(x))


def _unit_tangent(tangents: Sequence[Any], ans: Array, x: Array) -> Any:
    if x.dtype.kind != "c":
        return ZERO
    (t,) = tangents
    return (t - ans * ans * np.conjugate(t)) / (2 * np.absolute(x))


elementwise(np.sign, _unit_slope, jvp=_unit_tangent, scales="")


# Pairs


def _turned(ct: Array, x: Array, r: Array) -> Any:
    """Return ct * x / r**2, also where the square would underflow or overflow; 0 where r is 0."""
    return along(ct, x, r) / unless_zero(r)


# fmt: off
elementwise(np.arctan2,      lambda ct, y, x: _turned(ct, x, np.hypot(x, y)),
                             lambda ct, y, x: -_turned(ct, y, np.hypot(x, y)), names="y x", complex=False)
elementwise(np.hypot,        lambda ct, ans, x: along(ct, x, ans),
                             lambda ct, ans, y: along(ct, y, ans), complex=False)
_knows(np.hypot, elementwise(lambda x, y: np.square(np.hypot(x, y)),
                             lambda ct, x: ct * (2 * x),
                             lambda ct, y: ct * (2 * y), name="hypot_squared", complex=False))
# fmt: on


# Vectors. Axes are kept, and counted from the end; the sum of squares is divided by `count`.


def squared(x: Array) -> Any:
    """Return the squares of absolute values."""
    return np.real(x * np.conjugate(x)) if x.dtype.kind == "c" else np.square(x)


def divided(total: Array, number: Operand) -> Any:
    """Return a total divided by the number of its elements, in the dtype of the total."""
    result = np.true_divide(total, number)
    return result.astype(total.dtype) if total.dtype.kind in "fc" and result.dtype != total.dtype else result


def _length_value(x: Array, count: Operand, axis: tuple[int, ...]) -> Any:
    return np.sqrt(divided(total(squared(x), axis=axis, keepdims=True), count))


def _real_total(x: Array, axis: tuple[int, ...]) -> Any:
    return np.real(total(x, axis=axis, keepdims=True))


def _of_vectors(name: str, value: Callable[..., Any], rule: Callable[..., Any], jvp: Callable[..., Any]) -> Primitive:
    samples = (
        sample((3,), constants=(1,), axis=(-1,)),
        sample((2, 3), constants=(3,), axis=(-1,)),
        sample((2, 3, 2), constants=(np.full((1, 3, 1), 2.0),), axis=(-3, -1)),
    )
    primitive = Primitive(
        name,
        value,
        (rule, None),
        jvp,
        broadcasts=True,
        scales="both",
        samples=samples,
        pattern=along_axis,
    )
    primitive.batch = elementwise_batch(primitive)
    return register(primitive)


_length = _of_vectors(
    "length",
    _length_value,
    lambda ans, x, count, axis: lambda ct: along(ct, conjugated(x), ans * count),
    lambda tangents, ans, x, count, axis: _real_total(along(tangents[0], conjugated(x), ans), axis) / count,
)
_length_squared = _of_vectors(
    "length_squared",
    lambda x, count, axis: np.square(_length_value(x, count, axis)),
    lambda ans, x, count, axis: lambda ct: ct * (2 * conjugated(x) / count),
    lambda tangents, ans, x, count, axis: _real_total(tangents[0] * (2 * conjugated(x) / count), axis),
)


def length(x: Array, axis: Any, keepdims: bool = False, count: Operand = 1) -> Any:
    """Return the square roots of the sums of squares along axes, which are kept, divided by `count`."""
    axes = np.lib.array_utils.normalize_axis_tuple(range(x.ndim) if axis is None else axis, x.ndim)
    metadata = {"axis": tuple(a - x.ndim for a in axes)}
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape) if keepdims or a not in axes)
    result: Any = as_number(np.reshape(apply(_length, (x, count), metadata), shape))
    if type(result) is Tensor and result._trace.level and type(held := _as_now(x)) is Tensor:
        result._squared = lambda: np.reshape(apply(_length_squared, (held, count), metadata), shape)
    return result
