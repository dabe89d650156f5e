"""The innermost loop of a nest, several elements at once: operations on numbers become operations on vectors.

    widened(loop, widths)     the loop as straight lines, or as a loop with wider iterations; None where that cannot be
    told

LLVM can do this by itself, and does where this gives up. But it takes most of the time of a compilation, and where a
loop is short, as those of small arrays are, it leaves the last elements to a second loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from fgrad.native.hoisting import base_of
from fgrad.native.ir import (
    BINARY,
    DIVISIONS,
    Builder,
    Callee,
    Carried,
    Constant,
    Instruction,
    Item,
    Loop,
    Op,
    Type,
    Value,
    Variable,
    all_copied,
    copied,
    instructions_of,
    integer,
)

_MOST_COPIES = 3
"""Vectors up to which there is no loop."""
_LONG_BODY = 60
"""Instructions from which on a loop is one where there are two vectors."""

_REDUCTIONS = {Op.FADD: "fadd", Op.FMUL: "fmul", Op.ADD: "add", Op.MUL: "mul", Op.AND: "and", Op.OR: "or"}
_EXTREMA = {
    "maximum": "fmaximum",
    "minimum": "fminimum",
    "smax": "smax",
    "smin": "smin",
    "umax": "umax",
    "umin": "umin",
}
_STARTS = {"fadd": -0.0, "fmul": 1.0}


@dataclass(frozen=True)
class Widths:
    """What the processor does at once.

    Attributes:
        lanes: by the bits of a number, how many of them a register holds.
        functions: which of the C library's functions there are for several numbers.
    """

    lanes: Mapping[int, int]
    functions: frozenset[str]


class _GivesUpError(Exception):
    """An instruction has no wide form, or it is not known whether it has."""


class _IterationByIterationError(Exception):
    """An iteration needs what the one before has done."""


def widened(loop: Loop, widths: Widths, most: int) -> list[Item] | None:
    """Return the items in place of a loop.

    The value of what is carried behind the loop, `Carried.after`, is defined by them, or by another loop's.

    Args:
        loop: the innermost one of a nest; its body has instructions alone.
        widths: of the processor.
        most: how many iterations there are at most.
    """
    if most == 1 and not loop.may_be_empty:
        return _once(loop)
    try:
        return _Wide(loop, widths, most).items()
    except _IterationByIterationError:
        return [loop]
    except _GivesUpError:
        return None


def _once(loop: Loop) -> list[Item]:
    """Return a loop of one iteration, which is none."""
    given: dict[Value, Value] = {loop.variable: loop.start, **{each: each.start for each in loop.carried}}
    items = all_copied(list(instructions_of(loop.body)), given)
    return [*items, *(_named(each.after, given.get(each.next, each.next)) for each in loop.carried)]


def _named(after: Value, value: Value) -> Instruction:
    """Return an instruction that gives a value to what stands for a result."""
    return Instruction(Op.IS, None, [after, value])


class _Wide:
    """A loop over several elements at once."""

    def __init__(self, loop: Loop, widths: Widths, most: int) -> None:
        self.loop, self._widths, self._most = loop, widths, most
        self._body = list(instructions_of(loop.body))
        if len(self._body) != len(loop.body):
            raise _GivesUpError
        self._steps: dict[Value, int] = {loop.variable: 1}
        self.varying: set[Value] = set(loop.carried)
        self.indices: dict[Value, Value] = {}
        self._stored: set[Value] = set()
        self._loaded: set[Value] = set()
        self._functions: list[Instruction] = []
        for each in self._body:
            self._classify(each)
        self._check_memory()
        self._check_carried()
        types = [each.type for each in self.varying]
        bits = max((each.bits for each in types if each is not None), default=64)
        self._lanes = widths.lanes[64 if bits > 32 else 32]
        self.code = Builder()

    # What varies

    def _classify(self, each: Instruction) -> None:
        """Note how an index moves with the iteration, or that a value differs from iteration to iteration."""
        if each.op is Op.STORE:
            if not self.moves(each.args[1]):
                raise _GivesUpError
            self._stored.add(base_of(each.args[1]))
        elif each.type is None:  # a call that does something
            raise _GivesUpError
        elif each.op is Op.ADDRESS:
            index = each.args[1]
            self._steps[each] = self.step(index)
            if index in self.varying:
                self.indices[each] = index
        elif each.op is Op.LOAD:
            self._loaded.add(base_of(each.args[0]))
            if self.moves(each.args[0]):
                self.varying.add(each)
        elif self._is_index(each):
            self._steps[each] = self._moved(each)
        elif any(map(self.moves, each.args)):
            if each.op in DIVISIONS and any(map(self.step, each.args)):
                raise _GivesUpError
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
            raise _GivesUpError
        return self.step(a) * b.integer

    def _check_memory(self) -> None:
        """Give up where several iterations may read and write one element."""
        if any(base_of(address) in self._stored for address in self.indices):
            raise _IterationByIterationError

    def _check_carried(self) -> None:
        """Give up where a carried value is no sum, product or extremum."""
        waiting: set[Value] = set(self.loop.carried)
        ends = {each.next: each for each in self.loop.carried}
        for each in self._body:
            operands = each.args[:1] if each.op is Op.STORE else each.args
            if each in ends:
                first, *rest = operands
                if first is not ends[each] or waiting.intersection(rest) or not _reduction_of(each):
                    raise _IterationByIterationError
                waiting.discard(first)
            if waiting.intersection(operands) or any(x in ends for x in operands):
                raise _IterationByIterationError
        if waiting or len(ends) != len(self.loop.carried):
            raise _IterationByIterationError

    def steps_over(self, address: Value) -> bool:
        """Return whether the elements at an address are no neighbours in memory."""
        return address in self.indices or self.step(address) != 1

    # The loop

    def items(self) -> list[Item]:
        """Return what does the work of the loop."""
        loop, lanes = self.loop, self._lanes
        if not self._has_functions(lanes):
            raise _GivesUpError
        if not (isinstance(loop.start, Constant) and isinstance(loop.stop, Constant)):
            if self._most < lanes:
                raise _IterationByIterationError
            return self._of_any_length()
        at, stop = loop.start.integer, loop.stop.integer
        number, rest = divmod(stop - at, lanes)
        totals: list[list[Value]] = []
        if number > _MOST_COPIES or (number > 1 and self._length() > _LONG_BODY):
            at += number * lanes
            totals.append(self._loop_of(loop.start, integer(at), lanes))
        else:
            for _ in range(number):
                totals.append(self._piece(at, lanes))
                at += lanes
        if rest and number and not loop.carried and not self._stored & self._loaded:
            self._piece(stop - lanes, lanes)  # some elements once more
        else:
            for size in self._sizes(rest):
                totals.append(self._piece(at, size))
                at += size
        self._end(totals)
        return self.code.body

    def _length(self) -> int:
        """Return how many instructions a wide iteration takes."""
        places = [each.args[-1] for each in self._body if each.op in (Op.LOAD, Op.STORE)]
        apart = [place for place in places if self.moves(place) and self.steps_over(place)]
        return len(self._body) + 2 * self._lanes * len(apart)

    def _sizes(self, rest: int) -> list[int]:
        """Return sizes of vectors that make up a rest."""
        sizes, size = [], self._lanes // 2
        while size > 1:
            if rest >= size and self._has_functions(size):
                sizes.append(size)
                rest -= size
            size //= 2
        if rest > _MOST_COPIES:
            raise _GivesUpError
        return [*sizes, *[1] * rest]

    def _has_functions(self, lanes: int) -> bool:
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

    def _of_any_length(self) -> list[Item]:
        """Return a loop with wide iterations, as many as there are, and one with what is left."""
        loop, code, lanes = self.loop, self.code, self._lanes
        iterations = code.sub(loop.stop, loop.start, flags="")
        whole = code.both(iterations, integer(-lanes))
        until = code.add(loop.start, whole, flags="")
        starts = self._loop_of(loop.start, until, lanes, may_be_empty=True)
        self._end([self._loop_of(until, loop.stop, 1, starts, may_be_empty=True)])
        return code.body

    def _loop_of(
        self, start: Value, stop: Value, lanes: int, starts: Sequence[Value] = (), may_be_empty: bool = False
    ) -> list[Value]:
        """Append a loop whose iterations take several elements, and return what it makes of what is carried."""
        carried = [Carried(each) for each in starts or [_repeated(each.start, lanes) for each in self.loop.carried]]
        made = Loop(Variable(self.loop.variable.order[1]), start, stop, [], carried, lanes, may_be_empty)
        self.code.body.append(made)
        given: dict[Value, Value] = {self.loop.variable: made.variable}
        given.update(zip(self.loop.carried, carried, strict=True))
        with self.code.within(made.body):
            _Piece(self, lanes, given).run(self._body)
        for own, new in zip(self.loop.carried, carried, strict=True):
            new.next = given[own.next]
        return self._reduced([each.after for each in carried], lanes)

    def _piece(self, at: int, lanes: int) -> list[Value]:
        """Append the instructions for some elements from one on, and return what they make of what is carried."""
        given: dict[Value, Value] = {each: _repeated(each.start, lanes) for each in self.loop.carried}
        given[self.loop.variable] = integer(at)
        _Piece(self, lanes, given).run(self._body)
        return self._reduced([given[each.next] for each in self.loop.carried], lanes)

    def _reduced(self, vectors: Sequence[Value], lanes: int) -> list[Value]:
        """Append what makes a number of each carried vector."""
        if lanes == 1:
            return list(vectors)
        found: list[Value] = []
        for each, vector in zip(self.loop.carried, vectors, strict=True):
            reduction = _reduction_of(each.next)
            args = [Constant(_type(each), _STARTS[reduction]), vector] if reduction in _STARTS else [vector]
            flags = "reassoc" if reduction in _STARTS else ""
            made = Instruction(Op.REDUCE, each.type, args, reduction, flags)
            self.code.body.append(made)
            found.append(made)
        return found

    def _end(self, totals: Sequence[Sequence[Value]]) -> None:
        """Append what puts the pieces of what is carried together."""
        for place, each in enumerate(self.loop.carried):
            whole, *parts = [total[place] for total in totals]
            step = cast(Instruction, each.next)
            for part in parts:
                whole = self.code.do(step.op, step.type, whole, part, attribute=step.attribute)
            self.code.body.append(_named(each.after, whole))


class _Piece:
    """The instructions of an iteration, for several elements.

    Args:
        wide: the loop.
        lanes: the number of elements.
        given: what stands for the variable and for what is carried; it gets what stands for each instruction.
    """

    def __init__(self, wide: _Wide, lanes: int, given: dict[Value, Value]) -> None:
        self._wide, self._lanes, self._given, self._code = wide, lanes, given, wide.code
        self._vectors: dict[Value, Value] = {}

    def run(self, instructions: Sequence[Instruction]) -> None:
        for each in instructions:
            self._add(each)

    def _append(
        self, op: Op, type: Type | None, args: Sequence[Value], attribute: Any = None, flags: str = ""
    ) -> Instruction:
        """Append an instruction whose result is a vector."""
        made = Instruction(op, type, args, attribute, flags, self._lanes)
        self._code.body.append(made)
        return made

    def _add(self, each: Instruction) -> None:
        wide = self._wide
        is_varying = self._lanes > 1 and (each in wide.varying or each.op is Op.STORE)
        if self._lanes > 1 and each in wide.indices:
            return  # there is an address for each element
        if not is_varying:
            self._given[each] = made = copied(each, self._given)
            self._code.body.append(made)
        elif each.op is Op.LOAD and wide.steps_over(each.args[0]):
            self._load_each(each)
        elif each.op is Op.STORE and wide.steps_over(each.args[1]):
            self._store_each(each)
        elif each.op is Op.LOAD:
            self._given[each] = self._append(Op.LOAD, each.type, [self._given[each.args[0]]])
        elif each.op is Op.STORE:
            self._code.store(self._vector(each.args[0]), self._given.get(each.args[1], each.args[1]))
        else:
            self._given[each] = self._widened(each)

    def _widened(self, each: Instruction) -> Value:
        attribute = each.attribute
        if each.op is Op.CALL:
            attribute = Callee(self._wide.wide_function(each, self._lanes))
        return self._append(each.op, each.type, list(map(self._vector, each.args)), attribute, each.flags)

    def _load_each(self, each: Instruction) -> None:
        """Load elements that are no neighbours, one by one."""
        assert each.type is not None
        whole: list[Value] = []
        for lane, address in enumerate(self._addresses(each.args[0], each.type)):
            element = self._code.load(each.type, address)
            whole = [self._append(Op.INSERT, each.type, [*whole, element], lane)]
        self._given[each] = whole[0]

    def _store_each(self, each: Instruction) -> None:
        """Store elements that are no neighbours, one by one."""
        value, place = each.args
        vector = self._vector(value)
        for lane, address in enumerate(self._addresses(place, _type(value))):
            self._code.store(self._extracted(vector, lane), address)

    def _extracted(self, vector: Value, lane: int) -> Value:
        made = Instruction(Op.EXTRACT, vector.type, [vector], lane)
        self._code.body.append(made)
        return made

    def _addresses(self, address: Value, kind: Type) -> Iterator[Value]:
        """Yield the address of each element, and append what computes it just before."""
        index = self._wide.indices.get(address)
        vector = None if index is None else self._vector(index)
        for lane in range(self._lanes):
            if vector is None:
                base, at = self._given[address], cast(Value, integer(lane * self._wide.step(address)))
            else:
                base, at = base_of(address), self._extracted(vector, lane)
            yield self._code.address(base, kind, at)

    def _vector(self, x: Value) -> Value:
        """Return an operand as a vector; what is the same for all elements is repeated."""
        if isinstance(x, Constant):
            return x.repeated(self._lanes)
        own = self._given.get(x, x)
        if x in self._wide.varying:
            return own
        if x not in self._vectors:
            self._vectors[x] = self._spread(own, self._wide.step(x))
        return self._vectors[x]

    def _spread(self, x: Value, step: int) -> Value:
        """Return a vector of a number that is the same for all elements, or of an index that moves by a step."""
        same = x.repeated(self._lanes) if isinstance(x, Constant) else self._append(Op.SPREAD, x.type, [x])
        if not step:
            return same
        steps = Constant(_type(x), *(lane * step for lane in range(self._lanes)))
        return self._append(Op.ADD, x.type, [same, steps])


def _type(x: Value) -> Type:
    assert x.type is not None
    return x.type


def _reduction_of(each: Value) -> str:
    """Return the reduction of which an instruction is one step; empty where the order matters, or there is none."""
    if not isinstance(each, Instruction):
        return ""
    if each.op is Op.CALL:
        return _EXTREMA.get(each.attribute.name.removeprefix("@llvm.").rpartition(".")[0], "")
    if each.op not in BINARY:
        return ""
    reduction = _REDUCTIONS.get(each.op, "")
    return "" if reduction in _STARTS and each.flags != "reassoc" else reduction


def _repeated(x: Value, lanes: int) -> Value:
    """Return a number for all elements of a vector."""
    assert lanes == 1 or isinstance(x, Constant)
    return x.repeated(lanes) if isinstance(x, Constant) else x
