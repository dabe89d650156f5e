"""Lines that a program repeats without a loop, and the reasons, for reports.

unrolled(block)          these lines, in a program whose loops have been found
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fgrad.graphs.equations import kind_of, names_of
from fgrad.graphs.graph import Block
from fgrad.graphs.listing import Listing
from fgrad.graphs.loop import iterations_of
from fgrad.graphs.periods import FEWEST_ITERATIONS, FEWEST_SAVED, obstacle_of, runs_of
from fgrad.graphs.rerolling import Rewriting

_FEW = 3
"""An operation changes from iteration to iteration if more than one in this many of its equations differ."""
_RARELY = 1 / 40
"""The fraction of a stretch below which operations are ignored."""

Location = tuple[str, int]


class Unrolled(NamedTuple):
    """Equations that are repeated, and are in no loop.

    Attributes:
        places: the user's files and lines of the equations, in order.
        equations: the number of equations.
        reason: why they are not a loop.
    """

    places: list[Location]
    equations: int
    reason: str


def unrolled(block: Block) -> list[Unrolled]:
    """Return the equations that a program repeats without a loop, by reason; also inside its loops.

    Args:
        block: the program, after `rerolled`.
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
    """Return the number of equations of a line that are in no loop, and why, if there are many."""
    places: dict[Location, list[int]] = {}
    for i, equation in enumerate(block.equations):
        if equation.place and not iterations_of(equation):
            places.setdefault(equation.place, []).append(i)
    # An iteration may remain before or after a loop.
    in_turns = Counter(each.place for inner in _with_loops(block) if inner is not block for each in inner.equations)
    places = {place: found for place, found in places.items() if len(found) >= FEWEST_SAVED + 2 * in_turns[place]}
    if not places:
        return {}
    listing = Listing(block)
    refused = _refused(block, listing)
    return {place: (len(found), _reason(listing, found, refused)) for place, found in places.items()}


def _refused(block: Block, listing: Listing) -> dict[int, str]:
    """Return why equations are not a loop although their iterations are equal in kind, by position in the program."""
    writing = Rewriting(block, listing, runs_of(listing))
    writing.block()
    return {i: reason for run, reason in writing.refused for i in range(run.start, run.end)}


def _reason(listing: Listing, places: Sequence[int], refused: dict[int, str]) -> str:
    """Return why the equations of one line are not a loop."""
    known = [refused[i] for i in places if i in refused]
    if known:
        return known[0]
    start, end = places[0], places[-1] + 1
    return _change(listing, start, end) or obstacle_of(listing, start, end)


def _change(listing: Listing, start: int, end: int) -> str:
    """Return how an operation changes from iteration to iteration, empty if it does not."""
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
        rows = [list(map(kind_of, names_of((*one.outputs, *one.inputs)))) for one in equations]
        if 2 * len(set(map(tuple, rows))) > kinds:
            forms = max(map(dict.fromkeys, zip(*rows, strict=False)), key=len)
            return f"the shapes of arrays change from iteration to iteration ({', '.join(list(forms)[:3])}, ...)"
        if equations[0].direct:
            return "a function with custom rules is created in each iteration; create it before the loop"
        return f"{name} is called with other options from iteration to iteration"
    return ""
