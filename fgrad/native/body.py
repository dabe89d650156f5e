"""Functions that go through stacks of matrices, element by element or by routines of libraries."""

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
"""Of matrices with at most so many, rows are exchanged by values."""


class Body(Builder):
    """The body of a function that calls routines of libraries for the matrices of a stack.

    Args:
        dtype: of the numbers in the arrays.
        linkage: how the routines are reached.

    Attributes:
        kind: the kind of these numbers.
        uses_threads: whether routines may use all cores by themselves.
    """

    uses_threads = False

    def __init__(self, dtype: Any, linkage: Any = None) -> None:
        super().__init__()
        self.kind: Scalar = scalar_of(dtype)
        self._letter, self._linkage = LETTERS[dtype.name], linkage
        self._first: list[Item] = []

    def printed(self) -> tuple[str, Used]:
        """Return the body, and the functions that it calls."""
        return printed([*self._first, *self.body])

    # What routines take: addresses of numbers

    def _room_with(self, value: Constant) -> Value:
        """Return memory that holds a number; it is taken once, and not in each iteration of a loop."""
        assert value.type is not None
        with self.within(self._first):
            place = self.alloca(value.type)
            self.store(value, place)
        return place

    def integer(self, value: int | Value) -> Value:
        """Return the address of an integer."""
        if isinstance(value, int):
            return self._room_with(integer(value, Type.I32))
        with self.within(self._first):
            place = self.alloca(Type.I32)
        self.store(self.cast(Op.TRUNC, value, Type.I32), place)
        return place

    def flag(self, letter: str) -> Value:
        """Return the address of a letter."""
        return self._room_with(integer(ord(letter), Type.I8))

    def number(self, value: float) -> Value:
        """Return the address of a number."""
        return self._room_with(Constant(self.kind.type, value))

    def routine(self, name: str, *arguments: Value) -> None:
        """Call a function of BLAS or LAPACK; its name is given without the first letter."""
        callee = Callee(self._linkage.routine(self._letter + name, self.uses_threads), is_declared=False)
        self.do(Op.CALL, None, *arguments, attribute=callee)

    # Loops and memory

    @contextlib.contextmanager
    def loops(self, shape: Sequence[int | Value]) -> Iterator[list[Variable]]:
        """Go through all indices of a shape."""
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(self.loop(size)) for size in shape]

    def at(self, pointer: Value, offset: int, *steps: tuple[int, Value], kind: Type | None = None) -> Value:
        """Return the address of the element `offset + step * iteration + ...` behind an address."""
        total: Value = integer(offset)
        for step, iteration in steps:
            total = self.add(total, self.mul(iteration, integer(step)))
        return self.address(pointer, kind or self.kind.type, total, flags="")

    def matrix(
        self, pointer: Value, matrices: Matrices, iterations: Sequence[Value], kind: Type | None = None
    ) -> Value:
        """Return the address of one matrix of a stack."""
        return self.at(pointer, matrices.offset, *zip(matrices.strides, iterations, strict=True), kind=kind)

    def read(self, place: Value, kind: Type | None = None) -> Value:
        """Read a number."""
        return self.load(kind or self.kind.type, place)

    def exchange(self, one: Value, other: Value) -> None:
        """Exchange the numbers at two addresses."""
        first, second = self.read(one), self.read(other)
        self.store(second, one)
        self.store(first, other)

    def exchange_by_values(self, row_at: Callable[[Value], Value], size: Value | int, row: Value, other: Value) -> None:
        """Exchange the numbers of two rows of `size`, where no address depends on `other`.

        So the numbers of a small matrix can stay in registers.
        """
        with self.loop(size) as each:
            is_other = self.compare("eq", each, other)
            one, two = self.read(row_at(row)), self.read(row_at(each))
            self.store(self.select(is_other, two, one), row_at(row))
            self.store(self.select(is_other, one, two), row_at(each))
