"""Lanes of a vectorized loop: several iterations at once, one in each lane.

Lanes(body, variable, others, widths)      which values differ between iterations
Piece(of, count, given)                    the instructions of some iterations, as vectors
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fgrad.native.hoisting import base_of
from fgrad.native.ir import DIVISIONS, Builder, Callee, Constant, Instruction, Op, Type, Value, copied, integer


@dataclass(frozen=True)
class Widths:
    """The vector capabilities of the processor.

    Attributes:
        lanes: the number of lanes of a register, by the bits of an element.
        functions: the C library functions with vector variants.
    """

    lanes: Mapping[int, int]
    functions: frozenset[str]


class GivesUpError(Exception):
    """The loop is left to LLVM: an instruction has no vector form, or it is not known to have one."""


class IterationByIterationError(Exception):
    """The loop must run one iteration at a time: an iteration depends on the one before."""


class Lanes:
    """Classification of the values of a loop: uniform, affine in the induction variable, or varying.

    Args:
        body: the instructions of an iteration.
        variable: the induction variable.
        others: further values that vary between iterations.
        widths: the vector registers of the processor.

    Attributes:
        varying: the values that become vectors.
        indices: the computed index of each address that is not affine.
        stored, loaded: the base addresses of stores and loads.
        most: the number of lanes.
        code: the builder of the vectorized code.

    Raises:
        GivesUpError: an instruction has no vector form, or it is not known to have one.
        IterationByIterationError: different iterations may access the same element.
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
        """Return the number of lanes for the widest type among values."""
        bits = max((each.type.bits for each in values if each.type is not None), default=64)
        return self._widths.lanes[64 if bits > 32 else 32]

    def _classify(self, each: Instruction) -> None:
        """Record the stride of an affine value, or that a value varies."""
        if each.op is Op.STORE:
            if not self.moves(each.args[1]):
                raise GivesUpError
            self.stored.add(base_of(each.args[1]))
        elif each.type is None:  # a call with side effects
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
        """Return whether an integer is an affine function of the induction variable."""
        is_sum = each.op in (Op.ADD, Op.MUL) and each.type is Type.I64
        return is_sum and any(map(self.step, each.args)) and self.varying.isdisjoint(each.args)

    def step(self, x: Value) -> int:
        """Return the stride of an integer or address: its increment per iteration."""
        return self._steps.get(x, 0)

    def moves(self, x: Value) -> bool:
        """Return whether a value or an address differs between iterations."""
        return x in self.varying or x in self.indices or bool(self.step(x))

    def _moved(self, each: Instruction) -> int:
        a, b = each.args
        if each.op is Op.ADD:
            return self.step(a) + self.step(b)
        if not isinstance(b, Constant):
            raise GivesUpError
        return self.step(a) * b.integer

    def _check_memory(self) -> None:
        """Raise if different iterations may access the same element."""
        if any(base_of(address) in self.stored for address in self.indices):
            raise IterationByIterationError

    def steps_over(self, address: Value) -> bool:
        """Return whether the elements at an address are not contiguous."""
        return address in self.indices or self.step(address) != 1

    def has_functions(self, lanes: int) -> bool:
        """Return whether all called functions have vector variants."""
        return all(self.vector_function(each, lanes) for each in self._functions)

    def vector_function(self, call: Instruction, lanes: int) -> str:
        """Return the name of the vector variant of a called function; empty if there is none."""
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
    """The instructions of consecutive iterations, one in each lane.

    Args:
        of: the loop.
        count: the number of iterations.
        given: values of the induction variable and of carried values; extended by the value of each instruction.
        first: another piece of the same body, with which this one shares uniform values.
        distance: the number of iterations between the starts of that piece and of this one.

    Attributes:
        given: the value of each instruction.
        vectors: vectors made of uniform and affine operands, by operand.
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
        """Append an instruction with a vector result."""
        made = Instruction(op, type, args, attribute, flags, self._count)
        self._code.body.append(made)
        return made

    def add(self, each: Instruction) -> None:
        """Append an instruction."""
        of = self._of
        is_varying = self._count > 1 and (each in of.varying or each.op is Op.STORE)
        if self._count > 1 and each in of.indices:
            return  # each lane has its own address
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
        """Return the scalar value of an instruction, derived from the first piece where possible."""
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
            attribute = Callee(self._of.vector_function(each, self._count))
        return self._append(each.op, each.type, list(map(self._vector, each.args)), attribute, each.flags)

    def _load_each(self, each: Instruction) -> None:
        """Append a load of elements that are not contiguous, lane by lane."""
        assert each.type is not None
        whole: list[Value] = []
        for lane, address in enumerate(self._addresses(each.args[0], each.type)):
            element = self._code.load(each.type, address)
            whole = [self._append(Op.INSERT, each.type, [*whole, element], lane)]
        self.given[each] = whole[0]

    def _store_each(self, each: Instruction) -> None:
        """Append a store of elements that are not contiguous, lane by lane."""
        value, place = each.args
        vector = self._vector(value)
        for lane, address in enumerate(self._addresses(place, type_of(value))):
            self._code.store(self._extracted(vector, lane), address)

    def _extracted(self, vector: Value, lane: int) -> Value:
        made = Instruction(Op.EXTRACT, vector.type, [vector], lane)
        self._code.body.append(made)
        return made

    def _addresses(self, address: Value, kind: Type) -> Iterator[Value]:
        """Yield the address of each lane's element, appending its computation just before."""
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
        """Return an operand as a vector."""
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
        """Return a vector of a uniform value, or of an affine value with a stride."""
        same = x.repeated(self._count) if isinstance(x, Constant) else self._append(Op.SPLAT, x.type, [x])
        if not step:
            return same
        steps = Constant(type_of(x), *(lane * step for lane in range(self._count)))
        return self._append(Op.ADD, x.type, [same, steps])


def type_of(x: Value) -> Type:
    """Return the type of a value that has one."""
    assert x.type is not None
    return x.type
