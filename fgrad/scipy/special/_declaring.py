"""How the functions of this package are declared: as in `fgrad.ops.families`, with what SciPy's need besides.

declare(special.gammaln, rule)     one reverse rule for each argument, all written for arrays of one dtype
helper(f, rule)                    a function that only rules use, computed in double precision
density(name, power, factor)       the one that is factor * exp(power * x * x)
refuse(special.ncfdtridfd, ...)    no argument has a derivative in closed form: an error that says so
whole_number(f, "k")               the rule of an argument that SciPy takes as a whole number
by_quadrature(f, "a", call)        the rule of a shape, with the call in `fgrad.scipy.stats` that differentiates it
in_double_precision(f)             computes in double precision, and rounds to the dtype of the arguments
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.primitive import BOXES, Primitive, Rule
from fgrad.core.tensor import apply
from fgrad.ops.families import elementwise, without_closed_form

NOT_SAMPLED: dict[str, str] = {}
"""The names of primitives that have no samples, with the reason: most have no derivative in closed form."""


def declare(function: Any, *rules: Rule | None, complex: bool = False, **facts: Any) -> Primitive:
    """Declare a function of SciPy, as `elementwise` does; by default of real numbers only.

    Its rules are handed arrays in place of Python's numbers, lists and integers. A rule may then call
    SciPy's functions on any argument: those of a Python number would be of double precision, and make
    derivatives in single precision double ones. No rule is asked about integers, which have no derivative.
    """
    ready = [rule and functools.partial(_with_arrays, rule, place) for place, rule in enumerate(rules)]
    return elementwise(function, *ready, complex=complex, **facts)


def _with_arrays(rule: Rule, place: int, ans: Any, *args: Any) -> Any:
    if args[place].dtype.kind in "biu":
        return None
    return rule(ans, *(_as_floating(x, ans.dtype) for x in args))


def _as_floating(x: Any, dtype: Any) -> Any:
    if type(x) in BOXES or (hasattr(x, "dtype") and x.dtype.kind in "fc"):
        return x
    x = np.asarray(x)
    return x.astype(dtype if x.dtype.kind == "c" else np.zeros((), dtype).real.dtype)


Helper = Callable[..., Any]


def helper(function: Callable[..., Any], *rules: Rule | None, **facts: Any) -> Helper:
    """Declare a function that only the rules of others use, and return what calls it."""
    primitive = declare(in_double_precision(function), *rules, **facts)

    def call(*args: Any) -> Any:
        return apply(primitive, args)

    call.__name__, call.__doc__ = primitive.name, function.__doc__
    return call


def density(name: str, power: float, factor: float) -> Helper:
    """Declare factor * exp(power * x * x), the slope of its integrals: one operation, in one array.

    It is computed in the dtype of its argument.
    """

    def value(x: Any) -> Any:
        result = x * x
        out = result if type(result) is np.ndarray else None
        return np.multiply(np.exp(np.multiply(result, power, out=out), out=out), factor, out=out)

    primitive = elementwise(value, lambda ct, ans, x: ct * (ans * (2 * power * x)), name=name)
    return lambda x: apply(primitive, (x,))


def in_double_precision(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function compute in double precision; its result has the dtype of its arguments, or single precision."""

    @functools.wraps(function)
    def rounded(*args: Any) -> Any:
        args = tuple(np.asarray(x) if isinstance(x, (list, tuple)) else x for x in args)
        dtype = np.result_type(*args, np.float32) if any(map(_is_floating, args)) else np.dtype(np.float64)
        with np.errstate(all="ignore"):
            result = np.asarray(function(*(np.asarray(x, np.result_type(x, np.float64)) for x in args)))
        return result.astype(dtype if result.dtype.kind == dtype.kind else np.result_type(dtype, np.complex64))[()]

    return rounded


def _is_floating(x: Any) -> bool:
    return hasattr(x, "dtype") and x.dtype.kind in "fc"


def refuse(function: Any, name: str, arguments: str, instead: str = "") -> Primitive:
    """Declare a function of SciPy that has no derivative in closed form in any argument; `vmap` runs it.

    Args:
        function: the ufunc.
        name: as users write it.
        arguments: their names in the documentation of the function.
        instead: what to write; a sentence.
    """
    rules = [without_closed_form(name, argument, instead) for argument in arguments.split()]
    primitive = declare(function, *rules, shapes=())
    NOT_SAMPLED[primitive.name] = "no derivative in closed form"
    return primitive


def by_quadrature(name: str, argument: str, call: str) -> Rule:
    """Return the rule of a shape of a distribution: an error that names the function which has a derivative there."""
    return without_closed_form(name, argument, f"By quadrature there is one: fgrad.scipy.stats.{call}.")


def whole_number(name: str, argument: str) -> Rule:
    """Return the rule of an argument that SciPy takes as a whole number: an error that says so."""
    instead = f"It is a whole number there: let it be a constant, fg.stop_gradient({argument}), or {argument}.numpy()."
    return without_closed_form(name, argument, instead)


def dtype_of(function: Callable[..., Any], *args: Any) -> Any:
    """Return the dtype of a function's result; arrays among the arguments count by their dtypes only."""
    return function(*(np.ones((), x.dtype) if hasattr(x, "dtype") else x for x in args)).dtype
