"""The loop IR: typed operations on scalars and vectors, in structured loops.

Nodes are lowered to it, passes rewrite it, and `llvm_text` prints it as LLVM IR.

    Value                       a scalar or vector with a type: Constant, Parameter, Variable, Carried, Instruction
    Loop, While, If             control flow, with bodies of instructions, loops and conditions
    Builder                     appends instructions to a body
    listing(body)               a body as readable text

Values are in static single assignment form: each has one definition, which dominates its uses. Arithmetic is rounded
as in NumPy; only the flag `reassoc` allows a sum in another order.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from fgrad.typing import Operand


class Type(StrEnum):
    """The type of a scalar; the value is LLVM's name."""

    F64 = "double"
    F32 = "float"
    I64 = "i64"
    I32 = "i32"
    I16 = "i16"
    I8 = "i8"
    I1 = "i1"
    PTR = "ptr"

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self in (Type.F64, Type.F32)

    @property
    def bits(self) -> int:
        """The width in bits."""
        return _BITS[self]

    @property
    def suffix(self) -> str:
        """The suffix of LLVM's intrinsics for the type."""
        return f"{'f' if self.is_float else 'i'}{self.bits}"


_BITS = dict(zip(Type, (64, 32, 64, 32, 16, 8, 1, 64), strict=True))


class Op(StrEnum):
    """The operations; arithmetic, comparisons and conversions have LLVM's names.

    ATOMIC is an atomic read-modify-write of an integer, SPLAT broadcasts a scalar to all lanes, and REDUCE combines all
    lanes. IS defines its first operand, the result of a replaced loop, as the second one.
    """

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    SDIV = "sdiv"
    UDIV = "udiv"
    SREM = "srem"
    UREM = "urem"
    AND = "and"
    OR = "or"
    XOR = "xor"
    FADD = "fadd"
    FSUB = "fsub"
    FMUL = "fmul"
    FDIV = "fdiv"
    FREM = "frem"
    FNEG = "fneg"
    ICMP = "icmp"
    FCMP = "fcmp"
    FPEXT = "fpext"
    FPTRUNC = "fptrunc"
    SITOFP = "sitofp"
    UITOFP = "uitofp"
    FPTOSI = "fptosi"
    FPTOUI = "fptoui"
    TRUNC = "trunc"
    SEXT = "sext"
    ZEXT = "zext"
    BITCAST = "bitcast"
    PTRTOINT = "ptrtoint"
    INTTOPTR = "inttoptr"
    SELECT = "select"
    CALL = "call"
    ADDRESS = "getelementptr"
    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomicrmw"
    ALLOCA = "alloca"
    SPLAT = "splat"
    EXTRACT = "extractelement"
    INSERT = "insertelement"
    REDUCE = "reduce"
    IS = "is"


BINARY = {
    Op.ADD, Op.SUB, Op.MUL, Op.SDIV, Op.UDIV, Op.SREM, Op.UREM, Op.AND, Op.OR, Op.XOR,
    Op.FADD, Op.FSUB, Op.FMUL, Op.FDIV, Op.FREM,
}  # fmt: skip
COMPARISONS = {Op.ICMP, Op.FCMP}
CASTS = {
    Op.FPEXT, Op.FPTRUNC, Op.SITOFP, Op.UITOFP, Op.FPTOSI, Op.FPTOUI, Op.TRUNC, Op.SEXT, Op.ZEXT, Op.BITCAST,
    Op.PTRTOINT, Op.INTTOPTR,
}  # fmt: skip
DIVISIONS = {Op.SDIV, Op.UDIV, Op.SREM, Op.UREM}


class Value:
    """A scalar or vector.

    Attributes:
        type: type of the scalar or of the elements; None for an instruction without a result.
        lanes: the number of elements; 1 for a scalar.
        order: sort key of terms of indices: loop variables from the outermost on, then computed values.
    """

    __slots__ = ("lanes", "order", "type")

    def __init__(self, type: Type | None, lanes: int = 1, order: tuple[int, int] = (0, -1)) -> None:
        self.type, self.lanes, self.order = type, lanes, order

    def __lt__(self, other: Value) -> bool:
        return self.order < other.order


class Constant(Value):
    """A constant scalar or vector. Equal constants are distinct values.

    Args:
        type: of the elements.
        numbers: one for each lane.
    """

    __slots__ = ("numbers",)

    def __init__(self, type: Type, *numbers: Any) -> None:
        super().__init__(type, len(numbers))
        self.numbers = tuple(float(x) for x in numbers) if type.is_float else tuple(int(x) for x in numbers)

    @property
    def text(self) -> str:
        """The constant in LLVM's syntax."""
        found = [_literal(x, self.type) for x in self.numbers]
        return found[0] if self.lanes == 1 else f"<{', '.join(f'{self.type} {each}' for each in found)}>"

    @property
    def integer(self) -> int:
        """The value of an integer constant."""
        return int(self.numbers[0])

    def repeated(self, lanes: int) -> Constant:
        """Return a vector with the constant in all lanes."""
        assert self.type is not None
        return self if lanes == 1 else Constant(self.type, *self.numbers * lanes)


def _literal(number: Operand, type: Type | None) -> str:
    if type is Type.I1:
        return "true" if number else "false"
    if type is Type.PTR:
        return "null"
    if type is None or not type.is_float:
        return str(number)
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


TRUE, FALSE, NULL = Constant(Type.I1, 1), Constant(Type.I1, 0), Constant(Type.PTR, 0)


def integer(number: int, type: Type = Type.I64) -> Constant:
    """Return an integer constant."""
    return Constant(type, number)


def real(number: float, type: Type) -> Constant:
    """Return a floating-point constant, rounded to its type."""
    return Constant(type, np.float32(number) if type is Type.F32 else number)


class Parameter(Value):
    """A parameter of a function.

    Attributes:
        is_noalias: whether its memory is not aliased: no other parameter reads or writes what is written through it.
    """

    __slots__ = ("is_noalias", "name")

    def __init__(self, name: str, type: Type = Type.PTR, is_noalias: bool = False) -> None:
        super().__init__(type)
        self.name, self.is_noalias = name, is_noalias


class Symbol(Value):
    """A symbol with a known address, such as a function.

    Args:
        name: the symbol with "@", or a constant expression.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__(Type.PTR)
        self.name = name


class Variable(Value):
    """The induction variable of a loop; `place` is the number of enclosing loops."""

    __slots__ = ()

    def __init__(self, place: int = 0) -> None:
        super().__init__(Type.I64, order=(0, place))


class Carried(Value):
    """A loop-carried value.

    Attributes:
        start: the value in the first iteration.
        next: the value in the next iteration.
        after: the value after the loop; `start` if there is no iteration.
    """

    __slots__ = ("after", "next", "start")

    def __init__(self, start: Value) -> None:
        super().__init__(start.type, start.lanes)
        self.start, self.next = start, start
        self.after = Value(start.type, start.lanes)


class Callee(NamedTuple):
    """The callee of a call.

    Attributes:
        name: with "@"; empty if the first operand is its address.
        is_declared: whether it must be declared; false for an address expression or a function of the same module.
    """

    name: str
    is_declared: bool = True


class Instruction(Value):
    """An operation, and its result.

    Attributes:
        op: the operation.
        args: the operands. STORE has the value and the address; ADDRESS the base and the index.
        attribute: the predicate of a comparison; the element type of ADDRESS; the `Callee` of CALL; the type and count
            of ALLOCA; the lane of EXTRACT and INSERT; the kind of REDUCE or ATOMIC.
        flags: such as "nsw".
    """

    __slots__ = ("args", "attribute", "flags", "op")

    def __init__(
        self,
        op: Op,
        type: Type | None,
        args: Sequence[Value],
        attribute: Any = None,
        flags: str = "",
        lanes: int = 1,
        order: tuple[int, int] = (1, 0),
    ) -> None:
        super().__init__(type, lanes, order)
        self.op, self.args, self.attribute, self.flags = op, tuple(args), attribute, flags


@dataclass(eq=False)
class Loop:
    """A counted loop.

    Attributes:
        variable: the induction variable.
        start, stop: its first value, and its exclusive bound; `stop - start` is a multiple of `step`.
        body: the items of an iteration.
        carried: the loop-carried values.
        may_be_empty: whether the trip count may be 0.
    """

    variable: Variable
    start: Value
    stop: Value
    body: list[Item] = field(default_factory=list)
    carried: list[Carried] = field(default_factory=list)
    step: int = 1
    may_be_empty: bool = False


@dataclass(eq=False)
class While:
    """A loop that counts from 0 while a condition holds.

    Attributes:
        variable: the induction variable.
        head: computes the condition, before each iteration.
        condition: whether there is another iteration.
        body: the items of an iteration.
        carried: the loop-carried values, available in the head.
    """

    variable: Variable
    head: list[Item]
    condition: Value
    body: list[Item]
    carried: list[Carried]


@dataclass(eq=False)
class If:
    """Items executed under a condition."""

    condition: Value
    body: list[Item] = field(default_factory=list)


Item = Instruction | Loop | While | If


class Builder:
    """Appends items to a body.

    Attributes:
        body: the items appended so far.
    """

    def __init__(self, body: list[Item] | None = None) -> None:
        self.body: list[Item] = [] if body is None else body
        self._count = 0

    # Operations

    def do(self, op: Op, type: Type | None, *args: Value, attribute: Any = None, flags: str = "") -> Instruction:
        """Append an operation whose result has as many lanes as its last operand."""
        self._count += 1
        lanes = args[-1].lanes if args else 1
        made = Instruction(op, type, args, attribute, flags, lanes, (1, self._count))
        self.body.append(made)
        return made

    def binary(self, op: Op, a: Value, b: Value, flags: str = "") -> Instruction:
        """Append an operation on two values of one type, which is the type of the result."""
        return self.do(op, a.type, a, b, flags=flags)

    def add(self, a: Value, b: Value, flags: str = "nsw") -> Instruction:
        """Append an integer addition."""
        return self.binary(Op.ADD, a, b, flags)

    def mul(self, a: Value, b: Value, flags: str = "nsw") -> Instruction:
        """Append an integer multiplication."""
        return self.binary(Op.MUL, a, b, flags)

    def sub(self, a: Value, b: Value, flags: str = "nsw") -> Instruction:
        """Append an integer subtraction."""
        return self.binary(Op.SUB, a, b, flags)

    def fadd(self, a: Value, b: Value) -> Instruction:
        """Append a floating-point addition."""
        return self.binary(Op.FADD, a, b)

    def fsub(self, a: Value, b: Value) -> Instruction:
        """Append a floating-point subtraction."""
        return self.binary(Op.FSUB, a, b)

    def fmul(self, a: Value, b: Value) -> Instruction:
        """Append a floating-point multiplication."""
        return self.binary(Op.FMUL, a, b)

    def fdiv(self, a: Value, b: Value) -> Instruction:
        """Append a floating-point division."""
        return self.binary(Op.FDIV, a, b)

    def fneg(self, a: Value) -> Instruction:
        """Append a floating-point negation."""
        return self.do(Op.FNEG, a.type, a)

    def compare(self, predicate: str, a: Value, b: Value) -> Instruction:
        """Append a comparison; predicates are "olt", ... of floating-point values, and "slt", ... of integers."""
        op = Op.FCMP if a.type is not None and a.type.is_float else Op.ICMP
        return self.do(op, Type.I1, a, b, attribute=predicate)

    def both(self, a: Value, b: Value) -> Instruction:
        """Append the conjunction of two conditions, or the bitwise and of two integers."""
        return self.binary(Op.AND, a, b)

    def either(self, a: Value, b: Value) -> Instruction:
        """Append the disjunction of two conditions, or the bitwise or of two integers."""
        return self.binary(Op.OR, a, b)

    def negated(self, a: Value) -> Instruction:
        """Append the negation of a condition."""
        return self.binary(Op.XOR, a, TRUE)

    def select(self, condition: Value, a: Value, b: Value) -> Instruction:
        """Append the choice between two values."""
        return self.do(Op.SELECT, a.type, condition, a, b)

    def cast(self, op: Op, a: Value, type: Type) -> Instruction:
        """Append a conversion."""
        return self.do(op, type, a)

    def call(self, name: str, *args: Value, result: Type | None = None) -> Instruction:
        """Append a call of a function; the result has the type of the first argument by default."""
        return self.do(Op.CALL, result or args[0].type, *args, attribute=Callee(f"@{name}"))

    def call_at(self, function: Value, *args: Value) -> Instruction:
        """Append a call through an address, without a result."""
        return self.do(Op.CALL, None, function, *args, attribute=Callee("", is_declared=False))

    def intrinsic(self, name: str, *args: Value) -> Instruction:
        """Append a call of an LLVM intrinsic on operands of one type."""
        assert args[0].type is not None
        return self.call(f"llvm.{name}.{args[0].type.suffix}", *args)

    # Memory

    def address(self, base: Value, type: Type, index: Value, flags: str = "inbounds") -> Instruction:
        """Append the address of an element."""
        return self.do(Op.ADDRESS, Type.PTR, base, index, attribute=type, flags=flags)

    def load(self, type: Type, address: Value) -> Instruction:
        """Append a load."""
        return self.do(Op.LOAD, type, address)

    def store(self, value: Value, address: Value) -> Instruction:
        """Append a store."""
        return self.do(Op.STORE, None, value, address)

    def atomic(self, change: str, address: Value, value: Value) -> Instruction:
        """Append an atomic change of an integer, "add" or "xchg"; the result is its former value."""
        return self.do(Op.ATOMIC, value.type, address, value, attribute=change)

    def alloca(self, type: Type, count: int = 1) -> Instruction:
        """Append a stack allocation."""
        return self.do(Op.ALLOCA, Type.PTR, attribute=(type, count))

    # Control

    @contextlib.contextmanager
    def within(self, body: list[Item]) -> Iterator[None]:
        """Append to another body within the `with` block."""
        self.body, around = body, self.body
        try:
            yield
        finally:
            self.body = around

    @contextlib.contextmanager
    def loop(self, count: int | Value) -> Iterator[Variable]:
        """Append a loop that counts from 0, whose body is appended in the `with` block; yield its variable."""
        stop = integer(count) if isinstance(count, int) else count
        made = Loop(Variable(), integer(0), stop, may_be_empty=not isinstance(count, int) or count < 1)
        self.body.append(made)
        with self.within(made.body):
            yield made.variable

    @contextlib.contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Append a condition, whose body is appended in the `with` block."""
        made = If(condition)
        self.body.append(made)
        with self.within(made.body):
            yield


# Copies


def copied(instruction: Instruction, given: Mapping[Value, Value]) -> Instruction:
    """Return a copy of an instruction with operands replaced."""
    args = [given.get(each, each) for each in instruction.args]
    lanes, order = instruction.lanes, instruction.order
    return Instruction(instruction.op, instruction.type, args, instruction.attribute, instruction.flags, lanes, order)


def all_copied(instructions: Sequence[Instruction], given: dict[Value, Value]) -> list[Item]:
    """Return copies of instructions that use each other; add each copy to `given`."""
    found: list[Item] = []
    for each in instructions:
        given[each] = made = copied(each, given)
        found.append(made)
    return found


def instructions_of(body: Sequence[Item]) -> Iterator[Instruction]:
    """Yield all instructions in a body, recursively."""
    for item in body:
        if isinstance(item, Instruction):
            yield item
            continue
        if isinstance(item, While):
            yield from instructions_of(item.head)
        yield from instructions_of(item.body)


# Text


def listing(body: Sequence[Item]) -> str:
    """Return a body as text, one line for each instruction and loop."""
    names: dict[Value, str] = {}
    return "\n".join(_listed(body, names, ""))


def _shown(value: Value, names: dict[Value, str]) -> str:
    if isinstance(value, Constant):
        return ", ".join(map(str, value.numbers))
    if isinstance(value, (Parameter, Symbol)):
        return value.name
    return names.setdefault(value, f"v{len(names)}")


def _listed(body: Sequence[Item], names: dict[Value, str], indent: str) -> Iterator[str]:
    for item in body:
        if isinstance(item, Instruction):
            yield indent + _line(item, names)
        elif isinstance(item, If):
            yield f"{indent}if {_shown(item.condition, names)}:"
            yield from _listed(item.body, names, indent + "    ")
        else:
            yield from _listed_loop(item, names, indent)


def _line(item: Instruction, names: dict[Value, str]) -> str:
    args = ", ".join(_shown(each, names) for each in item.args)
    what = f"{item.op}{f'.{item.attribute}' if type(item.attribute) is str else ''}"
    if isinstance(item.attribute, Callee):
        what = item.attribute.name
    text = f"{what}({args})"
    if item.type is None:
        return text
    return f"{_shown(item, names)}: {item.type}{f' x {item.lanes}' if item.lanes > 1 else ''} = {text}"


def _listed_loop(loop: Loop | While, names: dict[Value, str], indent: str) -> Iterator[str]:
    for each in loop.carried:
        yield f"{indent}{_shown(each, names)} = {_shown(each.start, names)}"
    variable, inside = _shown(loop.variable, names), indent + "    "
    if isinstance(loop, Loop):
        ends = f"{_shown(loop.start, names)}, {_shown(loop.stop, names)}, {loop.step}"
        yield f"{indent}for {variable} in range({ends}):"
    else:
        yield f"{indent}for {variable} in count():"
        yield from _listed(loop.head, names, inside)
        yield f"{inside}if not {_shown(loop.condition, names)}: break"
    yield from _listed(loop.body, names, inside)
    for each in loop.carried:
        yield f"{inside}{_shown(each, names)} = {_shown(each.next, names)}"
        names.setdefault(each.after, _shown(each, names))
