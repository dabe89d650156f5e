"""Sums, products, extrema and statistics over axes.

`sum`, `prod`, `max`, `min`, `logsumexp` and `cumsum` are primitives; the rest is made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod as prod_of
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.primitive import FUNCTIONS, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import index_of_extremum_batch, reduction_batch
from fgrad.ops.families import answers, constant_in_pieces, elementwise, linear, plain_axis, register, sample, scale
from fgrad.ops.shaping import repeat

Axis = Any
"""An axis, a tuple of them, or None for all."""

_total: Any = np.add.reduce

_SAMPLES = (
    sample(()),
    sample((3,)),
    sample((2, 3), axis=0),
    sample((2, 3), axis=-1, keepdims=True),
    sample((2, 3, 2), axis=(0, -1)),
    sample((2, 3, 2), axis=(2, 0), keepdims=True),
)


def _kept(shape: tuple[int, ...], axis: Axis) -> tuple[int, ...]:
    """Return the shape with 1 for each axis that is reduced."""
    if axis is None:
        return (1,) * len(shape)
    if type(axis) is int:
        axis %= len(shape)
        return (*shape[:axis], 1, *shape[axis + 1 :])
    axes = {a % len(shape) for a in ((axis,) if isinstance(axis, int) else axis)}
    return tuple(1 if a in axes else size for a, size in enumerate(shape))


def _count(shape: tuple[int, ...], axis: Axis) -> int:
    """Return how many elements go into each result."""
    if axis is None:
        return prod_of(shape)
    return prod_of(shape[a] for a in ((axis,) if isinstance(axis, int) else axis))


def _sum_rule(ans: Any, x: Any, axis: Axis = None, keepdims: bool = False) -> Callable[[Any], Any]:
    shape = x.shape
    kept = _kept(shape, axis)
    return lambda ct: repeat(ct.reshape(kept), shape)


_sum = linear(
    lambda x, axis=None, keepdims=False: np.add.reduce(x, axis=axis, keepdims=keepdims),
    _sum_rule,
    *_SAMPLES,
    sample((0, 3), axis=0),
    name="sum",
    batch=reduction_batch,
)


def _extremum_rule(ans: Any, x: Any, axis: Axis = None, keepdims: bool = False) -> Callable[[Any], Any]:
    kept = _kept(x.shape, axis)

    def pullback(ct: Any) -> Any:
        chosen = x == ans.reshape(kept)
        return np.where(chosen, ct.reshape(kept) / _total(chosen, axis=axis, dtype=ct.dtype, keepdims=True), 0)

    return pullback


def _extremum_tangent(tangents: Any, ans: Any, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    (t,) = tangents
    chosen = x == ans.reshape(_kept(x.shape, axis))
    total = _total(np.where(chosen, t, 0), axis=axis, keepdims=keepdims)
    return total / _total(chosen, axis=axis, dtype=t.dtype, keepdims=keepdims)


_REAL_SAMPLES = tuple(sample(*s.shapes, complex=False, **s.metadata) for s in _SAMPLES)

def _reducing(primitive: Primitive) -> Primitive:
    """Register a reduction with its batching rule."""
    primitive.batch = reduction_batch(primitive)
    return register(primitive)


def _extremum(name: str, ufunc: np.ufunc) -> Primitive:
    return _reducing(
        Primitive(
            name,
            lambda x, axis=None, keepdims=False: ufunc.reduce(x, axis=axis, keepdims=keepdims),
            (_extremum_rule,),
            _extremum_tangent,
            masks=True,
            samples=_REAL_SAMPLES,
        )
    )


_max, _min = _extremum("max", np.maximum), _extremum("min", np.minimum)


def _products_of_others(x: Any, axis: Axis) -> Any:
    """Return for each element the product of all others: no division, so zeros do no harm."""
    kept = _kept(x.shape, axis)
    reduced = [a for a, size in enumerate(kept) if size == 1]
    order = [a for a in range(len(kept)) if a not in reduced] + reduced
    moved = np.transpose(x, order)
    free = moved.shape[: len(kept) - len(reduced)]
    rows = moved.reshape((*free, _count(x.shape, axis)))
    one = np.ones_like(rows[..., :1])
    before = np.cumprod(np.concatenate([one, rows[..., :-1]], axis=-1), axis=-1)
    after = np.cumprod(np.concatenate([one, rows[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    return np.transpose((before * after).reshape(moved.shape), np.argsort(order))


def _prod_rule(ans: Any, x: Any, axis: Axis = None, keepdims: bool = False) -> Callable[[Any], Any]:
    kept = _kept(x.shape, axis)
    return lambda ct: ct.reshape(kept) * _products_of_others(x, axis)


def _prod_tangent(tangents: Any, ans: Any, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    return _total(scale(tangents[0], _products_of_others(x, axis)), axis=axis, keepdims=keepdims)


_prod = _reducing(
    Primitive(
        "prod",
        lambda x, axis=None, keepdims=False: np.multiply.reduce(x, axis=axis, keepdims=keepdims),
        (_prod_rule,),
        _prod_tangent,
        samples=(*_SAMPLES, sample((0, 3), axis=1)),
    )
)


def _logsumexp_value(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    shift = _shift(np.maximum.reduce(x, axis=axis, keepdims=True))
    total = _total(np.exp(x - shift), axis=axis, keepdims=True)
    with np.errstate(divide="ignore"):  # the logarithm of 0 is -inf, as it should be
        result = np.log(total) + shift
    return result if keepdims else np.squeeze(result, axis)[()]


def _shift(largest: Any) -> Any:
    """Return what to subtract before exponentials: the largest element, or where that is -inf a number."""
    return np.maximum(largest, _LOWEST[largest.dtype.char])


_LOWEST = {char: np.finfo(char).min for char in "efdg"}


def _softmax(x: Any, ans: Any, axis: Axis) -> Any:
    return np.exp(x - _shift(ans).reshape(_kept(x.shape, axis)))


def _logsumexp_rule(ans: Any, x: Any, axis: Axis = None, keepdims: bool = False) -> Callable[[Any], Any]:
    return lambda ct: ct.reshape(_kept(x.shape, axis)) * _softmax(x, ans, axis)


_logsumexp = _reducing(
    Primitive(
        "logsumexp",
        _logsumexp_value,
        (_logsumexp_rule,),
        lambda tangents, ans, x, axis=None, keepdims=False: _total(
            tangents[0] * _softmax(x, ans, axis), axis=axis, keepdims=keepdims
        ),
        samples=_REAL_SAMPLES,
    )
)


def _cumsum_rule(ans: Any, x: Any, axis: int) -> Callable[[Any], Any]:
    backwards = (slice(None),) * (axis % x.ndim) + (slice(None, None, -1),)
    return lambda ct: np.cumsum(ct[backwards], axis)[backwards]


_cumsum = linear(
    lambda x, axis: np.add.accumulate(x, axis=axis),
    _cumsum_rule,
    sample((3,), axis=0),
    sample((2, 3), axis=0),
    sample((2, 3), axis=-1),
    sample((0, 3), axis=0),
    name="cumsum",
    batch=reduction_batch,
)

# The standard deviation has a kink where all elements are equal; the derivative there is 0.
_root = elementwise(
    lambda x: np.sqrt(x),
    lambda ans, x: lambda ct: ct * np.where(ans == 0, 0, 0.5 / np.where(ans == 0, 1, ans)),
    name="root",
    domain=(0.2, 2),
    complex=False,
)


def _reduction(primitive: Primitive) -> Callable[..., Any]:
    """Make the NumPy function of a reduction from its primitive: `dtype`, `initial` and `where` too."""

    def reduce(
        a: Any,
        axis: Axis = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        _no_out(primitive.name, out)
        a = _prepared(a, dtype)
        if where is True and initial is None:
            return apply(primitive, (a,), {"axis": plain_axis(axis), "keepdims": keepdims})
        if where is not True:
            a = np.where(where, a, _neutral(primitive.name, initial))
        result = apply(primitive, (a,), {"axis": plain_axis(axis), "keepdims": keepdims})
        return result if initial is None else _COMBINE[primitive.name](result, initial)

    reduce.__name__ = primitive.name
    return reduce


_COMBINE: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
def _neutral(name: str, initial: Any) -> Any:
    """Return what stands in for elements that a mask leaves out."""
    if name in ("sum", "prod"):
        return 0 if name == "sum" else 1
    if initial is None:
        raise ValueError(
            f"reduction operation '{name}' does not have an identity, "
            "so to use a where mask one has to specify 'initial'"
        )
    return initial


def _no_out(name: str, out: Any) -> None:
    if out is not None:
        raise errors.InPlaceError(f"np.{name}", errors.users_line())


def _prepared(a: Any, dtype: Any) -> Any:
    a = a if hasattr(a, "ndim") else np.asarray(a)
    return a if dtype is None else FUNCTIONS[np.ndarray.astype](a, dtype)


sum = _reduction(_sum)
prod = _reduction(_prod)
answers(np.sum)(sum)
answers(np.prod)(prod)


def _as_reduce(reduction: Callable[..., Any]) -> Callable[..., Any]:
    """Make `ufunc.reduce`, whose default is the first axis, from the function over all axes."""

    def reduce(
        a: Any, axis: Axis = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, **others: Any
    ) -> Any:
        _no_out("reduce", out)
        return reduction(_prepared(a, dtype), axis, keepdims=keepdims, **others)  # `initial` and `where`

    return reduce


@answers(np.max, np.amax)
def max(
    a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Any:
    """Return the largest element along axes; equal ones share the derivative."""
    return _reduction(_max)(a, axis, None, out, keepdims, initial, where)


@answers(np.min, np.amin)
def min(
    a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Any:
    """Return the smallest element along axes; equal ones share the derivative."""
    return _reduction(_min)(a, axis, None, out, keepdims, initial, where)


def logsumexp(a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return log(sum(exp(a))) along axes, without overflow."""
    return apply(_logsumexp, (a,), {"axis": plain_axis(axis), "keepdims": keepdims})


for _ufunc, _function in (
    (np.add, sum), (np.multiply, prod), (np.maximum, max), (np.minimum, min), (np.logaddexp, logsumexp),
):  # fmt: skip
    FUNCTIONS[_ufunc, "reduce"] = _as_reduce(_function)


@answers(np.mean)
def mean(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Any:
    """Return the mean along axes."""
    _no_out("mean", out)
    a, axis = _prepared(a, dtype), plain_axis(axis)
    if where is True:
        return apply(_mean, (a,), {"axis": plain_axis(axis), "keepdims": keepdims})
    return sum(a, axis, keepdims=keepdims, where=where) / _chosen(a, axis, keepdims, where)


def _mean_rule(ans: Any, x: Any, axis: Axis = None, keepdims: bool = False) -> Callable[[Any], Any]:
    shape, kept, count = x.shape, _kept(x.shape, axis), _count(x.shape, axis)
    return lambda ct: repeat((ct / count).reshape(kept), shape)


_mean = linear(
    lambda x, axis=None, keepdims=False: (
        np.add.reduce(x, axis=axis, keepdims=keepdims) / _count(np.shape(x), axis)
    ),
    _mean_rule,
    *_SAMPLES,
    name="mean",
    batch=reduction_batch,
)


def _chosen(a: Any, axis: Axis, keepdims: bool, where: Any) -> Any:
    """Return how many elements go into each result, also when a mask chooses them."""
    if where is True:
        return _count(a.shape, axis)
    return _total(np.broadcast_to(where, a.shape), axis=axis, dtype=np.intp, keepdims=keepdims)


@answers(np.var)
def var(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    correction: float | None = None,
) -> Any:
    """Return the variance along axes, by the deviations from the mean."""
    _no_out("var", out)
    a = _prepared(a, dtype)
    axis = plain_axis(axis)
    deviation = a - mean(a, axis, keepdims=True, where=where)
    if deviation.dtype.kind == "c":
        squares = np.real(deviation * np.conjugate(deviation))
    else:
        squares = np.square(deviation)
    divisor = _chosen(a, axis, keepdims, where) - (ddof if correction is None else correction)
    return sum(squares, axis, keepdims=keepdims, where=where) / divisor


@answers(np.std)
def std(*args: Any, **keywords: Any) -> Any:
    """Return the standard deviation along axes; its derivative is 0 where all elements are equal."""
    return apply(_root, (var(*args, **keywords),))


@answers(np.cumsum)
def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the sums of the elements so far along an axis, by default of the flattened array."""
    _no_out("cumsum", out)
    a = _prepared(a, dtype)
    if axis is None:
        a, axis = np.ravel(a), 0
    return apply(_cumsum, (a,), {"axis": plain_axis(axis)})


@answers(np.cumprod)
def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the products of the elements so far along an axis, by default of the flattened array.

    It doubles the stretch that each element covers until all is covered (Hillis and Steele,
    https://doi.org/10.1145/7902.7903): only products, hence derivatives that are exact through zeros.
    """
    _no_out("cumprod", out)
    a = _prepared(a, dtype)
    if axis is None:
        a, axis = np.ravel(a), 0
    lead = (slice(None),) * (axis % a.ndim)
    covered = 1
    while covered < a.shape[axis]:
        first, later = a[(*lead, slice(covered))], a[(*lead, slice(covered, None))]
        a = np.concatenate([first, later * a[(*lead, slice(-covered))]], axis=axis)
        covered *= 2
    return a


def _without_derivative(function: Any, batch: Any, *samples: Any) -> None:
    """Let a reduction to indices or truth values be a primitive with the derivative 0."""
    primitive = constant_in_pieces(function, batch, *samples)

    def answer(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False) -> Any:
        _no_out(function.__name__, out)
        return apply(primitive, (a,), {"axis": plain_axis(axis), "keepdims": keepdims})

    answer.__name__ = function.__name__
    answers(function)(answer)


for _function, _batch in (
    (np.argmax, index_of_extremum_batch),
    (np.argmin, index_of_extremum_batch),
    (np.all, reduction_batch),
    (np.any, reduction_batch),
):
    _without_derivative(_function, _batch, sample((4,)), sample((2, 3), axis=-1, keepdims=True))
