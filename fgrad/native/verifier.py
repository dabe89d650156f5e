"""Checks of bodies in the loop language: types, dominance, and reads that were moved past writes.

verify(body)      raises where a pass has made a wrong program
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.native.hoisting import base_of
from fgrad.native.ir import (
    BINARY,
    CASTS,
    COMPARISONS,
    Carried,
    Constant,
    If,
    Instruction,
    Item,
    Loop,
    Op,
    Parameter,
    Symbol,
    Type,
    Value,
    While,
    instructions_of,
)


class VerificationError(RuntimeError):
    """A body is no program of the loop language: an error of the compiler."""


def verify(body: Sequence[Item]) -> None:
    """Check a body.

    Raises:
        VerificationError: an operation has arguments of wrong types, a value is used where it is not defined, or a
            loop writes into memory that was read before it in place of in each iteration.
    """
    _Checked().body(body)


class _Checked:
    def __init__(self) -> None:
        self._defined: set[Value] = set()
        self._reads: list[Instruction] = []

    def body(self, items: Sequence[Item]) -> None:
        """Check items in order; what they define is defined in the rest of the body."""
        for item in items:
            if isinstance(item, Instruction):
                self._instruction(item)
            elif isinstance(item, If):
                self._use(item.condition, Type.I1)
                self._inside(item.body)
            elif isinstance(item, While):
                self._while(item)
            else:
                self._loop(item)

    def _inside(self, items: Sequence[Item], *given: Value) -> None:
        """Check a body whose values are not defined behind it."""
        before, reads = set(self._defined), list(self._reads)
        self._defined.update(given)
        self.body(items)
        self._defined, self._reads = before, reads

    def _require(self, holds: bool, what: str, item: Instruction | None = None) -> None:
        if not holds:
            raise VerificationError(what if item is None else f"{what}: {item.op} of {[x.type for x in item.args]}")

    def _use(self, value: Value, type: Type | None = None) -> None:
        is_known = isinstance(value, (Constant, Parameter, Symbol)) or value in self._defined
        self._require(is_known, f"a value of type {value.type} is used where it is not defined")
        self._require(type is None or value.type is type, f"a value of type {value.type} is used as one of type {type}")

    # Loops

    def _loop(self, loop: Loop) -> None:
        for end in (loop.start, loop.stop):
            self._use(end, Type.I64)
        if isinstance(loop.start, Constant) and isinstance(loop.stop, Constant):
            count = loop.stop.integer - loop.start.integer
            self._require(count % loop.step == 0, "a loop does not end at its stop")
            self._require(count > 0 or loop.may_be_empty, "a loop without iterations")
        self._carry(loop)
        self._check_reads(loop.body)
        self._inside([*loop.body, *map(_next, loop.carried)], loop.variable, *loop.carried)
        self._defined.update(each.after for each in loop.carried)

    def _while(self, loop: While) -> None:
        self._carry(loop)
        self._check_reads([*loop.head, *loop.body])
        within = [*loop.head, If(loop.condition, [*loop.body, *map(_next, loop.carried)])]
        self._inside(within, loop.variable, *loop.carried)
        self._defined.update(each.after for each in loop.carried)

    def _carry(self, loop: Loop | While) -> None:
        for each in loop.carried:
            self._use(each.start)
            same = (each.type, each.lanes) == (each.next.type, each.next.lanes) == (each.start.type, each.start.lanes)
            self._require(same, f"a carried value of type {each.type} becomes one of type {each.next.type}")

    def _check_reads(self, body: Sequence[Item]) -> None:
        """Require that a loop uses no value that was read before it from memory into which it writes."""
        inside = list(instructions_of(body))
        written = {base_of(each.args[1]) for each in inside if each.op is Op.STORE}
        early = {each for each in self._reads if base_of(each.args[0]) in written}
        self._require(
            not any(early.intersection(each.args) for each in inside), "a loop uses what was read before it writes"
        )

    # Instructions

    def _instruction(self, item: Instruction) -> None:
        if item.op is Op.IS:
            result, value = item.args
            self._use(value, result.type)
            self._defined.add(result)
            return
        for each in item.args:
            self._use(each)
        self._require(_is_well_typed(item), "wrong types", item)
        if item.op is Op.LOAD:
            self._reads.append(item)
        self._defined.add(item)


def _next(carried: Carried) -> Instruction:
    """Return a use of what a carried value becomes, for the end of an iteration."""
    return Instruction(Op.IS, None, [Value(carried.type), carried.next])


def _is_well_typed(item: Instruction) -> bool:
    """Return whether the arguments of an operation have the types and lanes that it takes."""
    args, op = item.args, item.op
    types, lanes = [each.type for each in args], {each.lanes for each in args}
    if op in BINARY:
        is_for_floats = op.startswith("f")
        right = types[0] is types[1] is item.type and types[0] is not None and types[0].is_float == is_for_floats
        return right and lanes == {item.lanes}
    if op in COMPARISONS:
        is_float = types[0] is not None and types[0].is_float
        return types[0] is types[1] and item.type is Type.I1 and lanes == {item.lanes} and is_float == (op is Op.FCMP)
    if op in CASTS or op is Op.FNEG:
        return lanes == {item.lanes}
    if op is Op.SELECT:
        return types[0] is Type.I1 and types[1] is types[2] is item.type and lanes == {item.lanes}
    if op is Op.ADDRESS:
        return types == [Type.PTR, Type.I64] and item.type is Type.PTR and lanes == {1}
    if op is Op.LOAD:
        return types == [Type.PTR] and lanes == {1}
    if op is Op.STORE:
        return types[1] is Type.PTR and args[1].lanes == 1
    if op is Op.SPREAD:
        return lanes == {1} and types == [item.type] and item.lanes > 1
    if op is Op.EXTRACT:
        return args[0].lanes > item.attribute and types == [item.type] and item.lanes == 1
    if op is Op.INSERT:
        return item.lanes > item.attribute and args[-1].lanes == 1 and {*types} == {item.type}
    if op is Op.REDUCE:
        return args[-1].lanes > 1 and {*types} == {item.type} and item.lanes == 1
    return op in (Op.CALL, Op.ROOM)
