"""Helpers of the rules of `np.linalg`: transposes, triangles, gaps between values, and checks for missing derivatives.

    transposed(x), adjoint(x)       the last two axes exchanged; and conjugated
    hermitian_from(x, "L")          the Hermitian matrix given by one triangle, as in NumPy
    to_triangle(ct, "L")            its transpose: the cotangent of that triangle
    where_used(pullback, a)         a pullback with exactly 0 for matrices whose results are not used
    inverse_gaps(values)            1 / (b - a) for all pairs; 0 for pairs that are equal to rounding
    require_invariance(part, ...)   refuse a loss that depends on an arbitrary choice of NumPy
    refuse_unseen(turned, ...)      refuse a loss whose dependence on the basis cannot be decided
    refuse_mixture(flags, ...)      refuse a loss that uses repeated values together with their vectors
    warn_of_rounding(turned, ...)   warn of a derivative that is inaccurate because values are close
    unless_split(tangent, split)    NaN in forward mode in place of an undetermined tangent
    escapes(vectors, moved, flags)  which vectors the change of a matrix rotates out of their span

The second derivatives are in `seals.py`.

Rules transpose and do not conjugate cotangents (see `fgrad/core/README.md`): the formulas of the papers,
which are for gradients `d/dx + i d/dy`, appear here with every factor conjugated.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.masked import Masked
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import apply
from fgrad.errors.places import depth_of_user
from fgrad.ops.batching import aligned
from fgrad.ops.patterns import of_matrices
from fgrad.ops.tracing import raw_array, raw_arrays
from fgrad.typing import Array


def as_matrices(x: Array) -> Array:
    """Return `x` as a stack of matrices; raise NumPy's error for fewer than two axes."""
    x = as_array(x)
    if x.ndim < 2:
        np.linalg.det(np.zeros(x.shape))
    return x


def transposed(x: Array) -> Array:
    """Exchange the last two axes."""
    return x.T if x.ndim == 2 else np.swapaxes(x, -1, -2)


def conjugated(x: Array) -> Array:
    """Return the complex conjugate; real arrays are returned unchanged."""
    return np.conjugate(x) if x.dtype.kind == "c" else x


def adjoint(x: Array) -> Any:
    """Return the conjugate transpose of the last two axes."""
    return transposed(conjugated(x))


def real(x: Array) -> Any:
    """Return the real part; real arrays are returned unchanged."""
    return np.real(x) if x.dtype.kind == "c" else x


def diagonal(x: Array) -> Any:
    """Return the diagonals of matrices."""
    return np.diagonal(x, 0, -2, -1)


def on_diagonal(x: Array) -> Array:
    """Return matrices with the last axis on their diagonals."""
    return np.where(np.eye(x.shape[-1], dtype=np.bool_), x[..., None], np.zeros((), x.dtype))


def skew(x: Array) -> Any:
    """Return a matrix minus its adjoint."""
    return x - adjoint(x)


def _places(size: int) -> tuple[Any, Any]:
    rows = np.arange(size)
    return rows[:, None], rows


def hermitian_from(x: Any, triangle: str) -> Any:
    """Return the Hermitian matrices given by one triangle ("L" or "U") and the real diagonal of `x`."""
    rows, columns = _places(x.shape[-1])
    whole = np.where(rows >= columns if triangle == "L" else rows <= columns, x, adjoint(x))
    return np.where(rows == columns, real(whole), whole) if x.dtype.kind == "c" else whole


def to_triangle(ct: Array, triangle: str) -> Any:
    """Return the cotangent of a triangle, where `ct` is that of the matrix made by `hermitian_from`."""
    both = ct + adjoint(ct)
    off_diagonal = np.tril(both, -1) if triangle == "L" else np.triu(both, 1)
    return off_diagonal + on_diagonal(0.5 * diagonal(both))


def rounding(values: Array) -> Any:
    """Return an error bound of computed eigenvalues or singular values, along the last axis, which is kept."""
    if not values.shape[-1]:
        return np.zeros((*values.shape[:-1], 1))
    largest = np.max(np.abs(values), axis=-1, keepdims=True)
    return largest * ((values.shape[-1] + 10) * np.finfo(values.dtype).eps)


def inverse_gaps(values: Array) -> tuple[Any, Any]:
    """Return which pairs of values are equal to rounding, and 1 / (value j - value i) for all other pairs."""
    gaps = values[..., None, :] - values[..., :, None]
    equal = np.abs(gaps) <= rounding(values)[..., None]
    return equal, np.where(equal, 0, 1 / np.where(equal, 1, gaps))


def _tolerance(x: Array) -> Any:
    return np.cbrt(np.finfo(x.dtype).eps)


CHOICE = "the phase of vectors, or the basis of those of a repeated value"


def require_invariance(part: Array, cotangents: Sequence[Any], function: str, what: str) -> None:
    """Refuse a cotangent that depends on an arbitrary choice.

    Args:
        part: must be 0, to rounding, if the loss does not depend on the choice.
        cotangents: the incoming cotangents, from which it is computed by a change of basis.
        function: the name of the NumPy function.
        what: the arbitrary choice, in words.

    Raises:
        NoDerivativeError: a ValueError; `part` is not 0.
    """
    left = np.abs(raw_array(part))
    size = max(np.max(np.abs(raw_array(ct)), initial=0) for ct in cotangents)
    if np.max(left, initial=0) > _tolerance(left) * size:
        raise errors.NoDerivativeError(
            f"the loss depends on {what}, which np.linalg.{function} chooses arbitrarily: there is no derivative.\n"
            "Use quantities that are the same for every choice, such as the values, |v|**2 of a vector v, "
            "v @ v.conj().T of its span, or u @ vh."
        )


def refuse_unseen(turned: Array, equal: Array, vectors: Array, function: str) -> None:
    """Refuse a loss with different weights for the vectors of a repeated value, if they lie along coordinate axes.

    Where a component of a vector is 0, elementwise functions such as `v**2` have the derivative 0: a rotation of such a
    basis has no first-order effect, whether the loss depends on it or not. The cotangents are then the same as those of
    `c @ diag(v @ v.T)`, which is independent of the basis.

    Args:
        turned: the cotangent in the basis of the vectors.
        equal: which pairs of vectors have the same value.
        vectors: as columns.
        function: the function of NumPy.

    Raises:
        NoDerivativeError: a ValueError; the dependence cannot be decided.

    Warns:
        BasisWarning: the dependence cannot be decided: other terms of the loss hide it, or nothing indicates it.
    """
    turned, equal, vectors = raw_arrays(turned, equal, vectors)
    along_axis = np.count_nonzero(vectors, axis=-2) == 1
    weights = diagonal(turned)
    apart = np.abs(weights[..., None, :] - weights[..., :, None])
    beside = np.abs(turned) + np.abs(transposed(turned))
    limit = _tolerance(beside) * np.max(np.abs(turned), initial=0)
    pairs = equal & along_axis[..., None, :] & along_axis[..., :, None]
    if np.any(pairs & (beside <= limit) & (apart > limit)):
        raise errors.NoDerivativeError(
            f"the vectors of a repeated value lie along coordinate axes in the basis chosen by np.linalg.{function}. "
            "Whether the loss depends on that choice, as v**2 does, cannot be decided, nor if it has a derivative.\n"
            "If it does not depend on it, rotate the matrix first: with q = scipy.stats.ortho_group.rvs(len(a)), the "
            "vectors of a are q @ v, where v are those of q.T @ a @ q."
        )
    if np.any(pairs & ~np.eye(pairs.shape[-1], dtype=np.bool_)):
        warnings.warn(
            f"vectors of a repeated value lie along axes in the basis chosen by np.linalg.{function}. The derivative "
            "is right if the loss is the same for every basis of them; that of other losses, such as np.sum(v**4), "
            "does not exist, which cannot be detected there. A matrix rotated beforehand, q.T @ a @ q with q = "
            "scipy.stats.ortho_group.rvs(len(a)), shows it",
            errors.BasisWarning,
            stacklevel=depth_of_user(),
        )


def refuse_mixture(is_repeated: Array, ct_values: Array | None, ct_vectors: Sequence[Any], function: str) -> None:
    """Refuse a loss that uses both values and vectors where values are repeated.

    For `v @ diag(f(w)) @ v.T` the derivative is `f'(w)` times a full matrix, but the cotangents contain `f'(w)` times
    the diagonal and `f(w)` times the rest: they do not determine it. At the identity, the sums of the off-diagonal
    elements of `v @ v.T`, which is constant, and of `v @ diag(w) @ v.T`, which is the matrix, have the same
    cotangents. Only an exactly zero cotangent counts as unused.

    Raises:
        NoDerivativeError: a ValueError; both are used.
    """
    if ct_values is None:
        return
    used = np.abs(ct_values) + sum(np.sum(np.abs(ct), axis=-2) for ct in ct_vectors)
    if np.any(raw_array(is_repeated & (used != 0))):
        raise errors.NoDerivativeError(
            f"the loss joins vectors and values of np.linalg.{function} where values are repeated: its derivative "
            "is not determined by them.\nWrite a function of the matrix without its factors: in place of "
            "(v * f(w)) @ v.conj().T, fgrad.scipy.linalg.funm(a, f), or expm, sqrtm, logm or fractional_matrix_power "
            "there, or np.linalg.inv or matrix_power. Compute values that are used without the vectors by a separate "
            "call, such as np.linalg.eigvalsh; or add a small matrix that makes the values differ."
        )


def warn_of_rounding(turned: Array, gaps: Array, values: Array, ct_values: Array | None, function: str) -> None:
    """Warn if quotients of differences of cotangents and small differences of values are mostly rounding.

    Args:
        turned: the cotangent in the basis of the vectors.
        gaps: the inverse differences of values.
        values: along the last axis.
        ct_values: their own cotangent, or None.
        function: the function of NumPy.

    Warns:
        CloseValuesWarning: few digits of the derivative are right.
    """
    ct_values = np.zeros(1) if ct_values is None else ct_values
    turned, gaps, values, ct_values = raw_arrays(turned, gaps, values, ct_values)
    precision, sizes, gaps = np.finfo(gaps.dtype).eps, np.abs(turned), np.abs(gaps)
    steep = precision * np.max(np.abs(values), axis=-1, initial=0)[..., None, None] * gaps > _tolerance(gaps)
    if not steep.any():
        return
    noise = np.where(steep, precision * gaps * (sizes + transposed(sizes)), 0)
    of_vectors = np.max(gaps * np.abs(skew(turned)), axis=(-2, -1), initial=0)
    whole = np.maximum(of_vectors, np.max(np.abs(ct_values), axis=-1, initial=0))
    if np.any(np.max(noise, axis=(-2, -1), initial=0) > _tolerance(gaps) * whole):
        _warn_of_close(function, "this loss")


def _warn_of_close(function: str, what: str) -> None:
    warnings.warn(
        f"values of np.linalg.{function} are so close that of the derivative of {what} on their vectors few "
        "digits are right; write a function of the matrix without its factors, such as "
        "fgrad.scipy.linalg.funm(a, f)",
        errors.CloseValuesWarning,
        stacklevel=depth_of_user(),
    )


def warn_of_close_tangent(inner: Array, gaps: Array, values: Array, function: str) -> None:
    """Warn if a tangent mixes vectors of values so close that their difference is mostly rounding.

    Args:
        inner: the tangent of the matrix, in the basis of the vectors.
        gaps: the inverse differences of values.
        values: along the last axis.
        function: the function of NumPy.

    Warns:
        CloseValuesWarning: few digits of the tangent are right.
    """
    sizes, gaps, values = map(np.abs, raw_arrays(inner, gaps, values))
    off = gaps * (np.finfo(gaps.dtype).eps * np.max(values, axis=-1, initial=0)[..., None, None])
    if np.any(np.where(off > _tolerance(gaps), off * sizes, 0) > _tolerance(gaps) * np.max(sizes, initial=0)):
        _warn_of_close(function, "what depends")


def has_other(equal: Array) -> Any:
    """Return which values are equal to another value."""
    return np.any(equal & ~np.eye(equal.shape[-1], dtype=np.bool_), axis=-2)


def unless_split(tangent: Array, split: Array) -> Array:
    """Return the tangent of vectors; NaN for vectors of equal values that the change of the matrix mixes.

    The change splits the values in another basis than NumPy's, and a function of both values and vectors has `f'(w)`
    times the mixed part, which no tangent of the vectors gives. The function is unknown in forward mode.

    Args:
        tangent: with vectors as columns.
        split: the parts of the changed matrix between vectors of equal values; 0 elsewhere and on the diagonal.
    """
    return np.where(np.any(split, axis=-2, keepdims=True), np.array(np.nan, tangent.dtype), tangent)


def mixed(inner: Array, equal: Array) -> Any:
    """Return where the change of a matrix, in the basis of its vectors, mixes different vectors of equal values."""
    sizes = np.abs(inner)
    flat = np.reshape(sizes, (*sizes.shape[:-2], sizes.shape[-2] * sizes.shape[-1]))
    beyond = sizes > rounding(flat)[..., None]
    return equal & ~np.eye(inner.shape[-1], dtype=np.bool_) & beyond


def escapes(vectors: Array, moved: Array, is_zero: Array) -> Any:
    """Return as one row which singular vectors of the value 0 a change of the matrix rotates out of their span.

    Args:
        vectors: as columns.
        moved: the changed matrix, or its adjoint, times the vectors of the other side.
        is_zero: which vectors have the value 0.
    """
    rows, kept = vectors.shape[-2:]
    if rows == kept:
        return np.zeros((1, kept), np.bool_)
    out = np.sum(np.abs(moved - vectors @ (adjoint(vectors) @ moved)), axis=-2, keepdims=True)
    whole = np.sum(np.abs(moved), axis=(-2, -1), keepdims=True)
    return is_zero[..., None, :] & (out > whole * ((rows + 10) * np.finfo(out.dtype).eps))


def where_used(pullback: Callable[[Any], Any], a: Array) -> Callable[[Any], Any]:
    """Return a pullback that gives exactly 0 to each matrix of `a` whose results a mask excludes.

    The rule's own products and quotients cannot exclude unused infinities. The primitive is declared to scale.
    """

    def pull(ct: object) -> Any:
        if type(ct) is not Masked:
            return pullback(ct)
        is_used = np.any(ct.derivative != 0, axis=(-2, -1), keepdims=True)
        pulled = pullback(ct.derivative)
        # If everything is finite the result is 0 anyway, and the mask would cut its derivative.
        is_finite = _are_finite(pulled) & _are_finite(a)
        return np.where(is_used | is_finite, pulled, np.zeros((), pulled.dtype))

    return pull


def _are_finite(matrices: Array) -> Any:
    return np.all(np.isfinite(matrices), axis=(-2, -1), keepdims=True)


def cotangent_of(cts: Any, place: int) -> Any:
    """Return the cotangent of one of several results, or None if there is none."""
    if type(cts) is Masked:
        part = cotangent_of(cts.derivative, place)
        return None if part is None else Masked(part)
    return cts[place] if place in getattr(cts, "parts", range(len(cts))) else None


def stacked_batch(primitive: Primitive) -> Callable[..., Any]:
    """Return the batching rule of operations on stacks of matrices: the batch is one more axis of the stack."""
    if primitive.pattern is None:
        primitive.pattern = of_matrices

    def batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
        return apply(primitive, aligned(values, mapped, 2), metadata)

    return batch
