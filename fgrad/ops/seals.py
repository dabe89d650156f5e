"""Second derivatives of `eigh`, `eig` and `svd` at repeated values: NaN where they are undetermined.

For equal values NumPy chooses a basis. A change of the matrix that splits the values rotates it discontinuously. The
rules treat the basis as constant, and miss the effect of this rotation on their results. First derivatives of losses
that are the same in every basis are not affected.

Let a loss of the values alone be symmetric in equal values. Its second derivative along two changes has the terms
`c * s[i, j] * t[j, i]` for these, where `s` and `t` are the changes in the basis of the vectors. With a constant basis
the rules find those with i = j, which are all if one of the changes is diagonal for these values: if it does not split
them in another basis. Singular vectors of the value 0 of a matrix that is not square also have equals outside of their
span.

    sealed(x, ...)              a result of a rule; only the change that differentiates it is known
    sealed_tangent(x, ...)      tangents of values; the change of the forward rule is known, too
    sealed_cotangent(x, ...)    the cotangent of the matrix from that of values; its own cotangent is the other change

All of them return `x`; its derivatives are NaN where they are undetermined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import aligned, elementwise_batch
from fgrad.ops.families import identity, register, sample
from fgrad.ops.matrices import adjoint, escapes, hermitian_from, inverse_gaps, mixed, real, rounding
from fgrad.ops.patterns import of_matrices
from fgrad.typing import Array


def _of_equal(values: Array) -> Any:
    """Return which pairs of different vectors have the same value."""
    return inverse_gaps(values[..., 0, :])[0] & ~np.eye(values.shape[-1], dtype=np.bool_)


def _is_loose(values: Array, left: Array, right: Array) -> Any:
    """Return which singular vectors have the value 0, if vectors outside of the span have it, too."""
    if left.shape[-2] == right.shape[-2]:
        return np.zeros((), np.bool_)
    return np.abs(values) <= rounding(values)


def _is_split(change: Array, values: Array, left: Array, right: Array, kind: str) -> Any:
    """Return as one row which values a change of the matrix splits from equal ones in another basis than NumPy's."""
    moved = change @ right
    inner = np.linalg.solve(right, moved) if kind == "any" else adjoint(left) @ moved
    split = np.any(mixed(inner, _of_equal(values)), axis=-2, keepdims=True)
    if left.shape[-2] == right.shape[-2]:
        return split
    is_zero = np.abs(values[..., 0, :]) <= rounding(values[..., 0, :])
    return split | escapes(left, moved, is_zero) | escapes(right, adjoint(change) @ left, is_zero)


def _total(x: Array) -> Any:
    return np.sum(real(x), axis=(-2, -1), keepdims=True)


def _unknown_value(x: Array, y: Array, flags: Array, later: Array) -> Array:
    zeros = np.zeros_like(x + y)
    return np.where(flags, np.array(np.nan, zeros.dtype), zeros)


def _unknown_tangent(tangents: Sequence[Any], ans: Array, x: Array, y: Array, flags: Array, later: Array) -> Any:
    moved = [real(each) for each in tangents[:2] if each is not ZERO]
    return apply(_unknown, (x, y + sum(moved), later, later)) if moved else ZERO


def _unknown_rule(ans: Array, x: Array, y: Array, flags: Array, later: Array) -> Callable[[Any], Any]:
    return lambda ct: apply(_unknown, (x, y + real(ct), later, later))


def _unknown_total_rule(ans: Array, x: Array, y: Array, flags: Array, later: Array) -> Callable[[Any], Any]:
    return lambda ct: apply(_unknown, (y, real(x) + real(ct), later, later))


_unknown = Primitive(
    "unknown",
    _unknown_value,
    (_unknown_rule, _unknown_total_rule, None, None),
    _unknown_tangent,
    broadcasts=True,
)
"""Zeros like x, and NaN where `flags` are true; y is real, broadcasts with x, and has no influence on this value.

The derivatives with respect to x and y are NaN where `later` is true. Those of a constant NaN would be 0.
"""
_unknown.batch = elementwise_batch(_unknown)


def _any(flags: Array) -> Any:
    return np.any(flags, axis=(-2, -1), keepdims=True)


def _sealed_tangent(
    tangents: Sequence[Any],
    ans: Array,
    x: Array,
    a: Array,
    values: Array,
    left: Array,
    right: Array,
    other: Array,
    kind: str,
    of: str,
) -> Any:
    tx, ta, *_ = tangents
    if ta is ZERO:
        return tx
    change = ta if kind in ("any", "svd") else hermitian_from(ta, kind)
    is_used = other != 0 if of == "cotangent" else True
    flags = _is_split(change, values, left, right, kind) | (_is_loose(values, left, right) & is_used)
    flags = flags if of == "tangent" else _any(flags)
    tangent = apply(_unknown, (x, _total(ta), flags, flags))
    return tangent if tx is ZERO else tx + tangent


def _sealed_rule(
    ans: Array, x: Array, a: Array, values: Array, left: Array, right: Array, other: Array, kind: str, of: str
) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        is_loose = _is_loose(values, left, right)
        # A third derivative is right only if none of its changes splits equal values, of which one is not known here.
        has_equal = flags = _any(_of_equal(values) | is_loose)
        if of != "any":
            change, weights = (ct, other) if of == "cotangent" else (other, ct)
            flags = _any(_is_split(change, values, left, right, kind) | (is_loose & (weights != 0)))
        return apply(_unknown, (a, _total(ct) + _total(other), flags, has_equal))

    return pullback


_sealed = register(
    Primitive(
        "sealed",
        lambda x, a, values, left, right, other, kind, of: x,
        (lambda ans, *args, kind, of: identity, _sealed_rule, None, None, None, None),
        _sealed_tangent,
        samples=(
            sample((3, 3), (3, 3), (1, 3), (3, 3), (3, 3), (1, 1), kind="L", of="any"),
            sample((1, 3), (4, 3), (1, 3), (4, 3), (3, 3), (4, 3), kind="svd", of="tangent"),
            sample((2, 4, 3), (2, 4, 3), (2, 1, 3), (2, 4, 3), (2, 3, 3), (2, 1, 3), kind="svd", of="cotangent"),
        ),
        pattern=of_matrices,
        broadcasts=True,
    )
)


def _sealed_batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
    x, *rest = values
    if not mapped[0]:  # the result is x, repeated for each example
        x = np.broadcast_to(x, (size, *x.shape))
    return apply(_sealed, aligned([x, *rest], [True, *mapped[1:]], 2), metadata)


_sealed.batch = _sealed_batch

_NOTHING = np.zeros((1, 1))


def sealed(x: Array, a: Array, values: Array, left: Array, right: Array, kind: str) -> Any:
    """Return a result of a rule that depends on tangents or cotangents of vectors.

    Args:
        x: matrices.
        a: the matrix that is factored.
        values: along the last axis.
        left, right: its vectors, as columns; the same ones, unless they are singular vectors.
        kind: "L" or "U" for the triangle of a Hermitian matrix, "svd" or "any".
    """
    return apply(_sealed, (x, a, values[..., None, :], left, right, _NOTHING), {"kind": kind, "of": "any"})


def sealed_tangent(x: Array, a: Array, values: Array, left: Array, right: Array, kind: str, change: Array) -> Any:
    """Return the tangents of values; `change` is the tangent of the matrix."""
    args = x[..., None, :], a, values[..., None, :], left, right, change
    return apply(_sealed, args, {"kind": kind, "of": "tangent"})[..., 0, :]


def sealed_cotangent(x: Array, a: Array, values: Array, left: Array, right: Array, kind: str, weights: Array) -> Any:
    """Return the cotangent of the matrix; `weights` is that of the values, and there is none of the vectors."""
    args = x, a, values[..., None, :], left, right, weights[..., None, :]
    return apply(_sealed, args, {"kind": kind, "of": "cotangent"})
