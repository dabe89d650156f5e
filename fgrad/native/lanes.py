"""Several iterations of a loop at once: operations on numbers become operations on vectors, with a lane for each.

Lanes(body, variable, others, widths)      what differs between the iterations
Piece(lanes, count, given)                 the instructions for some of them
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fgrad.native.hoisting import base_of
from fgrad.native.ir import DIVISIONS, Builder, Callee, Constant, Instruction, Op, Type, Value, copied, integer


@dataclass(frozen=True)
class Widths:
    """What the processor does at once.

    Attributes:
        lanes: by the bits of a number, how many of them a register holds.
        functions: which of the C library's functions there are for several numbers.
    """

    lanes: Mapping[int, int]
    functions: frozenset[str]


class GivesUpError(Exception):
    """An instruction has no wide form, or it is not known whether it has."""


class IterationByIterationError(Exception):
    """An iteration needs what the one before has done."""


class Lanes:
    """What differs between the iterations of a loop.

    Args:
        body: the instructions of an iteration.
        variable: the number of the iteration.
        others: what else is another value in each iteration.
        widths: of the processor.

    Attributes:
        varying: the values that are others in each iteration.
        indices: by address, the index of an element that may lie anywhere.
        stored, loaded: the memory that is written, and read.
        most: how many iterations are one, at most.
        code: where instructions go.

    Raises:
        GivesUpError: an instruction has no wide form, or it is not known whether it has.
        IterationByIterationError: several iterations may read and write one element.
    """

    def __init__(self, body: Sequence[Instruction], variable: Value, others: Sequence[Value], widths: Widths) -> None:
        self._widths = widths
        self._steps: dict[Value, int] = {variable: 1}
        self.varying: set[Value] = set(others)
        self.indices: dict[Value, Value] = {}
        self.stored: set[Value] = set()
        self.loaded: set[Value] = set()
        self._functions: list[Instruction] = []
        for each in body:
            self._classify(each)
        self._check_memory()
        self.most = self.lanes_for(self.varying)
        self.code = Builder()

    def lanes_for(self, values: Iterable[Value]) -> int:
        """Return how many of the longest numbers among values a register holds."""
        bits = max((each.type.bits for each in values if each.type is not None), default=64)
        return self._widths.lanes[64 if bits > 32 else 32]

    def _classify(self, each: Instruction) -> None:
        """Note how an index moves with the iteration, or that a value differs from iteration to iteration."""
        if each.op is Op.STORE:
            if not self.moves(each.args[1]):
                raise GivesUpError
            self.stored.add(base_of(each.args[1]))
        elif each.type is None:  # a call that does something
            raise GivesUpError
        elif each.op is Op.ADDRESS:
            index = each.args[1]
            self._steps[each] = self.step(index)
            if index in self.varying:
                self.indices[each] = index
        elif each.op is Op.LOAD:
            self.loaded.add(base_of(each.args[0]))
            if self.moves(each.args[0]):
                self.varying.add(each)
        elif self._is_index(each):
            self._steps[each] = self._moved(each)
        elif any(map(self.moves, each.args)):
            if each.op in DIVISIONS and any(map(self.step, each.args)):
                raise GivesUpError
            self.varying.add(each)
            if each.op is Op.CALL:
                self._functions.append(each)

    def _is_index(self, each: Instruction) -> bool:
        """Return whether an integer is a sum or product of the iteration's number and what stays the same."""
        is_sum = each.op in (Op.ADD, Op.MUL) and each.type is Type.I64
        return is_sum and any(map(self.step, each.args)) and self.varying.isdisjoint(each.args)

    def step(self, x: Value) -> int:
        """Return by how much an integer or an address grows with each iteration."""
        return self._steps.get(x, 0)

    def moves(self, x: Value) -> bool:
        """Return whether a value or an address differs from iteration to iteration."""
        return x in self.varying or x in self.indices or bool(self.step(x))

    def _moved(self, each: Instruction) -> int:
        a, b = each.args
        if each.op is Op.ADD:
            return self.step(a) + self.step(b)
        if not isinstance(b, Constant):
            raise GivesUpError
        return self.step(a) * b.integer

    def _check_memory(self) -> None:
        """Give up where several iterations may read and write one element."""
        if any(base_of(address) in self.stored for address in self.indices):
            raise IterationByIterationError

    def steps_over(self, address: Value) -> bool:
        """Return whether the elements at an address are no neighbours in memory."""
        return address in self.indices or self.step(address) != 1

    def has_functions(self, lanes: int) -> bool:
        """Return whether all functions that are called are there for several numbers."""
        return all(self.wide_function(each, lanes) for each in self._functions)

    def wide_function(self, call: Instruction, lanes: int) -> str:
        """Return the name of a called function for several numbers, empty if there is none."""
        name, kind = call.attribute.name, call.type
        assert kind is not None
        if name.startswith("@llvm."):
            stem, _, suffix = name.rpartition(".")
            return f"{stem}.v{lanes}{suffix}"
        letter = {128: "b", 256: "d", 512: "e"}.get(kind.bits * lanes)
        plain = name[1:].removesuffix("f") if kind is Type.F32 else name[1:]
        if letter is None or plain not in self._widths.functions:
            return ""
        return f"@_ZGV{letter}N{lanes}{'v' * len(call.args)}_{name[1:]}"


class Piece:
    """The instructions of some iterations that follow each other, one in each lane.

    Args:
        of: the loop.
        count: the number of iterations.
        given: what stands for the variable and for what is carried; it gets what stands for each instruction.
        first: another piece, into whose body this one goes as well: what is the same in all iterations is there.
        distance: the iterations from the first one of that piece to the first one of this.

    Attributes:
        given: the same.
        vectors: operands as vectors, by the operand.
    """

    def __init__(
        self, of: Lanes, count: int, given: dict[Value, Value], first: Piece | None = None, distance: int = 0
    ) -> None:
        self._of, self._count, self.given, self._code = of, count, given, of.code
        self._first, self._distance = first, distance
        self.vectors: dict[Value, Value] = {}

    def run(self, instructions: Sequence[Instruction]) -> None:
        """Append the instructions."""
        for each in instructions:
            self.add(each)

    def _append(
        self, op: Op, type: Type | None, args: Sequence[Value], attribute: Any = None, flags: str = ""
    ) -> Instruction:
        """Append an instruction whose result is a vector."""
        made = Instruction(op, type, args, attribute, flags, self._count)
        self._code.body.append(made)
        return made

    def add(self, each: Instruction) -> None:
        """Append an instruction."""
        of = self._of
        is_varying = self._count > 1 and (each in of.varying or each.op is Op.STORE)
        if self._count > 1 and each in of.indices:
            return  # there is an address for each element
        if not is_varying:
            self.given[each] = self._same_or_moved(each)
        elif each.op is Op.LOAD and of.steps_over(each.args[0]):
            self._load_each(each)
        elif each.op is Op.STORE and of.steps_over(each.args[1]):
            self._store_each(each)
        elif each.op is Op.LOAD:
            self.given[each] = self._append(Op.LOAD, each.type, [self.given[each.args[0]]])
        elif each.op is Op.STORE:
            self._code.store(self._vector(each.args[0]), self.given.get(each.args[1], each.args[1]))
        else:
            self.given[each] = self._widened(each)

    def _same_or_moved(self, each: Instruction) -> Value:
        """Return what stands for an instruction that is no vector: that of the first piece, where there is one."""
        first = None if self._first is None or each.type is None else self._first.given[each]
        if first is not None and not self._of.moves(each):
            return first
        if first is not None and each.op is Op.ADDRESS:
            return self._code.address(first, each.attribute, integer(self._distance * self._of.step(each)))
        made = copied(each, self.given)
        self._code.body.append(made)
        return made

    def _widened(self, each: Instruction) -> Value:
        attribute = each.attribute
        if each.op is Op.CALL:
            attribute = Callee(self._of.wide_function(each, self._count))
        return self._append(each.op, each.type, list(map(self._vector, each.args)), attribute, each.flags)

    def _load_each(self, each: Instruction) -> None:
        """Load elements that are no neighbours, one by one."""
        assert each.type is not None
        whole: list[Value] = []
        for lane, address in enumerate(self._addresses(each.args[0], each.type)):
            element = self._code.load(each.type, address)
            whole = [self._append(Op.INSERT, each.type, [*whole, element], lane)]
        self.given[each] = whole[0]

    def _store_each(self, each: Instruction) -> None:
        """Store elements that are no neighbours, one by one."""
        value, place = each.args
        vector = self._vector(value)
        for lane, address in enumerate(self._addresses(place, type_of(value))):
            self._code.store(self._extracted(vector, lane), address)

    def _extracted(self, vector: Value, lane: int) -> Value:
        made = Instruction(Op.EXTRACT, vector.type, [vector], lane)
        self._code.body.append(made)
        return made

    def _addresses(self, address: Value, kind: Type) -> Iterator[Value]:
        """Yield the address of each element, and append what computes it just before."""
        index = self._of.indices.get(address)
        vector = None if index is None else self._vector(index)
        for lane in range(self._count):
            base: Value
            at: Value
            if vector is None:
                base, at = self.given[address], integer(lane * self._of.step(address))
            else:
                base, at = base_of(address), self._extracted(vector, lane)
            yield self._code.address(base, kind, at)

    def _vector(self, x: Value) -> Value:
        """Return an operand as a vector; what is the same for all elements is repeated."""
        if isinstance(x, Constant):
            return x.repeated(self._count)
        own = self.given.get(x, x)
        if x in self._of.varying:
            return own
        if self._first is not None and not self._of.step(x):
            return self._first._vector(x)
        if x not in self.vectors:
            self.vectors[x] = self._spread(own, self._of.step(x))
        return self.vectors[x]

    def _spread(self, x: Value, step: int) -> Value:
        """Return a vector of a number that is the same for all elements, or of an index that moves by a step."""
        same = x.repeated(self._count) if isinstance(x, Constant) else self._append(Op.SPREAD, x.type, [x])
        if not step:
            return same
        steps = Constant(type_of(x), *(lane * step for lane in range(self._count)))
        return self._append(Op.ADD, x.type, [same, steps])


def type_of(x: Value) -> Type:
    """Return the type of what has one."""
    assert x.type is not None
    return x.type
