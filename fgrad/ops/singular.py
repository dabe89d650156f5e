"""Singular values and vectors: `svd`, `svdvals`.

With `u @ diag(s) @ vh` and `m = u^H @ da @ v`, the change of the matrix in the basis of vectors, these rotate by

    u^H @ du = (sym(m) / (s_j - s_i) + skew(m) / (s_j + s_i)) / 2
    v^H @ dv = (sym(m) / (s_j - s_i) - skew(m) / (s_j + s_i)) / 2        sym, skew(m) = m +- m^H

within their spans, and by `da @ v / s` and `da^H @ u / s` out of them. In this form the second part is also correct
for equal singular values, as in `u @ vh`. The vectors that `full_matrices` adds rotate relative to the others.

Sources: J. Townsend, "Differentiating the singular value decomposition" (2016),
https://j-towns.github.io/papers/svd-derivative.pdf; for complex ones Z.-Q. Wan and S.-X. Zhang, "Automatic
differentiation for complex valued SVD" (2019), https://arxiv.org/abs/1909.02659. The remarks in
`factorizations.py` on repeated values and phases apply here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.core.primitive import Primitive
from fgrad.core.tensor import apply
from fgrad.ops.families import register, sample
from fgrad.ops.matrices import (
    CHOICE,
    adjoint,
    as_matrices,
    conjugated,
    cotangent_of,
    diagonal,
    escapes,
    has_other,
    hermitian_from,
    inverse_gaps,
    mixed,
    on_diagonal,
    real,
    refuse_mixture,
    refuse_unseen,
    require_invariance,
    rounding,
    skew,
    stacked_batch,
    to_triangle,
    transposed,
    unless_split,
    warn_of_close_tangent,
    warn_of_rounding,
)
from fgrad.ops.seals import sealed, sealed_cotangent, sealed_tangent
from fgrad.ops.tracing import answers_traced
from fgrad.typing import Array


def _inverse_sums(s: Array) -> tuple[Any, Any]:
    """Return which pairs of singular values are both zero, and 1 / (value j + value i) for all other pairs."""
    sums = s[..., None, :] + s[..., :, None]
    both_zero = sums <= 2 * rounding(s)[..., None]
    return both_zero, np.where(both_zero, 0, 1 / np.where(both_zero, 1, sums))


def _inverse_values(s: Array) -> tuple[Any, Any]:
    """Return which singular values are zero, and the inverses of the others."""
    is_zero = s <= rounding(s)
    return is_zero, np.where(is_zero, 0, 1 / np.where(is_zero, 1, s))


def _without_added(u: Array, ct_u: Array | None, kept: int) -> tuple[Any, Any]:
    """Return the first columns and their cotangent, including the contribution of the added columns.

    The added columns rotate relative to the first ones: du2 = -u1 @ (du1^H @ u2).
    """
    if u.shape[-1] == kept or ct_u is None:
        return u[..., :kept], None if ct_u is None else ct_u[..., :kept]
    first, added, ct_added = u[..., :kept], u[..., kept:], ct_u[..., kept:]
    require_invariance(skew(transposed(added) @ ct_added), [ct_u], "svd", "the vectors that full_matrices=True adds")
    return first, ct_u[..., :kept] - conjugated(added) @ (adjoint(ct_added) @ conjugated(first))


def _out_of_span(ct_u: Array, u: Array, turned: Array, inverse: Array, is_zero: Array) -> Any:
    """Return the component of the cotangent outside of the span of the vectors, divided by the singular values."""
    rest = ct_u - conjugated(u) @ turned
    require_invariance(np.where(is_zero[..., None, :], rest, 0), [ct_u], "svd", CHOICE)
    return rest * inverse[..., None, :]


def _svd_rule(
    ans: tuple[Any, ...], a: Array, full_matrices: bool, hermitian: bool, vectors: bool = True
) -> Callable[[Any], Any]:

    def pullback(cts: object) -> Any:
        u, s, vh = ans
        ct_u, ct_s, ct_vh = (cotangent_of(cts, place) for place in range(3))
        kept = s.shape[-1]
        u, ct_u = _without_added(u, ct_u, kept)
        # The rows of vh are treated as columns: conj(v), whose cotangent is the transpose.
        v, ct_v = _without_added(transposed(vh), None if ct_vh is None else transposed(ct_vh), kept)
        kind = "L" if hermitian else "svd"
        if ct_u is None and ct_v is None:
            back = (conjugated(u) * ct_s[..., None, :]) @ adjoint(v)
            back = sealed_cotangent(back, a, s, u, conjugated(v), kind, ct_s)
        else:
            back = sealed(_svd_back(u, s, v, ct_u, ct_s, ct_v, vectors), a, s, u, conjugated(v), kind)
        return to_triangle(back, "L") if hermitian else back

    return pullback


def _svd_back(
    u: Array, s: Array, v: Array, ct_u: Array | None, ct_s: Array | None, ct_v: Array | None, vectors: bool
) -> Any:
    """Return the cotangent of the matrix; `v` are the transposed rows of `vh`, which are conjugated vectors."""
    ct_u = np.zeros_like(u) if ct_u is None else ct_u
    ct_v = np.zeros_like(v) if ct_v is None else ct_v
    u_turned, v_turned = transposed(u) @ ct_u, transposed(v) @ ct_v
    together, apart = u_turned + conjugated(v_turned), u_turned - conjugated(v_turned)
    equal, gaps = inverse_gaps(s)
    both_zero, sums = _inverse_sums(s)
    is_zero, inverse = _inverse_values(s)
    if vectors:
        require_invariance(np.where(equal, skew(together), 0), [ct_u, ct_v], "svd", CHOICE)
        require_invariance(np.where(both_zero, skew(apart), 0), [ct_u, ct_v], "svd", CHOICE)
        has_space = is_zero & (u.shape[-2] != v.shape[-2])  # vectors of the value 0 may rotate out of the span
        refuse_mixture(has_other(equal) | has_space, ct_s, [ct_u, ct_v], "svd")
        refuse_unseen(together, equal, u, "svd")
    warn_of_rounding(together, gaps, s, ct_s, "svd")
    inner = 0.5 * (gaps * skew(together) + sums * skew(apart))
    if ct_s is not None:
        inner = inner + on_diagonal(ct_s).astype(u.dtype)
    back = conjugated(u) @ inner @ adjoint(v)
    if u.shape[-2] > u.shape[-1]:
        back = back + _out_of_span(ct_u, u, u_turned, inverse, is_zero) @ adjoint(v)
    if v.shape[-2] > v.shape[-1]:
        back = back + conjugated(u) @ transposed(_out_of_span(ct_v, v, v_turned, inverse, is_zero))
    return back


def _turned(u: Array, du_inner: Array, moved: Array, inverse: Array) -> Any:
    """Return the tangent of vectors: their rotation within their span, and out of it."""
    out = moved * inverse[..., None, :]
    turned = u @ du_inner
    return turned if u.shape[-2] == u.shape[-1] else turned + out - u @ (adjoint(u) @ out)


def _svd_tangent(
    tangents: Sequence[Any], ans: tuple[Any, ...], a: Array, full_matrices: bool, hermitian: bool, vectors: bool = True
) -> Any:
    u, s, vh = ans
    kept = s.shape[-1]
    v = adjoint(vh)[..., :kept]
    first = u[..., :kept]
    t = hermitian_from(tangents[0], "L") if hermitian else tangents[0]
    right, left = t @ v, adjoint(t) @ first
    inner = adjoint(first) @ right
    (equal, gaps), (both_zero, sums), (is_zero, inverse) = inverse_gaps(s), _inverse_sums(s), _inverse_values(s)
    if vectors:
        warn_of_close_tangent(inner + adjoint(inner), gaps, s, "svd")
    together, apart = 0.5 * gaps * (inner + adjoint(inner)), 0.5 * sums * skew(inner)
    split = mixed(inner + adjoint(inner), equal) | mixed(inner, both_zero)
    du = unless_split(_turned(first, together + apart, right, inverse), split | escapes(first, right, is_zero))
    dv = unless_split(_turned(v, together - apart, left, inverse), split | escapes(v, left, is_zero))
    kind = "L" if hermitian else "svd"
    du, dv = sealed(du, a, s, first, v, kind), sealed(dv, a, s, first, v, kind)
    if u.shape[-1] > kept:
        du = np.concatenate([du, -first @ (adjoint(du) @ u[..., kept:])], axis=-1)
    if vh.shape[-2] > kept:
        dv = np.concatenate([dv, -v @ (adjoint(dv) @ adjoint(vh)[..., kept:])], axis=-1)
    return du, sealed_tangent(real(diagonal(inner)), a, s, first, v, kind, t), adjoint(dv)


def _decomposed(a: Array, full_matrices: bool, hermitian: bool, vectors: bool = True) -> tuple[Any, ...]:
    if not (hermitian or np.all(np.isfinite(a))):
        raise np.linalg.LinAlgError("SVD did not converge")  # for infinities; NumPy's function may not terminate
    return tuple(np.linalg.svd(a, full_matrices, hermitian=hermitian))


_svd = register(
    Primitive(
        "svd",
        _decomposed,
        (_svd_rule,),
        _svd_tangent,
        samples=(
            sample((3, 3), full_matrices=True, hermitian=False, complex=False),
            sample((4, 2), full_matrices=False, hermitian=False, complex=False),
            sample((2, 2, 3), full_matrices=False, hermitian=False, complex=False),
            sample((3, 3), full_matrices=False, hermitian=True, complex=False),
        ),
    )
)
_svd.batch = stacked_batch(_svd)

_SVDResult = type(np.linalg.svd(np.eye(1)))


@answers_traced(np.linalg.svd)
def svd(a: Array, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Return singular values, the largest one first, between the left and right vectors.

    Only the lower triangle of a Hermitian matrix is read, and only it has a derivative.
    """
    metadata = {"full_matrices": bool(full_matrices), "hermitian": bool(hermitian)}
    if compute_uv:
        return _SVDResult(*apply(_svd, (as_matrices(a),), metadata))
    return apply(_svd, (as_matrices(a),), {**metadata, "full_matrices": False, "vectors": False})[1]


@answers_traced(np.linalg.svdvals)
def svdvals(x: Array, /) -> Any:
    """Return singular values, the largest one first; their vectors are kept for the rule."""
    return svd(x, compute_uv=False)
