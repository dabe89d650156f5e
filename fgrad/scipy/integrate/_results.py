"""The results of `solve_ivp`: SciPy's result, with differentiable arrays.

TracedResult(problem, ...).result()     the result
Solution                                its `sol`, the solution as a function of time
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.integrate import BDF

from fgrad import errors
from fgrad.ops.tracing import raw_array
from fgrad.rules.implicit import Equation, solution
from fgrad.scipy.integrate._backward import Backward, Differences
from fgrad.scipy.integrate._callback import for_each_example, values_of
from fgrad.scipy.integrate._forms import array_of, as_result, floating, is_moving, real_form
from fgrad.scipy.integrate._problem import Problem
from fgrad.scipy.integrate._records import Record
from fgrad.scipy.integrate._rk_adjoint import Interpolated, Steps
from fgrad.scipy.integrate._tableau import Tableau
from fgrad.scipy.integrate.adjoint import Solved, System, track_of
from fgrad.transforms.calls import name_of
from fgrad.transforms.reverse import stop_gradient
from fgrad.typing import Array


class TracedResult:
    """The result of `solve_ivp` for traced arguments.

    Args:
        problem: the solved problem.
        arrays: the result of `problem.solve` for an example or a batch.
    """

    def __init__(self, problem: Problem, arrays: Sequence[Any]) -> None:
        self._problem, self._inputs = problem, problem.users.inputs()
        numbers, times, states, *further = arrays
        self._found = [problem.found[number] for number in np.ravel(raw_array(numbers))]
        start, first, last, *self._output_times = map(floating, problem.leaves)
        start, times_move = real_form(start), is_moving(first) or is_moving(last)
        moving = anchored(times, first, last) if times_move else times
        self._flow: Interpolated | Differences | Solved
        if problem.derivative == "steps":
            details, *self._crossings = further
            self._flow = self._by_steps(states, details, start, moving, times_move)
        else:
            self._crossings = further
            self._flow = self._solved(numbers, states, start, moving)

    def _by_steps(
        self, states: Array, details: Array, start: Array, times: Array, times_move: bool
    ) -> Differences | Interpolated:
        """Return the solution for derivatives of the steps, with SciPy's states as known values."""
        problem = self._problem
        if issubclass(problem.method, BDF):
            backward = Backward(problem.function, problem.field, times_move)
            return backward.solved(states, details, start, times, self._inputs)
        tableau = Tableau.of_method(problem.method, problem.is_dense())
        steps = Steps(problem.function, problem.field, tableau, times_move, problem.compile)
        own = [start, times, *self._inputs]
        for_each_example(steps.remember, values_of([states, details, *own]))
        return Interpolated(tableau, times, *steps.solution(own))

    def _solved(self, numbers: Array, states: Array, start: Array, times: Array) -> Solved:
        """Return the solution for derivatives by the adjoint equation, with SciPy's states as known values."""
        problem = self._problem
        options = {"rtol": 1e-3, "atol": 1e-6, **problem.options}
        steps = {"max_step": options["max_step"]} if "max_step" in options else {}
        rtol, atol = float(np.min(options["rtol"])), options["atol"]
        if np.ndim(atol) and problem.leaves[0].dtype.kind == "c":
            atol = np.tile(atol, 2)  # for real and imaginary parts
        how: dict[str, Any] = {"solve": problem.solve_again, "options": steps, "compile": problem.compile}
        system = System(problem.function, problem.field, problem.method, rtol, atol, **how)

        def remember(leaves: Sequence[Any]) -> list[Any]:
            number, states, start, times, *inputs = leaves
            result, record = problem.found[int(number)]
            if self._output_times:
                states = np.concatenate([start[None], real_form(result.y.T)])
                times = np.concatenate([record.times[:1], result.t])
            system.remember([start, times, *inputs], track_of(record, states))
            return []

        for_each_example(remember, values_of([numbers, states, start, times, *self._inputs]))
        return Solved(system, start, times, self._inputs)

    def result(self) -> Any:
        """Return SciPy's result with differentiable arrays."""
        problem, results = self._problem, [result for result, _ in self._found]
        fields: dict[str, Any] = {"sol": None}
        if problem.events is not None:
            fields["t_events"], fields["y_events"] = self._events()
        ending = self._common([_ending(*each) for each in self._found], "events that end them")
        times, last = self._flow.times, None
        is_last = times == times[-1]  # several, where steps of length 0 pad the shorter examples of a batch
        if ending is not None:
            last = fields["t_events"][ending][-1:]
            times = np.where(is_last, last, times)
        if self._output_times:
            count = self._common([len(result.t) for result in results], "numbers of times of output")
            fields["t"] = self._output_times[0][:count]
            states = self._flow.at(fields["t"]) if count else np.zeros((0, *self._flow.states.shape[1:]))
        else:
            fields["t"], states = times, self._flow.states
            states = states if last is None else np.where(is_last[:, None], self._flow.at(last), states)
        fields["y"] = np.swapaxes(problem.state(states), 0, 1)
        if problem.dense_output:
            fields["sol"] = Solution(self._flow, times, problem.state)
        return with_fields(_joined(results), {name: _boxed(each) for name, each in fields.items()})

    def _events(self) -> tuple[list[Any], list[Any]]:
        """Return the times and states of all events, which are differentiable."""
        times, states = [], []
        for number, found in enumerate(self._crossings):
            self._common([len(result.t_events[number]) for result, _ in self._found], "numbers of events")
            moved = [self._crossing(number, found[place : place + 1]) for place in range(found.shape[0])]
            times.append(np.concatenate(moved) if moved else np.zeros(0))
            states.append(self._problem.state(self._flow.at(times[-1])) if moved else np.zeros(0))
        return times, states

    def _crossing(self, number: int, found: object) -> Any:
        """Return the time of an event, of shape (1,), as the root of the event function along the solution."""
        problem, flow, count = self._problem, self._flow, len(self._flow.parts)

        def residuals(t: Array, leaves: Sequence[Any]) -> Any:
            state = problem.state(flow.of(leaves[1 : 1 + count]).at(t)[0])
            return np.reshape(array_of(problem.users.call(1 + number, leaves[1 + count :], t[0], state)), (1,))

        function = (problem.events or [])[number]
        return solution(Equation(function, lambda leaves: leaves[0], residuals), [found, *flow.parts, *self._inputs])

    def _common(self, counts: Sequence[Any], what: str) -> Any:
        """Return a property that all examples of a batch must share."""
        if len(set(counts)) > 1:
            raise errors.ShapeError(
                f"the solutions of {name_of(self._problem.function)} under vmap have different {what}: {counts}. "
                "Their results do not fit into one array.\nSolve the examples in a loop."
            )
        return counts[0]


def _ending(found: Any, record: Record) -> int | None:
    """Return the index of the event that ended a solution: the latest event."""
    if found.status != 1:
        return None
    direction = 1.0 if record.times[-1] > record.times[0] else -1.0
    return int(np.argmax([direction * times[-1] if len(times) else -np.inf for times in found.t_events]))


def anchored(times: Array, first: Array, last: Array) -> Any:
    """Return the times of steps as fixed fractions of a variable interval."""
    begin, end = stop_gradient(first), stop_gradient(last)
    span = end - begin
    fractions = np.where(span == 0, np.arange(times.shape[0]) > 0, (times - begin) / np.where(span == 0, 1.0, span))
    return times + (1 - fractions) * (first - begin) + fractions * (last - end)


class Solution:
    """The solution as a function of time, like `scipy.integrate.OdeSolution`, and differentiable.

    Attributes:
        ts: the times of the steps.
        t_min, t_max: the smallest and the largest of them.
    """

    def __init__(self, flow: Interpolated | Differences | Solved, times: Any, state: Callable[[Any], Any]) -> None:
        self._flow, self._state = flow, state
        self.ts = as_result(times)
        self.t_min, self.t_max = (as_result(function(times[0], times[-1])) for function in (np.minimum, np.maximum))

    def __call__(self, t: Any) -> Any:
        """Return the state at a time, or at several times, one column each."""
        t = floating(array_of(t))
        if t.ndim > 1:
            raise errors.ShapeError(f"a solution takes a time or a vector of times, but got shape {t.shape}.")
        found = self._state(self._flow.at(np.reshape(t, -1)))
        return as_result(found[0] if t.ndim == 0 else np.swapaxes(found, 0, 1))


# SciPy's results


def with_fields(result: Any, fields: dict[str, Any]) -> Any:
    """Return a SciPy result with other entries."""
    return type(result)({**result, **fields})


def _boxed(field: Any) -> Any:
    if isinstance(field, list):
        return [as_result(each) for each in field]
    return as_result(field) if hasattr(field, "dtype") else field


def _joined(results: Sequence[Any]) -> Any:
    """Return the result of one example, or those of a batch combined, with lists of entries that are not arrays."""
    if len(results) == 1:
        return results[0]
    joined = {name: [result[name] for result in results] for name in ("nfev", "njev", "nlu", "status", "message")}
    return with_fields(results[0], {**joined, "success": all(result.success for result in results)})
