"""The discrete derivative of a solution computed by a Runge-Kutta method, step by step.

    Steps(function, field, tableau, ...).solution(leaves)    traced states and slopes
    Interpolated(...).at(times)                              states between the steps

SciPy chooses the steps. For given steps, the solution is a composition of formulas, explicit ones or equations for the
stages of a step, and this module has its exact derivative: with respect to the initial state, the start and end times
of the steps, and all inputs of the right-hand side. It needs the state and the slopes of each step, which SciPy has
computed, and the derivatives of the right-hand side at those points. All points are known, so these are computed in one
batch (`_vectorized.py`), and the chain rule along the steps is a recurrence of small matrices (`_tableau.py`). If
the points cannot be batched, or the matrices would be large, the steps are processed one by one.

The rules consist of traced functions, in which `states` and `slopes` are again such a solution; so
derivatives of higher order follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fgrad.core.tensor import Tensor, strip_ended
from fgrad.native.values import on_values
from fgrad.rules.rule import Leaves
from fgrad.scipy.integrate._callback import for_each_example, values_of
from fgrad.scipy.integrate._discontinuities import warn_of_steps_along
from fgrad.scipy.integrate._forms import followed, key_of
from fgrad.scipy.integrate._tableau import (
    Tableau,
    combined,
    recurrence,
    responses,
    reversed_recurrence,
    transitions,
    transposed,
)
from fgrad.scipy.integrate._vectorized import NotTogether, Points, first_that_works, pulled, pushed
from fgrad.transforms.calls import name_of
from fgrad.transforms.jacobians import jacobian
from fgrad.typing import Array, ArrayLike, Operand

LARGEST_MATRIX = 32
"""For larger systems, products with Jacobians are cheaper than Jacobians."""

MOST_ITERATIONS = 50
"""Number of Newton iterations for the stages of one step."""


@dataclass
class Steps:
    """Steps of given sizes, as a function of the initial state and the inputs of the right-hand side.

    Attributes:
        function: the user's function, for messages.
        field: the right-hand side: maps a time, a real vector and inputs to the slope.
        tableau: the coefficients of the method.
        times_move: whether the times are differentiated.
        compile: whether steps that are processed one by one run native code.
        known: solutions computed by SciPy, by the leaves that they belong to.
    """

    function: Callable[..., Any]
    field: Callable[..., Any]
    tableau: Tableau
    times_move: bool
    compile: bool = False
    known: dict[bytes, Leaves] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.field_of_values = on_values(self.field) if self.compile else self.field
        self.pulled: Callable[..., Any] = on_values(self._pulled) if self.compile else self._pulled
        self.pushed: Callable[..., Any] = on_values(self._pushed) if self.compile else self._pushed
        self.matrix: Callable[..., Any] = on_values(self._matrix) if self.compile else self._matrix

    def remember(self, leaves: Leaves) -> Leaves:
        """Store the states and slopes that are known for the given leaves."""
        self.known[key_of(leaves[2:])] = leaves[:2]
        return []

    def solution(self, leaves: Leaves) -> Leaves:
        """Return the states, of shape (N + 1, n), and the slopes of the stages, of shape (N, S, n).

        Args:
            leaves: the initial state, the times (N + 1 of them), and the inputs of the right-hand side.
        """
        name = name_of(self.function)
        warn_of_steps_along(name, self.field, leaves, lambda plain: (plain[1], self._solve(plain)[0]), self.times_move)
        return followed(self.function, self._call, self._linear, leaves)

    def _pulled(self, cotangent: Array, *at: Any) -> Leaves:
        """Return the cotangents of the state, of the time if times move, and of the inputs.

        Args:
            cotangent: the cotangent of the slope at one point.
            at: the time, the state and the inputs at this point.
        """
        return pulled(*self._moving(*at), cotangent)

    def _pushed(self, count: int, *given: Any) -> Any:
        """Return the tangent of the slope at one point; `count` primals precede the tangents."""
        return pushed(*self._moving(*given[:count]), given[count:])

    def _moving(self, t: Operand, y: Operand, *inputs: object) -> tuple[Callable[..., Any], list[Any]]:
        """Return the right-hand side at one point as a function of all variable arguments, and their values."""
        function = self.field
        if self.times_move:
            return lambda y, t, *inputs: function(t, y, *inputs), [y, t, *inputs]
        return lambda y, *inputs: function(t, y, *inputs), [y, *inputs]

    def _call(self, leaves: Leaves) -> Leaves:
        return for_each_example(self._solve, leaves)

    def _linear(self, leaves: Leaves, found: Leaves) -> Any:
        states, slopes = found
        line = _Line(self, states, slopes, leaves)
        return lambda cotangents: line.pull(*cotangents), lambda tangents: line.push(*tangents)

    def _solve(self, leaves: Leaves) -> Leaves:
        """Return the solution for plain leaves."""
        known = self.known.get(key_of(leaves))
        if known is not None:
            return known
        y, times, *inputs = leaves
        tableau, states, slopes = self.tableau, [y], []
        for t, h in zip(times, np.diff(times), strict=False):
            stages = self._stages(t, h, y, inputs) if tableau.is_explicit else self._implicit_stages(t, h, y, inputs)
            y = y + h * combined(tableau.b, stages)
            states.append(y)
            slopes.append(np.stack(stages))
        return [np.stack(states), np.stack(slopes)]

    def _slope(self, t: Operand, y: Operand, inputs: Leaves) -> Array:
        return np.asarray(strip_ended(self.field_of_values(t, y, *inputs)))

    def _stages(self, t: Operand, h: Any, y: Operand, inputs: Leaves) -> list[Any]:
        """Return the slopes of the stages of one step, of plain numbers."""
        stages: list[Any] = []
        for row, c in zip(self.tableau.a, self.tableau.c, strict=True):
            moved = y + h * combined(row, stages) if row.any() else y
            stages.append(self._slope(t + c * h, moved, inputs))
        return stages

    def _implicit_stages(self, t: Operand, h: Any, y: Operand, inputs: Leaves) -> list[Any]:
        """Return the same for implicit methods, by Newton's method."""
        tableau = self.tableau
        stages = np.stack([self._slope(t, y, inputs)] * tableau.stages)
        for _ in range(MOST_ITERATIONS):
            at = [(t + c * h, y + h * row @ stages, *inputs) for row, c in zip(tableau.a, tableau.c, strict=True)]
            left = np.stack([self._slope(t, y, inputs) for t, y, *_ in at]) - stages
            step = responses(tableau, h, self.jacobians(at)[None], left[None, ..., None])[0, ..., 0]
            stages = stages + step
            if not np.max(np.abs(step), initial=0) > 1e-14 * np.max(np.abs(stages), initial=0):
                break
        return list(stages)

    def jacobians(self, points: Sequence[Any]) -> Array:
        """Return the Jacobians of the right-hand side at several points, one by one; see `_Line._point`."""
        return np.stack([strip_ended(self.matrix(*at)) for at in points])

    def _matrix(self, t: Operand, y: Operand, *inputs: object) -> Any:
        return jacobian(lambda y: self.field(t, y, *inputs), mode="forward")(y)


def is_zero(x: Array) -> bool:
    """Return whether an array is a constant zero."""
    return type(strip_ended(x)) is not Tensor and not np.any(x)


class _Line:
    """Steps linearized at their states."""

    def __init__(self, steps: Steps, states: Array, slopes: Array, leaves: Leaves) -> None:
        self._steps, self._tableau = steps, steps.tableau
        self._states, self._slopes = states, slopes
        _, self._times, *self._inputs = leaves
        self._times_move = steps.times_move
        t = self._times
        self._h = t[1:] - t[:-1]
        self._inner = self._tableau.a @ slopes
        self._stage_times = t[:-1, None] + self._h[:, None] * self._tableau.c
        self._stage_states = states[:-1, None, :] + self._h[:, None, None] * self._inner
        self._jacobians: Any = None
        self._points: Any = None

    # All steps together

    def _linearize_points(self) -> None:
        """Compute the Jacobians of the right-hand side at all stages.

        Raises:
            NotTogether: the stages must be processed one by one.
        """
        if self._jacobians is not None:
            return
        count, stages, n = self._slopes.shape
        if n > LARGEST_MATRIX or not count:
            raise NotTogether
        self._points = Points(
            self._steps.field,
            self._inputs,
            np.reshape(self._stage_times, -1),
            np.reshape(self._stage_states, (-1, n)),
        )
        self._jacobians = np.reshape(self._points.jacobians(), (count, stages, n, n))

    def pull(self, of_states: Array, of_slopes: Array) -> Leaves:
        """Return the cotangents of the first state, the times and the inputs."""
        return first_that_works(  # type: ignore[no-any-return]
            lambda: self._pull_together(of_states, of_slopes), lambda: self._pull_one_by_one(of_states, of_slopes)
        )

    def _pull_together(self, of_states: Array, of_slopes: Array) -> Leaves:
        self._linearize_points()
        tableau, h, jacobians = self._tableau, self._h, self._jacobians
        reached = of_states
        if not is_zero(of_slopes):
            through = np.sum(transposed(tableau, h, jacobians, of_slopes)[1], axis=1)
            reached = reached + np.concatenate([through, np.zeros_like(reached[-1:])])
        back = reversed_recurrence(transitions(tableau, h, jacobians), reached)
        given = of_slopes + h[:, None, None] * tableau.b[:, None] * back[1:, None, :]
        of_stages, through_stages = transposed(tableau, h, jacobians, given)
        of_stage_times, of_inputs = self._points.pulled(np.reshape(of_stages, (-1, back.shape[1])), self._times_move)
        return [back[0], self._of_times(back, through_stages, of_stage_times), *of_inputs]

    def _of_times(self, back: Array, through_stages: Array, of_stage_times: Any) -> Any:
        """Return the cotangents of the times, which determine all step sizes and stage times."""
        if not self._times_move:
            return None
        tableau = self._tableau
        of_stage_times = np.reshape(of_stage_times, self._stage_times.shape)
        ends = np.sum(back[1:] * (tableau.b @ self._slopes), axis=-1)
        of_lengths = ends + np.sum(through_stages * self._inner, axis=(1, 2)) + of_stage_times @ tableau.c
        zero = np.zeros(1)
        return np.concatenate([np.sum(of_stage_times, axis=1) - of_lengths, zero]) + np.concatenate([zero, of_lengths])

    def push(self, of_start: Array, of_times: Array, *of_inputs: Array) -> Leaves:
        """Return the tangents of the states and slopes."""
        return first_that_works(  # type: ignore[no-any-return]
            lambda: self._push_together(of_start, of_times, of_inputs),
            lambda: self._push_one_by_one(of_start, of_times, of_inputs),
        )

    def _push_together(self, of_start: Array, of_times: Array, of_inputs: Leaves) -> Leaves:
        self._linearize_points()
        tableau, h, jacobians = self._tableau, self._h, self._jacobians
        of_lengths = of_times[1:] - of_times[:-1]
        of_stage_times = of_times[:-1, None] + of_lengths[:, None] * tableau.c
        moving = np.reshape(of_stage_times, -1) if self._times_move else None
        driven = np.reshape(self._points.pushed(moving, of_inputs), self._slopes.shape)
        driven = driven + (jacobians @ (of_lengths[:, None, None] * self._inner)[..., None])[..., 0]
        alone = responses(tableau, h, jacobians, driven[..., None])[..., 0]
        ends = h[:, None] * (tableau.b @ alone) + of_lengths[:, None] * (tableau.b @ self._slopes)
        terms = np.concatenate([of_start[None], ends])
        states = recurrence(transitions(tableau, h, jacobians), terms)
        first = driven + (jacobians @ states[:-1, None, :, None])[..., 0]
        return [states, responses(tableau, h, jacobians, first[..., None])[..., 0]]

    # Step by step

    def _point(self, step: int, stage: int) -> list[Any]:
        """Return the arguments of the right-hand side at one stage."""
        return [self._stage_times[step, stage], self._stage_states[step, stage], *self._inputs]

    def _pull_one_by_one(self, of_states: Any, of_slopes: Any) -> Leaves:
        count = self._slopes.shape[0]
        back = of_states[count]
        of_inputs: Leaves = [None] * len(self._inputs)
        backs, through, of_times = [back], [], []
        for step in reversed(range(count)):
            of_state, of_time, of_inputs = self._pull_step(step, back, of_slopes[step], of_inputs)
            back = of_states[step] + back + np.sum(of_state, axis=0)
            backs.append(back)
            through.append(of_state)
            of_times.append(of_time)
        if not self._times_move or not count:
            return [back, None, *of_inputs]
        whole = (np.stack(each[::-1]) for each in (backs, through, of_times))
        return [back, self._of_times(*whole), *of_inputs]

    def _pull_step(self, step: int, back: Any, of_slopes: object, of_inputs: Leaves) -> tuple[Any, Any, Leaves]:
        """Return the cotangents of the states and times at the stages of one step; add to those of the inputs."""
        of_state: list[Any] = []
        of_time: list[Any] = []
        for stage, cotangent in self._of_stages(step, back, of_slopes, of_state):
            if is_zero(cotangent):
                of_state.append(np.zeros(back.shape))
                of_time.append(np.zeros(()))
                continue
            found = list(self._steps.pulled(cotangent, *self._point(step, stage)))
            of_state.append(found.pop(0))
            of_time.append(found.pop(0) if self._times_move else np.zeros(()))
            of_inputs = [b if a is None else a if b is None else a + b for a, b in zip(of_inputs, found, strict=True)]
        return np.stack(of_state[::-1]), np.stack(of_time[::-1]), of_inputs

    def _of_stages(
        self, step: int, back: object, of_slopes: object, of_state: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        """Yield the stages of a step in reverse order, and the cotangents of their slopes.

        Args:
            step: the number of the step.
            back: the cotangent of the end of the step.
            of_slopes: the cotangents of the slopes, without the contribution of the end.
            of_state: the cotangents of the states at previous stages in this order, for explicit methods.
        """
        tableau, h = self._tableau, self._h[step]
        given = of_slopes + h * tableau.b[:, None] * back
        if not tableau.is_explicit:
            whole = transposed(tableau, h, self._jacobians_of(step), given[None])[0][0]
            yield from ((stage, whole[stage]) for stage in reversed(range(tableau.stages)))
            return
        for stage in reversed(range(tableau.stages)):
            later = tableau.a[stage + 1 :, stage][::-1]
            yield stage, given[stage] + h * combined(later, of_state) if later.any() else given[stage]

    def _jacobians_of(self, step: int) -> Any:
        """Return the Jacobians at the stages of one step, with a leading axis of size 1."""
        return self._steps.jacobians([self._point(step, stage) for stage in range(self._tableau.stages)])[None]

    def _push_one_by_one(self, of_start: Any, of_times: Any, of_inputs: Leaves) -> Leaves:
        tableau = self._tableau
        moved, states, slopes = of_start, [of_start], []
        of_lengths = of_times[1:] - of_times[:-1]
        for step in range(self._slopes.shape[0]):
            h, of_h = self._h[step], of_lengths[step]
            stages: list[Any] = []
            for stage in range(tableau.stages):
                tangent = moved + of_h * self._inner[step, stage]
                if tableau.is_explicit and tableau.a[stage].any():
                    tangent = tangent + h * combined(tableau.a[stage], stages)
                of_time = [of_times[step] + tableau.c[stage] * of_h] if self._times_move else []
                at = self._point(step, stage)
                stages.append(self._steps.pushed(len(at), *at, tangent, *of_time, *of_inputs))
            if not tableau.is_explicit:
                first = np.stack(stages)[None, ..., None]
                stages = list(responses(tableau, h, self._jacobians_of(step), first)[0, ..., 0])
            moved = moved + h * combined(tableau.b, stages) + of_h * (tableau.b @ self._slopes[step])
            states.append(moved)
            slopes.append(np.stack(stages))
        return [np.stack(states), np.stack(slopes)]


class Interpolated:
    """A solution as a function of time, by the interpolant of the method.

    Args:
        tableau: the coefficients of the method and of its interpolant.
        times, states, slopes: the steps; they may be traced.

    Attributes:
        parts: the arrays that define it.
    """

    def __init__(self, tableau: Tableau, times: Array, states: Array, slopes: Array) -> None:
        self._tableau = tableau
        self.times, self.states, self._slopes = times, states, slopes
        self.parts = [times, states, slopes]

    def of(self, parts: Leaves) -> Interpolated:
        """Return the same solution with other arrays."""
        return Interpolated(self._tableau, *parts)

    def at(self, times: ArrayLike) -> Any:
        """Return the states at the given times, of shape (m, n); a time may be slightly outside."""
        (places,) = for_each_example(places_of, values_of([self.times, times]))
        begin = self.times[places]
        h = self.times[places + 1] - begin
        passed = times - begin
        weights = self._tableau.weights(passed / np.where(h == 0, 1.0, h))
        moved = np.sum(weights[:, :, None] * self._slopes[places], axis=1)
        return self.states[places] + passed[:, None] * moved


def places_of(leaves: Leaves) -> Leaves:
    """Return the step that contains each time; the end of a step belongs to it, as in SciPy."""
    steps, times = leaves
    lengths = np.diff(steps)
    direction = np.sign(steps[-1] - steps[0]) or 1.0
    last = np.flatnonzero(lengths)[-1:]  # steps of length 0 pad the shorter examples of a batch
    found = np.searchsorted(direction * steps[1:], direction * times)
    return [np.minimum(found, last[0] if len(last) else 0)]
