"""Integrals of functions, as in `scipy.integrate`: by QUADPACK, with derivatives by the Leibniz rule.

    quad, quad_vec        over an interval
    fixed_quad            by Gauss-Legendre quadrature with a fixed number of points

The derivative of an integral with respect to a limit is the integrand there; with respect to a parameter, it is the
integral of the integrand's derivative. The pullback to all parameters is one integral of a vector-valued function,
which is differentiated likewise; so higher orders follow. SciPy's cubature computes it if a traced integrand can be
evaluated at many points together, and otherwise quad_vec.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from scipy.special import roots_legendre

from fgrad import errors
from fgrad.core.tensor import strip_ended
from fgrad.ops.tracing import raw_array
from fgrad.rules.rule import Leaves
from fgrad.rules.vectors import raveled
from fgrad.scipy._aside import Aside, aside
from fgrad.scipy._plain import is_boxed
from fgrad.scipy.integrate._callback import (
    UsersFunctions,
    batched,
    batches_of,
    for_each_example,
    unbatched,
    values_of,
)
from fgrad.scipy.integrate._discontinuities import Switches, is_looked_at
from fgrad.scipy.integrate._forms import SCIPYS, array_of, as_result, floating, followed, is_moving, key_of
from fgrad.scipy.integrate._vectorized import (
    NotTogether,
    first_that_works,
    in_groups,
    in_one_batch,
    pulled,
    pushed,
)
from fgrad.transforms.callbacks import check_solvers_function
from fgrad.transforms.calls import name_of
from fgrad.transforms.reverse import stop_gradient
from fgrad.typing import Array, ArrayLike, Operand

TOLERANCE = 1.49e-8
"""The default tolerance of quad, absolute and relative."""

ROUNDING = "The occurrence of roundoff error is detected"
"""Start of SciPy's message for an integral that is accurate to rounding but not to the requested tolerance."""

REMEDY = (
    "Pass the location, points=[location], whose derivative quad and quad_vec include; or split the integral there. "
    "If the location is meant to be constant, use fg.stop_gradient on the values it depends on."
)
"""Remedy for an integrand with a moving jump."""


def quad(
    func: Callable[..., Any],
    a: ArrayLike,
    b: ArrayLike,
    args: Any = (),
    full_output: Any = 0,
    epsabs: float = TOLERANCE,
    epsrel: float = TOLERANCE,
    limit: int = 50,
    points: Any = None,
    weight: Any = None,
    wvar: Any = None,
    wopts: Any = None,
    maxp1: int = 50,
    limlst: int = 50,
    complex_func: bool = False,
) -> Any:
    """Integrate a function between two limits, as `scipy.integrate.quad`, with derivatives.

    If nothing is traced, this is SciPy's function. Otherwise the value is SciPy's, too, and it is differentiable with
    respect to `a` and `b`, `args`, and traced values and variables that `func` closes over; in both modes, to any
    order. Derivatives are integrals, too, computed to the same tolerances.

    Args:
        func: `func(x, *args)` returns a number.
        a, b: the limits; infinite ones are constants.
        args: extra arguments, which may be containers of arrays.
        points: break points. If the integrand jumps at a differentiated one, the jump moves with it.
        epsabs, epsrel, limit, full_output, complex_func: as in SciPy.
        weight, wvar, wopts, maxp1, limlst: as in SciPy, for integrals that are not differentiated.

    Returns:
        The integral, and SciPy's estimate of its error; with `full_output` SciPy's dict, too. The latter two are for
        information: if a derivative is needed, they raise when they are used in a computation.

    Raises:
        ConvergenceError: a RuntimeError; a derivative is needed, and SciPy did not find the integral,
            or that of a derivative. If only rounding limits the precision, SciPy's warning is given instead.
        UnsupportedError: a NotImplementedError; a derivative is needed, and there is a `weight`, `func` is not a
            Python function, or `complex_func` is true and `a` is larger than `b`, where SciPy's value has the wrong
            sign.
        ClosureError: a TypeError; `func` uses a traced value that cannot be found in its closure.

    Warns:
        MovingStepWarning: `func` jumps at a location that depends on differentiated values, and is not in `points`.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def bell(width):
        ...     return quad(lambda x: np.exp(-((x / width) ** 2)), -np.inf, np.inf)[0]
        >>> fg.value_and_grad(bell)(2.0)                # sqrt(pi) * width, sqrt(pi)
        (Tensor(3.5449077), Tensor(1.77245385))
        >>> fg.grad(lambda b: quad(np.exp, 0.0, b)[0])(1.0)
        Tensor(2.71828183)
        >>> def above(threshold):                       # (1 - threshold^2) / 2
        ...     return quad(lambda x: np.where(x > threshold, x, 0.0), 0.0, 1.0, points=[threshold])[0]
        >>> fg.grad(above)(0.25)
        Tensor(-0.25)
    """
    options = {"epsabs": epsabs, "epsrel": epsrel, "limit": limit, "complex_func": complex_func}
    weighed = {"weight": weight, "wvar": wvar, "wopts": wopts, "maxp1": maxp1, "limlst": limlst}
    args = args if isinstance(args, tuple) else (args,)
    check_solvers_function("func of quad", func, "x", args)
    return _Call(func, (a, b), points, args, {**options, **weighed}, SCIPYS.quad).result(bool(full_output))


def inner_quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: tuple[Any, ...],
    full_output: bool,
    points: Any = None,
    **options: Any,
) -> Any:
    """Integrate as `quad`, for an integral that is only used as the integrand of another one."""
    options = {"epsabs": TOLERANCE, "epsrel": TOLERANCE, "limit": 50, **options}
    return _Call(func, (a, b), points, args, options, SCIPYS.quad, is_inner=True).result(full_output)


def quad_vec(
    f: Callable[..., Any],
    a: ArrayLike,
    b: ArrayLike,
    epsabs: float = 1e-200,
    epsrel: float = 1e-8,
    norm: object = "2",
    cache_size: float = 100e6,
    limit: int = 10000,
    workers: Any = 1,
    points: Any = None,
    quadrature: Any = None,
    full_output: bool = False,
    *,
    args: Any = (),
) -> Any:
    """Integrate an array-valued function, as `scipy.integrate.quad_vec`, with derivatives.

    Args:
        f: `f(x, *args)` returns an array.
        a, b, args: as for `quad`.
        points: break points, as for `quad`.
        epsabs, epsrel, norm, cache_size, limit, workers, quadrature, full_output: as in SciPy.

    Returns:
        The integral, and SciPy's estimate of its error; with `full_output` also SciPy's further information.

    Raises:
        ConvergenceError: a RuntimeError; a derivative is needed, and SciPy did not find the integral.
        ClosureError: a TypeError; `f` uses a traced value that cannot be found in its closure.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> powers = np.array([1.0, 2.0])
        >>> fg.jacobian(lambda b: quad_vec(lambda x: x**powers, 0.0, b)[0])(3.0)
        Tensor([3., 9.])
    """
    options = {"epsabs": epsabs, "epsrel": epsrel, "norm": norm, "cache_size": cache_size, "limit": limit}
    options = {**options, "workers": workers, "quadrature": quadrature}
    args = args if isinstance(args, tuple) else (args,)
    check_solvers_function("f of quad_vec", f, "x", args)
    return _Call(f, (a, b), points, args, options, SCIPYS.quad_vec).result(full_output)


def fixed_quad(func: Callable[..., Any], a: ArrayLike, b: Any, args: Any = (), n: int = 5) -> tuple[Any, None]:
    """Integrate a function by Gauss-Legendre quadrature, as `scipy.integrate.fixed_quad`; with derivatives.

    Args:
        func: `func(x, *args)` takes all nodes together, and returns values along the last axis.
        a, b: the limits, which are finite.
        args: extra arguments.
        n: the number of nodes.

    Returns:
        The integral, and None.

    Raises:
        ValueError: a limit is infinite.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda b: fixed_quad(np.exp, 0.0, b)[0])(1.0)
        Tensor(2.71828183)
    """
    if not is_boxed((a, b, args)):
        if np.isinf(a) or np.isinf(b):
            raise ValueError("Gaussian quadrature is only available for finite limits.")
    elif np.isinf(raw_array(strip_ended(a))).any() or np.isinf(raw_array(strip_ended(b))).any():
        raise ValueError("Gaussian quadrature is only available for finite limits.")
    check_solvers_function("func of fixed_quad", func, "x", args)
    nodes, weights = roots_legendre(n)
    x = (b - a) * (np.real(nodes) + 1) / 2.0 + a
    _warn_of_steps_at(x, func, args)
    return (b - a) / 2.0 * np.sum(weights * func(x, *args), axis=-1), None


def _warn_of_steps_at(x: Array, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Warn of a jump between nodes that moves relative to them."""
    users = UsersFunctions([function], args)
    nodes = array_of(x)
    users.run(lambda functions, leaves: [np.asarray(functions[0](leaves[0]))], [nodes])
    leaves = [nodes, *users.inputs()]
    if any(map(is_moving, leaves)) and not is_looked_at(leaves):

        def integrand(x: Array, *inputs: Array) -> Any:
            return array_of(users.call(0, inputs, np.reshape(x, (1,))))

        switches = Switches(name_of(function), integrand, tuple(map(is_moving, leaves)), REMEDY)

        def of_one(leaves: Leaves) -> Leaves:
            switches.warn(leaves[:1], leaves[1:])
            return []

        for_each_example(of_one, values_of(leaves))


def _reported(part: Mapping[str, Any], name: str) -> Any:
    """Return SciPy's report on an integral besides its error, marked as not differentiated."""
    if isinstance(part, dict):
        return {key: aside(value, f"{key} in the infodict of {name}") for key, value in part.items()}
    return aside(part, f"the information of {name}")


# One call, and its integral


class _Call:
    """One call of `quad` or `quad_vec`.

    Args:
        function: the user's function.
        limits: the lower and the upper limit.
        points: break points, or None.
        args: extra arguments.
        options: options of SciPy.
        scipys: SciPy's function.
        is_inner: whether the integral is only used as the integrand of another one.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        limits: Sequence[Any],
        points: Any,
        args: tuple[Any, ...],
        options: dict[str, Any],
        scipys: Callable[..., Any],
        is_inner: bool = False,
    ) -> None:
        self._function, self._options, self._scipys, self._is_inner = function, options, scipys, is_inner
        self._has_points = points is not None
        self._has_tensors = is_boxed((limits, points, args))
        self._is_python = callable(function)
        self._users = UsersFunctions([function] if self._is_python else [], args)
        breaks = np.reshape(array_of(points if self._has_points else []), -1)  # SciPy accepts a single one, too
        self._leaves = [*map(array_of, limits), *(breaks[i] for i in range(len(breaks)))]
        self._found: list[Any] = []
        self._visited: list[float] = []
        self._reached = 0.0  # the relative precision, if rounding limits it

    def result(self, full_output: bool) -> Any:
        """Return SciPy's result, differentiable if something is traced."""
        self._options["full_output"] = full_output
        try:
            return self._integral(full_output)
        except _LookedAt:
            return (self._at_first_node(), 0.0, {"neval": 0})[: 2 + full_output]

    def _integral(self, full_output: bool) -> Any:
        numbers, value, estimate = [*self._users.run(self._solve, self._leaves), None, None, None][:3]
        if not self._users.is_traced(self._leaves):
            found = self._found[-1]
            return (as_result(found[0]), *found[1:]) if self._has_tensors else found
        limits, inputs = list(map(floating, self._leaves)), self._users.inputs()
        integral = _Integral(
            self._function,
            lambda x, *inputs: array_of(self._users.call(0, inputs, x)),
            self._of_values,
            {**self._options, "epsrel": max(self._options["epsrel"], self._reached)},
            tuple(map(is_moving, limits)),
            self._visited,
        )
        for_each_example(integral.remember, values_of([value, *limits, *inputs]))
        estimate, name = strip_ended(estimate), self._scipys.__name__
        if any(map(is_moving, [*limits, *inputs])):
            estimate = Aside(estimate, f"the estimate of the error of {name}")
        result = as_result(integral.value([*limits, *inputs])), estimate
        if not full_output:
            return result
        found = [self._found[number][2:] for number in np.ravel(raw_array(numbers))]
        further = [tuple(_reported(part, name) for part in parts) for parts in found]
        return (*result, *further[0]) if len(further) == 1 else (*result, further)

    def _at_first_node(self) -> Any:
        """Return the integrand at SciPy's first node, for its decisions on the inputs."""
        low, high = values_of(self._leaves[:2])
        ends = np.where(np.isfinite(low), low + 1, np.where(np.isfinite(high), high - 1, 1.0))
        node = np.where(np.isfinite(low) & np.isfinite(high), (low + high) / 2, ends)
        return array_of(self._users.call(0, self._users.inputs(), node[()]))

    def _solve(self, functions: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
        """Run SciPy's function for plain functions and plain limits.

        Raises:
            _LookedAt: a search for jumps runs the integrand of which this is an inner integral: it needs no values.
        """
        functions = functions or [self._function]
        if not self._users.is_traced(self._leaves):
            self._found = [
                self._scipys(functions[0], *map(_limit, leaves[:2]), **self._options, **self._points(leaves))
            ]
            return []
        self._check_is_supported()
        if self._is_inner and is_looked_at([*self._leaves, *self._users.inputs()]):
            raise _LookedAt
        self._found.append(self._integrated(functions[0], leaves))
        value, estimate = self._found[-1][:2]
        return [np.array(len(self._found) - 1), np.asarray(value)[()], np.asarray(estimate)[()]]

    def _points(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """Return the break points in SciPy's form."""
        return {"points": np.array(leaves[2:])} if self._has_points else {}

    def _integrated(self, function: Callable[..., Any], leaves: Sequence[Any]) -> Any:
        """Return SciPy's full result, if it finds the integral."""
        if self._options.get("complex_func") and leaves[0] > leaves[1]:
            raise errors.UnsupportedError(
                f"the integral of {name_of(self._function)} from {leaves[0]:.6g} down to {leaves[1]:.6g} cannot be "
                "differentiated with complex_func=True: SciPy 1.17 and earlier versions return it with the wrong "
                "sign.\nExchange the limits, and negate the integral."
            )

        def visiting(x: float) -> Any:
            self._visited.append(x)
            return function(x)

        options = {**self._options, **self._points(leaves), "full_output": True}
        found = self._scipys(visiting if self._is_python else function, *map(_limit, leaves[:2]), **options)
        for message in _complaints(found):
            if not message.startswith(ROUNDING):
                raise _not_found(f"the integral of {name_of(self._function)}", message)
            self._reached = max(self._reached, abs(found[1]) / (abs(found[0]) or 1.0))
            warnings.warn(message, SCIPYS.IntegrationWarning, stacklevel=2)
        return found

    def _of_values(self, leaves: Leaves) -> Any:
        """Return the integral for other plain limits and inputs."""
        count = len(self._leaves)
        return self._users.run_plainly(
            lambda functions, own: self._integrated(functions[0], own)[0], leaves[:count], leaves[count:]
        )

    def _check_is_supported(self) -> None:
        if self._options.get("weight") is not None:
            raise errors.UnsupportedError(
                f"the integral of {name_of(self._function)} with weight={self._options['weight']!r} cannot be "
                "differentiated.\nWrite the weight into the function, and break points where it is not smooth into "
                "`points`; or pass values alone, x.numpy()."
            )
        if not self._is_python:
            raise errors.UnsupportedError(
                f"the integral of {self._function!r} cannot be differentiated: that is no Python function.\n"
                "Pass a Python function, or pass values alone, x.numpy()."
            )


class _LookedAt(BaseException):
    """A search for jumps does not need the value. Not an Exception, so that the user's code does not catch it."""


def _limit(leaf: Any) -> Any:
    """Return a limit in SciPy's form."""
    return leaf.item() if leaf.ndim == 0 else leaf


def _complaints(found: tuple[Any, ...]) -> list[str]:
    """Return SciPy's warning about a full result."""
    further = found[2:]
    if further and hasattr(further[0], "status"):  # quad_vec
        return [] if further[0].status in (_CONVERGED, _ROUNDED) else [further[0].message]
    if further and "real" in further[0]:  # a complex function
        return [part[1] for part in further[0].values() if isinstance(part, tuple) and len(part) > 1]
    return [further[1]] if len(further) > 1 else []


_CONVERGED, _ROUNDED = 0, 2
"""The success report of SciPy's quad_vec."""


def _not_found(what: str, message: str) -> errors.ConvergenceError:
    return errors.ConvergenceError(
        f"SciPy did not find {what}: {' '.join(message.split())}\n"
        "There is no integral to differentiate. Allow more intervals (limit), a larger error (epsabs, epsrel), or "
        "split the interval where the function is not smooth (points)."
    )


@dataclass
class _Integral:
    """An integral as a function of its leaves: its limits, its break points and the inputs of the integrand.

    Attributes:
        function: the user's function, for messages.
        integrand: maps a number and inputs to a traced array.
        of_values: maps plain leaves to the integral.
        options: options of SciPy.
        moving: which of the limits and break points are differentiated.
        visited: the points at which SciPy called the integrand.
        known: integrals by the leaves that they belong to.
        is_derived: whether the integrand is a derivative.
    """

    function: Callable[..., Any]
    integrand: Callable[..., Any]
    of_values: Callable[[Leaves], Any]
    options: dict[str, Any]
    moving: tuple[bool, ...]
    visited: list[float]
    known: dict[bytes, Any] = field(default_factory=dict)
    is_derived: bool = False

    def remember(self, leaves: Leaves) -> Leaves:
        """Store an integral that is known for the given leaves."""
        self.known[key_of(leaves[1:])] = leaves[0]
        return []

    def value(self, leaves: Leaves) -> Any:
        """Return the integral, traced."""
        moving = (False, *map(is_moving, leaves[len(self.moving) :]))
        if is_looked_at(leaves):
            for x in self.visited[:1]:
                self.integrand(x, *leaves[len(self.moving) :])  # records its decisions on the inputs
        elif any(moving):
            switches = Switches(name_of(self.function), self.integrand, moving, REMEDY)
            values = values_of(leaves)
            traces, points = batches_of(values), [np.unique(self.visited)]
            is_together = traces and self._are_few(values, traces)
            if not is_together or switches.is_needed(points, values[len(self.moving) :]):
                for_each_example(lambda leaves: self._warn_of_steps(switches, leaves), values)
        return followed(self.function, self._call, self._linear, leaves)[0]

    def _warn_of_steps(self, switches: Switches, leaves: Leaves) -> Leaves:
        count = len(self.moving)
        low, high = sorted(leaves[:2])
        x = np.unique(self.visited)
        known = [point for point, moves in zip(leaves[2:count], self.moving[2:], strict=True) if moves]
        switches.warn([x[(low <= x) & (x <= high)]], leaves[count:], known)
        return []

    def _call(self, leaves: Leaves) -> Leaves:
        def of_one(leaves: Leaves) -> Leaves:
            known = self.known.get(key_of(leaves))
            return [np.asarray(self.of_values(leaves))[()] if known is None else known]

        found: Leaves = first_that_works(lambda: [self._of_batch(leaves)], lambda: for_each_example(of_one, leaves))
        return found

    def _linear(self, leaves: Leaves, found: Leaves) -> Any:
        return lambda cotangents: self._pull(leaves, cotangents[0]), lambda tangents: [self._push(leaves, tangents)]

    def _at_limits(self, leaves: Leaves) -> list[Any]:
        """Return the derivative with respect to each of the limits and break points; None if it is not needed."""
        count = len(self.moving)
        limits, points, inputs, slopes = leaves[:2], leaves[2:count], leaves[count:], []
        for limit, moving, sign in zip(limits, self.moving[:2], (-1.0, 1.0), strict=True):
            ends = moving and np.isfinite(raw_array(limit)).any()
            slopes.append(sign * self.integrand(limit, *inputs) if ends else None)
        for point, moving in zip(points, self.moving[2:], strict=True):
            slopes.append(self._at_break(point, limits, inputs) if moving else None)
        return slopes

    def _at_break(self, point: Array, limits: Leaves, inputs: Leaves) -> Array:
        """Return the derivative with respect to a break point: minus the change of the integrand across it."""
        place, low, high = map(stop_gradient, (point, *limits))
        span = np.abs(high - low)
        aside = 2.0**-50 * np.maximum(np.abs(place), np.where(np.isfinite(span), span, 1.0))
        jump = self.integrand(point - aside, *inputs) - self.integrand(point + aside, *inputs)
        return np.where((low < place) & (place < high), jump, np.where((high < place) & (place < low), -jump, 0.0))

    def _pull(self, leaves: Leaves, cotangent: Array) -> Leaves:
        of_limits = [
            None if slope is None else np.sum(np.real(np.conjugate(cotangent) * slope))
            for slope in self._at_limits(leaves)
        ]
        inputs = leaves[len(self.moving) :]
        places = [place for place, each in enumerate(inputs) if each.dtype.kind in "fc"]
        of_inputs: list[Any] = [None] * len(inputs)
        if places:

            def integrand(x: Array, *everything: Array) -> Any:
                *own, cotangent = everything
                found = pulled(lambda *own: self.integrand(x, *own), own, cotangent)
                return raveled([found[place] for place in places])[0]

            whole = self._derived(integrand).value([*leaves, cotangent])
            restore = raveled([np.zeros(inputs[place].shape, inputs[place].dtype) for place in places])[1]
            for place, each in zip(places, restore(whole), strict=True):
                of_inputs[place] = each
        return [*of_limits, *of_inputs]

    def _push(self, leaves: Leaves, tangents: Leaves) -> Any:
        ends = len(self.moving)
        inputs, of_inputs = leaves[ends:], tangents[ends:]
        count = len(inputs)

        def integrand(x: Array, *everything: Array) -> Any:
            return pushed(lambda *own: self.integrand(x, *own), everything[:count], everything[count:])

        moved = self._derived(integrand).value([*leaves, *of_inputs]) if count else 0.0
        for slope, tangent in zip(self._at_limits(leaves), tangents[:ends], strict=True):
            moved = moved if slope is None else moved + slope * tangent
        return moved

    def _derived(self, integrand: Callable[..., Any]) -> _Integral:
        """Return the integral of a derivative of the integrand."""
        derived = replace(self, integrand=integrand, known={}, is_derived=True)
        derived.of_values = derived._of_derivative
        return derived

    def _of_derivative(self, leaves: Leaves) -> Any:
        """Return the integral for plain limits and inputs, from the traced integrand."""
        first, last, *points = leaves[: len(self.moving)]
        inputs = leaves[len(self.moving) :]
        # In single precision the integrand would not be smooth enough for the usual tolerances.
        inputs = [floating(x) if x.dtype.kind in "fc" else x for x in inputs]

        def integrand(x: Array | float) -> Array:
            return np.asarray(strip_ended(self.integrand(np.float64(x), *inputs)))[()]

        if first == last:
            return np.zeros_like(integrand(first))
        low, high = min(first, last), max(first, last)
        value = first_that_works(
            lambda: self._by_cubature(inputs, low, high, points),
            lambda: self._by_quad_vec(integrand, low, high, points),
        )
        return value if first < last else -value

    def _of_batch(self, leaves: Leaves) -> Any:
        """Return the integrals of a derivative for all examples of a batch: those of one vector-valued function.

        Intervals that differ are mapped onto that from 0 to 1. So an integral of integrals, of which the inner ones are
        a batch, takes one evaluation of the integrand for all their nodes.

        Raises:
            NotTogether: there is no batch, or each example needs its own integral; values do, as they are SciPy's.
        """
        traces, count = batches_of(leaves), len(self.moving)
        if not (self.is_derived and traces and count == 2 and self._are_few(leaves, traces)):
            raise NotTogether
        low, high, *inputs = [floating(x) if x.dtype.kind in "fc" else x for x in leaves]
        ends = np.array([unbatched(end, traces) for end in (low, high)])
        first, last = ends.reshape(2, -1)[:, 0]
        are_same = first < last and bool((ends[0] == first).all() and (ends[1] == last).all())
        if not (are_same or np.isfinite(ends).all()):
            raise NotTogether

        start, end = (first, last) if are_same else (0.0, 1.0)

        def integrand(x: Array) -> Any:
            if are_same:
                return self.integrand(x, *inputs)
            return self.integrand(low + (high - low) * x, *inputs) * (high - low)

        def of_nodes(x: Array) -> Any:
            return np.moveaxis(unbatched(in_one_batch(integrand, [x]), traces), len(traces), 0)

        found = self._cubature(of_nodes, start, end, [])
        if not np.isfinite(found).all():
            raise NotTogether
        return batched(found, traces)

    def _are_few(self, leaves: Leaves, traces: Sequence[Any]) -> bool:
        """Return whether all examples of a batch fit into memory together, at each of many nodes."""
        return bool(prod(trace.size for trace in traces) * sum(leaf.size for leaf in leaves) <= FEW_NUMBERS)

    def _by_cubature(self, inputs: Leaves, low: Array, high: Array, points: Leaves) -> Any:
        """Return an integral between plain limits, with the integrand evaluated at all nodes of an interval together.

        Raises:
            NotTogether: the points must be evaluated one by one, or the integrand is not smooth.
        """

        def of_nodes(x: Array) -> Any:
            return in_one_batch(lambda x: self.integrand(x, *inputs), [x])

        return self._cubature(of_nodes, low, high, points)

    def _cubature(self, of_nodes: Callable[[Any], Any], low: Operand, high: Operand, points: Leaves) -> Any:
        """Return the integral of a function of many nodes."""
        if not hasattr(SCIPYS, "cubature"):  # new in SciPy 1.15
            raise NotTogether
        is_complex = False
        # From minus infinity to a finite limit, SciPy's cubature evaluates functions at -x: it gets the mirrored one.
        sign = -1.0 if low == -np.inf and high != np.inf else 1.0
        low, high = (low, high) if sign > 0 else (-high, -low)

        def integrand(x: Array) -> Array:
            nonlocal is_complex
            found = np.asarray(in_groups(of_nodes, [sign * x[:, 0]], [np.arange(len(x))])[0])
            is_complex = found.dtype.kind == "c"
            return np.stack([found.real, found.imag], axis=-1) if is_complex else found  # SciPy needs real values

        found = SCIPYS.cubature(
            integrand,
            [low],
            [high],
            rtol=self.options["epsrel"],
            atol=self.options["epsabs"],
            points=[[sign * point] for point in points],
            max_subdivisions=FEW_INTERVALS,
        )
        if found.status != "converged":
            raise NotTogether
        return found.estimate[..., 0] + 1j * found.estimate[..., 1] if is_complex else found.estimate

    def _by_quad_vec(self, integrand: Callable[..., Any], low: Array, high: Array, points: Leaves) -> Any:
        """Return an integral between plain limits."""
        options = {name: self.options[name] for name in ("epsabs", "epsrel")}
        options = {**options, "points": np.array(points)} if points else options
        limit = max(self.options["limit"], MANY_INTERVALS)
        value, _, information = SCIPYS.quad_vec(integrand, low, high, limit=limit, full_output=True, **options)
        if information.status not in (_CONVERGED, _ROUNDED):
            raise _not_found(f"an integral for a derivative of that of {name_of(self.function)}", information.message)
        return value


FEW_NUMBERS = 100_000
"""Number of limits and inputs, of all examples, up to which these are evaluated together, at 200 nodes at most."""
FEW_INTERVALS, MANY_INTERVALS = 60, 400
"""For derivatives less smooth than the function, many are needed: SciPy's quad_vec does not extrapolate."""
