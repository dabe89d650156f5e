"""Global minima, by SciPy's methods, with derivatives at the result.

SciPy calls the function on plain values. The derivative at the resulting minimum is that of
`minimize`: from the gradient, or under constraints from the Karush-Kuhn-Tucker conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from fgrad import errors
from fgrad.ops.tracing import first_example
from fgrad.rules.rule import settled
from fgrad.scipy._docstrings import completed_by
from fgrad.scipy._plain import called_as
from fgrad.scipy.optimize._constraints import Given
from fgrad.scipy.optimize._search import SCIPYS, as_tuple
from fgrad.scipy.optimize.minimizing import Minimization
from fgrad.transforms.callbacks import check_solvers_function
from fgrad.typing import Array, ArrayLike

_GLOBAL_MINIMUM = """
Args:
    func: `func(x, *args)` returns a number; x is a vector of length n.
    bounds: n pairs of numbers, or `scipy.optimize.Bounds`; derivatives include those of active bounds.
    args: extra arguments; derivatives are with respect to these and the values that `func` closes over.

Returns:
    SciPy's result; `x` and `fun` are differentiable.

Raises:
    ConvergenceError: a RuntimeError; SciPy's result is not a minimum, and a derivative is needed.
    SingularEquationError: a ValueError; the minimum is flat in some direction.
"""


@called_as(SCIPYS.differential_evolution)
@completed_by(_GLOBAL_MINIMUM)
def differential_evolution(
    func: Callable[..., Any], bounds: Any, args: Any = (), *, constraints: Any = (), **options: object
) -> OptimizeResult:
    """Minimize a function by differential evolution, as `scipy.optimize.differential_evolution`, with derivatives.

    Args:
        constraints: `LinearConstraint` and `NonlinearConstraint`, as for `minimize`.
        options: further options of SciPy, by name, such as `rng`, `maxiter` and `tol`. `polish` makes the minimum
            sharp.

    Returns:
        SciPy's result; `x`, `fun` and `jac` are differentiable.

    Raises:
        ConvergenceError: a RuntimeError; SciPy's result is not a minimum, and a derivative is needed.
        SingularEquationError: a ValueError; the minimum is flat in some direction.
        ParameterError: a ValueError; `vectorized` is set.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def lowest(a):                             # of two valleys the one at a
        ...     def height(x):
        ...         return np.sum((x**2 - a**2) ** 2) + 0.1 * np.sum((x - a) ** 2)
        ...     return differential_evolution(height, [(-3.0, 3.0)], rng=0, tol=1e-8).x[0]
        >>> np.round(fg.grad(lowest)(1.5), 4)
        Tensor(1.)
    """
    return _search("differential_evolution", func, bounds, args, constraints, options)


@called_as(SCIPYS.dual_annealing)
@completed_by(_GLOBAL_MINIMUM)
def dual_annealing(func: Callable[..., Any], bounds: Any, args: Any = (), **options: object) -> OptimizeResult:
    """Minimize a function by dual annealing, as `scipy.optimize.dual_annealing`, with derivatives.

    Args:
        options: further options of SciPy, by name, such as `rng` and `maxiter`.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def lowest(a):
        ...     return dual_annealing(lambda x: np.sum((x - a) ** 2), [(-3.0, 3.0)], rng=0, maxiter=20).x[0]
        >>> np.round(fg.grad(lowest)(1.5), 4)
        Tensor(1.)
    """
    return _search("dual_annealing", func, bounds, args, (), options)


@called_as(SCIPYS.shgo)
@completed_by(_GLOBAL_MINIMUM)
def shgo(
    func: Callable[..., Any], bounds: Any, args: Any = (), constraints: Any = (), **options: object
) -> OptimizeResult:
    """Minimize a function by simplicial homology, as `scipy.optimize.shgo`, with derivatives.

    Args:
        constraints: as for `minimize`.
        options: further options of SciPy, by name, such as `n`, `iters` and `sampling_method`.

    Returns:
        SciPy's result; `x` and `fun` of the best minimum are differentiable.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def lowest(a):
        ...     return shgo(lambda x: np.sum((x - a) ** 2), [(-3.0, 2.0)]).x[0]
        >>> np.round(fg.grad(lowest)(1.5), 4)
        Tensor(1.)
    """
    return _search("shgo", func, bounds, args, constraints, options)


@called_as(SCIPYS.basinhopping, "args")
@completed_by(_GLOBAL_MINIMUM)
def basinhopping(func: Callable[..., Any], x0: Any, *, args: Any = (), **options: object) -> OptimizeResult:
    """Minimize a function by basin hopping, as `scipy.optimize.basinhopping`, with derivatives.

    Args:
        func: `func(x, *args)` returns a number; x is a vector.
        x0: the starting point; the derivative with respect to it is 0.
        args: extra arguments; derivatives are with respect to these and the values that `func` closes over. `args` is
            passed by name; SciPy's function has no such parameter.
        options: further options of SciPy, such as `niter`, `stepsize`, `rng` and `minimizer_kwargs`.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def lowest(a):
        ...     return basinhopping(lambda x: np.sum((x - a) ** 2), [0.0], niter=2, rng=0).x[0]
        >>> np.round(fg.grad(lowest)(1.5), 4)
        Tensor(1.)
    """
    check_solvers_function("func of basinhopping", func, "x", as_tuple(args))
    return _Everywhere("basinhopping", func, x0, (), options).run(as_tuple(args), None)


def _search(
    name: str,
    func: Callable[..., Any],
    bounds: object,
    args: tuple[Any, ...],
    constraints: object,
    options: dict[str, Any],
) -> OptimizeResult:
    if options.get("vectorized"):
        raise errors.ParameterError(f"{name} in fgrad calls the function at one point at a time: omit `vectorized`.")
    check_solvers_function(f"func of {name}", func, "x", as_tuple(args))
    return _Everywhere(name, func, _middle(bounds), constraints, options).run(as_tuple(args), bounds)


def _middle(bounds: Any) -> Any:
    """Return a point within bounds, at which the function can be traced."""
    pairs = zip(bounds.lb, bounds.ub, strict=True) if isinstance(bounds, SCIPYS.Bounds) else bounds
    return np.array([(first_example(settled(low)) + first_example(settled(high))) / 2 for low, high in pairs])


class _Everywhere(Minimization):
    """One call of a SciPy function that needs values only."""

    def __init__(
        self, name: str, function: Callable[..., Any], start: ArrayLike, constraints: object, options: dict[str, Any]
    ) -> None:
        super().__init__(function, start, None, None, None, None, constraints, None, {}, False)
        self.name, self._options = name, options

    def _solve(self, start: Array, args: tuple[Any, ...], bounds: object, given: Sequence[Given] = ()) -> Any:
        function = self._for_scipy["value"](args)
        where = start if bounds is None else bounds
        constraints = self._scipys_constraints(given)
        options = {**self._options, **({"constraints": constraints} if constraints else {})}
        return getattr(SCIPYS, self.name)(function, where, **options)
