"""Initial value problems, as `scipy.integrate.solve_ivp`, with differentiable solutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.ops.tracing import boxed_leaves
from fgrad.scipy._plain import is_boxed
from fgrad.scipy.integrate._forms import SCIPYS
from fgrad.scipy.integrate._problem import Problem
from fgrad.scipy.integrate._records import METHODS
from fgrad.scipy.integrate._results import TracedResult, with_fields
from fgrad.transforms.callbacks import check_solvers_function
from fgrad.typing import ArrayLike

DERIVATIVES = ("steps", "adjoint")


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Any,
    y0: ArrayLike,
    method: object = "RK45",
    t_eval: ArrayLike | None = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = None,
    *,
    derivative: str = "steps",
    compile: bool = False,
    **options: object,
) -> Any:
    """Solve an initial value problem, as `scipy.integrate.solve_ivp`, with a differentiable solution.

    If nothing is traced, this is SciPy's function. Otherwise SciPy solves the problem on plain values, and the
    solution is differentiable with respect to `y0`, the times in `t_span` and `t_eval`, `args`, and traced values
    and variables that `fun` closes over; in both modes, to any order. Under `vmap` each example has its own
    steps; the last time and state of an example with fewer steps are repeated.

    If `fun` jumps at a time that depends on the state or on differentiated values, the derivative lacks the
    contribution of this time. Let an event end the solution there, and start another one.

    Args:
        fun: `fun(t, y, *args)` returns the slope, as a vector or a list.
        t_span: the first and the last time.
        y0: the initial state, real or complex.
        method: RK23, RK45, DOP853, Radau or BDF, and with the derivative "adjoint" also LSODA; or a class.
        t_eval: the output times; by default those of the solver's steps.
        dense_output: whether the result has a function `sol(t)`, which is differentiable, too.
        events: functions of `t` and `y`. Their times and the states at these are differentiated as roots.
        vectorized: whether `fun` takes states in columns.
        args: extra arguments, which may be containers of arrays.
        derivative: "steps" is the exact derivative of the solver's discrete solution, with the step sizes held fixed as
            fractions of the time span. "adjoint" is the derivative of the exact solution, from equations
            along the computed one that are solved to the same tolerances; it supports every method, also for stiff
            problems.
        compile: whether SciPy calls native code in place of `fun`; derivatives that process the steps one by one
            then do so, too. See `fg.compile` for the supported functions. `fun` is recorded in each call, with the
            current values of its closure; code for the same operations is compiled once. A function that you have
            compiled yourself by `fg.compile` does not need `compile=True`, and is not recorded again.
        options: SciPy's options, such as `rtol`, `atol` and `max_step`. `jac` is not needed for the derivative.

    Returns:
        SciPy's result.

    Raises:
        ConvergenceError: a RuntimeError; the solver failed, and a derivative is needed.
        ParameterError: a ValueError; `derivative` is unknown, or "steps" was requested for LSODA, or for BDF with more
            than 32 equations.
        ShapeError: a ValueError; examples under `vmap` have different numbers of events.
        ClosureError: a TypeError; `fun` uses a traced value that cannot be found in its closure.
        ConcretizationError, FrozenValueError, MissingExtraError: with `compile`, as `fg.compile` raises them.

    Warns:
        MovingStepWarning: `fun` jumps at a time that depends on differentiated values.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def angle_after(length, seconds):           # of a pendulum
        ...     def slope(t, y):
        ...         return [y[1], -9.81 / length * np.sin(y[0])]
        ...     return solve_ivp(slope, (0.0, seconds), [0.1, 0.0], rtol=1e-8).y[0, -1]
        >>> fg.grad(angle_after, argnums=(0, 1))(1.0, 0.5)
        (Tensor(0.07826854), Tensor(-0.31307417))

        >>> stiff = {"method": "LSODA", "derivative": "adjoint", "rtol": 1e-8}
        >>> def decayed(rate):
        ...     return solve_ivp(lambda t, y: -rate * y, (0.0, 1.0), [1.0], **stiff).y[0, -1]
        >>> fg.grad(decayed)(2.0)                       # -exp(-2)
        Tensor(-0.135335...)
    """
    check_derivative(derivative)
    if args is not None and not np.iterable(args):
        return SCIPYS.solve_ivp(fun, t_span, y0, args=args)  # raises SciPy's error
    further = () if args is None else tuple(args)
    events = None if events is None else [events] if callable(events) else list(events)
    check_solvers_function("fun of solve_ivp", fun, "t, y", further)
    for event in events or ():
        check_solvers_function("event of solve_ivp", event, "t, y", further)
    problem = Problem(
        function=fun,
        args=further,
        method=METHODS.get(method, method) if isinstance(method, str) else method,
        events=events,
        dense_output=dense_output,
        derivative=derivative,
        options={**options, "vectorized": vectorized},
        compile=compile,
    )
    arrays = problem.solve(t_span, y0, t_eval)
    if arrays:
        return TracedResult(problem, arrays).result()
    found = problem.found[-1][0]
    if not is_boxed((t_span, y0, t_eval, args)):
        return found
    return with_fields(found, {name: boxed_leaves(found[name]) for name in ("t", "y", "t_events", "y_events")})


def check_derivative(derivative: str) -> None:
    """Reject an unknown kind of derivative."""
    if derivative not in DERIVATIVES:
        raise errors.ParameterError(f"derivative must be 'steps' or 'adjoint', but it is {derivative!r}.")
