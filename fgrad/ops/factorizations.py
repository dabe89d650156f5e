"""Factorizations: `cholesky`, `qr`, `eigh`, `eig`, `svd`, and `eigvalsh`, `eigvals`, `svdvals`.

Where a function reads only one triangle of a matrix, only that triangle has a derivative, in agreement with
finite differences of NumPy's function. For a symmetric matrix that is computed from parameters, the derivative
with respect to the parameters is the same.

The vectors of repeated values span a space, in which NumPy chooses a basis; complex vectors have an arbitrary
phase. A loss that depends on these choices has no derivative, and the reverse rules detect this and raise. A function
of the matrix such as `v @ diag(f(w)) @ v.T` has one, but at repeated values the cotangents of vectors and values do
not determine it; the rules reject losses that use both, and refer to `fgrad.scipy.linalg.funm`. They also reject
losses that may depend on a basis along coordinate axes, as of a diagonal matrix, where a rotation has no first-order
effect. For other losses the first derivative is correct. In forward mode the loss is unknown: the tangents of vectors
of repeated values are NaN where the change of the matrix mixes them. Second derivatives at repeated values are NaN
where they are undetermined, as `seals.py` describes.

Sources: I. Murray, "Differentiation of the Cholesky decomposition" (2016), https://arxiv.org/abs/1602.07527,
sections 3.1 and 4; M. Seeger et al., "Auto-differentiating linear algebra" (2017),
https://arxiv.org/abs/1710.08717, for QR and eigh; S. Walter and L. Lehmann, "Algorithmic differentiation of
linear algebra functions" (2010), https://arxiv.org/abs/1001.1654, for QR; C. Boeddeker et al., "On the
computation of complex-valued gradients" (2017), https://arxiv.org/abs/1701.00392, section 4, for eig;
J. Townsend, "Differentiating the singular value decomposition" (2016), https://j-towns.github.io/papers/svd-derivative.pdf.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.layers import below, is_program
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import Tensor, apply
from fgrad.ops.elementwise import in_c_order
from fgrad.ops.families import register, sample
from fgrad.ops.lapack import lapack
from fgrad.ops.matrices import (
    CHOICE,
    adjoint,
    as_matrices,
    conjugated,
    cotangent_of,
    diagonal,
    has_other,
    hermitian_from,
    inverse_gaps,
    mixed,
    on_diagonal,
    real,
    refuse_mixture,
    refuse_unseen,
    require_invariance,
    skew,
    stacked_batch,
    to_triangle,
    transposed,
    unless_split,
    warn_of_close_tangent,
    warn_of_rounding,
    where_used,
)
from fgrad.ops.seals import sealed, sealed_cotangent, sealed_tangent
from fgrad.ops.solving import by_triangle
from fgrad.ops.tracing import answers_traced, raw_array
from fgrad.typing import Array

# Cholesky and QR

_SMALL = 64
"""Triangles up to this size are treated as a whole: smaller products are no faster."""
_SMALL_FOLLOWED = 128
"""The same, while operations are recorded one by one."""


def _quarters(x: Array) -> tuple[Any, Any, Any]:
    """Return the upper left, lower left and lower right quarter of matrices."""
    half = x.shape[-1] // 2
    return x[..., :half, :half], x[..., half:, :half], x[..., half:, half:]


def _of_quarters(upper: Any, corner: Any, lower: Any) -> Array:
    if type(upper) is np.ndarray:  # written in place; joining twice would copy twice
        half, size = upper.shape[-1], upper.shape[-1] + lower.shape[-1]
        whole = np.zeros((*corner.shape[:-2], size, size), corner.dtype)
        whole[..., :half, :half], whole[..., half:, :half], whole[..., half:, half:] = upper, corner, lower
        return whole
    empty = np.zeros_like(transposed(corner))
    top, bottom = np.concatenate([upper, empty], axis=-1), np.concatenate([corner, lower], axis=-1)
    return np.concatenate([top, bottom], axis=-2)


def _inverse_of_lower(x: Array) -> Any:
    """Return the inverses of lower triangular matrices by halves, a third of the work of `inv`.

    Single small matrices are inverted by LAPACK, without the triangular equations of BLAS, which would wait for its
    threads.

    Raises:
        LinAlgError: a matrix is singular.
    """
    if x.shape[-1] <= _SMALL:
        invert = lapack("trtri", x.dtype.char) if type(x) is np.ndarray and x.ndim == 2 and x.size else None
        if invert is None:
            return np.linalg.inv(x)
        inverse, info = invert(x.T)  # in Fortran's order an upper triangle
        if info:
            raise np.linalg.LinAlgError("singular matrix")
        return inverse.T
    upper, corner, lower = _quarters(x)
    upper, lower = _inverse_of_lower(upper), _inverse_of_lower(lower)
    return _of_quarters(upper, -lower @ (corner @ upper), lower)


def _solver_of_transpose(lower: Array) -> Callable[[Any], Any]:
    """Return a function of `side` that solves `transposed(lower) @ x = side` for lower triangular matrices.

    Single matrices that are traced are solved by LAPACK; others by halves, with inverses of small triangles.
    """
    is_traced = type(lower) is not np.ndarray
    if is_traced and raw_array(lower).ndim == 2 and lapack("trtrs", lower.dtype.char):
        return lambda side: by_triangle(lower, side, "lower", of_transpose=True)
    if lower.shape[-1] <= _SMALL:
        inverse = transposed(_inverse_of_lower(lower))
        return lambda side: inverse @ side
    (first, corner, last), half = _quarters(lower), lower.shape[-1] // 2
    upper_part, lower_part = _solver_of_transpose(first), _solver_of_transpose(last)

    def solve(side: Any) -> Any:
        below = lower_part(side[..., half:, :])
        return np.concatenate([upper_part(side[..., :half, :] - transposed(corner) @ below), below], axis=-2)

    return solve


def _half_triangle(x: Array) -> Any:
    """Return the lower triangle with half of the real diagonal."""
    if type(x) is not np.ndarray:
        return np.tril(x, -1) + on_diagonal(0.5 * real(diagonal(x)).astype(x.dtype))
    triangle = np.tril(x)
    middle = np.einsum("...ii->...i", triangle)
    middle[...] = real(middle) * 0.5
    return triangle


def _cholesky_back(factor: Array, ct: Array) -> Any:
    """Return the cotangent of the lower triangle of the matrix that has this factor.

    Computed by halves, as in Murray's blocked algorithm (section 4): a sixth of the products of the formula for the
    whole matrix, which is used for small matrices.
    """
    is_plain = type(factor) is np.ndarray and type(ct) is np.ndarray
    if factor.shape[-1] <= (_SMALL if is_plain else _SMALL_FOLLOWED):
        solve, half = _solver_of_transpose(factor), _half_triangle(transposed(factor) @ np.tril(ct))
        return _half_triangle(solve(adjoint(solve(half + adjoint(half)))))
    (l_upper, l_corner, l_lower), (upper, corner, lower) = _quarters(factor), _quarters(ct)
    lower = _cholesky_back(l_lower, lower)
    corner = corner - (lower + adjoint(lower)) @ conjugated(l_corner)
    turned = _solver_of_transpose(l_upper)(adjoint(corner))
    upper = _cholesky_back(l_upper, upper - turned @ conjugated(l_corner))
    return _of_quarters(upper, adjoint(turned), lower)


def _cholesky_tangent(tangents: Sequence[Any], ans: Array, a: Array) -> Any:
    inverse = _inverse_of_lower(ans)
    return ans @ _half_triangle(inverse @ hermitian_from(tangents[0], "L") @ adjoint(inverse))


_cholesky = register(
    Primitive(
        "cholesky",
        np.linalg.cholesky,
        (lambda ans, a: where_used(lambda ct: _cholesky_back(ans, ct), a),),
        _cholesky_tangent,
        scales="pullback",
        samples=(sample((1, 1), domain=(0.5, 2)), sample((2, 1, 1), domain=(0.5, 2))),
    )
)
_cholesky.batch = stacked_batch(_cholesky)


@answers_traced(np.linalg.cholesky)
def cholesky(a: Array, /, *, upper: bool = False) -> Any:
    """Return the triangular factors of positive definite matrices; only one triangle is read."""
    a = as_matrices(a)
    return in_c_order(adjoint(apply(_cholesky, (adjoint(a),))) if upper else apply(_cholesky, (a,)))


def _inverse_of_upper(r: Array) -> Any:
    """Return the transposed inverses of the triangular factors of QR.

    Raises:
        NoDerivativeError: a ValueError; a factor is singular to rounding.
    """
    if not _is_singular(r):
        with contextlib.suppress(np.linalg.LinAlgError):
            return _inverse_of_lower(transposed(r))
    raise errors.NoDerivativeError(
        "np.linalg.qr has no derivative here: the columns of the matrix, or the first ones, are linearly dependent."
    )


def _is_singular(r: Array) -> bool:
    """Return whether a triangular factor is singular to rounding; False while recording, where it is unknown."""
    r = below(r, is_program)
    if type(r) is Tensor:
        return False
    sizes = np.abs(np.diagonal(r, axis1=-2, axis2=-1))
    limit = np.finfo(r.dtype).eps * np.max(sizes, axis=-1, initial=0.0)
    return bool(np.any(sizes <= limit[..., None]))


def _qr_rule(ans: tuple[Any, ...], a: Array) -> Callable[[Any], Any]:
    def pullback(cts: object) -> Any:
        q, r = ans
        ct_q, ct_r = cotangent_of(cts, 0), cotangent_of(cts, 1)
        inner = np.zeros_like(r) if ct_r is None else ct_r @ transposed(r)
        inner = inner if ct_q is None else inner - transposed(q) @ ct_q
        upper = np.triu(inner, 1)
        back = conjugated(q) @ (upper + adjoint(upper) + on_diagonal(real(diagonal(inner)).astype(q.dtype)))
        back = back if ct_q is None else back + ct_q
        return back @ _inverse_of_upper(r)

    return pullback


def _qr_tangent(tangents: Sequence[Any], ans: tuple[Any, ...], a: Array) -> Any:
    q, r = ans
    moved = tangents[0] @ transposed(_inverse_of_upper(r))
    inner = adjoint(q) @ moved
    kept = np.triu(inner, 1) + adjoint(np.tril(inner, -1)) + on_diagonal(real(diagonal(inner)).astype(q.dtype))
    return moved - q @ kept, kept @ r


_qr = register(
    Primitive(
        "qr",
        lambda a: tuple(np.linalg.qr(a)),
        (_qr_rule,),
        _qr_tangent,
        samples=(sample((3, 3)), sample((4, 2)), sample((2, 3, 2)), sample((1, 1))),
    )
)
_qr.batch = stacked_batch(_qr)

_QRResult = type(np.linalg.qr(np.eye(1)))


@answers_traced(np.linalg.qr)
def qr(a: Array, mode: str = "reduced") -> Any:
    """Return orthonormal factors and triangular ones; the first columns must be independent.

    Raises:
        NoDerivativeError: a ValueError; for this `mode`, NumPy chooses columns arbitrarily, or returns
            the raw output of LAPACK.
    """
    a = as_matrices(a)
    rows, columns = a.shape[-2:]
    if mode not in ("reduced", "complete", "r"):
        numpys: Any = np.linalg.qr
        numpys(np.zeros((1, 1)), mode)  # NumPy's error or warning
        raise errors.NoDerivativeError(f"np.linalg.qr with mode={mode!r} has no derivative; use mode='reduced'.")
    if mode == "complete" and rows > columns:
        raise errors.NoDerivativeError(
            "np.linalg.qr with mode='complete' adds columns to q, which are arbitrary: they have no derivative.\n"
            "Use mode='reduced'; the projection on their span is np.eye(n) - q @ q.conj().T."
        )
    square = a[..., :rows]
    q, r = apply(_qr, (square,))
    if rows < columns:
        r = np.concatenate([r, adjoint(q) @ a[..., rows:]], axis=-1)
    return r if mode == "r" else _QRResult(q, r)


# Hermitian matrices


def _eigh_rule(ans: tuple[Any, ...], a: Array, triangle: str, vectors: bool = True) -> Callable[[Any], Any]:
    def pullback(cts: object) -> Any:
        w, v = ans
        ct_w, ct_v = cotangent_of(cts, 0), cotangent_of(cts, 1)
        if ct_v is None:
            back = (conjugated(v) * ct_w[..., None, :]) @ transposed(v)
            return to_triangle(sealed_cotangent(back, a, w, v, v, triangle, ct_w), triangle)
        equal, gaps = inverse_gaps(w)
        turned = transposed(v) @ ct_v
        if vectors:
            require_invariance(np.where(equal, skew(turned), 0), [ct_v], "eigh", CHOICE)
            refuse_mixture(has_other(equal), ct_w, [ct_v], "eigh")
            refuse_unseen(turned, equal, v, "eigh")
        warn_of_rounding(turned, gaps, w, ct_w, "eigh")
        inner = gaps * turned
        if ct_w is not None:
            inner = inner + on_diagonal(ct_w).astype(v.dtype)
        back = conjugated(v) @ inner @ transposed(v)
        return to_triangle(sealed(back, a, w, v, v, triangle), triangle)

    return pullback


def _eigh_tangent(tangents: Sequence[Any], ans: tuple[Any, ...], a: Array, triangle: str, vectors: bool = True) -> Any:
    w, v = ans
    t = hermitian_from(tangents[0], triangle)
    inner = adjoint(v) @ t @ v
    equal, gaps = inverse_gaps(w)
    if vectors:
        warn_of_close_tangent(inner, gaps, w, "eigh")
    moved = sealed_tangent(real(diagonal(inner)), a, w, v, v, triangle, t)
    return moved, sealed(unless_split(v @ (gaps * inner), mixed(inner, equal)), a, w, v, v, triangle)


_eigh = register(
    Primitive(
        "eigh",
        lambda a, triangle, vectors=True: tuple(np.linalg.eigh(a, triangle)),
        (_eigh_rule,),
        _eigh_tangent,
        samples=(
            sample((3, 3), triangle="L", complex=False),
            sample((2, 2, 2), triangle="U", complex=False),
            sample((1, 1), triangle="L", complex=False),
        ),
    )
)
_eigh.batch = stacked_batch(_eigh)

_EighResult = type(np.linalg.eigh(np.eye(1)))


def _triangle(name: str) -> str:
    name = name.upper()
    if name not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return name


@answers_traced(np.linalg.eigh)
def eigh(a: Array, UPLO: str = "L") -> Any:  # noqa: N803  # NumPy's name
    """Return eigenvalues and eigenvectors of Hermitian matrices; only one triangle is read."""
    return _EighResult(*apply(_eigh, (as_matrices(a),), {"triangle": _triangle(UPLO)}))


@answers_traced(np.linalg.eigvalsh)
def eigvalsh(a: Array, UPLO: str = "L") -> Any:  # noqa: N803
    """Return eigenvalues of Hermitian matrices, whose eigenvectors are kept for the rule; only one triangle is read."""
    return apply(_eigh, (as_matrices(a),), {"triangle": _triangle(UPLO), "vectors": False})[0]


# General matrices


def _refuse_defective(w: Array, v: Array) -> None:
    """Refuse defective matrices: their eigenvectors of a repeated value are dependent.

    Raises:
        NoDerivativeError: a ValueError; the eigenvalues of such a matrix are not differentiable.
    """
    values, vectors = raw_array(w), raw_array(v)
    equal = np.any(inverse_gaps(values)[0] & ~np.eye(values.shape[-1], dtype=np.bool_), axis=(-2, -1))
    vectors = vectors[np.broadcast_to(equal, vectors.shape[:-2])]
    if vectors.size and np.min(np.linalg.svdvals(vectors)) < 100 * np.finfo(vectors.dtype).eps:
        raise errors.NoDerivativeError(
            "np.linalg.eig has no derivative here: an eigenvalue is repeated, and its vectors are linearly dependent.\n"
            "Write a function of the matrix without its factors, such as np.trace(a @ a) or scipy.linalg.expm(a)."
        )


def _eig_rule(ans: tuple[Any, ...], a: Array, vectors: bool = True) -> Callable[[Any], Any]:
    def pullback(cts: object) -> Any:
        w, v = ans
        _refuse_defective(w, v)
        ct_w, ct_v = cotangent_of(cts, 0), cotangent_of(cts, 1)
        if ct_v is None:
            back = np.linalg.solve(transposed(v), ct_w[..., :, None] * transposed(v))
            return sealed_cotangent(back, a, w, v, v, "any", ct_w)
        inner = _eig_inner(w, v, ct_w, ct_v, a.dtype.kind == "c", vectors)
        return sealed(np.linalg.solve(transposed(v), inner @ transposed(v)), a, w, v, v, "any")

    return pullback


def _eig_inner(w: Array, v: Array, ct_w: Array | None, ct_v: Array, is_complex: bool, vectors: bool) -> Any:
    """Return the cotangent of the matrix in the basis of the vectors."""
    equal, gaps = inverse_gaps(w)
    lengths = np.sum(ct_v * v, axis=-2, keepdims=True)
    turned = transposed(v) @ (ct_v - conjugated(v) * real(lengths))
    if vectors:
        # A real vector of a real matrix has no phase, only a sign.
        has_phase = np.ones(1, np.bool_) if is_complex else np.imag(w) != 0
        require_invariance(np.where(has_phase[..., None, :], np.imag(lengths), 0), [ct_v], "eig", CHOICE)
        off_diagonal = ~np.eye(w.shape[-1], dtype=np.bool_)
        require_invariance(np.where(equal & off_diagonal, turned, 0), [ct_v], "eig", CHOICE)
        refuse_mixture(has_other(equal), ct_w, [ct_v], "eig")
        refuse_unseen(transposed(v) @ ct_v, equal, v, "eig")
    return gaps * turned if ct_w is None else gaps * turned + on_diagonal(ct_w)


def _eig_tangent(tangents: Sequence[Any], ans: tuple[Any, ...], a: Array, vectors: bool = True) -> Any:
    w, v = ans
    _refuse_defective(w, v)
    inner = np.linalg.solve(v, tangents[0] @ v)
    equal, gaps = inverse_gaps(w)
    if vectors:
        warn_of_close_tangent(inner, gaps, w, "eig")
    turned = v @ (gaps * inner)
    lengths = np.sum(real(conjugated(v) * turned), axis=-2, keepdims=True)
    moved = sealed_tangent(diagonal(inner), a, w, v, v, "any", tangents[0])
    return moved, sealed(unless_split(turned - v * lengths, mixed(inner, equal)), a, w, v, v, "any")


_eig = register(
    Primitive(
        "eig",
        lambda a, vectors=True: tuple(np.linalg.eig(a)),
        (_eig_rule,),
        _eig_tangent,
        # A two by two matrix with positive elements has different, real eigenvalues.
        samples=(sample((2, 2), domain=(0.5, 2), complex=False), sample((3, 2, 2), domain=(0.5, 2), complex=False)),
    )
)
_eig.batch = stacked_batch(_eig)

_EigResult = type(np.linalg.eig(np.eye(1)))


@answers_traced(np.linalg.eig)
def eig(a: Any) -> Any:
    """Return eigenvalues and eigenvectors of square matrices; the eigenvectors have length 1."""
    return _EigResult(*apply(_eig, (as_matrices(a),)))


@answers_traced(np.linalg.eigvals)
def eigvals(a: Any) -> Any:
    """Return eigenvalues of square matrices; their eigenvectors are kept for the rule."""
    return apply(_eig, (as_matrices(a),), {"vectors": False})[0]
