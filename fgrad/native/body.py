"""Builder of functions that process batches of matrices, by loops over elements or by library routines."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fgrad.native.ir import Builder, Callee, Constant, Item, Op, Type, Value, Variable, integer
from fgrad.native.libraries import LETTERS
from fgrad.native.llvm_text import Used, printed
from fgrad.native.memory import Matrices
from fgrad.native.scalars import Scalar, scalar_of

FEW_ROWS = 4
"""The most rows of a matrix for which `Body.exchange_by_select` is used."""


class Body(Builder):
    """The body of a function that calls library routines for the matrices of a batch.

    Args:
        dtype: the dtype of the arrays.
        linkage: how the routines are linked.

    Attributes:
        kind: the scalar type of the arrays.
        uses_threads: whether the routines may be multithreaded.
    """

    uses_threads = False

    def __init__(self, dtype: Any, linkage: Any = None) -> None:
        super().__init__()
        self.kind: Scalar = scalar_of(dtype)
        self._letter, self._linkage = LETTERS[dtype.name], linkage
        self._first: list[Item] = []

    def printed(self) -> tuple[str, Used]:
        """Return the IR of the body, and the functions that it calls."""
        return printed([*self._first, *self.body])

    # Arguments of routines, which are passed by address

    def _constant_slot(self, value: Constant) -> Value:
        """Return a stack slot that holds a constant; it is allocated and set at the start of the function."""
        assert value.type is not None
        with self.within(self._first):
            slot = self.alloca(value.type)
            self.store(value, slot)
        return slot

    def integer(self, value: int | Value) -> Value:
        """Return the address of an integer argument."""
        if isinstance(value, int):
            return self._constant_slot(integer(value, Type.I32))
        with self.within(self._first):
            slot = self.alloca(Type.I32)
        self.store(self.cast(Op.TRUNC, value, Type.I32), slot)
        return slot

    def flag(self, letter: str) -> Value:
        """Return the address of a character argument."""
        return self._constant_slot(integer(ord(letter), Type.I8))

    def number(self, value: float) -> Value:
        """Return the address of a floating-point argument."""
        return self._constant_slot(Constant(self.kind.type, value))

    def routine(self, name: str, *arguments: Value) -> None:
        """Append a call of a BLAS or LAPACK routine, whose name is given without the letter of the type."""
        callee = Callee(self._linkage.routine(self._letter + name, self.uses_threads), is_declared=False)
        self.do(Op.CALL, None, *arguments, attribute=callee)

    # Loops and memory

    @contextlib.contextmanager
    def loops(self, shape: Sequence[int | Value]) -> Iterator[list[Variable]]:
        """Append loops over all indices of a shape, whose body is appended in the `with` block."""
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(self.loop(size)) for size in shape]

    def at(self, pointer: Value, offset: int, *strides: tuple[int, Value], kind: Type | None = None) -> Value:
        """Return the address of the element at `offset + stride * iteration + ...` from a pointer."""
        total: Value = integer(offset)
        for stride, iteration in strides:
            total = self.add(total, self.mul(iteration, integer(stride)))
        return self.address(pointer, kind or self.kind.type, total, flags="")

    def matrix(
        self, pointer: Value, matrices: Matrices, iterations: Sequence[Value], kind: Type | None = None
    ) -> Value:
        """Return the address of one matrix of a batch."""
        return self.at(pointer, matrices.offset, *zip(matrices.strides, iterations, strict=True), kind=kind)

    def read(self, address: Value, kind: Type | None = None) -> Value:
        """Append the load of a number."""
        return self.load(kind or self.kind.type, address)

    def exchange(self, one: Value, other: Value) -> None:
        """Append the exchange of the numbers at two addresses."""
        first, second = self.read(one), self.read(other)
        self.store(second, one)
        self.store(first, other)

    def exchange_by_select(self, row_at: Callable[[Value], Value], size: Value | int, row: Value, other: Value) -> None:
        """Append the exchange of rows `row` and `other` among `size` rows, by selects instead of addresses.

        No address depends on `other`, so that the elements of a small matrix can stay in registers.
        """
        with self.loop(size) as each:
            is_other = self.compare("eq", each, other)
            one, two = self.read(row_at(row)), self.read(row_at(each))
            self.store(self.select(is_other, two, one), row_at(row))
            self.store(self.select(is_other, one, two), row_at(each))
