"""Linear programs and bounded least squares: their solutions satisfy optimality conditions as for `minimize`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult
from scipy.sparse import issparse

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.tensor import boxed
from fgrad.core.tree import flatten
from fgrad.rules.closures import followers
from fgrad.rules.rule import settled
from fgrad.scipy._plain import called_as, is_boxed
from fgrad.scipy.optimize._conditions import Conditions, parted
from fgrad.scipy.optimize._constraints import Constraint, Given, bounds_as_constraint, values_and_limits
from fgrad.scipy.optimize._search import SCIPYS, Search, limits_of, result_from
from fgrad.typing import Array, ArrayLike


def linprog(
    c: ArrayLike,
    A_ub: Any = None,  # noqa: N803  # SciPy's names
    b_ub: Any = None,
    A_eq: Any = None,  # noqa: N803
    b_eq: Any = None,
    bounds: object = (0, None),
    method: str = "highs",
    callback: Any = None,
    options: dict[str, Any] | None = None,
    x0: Any = None,
    integrality: Any = None,
) -> OptimizeResult:
    """Solve a linear program, as `scipy.optimize.linprog`, with derivatives.

    It is differentiable with respect to all of `c`, `A_ub`, `b_ub`, `A_eq`, `b_eq` and `bounds`. The solution is a
    vertex, which depends on the active constraints, and not on `c`; the derivative of the minimum with respect to `c`
    is `x`.

    Args:
        c: the coefficients of the objective `c @ x`, of shape (n,).
        A_ub, b_ub: `A_ub @ x <= b_ub`, of shapes (m, n) and (m,); a sparse matrix is a constant.
        A_eq, b_eq: `A_eq @ x == b_eq`.
        bounds: a pair for all unknowns or one for each; None means no bound.
        method, callback, options, x0, integrality: as in SciPy.

    Returns:
        SciPy's result; `x`, `fun`, `slack`, `con` and the marginals and residuals in `ineqlin`, `eqlin`, `lower` and
        `upper` are differentiable.

    Raises:
        ConvergenceError: a RuntimeError; there is no solution, and a derivative is needed.
        SingularEquationError: a ValueError; there are several solutions, or more constraints are active at the vertex
            than determine it.
        UnsupportedError: a NotImplementedError; some unknowns are integers, and a derivative is needed.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def profit(hours):                          # of two products, within hours of two machines
        ...     return -linprog([-3.0, -5.0], [[1.0, 2.0], [3.0, 1.0]], hours).fun
        >>> fg.grad(profit)(np.array([40.0, 60.0]))     # what an hour more of each machine is worth
        Tensor([2.4, 0.2])
    """
    c = _vector(c)
    limits = _limits_of_all(bounds, c.shape[0])
    constraints = [*_linear("ub", A_ub, -np.inf, b_ub), *_linear("eq", A_eq, b_eq, b_eq), bounds_as_constraint(limits)]
    program = _Program("linprog", lambda x, c: c @ x, constraints, c.shape[0])
    further = {"method": method, "callback": callback, "options": options, "x0": x0, "integrality": integrality}

    def solve(start: Array, given: Sequence[Any], c: Array) -> Any:
        sides: dict[str, Any] = {}
        for constraint, own in zip(constraints[:-1], given, strict=False):
            side = constraint.name[-2:]
            sides[f"A_{side}"], sides[f"b_{side}"] = constraint.original(own) if constraint.original else own[:2]
        pairs = np.stack([np.array(each) for each in given[-1][1:]], axis=1)
        return SCIPYS.linprog(np.array(c), bounds=pairs, **sides, **further)

    if np.any(integrality) and program.is_followed(c):
        raise errors.UnsupportedError(
            "linprog: an integer solution is piecewise constant, and is not differentiable.\n"
            "Solve it for plain numbers; then fix the integers by equal bounds, and solve that for the others."
        )
    x, multipliers = program.solved(solve, c)
    if multipliers is None:
        return program.result(x=x)
    return program.result(x=x, fun=c @ x, **program.marginals(x, multipliers))


def nnls(A: ArrayLike, b: ArrayLike, *, maxiter: int | None = None) -> tuple[Any, Any]:  # noqa: N803  # SciPy's name
    """Solve a nonnegative linear least-squares problem, as `scipy.optimize.nnls`, with derivatives.

    Args:
        A: of shape (m, n).
        b: of shape (m,).
        maxiter: as in SciPy.

    Returns:
        The solution, of shape (n,), and the norm of the residuals; both are differentiable with respect to `A` and `b`.

    Raises:
        RuntimeError: SciPy's solver failed.
        SingularEquationError: a ValueError; the solution is not unique.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> a, b = np.array([[1.0, 0.5], [0.0, 1.0]]), np.array([2.0, -1.0])
        >>> nnls(a, b)[0]
        array([2., 0.])
        >>> fg.jacobian(lambda b: nnls(a, b)[0])(b) + 0.0
        Tensor([[1., 0.],
                [0., 0.]])
    """
    A, b = as_array(A), as_array(b)  # noqa: N806
    count = A.shape[1] if A.ndim == 2 else 0
    bounds = bounds_as_constraint((np.zeros(count), np.full(count, np.inf)))
    program = _Program("nnls", _half_of_squares, [bounds], count)

    def solve(start: Array, given: Sequence[Any], A: Array, b: Array) -> Any:  # noqa: N803
        x, norm = SCIPYS.nnls(np.array(A), np.array(b), maxiter=maxiter)
        return result_from({"x": x, "norm": norm, "success": True})

    x, multipliers = program.solved(solve, A, b)
    return x, program.found[0].norm if multipliers is None else np.linalg.norm(A @ x - b)


@called_as(SCIPYS.lsq_linear)
def lsq_linear(
    A: Any,  # noqa: N803  # SciPy's name
    b: ArrayLike,
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    tol: float = 1e-10,
    **options: Any,
) -> OptimizeResult:
    """Solve a bounded linear least-squares problem, as `scipy.optimize.lsq_linear`, with derivatives.

    Args:
        A: of shape (m, n); a sparse matrix is a constant.
        b: of shape (m,).
        bounds: `(lower, upper)`, vectors or numbers for all, or `scipy.optimize.Bounds`; derivatives include those
            of active bounds.
        method, tol, options: as in SciPy.

    Returns:
        SciPy's result; `x`, `cost` and `fun` are differentiable.

    Raises:
        ConvergenceError: a RuntimeError; SciPy's solver failed, and a derivative is needed.
        SingularEquationError: a ValueError; the solution is not unique.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> a = np.array([[1.0, 0.5], [0.0, 1.0]])
        >>> fg.jacobian(lambda b: lsq_linear(a, b, (0.0, 1.0)).x)(np.array([1.0, 3.0])).numpy().round(6) + 0.0
        array([[1., 0.],
               [0., 0.]])
    """
    is_sparse = issparse(A)
    b = _vector(b)
    matrix: Any = () if is_sparse else as_array(A)
    limits = limits_of(bounds, (A.shape if is_sparse else matrix.shape)[1:])

    def left(x: Array, matrix: Array, b: Array) -> Any:
        return (A if is_sparse else matrix) @ x - b

    def number(x: Array, matrix: Array, b: Array) -> Any:
        return np.sum(left(x, matrix, b) ** 2) / 2

    def solve(start: Array, given: Sequence[Any], matrix: Array, b: Array) -> Any:
        within = tuple(np.array(each) for each in given[0][1:])
        whole = A if is_sparse else np.array(matrix)
        return SCIPYS.lsq_linear(whole, np.array(b), within, method, tol, **options)

    program = _Program("lsq_linear", number, [bounds_as_constraint(limits)], limits[0].shape[0])
    x, multipliers = program.solved(solve, matrix, b)
    if multipliers is None:
        return program.result(x=x)
    return program.result(x=x, cost=number(x, matrix, b), fun=left(x, matrix, b))


def _half_of_squares(x: Array, A: Array, b: Array) -> Any:  # noqa: N803
    return np.sum((A @ x - b) ** 2) / 2


class _Program(Search):
    """A problem without callbacks, and SciPy's results.

    Args:
        name: the name of the SciPy function.
        number: the objective, a function of a vector and arguments.
        constraints: the constraints on the vector.
        count: the number of unknowns.
    """

    def __init__(self, name: str, number: Callable[..., Any], constraints: Sequence[Constraint], count: int) -> None:
        def program(x: Array, *args: object) -> Any:
            return number(x, *args)

        program.__name__ = name
        super().__init__(name, program, np.zeros(count))
        self._constraints, self._given = constraints, [each.given for each in constraints]
        self._conditions = Conditions(program, lambda x, args: program(x, *args), constraints)

    def is_followed(self, *args: Array) -> bool:
        """Return whether any input is differentiated or batched."""
        return bool(followers(flatten((self._given, args))[0]))

    def solved(self, solve: Callable[..., Any], *args: Array) -> tuple[Any, Any]:
        """Return the solution and the multipliers, differentiable; None for the latter if nothing is differentiated.

        Args:
            solve: maps a starting point, which is not used, the inputs of constraints, and arguments to SciPy's result.
            args: the arguments of the objective.
        """
        conditions, given = self._conditions, self._given
        if not self.is_followed(*args):
            self.found.append(solve(self.start, given, *args))
            x = self.found[-1].x
            return (boxed(x) if x is not None and is_boxed((given, args)) else x), None

        def solver(start: Array, args: tuple[Any, ...]) -> Any:
            x = self.ask(solve, start, args)
            return x, conditions.multipliers(x, args[0], args[1:])

        found = self.find_all(solver, conditions.optimality, (given, *args), conditions.used, (self.start, ()))
        return found[0], found[1]

    def marginals(self, x: Array, multipliers: Array) -> dict[str, Any]:
        """Return `linprog`'s reports on constraints: residuals, and derivatives with respect to limits."""
        parts = values_and_limits(self._constraints, x, self._given)
        *sides, of_bounds = parted(multipliers, parts)
        fields = {"ineqlin": _side(np.zeros(0), np.zeros(0)), "eqlin": _side(np.zeros(0), np.zeros(0))}
        for constraint, (values, _, upper), each in zip(self._constraints[:-1], parts, sides, strict=False):
            fields["eqlin" if constraint.name == "A_eq" else "ineqlin"] = _side(upper - values, -each)
        values, lower, upper = parts[-1]
        fields["lower"] = _side(values - lower, np.maximum(-of_bounds, 0))
        fields["upper"] = _side(upper - values, -np.maximum(of_bounds, 0))
        return {**fields, "slack": fields["ineqlin"].residual, "con": fields["eqlin"].residual}


def _side(residual: Array, marginals: Array) -> OptimizeResult:
    return result_from({"residual": residual, "marginals": marginals})


def _vector(x: Any) -> Array:
    return np.reshape(as_array(x), -1) * 1.0


def _linear(side: str, matrix: list[Any] | None, lower: object, upper: Any) -> list[Constraint]:
    """Return one side of a linear program as a constraint, with its matrix and limit."""
    if matrix is None:
        return []
    is_sparse = issparse(matrix)

    def function(vector: Array, own: Array) -> Any:
        return (matrix if is_sparse else own) @ vector

    def original(given: Given) -> Any:
        return (matrix if is_sparse else np.array(given[0])), np.array(given[2])

    limits = (lower if isinstance(lower, float) else _vector(lower)), _vector(upper)
    return [Constraint(f"A_{side}", function, (() if is_sparse else as_array(matrix) * 1.0, *limits), original)]


def _limits_of_all(bounds: Any, count: int) -> tuple[Any, Any]:
    """Return the lower and upper bounds of a linear program, given as pairs with None for no bound."""
    if bounds is None or len(bounds) == 0:
        bounds = (0, None)
    if (
        not hasattr(bounds, "shape")
        and len(bounds) == 2
        and all(np.ndim(0 if end is None else end) == 0 for end in bounds)
    ):
        bounds = [bounds]
    ends = [(-np.inf if low is None else low, np.inf if high is None else high) for low, high in bounds]
    lower, upper = (np.stack([settled(end) * 1.0 for end in side]) for side in zip(*ends, strict=True))
    return np.broadcast_to(lower, (count,)) * 1.0, np.broadcast_to(upper, (count,)) * 1.0
