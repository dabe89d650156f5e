"""Sums, products, extrema and statistics over axes.

`sum`, `mean`, `prod`, `max`, `min`, `nanmax`, `nanmin` and `logsumexp` are primitives; all others are composed.
"""

from __future__ import annotations

import builtins
import functools
import warnings
from collections.abc import Callable, Sequence
from math import prod as prod_of
from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.core.foreign import is_at_hand, reduced_by, total
from fgrad.core.masked import Masked
from fgrad.core.primitive import BOXES, METHODS, UFUNC_FORMS, Primitive
from fgrad.core.shapes import broadcast_shapes
from fgrad.core.tensor import Tensor, apply, strip_ended
from fgrad.ops.batching import index_of_extremum_batch, reduction_batch
from fgrad.ops.elementwise import astype, share, share_in
from fgrad.ops.families import answers, checked_axis, constant_in_pieces, linear, reduced_axis, register, sample, scale
from fgrad.ops.indexing import to_write, written
from fgrad.ops.lengths import along, divided, length, of_square, product_into, squared
from fgrad.ops.matrices import conjugated
from fgrad.ops.rows import reduced
from fgrad.ops.shaping import repeat, reshaped
from fgrad.ops.tracing import answers_traced, raw_array
from fgrad.typing import Array, ArrayLike, Axes, DTypeLike, Operand

_SAMPLES = (
    sample(()),
    sample((3,)),
    sample((2, 3), axis=0),
    sample((2, 3), axis=-1, keepdims=True),
    sample((2, 3, 2), axis=(0, -1)),
    sample((2, 3, 2), axis=(2, 0), keepdims=True),
)


def _kept(shape: tuple[int, ...], axis: Any) -> tuple[int, ...]:
    """Return the shape with 1 for each reduced axis."""
    if axis is None:
        return (1,) * len(shape)
    if type(axis) is int:
        axis %= len(shape)
        return (*shape[:axis], 1, *shape[axis + 1 :])
    axes = {a % len(shape) for a in ((axis,) if isinstance(axis, int) else axis)}
    return tuple(1 if a in axes else size for a, size in enumerate(shape))


def _count(shape: tuple[int, ...], axis: Any) -> int:
    """Return how many elements contribute to each result."""
    if axis is None:
        return prod_of(shape)
    return prod_of(shape[a] for a in ((axis,) if isinstance(axis, int) else axis))


def _sum_rule(ans: Array, x: Array, axis: Axes = None, keepdims: bool = False) -> Callable[[Any], Any]:
    shape = x.shape
    kept = _kept(shape, axis)
    return lambda ct: repeat(reshaped(ct, kept), shape)


_sum = linear(
    lambda x, axis=None, keepdims=False: reduced(np.add, x, axis, keepdims),
    _sum_rule,
    *_SAMPLES,
    sample((0, 3), axis=0),
    sample((300, 2), axis=-1),
    sample((100, 3, 2), axis=2, keepdims=True),
    name="sum",
    jvp=lambda tangents, ans, x, axis=None, keepdims=False: _summed(tangents[0], axis, keepdims),
    batch=reduction_batch,
)

_SHORT, _MANY = 128, 512
"""Bounds for sums by a product with ones: the largest accurate row length, and the smallest size that is faster."""


def _summed(t: Array, axis: Axes, keepdims: bool) -> Any:
    """Return the sum of a tangent; for short rows as a product with ones, in a tenth of the time.

    The primal sum is NumPy's to the last bit, so that equal rows of an array have equal sums, and ties are preserved.
    """
    if (
        type(t) is np.ndarray
        and t.ndim > 1
        and (axis == -1 or axis == t.ndim - 1)
        and 1 < t.shape[-1] <= _SHORT
        and t.size > _MANY
        and t.dtype.char in "fdFD"
        and t.flags.c_contiguous
    ):
        totals = t.reshape(-1, t.shape[-1]) @ np.ones(t.shape[-1], t.dtype)
        return totals.reshape((*t.shape[:-1], 1) if keepdims else t.shape[:-1])
    return apply(_sum, (t,), {"axis": axis, "keepdims": keepdims})


def _extrema(ans: Array, x: Array, axis: Axes) -> tuple[Any, Any]:
    """Return where the extremum is, and the number of ties that share the derivative; None if there is no extremum.

    NaN is not equal to itself. So if as many elements were selected as there are extrema that are not NaN, each of
    these has exactly one.
    """
    kept = reshaped(ans, _kept(x.shape, axis))
    chosen, numbers = strip_ended(np.equal(x, kept)), strip_ended(np.equal(kept, kept))
    if type(chosen) is not Tensor and is_at_hand(chosen) and np.count_nonzero(chosen) == np.count_nonzero(numbers):
        return chosen, None
    return chosen, np.maximum(total(chosen, axis=axis, dtype=x.dtype, keepdims=True), 1)


def _extremum_rule(ans: Array, x: Array, axis: Axes = None, keepdims: bool = False) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        chosen, number = _extrema(ans, x, axis)
        ct = reshaped(ct, _kept(x.shape, axis))
        return np.where(chosen, ct if number is None else ct / number, 0)

    return pullback


def _extremum_tangent(tangents: Sequence[Any], ans: Array, x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
    chosen, number = _extrema(ans, x, axis)
    total = _summed(np.where(chosen, tangents[0], 0), axis, keepdims)
    return total if number is None else total / reshaped(number, ans.shape)


_REAL_SAMPLES = tuple(sample(*s.shapes, complex=False, **s.metadata) for s in _SAMPLES)


def _reducing(primitive: Primitive) -> Primitive:
    """Register a reduction with its batching rule."""
    primitive.batch = reduction_batch(primitive)
    return register(primitive)


def _extremum(name: str, ufunc: np.ufunc) -> Primitive:
    return _reducing(
        Primitive(
            name,
            lambda x, axis=None, keepdims=False: reduced(ufunc, x, axis, keepdims),
            (_extremum_rule,),
            _extremum_tangent,
            masks="both",
            samples=_REAL_SAMPLES,
        )
    )


_max, _min = _extremum("max", np.maximum), _extremum("min", np.minimum)
# NaN is not equal to itself, so it is never selected.
_nanmax, _nanmin = _extremum("nanmax", np.fmax), _extremum("nanmin", np.fmin)


def products_of_others(x: Array) -> Array:
    """Return for each element along the last axis the product of all others: no division, so zeros do no harm."""
    one = np.ones_like(x[..., :1])
    before = np.cumprod(np.concatenate([one, x[..., :-1]], axis=-1), axis=-1)
    after = np.cumprod(np.concatenate([one, x[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    return before * after


def _others_along(x: Array, axis: Axes) -> Array:
    """Return for each element the product of all others that are reduced together with it."""
    kept = _kept(x.shape, axis)
    reduced = [a for a, size in enumerate(kept) if size == 1]
    order = [a for a in range(len(kept)) if a not in reduced] + reduced
    moved = np.transpose(x, order)
    free = moved.shape[: len(kept) - len(reduced)]
    rows = moved.reshape((*free, _count(x.shape, axis)))
    return np.transpose(products_of_others(rows).reshape(moved.shape), np.argsort(order).tolist())


def _prod_rule(ans: Array, x: Array, axis: Axes = None, keepdims: bool = False) -> Callable[[Any], Any]:
    kept = _kept(x.shape, axis)
    return lambda ct: reshaped(ct, kept) * _others_along(x, axis)


def _prod_tangent(tangents: Sequence[Any], ans: Array, x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
    return total(scale(tangents[0], _others_along(x, axis)), axis=axis, keepdims=keepdims)


_prod = _reducing(
    Primitive(
        "prod",
        lambda x, axis=None, keepdims=False: reduced_by(np.multiply, x, axis=axis, keepdims=keepdims),
        (_prod_rule,),
        _prod_tangent,
        scales="pullback",
        samples=(*_SAMPLES, sample((0, 3), axis=1)),
    )
)


def _logsumexp_value(x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
    largest = reduced(np.maximum, x, axis, True)
    total = reduced(np.add, share_in(x, largest), axis, True)
    # The largest element adds 1 to the total; where it is minus infinity, the total is 0 and is not used.
    result = np.log(np.maximum(total, 1)) + largest
    return result if keepdims else result.squeeze(axis)[()]


def _product_with_new(ct: Array, slope: Array) -> Any:
    """Return a cotangent times a temporary slope, in the memory of the slope."""
    if type(slope) is np.ndarray and type(ct) is np.ndarray and ct.dtype is slope.dtype:
        return np.multiply(ct, slope, out=slope)
    return ct * slope


def _logsumexp_rule(ans: Array, x: Array, axis: Axes = None, keepdims: bool = False) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        kept = _kept(x.shape, axis)
        return _product_with_new(reshaped(ct, kept), share(x, reshaped(ans, kept)))

    return pullback


def _logsumexp_tangent(tangents: Sequence[Any], ans: Array, x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
    return _summed(tangents[0] * share(x, reshaped(ans, _kept(x.shape, axis))), axis, keepdims)


_logsumexp = _reducing(
    Primitive(
        "logsumexp",
        _logsumexp_value,
        (_logsumexp_rule,),
        _logsumexp_tangent,
        samples=_REAL_SAMPLES,
    )
)


def _reduction(primitive: Primitive) -> Callable[..., Any]:
    """Make the NumPy function of a reduction from its primitive, with `dtype`, `initial` and `where`."""

    def reduce(
        a: Any,
        axis: Axes = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
        initial: Operand | None = None,
        where: Any = True,
    ) -> Any:
        a = _prepared(a, dtype)
        if initial is not None and primitive.name in ("max", "min"):
            initial = as_start(initial, a.dtype)
        if where is not True:
            a = masked(a, where, _neutral(primitive.name, initial, a.dtype))
        axis = reduced_axis(axis, a)
        if initial is not None and not a.size and primitive.name in ("max", "min"):
            shape = np.add.reduce(np.zeros(a.shape), axis=axis, keepdims=keepdims).shape
            result: Any = np.broadcast_to(initial, shape)  # no elements
        else:
            result = apply(primitive, (a,), {"axis": axis, "keepdims": keepdims})
        if dtype is not None:
            result = as_array(result, dtype)  # short integers are summed as long ones
        if initial is not None:
            result = _COMBINE[primitive.name](result, as_start(initial, result.dtype))
        return result if out is None else written(f"np.{primitive.name}", out, result)

    reduce.__name__ = reduce.__qualname__ = primitive.name
    return reduce


def as_start(initial: Operand, dtype: np.dtype[Any]) -> Any:
    """Return the initial value of a reduction in the dtype of the result, as in NumPy: 0.5 is the integer 0.

    Raises:
        OverflowError, TypeError: NumPy's; the dtype cannot represent the value.
    """
    if type(initial) in BOXES:
        return astype(to_write(initial, dtype), dtype)
    start = np.empty(np.shape(initial), dtype)
    start[...] = initial
    return start


_COMBINE: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def masked(a: Array, where: Any, neutral: Any) -> Any:
    """Return an array with another value where a mask is False.

    Raises:
        ValueError: NumPy's; the mask has more elements than the array.
    """
    if broadcast_shapes(a.shape, np.shape(where)) != a.shape:
        np.add.reduce(np.zeros(a.shape), where=np.zeros(np.shape(where), np.bool_))
    return np.where(where, a, neutral)


def _neutral(name: str, initial: Operand | None, dtype: np.dtype[Any]) -> Any:
    """Return the replacement for elements that a mask excludes.

    Of an extremum it is not the initial value, with which the excluded elements would share the derivative.
    """
    if name in ("sum", "prod"):
        return 0 if name == "sum" else 1
    if initial is None:
        raise ValueError(
            f"reduction operation '{name}' does not have an identity, "
            "so to use a where mask one has to specify 'initial'"
        )
    is_largest = name.endswith("max")
    if dtype.kind in "iu":
        return dtype.type(np.iinfo(dtype).min if is_largest else np.iinfo(dtype).max)
    if dtype.kind == "b":
        return not is_largest
    limit = -np.inf if is_largest else np.inf
    return dtype.type(complex(limit, limit) if dtype.kind == "c" else limit)  # NumPy orders by both parts


def _given(value: Any, default: object = None) -> Any:
    """Return the value of an option, or the default for NumPy's `_NoValue`."""
    return default if value is np._NoValue else value


def _prepared(a: Array, dtype: DTypeLike | None) -> Any:
    a = a if type(a) in BOXES or hasattr(a, "ndim") else as_array(a)
    return a if dtype is None else METHODS["astype"](a, dtype)


sum = answers(np.sum)(_reduction(_sum))
prod = answers(np.prod)(_reduction(_prod))


def _as_reduce(reduction: Callable[..., Any]) -> Callable[..., Any]:
    """Make `ufunc.reduce`, whose default is the first axis, from the function over all axes."""

    def reduce(
        a: Array,
        axis: Axes = 0,
        dtype: DTypeLike | None = None,
        out: Array | None = None,
        keepdims: bool = False,
        **others: Any,
    ) -> Any:
        result = reduction(_prepared(a, dtype), axis, keepdims=keepdims, **others)  # `initial` and `where`
        return result if out is None else written(f"np.{reduction.__name__}", out, result)

    return reduce


def _without_dtype(reduction: Callable[..., Any]) -> Callable[..., Any]:
    """Make `max` or `min`, which have no `dtype`; ties share the derivative."""

    @functools.wraps(reduction)
    def reduce(
        a: Array,
        axis: Axes = None,
        out: Array | None = None,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Array | bool = True,
    ) -> Any:
        return reduction(a, axis, None, out, keepdims, initial, where)

    return reduce


max = answers(np.max, np.amax)(_without_dtype(_reduction(_max)))
min = answers(np.min, np.amin)(_without_dtype(_reduction(_min)))


def logsumexp(a: ArrayLike, axis: Axes = None, keepdims: bool = False) -> Any:
    """Return log(sum(exp(a))) along axes, without overflow."""
    a = as_array(a)
    a = a if a.dtype.kind == "f" else astype(a, np.logaddexp(a.dtype.type(0), a.dtype.type(0)).dtype)
    if not a.size:
        return np.sum(a, axis, keepdims=keepdims) - np.inf
    return apply(_logsumexp, (a,), {"axis": reduced_axis(axis, a), "keepdims": keepdims})


for _ufunc, _function in (
    (np.add, sum), (np.multiply, prod), (np.maximum, max), (np.minimum, min), (np.logaddexp, logsumexp),
):  # fmt: skip
    UFUNC_FORMS[_ufunc, "reduce"] = _as_reduce(_function)


def _nan_extremum(
    primitive: Primitive, function: Callable[..., Any], without_nan: Callable[..., Any], combine: np.ufunc
) -> None:
    """Make `nanmax` or `nanmin`, which skip NaNs; the derivative of these is 0."""

    @answers_traced(function)
    def answer(
        a: Any,
        axis: Axes = None,
        out: object = None,
        keepdims: bool = False,
        initial: float | None = None,
        where: Array | bool = True,
    ) -> Any:
        a, initial = _prepared(a, None), _given(initial)
        if a.dtype.kind not in "fc" or not a.size:
            return without_nan(a, axis, None, _given(keepdims) or False, initial, _given(where, True))
        if _given(where, True) is not True:
            _neutral(primitive.name.replace("nan", "f"), initial, a.dtype)
            a = masked(a, where, np.nan)
        result = apply(primitive, (a,), {"axis": reduced_axis(axis, a), "keepdims": bool(_given(keepdims))})
        if initial is not None:
            return combine(np.where(np.isnan(result), initial, result), initial)
        if np.any(np.isnan(raw_array(result))):
            warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=3)
        return result


_nan_extremum(_nanmax, np.nanmax, max, np.maximum)
_nan_extremum(_nanmin, np.nanmin, min, np.minimum)


@answers(np.ptp)
def ptp(a: Array, axis: Axes = None, out: Array | None = None, keepdims: bool = False) -> Any:
    """Return the largest element minus the smallest one along axes."""
    result = max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims)
    return result if out is None else written("np.ptp", out, result)


@answers(np.mean)
def mean(
    a: Array,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Any:
    """Return the mean along axes."""
    a = _prepared(a, dtype)
    axis = checked_axis(axis, a)
    if where is True:
        result = apply(_mean, (a,), {"axis": axis, "keepdims": keepdims})
    else:
        result = divided(sum(a, axis, keepdims=keepdims, where=where), _chosen(a, axis, keepdims, where))
    if dtype is not None:
        result = as_array(result, dtype)  # an integer, if the dtype is one
    return result if out is None else written("np.mean", out, result)


def _mean_value(x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
    dtype = _SUMMED_AS.get(x.dtype.char)
    whole = total(x, axis=axis, dtype=dtype, keepdims=keepdims) if dtype else reduced(np.add, x, axis, keepdims)
    whole = whole / _count(x.shape, axis)
    return whole.astype(x.dtype) if dtype is np.float32 else whole


_SUMMED_AS: dict[str, Any] = {"e": np.float32, **dict.fromkeys("?bBhHiIlLqQ", np.float64)}
"""NumPy's accumulator dtypes for means of short floats and of integers."""


def _mean_rule(ans: Array, x: Array, axis: Axes = None, keepdims: bool = False) -> Callable[[Any], Any]:
    shape, kept, count = x.shape, _kept(x.shape, axis), _count(x.shape, axis)
    return lambda ct: repeat(reshaped(ct / count, kept), shape)


_mean = linear(_mean_value, _mean_rule, *_SAMPLES, name="mean", batch=reduction_batch)


def _chosen(a: Array, axis: Axes, keepdims: bool, where: Array | bool) -> Any:
    """Return how many elements contribute to each result, also with a mask."""
    if where is True:
        return _count(a.shape, axis)
    return total(np.broadcast_to(where, a.shape), axis=axis, dtype=np.intp, keepdims=keepdims)


# Variances and standard deviations. Deviations from the mean sum to 0, so the mean has no effect on the derivatives.


def _variance_value(x: Array, number: Operand, axis: Axes = None, keepdims: bool = False) -> Any:
    deviation = x - _mean_value(x, axis, keepdims=True)
    in_place = type(deviation) is np.ndarray and deviation.dtype.kind == "f"
    squares = np.square(deviation, out=deviation) if in_place else squared(deviation)
    return divided(total(squares, axis=axis, keepdims=keepdims), number)


def _along_deviation(ct: Any, x: Array, ans: Array, number: float, axis: Axes) -> Any:
    """Return the derivative of the variance times a cotangent or tangent; axes are kept."""
    deviation = conjugated(x - _mean_of(x, axis, keepdims=True))
    if type(ct) is Masked:
        return product_into(Masked(_doubled(ct.derivative, number)), deviation)
    return product_into(_doubled(ct, number), deviation)


def _doubled(ct: Array, number: Operand) -> Any:
    """Return twice a derivative divided by a number, in an order that keeps fractions exact."""
    return ct * 2 / number if number else ct * np.inf


def _along_unit_deviation(ct: object, x: Array, ans: Array, number: Operand, axis: Axes) -> Any:
    """Return the same for the standard deviation; it is 0 where all elements are equal."""
    return along(ct, conjugated(x - _mean_of(x, axis, keepdims=True)), ans * number)


def _of_deviations(name: str, value: Callable[..., Any], product: Callable[..., Any]) -> Primitive:
    """Declare a function of the deviations from the mean, given the product of a derivative with its slope."""

    def rule(ans: Array, x: Array, number: Operand, axis: Axes = None, keepdims: bool = False) -> Callable[[Any], Any]:
        kept = _kept(x.shape, axis)
        return lambda ct: product(ct.reshape(kept), x, ans.reshape(kept), number, axis)

    def forward(
        tangents: Sequence[Any], ans: Array, x: Array, number: Operand, axis: Axes = None, keepdims: bool = False
    ) -> Any:
        moved = product(tangents[0], x, ans.reshape(_kept(x.shape, axis)), number, axis)
        return np.real(total(moved, axis=axis, keepdims=keepdims))

    samples = tuple(sample(*each.shapes, number=2, **each.metadata) for each in _SAMPLES[1:])
    return _reducing(Primitive(name, value, (rule,), forward, scales="both", samples=samples))


_variance = _of_deviations("variance", _variance_value, _along_deviation)
_deviation = _of_deviations(
    "standard_deviation",
    lambda x, number, axis=None, keepdims=False: np.sqrt(_variance_value(x, number, axis, keepdims)),
    _along_unit_deviation,
)
_deviation_squared = _of_deviations(
    "standard_deviation_squared",
    lambda x, number, axis=None, keepdims=False: np.square(np.sqrt(_variance_value(x, number, axis, keepdims))),
    _along_deviation,
)


@answers(np.var)
def var(
    a: Array,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    """Return the variance along axes, from the deviations from the mean, which may be given."""
    wanted = _of_real(a, dtype)
    a, axis, number = _spread_in(a, axis, dtype, ddof, keepdims, where, correction)
    if where is True and _given(mean) is None:
        result = apply(_variance, (a,), {"number": number, "axis": axis, "keepdims": keepdims})
    else:
        deviation = _from_center(a, axis, where, mean)
        result = divided(sum(squared(deviation), axis, keepdims=keepdims, where=where), number)
    result = result if wanted is None else astype(result, wanted)
    return result if out is None else written("np.var", out, result)


def _of_real(a: Array, dtype: DTypeLike | None) -> Any:
    """Return the dtype of a variance of real numbers for which a complex dtype was requested; None otherwise."""
    return dtype if dtype is not None and np.dtype(dtype).kind == "c" and as_array(a).dtype.kind != "c" else None


def _from_center(a: Array, axis: Axes, where: Array | bool, mean: Array | None) -> Any:
    """Return deviations from the mean, which may be given."""
    center = _given(mean)
    return a - (_mean_of(a, axis, keepdims=True, where=where) if center is None else center)


def _spread_in(
    a: Array,
    axis: Axes,
    dtype: DTypeLike | None,
    ddof: float,
    keepdims: bool,
    where: Array | bool,
    correction: float | None,
) -> tuple[Any, Axes, Any]:
    """Return an array, the axes, and the divisor of the sum of squared deviations."""
    a = _prepared(a, dtype)
    axis = checked_axis(axis, a)
    ddof = degrees(ddof, correction)
    number = _chosen(a, axis, keepdims, where)
    if number <= ddof if where is True else np.any(raw_array(number) <= ddof):
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=3)
    left = number - ddof
    return a, axis, builtins.max(left, 0) if where is True else np.maximum(left, 0)


_mean_of = mean


def degrees(ddof: float, correction: float | None) -> float:
    """Return the correction of the number of elements, which NumPy calls by two names.

    Raises:
        ValueError: both are given.
    """
    if _given(correction) is None:
        return ddof
    if ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction  # type: ignore[return-value]


@answers(np.std)
def std(
    a: Array,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Array | bool = True,
    mean: Array | None = None,
    correction: float | None = None,
) -> Any:
    """Return the standard deviation along axes; its derivative is 0 where all elements are equal."""
    wanted = _of_real(a, dtype)
    a, axis, number = _spread_in(a, axis, dtype, ddof, True, where, correction)
    if where is True and _given(mean) is None and number == 1 and degrees(ddof, correction) == 0:
        result = sum(np.real(a - a), axis, keepdims=keepdims)  # of one element: 0 where it is finite
    elif where is True and _given(mean) is None:
        metadata = {"number": number, "axis": axis, "keepdims": keepdims}
        result = of_square(apply(_deviation, (a,), metadata), _deviation_squared, (a,), metadata)
    else:
        deviation = _from_center(a, axis, where, mean)
        result = length(deviation if where is True else masked(deviation, where, 0), axis, keepdims, number)
    result = result if wanted is None else astype(result, wanted)
    return result if out is None else written("np.std", out, result)


@answers_traced(np.count_nonzero)
def count_nonzero(a: Array, axis: Axes = None, *, keepdims: bool = False) -> Any:
    """Return how many elements along axes are not zero."""
    a = _prepared(a, None)
    return total(np.not_equal(a, 0), axis=reduced_axis(axis, a), dtype=np.intp, keepdims=keepdims)


def _without_derivative(function: Callable[..., Any], batch: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """Make a reduction to indices or booleans, with the derivative 0, and return it."""
    samples = sample((4,)), sample((2, 3), axis=-1, keepdims=True)
    primitive = constant_in_pieces(function, batch, *samples, kind=kind)

    @answers(function)
    def answer(a: Array, axis: Axes = None, out: Array | None = None, keepdims: bool = False) -> Any:
        a = _prepared(a, None)
        result = apply(primitive, (a,), {"axis": reduced_axis(axis, a), "keepdims": keepdims})
        return result if out is None else written(f"np.{function.__name__}", out, result)

    return answer


def _truth(function: Callable[..., Any], neutral: bool) -> None:
    """Add a mask argument to `all` or `any`."""
    of_all = _without_derivative(function, reduction_batch, "comparison")

    @answers(function)
    def answer(
        a: Any, axis: Axes = None, out: Array | None = None, keepdims: bool = False, *, where: object = True
    ) -> Any:
        chosen = a if where is True else masked(np.not_equal(_prepared(a, None), 0), where, neutral)
        return of_all(chosen, axis, out, keepdims)


_without_derivative(np.argmax, index_of_extremum_batch, "position")
_without_derivative(np.argmin, index_of_extremum_batch, "position")
_truth(np.all, True)
_truth(np.any, False)
