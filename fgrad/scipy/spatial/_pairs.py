"""Euclidean distances between all points of two sets, without an array of all differences.

    lengths(a, b, squared)    sqrt(sum_k (a_ik - b_jk)^2) for all i and j, SciPy's own, or its square

The derivatives are weighted sums of differences, and sums of products of differences. As matrix products,
sum_j w_ij (a_ik - b_jk) would be a_ik sum_j w_ij - sum_j w_ij b_jk, which cancels for close points;
so the differences are computed, for a few points at a time:

    gathered(w, a, b)     sum_j w_ij (a_ik - b_jk), a vector for each point of `a`
    projected(c, a, b)    sum_k c_ik (a_ik - b_jk), a number for each pair

Each is linear in its first argument and in the other two together, and their derivatives are these two again, or
matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.spatial.distance

from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import all_mapped
from fgrad.ops.families import register, sample
from fgrad.ops.lapack import in_stacks
from fgrad.ops.matrices import transposed
from fgrad.ops.patterns import as_einsum
from fgrad.typing import Array

_AT_ONCE = 1 << 18
"""Maximal number of differences in memory."""

SETS = (((3, 2), (4, 2)), ((1, 3), (2, 3)), ((2, 3, 2), (2, 4, 2)), ((0, 2), (3, 2)))
"""Shapes of two sets of points, for samples."""


def lengths(a: Array, b: Array, squared: bool = False) -> Any:
    """Return the distances between the points of two sets, or their squares; leading axes are batch axes."""
    return apply(_lengths, (a, b), {"squared": squared})


def gathered(weights: Array, a: Array, b: Array) -> Any:
    """Return the weighted sums of differences between points and all others."""
    return apply(_gathered, (weights, a, b))


def projected(vectors: Array, a: Array, b: Array) -> Any:
    """Return the products of a vector for each point of `a` with its differences from the points of `b`."""
    return apply(_projected, (vectors, a, b))


def over_length(x: Array, length: Array) -> Array:
    """Return a quotient by a length; where the length is 0, the derivative of least norm: 0."""
    none = np.equal(length, 0)
    return np.where(none, 0.0, x / np.where(none, 1.0, length))


def _total(x: Array) -> Any:
    return np.sum(x, -1, keepdims=True)


def _differences(a: Array, b: Array) -> Iterator[tuple[slice, Any]]:
    """Yield the differences a_ik - b_jk, for as many points `i` at a time as the memory limit allows."""
    step = max(1, _AT_ONCE // max(1, b.size))
    for start in range(0, len(a), step):
        rows = slice(start, start + step)
        yield rows, a[rows, None, :] - b


def _gathered_of(weights: Array, a: Array, b: Array) -> Array:
    found = np.empty(a.shape, np.result_type(weights, a, b))
    for rows, difference in _differences(a, b):
        found[rows] = np.matmul(weights[rows, None, :], difference)[:, 0]
    return found


def _projected_of(vectors: Array, a: Array, b: Array) -> Array:
    found = np.empty((len(a), len(b)), np.result_type(vectors, a, b))
    for rows, difference in _differences(a, b):
        found[rows] = np.matmul(difference, vectors[rows, :, None])[..., 0]
    return found


def _lengths_of(a: Array, b: Array, squared: bool) -> Any:
    metric: Any = "sqeuclidean" if squared else "euclidean"
    return in_stacks(lambda a, b: scipy.spatial.distance.cdist(a, b, metric), a, b)


def _weights(ct: Array, ans: Array, squared: bool) -> Any:
    return 2 * ct if squared else over_length(ct, ans)


def _lengths_tangent(tangents: Sequence[Any], ans: Array, a: Array, b: Array, squared: bool) -> Any:
    of_a, of_b = tangents
    parts = [] if of_a is ZERO else [projected(of_a, a, b)]
    if of_b is not ZERO:
        parts.append(transposed(projected(of_b, b, a)))
    return _weights(sum(parts[1:], parts[0]), ans, squared)


def _moved(a: Array, b: Array, tangents: Sequence[Any]) -> list[Any]:
    return [np.zeros_like(x) if t is ZERO else t for x, t in zip((a, b), tangents, strict=True)]


def _linear_tangent(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Return the forward rule of an operation that is linear in its first argument, and in the others together."""

    def forward(tangents: Sequence[Any], ans: Array, first: Array, a: Array, b: Array) -> Any:
        own, *others = tangents
        parts = [] if own is ZERO else [operation(own, a, b)]
        if not all(t is ZERO for t in others):
            parts.append(operation(first, *_moved(a, b, others)))
        return sum(parts[1:], parts[0])

    return forward


def _batch(primitive: Primitive) -> Callable[..., Any]:
    def batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
        return apply(primitive, all_mapped(values, mapped, size), metadata)

    return batch


_lengths = Primitive(
    "lengths",
    _lengths_of,
    (
        lambda ans, a, b, squared: lambda ct: gathered(_weights(ct, ans, squared), a, b),
        lambda ans, a, b, squared: lambda ct: gathered(transposed(_weights(ct, ans, squared)), b, a),
    ),
    _lengths_tangent,
    samples=tuple(sample(*shapes, complex=False, squared=squared) for shapes in SETS for squared in (False, True)),
    pattern=as_einsum("id,jd->ij"),
)
_gathered = Primitive(
    "gathered_differences",
    lambda weights, a, b: in_stacks(_gathered_of, weights, a, b),
    (
        lambda ans, weights, a, b: lambda ct: projected(ct, a, b),
        lambda ans, weights, a, b: lambda ct: ct * _total(weights),
        lambda ans, weights, a, b: lambda ct: -np.matmul(transposed(weights), ct),
    ),
    _linear_tangent(gathered),
    samples=tuple(sample((*a[:-1], b[-2]), a, b, complex=False) for a, b in SETS),
    pattern=as_einsum("ij,id,jd->id"),
)
_projected = Primitive(
    "projected_differences",
    lambda vectors, a, b: in_stacks(_projected_of, vectors, a, b),
    (
        lambda ans, vectors, a, b: lambda ct: gathered(ct, a, b),
        lambda ans, vectors, a, b: lambda ct: vectors * _total(ct),
        lambda ans, vectors, a, b: lambda ct: -np.matmul(transposed(ct), vectors),
    ),
    _linear_tangent(projected),
    samples=tuple(sample(a, a, b, complex=False) for a, b in SETS),
    pattern=as_einsum("id,id,jd->ij"),
)
for _primitive in (_lengths, _gathered, _projected):
    _primitive.batch = _batch(_primitive)
    register(_primitive)
