"""Variational and adjoint equations along a known solution.

    along = Along(field, inputs, track, times, rtol)
    along.forwards(start, of_inputs)      x' = f_y x + f_p dp, at all output times
    along.backwards(cotangents)           its transpose: the adjoint equation a' = -f_y^T a, and integrals of f_p^T a

Both are linear, and the solution y(t) at which they are linearized is known at any time. So they are solved by
collocation, Radau IIA of order 9, which is stable for stiff equations (Hairer and Wanner, Solving Ordinary
Differential Equations II, section IV.5): on each interval the Jacobians at five points give the matrix that maps
a perturbation from one end to the other, for all intervals in one batch. The initial intervals are the solver's steps.
Intervals for which two halves give another result than the whole are bisected, until all agree to the tolerance of
the solver. The backward result is the exact transpose of the forward result on those intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.scipy.integrate._tableau import (
    Tableau,
    recurrence,
    responses,
    reversed_recurrence,
    transposed,
)
from fgrad.scipy.integrate._vectorized import NotTogether, Points
from fgrad.transforms.calls import name_of
from fgrad.typing import Array

RADAU = Tableau.of_radau(5)

LARGEST_MATRIX = 12
"""For larger systems, products with Jacobians are cheaper than Jacobians."""
MOST_INTERVALS = 200_000


@dataclass
class Track:
    """A known solution.

    Attributes:
        states: the states at the output times.
        steps: the start times of the steps, and the end of the last one.
        interpolants: for each step, a function from a vector of times to the states, one row each.
    """

    states: Array
    steps: Array
    interpolants: Sequence[Callable[[Array], Array]]

    def at(self, times: Array, steps: Array) -> Array:
        """Return the states at several times in each of several steps, in order.

        Args:
            times: one row for each of the steps.
            steps: the numbers of the steps; a step may occur several times.
        """
        ends = np.flatnonzero(np.diff(steps)) + 1
        found = [
            self.interpolants[steps[part[0]]](times[part].reshape(-1)).reshape(*times[part].shape, -1)
            for part in np.split(np.arange(len(steps)), ends)
        ]
        return np.concatenate(found)

    def at_one(self, time: float) -> Any:
        """Return the state at one time."""
        times = np.array([[time]])
        return self.at(times, self.step_of(times[0]))[0, 0]

    def step_of(self, times: Array) -> Any:
        """Return the steps that contain the given times."""
        direction = np.sign(self.steps[-1] - self.steps[0]) or 1.0
        found = np.searchsorted(direction * self.steps[1:], direction * times)
        return np.minimum(found, len(self.steps) - 2)

    def points(self) -> tuple[Array, Array]:
        """Return the start and end times of the steps, and the states at these times."""
        return self.steps, self.at(self.steps[:, None], self.step_of(self.steps))[:, 0]

    def reaches(self, times: Array) -> bool:
        """Return whether the solution is known at the given times."""
        low, high = sorted((self.steps[0], self.steps[-1]))
        return bool(np.all((low <= times) & (times <= high)))

    def with_output_at(self, times: Array) -> Track:
        """Return the same solution with its states at other times, in order; the first one is its start."""
        states = self.at(times[:, None], self.step_of(times))[:, 0]
        states[0] = self.states[0]
        return Track(states, self.steps, self.interpolants)


@dataclass
class _Intervals:
    """Consecutive intervals, with their data.

    Attributes:
        begin, end, step: their bounds, and the step of the solver that contains each.
        times, states: the collocation points.
        jacobians: the derivatives of the right-hand side with respect to the state at these points.
        transitions: the matrices that map a perturbation from the start to the end.
        driven: the perturbation at the end, if it is 0 at the start and driven by sources; one column each.
    """

    begin: Array
    end: Array
    step: Array
    times: Array
    states: Array
    jacobians: Array
    transitions: Array
    driven: Array

    def __len__(self) -> int:
        return len(self.begin)

    def only(self, chosen: Array | slice) -> _Intervals:
        """Return some of the intervals."""
        return _Intervals(*(array[chosen] for array in vars(self).values()))

    def with_others(self, others: _Intervals) -> _Intervals:
        """Return these intervals followed by others."""
        pairs = zip(vars(self).values(), vars(others).values(), strict=True)
        both = _Intervals(*map(np.concatenate, pairs))
        forward = not len(both) or both.end[0] > both.begin[0]
        return both.only(np.argsort(both.begin if forward else -both.begin))

    def in_pairs(self) -> tuple[Array, Array]:
        """Return transitions and driven perturbations of merged pairs of neighbours."""
        first, second = self.only(slice(0, None, 2)), self.only(slice(1, None, 2))
        driven = second.driven + second.transitions @ first.driven
        return second.transitions @ first.transitions, driven

    def ends(self) -> Array:
        """Return the starts of the intervals, and the end of the last one."""
        return np.concatenate([self.begin, self.end[-1:]])


class Along:
    """Linear equations along a solution.

    Args:
        function: the user's function, for messages.
        field: the right-hand side.
        inputs: plain arrays, the inputs of the right-hand side.
        track: the solution.
        times: the output times; the first one is the start of the solution.
        tolerance: the relative tolerance of perturbations.

    Raises:
        NotTogether: the matrices would be large; the methods raise it if batching is impossible.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        field: Callable[..., Any],
        inputs: Sequence[Any],
        track: Track,
        times: Array,
        tolerance: float,
    ) -> None:
        self._function, self._field, self._inputs = function, field, list(inputs)
        self._track, self._times = track, times
        self._tolerance = max(tolerance, 1e-12)
        self._size = track.states.shape[1]
        self._direction = np.sign(times[-1] - times[0])
        if self._size > LARGEST_MATRIX:
            raise NotTogether

    def forwards(self, start: Array, of_inputs: Sequence[Any]) -> Any:
        """Return a perturbation at all output times, from that of the initial state and of the inputs."""
        if not self._direction:
            return np.repeat(start[None], len(self._times), axis=0)

        def changes(ends: Array, transitions: Array, driven: Array) -> Any:
            return recurrence(transitions, np.concatenate([start[None], driven[..., 0]]))

        def wrong(found: Array, transitions: Array, missed: Array, driven: Array) -> Any:
            return _relative((transitions @ found[:-1, :, None] + missed)[..., 0], found)

        grid, found = self._refined(changes, wrong, [of_inputs])
        return found[self._places(grid.ends())]

    def backwards(self, cotangents: Array) -> tuple[Array, list[Any]]:
        """Return the cotangents of the initial state and of the inputs.

        Args:
            cotangents: those of the states at all output times but the first.
        """
        if not self._direction:
            return np.sum(cotangents, axis=0), [np.zeros_like(each) for each in self._inputs]

        def changes(ends: Array, transitions: Array, driven: Array) -> Any:
            terms = np.zeros((len(ends), self._size))
            np.add.at(terms, self._places(ends)[1:], cotangents)
            return reversed_recurrence(transitions, terms)

        def wrong(found: Array, transitions: Array, missed: Array, driven: Array) -> Any:
            off = _relative((np.swapaxes(transitions, 1, 2) @ found[1:, :, None])[..., 0], found)
            integrals, of_integrals = (np.abs(np.sum(found[1:, :, None] * each, axis=1)) for each in (driven, missed))
            allowed = np.maximum(integrals, np.mean(integrals, axis=0))
            return np.maximum(off, np.max(_ratio(of_integrals, allowed), axis=1, initial=0.0))

        grid, found = self._refined(changes, wrong, self._probes())
        lengths = grid.end - grid.begin
        given = lengths[:, None, None] * RADAU.b[:, None] * found[1:, None, :]
        of_stages = transposed(RADAU, lengths, grid.jacobians, given)[0]
        points = self._points(grid.times, grid.states)
        return found[0], points.pulled(np.reshape(of_stages, (-1, self._size)), False)[1]

    def _probes(self) -> list[Sequence[Any]]:
        """Return directions of the inputs; integrals along them show whether the intervals are short enough."""
        rng = np.random.default_rng(0)
        return [
            [rng.choice([-1.0, 1.0], each.shape) * np.where(each == 0, 1.0, np.abs(each)) for each in self._inputs]
            for _ in range(1 if self._inputs else 0)
        ]

    def _refined(
        self, changes: Callable[..., Any], wrong: Callable[..., Any], sources: Sequence[Sequence[Any]]
    ) -> tuple[_Intervals, Array]:
        """Bisect intervals until their halves agree with them.

        Args:
            changes: maps ends of intervals, transitions and driven perturbations to the perturbation at all ends.
            wrong: maps perturbations, errors of transitions and of driven ones, and the latter, to relative errors.
            sources: directions of the inputs.

        Returns:
            The halves, and the perturbation at their ends.
        """
        coarse, fine = self._first_intervals(sources)
        while True:
            transitions, driven = fine.in_pairs()
            found = changes(coarse.ends(), transitions, driven)
            off = wrong(found, coarse.transitions - transitions, coarse.driven - driven, driven)
            narrow = np.abs(coarse.end - coarse.begin) <= 1e-14 * np.maximum(np.abs(coarse.end), np.abs(coarse.begin))
            parted = (off > self._tolerance) & ~narrow
            if not parted.any():
                return fine, changes(fine.ends(), fine.transitions, fine.driven)
            if len(coarse) > MOST_INTERVALS:
                raise self._not_refined()
            of_parted = np.repeat(parted, 2)
            coarse = coarse.only(~parted).with_others(fine.only(of_parted))
            fine = fine.only(~of_parted).with_others(self._parted(fine.only(of_parted), sources))

    def _first_intervals(self, sources: Sequence[Any]) -> tuple[_Intervals, _Intervals]:
        """Return the steps of the solver, split at the output times, and their halves."""
        low, high = sorted((self._times[0], self._times[-1]))
        steps = self._track.steps
        ends = np.unique(np.concatenate([self._times, steps[(steps > low) & (steps < high)]]))
        ends = ends if self._direction > 0 else ends[::-1]
        begin, end = ends[:-1], ends[1:]
        half_begin, half_end = _halves(begin, end)
        # One batch for all of them.
        step = self._track.step_of((begin + end) / 2)
        places = np.concatenate([step, np.repeat(step, 2)])
        order = np.argsort(places, kind="stable")
        both = self._intervals(
            np.concatenate([begin, half_begin])[order], np.concatenate([end, half_end])[order], places[order], sources
        )
        both = both.only(np.argsort(order))
        return both.only(slice(None, len(begin))), both.only(slice(len(begin), None))

    def _parted(self, whole: _Intervals, sources: Sequence[Any]) -> _Intervals:
        begin, end = _halves(whole.begin, whole.end)
        return self._intervals(begin, end, np.repeat(whole.step, 2), sources)

    def _intervals(self, begin: Array, end: Array, step: Array, sources: Sequence[Any]) -> _Intervals:
        """Return intervals; the steps of the solver must not reverse."""
        lengths, n, stages = end - begin, self._size, RADAU.stages
        times = begin[:, None] + lengths[:, None] * RADAU.c
        states = self._track.at(times, step)
        columns = self._points(times, states).jacobians(sources).reshape(len(begin), stages, n, -1)
        moved = responses(RADAU, lengths, columns[..., :n], columns)
        ends = lengths[:, None, None] * np.tensordot(moved, RADAU.b, (1, 0))
        return _Intervals(begin, end, step, times, states, columns[..., :n], np.eye(n) + ends[..., :n], ends[..., n:])

    def _points(self, times: Array, states: Array) -> Points:
        return Points(self._field, self._inputs, times.reshape(-1), states.reshape(-1, self._size))

    def _places(self, ends: Array) -> Any:
        """Return the indices of the output times among ends of intervals."""
        return np.searchsorted(self._direction * ends, self._direction * self._times)

    def _not_refined(self) -> errors.ConvergenceError:
        return errors.ConvergenceError(
            f"the adjoint equation of {name_of(self._function)} needs more than {MOST_INTERVALS} intervals: "
            "its coefficients, the derivatives of the function, are not smooth enough.\n"
            "Use larger tolerances, or derivative='steps'."
        )


def _halves(begin: Array, end: Array) -> tuple[Array, Array]:
    """Return the bounds of the halves of intervals."""
    middle = (begin + end) / 2
    return np.stack([begin, middle], axis=1).reshape(-1), np.stack([middle, end], axis=1).reshape(-1)


def _relative(off: Array, found: Array) -> Any:
    """Return for each interval the error of a perturbation, relative to its size there, component by component."""
    units = np.max(np.abs(found), axis=0)
    sizes = np.max(_ratio(np.abs(found), units), axis=1)
    return _ratio(np.max(_ratio(np.abs(off), units), axis=1), np.maximum(sizes[:-1], sizes[1:]))


def _ratio(a: Array, b: Array) -> Any:
    """Return a / b, and 0 where both are 0."""
    a, b = np.broadcast_arrays(a, b)
    return np.divide(a, b, out=np.zeros(a.shape), where=b != 0)
