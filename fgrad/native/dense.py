"""Products, solutions and factors of matrices as loops, for code that calls neither BLAS nor LAPACK.

    definitions(["dgemm", "dpotrf"])      functions with the arguments of BLAS and LAPACK

They do what `routines` asks for: factors of one in products, steps of one in vectors. Matrices are in Fortran's order.
Algorithms: G. Golub and C. Van Loan, "Matrix Computations" (2013), sections 3.1, 3.2, 3.4 and 4.2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import numpy as np

from fgrad.native.body import FEW_ROWS, Body
from fgrad.native.ir import Constant, Op, Parameter, Type, Value, integer
from fgrad.native.libraries import LETTERS
from fgrad.native.llvm_text import parameter_list

_SUM = Op.FADD, "reassoc nsz"
_DIFFERENCE = Op.FSUB, "reassoc nsz"
"""Sums may be added up in any order, as BLAS does."""
_ONE = integer(1)
_SUCCESS, _FAILURE = integer(0, Type.I32), integer(1, Type.I32)


class _Function(Body):
    """The body of a function.

    Args:
        dtype: of the numbers.
        count: how many arguments it takes.

    Attributes:
        given: these.
    """

    def __init__(self, dtype: object, count: int) -> None:
        super().__init__(dtype)
        self.given = [Parameter(f"a{place}") for place in range(count)]
        self.zero = Constant(self.kind.type, 0)

    def size(self, place: int) -> Value:
        """Return an argument that is an integer."""
        return self.cast(Op.SEXT, self.read(self.given[place], Type.I32), Type.I64)

    def is_letter(self, place: int, letter: str) -> Value:
        """Return whether an argument is a letter."""
        return self.compare("eq", self.read(self.given[place], Type.I8), integer(ord(letter), Type.I8))

    def add_product(self, place: Value, a: Value, b: Value, how: tuple[Op, str] = _SUM) -> None:
        """Add a product to the number at an address, or subtract it."""
        op, flags = how
        self.store(self.binary(op, self.read(place), self.fmul(a, b), flags), place)

    def divide(self, place: Value, divisor: Value) -> None:
        """Divide the number at an address."""
        self.store(self.fdiv(self.read(place), divisor), place)

    def element(self, array: Value, row: Value, column: Value, leading: Value) -> Value:
        """Return the address of an element of a matrix."""
        return self.behind(array, self.add(row, self.mul(column, leading)))

    def behind(self, array: Value, offset: Value) -> Value:
        """Return the address of an element that many elements behind an address."""
        return self.address(array, self.kind.type, offset, flags="")


def _gemm(f: _Function) -> None:
    """C = op(a) @ op(b), from (transa, transb, m, n, k, 1, a, lda, b, ldb, 0, c, ldc)."""
    m, n, k, lda, ldb, ldc = map(f.size, (2, 3, 4, 7, 9, 12))
    turned, b_turned = f.is_letter(0, "T"), f.is_letter(1, "T")
    b_down, b_right = f.select(b_turned, ldb, _ONE), f.select(b_turned, _ONE, ldb)

    def of_b(row: Value, column: Value) -> Value:
        return f.read(f.behind(f.given[8], f.add(f.mul(row, b_down), f.mul(column, b_right))))

    with f.loop(n) as j, f.loop(m) as i:
        f.store(f.zero, f.element(f.given[11], i, j, ldc))
    with f.when(f.negated(turned)), f.loop(n) as j, f.loop(k) as inner:
        factor = of_b(inner, j)
        with f.loop(m) as i:
            f.add_product(f.element(f.given[11], i, j, ldc), f.read(f.element(f.given[6], i, inner, lda)), factor)
    with f.when(turned), f.loop(n) as j, f.loop(m) as i:
        total = f.element(f.given[11], i, j, ldc)
        with f.loop(k) as inner:
            f.add_product(total, f.read(f.element(f.given[6], inner, i, lda)), of_b(inner, j))


def _gemv(f: _Function) -> None:
    """Y = op(a) @ x, from (trans, m, n, 1, a, lda, x, incx, 0, y, incy)."""
    m, n, lda, step = map(f.size, (1, 2, 5, 7))
    turned = f.is_letter(0, "T")

    def of_x(place: Value) -> Value:
        return f.read(f.behind(f.given[6], f.mul(place, step)))

    with f.loop(f.select(turned, n, m)) as i:
        f.store(f.zero, f.at(f.given[9], 0, (1, i)))
    with f.when(f.negated(turned)), f.loop(n) as j:
        factor = of_x(j)
        with f.loop(m) as i:
            f.add_product(f.at(f.given[9], 0, (1, i)), f.read(f.element(f.given[4], i, j, lda)), factor)
    with f.when(turned), f.loop(n) as j:
        total = f.at(f.given[9], 0, (1, j))
        with f.loop(m) as i:
            f.add_product(total, f.read(f.element(f.given[4], i, j, lda)), of_x(i))


class _Triangle:
    """Elements of a triangular matrix, or of its transpose, in the order in which an equation is solved.

    Args:
        f: the function.
        flags: the places of the arguments uplo, trans, diag.
        array: the matrix.
        places: those of its size, and of the distance of its columns.
        from_right: the matrix is on the right of the unknown.
    """

    def __init__(
        self, f: _Function, flags: tuple[int, int, int], array: Value, places: tuple[int, int], from_right: bool
    ) -> None:
        uplo, trans, diag = flags
        self._f, self._array = f, array
        self.size, self._leading = f.size(places[0]), f.size(places[1])
        turned, is_lower = f.is_letter(trans, "T"), f.is_letter(uplo, "L")
        self._turned = f.negated(turned) if from_right else turned
        self._begins_at_first = f.binary(Op.XOR, is_lower, self._turned)
        self._has_numbers = f.is_letter(diag, "N")

    def _at(self, step: Value) -> Value:
        """Return the place of a step: forwards, or backwards."""
        return self._f.select(self._begins_at_first, step, self._f.sub(self._f.sub(self.size, _ONE), step))

    def _element(self, row: Value, column: Value) -> Value:
        f = self._f
        one, other = f.select(self._turned, column, row), f.select(self._turned, row, column)
        return f.read(f.element(self._array, one, other, self._leading))

    def solve(self, scale: Callable[[Value, Value], None], subtract: Callable[[Value, Value, Value], None]) -> None:
        """Divide each unknown by its element of the diagonal, and take it out of those that follow.

        Args:
            scale: takes the place of an unknown and a divisor.
            subtract: takes the place of another unknown, an element, and the place of the one that is known.
        """
        f = self._f
        with f.loop(self.size) as step:
            own = self._at(step)
            with f.when(self._has_numbers):
                scale(own, self._element(own, own))
            with f.loop(f.sub(f.sub(self.size, _ONE), step)) as further:
                other = self._at(f.add(f.add(step, _ONE), further))
                subtract(other, self._element(other, own), own)


def _trsv(f: _Function) -> None:
    """Solve op(a) @ x = x, from (uplo, trans, diag, n, a, lda, x, 1)."""

    def x(place: Value) -> Value:
        return f.at(f.given[6], 0, (1, place))

    def scale(place: Value, divisor: Value) -> None:
        f.divide(x(place), divisor)

    def subtract(other: Value, element: Value, own: Value) -> None:
        f.add_product(x(other), element, f.read(x(own)), (Op.FSUB, ""))

    _Triangle(f, (0, 1, 2), f.given[4], (3, 5), from_right=False).solve(scale, subtract)


def _trsm(f: _Function) -> None:
    """Solve x @ op(a) = b in place of b, from ("R", uplo, trans, diag, m, n, 1, a, lda, b, ldb)."""
    rows, leading = f.size(4), f.size(10)

    def scale(column: Value, divisor: Value) -> None:
        with f.loop(rows) as i:
            place = f.element(f.given[9], i, column, leading)
            f.divide(place, divisor)

    def subtract(other: Value, element: Value, own: Value) -> None:
        with f.loop(rows) as i:
            factor = f.read(f.element(f.given[9], i, own, leading))
            f.add_product(f.element(f.given[9], i, other, leading), element, factor, (Op.FSUB, ""))

    _Triangle(f, (1, 2, 3), f.given[7], (5, 8), from_right=True).solve(scale, subtract)


def _potrf(f: _Function) -> None:
    """Factor a matrix as the transpose of an upper triangle and this, from ("U", n, a, lda, info)."""
    n, leading = f.size(1), f.size(3)
    f.store(_SUCCESS, f.given[4])
    total = f.alloca(f.kind.type)
    with f.loop(n) as j:
        with f.loop(f.sub(n, j)) as further:
            i = f.add(j, further)
            place = f.element(f.given[2], j, i, leading)
            f.store(f.read(place), total)
            with f.loop(j) as k:
                one, other = (f.read(f.element(f.given[2], k, column, leading)) for column in (j, i))
                f.add_product(total, one, other, _DIFFERENCE)
            f.store(f.read(total), place)
        diagonal = f.element(f.given[2], j, j, leading)
        fails = f.compare("ule", f.read(diagonal), f.zero)
        with f.when(fails):
            f.store(_FAILURE, f.given[4])
        f.store(f.intrinsic("sqrt", f.read(diagonal)), diagonal)
        with f.loop(f.sub(f.sub(n, _ONE), j)) as further:
            place = f.element(f.given[2], j, f.add(f.add(j, _ONE), further), leading)
            f.divide(place, f.read(diagonal))


def _getrf(f: _Function) -> None:
    """Factor a square matrix by LU with partial pivoting, from (n, n, a, lda, pivots, info)."""
    n, leading = f.size(0), f.size(3)
    f.store(_SUCCESS, f.given[5])
    best, where = f.alloca(f.kind.type), f.alloca(Type.I64)
    with f.loop(n) as k:
        f.store(f.intrinsic("fabs", f.read(f.element(f.given[2], k, k, leading))), best)
        f.store(k, where)
        rest = f.sub(f.sub(n, _ONE), k)
        after = f.add(k, _ONE)
        with f.loop(rest) as further:
            i = f.add(after, further)
            found = f.intrinsic("fabs", f.read(f.element(f.given[2], i, k, leading)))
            is_larger = f.compare("ogt", found, f.read(best))
            with f.when(is_larger):
                f.store(found, best)
                f.store(i, where)
        pivot = f.read(where, Type.I64)
        f.store(f.cast(Op.TRUNC, f.add(pivot, _ONE), Type.I32), f.at(f.given[4], 0, (1, k), kind=Type.I32))
        has_few = f.compare("sle", n, integer(FEW_ROWS))
        with f.when(has_few), f.loop(n) as j:
            in_column = functools.partial(f.element, f.given[2], column=j, leading=leading)
            f.exchange_by_values(in_column, n, k, pivot)
        with f.when(f.negated(has_few)), f.loop(n) as j:
            f.exchange(*(f.element(f.given[2], row, j, leading) for row in (k, pivot)))
        divisor = f.read(f.element(f.given[2], k, k, leading))
        with f.when(f.compare("oeq", divisor, f.zero)):
            f.store(_FAILURE, f.given[5])
        # Where the pivot is 0, so are the numbers below it: they stay, and the determinant is 0.
        with f.when(f.compare("une", divisor, f.zero)), f.loop(rest) as further:
            place = f.element(f.given[2], f.add(after, further), k, leading)
            f.divide(place, divisor)
        with f.loop(rest) as right:
            column = f.add(after, right)
            factor = f.read(f.element(f.given[2], k, column, leading))
            with f.loop(rest) as down:
                i = f.add(after, down)
                lower = f.read(f.element(f.given[2], i, k, leading))
                f.add_product(f.element(f.given[2], i, column, leading), lower, factor, (Op.FSUB, ""))


_WRITTEN: dict[str, tuple[int, Callable[[_Function], None]]] = {
    "gemm": (13, _gemm),
    "gemv": (11, _gemv),
    "trsv": (8, _trsv),
    "trsm": (11, _trsm),
    "potrf": (5, _potrf),
    "getrf": (6, _getrf),
}
"""How many arguments each function takes, and what writes it."""


ARGUMENTS = {name: count for name, (count, _) in _WRITTEN.items()}


def definitions(names: Iterable[str]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Return functions `fgrad.own_dgemm` and so on, and the functions of LLVM that they call.

    The names are none in C, so that they are not that of an exported function.
    """
    dtypes = {letter: np.dtype(name) for name, letter in LETTERS.items()}
    texts: list[str] = []
    used: dict[str, tuple[str, ...]] = {}
    for name in names:
        count, write = _WRITTEN[name[1:]]
        function = _Function(dtypes[name[0]], count)
        write(function)
        body, called = function.printed()
        used.update(called)
        head = f"define internal void @fgrad.own_{name}({parameter_list(function.given)}) alwaysinline #0"
        texts.append(f"{head} {{\n{body}\n}}")
    return texts, used
