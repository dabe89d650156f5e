"""Products, solutions and factors of matrices as loops, for code that calls neither BLAS nor LAPACK.

    definitions(["dgemm", "dpotrf"])      functions with the arguments of BLAS and LAPACK

They do what `routines` asks for: factors of one in products, steps of one in vectors. Matrices are in Fortran's order.
Algorithms: G. Golub and C. Van Loan, "Matrix Computations" (2013), sections 3.1, 3.2, 3.4 and 4.2.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from fgrad.native.body import Body
from fgrad.native.libraries import LETTERS

_SUM = "fadd reassoc nsz"
"""Sums may be added up in any order, as BLAS does."""


class _Function(Body):
    """The body of a function; its arguments are `%a0`, `%a1`, ... in their order."""

    def size(self, place: int) -> str:
        """Return an argument that is an integer."""
        return self.do(f"sext i32 {self.load(f'%a{place}', 'i32')} to i64")

    def is_letter(self, place: int, letter: str) -> str:
        """Return whether an argument is a letter."""
        return self.do(f"icmp eq i8 {self.load(f'%a{place}', 'i8')}, {ord(letter)}")

    @contextlib.contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Run what is written within if a condition holds."""
        mark = self.name()[1:]
        self.lines += [f"  br i1 {condition}, label %then{mark}, label %after{mark}", f"then{mark}:"]
        yield
        self.lines += [f"  br label %after{mark}", f"after{mark}:"]

    def combined(self, operation: str, *args: str) -> str:
        """Return the result of an operation on numbers."""
        return self.do(f"{operation} {self.kind.type} {', '.join(args)}")

    def add_product(self, place: str, a: str, b: str, operation: str = _SUM) -> None:
        """Add a product to the number at an address, or take it away."""
        self.store(self.combined(operation, self.load(place), self.combined("fmul", a, b)), place)

    def element(self, array: str, row: str, column: str, leading: str) -> str:
        """Return the address of an element of a matrix."""
        offset = self.do(f"add nsw i64 {row}, {self.do(f'mul nsw i64 {column}, {leading}')}")
        return self.do(f"getelementptr {self.kind.type}, ptr {array}, i64 {offset}")

    def chosen(self, condition: str, one: str, other: str) -> str:
        """Return one of two integers."""
        return self.do(f"select i1 {condition}, i64 {one}, i64 {other}")

    def less(self, a: str, b: str) -> str:
        """Return the difference of two integers."""
        return self.do(f"sub nsw i64 {a}, {b}")

    def plus(self, a: str, b: str) -> str:
        """Return the sum of two integers."""
        return self.do(f"add nsw i64 {a}, {b}")


def _gemm(f: _Function) -> None:
    """C = op(a) @ op(b), from (transa, transb, m, n, k, 1, a, lda, b, ldb, 0, c, ldc)."""
    m, n, k, lda, ldb, ldc = map(f.size, (2, 3, 4, 7, 9, 12))
    turned, b_turned = f.is_letter(0, "T"), f.is_letter(1, "T")
    b_down, b_right = f.chosen(b_turned, ldb, "1"), f.chosen(b_turned, "1", ldb)

    def of_b(row: str, column: str) -> str:
        offset = f.plus(f.do(f"mul nsw i64 {row}, {b_down}"), f.do(f"mul nsw i64 {column}, {b_right}"))
        return f.load(f.do(f"getelementptr {f.kind.type}, ptr %a8, i64 {offset}"))

    with f.loop(n) as j, f.loop(m) as i:
        f.store("0.0", f.element("%a11", i, j, ldc))
    with f.when(f.do(f"xor i1 {turned}, true")), f.loop(n) as j, f.loop(k) as inner:
        factor = of_b(inner, j)
        with f.loop(m) as i:
            f.add_product(f.element("%a11", i, j, ldc), f.load(f.element("%a6", i, inner, lda)), factor)
    with f.when(turned), f.loop(n) as j, f.loop(m) as i:
        total = f.element("%a11", i, j, ldc)
        with f.loop(k) as inner:
            f.add_product(total, f.load(f.element("%a6", inner, i, lda)), of_b(inner, j))


def _gemv(f: _Function) -> None:
    """Y = op(a) @ x, from (trans, m, n, 1, a, lda, x, incx, 0, y, incy)."""
    m, n, lda, step = map(f.size, (1, 2, 5, 7))
    turned = f.is_letter(0, "T")

    def of_x(place: str) -> str:
        return f.load(f.do(f"getelementptr {f.kind.type}, ptr %a6, i64 {f.do(f'mul nsw i64 {place}, {step}')}"))

    with f.loop(f.chosen(turned, n, m)) as i:
        f.store("0.0", f.at("%a9", 0, (1, i)))
    with f.when(f.do(f"xor i1 {turned}, true")), f.loop(n) as j:
        factor = of_x(j)
        with f.loop(m) as i:
            f.add_product(f.at("%a9", 0, (1, i)), f.load(f.element("%a4", i, j, lda)), factor)
    with f.when(turned), f.loop(n) as j:
        total = f.at("%a9", 0, (1, j))
        with f.loop(m) as i:
            f.add_product(total, f.load(f.element("%a4", i, j, lda)), of_x(i))


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
        self, f: _Function, flags: tuple[int, int, int], array: str, places: tuple[int, int], from_right: bool
    ) -> None:
        uplo, trans, diag = flags
        self._f, self._array = f, array
        self.size, self._leading = f.size(places[0]), f.size(places[1])
        turned, is_lower = f.is_letter(trans, "T"), f.is_letter(uplo, "L")
        self._turned = f.do(f"xor i1 {turned}, {str(from_right).lower()}")
        self._begins_at_first = f.do(f"xor i1 {is_lower}, {self._turned}")
        self._has_numbers = f.is_letter(diag, "N")

    def _at(self, step: str) -> str:
        """Return the place of a step: forwards, or backwards."""
        return self._f.chosen(self._begins_at_first, step, self._f.less(self._f.less(self.size, "1"), step))

    def _element(self, row: str, column: str) -> str:
        f = self._f
        one, other = f.chosen(self._turned, column, row), f.chosen(self._turned, row, column)
        return f.load(f.element(self._array, one, other, self._leading))

    def solve(self, scale: Callable[[str, str], None], subtract: Callable[[str, str, str], None]) -> None:
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
            with f.loop(f.less(f.less(self.size, "1"), step)) as further:
                other = self._at(f.plus(f.plus(step, "1"), further))
                subtract(other, self._element(other, own), own)


def _trsv(f: _Function) -> None:
    """Solve op(a) @ x = x, from (uplo, trans, diag, n, a, lda, x, 1)."""

    def x(place: str) -> str:
        return f.at("%a6", 0, (1, place))

    def scale(place: str, divisor: str) -> None:
        f.store(f.combined("fdiv", f.load(x(place)), divisor), x(place))

    def subtract(other: str, element: str, own: str) -> None:
        f.add_product(x(other), element, f.load(x(own)), "fsub")

    _Triangle(f, (0, 1, 2), "%a4", (3, 5), from_right=False).solve(scale, subtract)


def _trsm(f: _Function) -> None:
    """Solve x @ op(a) = b in place of b, from ("R", uplo, trans, diag, m, n, 1, a, lda, b, ldb)."""
    rows, leading = f.size(4), f.size(10)

    def scale(column: str, divisor: str) -> None:
        with f.loop(rows) as i:
            place = f.element("%a9", i, column, leading)
            f.store(f.combined("fdiv", f.load(place), divisor), place)

    def subtract(other: str, element: str, own: str) -> None:
        with f.loop(rows) as i:
            factor = f.load(f.element("%a9", i, own, leading))
            f.add_product(f.element("%a9", i, other, leading), element, factor, "fsub")

    _Triangle(f, (1, 2, 3), "%a7", (5, 8), from_right=True).solve(scale, subtract)


def _potrf(f: _Function) -> None:
    """Factor a matrix as the transpose of an upper triangle and this, from ("U", n, a, lda, info)."""
    n, leading = f.size(1), f.size(3)
    f.store("0", "%a4", "i32")
    total = f.room(f.kind.type)
    root = f"llvm.sqrt.f{f.kind.bits}"
    with f.loop(n) as j:
        with f.loop(f.less(n, j)) as further:
            i = f.plus(j, further)
            place = f.element("%a2", j, i, leading)
            f.store(f.load(place), total)
            with f.loop(j) as k:
                one, other = (f.load(f.element("%a2", k, column, leading)) for column in (j, i))
                f.add_product(total, one, other, "fsub reassoc nsz")
            f.store(f.load(total), place)
        diagonal = f.element("%a2", j, j, leading)
        fails = f.do(f"fcmp ule {f.kind.type} {f.load(diagonal)}, 0.0")
        with f.when(fails):
            f.store("1", "%a4", "i32")
        f.store(f.call(root, f.kind.type, f.load(diagonal)), diagonal)
        with f.loop(f.less(f.less(n, "1"), j)) as further:
            place = f.element("%a2", j, f.plus(f.plus(j, "1"), further), leading)
            f.store(f.combined("fdiv", f.load(place), f.load(diagonal)), place)


def _getrf(f: _Function) -> None:
    """Factor a square matrix by LU with partial pivoting, from (n, n, a, lda, pivots, info)."""
    n, leading = f.size(0), f.size(3)
    f.store("0", "%a5", "i32")
    best, where = f.room(f.kind.type), f.room("i64")
    size = f"llvm.fabs.f{f.kind.bits}"
    with f.loop(n) as k:
        f.store(f.call(size, f.kind.type, f.load(f.element("%a2", k, k, leading))), best)
        f.store(k, where, "i64")
        rest = f.less(f.less(n, "1"), k)
        after = f.plus(k, "1")
        with f.loop(rest) as further:
            i = f.plus(after, further)
            found = f.call(size, f.kind.type, f.load(f.element("%a2", i, k, leading)))
            is_larger = f.do(f"fcmp ogt {f.kind.type} {found}, {f.load(best)}")
            with f.when(is_larger):
                f.store(found, best)
                f.store(i, where, "i64")
        pivot = f.load(where, "i64")
        f.store(f.do(f"trunc i64 {f.plus(pivot, '1')} to i32"), f.at("%a4", 0, (1, k), kind="i32"), "i32")
        with f.loop(n) as j:
            one, other = f.element("%a2", k, j, leading), f.element("%a2", pivot, j, leading)
            first, second = f.load(one), f.load(other)
            f.store(second, one)
            f.store(first, other)
        divisor = f.load(f.element("%a2", k, k, leading))
        with f.when(f.do(f"fcmp oeq {f.kind.type} {divisor}, 0.0")):
            f.store("1", "%a5", "i32")
        with f.loop(rest) as further:
            place = f.element("%a2", f.plus(after, further), k, leading)
            f.store(f.combined("fdiv", f.load(place), divisor), place)
        with f.loop(rest) as right:
            j = f.plus(after, right)
            factor = f.load(f.element("%a2", k, j, leading))
            with f.loop(rest) as down:
                i = f.plus(after, down)
                lower = f.load(f.element("%a2", i, k, leading))
                f.add_product(f.element("%a2", i, j, leading), lower, factor, "fsub")


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
        function = _Function(dtypes[name[0]])
        write(function)
        taken = ", ".join(f"ptr %a{place}" for place in range(count))
        texts.append(f"define internal void @fgrad.own_{name}({taken}) alwaysinline #0 {{\n{function.text()}\n}}")
        used.update(function.used)
    return texts, used
