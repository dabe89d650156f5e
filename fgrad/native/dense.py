"""Matrix products, triangular solves and factorizations as loops, for code that calls neither BLAS nor LAPACK.

    definitions(["dgemm", "dpotrf"])      functions with the arguments of BLAS and LAPACK

They support only the calls that `routines` emits: products with alpha = 1, beta = 0 and an output of unit stride.
Matrices are in Fortran order.
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
"""Operations that LLVM may reassociate, as BLAS implementations do."""
_ONE = integer(1)
_SUCCESS, _FAILURE = integer(0, Type.I32), integer(1, Type.I32)


class _Function(Body):
    """The body of a routine.

    Args:
        dtype: the dtype of the matrices.
        count: the number of parameters.

    Attributes:
        args: the parameters.
        zero: the constant 0 of the dtype.
    """

    def __init__(self, dtype: object, count: int) -> None:
        super().__init__(dtype)
        self.args = [Parameter(f"a{index}") for index in range(count)]
        self.zero = Constant(self.kind.type, 0)

    def size(self, index: int) -> Value:
        """Return an integer argument."""
        return self.cast(Op.SEXT, self.read(self.args[index], Type.I32), Type.I64)

    def is_letter(self, index: int, letter: str) -> Value:
        """Return whether a character argument is a given letter."""
        return self.compare("eq", self.read(self.args[index], Type.I8), integer(ord(letter), Type.I8))

    def add_product(self, address: Value, a: Value, b: Value, how: tuple[Op, str] = _SUM) -> None:
        """Append the addition of a product to the number at an address, or its subtraction."""
        op, flags = how
        self.store(self.binary(op, self.read(address), self.fmul(a, b), flags), address)

    def divide(self, address: Value, divisor: Value) -> None:
        """Append the division of the number at an address."""
        self.store(self.fdiv(self.read(address), divisor), address)

    def element(self, array: Value, row: Value, column: Value, leading: Value) -> Value:
        """Return the address of an element of a matrix with a leading dimension."""
        return self.at_offset(array, self.add(row, self.mul(column, leading)))

    def at_offset(self, array: Value, offset: Value) -> Value:
        """Return the address of the element at an offset, in elements."""
        return self.address(array, self.kind.type, offset, flags="")


def _gemm(f: _Function) -> None:
    """Append c = op(a) @ op(b); arguments (transa, transb, m, n, k, 1, a, lda, b, ldb, 0, c, ldc)."""
    m, n, k, lda, ldb, ldc = map(f.size, (2, 3, 4, 7, 9, 12))
    is_transposed, b_is_transposed = f.is_letter(0, "T"), f.is_letter(1, "T")
    b_down, b_right = f.select(b_is_transposed, ldb, _ONE), f.select(b_is_transposed, _ONE, ldb)

    def of_b(row: Value, column: Value) -> Value:
        return f.read(f.at_offset(f.args[8], f.add(f.mul(row, b_down), f.mul(column, b_right))))

    with f.loop(n) as j, f.loop(m) as i:
        f.store(f.zero, f.element(f.args[11], i, j, ldc))
    with f.when(f.negated(is_transposed)), f.loop(n) as j, f.loop(k) as inner:
        factor = of_b(inner, j)
        with f.loop(m) as i:
            f.add_product(f.element(f.args[11], i, j, ldc), f.read(f.element(f.args[6], i, inner, lda)), factor)
    with f.when(is_transposed), f.loop(n) as j, f.loop(m) as i:
        total = f.element(f.args[11], i, j, ldc)
        with f.loop(k) as inner:
            f.add_product(total, f.read(f.element(f.args[6], inner, i, lda)), of_b(inner, j))


def _gemv(f: _Function) -> None:
    """Append y = op(a) @ x; arguments (trans, m, n, 1, a, lda, x, incx, 0, y, incy)."""
    m, n, lda, stride = map(f.size, (1, 2, 5, 7))
    is_transposed = f.is_letter(0, "T")

    def of_x(index: Value) -> Value:
        return f.read(f.at_offset(f.args[6], f.mul(index, stride)))

    with f.loop(f.select(is_transposed, n, m)) as i:
        f.store(f.zero, f.at(f.args[9], 0, (1, i)))
    with f.when(f.negated(is_transposed)), f.loop(n) as j:
        factor = of_x(j)
        with f.loop(m) as i:
            f.add_product(f.at(f.args[9], 0, (1, i)), f.read(f.element(f.args[4], i, j, lda)), factor)
    with f.when(is_transposed), f.loop(n) as j:
        total = f.at(f.args[9], 0, (1, j))
        with f.loop(m) as i:
            f.add_product(total, f.read(f.element(f.args[4], i, j, lda)), of_x(i))


class _Triangle:
    """A triangular matrix, or its transpose, for forward and backward substitution.

    Args:
        f: the function.
        flags: the positions of the arguments uplo, trans, diag.
        array: the matrix.
        sizes: the positions of its size and its leading dimension.
        from_right: whether the matrix is on the right of the unknown.
    """

    def __init__(
        self, f: _Function, flags: tuple[int, int, int], array: Value, sizes: tuple[int, int], from_right: bool
    ) -> None:
        uplo, trans, diag = flags
        self._f, self._array = f, array
        self.size, self._leading = f.size(sizes[0]), f.size(sizes[1])
        is_transposed, is_lower = f.is_letter(trans, "T"), f.is_letter(uplo, "L")
        self._is_transposed = f.negated(is_transposed) if from_right else is_transposed
        self._begins_at_first = f.binary(Op.XOR, is_lower, self._is_transposed)
        self._has_numbers = f.is_letter(diag, "N")

    def _at(self, step: Value) -> Value:
        """Return the row of a step of the substitution, which runs forward or backward."""
        return self._f.select(self._begins_at_first, step, self._f.sub(self._f.sub(self.size, _ONE), step))

    def _element(self, row: Value, column: Value) -> Value:
        f = self._f
        i, j = f.select(self._is_transposed, column, row), f.select(self._is_transposed, row, column)
        return f.read(f.element(self._array, i, j, self._leading))

    def solve(self, scale: Callable[[Value, Value], None], subtract: Callable[[Value, Value, Value], None]) -> None:
        """Append the substitution: divide each unknown by its diagonal element, and eliminate it from later equations.

        Args:
            scale: a function of the position of an unknown, and the divisor.
            subtract: a function of the position of a later unknown, the element of the matrix, and the position of the
                unknown that is known now.
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
    """Append the solution of op(a) @ x = b, in place; arguments (uplo, trans, diag, n, a, lda, x, 1)."""

    def x(index: Value) -> Value:
        return f.at(f.args[6], 0, (1, index))

    def scale(index: Value, divisor: Value) -> None:
        f.divide(x(index), divisor)

    def subtract(other: Value, element: Value, own: Value) -> None:
        f.add_product(x(other), element, f.read(x(own)), (Op.FSUB, ""))

    _Triangle(f, (0, 1, 2), f.args[4], (3, 5), from_right=False).solve(scale, subtract)


def _trsm(f: _Function) -> None:
    """Append the solution of x @ op(a) = b, in place; arguments ("R", uplo, trans, diag, m, n, 1, a, lda, b, ldb)."""
    rows, leading = f.size(4), f.size(10)

    def scale(column: Value, divisor: Value) -> None:
        with f.loop(rows) as i:
            address = f.element(f.args[9], i, column, leading)
            f.divide(address, divisor)

    def subtract(other: Value, element: Value, own: Value) -> None:
        with f.loop(rows) as i:
            factor = f.read(f.element(f.args[9], i, own, leading))
            f.add_product(f.element(f.args[9], i, other, leading), element, factor, (Op.FSUB, ""))

    _Triangle(f, (1, 2, 3), f.args[7], (5, 8), from_right=True).solve(scale, subtract)


def _potrf(f: _Function) -> None:
    """Append the Cholesky factorization a = transpose(u) @ u with upper u; arguments ("U", n, a, lda, info)."""
    n, leading = f.size(1), f.size(3)
    f.store(_SUCCESS, f.args[4])
    total = f.alloca(f.kind.type)
    with f.loop(n) as j:
        with f.loop(f.sub(n, j)) as further:
            i = f.add(j, further)
            address = f.element(f.args[2], j, i, leading)
            f.store(f.read(address), total)
            with f.loop(j) as k:
                one, other = (f.read(f.element(f.args[2], k, column, leading)) for column in (j, i))
                f.add_product(total, one, other, _DIFFERENCE)
            f.store(f.read(total), address)
        diagonal = f.element(f.args[2], j, j, leading)
        fails = f.compare("ule", f.read(diagonal), f.zero)
        with f.when(fails):
            f.store(_FAILURE, f.args[4])
        f.store(f.intrinsic("sqrt", f.read(diagonal)), diagonal)
        with f.loop(f.sub(f.sub(n, _ONE), j)) as further:
            address = f.element(f.args[2], j, f.add(f.add(j, _ONE), further), leading)
            f.divide(address, f.read(diagonal))


def _getrf(f: _Function) -> None:
    """Append the LU factorization of a square matrix with partial pivoting; arguments (n, n, a, lda, pivots, info)."""
    n, leading = f.size(0), f.size(3)
    f.store(_SUCCESS, f.args[5])
    best, best_row = f.alloca(f.kind.type), f.alloca(Type.I64)
    with f.loop(n) as k:
        f.store(f.intrinsic("fabs", f.read(f.element(f.args[2], k, k, leading))), best)
        f.store(k, best_row)
        rest = f.sub(f.sub(n, _ONE), k)
        after = f.add(k, _ONE)
        with f.loop(rest) as further:
            i = f.add(after, further)
            found = f.intrinsic("fabs", f.read(f.element(f.args[2], i, k, leading)))
            is_larger = f.compare("ogt", found, f.read(best))
            with f.when(is_larger):
                f.store(found, best)
                f.store(i, best_row)
        pivot = f.read(best_row, Type.I64)
        f.store(f.cast(Op.TRUNC, f.add(pivot, _ONE), Type.I32), f.at(f.args[4], 0, (1, k), kind=Type.I32))
        has_few = f.compare("sle", n, integer(FEW_ROWS))
        with f.when(has_few), f.loop(n) as j:
            in_column = functools.partial(f.element, f.args[2], column=j, leading=leading)
            f.exchange_by_select(in_column, n, k, pivot)
        with f.when(f.negated(has_few)), f.loop(n) as j:
            f.exchange(*(f.element(f.args[2], row, j, leading) for row in (k, pivot)))
        divisor = f.read(f.element(f.args[2], k, k, leading))
        with f.when(f.compare("oeq", divisor, f.zero)):
            f.store(_FAILURE, f.args[5])
        # If the pivot is 0, so are the numbers below it, which stay unchanged; the determinant is 0.
        with f.when(f.compare("une", divisor, f.zero)), f.loop(rest) as further:
            address = f.element(f.args[2], f.add(after, further), k, leading)
            f.divide(address, divisor)
        with f.loop(rest) as right:
            column = f.add(after, right)
            factor = f.read(f.element(f.args[2], k, column, leading))
            with f.loop(rest) as down:
                i = f.add(after, down)
                lower = f.read(f.element(f.args[2], i, k, leading))
                f.add_product(f.element(f.args[2], i, column, leading), lower, factor, (Op.FSUB, ""))


_ROUTINES: dict[str, tuple[int, Callable[[_Function], None]]] = {
    "gemm": (13, _gemm),
    "gemv": (11, _gemv),
    "trsv": (8, _trsv),
    "trsm": (11, _trsm),
    "potrf": (5, _potrf),
    "getrf": (6, _getrf),
}
"""The number of parameters of each routine, and the function that appends its body."""


ARGUMENTS = {name: count for name, (count, _) in _ROUTINES.items()}


def definitions(names: Iterable[str]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Return the LLVM IR of functions such as `fgrad.own_dgemm`, and the LLVM intrinsics that they call.

    The names are not C identifiers, so they cannot conflict with that of an exported function.
    """
    dtypes = {letter: np.dtype(name) for name, letter in LETTERS.items()}
    texts: list[str] = []
    used: dict[str, tuple[str, ...]] = {}
    for name in names:
        count, write = _ROUTINES[name[1:]]
        function = _Function(dtypes[name[0]], count)
        write(function)
        body, called = function.printed()
        used.update(called)
        head = f"define internal void @fgrad.own_{name}({parameter_list(function.args)}) alwaysinline #0"
        texts.append(f"{head} {{\n{body}\n}}")
    return texts, used
