"""Sums, products and differences along an axis: each element of the result depends on those before it.

`cumsum`, `cumprod` and `recurrence` are primitives. The derivative of a cumulative product is the solution
of a recurrence, `y[k] = a[k] * y[k - 1] + b[k]`, which needs no division, so zeros do no harm:

    recurrence(a, b, axis)      solves it in time proportional to the size, halving the problem each time
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.core.foreign import accumulated_by
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import all_mapped, reduction_batch
from fgrad.ops.families import answers, linear, plain_axis, reduced_axis, register, sample, scale
from fgrad.ops.indexing import cut, written
from fgrad.ops.patterns import so_far, windowed
from fgrad.ops.tracing import answers_traced
from fgrad.typing import Array, ArrayLike, DTypeLike

# Sums


def _cumsum_rule(ans: Array, x: Array, axis: int) -> Callable[[Any], Any]:
    return lambda ct: cut(np.cumsum(cut(ct, axis, None, None, -1), axis), axis, None, None, -1)


_cumsum = linear(
    lambda x, axis: accumulated_by(np.add, x, axis),
    _cumsum_rule,
    sample((3,), axis=0),
    sample((2, 3), axis=0),
    sample((2, 3), axis=-1),
    sample((0, 3), axis=0),
    name="cumsum",
    batch=reduction_batch,
    pattern=so_far,
)


def _accumulation(function: Callable[..., Any], primitive: Primitive) -> Callable[..., Any]:
    """Make `cumsum` or `cumprod` from its primitive; without an axis, of the flattened array."""

    @answers(function)
    def accumulate(a: Any, axis: int | None = None, dtype: Any = None, out: Array | None = None) -> Any:
        a = as_array(a, dtype)
        axis = reduced_axis(axis, a)
        a, axis = (np.ravel(a), 0) if axis is None else (a, axis)
        result = as_array(apply(primitive, (a,), {"axis": axis}), dtype)
        return result if out is None else written(f"np.{function.__name__}", out, result)

    return accumulate


cumsum = _accumulation(np.cumsum, _cumsum)


# Recurrences and products


def _solved(a: Array, b: Array) -> Any:
    """Return y with y[0] = b[0] and y[k] = a[k - 1] * y[k - 1] + b[k], along the first axis.

    Every other equation is put into the next one, which leaves half as many (cyclic reduction; Blelloch,
    https://www.cs.cmu.edu/~guyb/papers/Ble93.pdf, section 1.4). Where there are many problems
    side by side, or few equations, they are solved one after the other.
    """
    y = np.empty_like(b)
    n = len(b)
    if n < _SHORT or b.size >= _WIDE * n:
        y[:1] = b[:1]
        for k in range(1, n):
            y[k] = scale(y[k - 1], a[k - 1]) + b[k]
        return y
    y[1::2] = _solved(a[2::2] * a[1 : n - 2 : 2], scale(b[: n - 1 : 2], a[::2]) + b[1::2])
    y[0] = b[0]
    y[2::2] = scale(y[1 : n - 1 : 2], a[1::2]) + b[2::2]
    return y


_SHORT, _WIDE = 16, 512


def _recurrence_value(a: Any, b: Any, axis: int, backwards: bool) -> Any:
    kind = np.result_type(a, b)
    a, b = np.moveaxis(a, axis, 0).astype(kind, copy=False), np.moveaxis(b, axis, 0).astype(kind, copy=False)
    with np.errstate(all="ignore"):  # infinities are visible in the result
        solved = _solved(a[:0:-1], b[::-1])[::-1] if backwards else _solved(a[1:], b)
    return np.moveaxis(solved, 0, axis)


def _before(x: Array, axis: int, first: float) -> Array:
    """Return the elements shifted one place towards the end, with a number in the first place."""
    lead = cut(x, axis, 0, 1)
    return np.concatenate([np.full_like(lead, first), cut(x, axis, None, -1)], axis)


def _after(x: Array, axis: int) -> Array:
    """Return the elements shifted one place towards the front, with 0 in the last place."""
    lead = cut(x, axis, 0, 1)
    return np.concatenate([cut(x, axis, 1, None), np.zeros_like(lead)], axis)


def _factor_rule(ans: Array, a: Array, b: Array, axis: int, backwards: bool) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        moved = recurrence(a, ct, axis, not backwards)
        return scale(_before(moved, axis, 0), ans) if backwards else scale(moved, _before(ans, axis, 0))

    return pullback


def _recurrence_tangent(tangents: Sequence[Any], ans: Array, a: Array, b: Array, axis: int, backwards: bool) -> Any:
    moved, total = tangents
    if moved is not ZERO:
        with np.errstate(all="ignore"):
            bent = _after(scale(moved, ans), axis) if backwards else scale(moved, _before(ans, axis, 0))
        total = bent if total is ZERO else total + bent
    return recurrence(a, total, axis, backwards)


_recurrence = register(
    Primitive(
        "recurrence",
        _recurrence_value,
        (_factor_rule, lambda ans, a, b, axis, backwards: lambda ct: recurrence(a, ct, axis, not backwards)),
        _recurrence_tangent,
        samples=tuple(
            sample(shape, shape, axis=axis, backwards=backwards)
            for shape, axis in (((4,), 0), ((2, 3), -1), ((1, 2), 0), ((0, 2), 0), ((21,), 0), ((18, 2), 0))
            for backwards in (False, True)
        ),
        pattern=so_far,
    )
)


def _batched_recurrence(values: Sequence[Any], mapped: Sequence[Any], size: int, metadata: Mapping[str, Any]) -> Any:
    a, b = all_mapped(values, mapped, size)
    return apply(_recurrence, (a, b), {**metadata, "axis": metadata["axis"] % (len(b.shape) - 1) + 1})


_recurrence.batch = _batched_recurrence


def recurrence(a: Array, b: Array, axis: int, backwards: bool = False) -> Any:
    """Return the solution of a linear recurrence along an axis.

    Args:
        a: the factors, of the shape of `b`; the first one is not used.
        b: the terms.
        axis: along which the equations follow each other.
        backwards: solve the transposed system, `y[k] = a[k + 1] * y[k + 1] + b[k]`, from the end.

    Returns:
        `y` of the shape of `b`: `y[0] = b[0]` and `y[k] = a[k] * y[k - 1] + b[k]`.

    Example:
        >>> recurrence(np.array([9.0, 2.0, 0.0, 1.0]), np.array([1.0, 1.0, 5.0, 1.0]), axis=0)
        array([1., 3., 5., 6.])
    """
    return apply(_recurrence, (a, b), {"axis": axis, "backwards": backwards})


def _cumprod_tangent(tangents: Sequence[Any], ans: Array, x: Array, axis: int) -> Any:
    with np.errstate(all="ignore"):
        bent = scale(tangents[0], _before(ans, axis, 1))
    return recurrence(x, bent, axis)


_cumprod = register(
    Primitive(
        "cumprod",
        lambda x, axis: accumulated_by(np.multiply, x, axis),
        (lambda ans, x, axis: lambda ct: scale(recurrence(x, ct, axis, True), _before(ans, axis, 1)),),
        _cumprod_tangent,
        samples=(
            sample((3,), axis=0), sample((2, 3), axis=0), sample((2, 3), axis=-1), sample((0, 3), axis=0),
            sample((40,), axis=0, domain=(0.8, 1.2)),
        ),
        pattern=so_far,
    )
)  # fmt: skip
_cumprod.batch = reduction_batch(_cumprod)


cumprod = _accumulation(np.cumprod, _cumprod)


def _cumulative(function: Callable[..., Any], accumulated: Callable[..., Any], start: int) -> None:
    """Make `cumulative_sum` or `cumulative_prod` from `cumsum` or `cumprod`, optionally with a leading 0 or 1."""

    @answers_traced(function)
    def answer(
        x: ArrayLike,
        /,
        *,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        out: object = None,
        include_initial: bool = False,
    ) -> Any:
        x = as_array(x)
        if x.ndim != 1 and axis is None:
            function(np.empty((0,) * x.ndim))  # NumPy's message
        axis = 0 if axis is None else plain_axis(axis)
        result = accumulated(x, axis, dtype)
        if not include_initial:
            return result
        shape = list(result.shape)
        shape[axis] = 1
        return np.concatenate([np.full_like(result, start, shape=shape), result], axis)


_cumulative(np.cumulative_sum, cumsum, 0)
_cumulative(np.cumulative_prod, cumprod, 1)


def _without_nan(function: Callable[..., Any], accumulated: Callable[..., Any], neutral: int) -> None:
    """Make `nancumsum` or `nancumprod`: NaNs count as 0 or 1."""

    @answers_traced(function)
    def answer(a: Array, axis: int | None = None, dtype: object = None, out: object = None) -> Any:
        a = as_array(a)
        if a.dtype.kind in "fc":
            a = np.where(np.isnan(a), neutral, a)
        return accumulated(a, axis, dtype)


_without_nan(np.nancumsum, cumsum, 0)
_without_nan(np.nancumprod, cumprod, 1)


# Differences


def _as_slice(edge: ArrayLike, shape: tuple[int, ...], axis: int) -> Any:
    """Return the values to prepend or append; a single number is repeated."""
    edge = as_array(edge)
    return np.broadcast_to(edge, (*shape[:axis], 1, *shape[axis + 1 :])) if edge.ndim == 0 else edge


def _difference_rule(ans: Array, x: Array, axis: int) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        edge = np.zeros_like(ct, shape=(*ct.shape[:axis], 1, *ct.shape[axis + 1 :]))
        padded = np.concatenate([edge, ct, edge], axis)
        return cut(padded, axis, None, -1) - cut(padded, axis, 1, None)

    return pullback


_difference = linear(
    lambda x, axis: cut(x, axis, 1, None) - cut(x, axis, None, -1),
    _difference_rule,
    sample((4,), axis=0),
    sample((2, 3), axis=0),
    sample((2, 1), axis=1),
    name="difference",
    batch=reduction_batch,
    pattern=lambda step: windowed(step, {step.metadata["axis"]: range(2)}),
)


@answers_traced(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Return the n-th discrete differences along an axis."""
    if n == 0:
        return a
    a = as_array(a)
    if n < 0 or a.ndim == 0:
        np.diff(np.zeros((1,) * a.ndim), n)  # NumPy's messages
    axis = plain_axis(axis)
    if not -a.ndim <= axis < a.ndim:
        raise np.exceptions.AxisError(axis, a.ndim)
    axis %= a.ndim
    edges = [
        [] if edge is None or edge is np._NoValue else [_as_slice(edge, a.shape, axis)] for edge in (prepend, append)
    ]
    if edges[0] or edges[1]:
        a = np.concatenate([*edges[0], a, *edges[1]], axis)
    for _ in range(n):
        if not a.shape[axis]:
            return a
        if a.dtype == np.bool_:
            a = np.not_equal(cut(a, axis, 1, None), cut(a, axis, None, -1))
        else:
            a = apply(_difference, (a,), {"axis": axis})
    return a


@answers_traced(np.ediff1d)
def ediff1d(ary: ArrayLike, to_end: object = None, to_begin: object = None) -> Any:
    """Return the differences of neighbours in the flattened array, with others before and after them."""
    ary = np.ravel(as_array(ary))
    difference = apply(_difference, (ary,), {"axis": 0}) if ary.size else ary
    if to_end is None and to_begin is None:
        return difference
    edges = []
    for name, edge in (("to_begin", to_begin), ("to_end", to_end)):
        edge = np.zeros(0, ary.dtype) if edge is None else as_array(edge)
        if not np.can_cast(edge.dtype, ary.dtype, "same_kind"):
            raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
        edges.append(as_array(np.ravel(edge), ary.dtype))
    return np.concatenate([edges[0], difference, edges[1]])
