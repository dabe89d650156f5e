"""An initial value problem: SciPy's arguments, and the data for the derivative of the solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.native.compiled import Compiled
from fgrad.scipy.integrate._callback import UsersFunctions, as_now
from fgrad.scipy.integrate._forms import SCIPYS, array_of, complex_form, real_form, slope_of
from fgrad.scipy.integrate._records import Record, recording
from fgrad.scipy.integrate._tableau import BY_STAGES
from fgrad.scipy.integrate._variational import Track
from fgrad.scipy.integrate.adjoint import states_at, track_of
from fgrad.transforms.calls import name_of
from fgrad.typing import Array, ArrayLike

_OF_EVENTS = ("terminal", "direction")


@dataclass(eq=False)
class Problem:
    """An initial value problem, except for its values.

    Attributes:
        function: the right-hand side.
        args: its extra arguments.
        method: a SciPy solver class.
        events: the event functions, if any.
        dense_output, derivative: as for `solve_ivp`.
        options: further options of SciPy.
        compile: whether SciPy gets native code.
        users: the callbacks: right-hand side, events, and Jacobian if there is one.
        leaves: the initial state, the first and the last time, and the output times if given.
        found: SciPy's results, and its steps.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    method: Any
    events: list[Callable[..., Any]] | None
    dense_output: bool
    derivative: str
    options: dict[str, Any]
    compile: bool = False

    def __post_init__(self) -> None:
        self.options = as_now(self.options)
        jacobian = [self.options["jac"]] if callable(self.options.get("jac")) else []
        self.leaves: list[Any] = []
        self.found: list[tuple[Any, Record]] = []
        self.has_output_times = False
        self.users = UsersFunctions([self.function, *(self.events or []), *jacobian], self.args, self.compile)
        self.compile = self.compile or isinstance(self.function, Compiled)

    def solve(self, t_span: Any, y0: Any, t_eval: ArrayLike | None) -> list[Any]:
        """Run SciPy's solver; its results are appended to `found`.

        Returns:
            For each example: its index in `found`, the times and states of the steps, the slopes of the
            stages or the orders if the steps are differentiated, and the times of all events. Nothing, if
            nothing is traced.
        """
        start, end = t_span
        self.has_output_times = t_eval is not None
        self.leaves = [array_of(each) for each in (y0, start, end, *([t_eval] if self.has_output_times else []))]
        return self.users.run(self._solve, self.leaves)  # type: ignore[no-any-return]

    def is_dense(self) -> bool:
        """Return whether states between the steps are needed."""
        return self.has_output_times or self.dense_output or self.events is not None

    def _solve(self, functions: Sequence[Callable[..., Any]], leaves: Sequence[Any]) -> list[Any]:
        """Run SciPy's solver for plain values, and return the data for the derivative."""
        record = Record()
        if not self.users.is_traced(self.leaves):
            self.found = [(self._scipys(functions, leaves, self.method, dense_output=self.dense_output), record)]
            return []
        self._check_method()
        method = recording(self.method, record, self.is_dense() or self.derivative == "adjoint")
        found = self._scipys(functions, leaves, method)
        if found.status < 0:
            raise errors.ConvergenceError(
                f"SciPy did not solve the initial value problem of {name_of(self.function)}: {found.message}\n"
                "There is no solution to differentiate. Use another method, other tolerances, or a shorter time span."
            )
        self.found.append((found, record))
        states = real_form(np.stack(record.states))
        details = [real_form(record.details())] if self.derivative == "steps" else []
        crossings = [np.asarray(each, float) for each in found.t_events or []]
        return [np.array(len(self.found) - 1), np.array(record.times), states, *details, *crossings]

    def _scipys(
        self, functions: Any, leaves: Any, method: Any, with_events: bool = True, dense_output: bool = False
    ) -> Any:
        """Return SciPy's result for plain functions and values."""
        fun, *further = functions
        y0, start, end, *output_times = leaves
        options = dict(self.options)
        if self.events is not None and with_events:
            options["events"] = further[: len(self.events)]
            for event, own in zip(options["events"], self.events, strict=True):
                vars(event).update({name: getattr(own, name) for name in _OF_EVENTS if hasattr(own, name)})
        if callable(options.get("jac")):
            options["jac"] = further[-1]
        if output_times:
            options["t_eval"] = output_times[0]
        return SCIPYS.solve_ivp(fun, (start, end), y0, method, dense_output=dense_output, **options)

    def _check_method(self) -> None:
        known = (*BY_STAGES, SCIPYS.BDF)
        if self.derivative == "steps" and not (isinstance(self.method, type) and issubclass(self.method, known)):
            name = getattr(self.method, "__name__", repr(self.method))
            raise errors.ParameterError(
                f"the solution of {name_of(self.function)} by {name} cannot be differentiated step by step: what its "
                "steps do is not known.\n"
                "Use derivative='adjoint', or one of the methods RK23, RK45, DOP853, Radau and BDF."
            )

    # Data for the derivative

    def field(self, t: Array, state: Array, *inputs: Array) -> Any:
        """Return the right-hand side for traced values and a state in real form."""
        y = self.state(state)
        column = y[:, None] if self.options["vectorized"] else y
        return real_form(slope_of(self.users.call(0, inputs, t, column), y))

    def state(self, state: Array) -> Any:
        """Return states in the form of the user's functions, from their real form."""
        return complex_form(state) if self.leaves[0].dtype.kind == "c" else state

    def solve_again(self, leaves: Sequence[Any]) -> Track:
        """Solve the problem with SciPy from a plain state to plain times, for plain inputs."""
        start, times, *inputs = leaves
        record, wanted = Record(), np.unique(times)
        wanted = wanted if times[-1] >= times[0] else wanted[::-1]

        def solve(functions: Sequence[Callable[..., Any]], leaves: Sequence[Any]) -> Any:
            return self._scipys(functions, leaves, recording(self.method, record, True), with_events=False)

        found = self.users.run_plainly(solve, [self.state(start), times[0], times[-1], wanted], inputs)
        return track_of(record, states_at(found, start, times))
