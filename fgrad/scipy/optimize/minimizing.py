"""Minimization: SciPy's methods with exact derivatives for functions of containers, and differentiable minima."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from fgrad import errors
from fgrad.core.concretize import values_alone
from fgrad.core.tensor import boxed
from fgrad.core.trace import Trace
from fgrad.core.tree import flatten, tree_map
from fgrad.rules.closures import Closure, followers
from fgrad.rules.implicit import solved
from fgrad.rules.rule import settled
from fgrad.rules.vectors import raveled
from fgrad.scipy._plain import is_boxed
from fgrad.scipy.optimize._conditions import Conditions
from fgrad.scipy.optimize._constraints import Given, bounds_as_constraint, constraints_of
from fgrad.scipy.optimize._search import (
    SCIPYS,
    Search,
    as_tuple,
    dense_results,
    for_scipy,
    held_within,
    is_vector,
    itself,
    limits_of,
    on_own,
    python_of,
    result_of,
)
from fgrad.transforms.callbacks import check_solvers_function
from fgrad.transforms.calls import name_of
from fgrad.transforms.forward import jvp
from fgrad.transforms.jacobians import hessian, hvp
from fgrad.transforms.reverse import grad, stop_gradient, value_and_grad
from fgrad.typing import Array, ArrayLike

WITHOUT_GRADIENT = {"nelder-mead", "powell", "cobyla", "cobyqa"}
TAKE_PRODUCTS = {"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"}
TAKE_HESSIANS = {"dogleg", "trust-exact"}
TAKE_SPARSE = {"newton-cg", "trust-constr"}


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | Callable[..., Any] | None = None,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
    *,
    compile: bool = False,
) -> OptimizeResult:
    """Minimize a function, as `scipy.optimize.minimize`, with exact derivatives and a differentiable result.

    SciPy receives the derivatives that the method uses: the gradient, Hessian-vector products (Newton-CG, trust-ncg,
    trust-krylov, trust-constr) or the Hessian (dogleg, trust-exact), and the Jacobians of constraints. The
    minimum has derivatives by the implicit function theorem, under constraints applied to the Karush-Kuhn-Tucker
    conditions: with respect to `args`, `bounds`, values in `constraints`, and traced values and variables that `fun`
    and the constraints close over; in both modes, to any order. The derivative with respect to `x0` is 0.

    Args:
        fun: `fun(x, *args)` returns a number.
        x0: the starting point: a vector, or a container of arrays, which `fun` then takes.
        args: extra arguments, which may be containers of arrays.
        method, tol, callback, options: as in SciPy. `callback` receives `x` with the structure of `x0`.
        jac, hess, hessp: not needed; as in SciPy, in place of the exact ones, for a vector of unknowns.
            With `jac=False` SciPy uses finite differences. `hess` may be `fg.sparse_hessian(fun)`.
        bounds: as in SciPy for a vector of unknowns; in general `(lower, upper)`, each with the structure of `x0` or a
            number for all, or `scipy.optimize.Bounds`.
        constraints: as in SciPy, with the same methods; their functions take `x` as `fun` does. Limits, the matrix of
            a `LinearConstraint` and `args` of a dictionary may be traced. The derivative of a minimum includes
            the active constraints, to the accuracy of the method.
        compile: whether SciPy calls native code for `fun`, its derivatives, and constraints with
            exact Jacobians; your own functions for `jac`, `hess` and `hessp` are not compiled. See `fg.compile` for the
            supported functions. `fun` is recorded in each call, with the current values of its closure; code for the
            same operations is compiled once. A function that is already compiled by `fg.compile` does not need
            `compile=True`.

    Returns:
        SciPy's result; `x` and `jac` have the structure of `x0`. `x`, `fun`, `jac` and `hess` are differentiable, and
        under constraints also `multipliers` of SLSQP and `grad`, `constr`, `v` of trust-constr; the other fields, such
        as `hess_inv`, raise if they are used in a computation.

    Raises:
        ConvergenceError: a RuntimeError; SciPy's solver failed, and a derivative is needed.
        SingularEquationError: a ValueError; the minimum is flat in some direction, or the active constraints
            are redundant.
        StructureError: a TypeError; one of `constraints` is not a SciPy constraint.
        ConcretizationError, FrozenValueError, MissingExtraError: with `compile`, as for `fg.compile`.

    Warns:
        WeaklyActiveWarning: the minimum lies on a constraint whose multiplier is zero.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def distance(p):
        ...     return (p["a"] - 1.0) ** 2 + np.sum((p["b"] - p["a"]) ** 2)
        >>> found = minimize(distance, {"a": 0.0, "b": np.zeros(2)}, method="trust-ncg")
        >>> np.round(found.x["b"], 6)
        array([1., 1.])

        >>> def nearest(c):                          # the point of the unit circle's inside next to c
        ...     inside = {"type": "ineq", "fun": lambda x: 1 - np.sum(x**2)}
        ...     return minimize(lambda x: np.sum((x - c) ** 2), [0.5, 0.5], constraints=inside, tol=1e-12).x
        >>> np.round(fg.jacobian(nearest)(np.array([4.0, 0.0])), 6) + 0.0
        Tensor([[0.  , 0.  ],
                [0.  , 0.25]])
    """
    check_solvers_function("fun of minimize", fun, "x", as_tuple(args))
    others = {"tol": tol, "options": options}
    search = Minimization(fun, x0, method, jac, hess, hessp, constraints, callback, others, compile)
    return search.run(as_tuple(args), bounds)


class Minimization(Search):
    """One call of `minimize`, or of another minimizing function of SciPy, which overrides `_solve`."""

    def __init__(
        self,
        function: Callable[..., Any],
        start: Any,
        method: Any,
        jac: Any,
        hess: Any,
        hessp: Any,
        constraints: object,
        callback: Callable[..., Any] | None,
        others: dict[str, Any],
        compile: bool,
    ) -> None:
        given = python_of(function)
        compile = compile or given is not function
        super().__init__("minimize", given if jac is not True else lambda x, *args: given(x, *args)[0], start, compile)
        self._method = method
        self._jac, self._hess, self._hessp = jac, hess, hessp
        listed = constraints if isinstance(constraints, (list, tuple)) else [constraints]
        self._constraints = constraints_of(self, listed)
        self._others = {**others, "callback": self.callback(callback)}

        def on_vectors(vector: Array, *args: Array) -> Any:
            return self._number(self.restore(vector), args)

        def both(vector: Array, *args: object) -> Any:
            return on_own(given)(self.restore(vector), *args)

        on_vectors.__name__ = both.__name__ = name_of(given)
        self._for_scipy = {
            "value": for_scipy(itself, on_vectors, self.compile),
            "value and slope": for_scipy(value_and_grad, on_vectors, self.compile),
            "given value and slope": for_scipy(itself, both, self.compile),
            "product": for_scipy(hvp, on_vectors, self.compile, count=2),
            "matrix": for_scipy(hessian, on_vectors, self.compile),
        }

    def run(self, args: tuple[Any, ...], bounds: Any) -> OptimizeResult:
        """Return SciPy's result, differentiable."""
        if self._constraints:
            return self._under_constraints(bounds, args)

        def solve(start: Array, lower: Any, upper: Any, *args: Array) -> Any:
            return self._solve(start, args, None if bounds is None else _plain_bounds(bounds, lower, upper))

        def optimality(x: Array, lower: ArrayLike, upper: ArrayLike, *args: Array) -> Any:
            slope = self._slope(x, args)
            if bounds is None:
                return slope
            return held_within(raveled(x)[0], slope, self._curvature(x, slope, args), (lower, upper))

        def of_all(x: object, lower: ArrayLike, upper: ArrayLike, *args: Array) -> Any:
            return self.function(x, *args)

        x = self.find(solve, optimality, (*self._limits(bounds), *args), of_all)
        return self.result(x=x, **self._fields(x, args))

    def _fields(self, x: Any, args: tuple[Any, ...]) -> dict[str, Any]:
        """Return the fields of a result that are computed from the minimum."""
        found = self.found[0]
        has_slope = isinstance(found.get("jac"), np.ndarray) and found.jac.shape == np.shape(found.x)
        if not followers(flatten(x)[0]):
            return {"jac": self.restore(found.jac)} if has_slope else {}
        slope = self._slope(x, args)
        return {
            "fun": self._number(x, args),
            **({"jac": self.restore(slope)} if has_slope else {}),
            **({"grad": slope} if "grad" in found else {}),
            **({"hess": self._matrix(x, args)} if "hess" in found else {}),
        }

    def _under_constraints(self, bounds: object, args: tuple[Any, ...]) -> OptimizeResult:
        """Return SciPy's result, with derivatives by the Karush-Kuhn-Tucker conditions."""
        constraints = list(self._constraints)
        if bounds is not None:
            constraints.append(bounds_as_constraint(self._limits(bounds)))
        conditions = Conditions(self.function, self._number, constraints)
        given = [each.given for each in constraints]

        def solve(start: Array, given: Sequence[Any], *args: Array) -> Any:
            within = None if bounds is None else _plain_bounds(bounds, *given[-1][1:])
            return self._solve(start, args, within, given)

        def solver(start: Array, args: tuple[Any, ...]) -> Any:
            x = self.restore(self.ask(solve, start, args))
            return x, conditions.multipliers(x, args[0], args[1:])

        if not self._is_followed(conditions, self.start, given, args):
            with values_alone(Trace().rank):
                x = self.restore(self.ask(solve, self.start, (given, *args)))
            if not self._is_followed(conditions, x, given, args):  # there the functions may use further inputs
                x = tree_map(boxed, x) if is_boxed((self.start, given, args)) else x
                return self.result(x=x, **self._fields(x, args))
            self.found.clear()
        solution = self.find_all(solver, conditions.optimality, (given, *args), conditions.used, (self.start, ()))
        reported = conditions.reported(solution, given, self.found[0])
        return self.result(**{**self._fields(solution[0], args), **reported, "x": solution[0]})

    def _is_followed(self, conditions: Conditions, x: object, given: Sequence[Any], args: tuple[Any, ...]) -> bool:
        """Return whether any input of a minimum is differentiated or batched."""
        point = ((x, ()), given, *args)
        return bool(followers(flatten((self.start, point))[0] + Closure(conditions.used, [point]).values))

    def _number(self, x: Array, args: tuple[Any, ...]) -> Any:
        """Return the function's value; SciPy accepts arrays with one element, too."""
        value = self.function(x, *args)
        return np.reshape(value, ()) if np.shape(value) == (1,) else value

    def _slope(self, x: Array, args: tuple[Any, ...]) -> Any:
        """Return the gradient, as a vector."""
        vector, restore = raveled(x)
        return grad(lambda vector: self._number(restore(vector), args))(vector)

    def _matrix(self, x: Array, args: tuple[Any, ...]) -> Any:
        """Return the Hessian with respect to the vector of unknowns."""
        vector, restore = raveled(x)
        return hessian(lambda vector: self._number(restore(vector), args))(vector)

    def _curvature(self, x: Array, slope: Array, args: tuple[Any, ...]) -> Any:
        """Return the curvature along the gradient, for the detection of active bounds."""
        x, slope = stop_gradient((x, slope))  # the set of active bounds is a constant for derivatives
        product = jvp(lambda vector: self._slope(self.restore(vector), args), (raveled(x)[0],), (slope,))[1]
        square = np.sum(slope**2)
        return np.abs(np.sum(slope * product)) / np.where(square > 0, square, 1.0)

    def _limits(self, bounds: Any) -> tuple[Any, Any]:
        """Return the lower and the upper bound of each unknown, as vectors."""
        vector = raveled(self.start)[0]
        if bounds is None:
            return (), ()
        is_pair = isinstance(bounds, SCIPYS.Bounds) or _is_pair_of_trees(bounds, vector.shape)
        if is_vector(self.start) and not is_pair:
            ends = [(-np.inf if low is None else low, np.inf if high is None else high) for low, high in bounds]
            bounds = [np.stack([settled(end) for end in side]) for side in zip(*ends, strict=True)]
        return limits_of(bounds, vector.shape)

    def _solve(self, start: Array, args: tuple[Any, ...], bounds: object, given: Sequence[Given] = ()) -> Any:
        """Minimize a function of a vector with SciPy."""
        function, jac = _alone(self._for_scipy["value"](args)), self._jac
        hess, hessp = self._hess, self._hessp
        method = (self._method or self._default(bounds)).lower() if not callable(self._method) else ""
        if jac is True:
            function = _alone(self._for_scipy["given value and slope"](args))
        elif jac is None and method not in WITHOUT_GRADIENT:
            function, jac = _with_gradient(self._for_scipy["value and slope"](args)), True
        elif callable(jac):
            jac = _checked_gradient(jac, args)
        hess, hessp = (_with_arguments(given, args) if callable(given) else given for given in (hess, hessp))
        if callable(self._hess) and method not in TAKE_SPARSE:
            hess = dense_results(hess)
        if hess is None and hessp is None and method in TAKE_PRODUCTS and self._jac is not False:
            product = self._for_scipy["product"](args)
            hessp = lambda vector, v, *_: np.array(product(vector, v))  # noqa: E731
        elif hess is None and method in TAKE_HESSIANS:
            matrix = self._for_scipy["matrix"](args)
            hess = lambda vector, *_: np.array(matrix(vector))  # noqa: E731
        constraints = self._scipys_constraints(given)
        return SCIPYS.minimize(
            function, start, (), self._method, jac or None, hess, hessp, bounds, constraints, **self._others
        )

    def _scipys_constraints(self, given: Sequence[Given]) -> list[Any]:
        """Return constraints in SciPy's form, without bounds, which may come last."""
        return [each.original(own) for each, own in zip(self._constraints, given, strict=False) if each.original]

    def _default(self, bounds: object) -> str:
        """Return SciPy's default method."""
        if self._constraints:
            return "SLSQP"
        return "BFGS" if bounds is None else "L-BFGS-B"


def _plain_bounds(bounds: object, lower: Array, upper: Array) -> Any:
    """Return bounds in SciPy's form, for plain limits; `bounds` is the user's argument."""
    return SCIPYS.Bounds(np.array(lower), np.array(upper), getattr(bounds, "keep_feasible", False))


def _is_pair_of_trees(bounds: Any, shape: tuple[int, ...]) -> bool:
    """Return whether bounds of a vector are a lower and an upper one, rather than a pair for each unknown."""
    return len(bounds) == 2 and shape != (2,) and all(np.shape(limit) in ((), shape) for limit in bounds)


def _with_arguments(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """Return a user's function that also takes the arguments of the objective."""
    return lambda *vectors: function(*vectors, *args)


def _checked_gradient(jac: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """Return a user's gradient with checks of its results."""

    def evaluate(vector: Array, *_: object) -> Array:
        gradient = np.asarray(jac(vector, *args))
        if gradient.shape != vector.shape:
            raise errors.ShapeError(
                f"jac must return the gradient, of shape {vector.shape}, but it returned shape {gradient.shape}.\n"
                "Omit jac to use the exact gradient; or pass fg.grad(fun): fg.gradients_function returns a list."
            )
        return gradient

    return evaluate


def _alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a vector that ignores SciPy's further arguments."""
    return lambda vector, *_: function(vector)


def _with_gradient(both: Callable[..., Any]) -> Callable[..., Any]:
    """Return the value and the gradient together, as for SciPy's `jac=True`."""

    def evaluate(vector: Array, *_: object) -> tuple[float, Any]:
        value, gradient = both(vector)
        return float(value), np.array(gradient)

    return evaluate


def minimize_scalar(
    fun: Callable[..., Any],
    bracket: Sequence[float] | None = None,
    bounds: Any = None,
    args: Any = (),
    method: str | None = None,
    tol: float | None = None,
    options: dict[str, Any] | None = None,
    *,
    compile: bool = False,
) -> OptimizeResult:
    """Minimize a function of one number, as `scipy.optimize.minimize_scalar`, with derivatives.

    Args:
        fun: `fun(x, *args)` returns a number.
        bracket, method, tol, options: as in SciPy.
        bounds: two numbers, for the method "bounded"; derivatives include those of an active bound.
        args: extra arguments; derivatives are with respect to these and the values that `fun` closes over.
        compile: whether SciPy calls native code for `fun`, as in `minimize`.

    Returns:
        SciPy's result; `x` and `fun` are differentiable.

    Raises:
        ConvergenceError: a RuntimeError; SciPy's solver failed, and a derivative is needed.
        SingularEquationError: a ValueError; the second derivative at the minimum is 0.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def lowest(a):
        ...     return minimize_scalar(lambda x: x**2 / 2 + a * np.exp(x)).x
        >>> round(float(fg.grad(lowest)(1.0)), 6)   # -exp(x) / (1 + a exp(x)) at x = -0.567143
        -0.361896
    """
    check_solvers_function("fun of minimize_scalar", fun, "x", as_tuple(args))
    found: list[Any] = []
    bind = for_scipy(itself, python_of(fun), compile or python_of(fun) is not fun)
    fun = python_of(fun)

    def solver(limits: Any, args: tuple[Any, ...]) -> Any:
        given = None if limits is None else tuple(map(float, limits))
        result = SCIPYS.minimize_scalar(bind(args), bracket, given, (), method, tol, options)
        found.append(result)
        return np.float64(np.reshape(result.x, ()))

    def optimality(x: Array, limits: Any, args: tuple[Any, ...]) -> Any:
        slope = grad(lambda x: fun(x, *args))
        if limits is None:
            return slope(x)
        return held_within(x, slope(x), np.abs(grad(slope)(stop_gradient(x))), limits)

    def of_all(x: Array, limits: object, args: tuple[Any, ...]) -> Any:
        return fun(x, *args)

    extra = as_tuple(args)
    limits = None if bounds is None else tuple(settled(limit) * 1.0 for limit in bounds)
    start = np.float64(1.0) if (first := bracket or limits) is None else settled(first[0]) * 1.0
    x = solved(fun, solver, optimality, (limits, extra), uses=of_all, start=start, tolerance=1e-2)
    traced = bool(followers([x]))
    if traced and not all(each.success for each in found):
        raise errors.ConvergenceError(f"SciPy did not find a minimum to differentiate: {found[-1].message}")
    return result_of("minimize_scalar", found, x=x, **({"fun": fun(x, *extra)} if traced else {}))
