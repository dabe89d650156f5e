"""Lowering of matrix factorizations and of linear systems to LAPACK and BLAS, where SciPy is installed.

If LAPACK fails, the run fails: NumPy repeats it, and raises or warns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.core.shapes import broadcast_shapes
from fgrad.native import libraries
from fgrad.native.contractions import fail_unless_finite
from fgrad.native.lowering import Program, lowers
from fgrad.native.memory import matrices_of
from fgrad.native.nodes import AffineIndex, AffineTerm, LibraryCall, Node, Reduction, Remap, axis_index
from fgrad.native.routines import Factors, Solution, Triangle

if TYPE_CHECKING:
    from fgrad.graphs.equations import Name

_TRIANGULAR = ("trsm", "trsv")


def _part(program: Program, x: Node, *keys: Any) -> Node:
    """Return a part of matrices: along each of the last two axes, a number of leading elements, or an index."""
    lead = len(x.shape) - 2
    shape, places = list(x.shape[:lead]), [axis_index(axis) for axis in range(lead)]
    for kind, value in keys:
        if kind == "at":
            places.append(AffineIndex(value, ()))
        else:
            places.append(axis_index(len(shape)))
            shape.append(value)
    return program.add(Remap(x, tuple(shape), places))


def _transposed(program: Program, x: Node) -> Node:
    """Return an array with its last two axes exchanged."""
    count = len(x.shape)
    return program.permuted(x, [*range(count - 2), count - 1, count - 2])


def _diagonal(program: Program, x: Node) -> Node:
    lead = len(x.shape) - 2
    places = [axis_index(min(axis, lead)) for axis in range(lead + 2)]
    return program.add(Remap(x, x.shape[:-1], places))


def _fail_at_marks(program: Program, factors: Node) -> None:
    """Let a run fail where the first element of a matrix is NaN, with which LAPACK's failures are marked."""
    first = _part(program, factors, ("at", 0), ("at", 0))
    program.add_failure(program.elementwise("isnan", first))


def _fail_at_zeros(program: Program, x: Node) -> None:
    """Let a run fail where an element is 0."""
    program.add_failure(program.elementwise("equal", x, program.node(0, x.dtype)))


# Factors


@lowers("cholesky")
def _cholesky(program: Program, out: object, a: Node) -> Node | None:
    if not a.size or not libraries.has(a.dtype, "potrf"):
        return None
    root, layout = matrices_of(a)
    factor = program.add(LibraryCall("cholesky", a.shape, a.dtype, [root], Factors(a.shape[:-2], a.shape[-1], layout)))
    _fail_at_marks(program, factor)
    return factor


def _lu(program: Program, a: Node) -> tuple[Node, Node]:
    """Return the LU factors, and the pivots as numbers of the same dtype.

    With infinities and NaN, LAPACK and exported loops give different factors: a run with such pivots fails.
    """
    root, layout = matrices_of(a)
    *stack, size, _ = a.shape
    both = program.add(
        LibraryCall("lu", (*stack, size + 1, size), a.dtype, [root], Factors(tuple(stack), size, layout))
    )
    factors = _transposed(program, _part(program, both, ("to", size), ("to", size)))
    fail_unless_finite(program, _diagonal(program, factors))
    return factors, _part(program, both, ("at", size), ("to", size))


def _regular_lu(program: Program, a: Node) -> tuple[Node, Node]:
    """Return the LU factors, and the pivots as a column of integers; a run with a singular matrix fails."""
    factors, pivots = _lu(program, a)
    _fail_at_zeros(program, _diagonal(program, factors))
    return factors, program.reshaped(program.cast(pivots, np.int32), (*pivots.shape, 1))


def _has_factors(a: Node) -> bool:
    return bool(a.size) and libraries.has(a.dtype, "getrf", *_TRIANGULAR)


@lowers("lu_factors")
def _lu_factors(program: Program, out: object, a: Node, warns: bool) -> tuple[Node, Node] | None:
    """Return the LU factors, unless ill-conditioned matrices are to be reported."""
    if warns or not _has_factors(a):
        return None
    return _regular_lu(program, a)


# Solutions


def _solve_triangles(
    program: Program, a: Node, b: Node, triangles: tuple[Triangle, ...], swaps: int = 0, pivots: Node | None = None
) -> Node:
    """Return the solutions of triangular systems in sequence; stacks are broadcast."""
    stack = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    size, columns = b.shape[-2:]
    (matrix, layout), (side, side_layout) = (
        matrices_of(program.broadcast(each, (*stack, *each.shape[-2:]))) for each in (a, b)
    )
    arguments, found = [matrix, side], None
    if pivots is not None:
        root, found = matrices_of(program.broadcast(pivots, (*stack, size, 1)))
        arguments.append(root)
    how = Solution(stack, size, columns, layout, side_layout, triangles, swaps, found)
    return program.add(LibraryCall("solve", (*stack, size, columns), b.dtype, arguments, how))


def _with_factors(program: Program, factors: Node, pivots: Node, b: Node, of_transpose: bool) -> Node:
    """Return the solutions of systems with LU factors."""
    lower, upper = Triangle(True, of_transpose, has_ones=True), Triangle(False, of_transpose)
    triangles = (upper, lower) if of_transpose else (lower, upper)
    return _solve_triangles(program, factors, b, triangles, -1 if of_transpose else 1, pivots)


@lowers("solve_factored")
def _solve_factored(
    program: Program, out: Name, a: Node, b: Node, *factors: Node, method: str, of_transpose: bool
) -> Node | None:
    if not out.shape or 0 in out.shape or 0 in a.shape or not libraries.has(out.dtype, *_TRIANGULAR):
        return None
    b = program.cast(b, out.dtype)
    if method == "lu":
        return _with_factors(program, program.cast(factors[0], out.dtype), factors[1], b, of_transpose)
    if method == "cholesky":
        factor = program.cast(factors[0], out.dtype)
        return _solve_triangles(program, factor, b, (Triangle(True, False), Triangle(True, True)))
    a = program.cast(a, out.dtype)
    _fail_at_zeros(program, _diagonal(program, a))
    return _solve_triangles(program, a, b, (Triangle(method == "lower", of_transpose),))


def _solution(program: Program, a: Node, b: Node) -> Node:
    return _with_factors(program, *_regular_lu(program, a), b, False)


@lowers("solve")
def _solve(program: Program, out: Name, a: Node, b: Node) -> Node | None:
    a, b = program.cast(a, out.dtype), program.cast(b, out.dtype)
    if 0 in out.shape or not _has_factors(a):
        return None
    return _solution(program, a, b)


@lowers("solve_both")
def _solve_both(program: Program, out: Name, both: Node, columns: int) -> Node | None:
    """Return the solutions of systems whose matrix and right-hand side are concatenated."""
    size = both.shape[-2]
    if 0 in out.shape or size != columns or not _has_factors(both):
        return None
    lead = [axis_index(axis) for axis in range(len(both.shape) - 1)]
    last = len(both.shape) - 1
    side = Remap(both, out.shape, [*lead, AffineIndex(columns, (AffineTerm(last, 1),) if out.shape[-1] > 1 else ())])
    a = _part(program, both, ("to", size), ("to", columns))
    return _solution(program, a, program.add(side))


@lowers("inv")
def _inv(program: Program, out: object, a: Node, strict: bool) -> Node | None:
    if not _has_factors(a):
        return None
    return _solution(program, a, program.array(np.eye(a.shape[-1], dtype=a.dtype)))


# Determinants


def _sign_and_logarithm(program: Program, a: Node) -> tuple[Node, Node]:
    """Return the signs of determinants, and the logarithms of their absolute values."""
    factors, pivots = _lu(program, a)
    diagonal = _diagonal(program, factors)
    own = np.arange(a.shape[-1], dtype=a.dtype)
    kept = program.elementwise("equal", pivots, program.array(own))
    one, minus = (program.node(value, a.dtype) for value in (1, -1))
    signs = program.elementwise("select", kept, one, minus)
    signs = program.elementwise("multiply", signs, program.elementwise("sign", diagonal))
    logarithms = program.elementwise("log", program.elementwise("abs", diagonal))
    axis = len(diagonal.shape) - 1
    sign, logarithm = Reduction("prod", signs, [axis], a.dtype), Reduction("sum", logarithms, [axis], a.dtype)
    return program.add(sign), program.add(logarithm)


@lowers("slogdet")
def _slogdet(program: Program, out: object, a: Node) -> tuple[Node, Node] | None:
    return _sign_and_logarithm(program, a) if _has_factors(a) else None


@lowers("det")
def _det(program: Program, out: object, a: Node) -> Node | None:
    if not _has_factors(a):
        return None
    sign, logarithm = _sign_and_logarithm(program, a)
    return program.elementwise("multiply", sign, program.elementwise("exp", logarithm))


@lowers("cofactors")
def _cofactors(program: Program, out: object, a: Node, *directions: Node) -> Node | None:
    """Return cofactors, computed from the inverse; a run with an ill-conditioned matrix fails."""
    det = _det(program, out, a) if not directions else None
    inverse = _inv(program, out, a, True) if not directions else None
    if det is None or inverse is None:
        return None
    axes = (-2, -1)
    sizes = [program.reduced("max", program.elementwise("abs", x), axes, False, a.dtype) for x in (a, inverse)]
    limit = a.shape[-1] * np.sqrt(np.finfo(a.dtype).eps)
    condition = program.elementwise("multiply", *sizes)
    is_regular = program.elementwise("less_equal", condition, program.node(1 / limit, a.dtype))
    program.add_failure(program.elementwise("logical_not", is_regular))
    scaled = program.reshaped(det, (*det.shape, 1, 1))
    return program.elementwise("multiply", scaled, _transposed(program, inverse))
