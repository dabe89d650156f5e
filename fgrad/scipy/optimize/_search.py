"""What the functions of this package share: SciPy's solvers on containers, and results that are differentiated."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize
from scipy.optimize import OptimizeResult

from fgrad import errors
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import boxed, strip_ended
from fgrad.core.tree import flatten, tree_map, unflatten
from fgrad.native.compiled import Compiled
from fgrad.native.values import on_values
from fgrad.ops.tracing import raw_array
from fgrad.rules.closures import followers
from fgrad.rules.implicit import TOLERANCE, solved
from fgrad.rules.vectors import raveled
from fgrad.scipy._aside import aside, aside_of_batch
from fgrad.transforms.calls import name_of
from fgrad.transforms.jacobians import jacobian

Function = Callable[..., Any]

SCIPYS: Any = scipy.optimize
"""SciPy's own functions, whose types are narrower than what they take."""


TOLERANCE_AFTER_FAILURE = 1e-7
"""Methods stop without success where rounding lets them make no more progress, which may be at the solution."""


def result_from(fields: dict[str, Any]) -> OptimizeResult:
    """Return a result of SciPy's kind."""
    result: OptimizeResult = SCIPYS.OptimizeResult(fields)
    return result


def result_of(function: str, found: list[Any], **fields: Any) -> OptimizeResult:
    """Return SciPy's result with some fields in place of its own; what is not among them has no derivative.

    Of the results for a batch these fields and whether all have succeeded; what else is in them is listed by example.

    Args:
        function: of SciPy, whose result it is.
        found: what SciPy has returned, for each example.
        fields: the parts that are computed from the solution.
    """
    if len(found) == 1:
        is_followed = bool(followers(flatten(fields)[0]))
        return result_from({**(reported(function, found[0]) if is_followed else found[0]), **fields})
    is_success = all(each.success for each in found)
    return result_from({**reported_of_batch(function, found), "success": is_success, **fields})


def reported(function: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return what a function of SciPy reports, as parts that are not differentiated, but for counts and flags."""
    return {name: aside(value, f"{name} of {function}") for name, value in fields.items()}


def reported_of_batch(function: str, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what a function of SciPy reports of the examples of a batch, each part as a list."""
    return {name: aside_of_batch([each[name] for each in found], f"{name} of {function}") for name in found[0]}


def as_tuple(args: Any) -> tuple[Any, ...]:
    """Return extra arguments as SciPy takes them: one, or several in a tuple."""
    return args if isinstance(args, tuple) else (args,)


def unknowns_of(x: Any, at_least_vector: bool = True) -> Any:
    """Return a start as SciPy takes it, in double precision; containers of arrays stay as they are.

    A list of numbers is a vector, as in SciPy, and a number is one of length 1 if it is to be a vector.
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
    """Return whether unknowns are what SciPy itself takes: one real array with one axis."""
    return hasattr(x, "dtype") and x.dtype.kind == "f" and len(x.shape) == 1


def limits_of(bounds: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the lower and the upper bound of each unknown, as vectors.

    Args:
        bounds: a pair, each a number for all or a container with a number for each; or SciPy's `Bounds`.
        shape: of the unknowns as a vector.
    """
    lower, upper = (bounds.lb, bounds.ub) if isinstance(bounds, SCIPYS.Bounds) else bounds
    return _spread(lower, shape), _spread(upper, shape)


def _spread(limit: Any, shape: tuple[int, ...]) -> Any:
    vector = raveled(limit)[0] * 1.0
    return np.broadcast_to(vector, shape) * 1.0 if vector.shape == (1,) else vector


def is_bounded(limits: tuple[Any, Any]) -> bool:
    """Return whether bounds may hold a minimum back; traced ones may."""
    return any(followers([limit]) or np.isfinite(raw_array(limit)).any() for limit in limits)


def held_within(vector: Any, slope: Any, curvature: Any, limits: tuple[Any, Any]) -> Any:
    """Return what is zero at a minimum within bounds: the slope, but where a bound holds the minimum back.

    There it is how far the unknown is from the bound, which then decides. A bound holds an unknown back if it is
    nearer than the minimum without it, as far as the slope and the curvature tell; so the units do not matter.
    """
    lower, upper = limits
    ahead = vector - slope / np.where(curvature > 0, curvature, 1.0)
    return np.where(ahead <= lower, vector - lower, np.where(ahead >= upper, vector - upper, slope))


def for_scipy(derive: Function, function: Function, compile: bool, count: int = 1) -> Function:
    """Return what makes, of plain arguments, a function of plain vectors that SciPy may call.

    Args:
        derive: from a function of a vector to a derivative of it; `itself` for none.
        function: of a vector and arguments, which may be nested.
        compile: it is to be native code, of which the arguments are inputs.
        count: how many vectors the derivative takes.
    """
    if not compile:
        return lambda args: derive(lambda vector: function(vector, *args))
    natives: dict[Any, Any] = {}

    def native(treedef: Any) -> Any:
        def derived(*given: Any) -> Any:
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
    """Return a function of the user's whose sparse arrays become dense ones, for methods that take no others."""

    def dense(*args: Any) -> Any:
        matrix = function(*args)
        return matrix.toarray() if hasattr(matrix, "toarray") else matrix

    return dense


def itself(function: Function) -> Function:
    """Return a function as it is."""
    return function


def python_of(function: Function) -> Function:
    """Return the Python of a function that the user has compiled, for derivatives that are computed once."""
    return function.function if isinstance(function, Compiled) else function


def is_boxed(tree: Any) -> bool:
    """Return whether there is a tensor in what a user has given, so that there is to be one in the result."""
    return any(type(leaf) in BOXES for leaf in flatten(tree)[0])


def _plain(function: Function) -> Function:
    return lambda vector, *_: np.array(function(vector))


class Search:
    """One call of a solver of SciPy: the unknowns as a vector, and what SciPy has found.

    Args:
        name: of SciPy's function.
        function: the user's function; its Python is what is differentiated at the solution.
        start: the unknowns that the user starts from.
        compile: SciPy gets native code; so it does where the user has compiled the function.

    Attributes:
        name: of SciPy's function.
        function: the user's function.
        start: the unknowns that the user starts from, in double precision; they may be traced.
        found: what SciPy has returned, one result for each example of a batch.
    """

    def __init__(self, name: str, function: Function, start: Any, compile: bool = False) -> None:
        if not callable(function):
            raise errors.NotCallableError(f"a solver takes a function, and got {function!r}.")
        self.compile = compile or isinstance(function, Compiled)
        self.name, self.function, self.start = name, python_of(function), unknowns_of(start)
        self.restore = raveled(self.start)[1]
        self.found: list[Any] = []

    def on_vectors(self, function: Function) -> Function:
        """Return a function of the unknowns as one of a vector, which returns a vector."""

        def of_vector(vector: Any, *args: Any) -> Any:
            return raveled(function(self.restore(vector), *args))[0]

        of_vector.__name__ = name_of(self.function)
        return of_vector

    def plain(self, function: Function) -> Function:
        """Return what makes, of arguments, what SciPy takes as the function: that of a vector, with plain results."""
        bind = for_scipy(itself, function, self.compile)
        return lambda args: _plain(bind(args))

    def plain_jacobian(self, function: Function) -> Function:
        """Return what makes, of arguments, what SciPy takes as `jac`: the exact Jacobian of a function of a vector."""
        bind = for_scipy(jacobian, function, self.compile)
        return lambda args: _plain(bind(args))

    def find(self, solve: Function, optimality: Function, args: tuple[Any, ...], uses: Function | None = None) -> Any:
        """Return the unknowns that SciPy finds, differentiated.

        Args:
            solve: from a start, as a vector, and arguments to SciPy's result, with `x`.
            optimality: from unknowns and arguments to as many numbers, which are zero at the solution.
            args: what is differentiated.
            uses: takes the same and uses what `optimality` uses; by default the user's function.
        """

        def solver(start: Any, args: Any) -> Any:
            return self.restore(self.ask(solve, start, args))

        return self.find_all(solver, optimality, args, uses or self.function, self.start)

    def ask(self, solve: Function, start: Any, args: tuple[Any, ...]) -> Any:
        """Let SciPy solve a plain problem; note its result, and return the unknowns as a vector."""
        vector = np.array(raveled(start)[0])
        self.found.append(solve(vector, *args))
        if self.found[-1].x is None:
            raise self._not_solved(self.found[-1])
        return np.reshape(self.found[-1].x, vector.shape)

    def find_all(self, solver: Function, optimality: Function, args: tuple[Any, ...], uses: Function, like: Any) -> Any:
        """Return what a solver returns, differentiated; there may be more in it than the unknowns.

        Args:
            solver: from a start and plain arguments to the solution, which asks SciPy with `ask`.
            optimality: from a solution and arguments to as many numbers, which are zero there.
            args: what is differentiated.
            uses: takes what `optimality` takes, and uses the same.
            like: a first solution, to look at what is used.
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
            "So there is no solution to differentiate. Let it go on (more iterations, a larger tolerance), or "
            "start it elsewhere."
        )

    def succeeded(self) -> bool:
        """Return whether SciPy says of each of its solutions that it is one."""
        return all(result.success for result in self.found)

    def result(self, **fields: Any) -> OptimizeResult:
        """Return SciPy's result with some fields in place of its own."""
        return result_of(self.name, self.found, **fields)

    def callback(self, callback: Any) -> Any:
        """Return what SciPy calls after each iteration, for a callback that takes the unknowns as they are."""
        if callback is None or is_vector(self.start):
            return callback
        if list(inspect.signature(callback).parameters) != ["intermediate_result"]:
            return lambda vector, *rest: callback(self.restore(vector), *rest)

        def with_result(intermediate_result: OptimizeResult) -> Any:
            return callback(result_from({**intermediate_result, "x": self.restore(intermediate_result.x)}))

        return with_result
