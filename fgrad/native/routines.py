"""Routines of libraries that native code calls: products of matrices by BLAS, factors and solutions by LAPACK.

    @routine("matmul")        says how a `LibraryCall` is run: `write(body, item, memory)` writes it into a `Body`

BLAS counts in Fortran's way: what is a matrix in C order is the transpose of one there. So `a @ b` is computed as
`b.T @ a.T`, which is in Fortran's order what the result is in C order, and nothing is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fgrad.native.body import FEW_ROWS, Body
from fgrad.native.ir import Constant, Op, Type, Value, integer
from fgrad.native.linkage import Linkage
from fgrad.native.llvm_text import Used
from fgrad.native.memory import Matrices
from fgrad.native.nodes import LibraryCall, Node, Shape

Pointers = Callable[[Node], Any]
ROUTINES: dict[str, Callable[..., Any]] = {}
"""By name: returns the body of a function that runs a `LibraryCall`, and the library functions that it calls."""


def routine(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register how a routine is run."""

    def register(write: Callable[..., None]) -> Callable[..., None]:
        def run(item: LibraryCall, pointers: Pointers, linkage: Linkage) -> tuple[str, Used]:
            body = Body(item.dtype, linkage)
            write(body, item, *[pointers(each) for each in item.arguments], pointers(item))
            return body.printed()

        ROUTINES[name] = run
        return write

    return register


# Products


class Product(NamedTuple):
    """Products of stacked matrices of m rows, n columns, and k elements that are summed."""

    stack: Shape
    m: int
    k: int
    n: int
    left: Matrices
    right: Matrices


def _steps(stack: Shape, size: int) -> tuple[int, ...]:
    """Return the distances between the matrices of a stack in C order."""
    steps: list[int] = []
    for each in reversed(stack):
        steps.insert(0, size)
        size *= each
    return tuple(steps)


class Share(NamedTuple):
    """Some of the products of a stack, or some rows or columns of each product.

    Attributes:
        axis: "stack", for its first axis, "rows" or "columns".
        low: the first of them.
        size: how many there are.
    """

    axis: str
    low: Value
    size: Value


@routine("matmul")
def _matmul(body: Body, item: LibraryCall, left: Value, right: Value, result: Value) -> None:
    write_products(body, item.options, (left, right, result))


def write_products(body: Body, how: Product, arrays: Sequence[Value], share: Share | None = None) -> None:
    """Write the products of the matrices in two arrays into a third one, or a share of them."""
    into = Matrices(0, _steps(how.stack, how.m * how.n), False, how.n)
    lies = (how.left, how.right, into)
    stack: list[int | Value] = list(how.stack)
    m: int | Value = how.m
    n: int | Value = how.n
    if share is not None:
        distances = _distances(how, into, share.axis)
        arrays = [body.at(x, 0, (step, share.low)) for x, step in zip(arrays, distances, strict=True)]
        if share.axis == "stack":
            stack[0] = share.size
        elif share.axis == "rows":
            m = share.size
        else:
            n = share.size
    write = (_written_product if min(how.m, how.n) > 1 else _written_vector)(body, how, m, n)
    with body.loops(stack) as iterations:
        write(*(body.matrix(*each, iterations) for each in zip(arrays, lies, strict=True)))


def _distances(how: Product, into: Matrices, axis: str) -> tuple[int, int, int]:
    """Return how far elements lie apart along an axis: in the left array, in the right one, and in the result."""
    left, right = how.left, how.right
    if axis == "stack":
        return left.steps[0], right.steps[0], into.steps[0]
    if axis == "rows":
        return 1 if left.is_turned else left.leading, 0, how.n
    return 0, right.leading if right.is_turned else 1, 1


def _written_product(body: Body, how: Product, m: int | Value, n: int | Value) -> Callable[[Value, Value, Value], None]:
    """Return what writes m rows and n columns of the product of two matrices at given addresses."""
    flags = [body.flag("T" if each.is_turned else "N") for each in (how.right, how.left)]
    sizes = [body.integer(each) for each in (n, m, how.k)]
    leading = [body.integer(each.leading) for each in (how.right, how.left)]
    one, zero, width = body.number(1.0), body.number(0.0), body.integer(how.n)
    return lambda a, b, c: body.routine("gemm", *flags, *sizes, one, b, leading[0], a, leading[1], zero, c, width)


def _written_vector(body: Body, how: Product, m: int | Value, n: int | Value) -> Callable[[Value, Value, Value], None]:
    """Return what writes that of a vector, which is a matrix of one row or column, and a matrix."""
    is_first = how.m == 1
    vector, matrix, size = (how.left, how.right, n) if is_first else (how.right, how.left, m)
    # A column beside others has neighbours as far away as rows are; so has a row that lies in a column.
    step = body.integer(vector.leading if vector.is_turned == is_first else 1)
    down, right = (how.k, size) if is_first else (size, how.k)
    sizes = [body.integer(each) for each in ((down, right) if matrix.is_turned else (right, down))]
    flag = body.flag("T" if matrix.is_turned == is_first else "N")
    one, zero, leading, next_one = body.number(1.0), body.number(0.0), body.integer(matrix.leading), body.integer(1)

    def write(a: Value, b: Value, c: Value) -> None:
        x, y = (a, b) if is_first else (b, a)
        body.routine("gemv", flag, *sizes, one, y, leading, x, step, zero, c, next_one)

    return write


_LARGE = 1024
"""The size from which on LAPACK's own threads are worth that they may wait for a busy core."""


# Solutions. With a right-hand side in C order, of which BLAS sees the transpose, `a @ x = b` is `x.T @ a.T = b.T`.


class Triangle(NamedTuple):
    """A triangular equation.

    Attributes:
        is_lower: which triangle of the matrix is read.
        of_transpose: whether the equation is that of the transpose.
        has_ones: whether the diagonal counts as ones, and is not read.
    """

    is_lower: bool
    of_transpose: bool
    has_ones: bool = False


class Solution(NamedTuple):
    """Equations of stacked matrices of `size` rows and columns, with right-hand sides of `columns` columns.

    Attributes:
        sides: how the right-hand sides lie in memory.
        triangles: what is solved, one after the other.
        swaps: whether rows are exchanged beforehand: 1; afterwards, in the reverse order: -1; not at all: 0.
        pivots: how the integers lie that say with which row each is exchanged.
    """

    stack: Shape
    size: int
    columns: int
    matrices: Matrices
    sides: Matrices
    triangles: tuple[Triangle, ...]
    swaps: int = 0
    pivots: Matrices | None = None


class _Triangular:
    """Writes calls that solve triangular equations."""

    def __init__(self, body: Body, how: Solution) -> None:
        self._body, self._how = body, how
        self._sizes = [body.integer(each) for each in (how.columns, how.size, max(how.matrices.leading, how.size))]
        self._one, self._step, self._right = body.number(1.0), body.integer(1), body.flag("R")
        self._flags = [self._flags_of(each) for each in how.triangles]

    def _flags_of(self, each: Triangle) -> list[Value]:
        # What lies in memory by columns is in Fortran's order the matrix itself, and else its transpose.
        by_columns = self._how.matrices.is_turned
        is_lower, is_itself = each.is_lower == by_columns, by_columns != each.of_transpose
        iterations = is_itself if self._how.columns > 1 else not is_itself
        return [self._body.flag(each) for each in ("UL"[is_lower], "NT"[iterations], "NU"[each.has_ones])]

    def write(self, a: Value, x: Value) -> None:
        """Solve all triangles for the matrix and the right-hand side at two addresses."""
        columns, size, leading = self._sizes
        for flags in self._flags:
            if self._how.columns == 1:
                self._body.routine("trsv", *flags, size, a, leading, x, self._step)
            else:
                self._body.routine("trsm", self._right, *flags, columns, size, self._one, a, leading, x, columns)


@routine("solve")
def _solve(body: Body, item: LibraryCall, *arrays: Value) -> None:
    how: Solution = item.options
    body.uses_threads = how.size >= _LARGE
    matrix, side, *pivots, result = arrays
    triangular = _Triangular(body, how)
    whole = how.size * how.columns
    into = Matrices(0, _steps(how.stack, whole), False, how.columns)
    with body.loops(how.stack) as iterations:
        x = body.matrix(result, into, iterations)
        _copy(body, body.matrix(side, how.sides, iterations), how.sides, x, how.size, how.columns)
        places = [body.matrix(each, how.pivots, iterations, kind=Type.I32) for each in pivots if how.pivots]
        if how.swaps > 0:
            _exchange(body, how, x, *places)
        triangular.write(body.matrix(matrix, how.matrices, iterations), x)
        if how.swaps < 0:
            _exchange(body, how, x, *places)


_BLOCK = 16


def _copy(body: Body, source: Value, lies: Matrices, target: Value, rows: int, columns: int) -> None:
    """Copy a matrix into one in C order; some columns at a time, if these lie one behind the other."""
    down, right = (1, lies.leading) if lies.is_turned else (lies.leading, 1)

    def copy(first: Value, row: Value, iteration: Value) -> None:
        column = body.add(first, iteration)
        value = body.read(body.at(source, 0, (down, row), (right, column)))
        body.store(value, body.at(target, 0, (columns, row), (1, column)))

    in_blocks = columns // _BLOCK * _BLOCK if lies.is_turned else 0
    with body.loop(in_blocks // _BLOCK) as block:
        first = body.mul(block, integer(_BLOCK))
        with body.loop(rows) as row, body.loop(_BLOCK) as iteration:
            copy(first, row, iteration)
    with body.loop(rows) as row, body.loop(columns - in_blocks) as iteration:
        copy(integer(in_blocks), row, iteration)


def _exchange(body: Body, how: Solution, x: Value, pivots: Value) -> None:
    """Exchange each row with the one that the factorization says, from the first on, or from the last."""
    assert how.pivots is not None
    with body.loop(how.size) as iteration:
        row = iteration if how.swaps > 0 else body.sub(integer(how.size - 1), iteration)
        place = body.at(pivots, 0, (how.pivots.leading, row), kind=Type.I32)
        other = body.cast(Op.SEXT, body.read(place, Type.I32), Type.I64)
        with body.loop(how.columns) as column:

            def row_at(row: Value, column: Value = column) -> Value:
                return body.at(x, 0, (how.columns, row), (1, column))

            if how.size <= FEW_ROWS:
                body.exchange_by_values(row_at, how.size, row, other)
            else:
                body.exchange(row_at(row), row_at(other))


# Factors


class Factors(NamedTuple):
    """Factorizations of stacked matrices of `size` rows and columns."""

    stack: Shape
    size: int
    matrices: Matrices


def _mark(body: Body, state: Value, place: Value) -> None:
    """Put NaN at an address where LAPACK has found no factors."""
    fails = body.compare("ne", body.read(state, Type.I32), integer(0, Type.I32))
    body.store(body.select(fails, Constant(body.kind.type, float("nan")), body.read(place)), place)


@routine("cholesky")
def _cholesky(body: Body, item: LibraryCall, matrix: Value, result: Value) -> None:
    """The lower triangle in C order is the upper one in Fortran's."""
    how: Factors = item.options
    body.uses_threads = how.size >= _LARGE
    upper, size, state = body.flag("U"), body.integer(how.size), body.alloca(Type.I32)
    into = Matrices(0, _steps(how.stack, how.size**2), False, how.size)
    with body.loops(how.stack) as iterations:
        factor = body.matrix(result, into, iterations)
        _copy(body, body.matrix(matrix, how.matrices, iterations), how.matrices, factor, how.size, how.size)
        body.routine("potrf", upper, size, factor, size, state)
        with body.loop(how.size) as row:
            after = body.sub(integer(how.size - 1), row)
            with body.loop(after) as column:
                place = body.at(factor, 1, (how.size + 1, row), (1, column))
                body.store(Constant(body.kind.type, 0), place)
        _mark(body, state, factor)


@routine("lu")
def _lu(body: Body, item: LibraryCall, matrix: Value, result: Value) -> None:
    """The factors by columns, and one more column: the rows that were exchanged with each, counted from 0."""
    how: Factors = item.options
    body.uses_threads = how.size >= _LARGE
    size, state = body.integer(how.size), body.alloca(Type.I32)
    into = Matrices(0, _steps(how.stack, how.size * (how.size + 1)), False, how.size)
    turned = how.matrices._replace(is_turned=not how.matrices.is_turned)
    with body.loops(how.stack) as iterations:
        factors = body.matrix(result, into, iterations)
        _copy(body, body.matrix(matrix, how.matrices, iterations), turned, factors, how.size, how.size)
        pivots = body.at(factors, how.size**2)
        body.routine("getrf", size, size, factors, size, pivots, state)
        # Each integer takes the place of a number, or of half of one: from the last on none is lost.
        with body.loop(how.size) as iteration:
            place = body.sub(integer(how.size - 1), iteration)
            row = body.read(body.at(pivots, 0, (1, place), kind=Type.I32), Type.I32)
            value = body.cast(Op.SITOFP, body.sub(row, integer(1, Type.I32)), body.kind.type)
            body.store(value, body.at(pivots, 0, (1, place)))
