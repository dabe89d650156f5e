"""Sums along an innermost loop, for several elements at once that stay in registers until their sums are complete.

    tiled(loop, widths, most)      a loop around another one, with wider iterations

A sum that is added to in memory is read and written once for each of its terms. Here each lane of a few vectors has a
sum of its own, to which the innermost loop adds in the order of its iterations: results are the same to the bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from fgrad.native.ir import Carried, Constant, Instruction, Item, Loop, Op, Value, Variable, integer
from fgrad.native.lanes import GivesUpError, IterationByIterationError, Lanes, Piece, Widths

MOST_VECTORS, _MOST_INSTRUCTIONS = 4, 64
"""Vectors of sums at once, a power of two, and instructions of an inner iteration for all: registers are few."""


def tiled(loop: Loop, widths: Widths, most: int) -> list[Item] | None:
    """Return what does the work of a loop around another one; None where it is not known how.

    Args:
        loop: the outer loop.
        widths: of the processor.
        most: how many iterations of it there are at most.
    """
    try:
        return _Tiles(loop, widths, most).items()
    except (GivesUpError, IterationByIterationError):
        return None


def _instructions(items: Sequence[Item]) -> list[Instruction]:
    found = [each for each in items if isinstance(each, Instruction)]
    if len(found) != len(items):
        raise GivesUpError
    return found


class _Tiles(Lanes):
    """Two loops, of which the outer one takes several elements at once."""

    def __init__(self, loop: Loop, widths: Widths, most: int) -> None:
        (inner,) = [each for each in loop.body if isinstance(each, Loop)]
        self._loop, self._inner, place = loop, inner, loop.body.index(inner)
        parts = (loop.body[:place], inner.body, loop.body[place + 1 :])
        self._before, self._body, self._behind = map(_instructions, parts)
        sums = [*inner.carried, *(each.after for each in inner.carried)]
        super().__init__([*self._before, *self._body, *self._behind], loop.variable, sums, widths)
        if self.stored & self.loaded or most < self.most or not self.has_functions(self.most):
            raise GivesUpError
        places = [each.args[-1] for each in (*self._before, *self._body) if each.op is Op.LOAD]
        if any(self.moves(place) and self.steps_over(place) for place in places):
            raise GivesUpError

    def items(self) -> list[Item]:
        """Return what does the work of the loops."""
        vectors = MOST_VECTORS
        while vectors > 1 and vectors * len(self._body) > _MOST_INSTRUCTIONS:
            vectors //= 2
        start, stop = self._loop.start, self._loop.stop
        if not (isinstance(start, Constant) and isinstance(stop, Constant)):
            self._append_any_number(vectors)
            return self.code.body
        step = vectors * self.most
        count, rest = divmod(stop.integer - start.integer, step)
        until = integer(start.integer + count * step)
        if count:
            self._tiles(start, until, vectors, count == 1)
        if rest:  # the last vector has some elements once more, if there are not enough of them
            self._tile(until, [*range(0, rest - self.most, self.most), rest - self.most])
        return self.code.body

    def _append_any_number(self, vectors: int) -> None:
        """Append loops over as many tiles as there are, from a part's first element to its last.

        Elements before the first one may be computed as well. Another thread may write them, and writes the same.
        """
        code, start, stop = self.code, self._loop.start, self._loop.stop
        for size in dict.fromkeys([vectors, 1]):
            step = size * self.most
            until = code.add(start, code.both(code.sub(stop, start, flags=""), integer(-step)), flags="")
            self._tiles(start, until, size, may_be_empty=True)
            start = until
        with code.when(code.compare("slt", start, stop)):
            self._tile(code.sub(stop, integer(self.most)), [0])

    def _tiles(self, start: Value, stop: Value, vectors: int, is_one: bool = False, may_be_empty: bool = False) -> None:
        """Append a loop over tiles, or the only one."""
        places = range(0, vectors * self.most, self.most)
        if is_one:
            self._tile(start, places)
            return
        made = Loop(Variable(self._loop.variable.order[1]), start, stop, [], [], len(places) * self.most, may_be_empty)
        self.code.body.append(made)
        with self.code.within(made.body):
            self._tile(made.variable, places)

    def _tile(self, at: Value, places: Sequence[int]) -> None:
        """Append the sums of as many elements from each place on as there are lanes; places count from an element."""
        code, inner, lanes = self.code, self._inner, self.most
        pieces: list[Piece] = []
        for place in places:
            first = pieces[0] if pieces else None
            given: dict[Value, Value] = {self._loop.variable: code.add(at, integer(place)) if place else at}
            pieces.append(Piece(self, lanes, given, first, place - places[0]))
        _run(pieces, self._before)
        made = Loop(Variable(inner.variable.order[1]), inner.start, inner.stop, may_be_empty=inner.may_be_empty)
        for piece in pieces:
            piece.given[inner.variable] = made.variable
            for each in inner.carried:
                assert isinstance(each.start, Constant)
                piece.given[each] = sum_ = Carried(each.start.repeated(lanes))
                piece.given[each.after] = sum_.after
                made.carried.append(sum_)
        code.body.append(made)
        with code.within(made.body), _inside(pieces):
            _run(pieces, self._body)
        nexts = [piece.given[each.next] for piece in pieces for each in inner.carried]
        for sum_, value in zip(made.carried, nexts, strict=True):
            sum_.next = value
        _run(pieces, self._behind)


def _run(pieces: Sequence[Piece], instructions: Sequence[Instruction]) -> None:
    for each in instructions:
        for piece in pieces:
            piece.add(each)


@contextlib.contextmanager
def _inside(pieces: Sequence[Piece]) -> Iterator[None]:
    """Let pieces forget in the end which vectors they have made in the `with` block, where alone these are defined."""
    known = [piece.vectors for piece in pieces]
    for piece in pieces:
        piece.vectors = dict(piece.vectors)
    yield
    for piece, vectors in zip(pieces, known, strict=True):
        piece.vectors = vectors
