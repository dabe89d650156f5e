"""Histograms: counts are piecewise constant; weights, densities and edges have derivatives.

The derivative of a weighted count goes to the weights of the counted elements. Edges that NumPy places between the
smallest and the largest element depend on these two elements, and a density is a count divided by the bin width.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import all_mapped
from fgrad.ops.families import register, sample
from fgrad.ops.indexing import getitem, values_of
from fgrad.ops.tracing import answers_traced, raw_array
from fgrad.typing import Array, ArrayLike


def _tallied(weights: Array, places: Array, length: int) -> Array:
    """Return for each bin the sum of its weights."""
    if weights.dtype.kind == "c":
        parts = [np.bincount(places, part, length) for part in (weights.real, weights.imag)]
        return parts[0] + 1j * parts[1]
    return np.bincount(places, weights, length)


def _batched_tally(values: Sequence[Any], mapped: Sequence[Any], size: int, metadata: Mapping[str, Any]) -> Array:
    weights, places = all_mapped(values, mapped, size)
    length = metadata["length"]
    # One count for the whole batch, with separate bins for each example.
    apart = places + length * np.arange(size)[:, None]
    counted = apply(_tally, (np.ravel(weights), np.ravel(apart)), {"length": size * length})
    return np.reshape(counted, (size, length))


_tally = register(
    Primitive(
        "tally",
        _tallied,
        (lambda ans, weights, places, length: lambda ct: getitem(ct, places), None),
        lambda tangents, ans, weights, places, length: tally(tangents[0], places, length),
        _batched_tally,
        samples=(
            sample((4,), constants=(np.array([2, 0, 2, 1]),), length=4),
            sample((0,), constants=(np.array([], np.intp),), length=2),
        ),
    )
)


def tally(weights: Array, places: Array, length: int) -> Any:
    """Return for each of `length` bins the sum of its weights."""
    return apply(_tally, (weights, places), {"length": length})


@answers_traced(np.bincount)
def bincount(x: Array, /, weights: Array | None = None, minlength: int = 0) -> Any:
    """Return how often each integer occurs, or the sums of its weights."""
    x = as_array(x)
    value = values_of(x, "np.bincount")
    length = len(np.bincount(value, None, minlength))  # NumPy's checks
    if weights is None:
        return tally(np.ones(x.shape), x, length).astype(np.intp)
    weights = as_array(weights)
    np.bincount(value, np.zeros(weights.shape, weights.dtype))
    return tally(as_array(weights, np.float64), x, length)


# Edges


def _span(a: Array, given: tuple[Any, ...] | None) -> tuple[Any, Any]:
    """Return the outer edges: those given, or the smallest and the largest element."""
    if given is not None:
        first, last = (as_array(edge) for edge in given)
    elif a.size:
        first, last = np.min(a), np.max(a)
    else:
        first, last = np.asarray(0), np.asarray(1)
    widened = np.equal(first, last)  # NumPy then widens the range for one bin
    return np.where(widened, first - 0.5, first), np.where(widened, last + 0.5, last)


def _even_edges(first: Array, last: Array, count: int, dtype: Any) -> Any:
    """Return the edges of bins of equal width, equal to those of `np.linspace` to the last digit."""
    step = (last - first) / count
    inner = np.arange(count).astype(step.dtype) * step + first
    return as_array(np.concatenate([inner, np.reshape(last, (1,))]), dtype)


def _edges(a: Any, bins: Any, span: Any, weights: Any) -> Any:
    """Return the edges of a histogram in one dimension."""
    plain_span = None if span is None else tuple(raw_array(edge) for edge in span)
    if isinstance(bins, str):
        value = values_of(a, f"np.histogram with bins={bins!r}")
        count = len(np.histogram_bin_edges(value, bins, plain_span, weights)) - 1
    elif not _are_several(bins):
        count = operator.index(bins) if hasattr(bins, "__index__") else bins
        np.histogram_bin_edges(np.zeros(0), count)  # NumPy's messages
    else:
        bins = as_array(bins)
        if bins.ndim != 1 or np.any(np.diff(raw_array(bins), axis=-1) < 0):
            np.histogram_bin_edges(np.zeros(0), raw_array(bins))  # NumPy's messages
        return bins
    if span is not None or a.size:
        # NumPy checks that the edges are finite and in order
        np.histogram_bin_edges(np.zeros(0) if plain_span else np.ravel(raw_array(a)), 1, _overall(plain_span))
    first, last = _span(a, span)
    given = (first, last) if span is None else span
    dtype = np.result_type(a.dtype, *(edge.dtype if hasattr(edge, "dtype") else edge for edge in given))
    return _even_edges(first, last, count, dtype if dtype.kind in "fc" else np.float64)


def _overall(span: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """Return one interval for the checks; under `vmap` each example has its own."""
    return None if span is None else tuple(np.ravel(edge)[0] for edge in span)


@answers_traced(np.histogram_bin_edges)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """Return the bin edges as `histogram` computes them."""
    return _edges(np.ravel(as_array(a)), bins, range, weights)


# Histograms


def _bins_of(a: Any, edges: Any) -> Any:
    """Return each element's bin number, from 1; 0 and the number after the last bin mean outside."""
    places = np.searchsorted(edges, a, side="right")
    return np.where(np.equal(a, edges[-1]), edges.shape[0] - 1, places)


def _counted(places: Array, weights: Array | None, length: int) -> Any:
    return tally(np.ones(places.shape) if weights is None else weights, places, length)


def _widely(weights: Array) -> Any:
    """Return weights in the dtype of NumPy's sums."""
    return as_array(weights, np.complex128 if weights.dtype.kind == "c" else np.float64)


@answers_traced(np.histogram)
def histogram(
    a: Array,
    bins: Any = 10,
    range: tuple[Any, ...] | None = None,
    density: bool | None = None,
    weights: Array | None = None,
) -> Any:
    """Return how many elements are in each bin, or the sum of their weights, or the density; and the edges."""
    a = as_array(a)
    if weights is not None:
        weights = as_array(weights)
        if weights.shape != a.shape:
            raise ValueError("weights should have the same shape as a.")
        weights = np.ravel(weights)
    a = np.ravel(a)
    edges = _edges(a, bins, range, weights)
    places = _bins_of(a, edges)
    length = edges.shape[0] + 1
    counted = _counted(places, None if weights is None else _widely(weights), length)[1:-1]
    counted = counted.astype(np.intp if weights is None else weights.dtype)
    if density:
        return counted / as_array(np.diff(edges), np.float64) / np.sum(counted), edges
    return counted, edges


def _are_several(bins: ArrayLike) -> bool:
    """Return whether there is one entry per dimension rather than one number for all."""
    return isinstance(bins, (list, tuple)) or getattr(bins, "ndim", 0) > 0


@answers_traced(np.histogramdd)
def histogramdd(sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Return how many points are in each cell, or the sum of their weights, or the density; and the edges."""
    points = sample if getattr(sample, "ndim", 0) == 2 else np.transpose(as_array(sample))
    points = np.reshape(points, (-1, 1)) if points.ndim == 1 else points
    count = points.shape[1]
    every_bins = list(bins) if _are_several(bins) else [bins] * count
    if len(every_bins) != count:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    ranges = [None] * count if range is None else list(range)
    if len(ranges) != count:
        raise ValueError("range argument must have one entry per dimension")
    columns = [points[:, place] for place in np.arange(count).tolist()]
    edges = [_edges(x, own, span, None) for x, own, span in zip(columns, every_bins, ranges, strict=True)]
    sizes = [edge.shape[0] + 1 for edge in edges]
    place: Any = 0
    for x, edge, size in zip(columns, edges, sizes, strict=True):
        place = place * size + _bins_of(x, edge)
    weights = None if weights is None else as_array(weights, np.float64)
    counted = _counted(place, weights, int(np.prod(sizes))).astype(np.float64)  # without points the counts are integers
    result = np.reshape(counted, sizes)[(slice(1, -1),) * count]
    if density:
        total = np.sum(result)
        for axis, edge in enumerate(edges):
            result = result / np.reshape(np.diff(edge), [-1 if each == axis else 1 for each in np.arange(count)])
        result = result / total
    return result, edges


@answers_traced(np.histogram2d)
def histogram2d(
    x: Array, y: Array, bins: Any = 10, range: object = None, density: bool | None = None, weights: Array | None = None
) -> Any:
    """Return how many points are in each cell of a plane, or the sum of their weights; and the edges."""
    if len(x) != len(y):
        raise ValueError("x and y must have the same length.")
    if _are_several(bins) and len(bins) not in (1, 2):
        bins = [bins, bins]
    counted, edges = histogramdd([as_array(x), as_array(y)], bins, range, density, weights)
    return counted, edges[0], edges[1]
