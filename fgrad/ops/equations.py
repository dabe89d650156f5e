"""Equations: `solve`, `pinv`, `lstsq`, `tensorsolve`, `tensorinv`.

With SciPy, `solve` factors a matrix once, for the value and for derivatives of every order. NumPy does not return
its factorization: without SciPy, and for stacks, the reverse rule factors the transposed matrix once for both
arguments. The rule of `pinv` needs only products.

Sources: M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008), https://doi.org/10.1007/978-3-540-68942-3_4, section 2.3, for `solve`; G. Golub and
V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose variables
separate" (1973), https://doi.org/10.1137/0710036, equation 4.12, for `pinv` and `lstsq`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod as prod_of
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.primitive import BOXES, ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import aligned, ndim_of
from fgrad.ops.elementwise import in_c_order
from fgrad.ops.families import plain_axis, register, sample
from fgrad.ops.lapack import lapack
from fgrad.ops.matrices import (
    adjoint,
    as_matrices,
    conjugated,
    cotangent_of,
    diagonal,
    hermitian_from,
    real,
    stacked_batch,
    transposed,
    where_used,
)
from fgrad.ops.patterns import of_system
from fgrad.ops.solving import by_factors
from fgrad.ops.tracing import answers_traced, raw_array
from fgrad.typing import Array, ArrayLike, Operand

# Solving


def _solve_tangent(tangents: Sequence[Any], ans: Array, a: Array, b: Array) -> Array:
    ta, tb = tangents
    if ta is ZERO:
        return np.linalg.solve(a, tb)
    moved = -ta @ ans
    return np.linalg.solve(a, moved if tb is ZERO else tb + moved)


_solve = register(
    Primitive(
        "solve",
        np.linalg.solve,
        (
            lambda ans, a, b: where_used(lambda ct: -np.linalg.solve(transposed(a), ct) @ transposed(ans), a),
            lambda ans, a, b: where_used(lambda ct: np.linalg.solve(transposed(a), ct), a),
        ),
        _solve_tangent,
        broadcasts=True,
        scales="pullback",
        samples=(
            sample((3, 3), (3, 1)),
            sample((2, 3, 3), (3, 2)),
            sample((3, 3), (2, 3, 2)),
            sample((1, 1), (1, 1)),
            sample((2, 1, 2, 2), (3, 2, 1)),
        ),
        pattern=of_system,
    )
)


def _batched_solve(values: Sequence[Any], mapped: Sequence[Any], size: int, metadata: Mapping[str, Any]) -> Any:
    a, b = values
    if mapped[0] or ndim_of(b, mapped[1]) != 2 or a.ndim != 2:
        return apply(_solve, aligned(values, mapped, 2))
    # One matrix for all examples is factored once: their right-hand sides become columns.
    rows, columns = b.shape[1:]
    solved = apply(_solve, (a, np.reshape(np.moveaxis(b, 0, 1), (rows, size * columns))))
    return np.moveaxis(np.reshape(solved, (rows, size, columns)), 1, 0)


_solve.batch = _batched_solve


_SMALL = 32
"""Up to this size, solving again is faster than joining the right-hand sides."""


def _joined_solve_rule(ans: Array, joined: Array, columns: int) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        moved = np.linalg.solve(transposed(joined[..., :columns]), ct)
        return np.concatenate([-moved @ transposed(ans), moved], axis=-1)

    return where_used(pullback, joined)


# When both a matrix and its right-hand side have a derivative, they are stacked, so that one reverse rule
# handles both and factors the transposed matrix once.
_solve_both = register(
    Primitive(
        "solve_both",
        lambda joined, columns: np.linalg.solve(joined[..., :columns], joined[..., columns:]),
        (_joined_solve_rule,),
        lambda tangents, ans, joined, columns: np.linalg.solve(
            joined[..., :columns], tangents[0][..., columns:] - tangents[0][..., :columns] @ ans
        ),
        scales="pullback",
        samples=(sample((3, 4), columns=3), sample((2, 2, 5), columns=2)),
    )
)
_solve_both.batch = stacked_batch(_solve_both)


def _is_factored(a: Array, b: Array) -> bool:
    """Return whether the factors of a matrix are kept.

    LAPACK factors one matrix per call; NumPy loops over stacks in compiled code. With stored factors, each argument's
    rule solves separately; for many right-hand sides one combined solve saves more than the factors do.
    """
    if a.dtype != b.dtype or a.dtype.char not in "fdFD" or not a.size or raw_array(a).ndim > 2:
        return False
    is_better_joined = type(a) in BOXES and type(b) in BOXES and b.shape[-1] * 3 > a.shape[-1] > _SMALL
    return not is_better_joined and lapack("getrf", a.dtype.char) is not None


@answers_traced(np.linalg.solve)
def solve(a: Array, b: Array) -> Any:
    """Return the `x` with `a @ x = b`; stacks are broadcast, and a `b` with one axis is a vector."""
    a, b = as_array(a), as_array(b)
    if a.ndim < 2 or b.ndim == 0 or {*a.shape[-2:]} != {b.shape[-2 if b.ndim > 1 else 0]}:
        np.linalg.solve(np.zeros(a.shape), np.zeros(b.shape))  # NumPy's error
    columns = b[:, None] if b.ndim == 1 else b
    if _is_factored(a, columns):
        x = by_factors(a, columns, warns=False)
    elif type(a) in BOXES and type(columns) in BOXES:
        stack = np.broadcast_shapes(a.shape[:-2], columns.shape[:-2])
        sides = [np.broadcast_to(x, (*stack, *x.shape[-2:])) for x in (a, columns)]
        joined = np.concatenate(sides, axis=-1)
        x = apply(_solve_both, (joined,), {"columns": a.shape[-1]})
    else:
        x = apply(_solve, (a, columns))
    return x[..., 0] if b.ndim == 1 else in_c_order(x)


# Pseudo-inverses


def _product(x: Array, y: Array, z: Array) -> Any:
    """Return the product of three matrices, in the order that is cheaper."""
    rows, (inner, outer), columns = x.shape[-2], y.shape[-2:], z.shape[-1]
    if rows * outer * (inner + columns) <= inner * columns * (rows + outer):
        return x @ y @ z
    return x @ (y @ z)


def _check_rank(a: Array, pinv: Array) -> None:
    """Refuse a cutoff that drops singular values that are not zero to rounding.

    Raises:
        NoDerivativeError: a ValueError; such values are dropped.
    """
    a, pinv = raw_array(a), raw_array(pinv)
    lost = np.max(np.abs(a - a @ (pinv @ a)), initial=0)
    size, eps = np.max(np.abs(a), initial=0), np.finfo(a.dtype).eps
    rounding = 10 * max(a.shape[-2:]) * eps * size * np.max(np.abs(pinv), initial=0)
    if lost > size * (np.sqrt(eps) + rounding):
        raise errors.NoDerivativeError(
            "np.linalg.pinv or lstsq dropped singular values that are not zero, because `rcond` (or `rtol`) is large;\n"
            "the derivative is that of the pseudo-inverse of the whole matrix. Compute it by np.linalg.svd, or "
            "use Tikhonov's form, np.linalg.solve(a.T @ a + c * np.eye(n), a.T)."
        )


def _pinv_rule(ans: Array, a: Array, cutoff: Operand, hermitian: bool) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        _check_rank(a, ans)
        p, p_t, turned, a_c = conjugated(ans), transposed(ans), adjoint(ct), conjugated(a)
        left, right = _product(turned, p, p_t), _product(p_t, p, turned)
        return left - _product(a_c, p, left) + right - _product(right, p, a_c) - _product(p_t, ct, p_t)

    return where_used(pullback, a)


def _pinv_tangent(tangents: Sequence[Any], ans: Array, a: Array, cutoff: Operand, hermitian: bool) -> Any:
    (t,) = tangents
    _check_rank(a, ans)
    turned, p_h = adjoint(t), adjoint(ans)
    left, right = _product(ans, p_h, turned), _product(turned, p_h, ans)
    return left - _product(left, a, ans) + right - _product(ans, a, right) - _product(ans, t, ans)


_pinv = register(
    Primitive(
        "pinv",
        lambda a, cutoff, hermitian: np.linalg.pinv(a, cutoff, hermitian),
        (_pinv_rule,),
        _pinv_tangent,
        scales="pullback",
        samples=(
            sample((3, 3), cutoff=1e-15, hermitian=False),
            sample((4, 2), cutoff=1e-15, hermitian=False),
            sample((2, 2, 3), cutoff=1e-15, hermitian=False),
            sample((0, 3), cutoff=1e-15, hermitian=False),
        ),
    )
)
_pinv.batch = stacked_batch(_pinv)

_NOT_GIVEN: Any = object()


@answers_traced(np.linalg.pinv)
def pinv(a: Array, rcond: float | None = None, hermitian: bool = False, *, rtol: Any = _NOT_GIVEN) -> Any:
    """Return the pseudo-inverses of matrices.

    The derivative holds for changes that keep the rank; at matrices without full rank, other changes have none.
    Only the lower triangle of a Hermitian matrix is read, and only it has a derivative.
    """
    if rcond is not None and rtol is not _NOT_GIVEN:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if rcond is None:
        rcond = 1e-15 if rtol is _NOT_GIVEN else rtol
    a = as_matrices(a)
    if rcond is None:
        rcond = max(a.shape[-2:]) * np.finfo(a.dtype).eps
    a = hermitian_from(a, "L") if hermitian else a
    return apply(_pinv, (a,), {"cutoff": rcond, "hermitian": hermitian})


# Least squares


def _inverse_and_values(a: Array, cutoff: float) -> tuple[Any, Any]:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    is_kept = s > cutoff * np.max(s, axis=-1, keepdims=True, initial=0)
    inverse = np.where(is_kept, 1 / np.where(is_kept, s, 1), np.zeros((), s.dtype))
    return (adjoint(vh) * inverse[..., None, :]) @ adjoint(u), s


def _inverse_and_values_rule(ans: tuple[Any, ...], a: Array, cutoff: float) -> Callable[[Any], Any]:
    def pullback(cts: object) -> Any:
        pinv, _ = ans
        ct_pinv, ct_s = cotangent_of(cts, 0), cotangent_of(cts, 1)
        back = ZERO if ct_pinv is None else _pinv_rule(pinv, a, cutoff, False)(ct_pinv)
        if ct_s is None:
            return back
        u, _, vh = np.linalg.svd(a, full_matrices=False)
        of_values = (conjugated(u) * ct_s[..., None, :]) @ conjugated(vh)
        return of_values if back is ZERO else back + of_values

    return pullback


def _inverse_and_values_tangent(
    tangents: Sequence[Any], ans: tuple[Any, ...], a: Array, cutoff: float
) -> tuple[Any, Any]:
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    moved = real(diagonal(adjoint(u) @ tangents[0] @ adjoint(vh)))
    return _pinv_tangent(tangents, ans[0], a, cutoff, False), moved


_pinv_and_values = register(
    Primitive(
        "pinv_and_values",
        _inverse_and_values,
        (_inverse_and_values_rule,),
        _inverse_and_values_tangent,
        samples=(sample((4, 3), cutoff=1e-15), sample((2, 2, 3), cutoff=1e-15)),
    )
)
_pinv_and_values.batch = stacked_batch(_pinv_and_values)


@answers_traced(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """Return the least-squares solution of smallest norm, the residuals, the rank, and the singular values.

    The derivative of the solution holds for changes that keep the rank, as that of `pinv`.
    """
    a, b = as_array(a), as_array(b)
    columns = b[:, None] if b.ndim == 1 else b
    if a.ndim != 2 or columns.ndim != 2 or a.shape[0] != columns.shape[0]:
        np.linalg.lstsq(np.zeros(a.shape), np.zeros(b.shape))  # NumPy's error
    rows, size = a.shape
    cutoff = np.finfo(np.float64).eps * max(rows, size) if rcond is None else float(rcond)
    pinv, s = apply(_pinv_and_values, (a,), {"cutoff": cutoff})
    x = pinv @ columns
    rank = np.sum(s > cutoff * np.max(s, axis=-1, keepdims=True, initial=0), axis=-1, dtype=np.intc)
    # Under vmap the residuals exist for all examples or for none: only if the matrices have full rank.
    if rows > size and np.all(raw_array(rank) == size):
        left = columns - a @ x
        residuals = np.sum(real(left * conjugated(left)), axis=0)
    else:
        residuals = np.zeros(0, s.dtype)
    return (x[:, 0] if b.ndim == 1 else x), residuals, rank, s


# Tensors as matrices


@answers_traced(np.linalg.tensorsolve)
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: object = None) -> Any:
    """Return the `x` with `tensordot(a, x, x.ndim) = b`."""
    a, b = as_array(a), as_array(b)
    if axes is not None:
        order = list(range(a.ndim))
        for axis in plain_axis(axes):
            order.remove(axis)
            order.append(axis)
        a = np.transpose(a, order)
    shape = a.shape[-(a.ndim - b.ndim) :]
    size = prod_of(shape)
    if a.size != size**2:
        raise np.linalg.LinAlgError(
            "Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])"
        )
    return np.reshape(np.linalg.solve(np.reshape(a, (size, size)), np.ravel(b)), shape)


@answers_traced(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Any:
    """Return the inverse under `tensordot(a, b, ind)`."""
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    size = prod_of(a.shape[ind:])
    return np.reshape(np.linalg.inv(np.reshape(a, (size, -1))), (*a.shape[ind:], *a.shape[:ind]))
