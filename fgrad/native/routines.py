"""Library routines called by native code: matrix products by BLAS, factorizations and solutions by LAPACK.

    @routine("matmul")        registers the code generator of a `LibraryCall`: `write(body, item, *arrays)`

BLAS expects Fortran order: a matrix in C order is its transpose there. So `a @ b` is computed as `b.T @ a.T`, which in
Fortran order is the result in C order, without copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fgrad.native.body import FEW_ROWS, Body
from fgrad.native.ir import Constant, Op, Type, Value, integer
from fgrad.native.linkage import Linkage
from fgrad.native.llvm_text import Used
from fgrad.native.memory import Matrices, strides_in_order
from fgrad.native.nodes import LibraryCall, Node, Shape

Pointers = Callable[[Node], Any]
ROUTINES: dict[str, Callable[..., Any]] = {}
"""Functions that return the body of a function for a `LibraryCall`, and the functions that it calls; by name."""


def routine(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register the code generator of a routine."""

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
    """Products of stacks of m x k and k x n matrices."""

    stack: Shape
    m: int
    k: int
    n: int
    left: Matrices
    right: Matrices


def _in_order(stack: Shape, size: int, leading: int) -> Matrices:
    """Return the layout of a stack of matrices of `size` elements in C order."""
    return Matrices(0, strides_in_order((*stack, size))[:-1], False, leading)


class Chunk(NamedTuple):
    """A chunk of a stack of products, or of the rows or columns of each product.

    Attributes:
        axis: "stack" for the first axis of the stack, "rows" or "columns".
        low: the first index.
        size: the number of indices.
    """

    axis: str
    low: Value
    size: Value


@routine("matmul")
def _matmul(body: Body, item: LibraryCall, left: Value, right: Value, result: Value) -> None:
    write_products(body, item.options, (left, right, result))


def write_products(body: Body, how: Product, arrays: Sequence[Value], chunk: Chunk | None = None) -> None:
    """Append the products of the matrices in two arrays, or a chunk of them, stored into a third array."""
    into = _in_order(how.stack, how.m * how.n, how.n)
    layout = (how.left, how.right, into)
    stack: list[int | Value] = list(how.stack)
    m: int | Value = how.m
    n: int | Value = how.n
    if chunk is not None:
        distances = _strides_along(how, into, chunk.axis)
        arrays = [body.at(x, 0, (step, chunk.low)) for x, step in zip(arrays, distances, strict=True)]
        if chunk.axis == "stack":
            stack[0] = chunk.size
        elif chunk.axis == "rows":
            m = chunk.size
        else:
            n = chunk.size
    write = (_product_writer if min(how.m, how.n) > 1 else _vector_writer)(body, how, m, n)
    with body.loops(stack) as iterations:
        write(*(body.matrix(*each, iterations) for each in zip(arrays, layout, strict=True)))


def _strides_along(how: Product, into: Matrices, axis: str) -> tuple[int, int, int]:
    """Return the strides along an axis, of the left operand, the right operand, and the result."""
    left, right = how.left, how.right
    if axis == "stack":
        return left.strides[0], right.strides[0], into.strides[0]
    if axis == "rows":
        return 1 if left.is_transposed else left.leading, 0, how.n
    return 0, right.leading if right.is_transposed else 1, 1


def _product_writer(body: Body, how: Product, m: int | Value, n: int | Value) -> Callable[[Value, Value, Value], None]:
    """Return a function that appends the product of two matrices, with m rows and n columns, at given addresses."""
    flags = [body.flag("T" if each.is_transposed else "N") for each in (how.right, how.left)]
    sizes = [body.integer(each) for each in (n, m, how.k)]
    leading = [body.integer(each.leading) for each in (how.right, how.left)]
    one, zero, width = body.number(1.0), body.number(0.0), body.integer(how.n)
    return lambda a, b, c: body.routine("gemm", *flags, *sizes, one, b, leading[0], a, leading[1], zero, c, width)


def _vector_writer(body: Body, how: Product, m: int | Value, n: int | Value) -> Callable[[Value, Value, Value], None]:
    """Return a function that appends the product of a vector, which is a matrix of one row or column, and a matrix."""
    is_first = how.m == 1
    vector, matrix, size = (how.left, how.right, n) if is_first else (how.right, how.left, m)
    # The stride is the leading dimension for a column of a C-ordered matrix, and for a row of a Fortran-ordered one.
    step = body.integer(vector.leading if vector.is_transposed == is_first else 1)
    down, right = (how.k, size) if is_first else (size, how.k)
    sizes = [body.integer(each) for each in ((down, right) if matrix.is_transposed else (right, down))]
    flag = body.flag("T" if matrix.is_transposed == is_first else "N")
    one, zero, leading, next_one = body.number(1.0), body.number(0.0), body.integer(matrix.leading), body.integer(1)

    def write(a: Value, b: Value, c: Value) -> None:
        x, y = (a, b) if is_first else (b, a)
        body.routine("gemv", flag, *sizes, one, y, leading, x, step, zero, c, next_one)

    return write


_LARGE = 1024
"""Size from which LAPACK's threads pay off, despite possible waiting for a busy core."""


# Solutions. BLAS sees the transpose of a right-hand side in C order: `a @ x = b` is solved as `x.T @ a.T = b.T`.


class Triangle(NamedTuple):
    """A triangular system.

    Attributes:
        is_lower: whether the lower triangle of the matrix is read.
        of_transpose: whether the system has the transposed matrix.
        has_ones: whether the diagonal is implicitly 1.
    """

    is_lower: bool
    of_transpose: bool
    has_ones: bool = False


class Solution(NamedTuple):
    """Systems with stacks of matrices of `size` rows and columns, and right-hand sides of `columns` columns.

    Attributes:
        sides: the layout of the right-hand sides.
        triangles: the triangular systems to solve in sequence.
        swaps: 1 to apply the row exchanges before, -1 to apply them in reverse order afterwards, 0 for none.
        pivots: the layout of the pivots: the row with which each row is exchanged.
    """

    stack: Shape
    size: int
    columns: int
    matrices: Matrices
    sides: Matrices
    triangles: tuple[Triangle, ...]
    swaps: int = 0
    pivots: Matrices | None = None


def _triangles_writer(body: Body, how: Solution) -> Callable[[Value, Value], None]:
    """Return a function that appends triangular solves, for the matrix and the right-hand side at given addresses."""
    columns, size, leading = [
        body.integer(each) for each in (how.columns, how.size, max(how.matrices.leading, how.size))
    ]
    one, step, right = body.number(1.0), body.integer(1), body.flag("R")
    triangles = [[body.flag(letter) for letter in _letters(how, each)] for each in how.triangles]

    def write(a: Value, x: Value) -> None:
        for flags in triangles:
            if how.columns == 1:
                body.routine("trsv", *flags, size, a, leading, x, step)
            else:
                body.routine("trsm", right, *flags, columns, size, one, a, leading, x, columns)

    return write


def _letters(how: Solution, each: Triangle) -> tuple[str, str, str]:
    """Return the arguments uplo, trans and diag of BLAS, for which a matrix in C order is its transpose."""
    by_columns = how.matrices.is_transposed
    is_lower, is_itself = each.is_lower == by_columns, by_columns != each.of_transpose
    is_transposed = is_itself if how.columns > 1 else not is_itself
    return "UL"[is_lower], "NT"[is_transposed], "NU"[each.has_ones]


@routine("solve")
def _solve(body: Body, item: LibraryCall, *arrays: Value) -> None:
    how: Solution = item.options
    body.uses_threads = how.size >= _LARGE
    matrix, side, *pivots, result = arrays
    write = _triangles_writer(body, how)
    into = _in_order(how.stack, how.size * how.columns, how.columns)
    with body.loops(how.stack) as iterations:
        x = body.matrix(result, into, iterations)
        _append_copy(body, body.matrix(side, how.sides, iterations), how.sides, x, how.size, how.columns)
        places = [body.matrix(each, how.pivots, iterations, kind=Type.I32) for each in pivots if how.pivots]
        if how.swaps > 0:
            _append_exchanges(body, how, x, *places)
        write(body.matrix(matrix, how.matrices, iterations), x)
        if how.swaps < 0:
            _append_exchanges(body, how, x, *places)


_BLOCK = 16


def _append_copy(body: Body, source: Value, layout: Matrices, target: Value, rows: int, columns: int) -> None:
    """Append a copy of a matrix into C order; blocks of columns at a time if columns are contiguous."""
    down, right = (1, layout.leading) if layout.is_transposed else (layout.leading, 1)

    def copy(first: Value, row: Value, iteration: Value) -> None:
        column = body.add(first, iteration)
        value = body.read(body.at(source, 0, (down, row), (right, column)))
        body.store(value, body.at(target, 0, (columns, row), (1, column)))

    in_blocks = columns // _BLOCK * _BLOCK if layout.is_transposed else 0
    with body.loop(in_blocks // _BLOCK) as block:
        first = body.mul(block, integer(_BLOCK))
        with body.loop(rows) as row, body.loop(_BLOCK) as iteration:
            copy(first, row, iteration)
    with body.loop(rows) as row, body.loop(columns - in_blocks) as iteration:
        copy(integer(in_blocks), row, iteration)


def _append_exchanges(body: Body, how: Solution, x: Value, pivots: Value) -> None:
    """Append the exchange of each row with its pivot row, in forward or reverse order."""
    assert how.pivots is not None
    with body.loop(how.size) as iteration:
        row = iteration if how.swaps > 0 else body.sub(integer(how.size - 1), iteration)
        place = body.at(pivots, 0, (how.pivots.leading, row), kind=Type.I32)
        other = body.cast(Op.SEXT, body.read(place, Type.I32), Type.I64)
        with body.loop(how.columns) as column:

            def row_at(row: Value, column: Value = column) -> Value:
                return body.at(x, 0, (how.columns, row), (1, column))

            if how.size <= FEW_ROWS:
                body.exchange_by_select(row_at, how.size, row, other)
            else:
                body.exchange(row_at(row), row_at(other))


# Factors


class Factors(NamedTuple):
    """Factorizations of stacked matrices of `size` rows and columns."""

    stack: Shape
    size: int
    matrices: Matrices


def _append_mark(body: Body, state: Value, place: Value) -> None:
    """Append a store of NaN to an address, to mark that LAPACK has failed."""
    fails = body.compare("ne", body.read(state, Type.I32), integer(0, Type.I32))
    body.store(body.select(fails, Constant(body.kind.type, float("nan")), body.read(place)), place)


@routine("cholesky")
def _cholesky(body: Body, item: LibraryCall, matrix: Value, result: Value) -> None:
    """Append Cholesky factorizations: the lower triangle in C order is the upper one in Fortran order."""
    how: Factors = item.options
    body.uses_threads = how.size >= _LARGE
    upper, size, state = body.flag("U"), body.integer(how.size), body.alloca(Type.I32)
    into = _in_order(how.stack, how.size**2, how.size)
    with body.loops(how.stack) as iterations:
        factor = body.matrix(result, into, iterations)
        _append_copy(body, body.matrix(matrix, how.matrices, iterations), how.matrices, factor, how.size, how.size)
        body.routine("potrf", upper, size, factor, size, state)
        with body.loop(how.size) as row:
            after = body.sub(integer(how.size - 1), row)
            with body.loop(after) as column:
                place = body.at(factor, 1, (how.size + 1, row), (1, column))
                body.store(Constant(body.kind.type, 0), place)
        _append_mark(body, state, factor)


@routine("lu")
def _lu(body: Body, item: LibraryCall, matrix: Value, result: Value) -> None:
    """Append LU factorizations: the factors in Fortran order, and in one more column the pivots, counted from 0."""
    how: Factors = item.options
    body.uses_threads = how.size >= _LARGE
    size, state = body.integer(how.size), body.alloca(Type.I32)
    into = _in_order(how.stack, how.size * (how.size + 1), how.size)
    turned = how.matrices._replace(is_transposed=not how.matrices.is_transposed)
    with body.loops(how.stack) as iterations:
        factors = body.matrix(result, into, iterations)
        _append_copy(body, body.matrix(matrix, how.matrices, iterations), turned, factors, how.size, how.size)
        pivots = body.at(factors, how.size**2)
        body.routine("getrf", size, size, factors, size, pivots, state)
        # LAPACK's 32-bit pivots are converted in place to floats, at least as wide: the last one first.
        with body.loop(how.size) as iteration:
            place = body.sub(integer(how.size - 1), iteration)
            row = body.read(body.at(pivots, 0, (1, place), kind=Type.I32), Type.I32)
            value = body.cast(Op.SITOFP, body.sub(row, integer(1, Type.I32)), body.kind.type)
            body.store(value, body.at(pivots, 0, (1, place)))
