"""Boundary value problems, as `scipy.integrate.solve_bvp`, with differentiable solutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.native.compiled import Compiled
from fgrad.ops.tracing import boxed_leaves, raw_array
from fgrad.rules.implicit import Equation, solution
from fgrad.scipy._aside import reported
from fgrad.scipy._plain import is_boxed
from fgrad.scipy.integrate._callback import UsersFunctions
from fgrad.scipy.integrate._collocation import System
from fgrad.scipy.integrate._forms import SCIPYS, array_of, as_result, floating, is_moving, real_form
from fgrad.scipy.integrate._results import anchored, with_fields
from fgrad.scipy.interpolate.cubic import CubicHermiteSpline
from fgrad.scipy.interpolate.pieces import PPoly
from fgrad.transforms.callbacks import check_solvers_function
from fgrad.transforms.calls import name_of
from fgrad.typing import Array, ArrayLike, Operand

FUN, BC, FUN_JAC, BC_JAC = range(4)

TOLERANCE = 1e-2
"""Relative limit of the Newton correction to SciPy's solution: SciPy's own tolerance is 1e-3."""


def solve_bvp(
    fun: Callable[..., Any],
    bc: Callable[..., Any],
    x: ArrayLike,
    y: ArrayLike,
    p: Any = None,
    S: Any = None,  # noqa: N803  # SciPy's name
    fun_jac: Callable[..., Any] | None = None,
    bc_jac: Callable[..., Any] | None = None,
    tol: float = 1e-3,
    max_nodes: int = 1000,
    verbose: int = 0,
    bc_tol: float | None = None,
) -> Any:
    """Solve a boundary value problem, as `scipy.integrate.solve_bvp`, with a differentiable solution.

    If nothing is traced, this is SciPy's function. Otherwise SciPy solves the problem on plain values, and the
    equations of collocation on its last mesh have derivatives by the implicit function theorem, with respect to
    traced values and variables that `fun` and `bc` use, the ends of the interval, and `S`; in both modes, to any order.
    The mesh is held fixed, as fractions of the interval. Derivatives with respect to the guesses `y` and `p` are 0.
    Under `vmap` each example has its own mesh; the last node of a shorter mesh is repeated.

    Args:
        fun: `fun(x, y)`, or `fun(x, y, p)` with unknown parameters, returns the slopes, of the shape of `y`: (n, m).
        bc: `bc(ya, yb)`, or `bc(ya, yb, p)`, returns the n + k residuals of the boundary conditions.
        x: the initial mesh, of shape (m,).
        y: a guess of the solution on it, of shape (n, m), real or complex.
        p: a guess of the unknown parameters, of shape (k,).
        S: the matrix of a singular term S y / (x - a), of shape (n, n).
        fun_jac, bc_jac, tol, max_nodes, verbose, bc_tol: as in SciPy. Jacobians are not needed for the derivative.

    Returns:
        SciPy's result. `x`, `y`, `yp`, `p` and the function `sol(x)` are differentiable; `rms_residuals` raises
        if it is used in a computation.

    Raises:
        ConvergenceError: a RuntimeError; the solver failed, and a derivative is needed.
        SingularEquationError: a ValueError; the conditions do not determine the solution.
        ShapeError: a ValueError; `sol` of a batch whose examples have different numbers of nodes.
        ClosureError: a TypeError; a function uses a traced value that cannot be found in its closure.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def height(load):                           # of a string in the middle: -load / 8
        ...     found = solve_bvp(
        ...         lambda x, y: np.stack([y[1], load + 0.0 * x]),
        ...         lambda left, right: np.stack([left[0], right[0]]),
        ...         np.linspace(0.0, 1.0, 5),
        ...         np.zeros((2, 5)),
        ...     )
        ...     return found.sol(0.5)[0]
        >>> np.round(fg.grad(height)(2.0), 6)
        Tensor(-0.125)
    """
    parameters = () if p is None else (p,)
    check_solvers_function("fun of solve_bvp", fun, "x, y", parameters)
    check_solvers_function("bc of solve_bvp", bc, "ya, yb", parameters)
    options = {"tol": tol, "max_nodes": max_nodes, "verbose": verbose, "bc_tol": bc_tol}
    problem = _Problem((fun, bc, fun_jac, bc_jac), (x, y, p, S), options)
    return problem.result()


class _Problem:
    """One call of `solve_bvp`."""

    def __init__(self, functions: Sequence[Any], arrays: Sequence[Any], options: dict[str, Any]) -> None:
        self._options = options
        self._functions = [each.function if isinstance(each, Compiled) else each for each in functions]
        self._has_tensors = is_boxed(arrays)
        x, y, p, singular = arrays
        self._leaves = [array_of(x), array_of(y), array_of([] if p is None else p)]
        self._leaves += [] if singular is None else [array_of(singular)]
        self._has_parameters = p is not None
        given = self._functions

        def call(number: int, *args: Array) -> Any:
            return given[number](*args)

        call.__name__ = name_of(given[FUN])
        self._users = UsersFunctions([call], ())
        self._found: list[Any] = []

    def result(self) -> Any:
        """Return SciPy's result, differentiable if something is traced."""
        arrays = self._users.run(self._solve, self._leaves)
        if arrays:
            return self._differentiated(*arrays)
        found = self._found[-1]
        found = with_fields(found, {"sol": _at_traced_places(found.sol)})
        if not self._has_tensors:
            return found
        return with_fields(found, {name: boxed_leaves(found[name]) for name in ("x", "y", "yp", "p")})

    def _solve(self, functions: Sequence[Callable[..., Any]], leaves: Sequence[Any]) -> list[Any]:
        """Run SciPy's solver for plain values."""
        (call,) = functions
        fun, bc, *jacobians = [
            None if function is None else lambda *args, number=number: call(number, *args)
            for number, function in enumerate(self._functions)
        ]
        x, y, p, *singular = leaves
        # SciPy writes into the guess.
        arrays = (x, np.array(y), p if self._has_parameters else None, singular[0] if singular else None)
        found = SCIPYS.solve_bvp(fun, bc, *arrays, *jacobians, **self._options)
        self._found.append(found)
        if not self._users.is_traced(self._leaves):
            return []
        if not found.success:
            raise errors.ConvergenceError(
                f"SciPy did not solve the boundary value problem of {name_of(self._functions[FUN])}: {found.message}\n"
                "There is no solution to differentiate. Give a better guess, more nodes or a larger tolerance."
            )
        p = np.zeros(0) if found.p is None else real_form(found.p)
        return [np.array(len(self._found) - 1), found.x, real_form(found.y.T), p]

    def _differentiated(self, numbers: Array, mesh: Array, values: Array, p: Array) -> Any:
        found = [self._found[number] for number in np.ravel(raw_array(numbers))]
        ends = [floating(self._leaves[0][place]) for place in (0, -1)]
        mesh = anchored(mesh, *ends) if any(map(is_moving, ends)) else mesh
        system = self._system(found[0])
        leaves = [mesh, *map(floating, self._leaves[3:]), *self._users.inputs()]
        equation = Equation(
            self._functions[FUN],
            lambda leaves: leaves[0],
            lambda unknowns, leaves: system.residuals(unknowns, leaves[1:]),
            tolerance=TOLERANCE,
            inverse=lambda unknowns, leaves: system.inverse(unknowns, leaves[1:]),
        )
        unknowns = solution(equation, [np.concatenate([np.reshape(values, -1), p]), *leaves])
        values, p = system.parted(unknowns)
        slopes = system.slopes(mesh, values, p, leaves, True)
        y, yp = (np.swapaxes(system.numbers(each), 0, 1) for each in (values, slopes))
        fields = {"x": mesh, "y": y, "yp": yp, **({"p": system.numbers(p)} if system.count else {})}
        fields = {name: as_result(each) for name, each in fields.items()}
        return with_fields(found[0], {**fields, "sol": self._spline(found, mesh, y, yp), **_report(found)})

    def _system(self, found: Any) -> System:
        def shaped(number: int) -> Callable[..., Any]:
            def function(first: Array, second: Array, p: Array | None, inputs: Sequence[Any]) -> Any:
                given = (first, second) if p is None else (first, second, p)
                return array_of(self._users.call(0, inputs, number, *given)).astype(found.y.dtype)

            return function

        size, count = len(found.y), 0 if found.p is None else len(found.p)
        is_complex = found.y.dtype.kind == "c"
        return System(shaped(FUN), shaped(BC), size, count, is_complex, len(self._leaves) > 3)

    def _spline(self, found: Sequence[Any], mesh: Array, y: Array, yp: Array) -> Callable[[Any], Any]:
        if len({len(each.x) for each in found}) == 1:
            return CubicHermiteSpline(mesh, y, yp, axis=1, extrapolate=True)

        def sol(x: Operand, nu: int = 0) -> Any:
            raise errors.ShapeError(
                f"the solutions of {name_of(self._functions[FUN])} under vmap have meshes of different lengths: "
                f"{[len(each.x) for each in found]}. They cannot be combined into one function.\n"
                "Use `x`, `y` and `yp` of the result, or solve the examples in a loop."
            )

        return sol


def _at_traced_places(spline: Any) -> PPoly:
    """Return a SciPy spline, with values along axis 1, as a function that also takes traced arguments."""
    return PPoly(np.moveaxis(spline.c, 2, 0), spline.x, axis=1)


def _report(found: Sequence[Any]) -> dict[str, Any]:
    names = ("rms_residuals", "niter", "status", "message", "success")
    return reported("solve_bvp", [{name: each[name] for name in names} for each in found])
