"""The primitive for sparse linear systems, independent of the solver.

    solution(matrix, b, solver)       the solution of `matrix @ x = b`, differentiable in the elements and `b`
    Solver                            interface of solvers for plain numbers

For `x = inv(a) @ b` the cotangents are `inv(a).T @ ct` of `b`, and that times `-x.T` of `a`, of which only the
stored elements are computed (M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008), https://doi.org/10.1007/978-3-540-68942-3_4, section 2.3.1). So derivatives of all orders
are computed without a dense matrix, and by the same solver as the system itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.families import register, sample
from fgrad.ops.lapack import in_stacks
from fgrad.ops.patterns import Chain, Step, linked
from fgrad.scipy.linalg._arguments import lapack_dtype, of_dtype
from fgrad.scipy.sparse._patterns import Pattern, full, placed
from fgrad.scipy.sparse._products import product, sampled, side_by_side, stacks, supported
from fgrad.scipy.sparse.arrays import SparseArray, as_sparse, issparse, made
from fgrad.typing import Array


class Solver(Protocol):
    """A solver of linear systems for plain numbers."""

    def solve(self, matrix: Any, b: Any, of_transpose: bool) -> Any:
        """Return the solution.

        Args:
            matrix: a SciPy sparse array.
            b: of shape (n, k).
            of_transpose: whether to solve with the transpose, without conjugation.
        """

    def for_derivatives(self) -> Solver:
        """Return the solver for the systems of a derivative.

        Raises:
            ConvergenceError: a RuntimeError; the solution to be differentiated did not converge.
        """


def _solved(data: Any, b: Any, pattern: Pattern, solver: Solver, of_transpose: bool) -> Any:
    def solve_one(row: Array, b: Array) -> Any:
        return solver.solve(pattern.with_elements(row[0]), b, of_transpose).astype(dtype, copy=False)

    dtype = np.result_type(data, b)
    data, b = (x.astype(supported(x.dtype), copy=False) for x in (data, b))
    if data.ndim == 1 and b.ndim > 2:
        return side_by_side(lambda columns: solve_one(data[None], columns), b)
    return in_stacks(solve_one, data[..., None, :], b)


def _solve(data: Array, b: Array, pattern: Pattern, solver: Solver, of_transpose: bool) -> Any:
    return apply(_entry, (data, b), {"pattern": pattern, "solver": solver, "of_transpose": of_transpose})


def _data_rule(
    ans: Array, data: Array, b: Array, pattern: Pattern, solver: Solver, of_transpose: bool
) -> Callable[[Any], Any]:
    def pullback(ct: Array) -> Any:
        moved = _solve(data, ct, pattern, solver.for_derivatives(), not of_transpose)
        left, right = (ans, moved) if of_transpose else (moved, ans)
        return -sampled(left, right, pattern)

    return pullback


def _side_rule(
    ans: Array, data: Array, b: Array, pattern: Pattern, solver: Solver, of_transpose: bool
) -> Callable[[Any], Any]:
    return lambda ct: _solve(data, ct, pattern, solver.for_derivatives(), not of_transpose)


def _tangent(
    tangents: Sequence[Any], ans: Array, data: Array, b: Array, pattern: Pattern, solver: Solver, of_transpose: bool
) -> Any:
    moved, tb = tangents
    if moved is not ZERO:
        pushed = -product(moved, ans, pattern.T if of_transpose else pattern)
        tb = pushed if tb is ZERO else tb + pushed
    return _solve(data, tb, pattern, solver.for_derivatives(), of_transpose)


class _Dense:
    """A dense solver for small systems."""

    def solve(self, matrix: Any, b: Array, of_transpose: bool) -> Any:
        a = matrix.toarray()
        return np.linalg.solve(a.T if of_transpose else a, b)

    def for_derivatives(self) -> _Dense:
        return self


def _pattern(step: Step) -> Chain:
    """Unknowns depend on everything in the same connected component of the system."""
    pattern = step.metadata["pattern"]
    count, parts = scipy.sparse.csgraph.connected_components(pattern.labels(), directed=False)
    shape = (*step.ans.shape[:-2], count, step.ans.shape[-1])
    of_data = parts[pattern.coordinates[0]]
    return (
        linked(step.ans.shape, shape, lambda out, part: (out, part[..., parts, :])),
        linked(shape, step.shape, lambda part, b: (part[..., parts, :], b))
        if step.argnum
        else linked(shape, step.shape, lambda part, data: (part[..., of_data, :], data[..., None])),
    )


_PLACES = placed(np.array([0, 1, 2, 0, 2]), np.array([0, 1, 2, 1, 0]), (3, 3))

_entry = register(
    Primitive(
        "sparse_solve",
        _solved,
        (_data_rule, _side_rule),
        _tangent,
        broadcasts=True,
        samples=(
            sample((5,), (3, 2), domain=(0.5, 1), pattern=_PLACES, solver=_Dense(), of_transpose=False),
            sample((2, 5), (3, 1), domain=(0.5, 1), pattern=_PLACES, solver=_Dense(), of_transpose=True),
            sample((5,), (2, 3, 1), domain=(0.5, 1), pattern=_PLACES, solver=_Dense(), of_transpose=False),
        ),
        pattern=_pattern,
    )
)
_entry.batch = stacks(1, 2)(_entry)


def solution(matrix: SparseArray, b: Any, solver: Solver, of_transpose: bool = False) -> Any:
    """Return the `x` with `matrix @ x = b`, or that of the transpose.

    Args:
        matrix: a square matrix.
        b: of shape (n,) or (n, k), in the dtype of the solution.
        solver: the solver of such systems.
        of_transpose: whether to solve with the transpose, without conjugation.
    """
    if b.ndim == 1:
        return _solve(matrix.data, b[:, None], matrix.pattern, solver, of_transpose)[:, 0]
    return _solve(matrix.data, b, matrix.pattern, solver, of_transpose)


# Arguments


def as_matrix(a: Any, function: str) -> Any:
    """Return a sparse array, SciPy's or fgrad's, or a dense matrix, as an fgrad array.

    Raises:
        ValueError: it is not square.
        StructureError: a TypeError; it is another object.
    """
    if issparse(a):
        found = as_sparse(a)
    elif isinstance(a, scipy.sparse.linalg.LinearOperator) or callable(a):
        raise errors.StructureError(
            f"{function} was called with a {type(a).__name__} and a traced value, but only elements of a matrix have "
            f"a derivative.\n  at {errors.users_line()}\n"
            "Give a sparse array, such as fgrad.scipy.sparse.csr_array((data, (i, j))); or pass your own solver to "
            "fg.implicit_diff(solver, lambda x, b: product(x) - b, matrix_free=True)."
        )
    else:
        dense: Any = as_array(a)
        if dense.ndim != 2:
            raise ValueError(f"expected a square matrix (shape={dense.shape})")
        found = made(full(dense.shape), np.reshape(dense, -1))
    if found.shape[0] != found.shape[1]:
        raise ValueError(f"expected a square matrix (shape={found.shape})")
    return found


def system(a: object, b: Any, function: str) -> tuple[Any, Any]:
    """Return a matrix and a right-hand side in their common precision.

    Raises:
        ValueError: their sizes are incompatible.
        StructureError: a TypeError; the right-hand side is sparse.
    """
    matrix = as_matrix(a, function)
    if issparse(b):
        raise errors.StructureError(
            f"{function} was called with a sparse right-hand side and a traced argument, but the solution is dense.\n"
            f"  at {errors.users_line()}\nWrite b.toarray()."
        )
    b = as_array(b)
    dtype = lapack_dtype(matrix.data, b)
    own = np.finfo(dtype).dtype if as_array(matrix.data).dtype.kind != "c" else dtype  # a real matrix stays real
    data, b = of_dtype(as_array(matrix.data), own), of_dtype(b, dtype)
    if b.ndim not in (1, 2) or b.shape[0] != matrix.shape[0]:
        raise ValueError(f"matrix - rhs dimension mismatch ({matrix.shape} - {b.shape})")
    return matrix.with_data(data), b


def on_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a SciPy function that also accepts fgrad arrays with plain elements."""

    def call(*args: object, **keywords: object) -> Any:
        plain = [_scipys(each) for each in args]
        return function(*plain, **{name: _scipys(each) for name, each in keywords.items()})

    call.__name__ = function.__name__
    return call


def _scipys(x: Any) -> Any:
    return x.toscipy() if isinstance(x, SparseArray) else x
