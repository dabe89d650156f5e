"""Averages, covariances, and reductions that skip NaN, composed of other operations.

Skipped elements have derivatives 0 of all orders: `where` replaces them by a number.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.core.primitive import BOXES
from fgrad.ops import reductions
from fgrad.ops.families import answers, plain_axis, reduced_axis
from fgrad.ops.indexing import written
from fgrad.ops.lengths import divided, length, squared
from fgrad.ops.quantiles import fitted_weights
from fgrad.ops.reductions import degrees
from fgrad.ops.tracing import answers_traced, raw_array, run
from fgrad.typing import Array, ArrayLike, Axes, DTypeLike, Operand

# Reductions without NaN


def _without_nan(a: Array, stand_in: float) -> Array:
    """Return an array with NaN replaced by a number."""
    return np.where(np.isnan(a), stand_in, a) if a.dtype.kind in "fc" else a


def _options(**options: object) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value is not np._NoValue and value is not None}


def _nan_total(function: Callable[..., Any], total: Callable[..., Any], neutral: int) -> None:
    """Make `nansum` or `nanprod` from the total, with 0 or 1 in place of NaN."""

    @answers_traced(function)
    def answer(
        a: Array,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: object = None,
        keepdims: object = np._NoValue,
        initial: object = np._NoValue,
        where: object = np._NoValue,
    ) -> Any:
        options = _options(axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)
        return total(_without_nan(as_array(a), neutral), **options)


_nan_total(np.nansum, reductions.sum, 0)
_nan_total(np.nanprod, reductions.prod, 1)


def _numbers(a: Array, axis: Axes, keepdims: bool, where: Array | bool) -> Any:
    """Return how many elements that are not NaN contribute to each result."""
    present = np.logical_not(np.isnan(a))
    return reductions.sum(present if where is True else np.logical_and(present, where), axis, keepdims=keepdims)


def _checked_dtype(a: Array, dtype: DTypeLike) -> Any:
    """Return an array in the requested dtype.

    Raises:
        TypeError: that dtype cannot hold the result.
    """
    if dtype is not None and a.dtype.kind in "fc" and np.dtype(dtype).kind not in "fc":
        raise TypeError("If a is inexact, then dtype must be inexact")
    return as_array(a, dtype)


@answers_traced(np.nanmean)
def nanmean(
    a: Any,
    axis: Axes = None,
    dtype: Any = None,
    out: object = None,
    keepdims: object = np._NoValue,
    *,
    where: object = np._NoValue,
) -> Any:
    """Return the mean along axes, ignoring NaN."""
    a = as_array(a)
    options = _options(axis=plain_axis(axis), keepdims=keepdims, where=where)
    if a.dtype.kind not in "fc":
        return np.mean(a, dtype=dtype, **options)
    a = _checked_dtype(a, dtype)
    number = _numbers(a, axis, options.get("keepdims", False), options.get("where", True))
    if np.any(raw_array(number) == 0):
        warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=3)
    with np.errstate(invalid="ignore", divide="ignore"):
        return divided(reductions.sum(_without_nan(a, 0), **options), number)


@answers_traced(np.nanvar)
def nanvar(
    a: ArrayLike,
    axis: Axes = None,
    dtype: Any = None,
    out: object = None,
    ddof: float = 0,
    keepdims: object = np._NoValue,
    *,
    where: Any = np._NoValue,
    mean: Any = np._NoValue,
    correction: Any = np._NoValue,
) -> Any:
    """Return the variance along axes, ignoring NaN."""
    a, ddof = as_array(a), degrees(ddof, correction)
    axis = reduced_axis(axis, a)
    options = _options(axis=axis, keepdims=keepdims, where=where)
    if a.dtype.kind not in "fc":
        return np.var(a, dtype=dtype, ddof=ddof, **options, **_options(mean=mean))
    kept = options.get("keepdims", False)
    deviation, number = _spread(a, axis, dtype, ddof, kept, options.get("where", True), mean)
    with np.errstate(invalid="ignore", divide="ignore"):
        result = divided(reductions.sum(squared(deviation), **options), number)
    return np.where(number <= 0, np.nan, result)


def _spread(
    a: Array, axis: Axes, dtype: DTypeLike, ddof: float, kept: bool, mask: Array | bool, mean: object
) -> tuple[Any, Any]:
    """Return deviations from the mean, 0 for NaN, and the divisor of the sum of their squares."""
    a = _checked_dtype(a, dtype)
    missing = np.isnan(a)
    with np.errstate(invalid="ignore", divide="ignore"):
        if mean is np._NoValue:
            total = reductions.sum(np.where(missing, 0, a), axis, keepdims=True, where=mask)
            mean = divided(total, _numbers(a, axis, True, mask))
        deviation = np.where(missing, 0, a - mean)
        number = _numbers(a, axis, kept, mask) - ddof
    if np.any(raw_array(number) <= 0):
        warnings.warn("Degrees of freedom <= 0 for slice.", RuntimeWarning, stacklevel=4)
    return deviation, number


@answers_traced(np.nanstd)
def nanstd(
    a: ArrayLike,
    axis: Axes = None,
    dtype: Any = None,
    out: object = None,
    ddof: float = 0,
    keepdims: object = np._NoValue,
    *,
    where: object = np._NoValue,
    mean: object = np._NoValue,
    correction: Any = np._NoValue,
) -> Any:
    """Return the standard deviation along axes, ignoring NaN; its derivative is 0 where all elements are equal."""
    a, ddof = as_array(a), degrees(ddof, correction)
    axis = reduced_axis(axis, a)
    options = _options(axis=axis, keepdims=keepdims, where=where)
    if a.dtype.kind not in "fc":
        return np.std(a, dtype=dtype, ddof=ddof, **options, **_options(mean=mean))
    mask = options.get("where", True)
    deviation, number = _spread(a, axis, dtype, ddof, True, mask, mean)
    deviation = deviation if mask is True else reductions.masked(deviation, mask, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return length(deviation, axis, options.get("keepdims", False), np.where(number <= 0, np.nan, number))


@answers(np.nan_to_num)
def nan_to_num(
    x: Array, copy: bool = True, nan: Operand = 0.0, posinf: Operand | None = None, neginf: Operand | None = None
) -> Any:
    """Return an array with numbers in place of NaN and infinity; these have the derivative 0."""
    result = run(np.nan_to_num, _finite, (x,), {"nan": nan, "posinf": posinf, "neginf": neginf})
    return result if copy or type(x) not in BOXES else written("np.nan_to_num", x, result)


def _finite(x: Array, nan: Operand, posinf: Operand | None, neginf: Operand | None) -> Any:
    x = as_array(x)
    if x.dtype.kind not in "fc":
        return x
    limits = np.finfo(x.dtype)
    stand_ins = (
        (np.isnan, nan),
        (lambda x: np.equal(x, np.inf), limits.max if posinf is None else posinf),
        (lambda x: np.equal(x, -np.inf), limits.min if neginf is None else neginf),
    )
    if x.dtype.kind == "f":
        return _replaced(x, x, stand_ins)
    imaginary = [(is_it, 1j * value if np.isfinite(value) else complex(0, value)) for is_it, value in stand_ins]
    return as_array(_replaced(np.real(x), np.real(x), stand_ins), x.dtype) + _replaced(
        np.where(np.isfinite(np.imag(x)), 1j, 0) * np.where(np.isfinite(np.imag(x)), np.imag(x), 0),
        np.imag(x),
        imaginary,
    ).astype(x.dtype)


def _replaced(result: Array, x: Array, stand_ins: Sequence[Any]) -> Any:
    """Return a result with other numbers where `x` is NaN or infinite."""
    dtype = result.dtype
    for is_it, value in stand_ins:
        result = np.where(is_it(x), value, result)
    return result.astype(dtype) if result.dtype != dtype else result


# Averages and covariances


@answers_traced(np.average)
def average(
    a: Any, axis: Axes = None, weights: Any = None, returned: bool = False, *, keepdims: object = np._NoValue
) -> Any:
    """Return the weighted average along axes, optionally with the sums of the weights."""
    a = as_array(a)
    axes = None if axis is None else np.lib.array_utils.normalize_axis_tuple(plain_axis(axis), a.ndim, "axis")
    options = _options(axis=axes, keepdims=keepdims)
    if weights is None:
        result = np.mean(a, **options)
        total: Any = np.asarray(a.size / result.size, result.dtype)
    else:
        weights = fitted_weights(weights, a, axes)
        promoted = [a.dtype, weights.dtype, *([np.float64] if a.dtype.kind in "biu" else [])]
        dtype = np.result_type(*promoted)
        total = np.sum(weights, dtype=dtype, **options)
        if np.any(raw_array(total) == 0):
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
        result = np.sum(as_array(a, dtype) * as_array(weights, dtype), **options) / total
    if not returned:
        return result
    return result, np.broadcast_to(total, result.shape) if total.shape != result.shape else total


@answers_traced(np.cov)
def cov(
    m: Any,
    y: Array | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Sequence[Any] | None = None,
    aweights: ArrayLike | None = None,
    *,
    dtype: DTypeLike | None = None,
) -> Any:
    """Return the covariance matrix of variables, each a row of observations."""
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    x = _observations(m, y, rowvar, dtype)
    if not x.shape[0]:
        return np.zeros((0, 0))
    weights = _cov_weights(fweights, aweights, x.shape[1])
    mean, total = average(x, axis=1, weights=weights, returned=True)
    if ddof is None:
        ddof = 0 if bias else 1
    number: Any = x.shape[1] - ddof if weights is None else total[0]
    if weights is not None and ddof:
        lost = ddof if aweights is None else ddof * np.sum(weights * as_array(aweights)) / number
        number = number - lost
    if np.any(raw_array(number) <= 0):
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=3)
        number = np.where(number <= 0, 0.0, number)
    deviation = as_array(x - mean[:, None], x.dtype)
    weighed = deviation if weights is None else deviation * weights
    products = np.dot(deviation, np.conjugate(weighed.T))
    return np.squeeze(as_array(products * np.true_divide(1, number), products.dtype))


def _observations(m: Array, y: Array | None, rowvar: bool, dtype: DTypeLike | None) -> Array:
    """Return all variables as the rows of one array."""
    arrays = [as_array(m)] if y is None else [as_array(m), as_array(y)]
    for name, array in zip("my", arrays, strict=False):
        if array.ndim > 2:
            raise ValueError(f"{name} has more than 2 dimensions")
    if dtype is None:
        dtype = np.result_type(*(array.dtype for array in arrays), np.float64)
    rows = []
    for place, array in enumerate(arrays):
        row = np.reshape(as_array(array, dtype), (1,) * (2 - array.ndim) + tuple(array.shape))
        turned = array.ndim != 1 if place == 0 else row.shape[0] != 1
        rows.append(row.T if turned and not rowvar else row)
    return rows[0] if y is None or not rows[0].shape[0] else np.concatenate(rows, axis=0)


def _cov_weights(fweights: Sequence[Any] | None, aweights: ArrayLike | None, count: int) -> Any:
    """Return the product of the given weights, or None.

    Raises:
        TypeError: the frequencies are not integers.
        RuntimeError, ValueError: the weights have more than one axis, a wrong size, or negative elements.
    """
    weights: Any = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        given = as_array(given, np.float64)
        value = raw_array(given)
        if name == "fweights" and not np.all(value == np.around(value)):
            raise TypeError("fweights must be integer")
        if given.ndim > 1:
            raise RuntimeError(f"cannot handle multidimensional {name}")
        if given.shape[0] != count:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if np.any(value < 0):
            raise ValueError(f"{name} cannot be negative")
        weights = given if weights is None else weights * given
    return weights


@answers_traced(np.corrcoef)
def corrcoef(x: Array, y: Array | None = None, rowvar: bool = True, *, dtype: DTypeLike | None = None) -> Any:
    """Return the correlation coefficients of variables, each a row of observations."""
    products = cov(x, y, rowvar, dtype=dtype)
    if products.ndim == 0:
        return products / products
    place = np.arange(products.shape[0])
    deviation = np.sqrt(np.real(products[place, place]))
    result = products / deviation[:, None] / deviation[None, :]
    if result.dtype.kind == "c":
        return np.clip(np.real(result), -1, 1) + 1j * np.clip(np.imag(result), -1, 1)
    return np.clip(result, -1, 1)
