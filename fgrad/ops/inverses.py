"""Inverses and determinants: `inv`, `det`, `slogdet`.

The derivative of a determinant is its cofactor matrix, `det(a) * inv(a).T` if the inverse exists. Cofactors are a
primitive, `cofactors`, computed from singular values for singular matrices; their derivatives are again cofactors
along one more direction, so that no rule divides by a determinant.

Source: M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008), https://doi.org/10.1007/978-3-540-68942-3_4, sections 2.2.3 and 2.2.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.families import ForEach, register, sample, scale
from fgrad.ops.matrices import (
    adjoint,
    as_matrices,
    conjugated,
    cotangent_of,
    diagonal,
    on_diagonal,
    real,
    stacked_batch,
    transposed,
    where_used,
)
from fgrad.ops.reductions import products_of_others
from fgrad.ops.tracing import answers_traced
from fgrad.typing import Array

# Cofactors


def _cofactors_by_singular_values(a: Array, directions: tuple[Any, ...]) -> Array:
    """Return cofactors of a matrix of any rank, or their derivative along one direction.

    In the basis of singular vectors the matrix is diagonal, where both are products of all singular
    values but one or two; that basis contributes its own cofactors, which are its conjugate times its
    determinant (the Cauchy-Binet formula).
    """
    is_finite = np.all(np.isfinite(a), axis=(-2, -1), keepdims=True)
    u, s, vh = np.linalg.svd(np.where(is_finite, a, 0))  # LAPACK may not terminate on infinities
    unit = np.linalg.det(u) * np.linalg.det(vh)
    if not directions:
        inner = on_diagonal(products_of_others(s)).astype(a.dtype)
    else:
        moved = adjoint(u) @ directions[0] @ adjoint(vh)
        without = products_of_others(np.where(np.eye(s.shape[-1], dtype=np.bool_), 1, s[..., None, :]))
        without = np.where(np.eye(s.shape[-1], dtype=np.bool_), 0, without)
        traces = (without @ diagonal(moved)[..., None])[..., 0]
        inner = on_diagonal(traces) - without * transposed(moved)
    return np.where(is_finite, unit[..., None, None] * (conjugated(u) @ inner @ conjugated(vh)), np.nan)


def _cofactors_by_inverse(a: Array, inverse: Array, directions: tuple[Any, ...], det: Array | None) -> Any:
    """Return the derivative of the cofactors along directions, by the expansion of `X.T @ cof(X) = det(X)`."""
    moved = [inverse @ t for t in directions]
    one = np.eye(a.shape[-1], dtype=inverse.dtype)
    known: dict[tuple[int, ...], Any] = {(): one}
    for count in range(1, len(moved) + 1):
        for chosen in combinations(range(len(moved)), count):
            rest = {i: known[tuple(j for j in chosen if j != i)] for i in chosen}
            trace = np.sum(moved[chosen[0]] * rest[chosen[0]], axis=(-2, -1))[..., None, None]
            known[chosen] = trace * one - sum(transposed(moved[i]) @ part for i, part in rest.items())
    scaled = (np.linalg.det(a) if det is None else det)[..., None, None] * transposed(inverse)
    return scaled @ known[tuple(range(len(moved)))] if moved else scaled


def _cofactors_of(a: Array, *directions: Array, det: Array | None = None) -> Any:
    """Return the cofactors of matrices, differentiated along each of the directions; `det` may be given."""
    try:
        with np.errstate(all="ignore"):
            inverse = np.linalg.inv(a)
            condition = np.max(np.abs(a), axis=(-2, -1), initial=0) * np.max(np.abs(inverse), axis=(-2, -1), initial=0)
        is_regular = not np.any(condition * a.shape[-1] > 1 / np.sqrt(np.finfo(a.dtype).eps))
    except np.linalg.LinAlgError:
        is_regular = False
    if is_regular:
        return _cofactors_by_inverse(a, inverse, directions, det)
    if len(directions) > 1:
        raise errors.NoDerivativeError(
            "np.linalg.det of a singular or nearly singular matrix has derivatives of first and second "
            "order in fgrad, but a third was requested.\nWrite the determinant in terms of its minors."
        )
    return _cofactors_by_singular_values(a, directions)


def _cofactors_rule(argnum: int, ans: Array, a: Array, *directions: Array) -> Callable[[Any], Any]:
    """The form is symmetric in all directions; the cotangent is one more direction, or replaces one."""
    others = tuple(t for place, t in enumerate(directions, 1) if place != argnum)
    return where_used(lambda ct: cofactors(a, ct, *others), a)


def _cofactors_tangent(tangents: Sequence[Any], ans: Array, a: Array, *directions: Array) -> Any:
    parts = []
    for place, t in enumerate(tangents):
        if t is not ZERO:
            others = tuple(d for i, d in enumerate(directions, 1) if i != place)
            parts.append(cofactors(a, t, *others))
    return sum(parts[1:], parts[0])


_cofactors = register(
    Primitive(
        "cofactors",
        _cofactors_of,
        ForEach(_cofactors_rule),
        _cofactors_tangent,
        broadcasts=True,
        scales="pullback",
        samples=(sample((3, 3)), sample((2, 2, 2), (2, 2, 2)), sample((1, 1)), sample((3, 3), (3, 3), (3, 3))),
    )
)
_cofactors.batch = stacked_batch(_cofactors)


def cofactors(a: Array, *directions: Array) -> Any:
    """Return the cofactors of matrices, differentiated along each of the directions."""
    return apply(_cofactors, (a, *directions))


def _det_rule(ans: Array, a: Array) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        is_plain = type(a) is np.ndarray  # the determinant is available
        return ct[..., None, None] * (_cofactors_of(a, det=ans) if is_plain else cofactors(a))

    return pullback


_det = register(
    Primitive(
        "det",
        np.linalg.det,
        (_det_rule,),
        lambda tangents, ans, a: np.sum(cofactors(a) * tangents[0], axis=(-2, -1)),
        scales="pullback",
        samples=(sample((3, 3)), sample((2, 2, 2)), sample((1, 1)), sample((0, 0))),
    )
)
_det.batch = stacked_batch(_det)


@answers_traced(np.linalg.det)
def det(a: Array) -> Any:
    """Return the determinants of matrices; the derivative is right for singular ones, too."""
    return apply(_det, (as_matrices(a),))


def _slogdet_rule(ans: tuple[Any, ...], a: Array) -> Callable[[Any], Any]:
    def pullback(cts: object) -> Any:
        sign, _ = ans
        ct_sign, ct_log = cotangent_of(cts, 0), cotangent_of(cts, 1)
        slope = transposed(inverse(a, strict=False))
        pulled = np.zeros_like(slope) if ct_log is None else ct_log[..., None, None] * slope
        if ct_sign is not None and a.dtype.kind == "c":
            turned = np.imag(ct_sign * sign)[..., None, None]  # phase change of the sign
            pulled = pulled + scale(turned * 1j, slope)
        return pulled

    return pullback


def _slogdet_tangent(tangents: Sequence[Any], ans: tuple[Any, ...], a: Array) -> Any:
    sign, _ = ans
    moved = np.sum(transposed(inverse(a, strict=False)) * tangents[0], axis=(-2, -1))
    return (sign * (1j * np.imag(moved)) if a.dtype.kind == "c" else ZERO), real(moved)


_slogdet = register(
    Primitive(
        "slogdet",
        lambda a: tuple(np.linalg.slogdet(a)),
        (_slogdet_rule,),
        _slogdet_tangent,
        scales="pullback",
        samples=(sample((3, 3)), sample((2, 2, 2)), sample((1, 1))),
    )
)
_slogdet.batch = stacked_batch(_slogdet)


_Result = type(np.linalg.slogdet(np.eye(1)))


@answers_traced(np.linalg.slogdet)
def slogdet(a: Array) -> Any:
    """Return the signs of determinants, and the logarithms of their absolute values."""
    return _Result(*apply(_slogdet, (as_matrices(a),)))


# Inverses


def _inverse(a: Array, strict: bool) -> Any:
    """Return inverses; for singular matrices, unless `strict`, their infinite limits."""
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        if strict or a.ndim < 2 or a.shape[-1] != a.shape[-2]:
            raise
    with np.errstate(all="ignore"):
        return transposed(_cofactors_of(a)) / np.linalg.det(a)[..., None, None]


_inv = register(
    Primitive(
        "inv",
        _inverse,
        (lambda ans, a, strict: where_used(lambda ct: -transposed(ans) @ ct @ transposed(ans), a),),
        lambda tangents, ans, a, strict: -ans @ tangents[0] @ ans,
        scales="pullback",
        samples=(
            sample((3, 3), strict=True),
            sample((2, 2, 2), strict=False),
            sample((1, 1), strict=True),
            sample((0, 0), strict=True),
        ),
    )
)
_inv.batch = stacked_batch(_inv)


def inverse(a: Array, strict: bool = True) -> Any:
    """Return inverses; for singular matrices, unless `strict`, infinities instead of an error."""
    return apply(_inv, (a,), {"strict": strict})


@answers_traced(np.linalg.inv)
def inv(a: Array) -> Any:
    """Return the inverses of matrices."""
    return inverse(as_matrices(a))
