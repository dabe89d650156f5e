"""Implicit differentiation: derivatives of a solver's solution, from its equation and not from its steps.

    implicit_diff(solver, optimality)     a solver whose solution can be differentiated
    solution(equation, leaves)            the same for vectors, as used by `fgrad.scipy.optimize`

If F(x, p) = 0 defines x as a function of p, then F_x dx + F_p dp = 0: the implicit function theorem. So forward mode
solves F_x dx = -F_p dp, and reverse mode solves with the transpose of F_x. Both use traced functions and the solution,
which is itself differentiable in this way: this gives the next order.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fgrad import errors
from fgrad.core.concretize import values_alone
from fgrad.core.tensor import Tensor, boxed, strip_ended
from fgrad.core.trace import Trace
from fgrad.core.tree import flatten, tree_map, unflatten
from fgrad.ops.tracing import raw_array
from fgrad.rules.arguments import OnlyRead, own
from fgrad.rules.closures import Closure, Uses, followers, values_of
from fgrad.rules.kept import Kept
from fgrad.rules.rule import Leaves, Rule, Variables, apply_rule, settled, tangents_of
from fgrad.rules.vectors import raveled
from fgrad.transforms.calls import decorator, name_of
from fgrad.transforms.forward import jvp
from fgrad.transforms.jacobians import jacobian
from fgrad.transforms.linearization import differentiable
from fgrad.transforms.reverse import vjp
from fgrad.typing import Array

TOLERANCE = 1e-3


class Inverse(Protocol):
    """The inverse of the Jacobian F_x of the residuals with respect to the solution; it may be traced."""

    def times(self, b: Any) -> Any:
        """Return the solution of F_x y = b."""

    def transposed_times(self, b: Any) -> Any:
        """Return the solution of F_x^T y = b."""

    def is_singular(self) -> bool:
        """Return whether the Jacobian is singular up to rounding."""

    def of_values(self, x: Any, leaves: Leaves) -> Inverse:
        """Return the inverse for the plain values of the solution and the arrays."""


@dataclass
class Equation:
    """The equation that defines a vector as a function of arrays.

    Attributes:
        function: the user's function, for messages.
        solve: maps plain arrays to the solution, a plain vector; raises if it finds none.
        residuals: maps a vector and arrays to a vector of the same length, which is zero at the solution.
        matrix_free: whether linear systems are solved by products with the Jacobian only.
        tolerance: the largest allowed element of a Newton step at a solution, relative to the solution's largest
            element, or to 1 if that is less.
        inverse: maps a solution and arrays to the inverse of the Jacobian, if its structure is known; otherwise the
            Jacobian is a dense matrix.
    """

    function: Callable[..., Any]
    solve: Callable[[Leaves], Any]
    residuals: Callable[[Any, Leaves], Any]
    matrix_free: bool = False
    tolerance: float = TOLERANCE
    inverse: Callable[[Any, Leaves], Inverse] | None = None


def solution(equation: Equation, leaves: Leaves) -> Any:
    """Return the solution as a vector, differentiable with respect to all arrays in both modes, to any order.

    Raises:
        ConvergenceError: a RuntimeError; the solver's result does not solve the equation.
        SingularEquationError: a ValueError; the solution is not a differentiable function of the arrays.
    """
    return apply_rule(_rule(equation), leaves)[0]


def _rule(equation: Equation) -> Rule:
    residuals = equation.residuals

    def call(leaves: Leaves) -> Leaves:
        batched = _one_by_one(lambda leaves: apply_rule(rule, leaves)[0], leaves)
        return [equation.solve(leaves) if batched is None else batched]

    def linearize(leaves: Leaves) -> Any:
        (x,) = apply_rule(rule, leaves)  # for lower traces
        inverse = _Inverse(equation, x, leaves) if equation.inverse is None else equation.inverse(x, leaves)
        _check(equation, inverse, x, leaves)

        def push(tangents: Leaves, variables: Variables) -> Leaves:
            return [-inverse.times(tangents_of(lambda *leaves: residuals(x, leaves), leaves, tangents))]

        def pull(cotangents: Leaves, variables: Variables) -> Leaves:
            pullback = vjp(lambda *leaves: residuals(x, leaves), *leaves)[1]
            return [None if ct is None else -ct for ct in pullback(inverse.transposed_times(cotangents[0]))]

        return [x], pull, push

    rule = Rule(equation.function, call, linearize)
    return rule


def _one_by_one(solve: Callable[[Leaves], Any], leaves: Leaves) -> Any:
    """Return the solutions of all examples of a batch, each computed separately; None if there is no batch."""
    leaves = [strip_ended(leaf) for leaf in leaves]
    traces: list[Any] = [leaf._trace for leaf in leaves if type(leaf) is Tensor and leaf._trace.is_map]
    if not traces:
        return None
    trace = max(traces, key=lambda trace: trace.level)
    ours = [type(leaf) is Tensor and leaf._trace is trace for leaf in leaves]
    found = [
        solve([leaf._payload[i] if own else leaf for leaf, own in zip(leaves, ours, strict=True)])
        for i in range(trace.size)
    ]
    return trace.root(np.stack(found))


def _check(equation: Equation, inverse: Inverse, x: Array, leaves: Leaves) -> None:
    """Raise if Newton's method would change the solution by more than the tolerance."""
    if inverse.is_singular():
        raise _singular(equation)
    x, *leaves = values_of([x, *leaves])
    left = equation.residuals(x, leaves)
    step = raw_array(inverse.of_values(x, leaves).times(left))
    largest = np.max(np.abs(step), initial=0)
    if not largest <= equation.tolerance * max(1.0, np.max(np.abs(raw_array(x)), initial=0)):
        raise errors.ConvergenceError(
            f"the result of {name_of(equation.function)} is not a solution: its residuals are up to "
            f"{np.max(np.abs(raw_array(left))):.3g}, and Newton's method would change it by {largest:.3g}.\n"
            "Increase the solver's accuracy (more iterations, a smaller tolerance), or change its initial value."
        )


class _Inverse:
    """The inverse of the Jacobian of the residuals with respect to the solution."""

    def __init__(self, equation: Equation, x: Array, leaves: Leaves, matrix: Array | None = None) -> None:
        self._equation, self._x, self._leaves = equation, x, leaves
        self._matrix = matrix
        if matrix is None and not equation.matrix_free:
            self._matrix = jacobian(lambda x: equation.residuals(x, leaves))(x)

    def is_singular(self) -> bool:
        if self._matrix is not None:
            return _is_singular(raw_array(self._matrix))
        x, *leaves = values_of([self._x, *self._leaves])
        return _has_empty_row(lambda x: self._equation.residuals(x, leaves), x)

    def of_values(self, x: Array, leaves: Leaves) -> Inverse:
        return _Inverse(self._equation, x, leaves, None if self._matrix is None else values_of([self._matrix])[0])

    def times(self, b: Array) -> Any:
        """Return the solution of F_x y = b."""
        if self._matrix is not None:
            return self._solved(self._matrix, b)

        def residuals(y: Any, leaves: Leaves) -> Any:
            x, b, *rest = leaves
            return jvp(lambda x: self._equation.residuals(x, rest), (x,), (y,))[1] - b

        return self._matrix_free(residuals, b)

    def transposed_times(self, b: Array) -> Any:
        """Return the solution of F_x^T y = b."""
        if self._matrix is not None:
            return self._solved(np.transpose(self._matrix), b)

        def residuals(y: Any, leaves: Leaves) -> Any:
            x, b, *rest = leaves
            return vjp(lambda x: self._equation.residuals(x, rest), x)[1](y)[0] - b

        return self._matrix_free(residuals, b)

    def _solved(self, matrix: Array, b: Array) -> Any:
        try:
            return np.linalg.solve(matrix, b)
        except np.linalg.LinAlgError:
            raise _singular(self._equation) from None

    def _matrix_free(self, residuals: Callable[[Any, Leaves], Any], b: Any) -> Any:
        """Solve a linear system by matrix products only; the solution is again that of an `Equation`."""

        def solve(leaves: Leaves) -> Any:
            return _krylov(self._equation, lambda y: residuals(y, leaves) + leaves[1], leaves[1])

        linear = Equation(self._equation.function, solve, residuals, matrix_free=True)
        return solution(linear, [self._x, b, *self._leaves])


def _krylov(equation: Equation, product: Callable[[Any], Any], b: Any) -> Array:
    """Solve a linear system by GMRES (Saad & Schultz 1986, https://doi.org/10.1137/0907058)."""
    from scipy.sparse.linalg import LinearOperator, gmres

    n = b.shape[0]
    operator = LinearOperator((n, n), lambda y: np.array(product(np.reshape(y, n))), dtype=b.dtype)
    precision = float(np.finfo(b.dtype).eps) ** 0.75
    found, info = gmres(operator, b, rtol=precision, atol=0.0, restart=min(n, 200), maxiter=10 * n)
    if info or not np.isfinite(found).all():
        raise _singular(equation)
    return found.astype(b.dtype)


def _is_singular(matrix: Array) -> bool:
    """Return whether a matrix is singular up to rounding, whatever the units of its rows and columns."""
    for axis in (-2, -1):
        largest = np.max(np.abs(matrix), axis=axis, keepdims=True, initial=0)
        if not np.all(largest > 0):
            return bool(matrix.size)
        matrix = matrix / largest
    return bool(matrix.size and not np.all(np.linalg.cond(matrix) * np.finfo(matrix.dtype).eps < 1))


def _has_empty_row(residuals: Callable[[Any], Any], x: Any) -> bool:
    """Return whether a residual does not depend on any unknown, such as one that is piecewise constant."""
    direction = np.random.default_rng(0).standard_normal(x.shape).astype(x.dtype)
    return not np.all(raw_array(jvp(residuals, (x,), (direction,))[1]))


def _singular(equation: Equation) -> errors.SingularEquationError:
    return errors.SingularEquationError(
        f"the equation that defines the solution of {name_of(equation.function)} has a singular Jacobian there; the "
        "solution is not a differentiable function of its parameters.\n"
        "Provide as many independent equations as unknowns; a minimum must not be flat in any direction."
    )


# On containers


class _Solver:
    """A user's solver as a function of plain arrays.

    Args:
        solver: the function, which must not write into the values of tensors among its arguments.
        closure: the other values that it uses.
        args: its arguments.
        name: the name of the user's function in messages.

    Attributes:
        arrays: the differentiated arrays among the arguments.
        closure: the other values that are replaced while the solver runs.
        restore: converts a vector to the form of the solver's last solution.
    """

    def __init__(self, solver: Callable[..., Any], closure: Closure, args: tuple[Any, ...], name: str) -> None:
        self._solver, self.closure, self._name = solver, closure, name
        self._leaves, self._treedef = flatten(args)
        self._only_reads = bool(followers(self._leaves))
        self._places = [differentiable(leaf) is not None for leaf in self._leaves]
        self.arrays = [settled(leaf) for leaf, place in zip(self._leaves, self._places, strict=True) if place]
        self.restore: Callable[[Any], Any] = settled
        self._known: dict[bytes, Any] = {}
        self._further: list[Uses] = []

    def keep(self, kept: Kept) -> None:
        """Replace the arguments that are not differentiated by copies of their current values."""
        self._leaves = [kept.now(leaf) for leaf in self._leaves]

    def parted(self, inputs: Leaves) -> tuple[tuple[Any, ...], Leaves]:
        """Return the arguments for given inputs, and the values for the closure."""
        rest = iter(inputs)
        whole = [next(rest) if place else leaf for leaf, place in zip(self._leaves, self._places, strict=True)]
        return unflatten(self._treedef, whole), list(rest)

    def run(self, inputs: Leaves) -> Any:
        """Return the solution for plain inputs, as a vector."""
        known = self._known.get(_key(inputs))
        if known is not None:
            return known
        args, values = self.parted(inputs)
        uses, error = Uses(flatten(args)[0]), None
        with self.closure.given(values), values_alone(Trace().rank), uses.looking():
            try:
                with OnlyRead(inputs if self._only_reads else (), self._name):
                    found = self._solver(*args)
            except errors.ConcretizationError as refusal:  # an example by itself has a value
                error = refusal
        if _is_batched(uses.tensors) or _is_batched([*uses.reads.values()]):
            raise _UsesBatch(uses)
        if error is not None:
            raise error
        vector, self.restore = raveled(tree_map(lambda x: settled(raw_array(x)), found))
        return vector

    def first(self) -> Any:
        """Return the solution for the values of all inputs; for batched inputs separately for each example."""
        while True:
            try:
                return for_each_example(self.run, values_of([*self.arrays, *self.closure.values]))
            except _UsesBatch as used:
                self._further.append(used.uses)
                self.closure.add(used.uses)

    def uses(self, closure: Closure) -> None:
        """Set the closure, with the batched values that the solver has used added to its inputs."""
        for uses in self._further:
            closure.add(uses)
        self.closure = closure

    def remember(self, pair: Leaves) -> Any:
        """Store a solution with its inputs, so that the solver need not run for them again."""
        self._known[_key(pair[1:])] = pair[0]
        return pair[0]


class _UsesBatch(Exception):  # noqa: N818  # not an error
    """Raised when a solver has used batched values that were unknown."""

    def __init__(self, uses: Uses) -> None:
        super().__init__("a batched value is used")
        self.uses = uses


def _is_batched(leaves: Leaves) -> bool:
    return any(trace.is_map for trace in followers(leaves))


def _key(leaves: Leaves) -> bytes:
    return pickle.dumps([np.asarray(leaf) for leaf in leaves])


def solved(
    function: Callable[..., Any],
    solver: Callable[..., Any],
    optimality: Callable[..., Any],
    args: tuple[Any, ...],
    uses: Callable[..., Any] | None = None,
    start: Any = None,
    tolerance: float | Callable[[], float] = TOLERANCE,
    matrix_free: bool = False,
) -> Any:
    """Return a solver's solution, differentiable with respect to arguments and the values its equation uses.

    Args:
        function: the user's function, for messages.
        solver: maps arguments to a solution, a container of arrays; it runs on plain values.
        optimality: maps a solution and arguments to a container of as many numbers, which are zero at the solution.
        args: containers; their floating-point arrays can be differentiated.
        uses: a function of the same arguments that uses the same further values; by default `optimality`.
        start: a value like the solution, if known; the values that the solver uses are then found before it runs.
        tolerance: the tolerance of the `Equation`, or a function that returns it, called when a solution is found.
        matrix_free: as for the `Equation`.
    """
    uses = uses or optimality
    problem = _Solver(
        solver, Closure(uses, [] if start is None else [(tree_map(own, start), *args)]), args, name_of(function)
    )
    first = problem.first()
    closure = Closure(uses, [(problem.restore(own(first)), *args)])
    problem.uses(closure)
    inputs = [*problem.arrays, *closure.values]
    if not followers(inputs):
        return problem.restore(first)
    for_each_example(problem.remember, values_of([first, *inputs]))
    kept = Kept()
    equation = kept.now(optimality)
    problem.keep(kept)

    def residuals(x: Array, inputs: Leaves) -> Any:
        args, values = problem.parted(inputs)
        with kept.given(name_of(function)), closure.given(values), OnlyRead(inputs, name_of(function)):
            left = raveled(equation(problem.restore(own(x)), *args))[0]
        if left.shape != x.shape:
            raise errors.ShapeError(
                f"the optimality of {name_of(function)} returns {left.size} numbers for a solution of {x.size}; it "
                "must return one for each unknown."
            )
        return left

    limit = tolerance() if callable(tolerance) else tolerance
    return problem.restore(solution(Equation(function, problem.run, residuals, matrix_free, limit), inputs))


def for_each_example(function: Callable[[Leaves], Any], leaves: Leaves) -> Any:
    """Run a function of values; if leaves are batched, separately for each example."""
    batched = _one_by_one(lambda each: for_each_example(function, each), leaves)
    return function(leaves) if batched is None else batched


def _run_implicit_diff(
    solver: Any, args: tuple[Any, ...], keywords: dict[str, Any], optimality: Any, **options: Any
) -> Any:
    def solve(args: Any, keywords: Any) -> Any:
        return solver(*args, **keywords)

    def left(x: Any, args: Any, keywords: Any) -> Any:
        return optimality(x, *args, **keywords)

    return tree_map(boxed, solved(solver, solve, left, (args, keywords), **options))


def implicit_diff(
    solver: Callable[..., Any] | None = None,
    optimality: Callable[..., Any] | None = None,
    *,
    matrix_free: bool = False,
    tolerance: float = TOLERANCE,
) -> Any:
    """Return a solver whose solution can be differentiated, by the implicit function theorem.

    The solver runs on plain values, and may be anything: SciPy, compiled code, a loop. Its solution is differentiated
    through the equation that it solves, in both modes, to any order, with respect to all floating-point arrays among
    its arguments and to traced values and variables that `optimality` uses besides. `optimality` runs again for the
    derivatives, with plain arrays, lists and attributes that it refers to as they were at the call. Under `vmap` the
    solver runs separately for each example.

    Args:
        solver: `solver(*args, **keywords)` returns the solution, a container of arrays. Without it, a decorator for the
            solver is returned.
        optimality: `optimality(x, *args, **keywords)` returns as many numbers as the solution has, in any container;
            they are zero at the solution `x`, and nowhere else nearby. For a minimum it is the gradient of the
            objective, for a fixed point `x - f(x)`.
        matrix_free: solve by products with the Jacobian of `optimality`, with GMRES, instead of allocating the matrix;
            for many unknowns. It needs SciPy.
        tolerance: the largest allowed Newton step at the solution, relative to the solution's largest element or to 1
            if that is less.

    Returns:
        A function of the solver's arguments that returns its solution.

    Raises:
        ConvergenceError: a RuntimeError; the solver's result is not a solution.
        SingularEquationError: a ValueError; the equation does not determine the solution.
        ShapeError: a ValueError; `optimality` returns more or fewer numbers than there are unknowns.
        ClosureError: a TypeError; `optimality` gets a traced value in a way that cannot be observed.
        OverwrittenError: a RuntimeError, from a backward pass; an array of more than one mebibyte to which `optimality`
            refers has been overwritten.
        NotCallableError: a TypeError; `solver` or `optimality` is not a function.

    Example:
        >>> import fgrad as fg
        >>> from scipy.optimize import brentq
        >>> root = fg.implicit_diff(lambda a: brentq(lambda x: x**3 - a, 0, 10), lambda x, a: x**3 - a)
        >>> fg.grad(root)(8.0)                      # d a^(1/3) / da
        Tensor(0.08333333)
        >>> fg.grad(fg.grad(root))(8.0)
        Tensor(-0.00694444)
    """
    if not callable(optimality):
        raise errors.NotCallableError(
            f"implicit_diff takes `optimality`, a function that is zero at the solution, and got "
            f"{optimality!r:.200}.\n"
            "Write implicit_diff(solver, optimality), where solver(*args) returns the solution x of "
            "optimality(x, *args) = 0."
        )
    options = {"optimality": optimality, "matrix_free": matrix_free, "tolerance": tolerance}
    return decorator(_run_implicit_diff, solver, **options)
