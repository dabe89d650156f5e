"""Rules for linear algebra. Where NumPy raises, because a matrix is singular, JAX returns infinities or NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.engines.jax.library import jnp, scipy_linalg
from fgrad.engines.jax.table import lowers, refuses
from fgrad.typing import Array

lowers("qr")(lambda a: tuple(jnp.linalg.qr(a)))
lowers("slogdet")(lambda a: tuple(jnp.linalg.slogdet(a)))
lowers("eigh")(lambda a, triangle, vectors=True: _hermitian_parts(a, triangle))
lowers("scipy_eigh")(lambda a, triangle, driver: _hermitian_parts(a, triangle))
lowers("svd")(lambda a, full_matrices, hermitian, vectors=True: _singular_parts(a, full_matrices, hermitian))
lowers("scipy_svd")(lambda a, full_matrices, driver: tuple(jnp.linalg.svd(a, full_matrices)))
lowers("inv")(lambda a, strict: jnp.linalg.inv(a))
lowers("cholesky")(lambda a: jnp.linalg.cholesky(a, symmetrize_input=False))
lowers("expm_frechet")(lambda a, e: scipy_linalg.expm_frechet(*jnp.broadcast_arrays(a, e), compute_expm=False))
lowers("cholesky_factor")(lambda a: jnp.linalg.cholesky(a, symmetrize_input=False))


def _adjoint(x: Array) -> Any:
    return jnp.conjugate(jnp.swapaxes(x, -1, -2))


def _hermitian_parts(a: Array, triangle: str) -> tuple[Any, ...]:
    return tuple(jnp.linalg.eigh(a, UPLO=triangle, symmetrize_input=False))


def _singular_parts(a: Array, full_matrices: bool, hermitian: bool) -> tuple[Any, Any, Any]:
    """Return singular vectors and values; for a Hermitian matrix, only the lower triangle is read, as in NumPy."""
    if not hermitian:
        return tuple(jnp.linalg.svd(a, full_matrices))
    values, vectors = _hermitian_parts(a, "L")
    order = jnp.argsort(jnp.abs(values), -1)[..., ::-1]
    values = jnp.take_along_axis(values, order, -1)
    u = jnp.take_along_axis(vectors, order[..., None, :], -1)
    return u, jnp.abs(values), _adjoint(u * jnp.sign(values)[..., None, :])


@lowers("solve_both")
def solve_both(joined: Any, columns: int) -> Any:
    """Return the solution of systems whose right-hand sides are joined to the matrices."""
    return jnp.linalg.solve(joined[..., :columns], joined[..., columns:])


@lowers("pinv")
def pinv(a: Array, cutoff: object, hermitian: bool) -> Any:
    """Return the pseudo-inverse."""
    return pinv_and_values(a, cutoff, hermitian)[0]


@lowers("pinv_and_values")
def pinv_and_values(a: Array, cutoff: object, hermitian: bool = False) -> tuple[Any, Any]:
    """Return the pseudo-inverse and the singular values."""
    u, s, vh = _singular_parts(a, False, hermitian)
    is_kept = s > jnp.asarray(cutoff)[..., None] * jnp.max(s, axis=-1, keepdims=True, initial=0)
    inverse = jnp.where(is_kept, 1 / jnp.where(is_kept, s, 1), 0)
    return (_adjoint(vh) * inverse[..., None, :]) @ _adjoint(u), s


@lowers("cofactors")
def cofactors(a: Array, *directions: object, det: object = None) -> Any:
    """Return the cofactors of matrices from their singular values, also for singular matrices.

    Raises:
        NotImplementedError: derivatives of cofactors are not supported.
    """
    if directions:
        raise NotImplementedError("the second derivative of a determinant is not lowered")
    u, s, vh = jnp.linalg.svd(a)
    count = s.shape[-1]
    others = jnp.where(np.eye(count, dtype=bool), 1, s[..., None, :]).prod(-1)
    sign = (jnp.linalg.det(u) * jnp.linalg.det(vh))[..., None, None]
    return sign * ((jnp.conjugate(u) * others[..., None, :]) @ jnp.conjugate(vh))


@lowers("lu_factors")
def lu_factors(a: Array, warns: bool) -> tuple[Any, Any]:
    """Return the LU factors in one matrix, and the row interchanges as a column."""
    lu, pivots = scipy_linalg.lu_factor(a)
    return lu, pivots[..., None]


@lowers("solve_factored")
def solve_factored(a: Array, b: Array, *factors: object, method: str, of_transpose: bool) -> Any:
    """Return the solution of systems with a given factorization."""
    lead = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    matrix = jnp.broadcast_to(a, (*lead, *a.shape[-2:]))
    side = jnp.broadcast_to(b, (*lead, *b.shape[-2:]))
    if method in ("lower", "upper"):
        return scipy_linalg.solve_triangular(matrix, side, trans=int(of_transpose), lower=method == "lower")
    return jnp.linalg.solve(jnp.swapaxes(matrix, -1, -2) if of_transpose else matrix, side)


# Where NumPy raises


def _is_spoilt(ans: Any, *arrays: Any) -> Any:
    """Return whether a result is not finite, although its arguments are."""
    finite = [jnp.all(jnp.isfinite(x)) for x in arrays if jnp.issubdtype(x.dtype, jnp.inexact)]
    return jnp.all(jnp.asarray(finite)) & ~jnp.all(jnp.asarray([jnp.all(jnp.isfinite(x)) for x in ans]))


@refuses("lu_factors")
def has_no_pivot(ans: Array, a: Array, warns: bool) -> Any:
    """Return whether a matrix is singular."""
    return jnp.any(jnp.diagonal(ans[0], 0, -2, -1) == 0)


@refuses(
    "cholesky_factor", "solve", "inv", "solve_both", "cholesky", "solve_factored", "pinv", "pinv_and_values", "eigh",
    "svd", "qr", "scipy_eigh", "scipy_svd",
)  # fmt: skip
def fails(ans: Any, *arrays: object, **metadata: object) -> Any:
    """Return whether a matrix is singular, or an iteration did not converge."""
    return _is_spoilt(ans if isinstance(ans, tuple) else (ans,), *arrays)
