"""Multiple integrals, as in `scipy.integrate`, by nested integration.

    dblquad, tplquad      double and triple integrals, whose bounds may be functions
    nquad                 over any number of variables

Each is `quad` of a function that calls `quad`, and is differentiated like it: with respect to parameters and limits,
including those of inner integrals. An inner integral is differentiated at each node of the outer one, which takes
seconds for three variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from typing import Any

import numpy as np

from fgrad.ops.tracing import raw_array
from fgrad.scipy._aside import Aside
from fgrad.scipy.integrate.quadrature import TOLERANCE, inner_quad, quad
from fgrad.transforms.callbacks import check_solvers_function
from fgrad.typing import Array, ArrayLike, Operand


def dblquad(
    func: Callable[..., Any],
    a: ArrayLike,
    b: ArrayLike,
    gfun: object,
    hfun: object,
    args: tuple[Any, ...] = (),
    epsabs: float = TOLERANCE,
    epsrel: float = TOLERANCE,
) -> Any:
    """Compute a double integral of `func(y, x, *args)`, as `scipy.integrate.dblquad`, with derivatives.

    Args:
        func: the integrand; its first argument is that of the inner integral.
        a, b: the limits of `x`.
        gfun, hfun: the limits of `y`: numbers, or functions of `x`.
        args, epsabs, epsrel: as for `quad`.

    Returns:
        The integral, and an estimate of its error, as for `quad`.

    Raises:
        ConvergenceError, ClosureError: as for `quad`.

    Example:
        >>> import fgrad as fg
        >>> def moment(width):                          # of a triangle: width^4 / 8
        ...     return dblquad(lambda y, x: x * y, 0.0, width, 0.0, lambda x: x)[0]
        >>> fg.value_and_grad(moment)(2.0)
        (Tensor(2.), Tensor(4.))
    """

    def of_y(x: Operand, *args: Array) -> Any:
        return _at(gfun, x), _at(hfun, x)

    options = {"epsabs": epsabs, "epsrel": epsrel}
    return _Nested(func, [of_y, (a, b)], [options] * 2, "dblquad").result(args)


def tplquad(
    func: Callable[..., Any],
    a: Any,
    b: ArrayLike,
    gfun: object,
    hfun: object,
    qfun: Any,
    rfun: Callable[..., Any],
    args: tuple[Any, ...] = (),
    epsabs: float = TOLERANCE,
    epsrel: float = TOLERANCE,
) -> Any:
    """Compute a triple integral of `func(z, y, x, *args)`, as `scipy.integrate.tplquad`, with derivatives.

    Args:
        func: the integrand; its first argument is that of the innermost integral.
        a, b: the limits of `x`.
        gfun, hfun: the limits of `y`: numbers, or functions of `x`.
        qfun, rfun: the limits of `z`: numbers, or functions of `x` and `y`.
        args, epsabs, epsrel: as for `quad`.

    Returns:
        The integral, and an estimate of its error, as for `quad`.

    Raises:
        ConvergenceError, ClosureError: as for `quad`.

    Example:
        >>> import fgrad as fg
        >>> def volume(height):                         # of a pyramid: height^3 / 3
        ...     return tplquad(lambda z, y, x: 1.0, 0.0, height, 0.0, lambda x: x, 0.0, lambda x, y: x)[0]
        >>> fg.grad(volume)(2.0).round(9)
        Tensor(4.)
    """

    def of_z(y: Operand, x: Operand, *args: object) -> Any:
        return _at(qfun, x, y), _at(rfun, x, y)

    def of_y(x: Operand, *args: Operand) -> Any:
        return _at(gfun, x), _at(hfun, x)

    options = {"epsabs": epsabs, "epsrel": epsrel}
    return _Nested(func, [of_z, of_y, (a, b)], [options] * 3, "tplquad").result(args)


def nquad(
    func: Callable[..., Any], ranges: Sequence[Any], args: Any = None, opts: Any = None, full_output: bool = False
) -> Any:
    """Integrate a function over several variables, as `scipy.integrate.nquad`, with derivatives.

    Args:
        func: `func(x0, ..., xn, *args)` returns a number; the innermost integral is that over `x0`.
        ranges: for each variable a pair of limits, or a function of the variables after it and of `args` that returns
            one.
        args: extra arguments.
        opts: options of `quad`, in a dict for all integrals, or a sequence with one for each; or functions, as in
            `ranges`, that return one.
        full_output: whether to return a dict, too, with the number of evaluations under "neval".

    Returns:
        The integral, and an estimate of its error, as for `quad`; with `full_output` also the dict.

    Raises:
        ConvergenceError, ClosureError, UnsupportedError: as for `quad`.

    Example:
        >>> import fgrad as fg
        >>> def mass(density, edge):                    # density edge^3 / 2
        ...     return nquad(lambda x, y, d: d * y, [lambda y, d: (0.0, y * 1.5), (0.0, edge)], args=(density,))[0]
        >>> fg.grad(mass, argnums=(0, 1))(2.0, 1.0)
        (Tensor(0.5), Tensor(3.))
    """
    count = len(ranges)
    opts = [{} if opts is None else opts] * count if opts is None or isinstance(opts, dict) else list(opts)
    nested = _Nested(func, ranges, opts, "nquad", full_output)
    return nested.result(() if args is None else args)


def _at(given: object, *place: Operand) -> Any:
    """Return the value of a function at a point, or an argument that is not a function."""
    return given(*place) if callable(given) else given


_VARIABLES = {"dblquad": "y, x", "tplquad": "z, y, x"}


class _Nested:
    """Nested integrals.

    Args:
        function: takes all variables, that of the innermost integral first, and the extra arguments.
        ranges: pairs of limits, or functions of the variables of outer integrals.
        options: options of `quad`, likewise.
        name: the name of SciPy's function.
        counts: whether to return the number of evaluations, too.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        ranges: Sequence[Any],
        options: Sequence[Any],
        name: str,
        counts: bool = False,
    ) -> None:
        self._function, self._ranges, self._options = function, ranges, options
        self._name, self._counts = name, counts
        self._errors: list[float] = [0.0]
        self._evaluations = 0

    def result(self, args: Any) -> Any:
        """Return the integral, an estimate of its error, and optionally the number of evaluations."""
        variables = _VARIABLES.get(self._name) or ", ".join(f"x{place}" for place in range(len(self._ranges)))
        check_solvers_function(f"func of {self._name}", self._function, variables, args)
        value, estimate = self._integral(len(self._ranges) - 1, *args)
        largest: Any = max(self._errors)
        if isinstance(estimate, Aside):
            largest = Aside(largest, f"the estimate of the error of {self._name}")
        return (value, largest, {"neval": self._evaluations}) if self._counts else (value, largest)

    def _integral(self, place: int, *outer: Operand) -> tuple[Any, Any]:
        """Return the integral over one variable, for given values of the outer ones."""
        low, high = _at(self._ranges[place], *outer)
        options = dict(_at(self._options[place], *outer))
        if "points" in options:
            options["points"] = [x for x in options["points"] if low <= x <= high]
        inner = self._function
        if place:  # under the user's name, for messages
            inner = update_wrapper(partial(self._value, place - 1), self._function, ("__name__",), ())
        if place == len(self._ranges) - 1:
            value, estimate, *further = quad(inner, low, high, outer, self._counts, **options)
        else:
            value, estimate, *further = inner_quad(inner, low, high, outer, self._counts, **options)
        self._errors.append(_largest(estimate))
        if self._counts and place == 0:
            self._evaluations += _evaluations(further[0])
        return value, estimate

    def _value(self, place: int, *outer: Operand) -> Any:
        return self._integral(place, *outer)[0]


def _largest(estimate: Any) -> float:
    """Return the largest of the estimates, also for a batch."""
    return float(np.max(raw_array(estimate.value if isinstance(estimate, Aside) else estimate)))


def _evaluations(found: dict[str, Any]) -> int:
    """Return how often SciPy called the integrand, from its dict, or from those of a batch."""
    if isinstance(found, dict):
        return int(found["neval"])
    return sum(_evaluations(parts[0]) for parts in found)
