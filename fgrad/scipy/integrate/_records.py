"""Records of SciPy's solvers: the accepted steps, with slopes and interpolants.

record = Record()
solve_ivp(fun, t_span, y0, method=recording(RK45, record, dense=True))
record.times, record.states, record.slopes, record.interpolants
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate

from fgrad.scipy.integrate._tableau import BY_STAGES, Tableau
from fgrad.typing import Array

Solver = Any

METHODS: dict[str, Any] = {
    name: getattr(scipy.integrate, name) for name in ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")
}


class Record:
    """The accepted steps of one solution.

    Attributes:
        times, states: at the start of each step, and at the end of the last one.
        slopes: the slopes of all stages of each step, for a Runge-Kutta method.
        orders: for each step its order, and that of the polynomial through its end, for BDF.
        interpolants: SciPy's interpolant of each step, if requested.
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self.states: list[Any] = []
        self.slopes: list[Any] = []
        self.orders: list[tuple[int, int]] = []
        self.interpolants: list[Any] = []

    def begin(self, solver: Solver) -> None:
        """Record the start of a solver, and make its first interpolant refer to the record, not to the user's array."""
        solver.y = np.array(solver.y)
        self.times, self.states = [solver.t], [solver.y]
        self.slopes, self.orders, self.interpolants = [], [], []

    def add(self, solver: Solver, dense: bool, order: int) -> None:
        """Record a step of a solver, and the order when it changes."""
        self.times.append(solver.t)
        self.states.append(np.array(solver.y))
        if dense:
            self.interpolants.append(solver.dense_output())
        if isinstance(solver, BY_STAGES):
            self.slopes.append(_slopes(solver, dense))
        if isinstance(solver, scipy.integrate.BDF):
            self.orders.append((order, int(solver.order)))

    def details(self) -> Array:
        """Return the data for the derivative of the steps besides times and states."""
        return np.array(self.orders) if self.orders else np.stack(self.slopes)


def _slopes(solver: Solver, dense: bool) -> Array:
    if solver.t == solver.t_old:  # SciPy computes nothing for a step of length 0
        stages = Tableau.of_method(type(solver), dense).stages
        return np.array(np.broadcast_to(solver.f, (stages, len(solver.f))))
    if isinstance(solver, scipy.integrate.Radau):  # it stores h A k in place of the slopes k of the stages
        tableau = Tableau.of_method(scipy.integrate.Radau, dense)
        moved: Any = solver.Z
        return np.linalg.solve(tableau.a, moved) / (solver.t - solver.t_old)
    return np.array(getattr(solver, "K_extended", solver.K) if dense else solver.K[: solver.n_stages])


def recording(method: type[Any], record: Record, dense: bool) -> Callable[..., Any]:
    """Return a SciPy method that records its steps.

    Args:
        method: a solver class.
        record: the record to fill.
        dense: whether interpolants are needed; they may take additional slopes.
    """

    class Recording(method):  # type: ignore[misc]
        _interpolant: Any = None

        def __init__(self, *args: object, **keywords: object) -> None:
            super().__init__(*args, **keywords)
            record.begin(self)

        def step(self) -> Any:
            self._interpolant, order = None, getattr(self, "order", 0)
            message = super().step()
            if self.status != "failed":
                record.add(self, dense, order)
            return message

        def dense_output(self) -> Any:
            if self._interpolant is None:
                self._interpolant = super().dense_output()
            return self._interpolant

    Recording.__name__ = Recording.__qualname__ = method.__name__
    return Recording
