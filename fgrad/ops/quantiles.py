"""Medians, percentiles and quantiles: elements of certain ranks, and interpolation between two of them.

The derivative goes to the selected elements; among equal elements, to those that a stable sort would select.
The derivative with respect to `q` is the slope between the two neighbours, where the method interpolates; at an
element itself, the slope above it. Formulas: Hyndman and Fan, "Sample Quantiles in Statistical
Packages", The American Statistician 50 (1996), https://doi.org/10.2307/2684934.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.core.tensor import apply
from fgrad.core.views import as_number
from fgrad.ops.batching import rows_batch
from fgrad.ops.elementwise import in_c_order
from fgrad.ops.families import plain_axis, sample
from fgrad.ops.sorting import along_last, ranked, stable_order, without_derivative
from fgrad.ops.tracing import answers_traced, raw_array
from fgrad.typing import Array, ArrayLike, Axes

# Rows: the reduced axes, merged into the last axis


def _axes(axis: Axes, ndim: int) -> tuple[int, ...]:
    """Return the reduced axes as nonnegative integers."""
    if axis is None:
        return tuple(range(ndim))
    return np.lib.array_utils.normalize_axis_tuple(plain_axis(axis), ndim)


def _rows(x: Array, axes: tuple[int, ...]) -> Array:
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    moved = np.transpose(x, [*kept, *sorted(axes)])
    size = int(np.prod([x.shape[axis] for axis in axes], dtype=np.intp))
    return np.reshape(moved, (*(x.shape[axis] for axis in kept), size))


def _reduced(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Return the shape that remains after the reduction of axes."""
    if keepdims:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def _counts(rows: Array) -> Any:
    """Return how many elements of each row are not NaN, as `(..., 1)`."""
    return np.sum(np.logical_not(np.isnan(rows)), axis=-1, keepdims=True)


def _unless(missing: Array, result: Array) -> Array:
    """Return a result with NaN, and without a derivative, at some places."""
    return np.where(missing, np.nan, result)


def _kept(keepdims: Any) -> bool:
    return keepdims is not np._NoValue and bool(keepdims)


# Medians


def _ranks(index: Array) -> Any:
    """Return ranks clipped to be nonnegative, for `rank_places`."""
    return np.maximum(index, 0)


def _middle(rows: Array, counts: Array) -> Any:
    """Return the mean of the two middle elements, which coincide for odd lengths."""
    lower, upper = _ranks((counts - 1) // 2), _ranks(counts // 2)
    both = ranked(rows, np.concatenate([lower, upper], axis=-1))
    return np.where(lower == upper, both[..., 1:], np.mean(both, axis=-1, keepdims=True))[..., 0]


def _median(function: Callable[..., Any], skips_nan: bool) -> None:
    """Make `median` or `nanmedian` from the middle of each row."""

    @answers_traced(function)
    def answer(
        a: Array, axis: Axes = None, out: object = None, overwrite_input: bool = False, keepdims: bool = False
    ) -> Any:
        a = as_array(a)
        axes, keepdims = _axes(axis, a.ndim), _kept(keepdims)
        if not a.size:
            return function(np.zeros(a.shape, a.dtype), axes, keepdims=keepdims)
        rows = _rows(a, axes)
        if a.dtype.kind not in "fc" or not skips_nan:
            result = np.mean(ranked(rows, _middle_ranks(rows)), axis=-1)
            if a.dtype.kind in "fc":
                result = _unless(np.any(np.isnan(rows), axis=-1), result)
        else:
            counts = _counts(rows)
            result = _unless(counts[..., 0] == 0, _middle(rows, counts))
        return np.reshape(result, _reduced(a.shape, axes, keepdims))


def _middle_ranks(rows: Array) -> Array:
    n = rows.shape[-1]
    ranks = [n // 2] if n % 2 else [n // 2 - 1, n // 2]
    return np.array(ranks).reshape((1,) * (rows.ndim - 1) + (-1,))


_median(np.median, False)
_median(np.nanmedian, True)


# Position of a quantile among n sorted elements, counted from 0


def _plotting(alpha: float, beta: float) -> Callable[[Any, Any], Any]:
    """Return the position by the plotting positions of Hyndman and Fan, equation (2)."""
    return lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


def _steps(index: Array, stays: Callable[..., Any]) -> Any:
    """Return the position of a step function: at a discontinuity the lower neighbour, elsewhere the upper one."""
    lower = np.floor(index)
    return _ranks(np.where(stays(index - lower, lower), lower, lower + 1))


_POSITIONS: dict[str, Callable[[Any, Any], Any]] = {
    "inverted_cdf": lambda n, q: _steps(n * q - 1, lambda rest, lower: rest == 0),
    "averaged_inverted_cdf": lambda n, q: n * q - 1,
    "closest_observation": lambda n, q: _steps(n * q - 1 - 0.5, lambda rest, lower: (rest == 0) & (lower % 2 == 1)),
    "interpolated_inverted_cdf": _plotting(0, 1),
    "hazen": _plotting(0.5, 0.5),
    "weibull": _plotting(0, 0),
    "linear": lambda n, q: (n - 1) * q,
    "median_unbiased": _plotting(1 / 3, 1 / 3),
    "normal_unbiased": _plotting(3 / 8, 3 / 8),
    "lower": lambda n, q: np.floor((n - 1) * q),
    "higher": lambda n, q: np.ceil((n - 1) * q),
    "midpoint": lambda n, q: 0.5 * (np.floor((n - 1) * q) + np.ceil((n - 1) * q)),
    "nearest": lambda n, q: np.round((n - 1) * q),
}
_PICKING = {"inverted_cdf", "closest_observation", "lower", "higher", "nearest"}
"""Methods that select an element and never interpolate."""


def _share(method: str, position: Array, lower: Array) -> Any:
    """Return the weight of the upper neighbour."""
    rest = position - lower
    if method not in _SHARES:
        return rest
    share = np.where(rest == 0, *_SHARES[method])
    return share.astype(rest.dtype) if rest.dtype.kind == "f" else share


_SHARES = {"averaged_inverted_cdf": (0.5, 1.0), "midpoint": (0.0, 0.5)}
"""For methods that do not interpolate: the weight at an element, and between two."""


def _interpolated(rows: Array, counts: Array, q: Array, method: str, weak: bool) -> Any:
    """Return the quantiles of each row, along a new last axis."""
    if method in _PICKING or (method == "linear" and q.dtype.kind in "iub"):
        return ranked(rows, _ranks(np.minimum(_POSITIONS[method](counts, q), counts - 1)).astype(np.intp))
    position = _POSITIONS[method](counts, q)
    lower = np.floor(position)
    ends = [
        np.where(position >= counts - 1, counts - 1, np.where(position < 0, 0, index)) for index in (lower, lower + 1)
    ]
    both = ranked(rows, _ranks(np.concatenate(ends, axis=-1)).astype(np.intp))
    size = ends[0].shape[-1]
    first, second = both[..., :size], both[..., size:]
    share = _share(method, position, lower)
    rest = 1 - share
    if weak and rows.dtype.kind == "f":
        share, rest = share.astype(rows.dtype), rest.astype(rows.dtype)
    step = second - first
    return np.where(share >= 0.5, second - step * rest, first + step * share)


# With weights


def weighted_places(x: Array, weights: Array, q: Array, skips_nan: bool) -> Array:
    """Return the positions of weighted quantiles in each row.

    Args:
        x, weights: of shape `(..., n)`; axes before the last broadcast.
        q: of shape `(..., number of quantiles)`.
        skips_nan: leave NaNs out.
    """
    lead = np.broadcast_shapes(x.shape[:-1], weights.shape[:-1], q.shape[:-1])
    x, weights, q = (np.broadcast_to(each, (*lead, each.shape[-1])) for each in (x, weights, q))
    places = np.zeros(q.shape, np.intp)
    for row in np.ndindex(lead):
        places[row] = _weighted_row(x[row], weights[row], q[row], skips_nan)
    return places


def _weighted_row(x: Array, weights: Array, q: Array, skips_nan: bool) -> Any:
    order = stable_order(x, 0)
    if skips_nan:
        order = order[: x.size - np.count_nonzero(np.isnan(x))]
        if not order.size:
            return 0
    below = np.cumsum(weights[order], dtype=np.float64)
    with np.errstate(all="ignore"):
        below = below / below[-1]
    if np.isnan(below[-1]):
        raise ValueError("Weights included NaN, inf or were all zero.")
    if q.dtype.kind == "f":
        below = below.astype(q.dtype)
    if below[0] == 0:
        below[below == 0] = -1  # for q = 0, elements without weight do not count
    return order[np.minimum(np.searchsorted(below, q), order.size - 1)]


_weighted_places = without_derivative(
    "weighted_places",
    weighted_places,
    rows_batch,
    sample((4,), (4,), (2,), domain=(0.1, 0.9), complex=False, skips_nan=False),
    sample((2, 4), (2, 4), (1, 3), domain=(0.1, 0.9), complex=False, skips_nan=True),
    arguments=3,
)


def fitted_weights(weights: ArrayLike, a: Array, axes: tuple[int, ...] | None) -> Any:
    """Return weights in a shape that broadcasts against the array.

    Raises:
        TypeError: the shapes differ, and no axis is given.
        ValueError: the weights do not have the shape of the axes.
    """
    weights = as_array(weights)
    if a.shape == weights.shape:
        return weights
    if axes is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    if weights.shape != tuple(a.shape[axis] for axis in axes):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    weights = np.transpose(weights, np.argsort(axes))
    return np.reshape(weights, tuple(size if axis in axes else 1 for axis, size in enumerate(a.shape)))


def _checked_weights(weights: Any, a: Array, axes: tuple[int, ...] | None, method: str) -> Array:
    if method != "inverted_cdf":
        raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
    weights = fitted_weights(weights, a, axes)
    if np.any(raw_array(weights) < 0):
        raise ValueError("Weights must be non-negative.")
    return np.broadcast_to(weights, a.shape)


# NumPy's functions


def _check(function: Callable[..., Any], dtype: np.dtype[Any], q: Array, method: str, scale: float) -> None:
    """Run NumPy's checks of the dtype, `q` and the method name, with NumPy's errors."""
    one = np.zeros(1, dtype)
    function(one, np.ravel(raw_array(q)) if q.size else np.zeros(1), method=method)
    function(one, np.full((1,) * q.ndim, scale), method=method)


def _quantiles(
    function: Callable[..., Any],
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes,
    method: str,
    keepdims: bool,
    weights: ArrayLike | None,
    scale: float,
) -> Any:
    weak = type(q) in (int, float)
    a, q = as_array(a), as_array(q)
    _check(function, a.dtype, q, method, scale)
    q = np.true_divide(q, scale) if scale != 1 else q
    axes = _axes(axis, a.ndim)
    if weights is not None:
        weights = _checked_weights(weights, a, None if axis is None else axes, method)
    if not a.size:
        return function(np.zeros(a.shape, a.dtype), np.zeros(q.shape), axes, method=method, keepdims=keepdims)
    skips_nan = "nan" in function.__name__ and a.dtype.kind == "f"
    rows = _rows(a, axes)
    places = np.reshape(q, (1,) * (rows.ndim - 1) + (-1,))
    counts = _counts(rows) if skips_nan else np.full((1,) * rows.ndim, rows.shape[-1])
    if weights is None:
        typed = counts.astype(places.dtype) if places.dtype.kind == "f" else counts
        result = _interpolated(rows, typed, places, method, weak)
    else:
        found = apply(_weighted_places, (rows, _rows(weights, axes), places), {"skips_nan": skips_nan})
        result = along_last(rows, found)
    if a.dtype.kind == "f":
        result = _unless(counts == 0 if skips_nan else np.any(np.isnan(rows), axis=-1, keepdims=True), result)
    return in_c_order(as_number(np.reshape(np.moveaxis(result, -1, 0), (*q.shape, *_reduced(a.shape, axes, keepdims)))))


def _quantile(function: Callable[..., Any], scale: float) -> None:
    """Make `quantile` or one of its kin, with `q` from 0 to `scale`, from the quantiles of rows."""

    @answers_traced(function)
    def answer(
        a: Array,
        q: ArrayLike,
        axis: Axes = None,
        out: object = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: ArrayLike | None = None,
    ) -> Any:
        return _quantiles(function, a, q, axis, method, _kept(keepdims), weights, scale)


_quantile(np.quantile, 1)
_quantile(np.percentile, 100)
_quantile(np.nanquantile, 1)
_quantile(np.nanpercentile, 100)
