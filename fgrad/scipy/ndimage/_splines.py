"""Splines through the elements of an image: coefficients, and interpolated values.

    coefficients(x, order, mode)            along the last axis: SciPy's recursive filter
    values_at(c, places, cval, ...)         the spline with these coefficients, at given places

A value is a sum over the (order + 1)^ndim nearest coefficients with weights that are polynomials of the place
relative to them. So it is linear in the coefficients: the transpose adds a cotangent to the same coefficients
with the same weights. The derivative with respect to the places is the sum with the weights' derivatives, those of a
spline of lower order. Both are one pair of operations,

    gather(c, places, slopes, ...)     sums, or their derivatives with respect to the places, of given orders by axis
    scatter(v, places, slopes, ...)    its transpose with respect to the coefficients

whose own derivatives are the same pair. The values themselves are SciPy's.

The coefficients solve equations whose matrix contains the spline's values at the elements: for images that are
reflected about their edges, or periodic, it is symmetric, and so is the filter. For reflection about the centers of the
outermost elements, it is symmetric if these elements count half. SciPy's filter starts with sums that do not
quite solve the equations of short lines, so for these the matrix of the filter itself is transposed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.ndimage

from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import all_mapped, trailing_batch
from fgrad.ops.families import linear, register, sample
from fgrad.ops.patterns import as_einsum
from fgrad.typing import Array

Shape = tuple[int, ...]

_SHORT = 64
"""Shorter lines use the transposed matrix in the pullback."""

_SYMMETRIC = ("reflect", "grid-mirror", "nearest", "grid-wrap")
"""Modes with a symmetric matrix of the equations."""


def coefficients(x: Array, order: int, mode: str) -> Any:
    """Return the coefficients, in double precision, of the spline through the elements along the last axis."""
    return apply(_coefficients, (x,), {"order": order, "mode": mode})


def _in_double(x: Any) -> Any:
    return x.astype(np.result_type(x, np.float64), copy=False)


def _filtered(x: Array, order: int, mode: str) -> Any:
    x = _in_double(x)
    spline_filter1d: Any = scipy.ndimage.spline_filter1d
    return spline_filter1d(x, order, -1, output=x.dtype, mode=mode)


@functools.lru_cache(maxsize=256)
def _matrix(size: int, order: int, mode: str) -> Any:
    """Return the filter as a matrix, whose rows are the responses to single elements."""
    return _filtered(np.eye(size), order, mode)


def _unfiltered(ct: Array, order: int, mode: str) -> Any:
    """Return the transpose."""
    if ct.shape[-1] < _SHORT:
        return np.matmul(ct, _matrix(ct.shape[-1], order, mode).T)
    if mode in _SYMMETRIC:
        return coefficients(ct, order, mode)
    counts = np.ones(ct.shape[-1])
    counts[[0, -1]] = 0.5
    return coefficients(ct / counts, order, mode) * counts


_coefficients = linear(
    _filtered,
    lambda ans, x, order, mode: lambda ct: _unfiltered(ct, order, mode),
    *(
        sample(shape, order=order, mode=mode)
        for shape, order, mode in (
            ((5,), 3, "mirror"), ((2, 4), 2, "reflect"), ((3,), 5, "grid-wrap"), ((1,), 3, "mirror"),
            ((2, 7), 4, "constant"), ((2,), 3, "nearest"),
        )
    ),
    name="spline_coefficients",
    batch=trailing_batch,
    pattern=as_einsum("x->y"),
)  # fmt: skip


@dataclass(frozen=True)
class Spline:
    """The parameters of a spline evaluation.

    Attributes:
        shape: the shape of the coefficients.
        order: the degree of the polynomials, 0 to 5.
        mode: the extension of the coefficients.
        slopes: the order of the derivative along each axis.
    """

    shape: Shape
    order: int
    mode: str
    slopes: Shape

    def steeper(self, axis: int) -> Spline:
        """Return the parameters of the derivative along an axis."""
        slopes = tuple(slope + (each == axis) for each, slope in enumerate(self.slopes))
        return Spline(self.shape, self.order, self.mode, slopes)

    @property
    def is_flat(self) -> bool:
        """Whether the derivative is 0, because its order exceeds the degree."""
        return max(self.slopes) > self.order

    @property
    def taps(self) -> Iterator[Shape]:
        """The offsets of the coefficients in the sum, along each axis."""
        return itertools.product(range(self.order + 1), repeat=len(self.shape))


def _weights(part: Any, order: int, slope: int) -> list[Any]:
    """Return the weights of the nearest coefficients, for a fractional position between two knots.

    Computed by the Cox-de Boor recursion; for derivatives the last steps are differences.
    """
    found = [np.ones_like(part)]
    for power in range(1, order + 1):
        before, after = [0.0, *found], [*found, 0.0]
        if power > order - slope:
            found = [old - new for old, new in zip(before, after, strict=True)]
        else:
            found = [
                ((part + power - j) * old + (j + 1 - part) * new) / power
                for j, (old, new) in enumerate(zip(before, after, strict=True))
            ]
    return found


def _folded(index: Array, size: int, mode: str) -> Any:
    """Return the index inside the image that an index outside is mapped to."""
    if mode == "nearest" or size == 1:
        return np.clip(index, 0, size - 1)
    if mode == "grid-wrap":
        return index % size
    if mode in ("reflect", "grid-mirror"):
        index = index % (2 * size)
        return np.minimum(index, 2 * size - 1 - index)
    index = index % (2 * size - 2)
    return np.minimum(index, 2 * size - 2 - index)


def _mirrored(place: Array, size: int, mode: str) -> Array:
    """Return the place inside an image that a place outside is reflected to."""
    if mode == "mirror" and size > 1:
        away = np.abs(place) % (2 * size - 2)
        return np.where(away >= np.where(place < 0, size - 1, size), 2 * size - 2 - away, away)
    if mode in ("reflect", "grid-mirror"):
        away = np.where(place < 0, -1 - place, place) % (2 * size)
        return np.where(away >= size, 2 * size - 1 - away, away)
    return place


def _axis_taps(place: Array, size: int, spline: Spline, slope: int) -> tuple[list[Any], list[Any]]:
    """Return the indices of the nearest coefficients along one axis, and their weights."""
    order, mode = spline.order, spline.mode
    factor: Any = 1.0
    outside = (place < 0) | (place > size - 1)
    if mode == "constant":
        factor = np.where(outside, 0.0, 1.0)
    elif mode == "wrap":
        place = np.where(outside, np.mod(place, size - 1) if size > 1 else 0.0, place)
    elif order == 0:  # for ties, the other neighbour on the other side
        place = _mirrored(place, size, mode)
    knot = np.floor(place + (0.5 if order % 2 == 0 else 0.0))
    part = place - knot + (0.5 if order % 2 == 0 else 0.0)
    first = knot.astype(np.intp) - order // 2
    indices, weights = [], []
    for j, weight in enumerate(_weights(part, order, slope)):
        index = first + j
        if mode == "grid-constant":
            weight = np.where((index < 0) | (index >= size), 0.0, weight)
        indices.append(_folded(index, size, "mirror" if mode == "grid-constant" else mode))
        weights.append(weight * factor)
    return indices, weights


def _sums(places: Array, spline: Spline) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield, for one coefficient after the other, its index and weight for each place."""
    axes = [
        _axis_taps(place, size, spline, slope)
        for place, size, slope in zip(places, spline.shape, spline.slopes, strict=True)
    ]
    outside = False
    if spline.mode == "constant":  # outside along one axis means outside
        outside = np.any([(p < 0) | (p > size - 1) for p, size in zip(places, spline.shape, strict=True)], axis=0)
    for tap in spline.taps:
        weight: Any = 1.0
        for (_, weights), j in zip(axes, tap, strict=True):
            weight = weight * weights[j]
        yield tuple(indices[j] for (indices, _), j in zip(axes, tap, strict=True)), np.where(outside, 0.0, weight)


def _gathered(c: Array, places: Array, spline: Spline) -> Array:
    if not any(spline.slopes):
        c, flat = _in_double(c), _in_double(places.reshape(places.shape[0], -1))
        keywords: Any = {"order": spline.order, "mode": spline.mode, "prefilter": False}
        return scipy.ndimage.map_coordinates(c, flat, c.dtype, **keywords).reshape(places.shape[1:])
    total = np.zeros(places.shape[1:], np.result_type(c, np.float64))
    if not spline.is_flat:
        for index, weight in _sums(places, spline):
            total += c[index] * weight
    return total


def _scattered(v: Array, places: Array, spline: Spline) -> Array:
    total = np.zeros(spline.shape, np.result_type(v, np.float64))
    if not spline.is_flat:
        for index, weight in _sums(places, spline):
            np.add.at(total, index, v * weight)
    return total


def gather(c: Array, places: Array, spline: Spline) -> Any:
    """Return the values of a spline, or of one of its derivatives, at places with coordinates along axis 0."""
    return apply(_gather, (c, places), {"spline": spline})


def scatter(v: Array, places: Array, spline: Spline) -> Any:
    """Return the transpose of `gather` with respect to the coefficients."""
    return apply(_scatter, (v, places), {"spline": spline})


def _along_places(values: Callable[[Spline], Any], ct: Array, spline: Spline) -> Array:
    """Return the cotangent of places: for each axis, the product with the derivative along it."""
    return np.stack([ct * values(spline.steeper(axis)) for axis in range(len(spline.shape))])


def _tangent(operation: Callable[..., Any], sloped: Callable[..., Any]) -> Callable[..., Any]:
    def forward(tangents: Sequence[Any], ans: Array, x: Array, places: Array, spline: Spline) -> Any:
        own, of_places = tangents
        parts = [] if own is ZERO else [operation(own, places, spline)]
        if of_places is not ZERO:
            parts += [sloped(x, of_places[axis], places, spline.steeper(axis)) for axis in range(len(spline.shape))]
        return sum(parts[1:], parts[0])

    return forward


def _batch(primitive: Primitive) -> Callable[..., Any]:
    """Return the batching rule, which loops over examples; batched places of one image are all places together."""

    def batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
        x, places = values
        if primitive is _gather and not mapped[0]:
            return gather(x, np.moveaxis(places, 0, 1), **metadata)
        each = zip(*all_mapped(values, mapped, size), strict=True)
        return np.stack([apply(primitive, pair, metadata) for pair in each])

    return batch


def _samples(first: Callable[[Shape, Shape], Shape]) -> tuple[Any, ...]:
    """Return samples at places inside and outside of an image, for each order and mode."""
    kinds = (
        ((5,), (3,), 1, "constant", (0,)), ((3, 4), (3,), 3, "mirror", (0, 0)), ((4, 3), (2, 2), 2, "reflect", (0, 0)),
        ((5,), (4,), 3, "wrap", (0,)), ((4,), (3,), 5, "grid-wrap", (1,)), ((5,), (3,), 3, "grid-constant", (0,)),
        ((4,), (3,), 4, "nearest", (0,)), ((2, 3), (2,), 3, "constant", (1, 0)), ((3,), (2,), 1, "mirror", (2,)),
    )  # fmt: skip
    return tuple(
        sample(
            first(shape, several),
            (len(shape), *several),
            domain=((-1.0, 1.0), (0.6, 0.9)),
            complex=False,
            spline=Spline(shape, order, mode, slopes),
        )
        for shape, several, order, mode, slopes in kinds
    )


_gather = Primitive(
    "gather_spline",
    _gathered,
    (
        lambda ans, c, places, spline: lambda ct: scatter(ct, places, spline),
        lambda ans, c, places, spline: lambda ct: _along_places(lambda steep: gather(c, places, steep), ct, spline),
    ),
    _tangent(gather, lambda c, move, places, spline: move * gather(c, places, spline)),
    samples=_samples(lambda shape, several: shape),
)
_scatter = Primitive(
    "scatter_spline",
    _scattered,
    (
        lambda ans, v, places, spline: lambda ct: gather(ct, places, spline),
        lambda ans, v, places, spline: lambda ct: _along_places(lambda steep: gather(ct, places, steep), v, spline),
    ),
    _tangent(scatter, lambda v, move, places, spline: scatter(v * move, places, spline)),
    samples=_samples(lambda shape, several: several),
)
for _primitive in (_gather, _scatter):
    _primitive.batch = _batch(_primitive)
    register(_primitive)
