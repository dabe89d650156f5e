"""Verifier of the loop IR: types, dominance, and loads hoisted past stores.

verify(body)          raises if a body is not valid loop IR
verify_reads(body)    raises if a load was hoisted out of a loop that stores to the same memory
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fgrad.native.hoisting import base_of
from fgrad.native.ir import (
    BINARY,
    CASTS,
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
    listing,
)


class VerificationError(RuntimeError):
    """A body is not valid loop IR: a bug of the compiler."""


def verify(body: Sequence[Item]) -> None:
    """Check a body.

    Raises:
        VerificationError: the operands of an operation have wrong types, or a use is not dominated by its definition;
            the message contains the body.
    """
    try:
        _Checked().body(body)
    except VerificationError as error:
        raise VerificationError(f"{error}, in\n{listing(body)}") from None


def verify_reads(body: Sequence[Item]) -> None:
    """Check that no loop uses a value loaded before it from memory to which the loop stores.

    Raises:
        VerificationError: there is such a loop.
    """
    _check_reads(body, {})


def _check_reads(body: Sequence[Item], before: dict[Value, Value | None]) -> None:
    """Check a body; `before` has the memory of each preceding load."""
    early = dict(before)
    for item in body:
        if isinstance(item, Instruction):
            if item.op is Op.LOAD:
                early[item] = _memory_of(item.args[0])
            continue
        inside = list(instructions_of([item]))
        written = {_memory_of(each.args[1]) for each in inside if each.op is Op.STORE}
        used = {arg for each in inside for arg in each.args if arg in early}
        _require(written.isdisjoint(early[arg] for arg in used), "a loop uses what was read before it writes there")
        _check_reads(item.body, early)


def _memory_of(address: Value) -> Value | None:
    """Return the memory of an address; None for memory that several parameters may alias."""
    base = base_of(address)
    return base if not isinstance(base, Parameter) or base.is_noalias else None


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise VerificationError(what)


class _Checked:
    """Checks items in order.

    Attributes:
        defined: the values defined at the current item.
    """

    def __init__(self) -> None:
        self.defined: set[Value] = set()

    def body(self, items: Iterable[Item]) -> None:
        """Check items, and add the values that they define."""
        for item in items:
            if isinstance(item, Instruction):
                self._instruction(item)
            elif isinstance(item, If):
                self._use(item.condition, Type.I1)
                self._inside(item.body)
            else:
                self._loop(item)

    def _inside(self, items: Iterable[Item], carried: Sequence[Carried] = ()) -> None:
        """Check a nested body, whose values are not defined after it, and the next values of carried values."""
        before = set(self.defined)
        self.body(items)
        for each in carried:
            self._use(each.next, each.type)
            _require(each.next.lanes == each.lanes == each.start.lanes, "a carried value changes its lanes")
        self.defined = before

    def _use(self, value: Value, type: Type | None) -> None:
        is_known = value in self.defined or isinstance(value, (Constant, Parameter, Symbol))
        _require(is_known, f"a value of type {value.type} is used where it is not defined")
        _require(value.type is type, f"a value of type {value.type} is used as one of type {type}")

    def _loop(self, loop: Loop | While) -> None:
        if isinstance(loop, Loop):
            self._check_ends(loop)
        for each in loop.carried:
            self._use(each.start, each.type)
        around = set(self.defined)
        self.defined.update((loop.variable, *loop.carried))
        if isinstance(loop, While):
            self.body(loop.head)
            self._use(loop.condition, Type.I1)
        self._inside(loop.body, loop.carried)
        self.defined = around.union(each.after for each in loop.carried)

    def _check_ends(self, loop: Loop) -> None:
        for end in (loop.start, loop.stop):
            self._use(end, Type.I64)
        if isinstance(loop.start, Constant) and isinstance(loop.stop, Constant):
            count = loop.stop.integer - loop.start.integer
            _require(count % loop.step == 0, "a loop does not end at its stop")
            _require(count > 0 or loop.may_be_empty, "a loop without iterations")

    def _instruction(self, item: Instruction) -> None:
        if item.op is Op.IS:
            result, value = item.args
            self._use(value, result.type)
            self.defined.add(result)
            return
        for each in item.args:
            if each not in self.defined:
                self._use(each, each.type)
        if not _is_well_typed(item):
            taken = ", ".join(f"{x.type} x {x.lanes}" for x in item.args)
            raise VerificationError(f"{item.op} of {taken} cannot be {item.type} x {item.lanes}")
        self.defined.add(item)


def _is_well_typed(item: Instruction) -> bool:
    """Return whether the operands of an operation have valid types and lanes."""
    op, args, type, lanes = item.op, item.args, item.type, item.lanes
    if op in BINARY:
        a, b = args
        is_typed = a.type is b.type is type and a.lanes == b.lanes == lanes
        return is_typed and type is not None and type.is_float is op.startswith("f")
    if op is Op.LOAD:
        return args[0].type is Type.PTR and args[0].lanes == 1
    if op is Op.ATOMIC:
        return args[0].type is Type.PTR and args[1].type is type is Type.I64 and args[0].lanes == lanes == 1
    if op is Op.ADDRESS:
        return args[0].type is Type.PTR is type and args[1].type is Type.I64 and lanes == args[1].lanes == 1
    if op is Op.STORE:
        return args[1].type is Type.PTR and args[1].lanes == 1
    if op is Op.ICMP or op is Op.FCMP:
        a, b = args
        is_float = a.type is not None and a.type.is_float
        return a.type is b.type and type is Type.I1 and a.lanes == b.lanes == lanes and is_float is (op is Op.FCMP)
    if op is Op.SELECT:
        condition, a, b = args
        is_typed = condition.type is Type.I1 and a.type is b.type is type
        return is_typed and condition.lanes == a.lanes == b.lanes == lanes
    if op in CASTS or op is Op.FNEG:
        return args[0].lanes == lanes
    if op in _LANE_CONDITIONS:
        return all(each.type is type for each in args) and _LANE_CONDITIONS[op](item)
    return op in (Op.CALL, Op.ALLOCA)


_LANE_CONDITIONS = {
    Op.SPLAT: lambda item: item.args[0].lanes == 1 < item.lanes,
    Op.EXTRACT: lambda item: item.args[0].lanes > item.attribute and item.lanes == 1,
    Op.INSERT: lambda item: item.lanes > item.attribute and item.args[-1].lanes == 1,
    Op.REDUCE: lambda item: item.args[-1].lanes > 1 == item.lanes,
}
"""Conditions on the lanes of vector operations."""
