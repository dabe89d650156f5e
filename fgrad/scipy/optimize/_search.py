"""Common code of this package: SciPy's solvers for containers, and differentiable results."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.optimize
from scipy.optimize import OptimizeResult

from fgrad import errors
from fgrad.core.tensor import boxed, strip_ended
from fgrad.core.tree import flatten, tree_map, unflatten
from fgrad.native.compiled import Compiled
from fgrad.native.values import on_values
from fgrad.ops.tracing import raw_array
from fgrad.rules.arguments import own
from fgrad.rules.closures import followers
from fgrad.rules.implicit import TOLERANCE, solved
from fgrad.rules.vectors import raveled
from fgrad.scipy._aside import reported
from fgrad.scipy._plain import is_boxed
from fgrad.transforms.callbacks import check_returned
from fgrad.transforms.calls import name_of
from fgrad.transforms.jacobians import jacobian
from fgrad.typing import Array, Operand

if TYPE_CHECKING:
    import optree

Function = Callable[..., Any]

SCIPYS: Any = scipy.optimize
"""SciPy's functions, whose type annotations are narrower than their actual arguments."""


TOLERANCE_AFTER_FAILURE = 1e-7
"""Methods report failure when rounding prevents progress, which may happen at the solution."""


def result_from(fields: dict[str, Any]) -> OptimizeResult:
    """Return a SciPy result object; its `fun` is a number of NumPy, as for functions that compute with NumPy."""
    if type(fields.get("fun")) is float:
        fields = {**fields, "fun": np.float64(fields["fun"])}
    result: OptimizeResult = SCIPYS.OptimizeResult(fields)
    return result


def result_of(function: str, found: list[Any], **fields: object) -> OptimizeResult:
    """Return SciPy's result with some fields replaced; the other fields are not differentiable.

    Args:
        function: the name of the SciPy function.
        found: SciPy's results, for each example.
        fields: the fields that are computed from the solution.
    """
    is_plain = len(found) == 1 and not followers(flatten(fields)[0])
    return result_from({**(found[0] if is_plain else reported(function, found)), **fields})


def as_tuple(args: Any) -> tuple[Any, ...]:
    """Return extra arguments in SciPy's form: a single one, or several in a tuple."""
    return args if isinstance(args, tuple) else (args,)


def unknowns_of(x: object, at_least_vector: bool = True) -> Any:
    """Return a starting point in SciPy's form, in double precision; containers of arrays are returned unchanged.

    A list of numbers is a vector, as in SciPy, and a number becomes a vector of length 1 if a vector is needed.
    """
    leaves, treedef = flatten(x)
    leaves = [_widened(leaf) for leaf in leaves]
    if isinstance(x, (list, tuple)) and leaves and all(leaf.shape == () for leaf in leaves):
        return np.stack(leaves)
    if at_least_vector and treedef.num_nodes == 1 and leaves[0].shape == ():
        return np.reshape(leaves[0], (1,))
    return unflatten(treedef, leaves)


def _widened(leaf: Any) -> Any:
    leaf = strip_ended(leaf)
    leaf = leaf if hasattr(leaf, "dtype") else np.asarray(leaf)
    return leaf.astype(np.complex128 if leaf.dtype.kind == "c" else np.float64)


def is_vector(x: Any) -> bool:
    """Return whether unknowns have SciPy's form: one real array with one axis."""
    return hasattr(x, "dtype") and x.dtype.kind == "f" and len(x.shape) == 1


def limits_of(bounds: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the lower and the upper bound of each unknown, as vectors.

    Args:
        bounds: a pair, each a number for all unknowns or a container with a number for each; or SciPy's `Bounds`.
        shape: the shape of the vector of unknowns.
    """
    lower, upper = (bounds.lb, bounds.ub) if isinstance(bounds, SCIPYS.Bounds) else bounds
    return _spread(lower, shape), _spread(upper, shape)


def _spread(limit: Operand, shape: tuple[int, ...]) -> Any:
    vector = raveled(limit)[0] * 1.0
    return np.broadcast_to(vector, shape) * 1.0 if vector.shape == (1,) else vector


def is_bounded(limits: tuple[Any, Any]) -> bool:
    """Return whether bounds may be active; traced ones may."""
    return any(followers([limit]) or np.isfinite(raw_array(limit)).any() for limit in limits)


def held_within(vector: Array, slope: Array, curvature: Array, limits: tuple[Any, Any]) -> Array:
    """Return the residuals at a minimum within bounds: the gradient, or for active bounds the distance.

    A bound is active if it is closer than the unconstrained minimum, as estimated from
    gradient and curvature; this is independent of units.
    """
    lower, upper = limits
    ahead = vector - slope / np.where(curvature > 0, curvature, 1.0)
    return np.where(ahead <= lower, vector - lower, np.where(ahead >= upper, vector - upper, slope))


def for_scipy(derive: Function, function: Function, compile: bool, count: int = 1) -> Function:
    """Return a function that makes, from plain arguments, a function of plain vectors for SciPy.

    Args:
        derive: maps a function of a vector to a derivative of it; `itself` for none.
        function: a function of a vector and arguments, which may be nested.
        compile: whether to make native code, with the arguments as inputs.
        count: the number of vectors that the derivative takes.
    """

    def on_plain(args: tuple[Any, ...]) -> Function:
        def call(vector: Array) -> Any:
            return check_returned(function, function(vector, *args))

        call.__name__ = name_of(function)
        return derive(call)  # type: ignore[no-any-return]

    if not compile:
        return on_plain
    natives: dict[Any, Any] = {}

    def native(treedef: optree.PyTreeSpec) -> Any:
        def derived(*given: object) -> Any:
            args = unflatten(treedef, given[count:])
            return derive(lambda vector: function(vector, *args))(*given[:count])

        derived.__name__ = name_of(function)
        return on_values(derived)

    def bound(args: tuple[Any, ...]) -> Function:
        leaves, treedef = flatten(args)
        if treedef not in natives:
            natives[treedef] = native(treedef)
        return natives[treedef].bound(*leaves)  # type: ignore[no-any-return]

    return bound


def dense_results(function: Function) -> Function:
    """Return a user's function with sparse results converted to dense, for methods that need dense ones."""

    def dense(*args: object) -> Any:
        matrix = function(*args)
        return matrix.toarray() if hasattr(matrix, "toarray") else matrix

    return dense


def itself(function: Function) -> Function:
    """Return a function unchanged."""
    return function


def python_of(function: Function) -> Function:
    """Return the Python function inside a compiled one, for derivatives that are computed once."""
    return function.function if isinstance(function, Compiled) else function


def on_own(function: Function) -> Function:
    """Return a user's function that gets copies of unknowns, as from SciPy's `minimize`: it may write into them."""

    @functools.wraps(function)
    def call(x: Any, *args: object, **keywords: object) -> Any:
        return function(tree_map(own, x), *args, **keywords)

    return call


def _plain(function: Function) -> Function:
    return lambda vector, *_: np.array(function(vector))


class Search:
    """One call of a SciPy solver: the unknowns as a vector, and SciPy's results.

    Args:
        name: the name of the SciPy function.
        function: the user's function; its Python code is differentiated at the solution.
        start: the user's starting point.
        compile: whether SciPy gets native code, as it does for a function that the user has compiled.

    Attributes:
        name: the name of the SciPy function.
        function: the user's function.
        start: the starting point, in double precision; it may be traced.
        found: SciPy's results, one for each example of a batch.
    """

    def __init__(self, name: str, function: Function, start: object, compile: bool = False) -> None:
        if not callable(function):
            raise errors.NotCallableError(f"a solver takes a function, but got {function!r}.")
        self.compile = compile or isinstance(function, Compiled)
        self.name, self.function, self.start = name, on_own(python_of(function)), unknowns_of(start)
        self.restore = raveled(self.start)[1]
        self.found: list[Any] = []

    def on_vectors(self, function: Function, named: Function | None = None) -> Function:
        """Return a function of the unknowns as a function from vectors to vectors.

        Messages name the function `named`, by default that of the solver.
        """
        named = named or self.function

        def of_vector(vector: Array, *args: object) -> Any:
            return raveled(check_returned(named, function(self.restore(vector), *args)))[0]

        of_vector.__name__ = name_of(named)
        return of_vector

    def plain(self, function: Function) -> Function:
        """Return a factory of SciPy's function argument from arguments: a function of a vector with plain results."""
        bind = for_scipy(itself, function, self.compile)
        return lambda args: _plain(bind(args))

    def plain_jacobian(self, function: Function) -> Function:
        """Return a factory of SciPy's `jac` from arguments: the exact Jacobian of a function of a vector."""
        bind = for_scipy(jacobian, function, self.compile)
        return lambda args: _plain(bind(args))

    def find(self, solve: Function, optimality: Function, args: tuple[Any, ...], uses: Function | None = None) -> Any:
        """Return SciPy's solution for the unknowns, differentiable.

        Args:
            solve: maps a starting vector and arguments to SciPy's result, with `x`.
            optimality: maps unknowns and arguments to residuals, as many as unknowns, which are zero at the solution.
            args: the inputs of the derivative.
            uses: takes the same arguments and uses the same inputs as `optimality`; by default the user's function.
        """

        def solver(start: object, args: tuple[Any, ...]) -> Any:
            return self.restore(self.ask(solve, start, args))

        return self.find_all(solver, optimality, args, uses or self.function, self.start)

    def ask(self, solve: Function, start: object, args: tuple[Any, ...]) -> Array:
        """Solve a plain problem with SciPy; store its result, and return the unknowns as a vector."""
        vector = np.array(raveled(start)[0])
        self.found.append(solve(vector, *args))
        if self.found[-1].x is None:
            raise self._not_solved(self.found[-1])
        return np.reshape(self.found[-1].x, vector.shape)

    def find_all(
        self, solver: Function, optimality: Function, args: tuple[Any, ...], uses: Function, like: object
    ) -> Any:
        """Return a solver's solution, differentiable; it may contain more than the unknowns.

        Args:
            solver: maps a starting point and plain arguments to the solution, and calls SciPy by `ask`.
            optimality: maps a solution and arguments to residuals, which are zero there.
            args: the inputs of the derivative.
            uses: takes the arguments of `optimality`, and uses the same inputs.
            like: an initial solution, used to find the inputs.
        """
        try:
            found = solved(
                self.function,
                solver,
                lambda x, start, args: optimality(x, *args),
                (self.start, args),
                uses=lambda x, start, args: uses(x, *args),
                start=like,
                tolerance=lambda: TOLERANCE if self.succeeded() else TOLERANCE_AFTER_FAILURE,
            )
        except errors.ConvergenceError as error:
            if self.succeeded():
                raise
            raise self._not_solved(next(result for result in self.found if not result.success)) from error
        return tree_map(boxed, found) if is_boxed((self.start, args)) else found

    def _not_solved(self, result: OptimizeResult) -> errors.ConvergenceError:
        return errors.ConvergenceError(
            f"SciPy did not solve the problem of {name_of(self.function)}: {result.message}\n"
            "There is no solution to differentiate. Allow more iterations or a larger tolerance, or "
            "use another starting point."
        )

    def succeeded(self) -> bool:
        """Return whether SciPy reports success for each of its solutions."""
        return all(result.success for result in self.found)

    def result(self, **fields: object) -> OptimizeResult:
        """Return SciPy's result with some fields replaced."""
        return result_of(self.name, self.found, **fields)

    def callback(self, callback: Callable[..., Any] | None) -> Any:
        """Return SciPy's callback after each iteration, for a user's callback that takes the structured unknowns."""
        if callback is None or is_vector(self.start):
            return callback
        if list(inspect.signature(callback).parameters) != ["intermediate_result"]:
            return lambda vector, *rest: callback(self.restore(vector), *rest)

        def with_result(intermediate_result: OptimizeResult) -> Any:
            return callback(result_from({**intermediate_result, "x": self.restore(intermediate_result.x)}))

        return with_result
