"""Vectorization of the innermost loop of a nest.

    vectorized(loop, widths, most)     the loop as straight-line code or as a vectorized loop; None to leave it to LLVM

LLVM's vectorizer can do this as well, and runs where this one gives up. But it takes most of the compile time, and for
short loops, typical of small arrays, it leaves the remaining elements to a scalar loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from fgrad.native.ir import (
    Callee,
    Carried,
    Constant,
    Instruction,
    Item,
    Loop,
    Op,
    Value,
    Variable,
    all_copied,
    instructions_of,
    integer,
)
from fgrad.native.lanes import GivesUpError, IterationByIterationError, Lanes, Piece, Widths, type_of

_MOST_COPIES = 3
"""Most vectors emitted as straight-line code."""
_LONG_BODY = 60
"""Instructions of a body above which two vectors are emitted as a loop."""
_MOST_TOTALS, _MOST_INSTRUCTIONS = 4, 48
"""Most accumulators per reduction, which hide the latency of additions, and most instructions of the unrolled body."""

_REDUCTIONS = {Op.FADD, Op.FMUL, Op.ADD, Op.MUL, Op.AND, Op.OR}
_EXTREMA = {
    "maximum": "fmaximum",
    "minimum": "fminimum",
    **{name: name for name in ("smax", "smin", "umax", "umin")},
}
_STARTS = {"fadd": -0.0, "fmul": 1.0}


def vectorized(loop: Loop, widths: Widths, most: int) -> list[Item] | None:
    """Return the items that replace a loop; None to leave it to LLVM.

    They define the value of each carried value after the loop, `Carried.after`.

    Args:
        loop: the innermost loop of a nest; its body has instructions only.
        widths: the vector registers of the processor.
        most: an upper bound of the trip count.
    """
    if most == 1 and not loop.may_be_empty:
        return _once(loop)
    try:
        return _Vectorized(loop, widths, most).items()
    except IterationByIterationError:
        return [loop]
    except GivesUpError:
        return None


def _once(loop: Loop) -> list[Item]:
    """Return the body of a loop with one iteration."""
    given: dict[Value, Value] = {loop.variable: loop.start, **{each: each.start for each in loop.carried}}
    items = all_copied(list(instructions_of(loop.body)), given)
    return [*items, *(_named(each.after, given.get(each.next, each.next)) for each in loop.carried)]


def _named(after: Value, value: Value) -> Instruction:
    """Return an instruction that defines the placeholder of a result."""
    return Instruction(Op.IS, None, [after, value])


class _Vectorized(Lanes):
    """A vectorized loop."""

    def __init__(self, loop: Loop, widths: Widths, most: int) -> None:
        self.loop, self._most = loop, most
        self._body = list(instructions_of(loop.body))
        if len(self._body) != len(loop.body):
            raise GivesUpError
        super().__init__(self._body, loop.variable, loop.carried, widths)
        self._check_carried()
        self.most = self.lanes_for(self.varying - self._long_sums())

    def _long_sums(self) -> set[Value]:
        """Return the float64 accumulators of float32 terms, with the converted terms: each takes two registers."""
        found: set[Value] = set()
        for each in self.loop.carried:
            terms = {x for x in cast(Instruction, each.next).args if isinstance(x, Instruction) and x.op is Op.FPEXT}
            if terms:
                found |= {each, each.next, *terms}
        return found

    def _check_carried(self) -> None:
        """Raise where a carried value is not a sum, product or extremum."""
        waiting: set[Value] = set(self.loop.carried)
        ends = {each.next: each for each in self.loop.carried}
        for each in self._body:
            operands = each.args[:1] if each.op is Op.STORE else each.args
            if each in ends:
                first, *rest = operands
                if first is not ends[each] or waiting.intersection(rest) or not _reduction_of(each):
                    raise IterationByIterationError
                waiting.discard(first)
            if waiting.intersection(operands) or any(x in ends for x in operands):
                raise IterationByIterationError
        if waiting or len(ends) != len(self.loop.carried):
            raise IterationByIterationError

    # The loop

    def items(self) -> list[Item]:
        """Return the items that replace the loop."""
        loop, lanes = self.loop, self.most
        if not self.has_functions(lanes):
            raise GivesUpError
        if not (isinstance(loop.start, Constant) and isinstance(loop.stop, Constant)):
            if self._most < lanes:
                raise IterationByIterationError
            return self._of_any_length()
        at, stop = loop.start.integer, loop.stop.integer
        number, rest = divmod(stop - at, lanes)
        totals: list[list[Value]] = []
        vectors = self._vectors()
        left = number % vectors if number >= 2 * vectors > 2 else number
        if left < number:
            at += (number - left) * lanes
            totals.append(self._loop_of(loop.start, integer(at), lanes, vectors))
        if left > _MOST_COPIES or (left > 1 and self._length() > _LONG_BODY):
            start, at = integer(at), at + left * lanes
            totals.append(self._loop_of(start, integer(at), lanes))
        else:
            for _ in range(left):
                totals.append(self._piece(at, lanes))
                at += lanes
        if rest and number and not loop.carried and not self.stored & self.loaded:
            self._piece(stop - lanes, lanes)  # the last vector overlaps the one before
        else:
            for size in self._sizes(rest):
                totals.append(self._piece(at, size))
                at += size
        self._end(totals)
        return self.code.body

    def _length(self) -> int:
        """Return the number of instructions of a vectorized iteration."""
        places = [each.args[-1] for each in self._body if each.op in (Op.LOAD, Op.STORE)]
        apart = [place for place in places if self.moves(place) and self.steps_over(place)]
        return len(self._body) + 2 * self.most * len(apart)

    def _vectors(self) -> int:
        """Return the number of accumulators per reduction, which is the unroll factor."""
        # A call spills all vector registers, and takes longer than the latency of an addition.
        calls = any(each.op is Op.CALL and not each.attribute.name.startswith("@llvm.") for each in self._body)
        vectors = (_MOST_TOTALS if not calls else 1) if self.loop.carried and not self.stored else 1
        while vectors > 1 and vectors * self._length() > _MOST_INSTRUCTIONS:
            vectors //= 2
        return vectors

    def _sizes(self, rest: int) -> list[int]:
        """Return the vector sizes that cover the remaining elements."""
        sizes, size = [], self.most // 2
        while size > 1:
            if rest >= size and self.has_functions(size):
                sizes.append(size)
                rest -= size
            size //= 2
        if rest > _MOST_COPIES:
            raise GivesUpError
        return [*sizes, *[1] * rest]

    def _of_any_length(self) -> list[Item]:
        """Return a vectorized loop for a trip count known at run time, and a scalar loop for the remainder."""
        loop, code, lanes = self.loop, self.code, self.most
        start, totals = loop.start, []
        for vectors in dict.fromkeys([self._vectors(), 1]):
            whole = code.both(code.sub(loop.stop, start, flags=""), integer(-lanes * vectors))
            until = code.add(start, whole, flags="")
            totals.append(self._loop_of(start, until, lanes, vectors, may_be_empty=True))
            start = until
        totals.append(self._loop_of(start, loop.stop, 1, may_be_empty=True))
        self._end(totals)
        return code.body

    def _loop_of(
        self, start: Value, stop: Value, lanes: int, vectors: int = 1, may_be_empty: bool = False
    ) -> list[Value]:
        """Append a vectorized loop, and return the reduced carried values.

        Args:
            start, stop: the range of the loop.
            lanes: the elements of a vector.
            vectors: the vectors per iteration.
            may_be_empty: whether the trip count may be 0.
        """
        code, loop = self.code, self.loop
        made = Loop(Variable(loop.variable.order[1]), start, stop, [], [], lanes * vectors, may_be_empty)
        code.body.append(made)
        pieces: list[Piece] = []
        with code.within(made.body):
            for place in range(0, lanes * vectors, lanes):
                at = code.add(made.variable, integer(place)) if place else made.variable
                given: dict[Value, Value] = {each: Carried(_repeated(each.start, lanes)) for each in loop.carried}
                first = pieces[0] if pieces else None
                pieces.append(Piece(self, lanes, {loop.variable: at, **given}, first, place))
            for instruction in self._body:
                for piece in pieces:
                    piece.add(instruction)
        found: list[Value] = []
        for each in loop.carried:
            carried = [cast(Carried, piece.given[each]) for piece in pieces]
            for piece, own in zip(pieces, carried, strict=True):
                own.next = piece.given[each.next]
            made.carried += carried
            found.append(self._together(each, [own.after for own in carried], lanes))
        return self._reduced(found, lanes)

    def _together(self, carried: Carried, totals: Sequence[Value], lanes: int = 1) -> Value:
        """Append the combination of several accumulators."""
        step = cast(Instruction, carried.next)
        attribute = Callee(self.vector_function(step, lanes)) if lanes > 1 and step.op is Op.CALL else step.attribute
        whole, *others = totals
        for each in others:
            whole = Instruction(step.op, step.type, [whole, each], attribute, step.flags, lanes)
            self.code.body.append(whole)
        return whole

    def _piece(self, at: int, lanes: int) -> list[Value]:
        """Append the instructions for the elements from an index on, and return the reduced carried values."""
        given: dict[Value, Value] = {each: _repeated(each.start, lanes) for each in self.loop.carried}
        given[self.loop.variable] = integer(at)
        Piece(self, lanes, given).run(self._body)
        return self._reduced([given[each.next] for each in self.loop.carried], lanes)

    def _reduced(self, vectors: Sequence[Value], lanes: int) -> list[Value]:
        """Append the horizontal reduction of each carried vector."""
        if lanes == 1:
            return list(vectors)
        found: list[Value] = []
        for each, vector in zip(self.loop.carried, vectors, strict=True):
            reduction = _reduction_of(each.next)
            args = [Constant(type_of(each), _STARTS[reduction]), vector] if reduction in _STARTS else [vector]
            flags = "reassoc" if reduction in _STARTS else ""
            made = Instruction(Op.REDUCE, each.type, args, reduction, flags)
            self.code.body.append(made)
            found.append(made)
        return found

    def _end(self, totals: Sequence[Sequence[Value]]) -> None:
        """Append the combination of the partial results of each carried value."""
        for place, each in enumerate(self.loop.carried):
            whole = self._together(each, [total[place] for total in totals])
            self.code.body.append(_named(each.after, whole))


def _reduction_of(each: Value) -> str:
    """Return the reduction that an instruction accumulates; empty if there is none, or if its order is fixed."""
    if not isinstance(each, Instruction):
        return ""
    if each.op is Op.CALL:
        return _EXTREMA.get(each.attribute.name.removeprefix("@llvm.").rpartition(".")[0], "")
    is_reduction = each.op in _REDUCTIONS and (each.op not in _STARTS or each.flags == "reassoc")
    return each.op if is_reduction else ""


def _repeated(x: Value, lanes: int) -> Value:
    """Return a value in all lanes of a vector."""
    assert lanes == 1 or isinstance(x, Constant)
    return x.repeated(lanes) if isinstance(x, Constant) else x
