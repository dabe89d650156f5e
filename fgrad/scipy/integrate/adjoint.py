"""The continuous derivative of the solution of a differential equation, for any solver.

    Trajectory(system).states(leaves)     the traced states at output times
    System                                an equation, and its solver

A perturbation x of the solution of y' = f(t, y, p) satisfies x' = f_y x + f_p dp: forward mode. Reverse mode is the
transpose, the adjoint equation a' = -f_y^T a, which is solved backwards from each output time to the previous one
(Pontryagin; Chen et al. 2018, https://arxiv.org/abs/1806.07366), together with the integral of f_p^T a. The
solution y(t) in them is the interpolant of the solver: a stable equation would be unstable if solved backwards.
`_variational.py` solves them in batches; SciPy solves large systems, and those that cannot be batched.

Higher orders follow. The perturbation x is part of the solution (y, x) of the two equations together, which is
a trajectory again. And the adjoint equation computes the transpose of that perturbation, so its own
derivative is the derivative of the perturbation, transposed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.tensor import strip_ended
from fgrad.native.values import on_values
from fgrad.ops.tracing import is_always_zero, raw_array
from fgrad.rules.rule import Leaves
from fgrad.rules.vectors import raveled
from fgrad.scipy.integrate._callback import for_each_example, values_of
from fgrad.scipy.integrate._discontinuities import warn_of_steps_along
from fgrad.scipy.integrate._forms import SCIPYS, followed, is_moving, key_of, real_form
from fgrad.scipy.integrate._records import Record, recording
from fgrad.scipy.integrate._tableau import EXPLICIT
from fgrad.scipy.integrate._variational import Along, Track
from fgrad.scipy.integrate._vectorized import Points, first_that_works, pulled, pushed
from fgrad.transforms.calls import name_of
from fgrad.transforms.jacobians import jacobian
from fgrad.transforms.reverse import vjp
from fgrad.typing import Array, ArrayLike, Operand


@dataclass(eq=False)
class System:
    """A differential equation for real vectors, and its solver.

    Its leaves are the initial state, the output times (the first one is the start), and
    the inputs of the right-hand side.

    Attributes:
        function: the user's function, for messages.
        field: the traced right-hand side: maps a time, a vector and inputs to the slope.
        method: a SciPy solver class.
        rtol, atol: its tolerances; the absolute one may be a vector.
        solve: maps plain leaves to the solution; by default the field is passed to the method.
        options: further options of the method.
        compile: whether the method gets native code.
    """

    function: Callable[..., Any]
    field: Callable[..., Any]
    method: Any
    rtol: float
    atol: Any
    solve: Callable[[Leaves], Track] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    compile: bool = False
    _known: dict[bytes, Track] = field(default_factory=dict)

    def remember(self, leaves: Leaves, track: Track) -> None:
        """Store the solution for plain leaves; it is valid for any other output times, too."""
        self._known[key_of(leaves)] = track
        self._known[key_of([leaves[0], leaves[1][:1], *leaves[2:]])] = track

    def track(self, leaves: Leaves) -> Track:
        """Return the solution for plain leaves."""
        known = self._known.get(key_of(leaves))
        if known is not None:
            return known
        start, times, *inputs = leaves
        known = self._known.get(key_of([start, times[:1], *inputs]))
        if known is None or not known.reaches(times):
            known = (self.solve or self._solve)(leaves)
            self.remember(leaves, known)
            return known
        return known.with_output_at(times)

    @functools.cached_property
    def doubled(self) -> System:
        """The equation for the solution and a perturbation of it; its inputs precede their tangents."""

        def with_change(t: Array, both: Array, *inputs: Array) -> Array:
            n, count = both.shape[0] // 2, len(inputs) // 2
            y, x, own, moving = both[:n], both[n:], inputs[:count], inputs[count:]
            slope = pushed(lambda y, *own: self.field(t, y, *own), [y, *own], [x, *moving])
            return np.concatenate([self.field(t, y, *own), slope])

        atol = self.atol if np.ndim(self.atol) == 0 else np.tile(self.atol, 2)
        how: dict[str, Any] = {"options": self.options, "compile": self.compile}
        return System(self.function, with_change, self.method, self.rtol, atol, **how)

    @functools.cached_property
    def adjoint(self) -> Callable[..., Any]:
        """The slope of a cotangent and of integrals in one vector, from cotangent, time, state and inputs."""

        def slope(both: Any, t: Operand, y: Array, *inputs: object) -> Any:
            cotangent = both[: y.shape[0]]
            of_state, *found = pulled(lambda y, *inputs: self.field(t, y, *inputs), [y, *inputs], cotangent)
            return -np.concatenate([of_state, raveled([x for x in found if x is not None])[0]])

        return self._on_values(slope)

    @functools.cached_property
    def _field_of_values(self) -> Callable[..., Any]:
        return self._on_values(self.field)

    @functools.cached_property
    def _matrix_of_values(self) -> Callable[..., Any]:
        return self._on_values(lambda t, y, *inputs: jacobian(lambda y: self.field(t, y, *inputs), mode="forward")(y))

    def _on_values(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return on_values(function) if self.compile else function

    def _solve(self, leaves: Leaves) -> Track:
        start, times, *inputs = leaves

        def slope(t: float, y: Array) -> Any:
            return np.asarray(strip_ended(self._field_of_values(np.float64(t), y, *inputs)))

        def matrix(t: Array, y: Array) -> Any:
            return np.asarray(strip_ended(self._matrix_of_values(np.float64(t), y, *inputs)))

        options = {} if issubclass(self.method, EXPLICIT) else {"jac": matrix}
        record = Record()
        found = self.solved_by_scipy(slope, times, start, recording(self.method, record, True), self.atol, **options)
        return track_of(record, states_at(found, start, times))

    def solved_by_scipy(
        self, slope: Callable[..., Any], times: Any, start: ArrayLike, method: Any, atol: Any, **options: Any
    ) -> Any:
        """Return SciPy's result at the given times, from the first of them to the last.

        Raises:
            ConvergenceError: SciPy did not reach the last one.
        """
        wanted = np.unique(times)
        wanted = wanted if times[-1] >= times[0] else wanted[::-1]
        span = times[0], times[-1]
        options = {**self.options, **options, "rtol": self.rtol, "atol": atol, "t_eval": wanted}
        found = SCIPYS.solve_ivp(slope, span, start, method, **options)
        if found.status < 0:
            raise errors.ConvergenceError(
                f"SciPy did not solve the equation for a derivative of {name_of(self.function)}: {found.message}\n"
                "Use another method, other tolerances, or a shorter time span."
            )
        return found


def states_at(found: Any, start: Any, times: Any) -> Any:
    """Return the real states at output times, which may be repeated, from SciPy's result.

    Args:
        found: SciPy's result, at each of these times but perhaps the first one.
        start: the initial state, in real form.
        times: the output times; the first one is the start of the solution.
    """
    sign = 1.0 if times[-1] >= times[0] else -1.0
    places = np.searchsorted(sign * found.t, sign * times[1:])
    return np.concatenate([start[None], real_form(found.y.T)[places]])


def track_of(record: Record, states: Any) -> Track:
    """Return SciPy's steps as a solution in real form.

    Args:
        record: the steps.
        states: the states at the output times.
    """

    def in_real_numbers(interpolant: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda times: real_form(interpolant(times).T)

    return Track(states, np.array(record.times), list(map(in_real_numbers, record.interpolants)))


class Trajectory:
    """The states of a system at its output times, as a function of its leaves."""

    def __init__(self, system: System) -> None:
        self._system = system

    def states(self, leaves: Leaves) -> Any:
        """Return the states at all times, of shape (M + 1, n)."""
        system = self._system
        warn_of_steps_along(name_of(system.function), system.field, leaves, lambda plain: system.track(plain).points())
        return followed(system.function, self._call, self._linear, leaves)[0]

    def _call(self, leaves: Leaves) -> Leaves:
        return for_each_example(lambda leaves: [self._system.track(leaves).states], leaves)

    def _linear(self, leaves: Leaves, found: Leaves) -> Any:
        (states,) = found
        return (
            lambda cotangents: self._pull(leaves, states, cotangents[0]),
            lambda tangents: [self._tangent(leaves, states, tangents)],
        )

    def _pull(self, leaves: Leaves, states: Array, cotangents: Array) -> Leaves:
        slopes = self._slopes(leaves, states)
        of_start, *of_inputs = self._transposed([*leaves, cotangents[1:]])
        of_first = -np.sum(of_start * slopes[0], keepdims=True)
        of_times = np.concatenate([of_first, np.sum(cotangents * slopes, axis=1)[1:]])
        return [cotangents[0] + of_start, of_times, *of_inputs]

    def _tangent(self, leaves: Leaves, states: Array, tangents: Leaves) -> Any:
        of_start, of_times, *of_inputs = tangents
        if is_always_zero(of_times):  # constant times
            return np.concatenate([of_start[None], self._change(leaves, of_start, of_inputs)[1:]])
        start, times, *inputs = leaves
        # Not from `states`: under a series trace, these have coefficients only once their tangent is known.
        first = self._system.field(times[0], start, *inputs)
        slopes = self._slopes(leaves, states)
        moved = self._change(leaves, of_start - first * of_times[0], of_inputs) + slopes * of_times[:, None]
        return np.concatenate([of_start[None], moved[1:]])

    def _slopes(self, leaves: Leaves, states: Array) -> Any:
        """Return the slopes at all output times."""
        _, times, *inputs = leaves
        return Points(self._system.field, inputs, times, states).values()

    # The perturbation of the states due to those of the initial state and of the inputs, and its transpose

    def _change(self, leaves: Leaves, of_start: Array, of_inputs: Leaves) -> Any:
        """Return the perturbation at all output times."""
        everything, count = [*leaves, of_start, *of_inputs], len(leaves)

        def of_one(plain: Leaves) -> Leaves:
            return [self._along(plain[:count]).forwards(plain[count], plain[count + 1 :])]

        def of_values() -> Any:
            return for_each_example(of_one, everything)[0]

        def in_general() -> Any:
            return self._change_with_the_solution(leaves, of_start, of_inputs)

        return in_general() if any(map(is_moving, everything)) else first_that_works(of_values, in_general)

    def _change_with_the_solution(self, leaves: Leaves, of_start: Array, of_inputs: Leaves) -> Any:
        """Return the perturbation as part of the solution of a system of twice the size."""
        start, times, *inputs = leaves
        # The perturbation is linear in these; scaled to about 1 it suits the absolute tolerance.
        size = float(max(np.max(np.abs(raw_array(x)), initial=0.0) for x in (of_start, *of_inputs))) or 1.0
        both = [np.concatenate([start, of_start / size]), times, *inputs, *(x / size for x in of_inputs)]
        return Trajectory(self._system.doubled).states(both)[:, start.shape[0] :] * size

    def _transposed(self, leaves: Leaves) -> Leaves:
        """Return the cotangents of the initial state and of the inputs.

        Args:
            leaves: those of the system, and the cotangents of the states at all times but the first.
        """
        return followed(self._system.function, self._transposed_of_values, self._linear_transposed, leaves)

    def _linear_transposed(self, leaves: Leaves, found: Leaves) -> Any:
        *own, cotangents = leaves
        start, times, *inputs = own

        def pull(bars: Leaves) -> Leaves:
            moved, back = vjp(lambda *own: self._change(own, bars[0], bars[1:])[1:], *own)
            return [*back(cotangents), moved]

        def push(tangents: Leaves) -> Leaves:
            *of_own, of_cotangents = tangents

            def moved(start: Array, *inputs: Array) -> Any:
                leaves = [start, times, *inputs]
                return self._tangent(leaves, self.states(leaves), of_own)[1:]

            curved = vjp(moved, start, *inputs)[1](cotangents)
            straight = self._transposed([*own, of_cotangents])
            return [b if a is None else a + b for a, b in zip(curved, straight, strict=True)]

        return pull, push

    def _transposed_of_values(self, leaves: Leaves) -> Leaves:
        def of_one(leaves: Leaves) -> Leaves:
            *own, cotangents = leaves
            size = np.max(np.abs(cotangents), initial=0.0) or 1.0  # the equation is linear
            of_start, of_inputs = first_that_works(
                lambda: self._along(own).backwards(cotangents / size),
                lambda: self._backwards_by_scipy(own, cotangents / size),
            )
            found = [np.zeros(np.shape(x)) if y is None else y * size for x, y in zip(own[2:], of_inputs, strict=True)]
            return [of_start * size, *found]

        return for_each_example(of_one, leaves)

    def _along(self, leaves: Leaves) -> Along:
        system, (_, times, *inputs) = self._system, leaves
        return Along(system.function, system.field, inputs, system.track(leaves), times, system.rtol)

    def _backwards_by_scipy(self, leaves: Leaves, cotangents: Any) -> tuple[Any, Leaves]:
        """Solve the adjoint equation with vector-Jacobian products only, by the method of the system."""
        system, (_, times, *inputs) = self._system, leaves
        track, n = system.track(leaves), cotangents.shape[1]
        moving = [x if x.dtype.kind in "fc" else None for x in inputs]
        integrals, restore = raveled([np.zeros_like(x) for x in moving if x is not None])

        def slope(t: Any, both: object) -> Any:
            return np.asarray(strip_ended(system.adjoint(both, np.float64(t), track.at_one(t), *inputs)))

        back = np.concatenate([np.zeros(n), integrals])
        atol = system.atol
        if np.ndim(atol):
            atol = np.concatenate([atol, np.full(integrals.shape, np.min(atol))])
        ends = [place for place in range(len(cotangents)) if cotangents[place].any()]
        for place, end in enumerate(reversed(ends)):
            back[:n] += cotangents[end]
            begin = ends[-2 - place] + 1 if place + 1 < len(ends) else 0
            span = times[[end + 1, begin]]
            if span[0] != span[1]:
                back = system.solved_by_scipy(slope, span, back, system.method, atol).y[:, -1]
        rest = iter(restore(back[n:]))
        return back[:n], [None if x is None else next(rest) for x in moving]


class Solved:
    """The solution of a system as a function of time.

    Args:
        system: the equation.
        start: the initial state.
        times: the times of the steps; the first one is the start of the system.
        inputs: the inputs of the right-hand side.

    Attributes:
        parts: the arrays that define it.
    """

    def __init__(self, system: System, start: Array, times: Array, inputs: Leaves) -> None:
        self._system, self._start, self._inputs = system, start, list(inputs)
        self.times = times
        self.parts = [start, times, *inputs]

    def of(self, parts: Leaves) -> Solved:
        """Return the same solution with other arrays."""
        start, times, *inputs = parts
        return Solved(self._system, start, times, inputs)

    @functools.cached_property
    def states(self) -> Any:
        """The states at the ends of the steps."""
        return Trajectory(self._system).states(self.parts)

    def at(self, times: Any) -> Any:
        """Return the states at some times, of shape (m, n)."""
        order, back = for_each_example(self._order, values_of([self.times, times]))
        ordered = np.concatenate([self.times[:1], times[order]])
        return Trajectory(self._system).states([self._start, ordered, *self._inputs])[1:][back]

    def _order(self, leaves: Leaves) -> Leaves:
        """Return the times in the order of the solution, and their original positions."""
        steps, times = leaves
        low, high = sorted((steps[0], steps[-1]))
        if np.any((times < low) | (times > high)):
            raise errors.ParameterError(
                f"the solution of {name_of(self._system.function)} is known from t = {low:.6g} to {high:.6g}, but is "
                f"evaluated at {times}.\nWith derivative='adjoint' there is no extrapolation."
            )
        order = np.argsort(times if steps[-1] >= steps[0] else -times, kind="stable")
        return [order, np.argsort(order)]
