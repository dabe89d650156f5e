"""Register tiling of reductions: several accumulators stay in registers along the innermost loop.

    tiled(loop, widths, most)      the nest of a loop around another one, with vectorized and tiled iterations

An accumulator in memory is loaded and stored once for each term. Here each lane of a few vectors is the accumulator of
one element of the result, and the inner loop adds its terms in the original order: results are the same to the bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from fgrad.native.ir import Carried, Constant, Instruction, Item, Loop, Op, Value, Variable, integer
from fgrad.native.lanes import GivesUpError, IterationByIterationError, Lanes, Piece, Widths

MOST_VECTORS, _MOST_INSTRUCTIONS = 4, 64
"""Most accumulator vectors, a power of two, and most instructions of an inner iteration: registers are few."""


def tiled(loop: Loop, widths: Widths, most: int) -> list[Item] | None:
    """Return the items that replace a loop around another one; None where that is not possible.

    Args:
        loop: the outer loop.
        widths: the vector registers of the processor.
        most: an upper bound of its trip count.
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
    """Two nested loops, of which the outer one is vectorized."""

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
        """Return the items that replace the loops."""
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
        if rest:  # the last vector may overlap the one before
            self._tile(until, [*range(0, rest - self.most, self.most), rest - self.most])
        return self.code.body

    def _append_any_number(self, vectors: int) -> None:
        """Append loops over the tiles of a range known at run time.

        The last vector may start before the range. Another thread may write the same elements, with the same values.
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
        """Append a loop over tiles, or a single tile."""
        places = range(0, vectors * self.most, self.most)
        if is_one:
            self._tile(start, places)
            return
        made = Loop(Variable(self._loop.variable.order[1]), start, stop, [], [], len(places) * self.most, may_be_empty)
        self.code.body.append(made)
        with self.code.within(made.body):
            self._tile(made.variable, places)

    def _tile(self, at: Value, places: Sequence[int]) -> None:
        """Append one tile: a vector of accumulators at each of the offsets `places` from an element."""
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
    """Restore the vectors of pieces after the `with` block: those made inside are not defined after it."""
    known = [piece.vectors for piece in pieces]
    for piece in pieces:
        piece.vectors = dict(piece.vectors)
    yield
    for piece, vectors in zip(pieces, known, strict=True):
        piece.vectors = vectors
