"""What SciPy's solvers do, written down: the accepted steps, with slopes and interpolants.

record = Record()
solve_ivp(fun, t_span, y0, method=recording(RK45, record, dense=True))
record.times, record.states, record.slopes, record.interpolants
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.integrate

from fgrad.scipy.integrate._stages import BY_STAGES, Tableau

Solver = Any

METHODS: dict[str, Any] = {
    name: getattr(scipy.integrate, name) for name in ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")
}


class Record:
    """The accepted steps of one solution.

    Attributes:
        times, states: where each step begins, and where the last one ends.
        slopes: for each step those of all stages, if the method is a Runge-Kutta method.
        interpolants: for each step SciPy's, if they were asked for.
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self.states: list[Any] = []
        self.slopes: list[Any] = []
        self.interpolants: list[Any] = []

    def begin(self, solver: Solver) -> None:
        """Note where a solver starts."""
        self.times, self.states, self.slopes, self.interpolants = [solver.t], [np.array(solver.y)], [], []

    def add(self, solver: Solver, dense: bool) -> None:
        """Note the step that a solver has done."""
        self.times.append(solver.t)
        self.states.append(np.array(solver.y))
        if dense:
            self.interpolants.append(solver.dense_output())
        if isinstance(solver, BY_STAGES):
            self.slopes.append(_slopes(solver, dense))


def _slopes(solver: Solver, dense: bool) -> Any:
    if solver.t == solver.t_old:  # SciPy has computed nothing for a step of length 0
        stages = Tableau.of_method(type(solver), dense).stages
        return np.array(np.broadcast_to(solver.f, (stages, len(solver.f))))
    if isinstance(solver, scipy.integrate.Radau):  # it has moves h A k of the stages in place of slopes k
        tableau = Tableau.of_method(scipy.integrate.Radau, dense)
        moved: Any = solver.Z
        return np.linalg.solve(tableau.a, moved) / (solver.t - solver.t_old)
    return np.array(getattr(solver, "K_extended", solver.K) if dense else solver.K[: solver.n_stages])


def recording(method: Any, record: Record, dense: bool) -> Any:
    """Return a method of SciPy's that writes down what it does.

    Args:
        method: a class of solvers.
        record: where to write.
        dense: whether interpolants are wanted; they may take further slopes.
    """

    class Recording(method):  # type: ignore[misc]
        _interpolant: Any = None

        def __init__(self, *args: Any, **keywords: Any) -> None:
            super().__init__(*args, **keywords)
            record.begin(self)

        def step(self) -> Any:
            self._interpolant = None
            message = super().step()
            if self.status != "failed":
                record.add(self, dense)
            return message

        def dense_output(self) -> Any:
            if self._interpolant is None:
                self._interpolant = super().dense_output()
            return self._interpolant

    Recording.__name__ = Recording.__qualname__ = method.__name__
    return Recording
