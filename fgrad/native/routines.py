"""Routines of libraries that native code calls: products of matrices by BLAS, factors and solutions by LAPACK.

    @routine("matmul")        says how a `Called` is run: `write(body, item, memory)` writes it into a `Body`

BLAS counts in Fortran's way: what is a matrix in C order is the transpose of one there. So `a @ b` is asked for as
`b.T @ a.T`, which is in Fortran's order what the result is in C order, and nothing is moved.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fgrad.native.libraries import LETTERS, address
from fgrad.native.memory import Matrices
from fgrad.native.nodes import Called, Node, Shape
from fgrad.native.scalars import Code, Scalar, number, scalar_of

Pointers = Callable[[Node], Any]
ROUTINES: dict[str, Callable[..., Any]] = {}
"""By name: what returns the body of a function that runs a `Called`, and the functions of libraries that it calls."""


class Body(Code):
    """The body of a function that calls routines of libraries for the matrices of a stack.

    Args:
        kind: of the numbers in the arrays.
    """

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.kind: Scalar = scalar_of(dtype)
        self.letter = LETTERS[dtype.name]
        self._first: list[str] = []

    def text(self) -> str:
        """Return the body."""
        return "\n".join(["entry:", *self._first, *self.lines, "  ret void"])

    # What routines take: addresses of numbers

    def room(self, kind: str, count: int = 1) -> str:
        """Return memory for numbers, which is taken once, and not in each turn of a loop."""
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
        self.lines.append(f"  call void inttoptr (i64 {address(self.letter + name)} to ptr)({given})")

    # Loops and memory

    @contextlib.contextmanager
    def loop(self, count: int | str) -> Iterator[str]:
        """Repeat what is written within; yields the name of the number of the turn."""
        mark = self.name()[1:]
        turn = self.room("i64")
        self.lines.append(f"  store i64 0, ptr {turn}")
        self.lines += [f"  br label %test{mark}", f"test{mark}:"]
        now = self.do(f"load i64, ptr {turn}")
        goes_on = self.do(f"icmp slt i64 {now}, {count}")
        self.lines += [f"  br i1 {goes_on}, label %turn{mark}, label %end{mark}", f"turn{mark}:"]
        yield now
        self.lines.append(f"  store i64 {self.do(f'add nsw i64 {now}, 1')}, ptr {turn}")
        self.lines += [f"  br label %test{mark}", f"end{mark}:"]

    @contextlib.contextmanager
    def loops(self, shape: Shape) -> Iterator[list[str]]:
        """Go through all indices of a shape."""
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(self.loop(size)) for size in shape]

    def at(self, pointer: str, offset: int, *steps: tuple[int, str], kind: str = "") -> str:
        """Return the address of the element `offset + step * turn + ...` behind an address."""
        total = str(offset)
        for step, turn in steps:
            total = self.do(f"add nsw i64 {total}, {self.do(f'mul nsw i64 {turn}, {step}')}")
        return self.do(f"getelementptr {kind or self.kind.type}, ptr {pointer}, i64 {total}")

    def matrix(self, pointer: str, matrices: Matrices, turns: Sequence[str]) -> str:
        """Return the address of one matrix of a stack."""
        return self.at(pointer, matrices.offset, *zip(matrices.steps, turns, strict=True))

    def load(self, place: str, kind: str = "") -> str:
        """Read a number."""
        return self.do(f"load {kind or self.kind.type}, ptr {place}")

    def store(self, value: str, place: str, kind: str = "") -> None:
        """Write a number."""
        self.lines.append(f"  store {kind or self.kind.type} {value}, ptr {place}")


def routine(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register how a routine is run."""

    def register(write: Callable[..., None]) -> Callable[..., None]:
        def run(item: Called, pointers: Pointers) -> tuple[str, dict[str, tuple[str, ...]]]:
            body = Body(item.dtype)
            write(body, item, *[pointers(each) for each in item.arguments], pointers(item))
            return body.text(), body.used

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


@routine("matmul")
def _matmul(body: Body, item: Called, left: str, right: str, result: str) -> None:
    how: Product = item.options
    flags = [body.flag("T" if each.is_turned else "N") for each in (how.right, how.left)]
    sizes = [body.integer(each) for each in (how.n, how.m, how.k)]
    leading = [body.integer(each.leading) for each in (how.right, how.left)]
    one, zero, width = body.number(1.0), body.number(0.0), body.integer(how.n)
    into = Matrices(0, _steps(how.stack, how.m * how.n), False, how.n)
    with body.loops(how.stack) as turns:
        a, b, c = (
            body.matrix(*each, turns) for each in ((left, how.left), (right, how.right), (result, into))
        )
        body.routine("gemm", *flags, *sizes, one, b, leading[0], a, leading[1], zero, c, width)
