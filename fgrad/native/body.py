"""The text of functions that go through stacks of matrices, element by element or by routines of libraries."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from fgrad.native.libraries import LETTERS
from fgrad.native.memory import Matrices
from fgrad.native.nodes import Shape
from fgrad.native.scalars import Code, Scalar, number, scalar_of


class Body(Code):
    """The body of a function that calls routines of libraries for the matrices of a stack.

    Args:
        dtype: of the numbers in the arrays.
        linkage: how the routines are reached.
    """

    def __init__(self, dtype: Any, linkage: Any = None) -> None:
        super().__init__()
        self.kind: Scalar = scalar_of(dtype)
        self._letter, self._linkage = LETTERS[dtype.name], linkage
        self._first: list[str] = []

    def text(self) -> str:
        """Return the body."""
        return "\n".join(["entry:", *self._first, *self.lines, "  ret void"])

    # What routines take: addresses of numbers

    def room(self, kind: str, count: int = 1) -> str:
        """Return memory for numbers, which is taken once, and not in each iteration of a loop."""
        name = self.name()
        self._first.append(f"  {name} = alloca {kind}, i64 {count}")
        return name

    def integer(self, value: int) -> str:
        """Return the address of an integer."""
        name = self.room("i32")
        self._first.append(f"  store i32 {value}, ptr {name}")
        return name

    def flag(self, letter: str) -> str:
        """Return the address of a letter."""
        name = self.room("i8")
        self._first.append(f"  store i8 {ord(letter)}, ptr {name}")
        return name

    def number(self, value: float) -> str:
        """Return the address of a number."""
        name = self.room(self.kind.type)
        self._first.append(f"  store {self.kind.type} {number(value, self.kind)}, ptr {name}")
        return name

    def routine(self, name: str, *arguments: str) -> None:
        """Call a function of BLAS or LAPACK; its name is given without the first letter."""
        given = ", ".join(f"ptr {each}" for each in arguments)
        self.lines.append(f"  call void {self._linkage.routine(self._letter + name)}({given})")

    # Loops and memory

    @contextlib.contextmanager
    def loop(self, count: int | str) -> Iterator[str]:
        """Repeat what is written within; yields the name of the number of the iteration."""
        mark = self.name()[1:]
        iteration = self.room("i64")
        self.lines.append(f"  store i64 0, ptr {iteration}")
        self.lines += [f"  br label %test{mark}", f"test{mark}:"]
        now = self.do(f"load i64, ptr {iteration}")
        goes_on = self.do(f"icmp slt i64 {now}, {count}")
        self.lines += [f"  br i1 {goes_on}, label %iteration{mark}, label %end{mark}", f"iteration{mark}:"]
        yield now
        self.lines.append(f"  store i64 {self.do(f'add nsw i64 {now}, 1')}, ptr {iteration}")
        self.lines += [f"  br label %test{mark}", f"end{mark}:"]

    @contextlib.contextmanager
    def loops(self, shape: Shape) -> Iterator[list[str]]:
        """Go through all indices of a shape."""
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(self.loop(size)) for size in shape]

    def at(self, pointer: str, offset: int, *steps: tuple[int, str], kind: str = "") -> str:
        """Return the address of the element `offset + step * iteration + ...` behind an address."""
        total = str(offset)
        for step, iteration in steps:
            total = self.do(f"add nsw i64 {total}, {self.do(f'mul nsw i64 {iteration}, {step}')}")
        return self.do(f"getelementptr {kind or self.kind.type}, ptr {pointer}, i64 {total}")

    def matrix(self, pointer: str, matrices: Matrices, iterations: Sequence[str], kind: str = "") -> str:
        """Return the address of one matrix of a stack."""
        return self.at(pointer, matrices.offset, *zip(matrices.steps, iterations, strict=True), kind=kind)

    def load(self, place: str, kind: str = "") -> str:
        """Read a number."""
        return self.do(f"load {kind or self.kind.type}, ptr {place}")

    def store(self, value: str, place: str, kind: str = "") -> None:
        """Write a number."""
        self.lines.append(f"  store {kind or self.kind.type} {value}, ptr {place}")
