"""Period detection: runs of equations that are the iterations of a loop.

    runs_of(listing)             the runs that are worth a loop, in order
    obstacle_of(listing, ...)    the reason why there is none, in words

In a run of n iterations with period p, equation i + p has the same kind as equation i. Each input of an equation is
either computed outside of the run in all iterations, or the same number of equations earlier in all iterations; in the
first iterations, a value that would have been computed before the run comes from outside. So each input is of one of
these kinds: the same in all iterations, a value from outside for each iteration, computed in the same iteration, or in
an earlier iteration.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgrad.graphs.listing import Listing

Numbers = NDArray[np.int64]

FEWEST_ITERATIONS = 4
FEWEST_SAVED = 100
"""A run becomes a loop if it has this many iterations and saves this many equations."""

LONGEST_CHAIN = 8
"""The number of iterations over which a value may be carried."""

_MOSTLY = 0.9
"""The fraction of equations that must recur for a distance to count as a period."""

_CANDIDATES = 24
_STARTS = 64
"""The number of periods tried for each length of a pattern, and of starts in a stretch."""


@dataclass(frozen=True)
class Run:
    """The iterations of a loop: `count` times `period` equations, from `start` on."""

    start: int
    period: int
    count: int

    @property
    def end(self) -> int:
        """The first equation after the run."""
        return self.start + self.period * self.count

    @property
    def saved(self) -> int:
        """The number of equations that the loop saves."""
        return self.period * (self.count - 1)

    @property
    def is_worthwhile(self) -> bool:
        """Whether a loop is better than separate iterations."""
        return self.count >= FEWEST_ITERATIONS and self.saved >= FEWEST_SAVED


def runs_of(listing: Listing) -> list[Run]:
    """Return the runs of a program that are worth a loop: the longest first, then those in the gaps."""
    free = np.ones(len(listing.kinds), bool)
    queue: list[tuple[int, int, int, int, bool]] = []
    for period in sorted({*_candidates(listing.kinds), *_candidates(_with_sources(listing))}):
        alike = listing.kinds[period:] == listing.kinds[:-period]
        for start, end in _stretches(alike, period):
            heapq.heappush(queue, (period - (end - start), period, start, end, False))
    found: list[Run] = []
    while queue:
        _, period, start, end, is_run = heapq.heappop(queue)
        if is_run and free[start:end].all():
            found.append(Run(start, period, (end - start) // period))
            free[start:end] = False
            continue
        for first, last in _pieces(free, start, end):
            for each in _Stretch(listing, period, first, last).runs() if last - first > period else ():
                heapq.heappush(queue, (-each.saved, period, each.start, each.end, True))
    return sorted(found, key=lambda run: run.start)


def obstacle_of(listing: Listing, start: int, end: int) -> str:
    """Return why equations, among them many of the same kind, are not a run."""
    kinds = listing.kinds[start:end]
    shares = {period: float(np.mean(kinds[period:] == kinds[:-period])) for period in _candidates(kinds)}
    period = max(shares, key=lambda each: (shares[each], -each), default=0)
    if not period or shares[period] < _MOSTLY:
        return "iterations do not all have the same operations in the same order"
    stretch = _Stretch(listing, period, start, end)
    often = len(kinds) // period // 4
    if len(stretch.bends) > often:
        return "indices do not change by a constant step per iteration"
    if stretch.far > often:
        return f"a value is used more than {LONGEST_CHAIN} iterations after the one that computes it"
    return "an input is not always computed the same number of iterations earlier"


def _with_sources(listing: Listing) -> Numbers:
    """Return a number for each equation that is equal if the kinds and the relative positions of inputs are equal.

    Layers within a time step can be equal in kind, while only one of them uses the step before.
    """
    owner = np.repeat(np.arange(len(listing.kinds)), np.diff(listing.first_source))
    sources = np.where(listing.sources < 0, listing.sources, listing.first_value[owner] - listing.sources)
    mixed = sources * (np.arange(len(owner)) - listing.first_source[owner] + 1)
    found: Numbers = np.bincount(owner, mixed, len(listing.kinds)).astype(int)
    return listing.kinds + (int(listing.kinds.max()) + 1) * found


def _candidates(kinds: Numbers) -> list[int]:
    """Return the most frequent distances between equal patterns, for patterns of several lengths."""
    found: set[int] = set()
    longest = len(kinds) // FEWEST_ITERATIONS
    patterns, length = kinds.astype(np.uint64), 1
    while len(patterns) > FEWEST_SAVED:
        order = np.argsort(patterns, kind="stable")
        is_same = patterns[order[1:]] == patterns[order[:-1]]
        distances = np.diff(order)[is_same]
        counts = np.bincount(distances[distances <= longest])
        if not counts.size:
            break
        best = np.argsort(counts)[-_CANDIDATES:]
        found.update(best[counts[best] > 0].tolist())
        for _ in range(2):  # the hash of a pattern four times as long
            patterns = _mixed(patterns[:-length], patterns[length:])
            length *= 2
            if len(patterns) <= length:
                return sorted(found)
    return sorted(found)


def _mixed(a: Any, b: Any) -> Any:
    """Return a hash of pairs, used only to find candidates: the equations themselves are compared later."""
    mixed = (a ^ (a >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15) + b
    return (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)


def _stretches(alike: NDArray[np.bool_], period: int) -> list[tuple[int, int]]:
    """Return the ranges in which equations recur at a distance, if they are long enough."""
    breaks = np.concatenate([[-1], np.flatnonzero(~alike), [len(alike)]])
    lengths = np.diff(breaks) - 1
    least = max((FEWEST_ITERATIONS - 1) * period, FEWEST_SAVED)
    return [(int(breaks[i]) + 1, int(breaks[i + 1]) + period) for i in np.flatnonzero(lengths >= least)]


def _pieces(free: NDArray[np.bool_], start: int, end: int) -> list[tuple[int, int]]:
    """Return the parts of a stretch that are still free."""
    breaks = np.concatenate([[-1], np.flatnonzero(~free[start:end]), [end - start]])
    wide = np.flatnonzero(np.diff(breaks) > 1)
    return [(start + int(breaks[i]) + 1, start + int(breaks[i + 1])) for i in wide]


class _Stretch:
    """Equations that recur at a distance, from `start` to `end`, some of which may be the iterations of a loop.

    Attributes:
        user: the equations, in order, whose input has another origin than one period earlier, relative to the distance.
        before, now: the equations that computed the two inputs, -1 for a value from outside.
        bends: the equations whose keys have an integer with another step than in the period before.
    """

    def __init__(self, listing: Listing, period: int, start: int, end: int) -> None:
        self.listing, self.period, self.start, self.end = listing, period, start, end
        owner = np.repeat(np.arange(start, end), np.diff(listing.first_source[start : end + 1]))
        flat = listing.sources[listing.first_source[start] : listing.first_source[end]]
        one_iteration = listing.first_source[start + period] - listing.first_source[start]
        made = np.where(flat >= 0, listing.maker[np.maximum(flat, 0)], -1)
        distance = np.where(flat >= 0, listing.first_value[owner] - flat, 0)
        differs = (distance[one_iteration:] != distance[:-one_iteration]) | (
            (flat[one_iteration:] < 0) != (flat[:-one_iteration] < 0)
        )
        where = np.flatnonzero(differs)
        self.user, self.before, self.now = owner[where + one_iteration], made[where], made[where + one_iteration]
        far = np.flatnonzero((made >= start) & (owner - made > LONGEST_CHAIN * period))
        self._far, self._far_made = owner[far], made[far]
        self.bends = self._bends()

    @property
    def far(self) -> int:
        """The number of inputs that were computed too many iterations earlier."""
        return len(self._far)

    def _bends(self) -> Numbers:
        listing, start, end, period = self.listing, self.start, self.end, self.period
        flat = listing.places[listing.first_place[start] : listing.first_place[end]]
        one_iteration = listing.first_place[start + period] - listing.first_place[start]
        if not one_iteration:
            return np.empty(0, int)
        owner = np.repeat(np.arange(start, end), np.diff(listing.first_place[start : end + 1]))
        steps = flat[one_iteration:] - flat[:-one_iteration]
        return owner[np.flatnonzero(steps[one_iteration:] != steps[:-one_iteration]) + 2 * one_iteration]  # type: ignore[no-any-return]

    def runs(self) -> list[Run]:
        """Return disjoint runs in the stretch."""
        found = []
        start = self.start
        for _ in range(_STARTS):
            end, later = self._reach(start)
            run = Run(start, self.period, (end - start) // self.period)
            if run.is_worthwhile:
                found.append(self._turned(run, end))
                later = found[-1].end
            start = later
            if end >= self.end or self.end - start < FEWEST_ITERATIONS * self.period:
                break
        return found

    def _reach(self, start: int) -> tuple[int, int]:
        """Return the end of the longest loop from a start, and the next start that may extend further."""
        period, before, now = self.period, self.before, self.now
        bends = self.bends[np.searchsorted(self.bends, start + 2 * period) :]
        end = bend = int(bends[0]) if bends.size else self.end
        starts = [bend - 2 * period + 1]
        far = np.flatnonzero((self._far < end) & (self._far_made >= start))
        if far.size:
            end = int(self._far[far[0]])
            starts = [int(self._far_made[far[0]]) + 1]
        wrong = self._wrong(start, end)
        if wrong is not None:
            end = int(self.user[wrong])
            starts = [end - period + 1, int(max(before[wrong], now[wrong])) + 1]
        return end, min((each for each in starts if each > start), default=start + 1)

    def _wrong(self, start: int, end: int) -> int | None:
        """Return the first input that is impossible in a loop from a start."""
        first, last = np.searchsorted(self.user, [start + self.period, end])
        length = 64  # in blocks of growing length, so that a short run costs little
        while first < last:
            before, now = self.before[first : min(first + length, last)], self.now[first : min(first + length, last)]
            is_outside = (before < start) & (now < start)
            is_first = (
                (before < start) & (now >= start) & (now < start + self.period)
            )  # the result of the first iteration
            wrong = np.flatnonzero(~(is_outside | is_first))
            if wrong.size:
                return int(first + wrong[0])
            first += length
            length *= 4
        return None

    def _turned(self, run: Run, end: int) -> Run:
        """Return the run shifted to where the fewest values are carried, with the same number of iterations."""
        slack = end - run.end
        crossing = self._crossing(run)[: slack + 1]
        for shift in np.argsort(crossing, kind="stable"):
            start = run.start + int(shift)
            if crossing[shift] >= crossing[0] or self._reach(start)[0] >= start + run.period * run.count:
                return Run(start, run.period, run.count)
        return run

    def _crossing(self, run: Run) -> Numbers:
        """Return the number of carried values, for each equation of the period as the first of an iteration."""
        listing, period = self.listing, run.period
        first = run.end - period
        flat = listing.sources[listing.first_source[first] : listing.first_source[run.end]]
        owner = np.repeat(np.arange(first, run.end), np.diff(listing.first_source[first : run.end + 1]))
        inside = flat >= listing.first_value[run.start]
        flat, owner = flat[inside], owner[inside]
        values = int(listing.first_value[run.end] - listing.first_value[first])
        slots = (flat - listing.first_value[run.start]) % max(values, 1)
        furthest, made = np.zeros(values, int), np.zeros(values, int)
        made[slots] = (listing.maker[flat] - run.start) % period
        np.maximum.at(furthest, slots, owner - listing.maker[flat])
        counts = np.zeros(2 * period + 1, int)
        np.add.at(counts, made + 1, 1)
        np.add.at(counts, made + 1 + furthest % period, -1)
        counts = np.cumsum(counts)
        return counts[:period] + counts[period : 2 * period] + np.sum(furthest // period)  # type: ignore[no-any-return]
