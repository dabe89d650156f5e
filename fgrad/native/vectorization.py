"""The innermost loop of a nest, several elements at once: operations on numbers become operations on vectors.

    widened(loop, widths)     the loop as straight lines, or as a loop with wider iterations; None where that cannot be
    told

LLVM can do this by itself, and does where this gives up. But it takes most of the time of a compilation, and where a
loop is short, as those of small arrays are, it leaves the last elements to a second loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from fgrad.native.ir import (
    BINARY,
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
"""Vectors up to which there is no loop."""
_LONG_BODY = 60
"""Instructions from which on a loop is one where there are two vectors."""
_MOST_TOTALS, _MOST_INSTRUCTIONS = 4, 48
"""Vectors of each sum at once, so that an addition need not wait for the one before, and instructions for all."""

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
    except IterationByIterationError:
        return [loop]
    except GivesUpError:
        return None


def _once(loop: Loop) -> list[Item]:
    """Return a loop of one iteration, which is none."""
    given: dict[Value, Value] = {loop.variable: loop.start, **{each: each.start for each in loop.carried}}
    items = all_copied(list(instructions_of(loop.body)), given)
    return [*items, *(_named(each.after, given.get(each.next, each.next)) for each in loop.carried)]


def _named(after: Value, value: Value) -> Instruction:
    """Return an instruction that gives a value to what stands for a result."""
    return Instruction(Op.IS, None, [after, value])


class _Wide(Lanes):
    """A loop over several elements at once."""

    def __init__(self, loop: Loop, widths: Widths, most: int) -> None:
        self.loop, self._most = loop, most
        self._body = list(instructions_of(loop.body))
        if len(self._body) != len(loop.body):
            raise GivesUpError
        super().__init__(self._body, loop.variable, loop.carried, widths)
        self._check_carried()
        self.most = self.lanes_for(self.varying - self._long_sums())

    def _long_sums(self) -> set[Value]:
        """Return sums of short numbers, whose terms are made long for them alone: a vector takes two registers."""
        found: set[Value] = set()
        for each in self.loop.carried:
            terms = {x for x in cast(Instruction, each.next).args if isinstance(x, Instruction) and x.op is Op.FPEXT}
            if terms:
                found |= {each, each.next, *terms}
        return found

    def _check_carried(self) -> None:
        """Give up where a carried value is no sum, product or extremum."""
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
        """Return what does the work of the loop."""
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
        return len(self._body) + 2 * self.most * len(apart)

    def _vectors(self) -> int:
        """Return how many vectors of each sum there are at once."""
        # A call saves all vectors, and takes longer than an addition has to wait.
        calls = any(each.op is Op.CALL and not each.attribute.name.startswith("@llvm.") for each in self._body)
        vectors = (_MOST_TOTALS if not calls else 1) if self.loop.carried and not self.stored else 1
        while vectors > 1 and vectors * self._length() > _MOST_INSTRUCTIONS:
            vectors //= 2
        return vectors

    def _sizes(self, rest: int) -> list[int]:
        """Return sizes of vectors that make up a rest."""
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
        """Return a loop with wide iterations, as many as there are, and one with what is left."""
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
        """Append a loop whose iterations take several elements, and return what it makes of what is carried.

        Args:
            start, stop: what it runs through.
            lanes: how many elements a vector has.
            vectors: how many vectors an iteration takes.
            may_be_empty: whether there may be no iteration.
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
        """Append what makes one of several totals."""
        step = cast(Instruction, carried.next)
        attribute = Callee(self.wide_function(step, lanes)) if lanes > 1 and step.op is Op.CALL else step.attribute
        whole, *others = totals
        for each in others:
            whole = Instruction(step.op, step.type, [whole, each], attribute, step.flags, lanes)
            self.code.body.append(whole)
        return whole

    def _piece(self, at: int, lanes: int) -> list[Value]:
        """Append the instructions for some elements from one on, and return what they make of what is carried."""
        given: dict[Value, Value] = {each: _repeated(each.start, lanes) for each in self.loop.carried}
        given[self.loop.variable] = integer(at)
        Piece(self, lanes, given).run(self._body)
        return self._reduced([given[each.next] for each in self.loop.carried], lanes)

    def _reduced(self, vectors: Sequence[Value], lanes: int) -> list[Value]:
        """Append what makes a number of each carried vector."""
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
        """Append what puts the pieces of what is carried together."""
        for place, each in enumerate(self.loop.carried):
            whole = self._together(each, [total[place] for total in totals])
            self.code.body.append(_named(each.after, whole))


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
