"""Initial value problems, as `scipy.integrate.odeint`, with differentiable solutions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.native.compiled import Compiled
from fgrad.ops.tracing import boxed_leaves, raw_array
from fgrad.scipy._plain import is_boxed
from fgrad.scipy.integrate._callback import UsersFunctions, as_now, for_each_example, values_of
from fgrad.scipy.integrate._forms import SCIPYS, array_of, as_result, floating, slope_of
from fgrad.scipy.integrate._records import Record, recording
from fgrad.scipy.integrate._variational import Track
from fgrad.scipy.integrate.adjoint import System, Trajectory, track_of
from fgrad.scipy.integrate.ivp import check_derivative, solve_ivp
from fgrad.transforms.callbacks import check_solvers_function
from fgrad.transforms.calls import name_of
from fgrad.typing import Array, ArrayLike, Operand

TOLERANCE = 1.49012e-8
"""The default of odeint."""

SUCCESSES = ("Integration successful.", "Nothing was done; the integration time was 0.")


def odeint(
    func: Callable[..., Any],
    y0: ArrayLike,
    t: Any,
    args: tuple[Any, ...] = (),
    Dfun: Any = None,  # noqa: N803  # SciPy's name
    col_deriv: Any = 0,
    full_output: Any = 0,
    ml: Any = None,
    mu: Any = None,
    rtol: Any = None,
    atol: Any = None,
    tcrit: Any = None,
    h0: float = 0.0,
    hmax: float = 0.0,
    hmin: float = 0.0,
    ixpr: Any = 0,
    mxstep: int = 0,
    mxhnil: int = 0,
    mxordn: int = 12,
    mxords: int = 5,
    printmessg: Any = 0,
    tfirst: bool = False,
    *,
    derivative: str = "adjoint",
    compile: bool = False,
) -> Any:
    """Solve an initial value problem, as `scipy.integrate.odeint`, with a differentiable solution.

    If nothing is traced, this is SciPy's function. Otherwise the solution is SciPy's, too, and it is differentiable
    with respect to `y0`, the times `t`, `args` and traced values and variables that `func` closes over.

    Args:
        func: `func(y, t, *args)` returns the slope, as a vector or a list.
        y0: the initial state.
        t: the times, in order; the first one is that of `y0`.
        args: extra arguments, which may be containers of arrays.
        tfirst: whether `func` is called as `func(t, y, *args)`.
        derivative: "adjoint", from the variational or adjoint equations along the solution, with odeint's tolerances;
            or "steps", the exact derivative of the discrete solution of another method, DOP853: then the solution, too,
            differs from odeint's within the tolerances.
        compile: whether odeint calls native code in place of `func`, as for `solve_ivp`.
        Dfun, col_deriv, ml, mu: as in SciPy. `Dfun` helps the solver and is not differentiated.
        full_output, rtol, atol, tcrit, h0, hmax, hmin: as in SciPy.
        ixpr, mxstep, mxhnil, mxordn, mxords, printmessg: as in SciPy.

    Returns:
        The states, a row for each time; with `full_output` also SciPy's dict.

    Raises:
        ConvergenceError: a RuntimeError; the solver failed, and a derivative is needed.
        ParameterError: a ValueError; `derivative` is unknown.
        ClosureError: a TypeError; `func` uses a traced value that cannot be found in its closure.
        ConcretizationError, FrozenValueError, MissingExtraError: with `compile`, as `fg.compile` raises them.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def left(rate):                             # of a substance that decays
        ...     return odeint(lambda y, t: -rate * y, 1.0, [0.0, 1.0, 2.0])[-1, 0]
        >>> np.round(fg.grad(left)(0.5), 6)             # -2 exp(-2 rate)
        Tensor(-0.735759)
    """
    check_derivative(derivative)
    precision = {"rtol": rtol, "atol": atol, "h0": h0, "hmax": hmax, "hmin": hmin, "tcrit": tcrit}
    orders = {"mxstep": mxstep, "mxhnil": mxhnil, "mxordn": mxordn, "mxords": mxords, "ml": ml, "mu": mu}
    others = {"col_deriv": col_deriv, "ixpr": ixpr, "printmessg": printmessg, "tfirst": tfirst}
    args = args if isinstance(args, tuple) else (args,)
    check_solvers_function("func of odeint", func, "t, y" if tfirst else "y, t", args)
    call = _Call(func, y0, t, args, Dfun, {**precision, **orders, **others}, compile)
    return call.result(derivative, full_output)


class _Call:
    """One call of `odeint`."""

    def __init__(
        self,
        function: Callable[..., Any],
        y0: Any,
        t: Any,
        args: tuple[Any, ...],
        jacobian: Any,
        options: dict[str, Any],
        compile: bool,
    ) -> None:
        self._function, self._options, self._args = function, as_now(options), args
        self._further = [] if jacobian is None else [jacobian]
        self._leaves = [array_of(y0), array_of(t)]
        self._has_tensors = is_boxed((y0, t, args))
        self._users = UsersFunctions([function, *self._further], args, compile)
        self._compile = compile or isinstance(function, Compiled)
        self._found: list[Any] = []

    def result(self, derivative: str, full_output: Operand) -> Any:
        """Return SciPy's result, differentiable if something is traced."""
        arrays = self._users.run(self._solve, self._leaves)
        if not arrays:
            found = self._found[-1]
            found = boxed_leaves(found) if self._has_tensors else found
            return found if full_output else found[0]
        if derivative == "steps":
            found = self._by_steps()
            states = np.swapaxes(found.y, 0, 1)
            return (states, {"nfe": found.nfev, "message": found.message}) if full_output else states
        states = self._differentiated(arrays[0])
        informations = [self._found[number][1] for number in np.ravel(raw_array(arrays[0]))]
        return (states, informations[0] if len(informations) == 1 else informations) if full_output else states

    def _solve(self, functions: Sequence[Callable[..., Any]], leaves: Sequence[Any]) -> list[Any]:
        """Run SciPy's solver for plain values."""
        function, *jacobian = functions
        options = {**self._options, "full_output": 1, **({"Dfun": jacobian[0]} if jacobian else {})}
        if not self._users.is_traced(self._leaves):
            self._found = [SCIPYS.odeint(function, *leaves, **options)]
            return []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SCIPYS.ODEintWarning)  # its text is part of the error
            found = SCIPYS.odeint(function, *leaves, **options)
        if found[1]["message"] not in SUCCESSES:
            raise errors.ConvergenceError(
                f"odeint did not solve the initial value problem of {name_of(self._function)}: {found[1]['message']}\n"
                "There is no solution to differentiate. Allow more steps (mxstep), or use a shorter time span."
            )
        self._found.append(found)
        return [np.array(len(self._found) - 1)]

    def _field(self, t: Array, y: Array, *inputs: Array) -> Any:
        own = (t, y) if self._options["tfirst"] else (y, t)
        return slope_of(self._users.call(0, inputs, *own), y)

    def _tolerance(self, name: str) -> Any:
        return TOLERANCE if self._options[name] is None else self._options[name]

    def _differentiated(self, numbers: Array) -> Any:
        rtol, atol = float(np.min(self._tolerance("rtol"))), self._tolerance("atol")
        steps = {"max_step": self._options["hmax"]} if self._options["hmax"] else {}
        how: dict[str, Any] = {"options": steps, "compile": self._compile}
        system = System(self._function, self._field, SCIPYS.LSODA, rtol, atol, **how)
        start, times = map(floating, self._leaves)
        start, inputs = np.reshape(start, -1), self._users.inputs()

        def remember(leaves: Sequence[Any]) -> list[Any]:
            number, start, times, *inputs = leaves
            system.remember([start, times, *inputs], self._track(system, self._found[int(number)][0], leaves[1:]))
            return []

        for_each_example(remember, values_of([numbers, start, times, *inputs]))
        return as_result(Trajectory(system).states([start, times, *inputs]))

    def _track(self, system: System, states: Array, leaves: Sequence[Any]) -> Track:
        """Return the solution at all times; odeint itself returns it only at the output times."""
        start, times, *inputs = leaves
        record = Record()
        method = recording(system.method, record, True)

        def solve(functions: Sequence[Callable[..., Any]], leaves: Sequence[Any]) -> Any:
            function = functions[0]
            slope = function if self._options["tfirst"] else lambda t, y: function(y, t)
            return system.solved_by_scipy(slope, times, start, method, system.atol)

        self._users.run_plainly(solve, [], inputs)
        return track_of(record, states)

    def _by_steps(self) -> Any:
        start, times = map(floating, self._leaves)
        options: dict[str, Any] = {name: self._tolerance(name) for name in ("rtol", "atol")}
        if self._options["hmax"]:
            options["max_step"] = self._options["hmax"]

        def slope(t: Operand, y: Operand, *args: object) -> Any:
            own = (t, y) if self._options["tfirst"] else (y, t)
            return self._function(*own, *args)

        slope.__name__ = name_of(self._function)
        span = times[0], times[-1]
        start = np.reshape(start, -1)
        return solve_ivp(slope, span, start, "DOP853", t_eval=times, args=self._args, compile=self._compile, **options)
