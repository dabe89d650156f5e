"""Initial value problems, as `scipy.integrate.solve_ivp`, with solutions that are differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.primitive import BOXES
from fgrad.core.tree import flatten
from fgrad.ops.tracing import boxed_leaves
from fgrad.scipy.integrate._problem import SCIPYS, Problem
from fgrad.scipy.integrate._records import METHODS
from fgrad.scipy.integrate._results import TracedResult, with_fields

DERIVATIVES = ("steps", "adjoint")


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = None,
    *,
    derivative: str = "steps",
    compile: bool = False,
    **options: Any,
) -> Any:
    """Solve an initial value problem, as `scipy.integrate.solve_ivp`; and differentiate the solution.

    Where nothing is traced, this is SciPy's function. Elsewhere SciPy solves the problem on plain values, and the
    solution is differentiated by `y0`, by the times in `t_span` and `t_eval`, by `args`, and by traced values
    and variables that `fun` uses besides; in both modes, to any order. Under `vmap` every example has steps
    of its own; where examples have fewer steps than others, their last time and state are repeated.

    If `fun` jumps, the time of a jump that depends on the state or on what is differentiated has a derivative, too,
    which is not in this; let an event end the solution there, and start another one.

    Args:
        fun: `fun(t, y, *args)` returns the slope, as a vector or a list.
        t_span: the first and the last time.
        y0: the first state, real or complex.
        method: RK23, RK45, DOP853, Radau or BDF, and with the derivative "adjoint" also LSODA; or a class.
        t_eval: times at which the states are wanted; by default those of the solver's steps.
        dense_output: the result has a function `sol(t)`, which is differentiated, too.
        events: functions of `t` and `y`. Their times and the states then are differentiated as roots.
        vectorized: `fun` takes states in columns.
        args: extra arguments, containers of arrays too.
        derivative: "steps" is the exact derivative of what the solver computes with the lengths of its steps, as
            fractions of the time span, held fixed. "adjoint" is the derivative of the true solution, by equations
            along the computed one that are solved to the same tolerances; it serves every method, stiff ones too.
        compile: SciPy calls native code in place of `fun`, and so does what goes through the steps of a derivative one
            by one. See `fg.compile` for what can be compiled. `fun` is recorded anew in each call, and what it closes
            over is as it is then; code for the same operations is compiled once. A function that you have compiled
            yourself by `fg.compile` needs no `compile=True`, and is not even recorded again.
        options: SciPy's, such as `rtol`, `atol` and `max_step`. `jac` is not needed for the derivative.

    Returns:
        SciPy's result.

    Raises:
        ConvergenceError: a RuntimeError; the solver has failed, and something is to be differentiated.
        ParameterError: a ValueError; `derivative` is something else, or the steps of LSODA are to be
            differentiated, or those of BDF for more than 32 equations.
        ShapeError: a ValueError; examples under `vmap` have different numbers of events.
        ClosureError: a TypeError; a traced value gets into `fun` on a way that cannot be followed.
        ConcretizationError, FrozenValueError, MissingExtraError: with `compile`, as `fg.compile` raises them.

    Warns:
        MovingStepWarning: `fun` jumps at a time that depends on what is differentiated.

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
        return SCIPYS.solve_ivp(fun, t_span, y0, args=args)  # which says what is wrong
    problem = Problem(
        function=fun,
        args=() if args is None else tuple(args),
        method=METHODS.get(method, method) if isinstance(method, str) else method,
        events=None if events is None else [events] if callable(events) else list(events),
        dense_output=dense_output,
        derivative=derivative,
        options={**options, "vectorized": vectorized},
        compile=compile,
    )
    arrays = problem.solve(t_span, y0, t_eval)
    if arrays:
        return TracedResult(problem, arrays).result()
    found = problem.found[-1][0]
    if not any(type(leaf) in BOXES for leaf in flatten((t_span, y0, t_eval, args))[0]):
        return found
    return with_fields(found, {name: boxed_leaves(found[name]) for name in ("t", "y", "t_events", "y_events")})


def check_derivative(derivative: str) -> None:
    """Refuse anything but the ways in which a solution can be differentiated."""
    if derivative not in DERIVATIVES:
        raise errors.ParameterError(f"derivative must be 'steps' or 'adjoint', and it is {derivative!r}.")
