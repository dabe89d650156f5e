"""Lines that a program repeats without a loop, and what is in the way: to tell the user.

unrolled(block)          which lines those are, of a program whose loops have been found
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fgrad.graphs.equations import Name, kind_of
from fgrad.graphs.graph import Block
from fgrad.graphs.listing import Listing
from fgrad.graphs.loop import iterations_of
from fgrad.graphs.periods import FEWEST_ITERATIONS, FEWEST_SAVED, obstacle_of, runs_of
from fgrad.graphs.rolling import Rewriting

_FEW = 3
"""What differs in more than one of so many equations differs from iteration to iteration."""
_RARELY = 1 / 40
"""Operations that are fewer among those of a stretch are not looked at."""

Location = tuple[str, int]


class Unrolled(NamedTuple):
    """Equations that come again and again, and are in no loop.

    Attributes:
        places: the user's files and lines that they are for, in order.
        equations: how many there are.
        reason: why they are no loop.
    """

    places: list[Location]
    equations: int
    reason: str


def unrolled(block: Block) -> list[Unrolled]:
    """Return what a program repeats without a loop, by reasons; also inside of its loops.

    Args:
        block: the program, after `rolled`.
    """
    found: dict[str, Counter[Location]] = {}
    for each in _with_loops(block):
        for place, (count, reason) in _repeated(each).items():
            found.setdefault(reason, Counter())[place] += count
    return [Unrolled(sorted(places), places.total(), reason) for reason, places in found.items()]


def _with_loops(block: Block) -> Iterable[Block]:
    yield block
    for iterations in filter(None, map(iterations_of, block.equations)):
        yield from _with_loops(iterations.body)


def _repeated(block: Block) -> dict[Location, tuple[int, str]]:
    """Return how many equations of a line are in no loop, and why, where they are many."""
    places: dict[Location, list[int]] = {}
    for i, equation in enumerate(block.equations):
        if equation.place and not iterations_of(equation):
            places.setdefault(equation.place, []).append(i)
    # A loop may leave an iteration before it or behind it.
    in_turns = Counter(each.place for inner in _with_loops(block) if inner is not block for each in inner.equations)
    places = {place: found for place, found in places.items() if len(found) >= FEWEST_SAVED + 2 * in_turns[place]}
    if not places:
        return {}
    listing = Listing(block)
    refused = _refused(block, listing)
    return {place: (len(found), _reason(listing, found, refused)) for place, found in places.items()}


def _refused(block: Block, listing: Listing) -> dict[int, str]:
    """Return why equations are no loop although their iterations are alike, by their places in the program."""
    writing = Rewriting(block, listing, runs_of(listing))
    writing.block()
    return {i: reason for run, reason in writing.refused for i in range(run.start, run.end)}


def _reason(listing: Listing, places: Sequence[int], refused: dict[int, str]) -> str:
    """Return why equations that are for one line are no loop."""
    known = [refused[i] for i in places if i in refused]
    if known:
        return known[0]
    start, end = places[0], places[-1] + 1
    return _change(listing, start, end) or obstacle_of(listing, start, end)


def _change(listing: Listing, start: int, end: int) -> str:
    """Return how an operation changes from iteration to iteration, empty if none does."""
    operations: dict[str, list[int]] = {}
    for i in range(start, end):
        operations.setdefault(listing.equations[i].primitive.name, []).append(i)
    for name, places in operations.items():
        if len(places) < max(FEWEST_ITERATIONS, (end - start) * _RARELY):
            continue
        kinds = len(set(listing.kinds[places].tolist()))
        if _FEW * kinds <= len(places):
            continue
        equations = [listing.equations[i] for i in places]
        rows = [[kind_of(each) for each in (*one.outputs, *one.inputs) if type(each) is Name] for one in equations]
        if 2 * len(set(map(tuple, rows))) > kinds:
            forms = max(map(dict.fromkeys, zip(*rows, strict=False)), key=len)
            return f"arrays have another shape from iteration to iteration ({', '.join(list(forms)[:3])}, ...)"
        if equations[0].direct:
            return "a function with rules of its own is made anew in each iteration; make it before the loop"
        return f"{name} is called with other options from iteration to iteration"
    return ""
