"""Declarations of special functions: as in `fgrad.ops.families`, with additions for SciPy.

declare(special.gammaln, rule)     one reverse rule per argument, for arrays of one dtype
helper(f, rule)                    a function for rules only, computed in double precision
density(name, power, factor)       factor * exp(power * x * x)
refuse(special.ncfdtridfd, ...)    a function without a derivative in closed form with respect to any argument
whole_number(f, "k")               the rule of an argument that SciPy requires to be an integer
by_quadrature(f, "a", call)        the rule of a shape parameter; names the differentiable `fgrad.scipy.stats` call
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
from fgrad.typing import Array, Operand

NOT_SAMPLED: dict[str, str] = {}
"""Names of primitives without samples, with the reason: most have no derivative in closed form."""


def declare(function: Callable[..., Any], *rules: Rule | None, complex: bool = False, **facts: Any) -> Primitive:
    """Declare a SciPy function, as `elementwise` does; by default for real numbers only.

    Its rules receive arrays in place of Python numbers, lists and integers. So a rule may call
    SciPy functions on any argument: their result for a Python number would have double precision, and would make
    single precision derivatives double. No rule is called for integers, which have no derivative.
    """
    ready = [rule and functools.partial(_with_arrays, rule, place) for place, rule in enumerate(rules)]
    return elementwise(function, *ready, complex=complex, **facts)


def _with_arrays(rule: Rule, place: int, ans: Array, *args: Any) -> Any:
    if args[place].dtype.kind in "biu":
        return None
    return rule(ans, *(_as_floating(x, ans.dtype) for x in args))


def _as_floating(x: Operand, dtype: np.dtype[Any]) -> Array | complex:
    if type(x) in BOXES or (hasattr(x, "dtype") and x.dtype.kind in "fc"):
        return x
    x = np.asarray(x)
    return x.astype(dtype if x.dtype.kind == "c" else np.zeros((), dtype).real.dtype)


Helper = Callable[..., Any]


def helper(function: Callable[..., Any], *rules: Rule | None, **facts: Any) -> Helper:
    """Declare a function that only other rules use, and return a function that calls it."""
    primitive = declare(in_double_precision(function), *rules, **facts)

    def call(*args: Operand) -> Any:
        return apply(primitive, args)

    call.__name__, call.__doc__ = primitive.name, function.__doc__
    return call


def density(name: str, power: float, factor: float) -> Helper:
    """Declare factor * exp(power * x * x), the derivative of its integrals, as one operation without temporary arrays.

    It is computed in the dtype of its argument.
    """

    def value(x: Array) -> Any:
        result = x * x
        out = result if type(result) is np.ndarray else None
        return np.multiply(np.exp(np.multiply(result, power, out=out), out=out), factor, out=out)

    primitive = elementwise(value, lambda ct, ans, x: ct * (ans * (2 * power * x)), name=name)
    return lambda x: apply(primitive, (x,))


def in_double_precision(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function compute in double precision; its result has the dtype of its arguments, or single precision."""

    @functools.wraps(function)
    def rounded(*args: Operand) -> Array:
        args = tuple(np.asarray(x) if isinstance(x, (list, tuple)) else x for x in args)
        dtype = np.result_type(*args, np.float32) if any(map(_is_floating, args)) else np.dtype(np.float64)
        with np.errstate(all="ignore"):
            result = np.asarray(function(*(np.asarray(x, np.result_type(x, np.float64)) for x in args)))
        return result.astype(dtype if result.dtype.kind == dtype.kind else np.result_type(dtype, np.complex64))[()]

    return rounded


def _is_floating(x: Operand) -> bool:
    return hasattr(x, "dtype") and x.dtype.kind in "fc"


def refuse(function: Callable[..., Any], name: str, arguments: str, instead: str = "") -> Primitive:
    """Declare a SciPy function without a derivative in closed form with respect to any argument; `vmap` supports it.

    Args:
        function: the ufunc.
        name: the public name.
        arguments: their names in the documentation of the function.
        instead: a sentence with the alternative.
    """
    rules = [without_closed_form(name, argument, instead) for argument in arguments.split()]
    short = name.rpartition(".")[2]  # not `__name__`: in SciPy 1.15, pro_cv is called obl_cv
    primitive = declare(function, *rules, shapes=(), name=short)
    NOT_SAMPLED[primitive.name] = "no derivative in closed form"
    return primitive


def by_quadrature(name: str, argument: str, call: str) -> Rule:
    """Return the rule of a shape parameter of a distribution: an error that names a differentiable function."""
    return without_closed_form(name, argument, f"Use fgrad.scipy.stats.{call}, which computes it by quadrature.")


def whole_number(name: str, argument: str) -> Rule:
    """Return the rule of an argument that SciPy requires to be an integer: an error that says so."""
    instead = f"It must be an integer: make it a constant, fg.stop_gradient({argument}), or {argument}.numpy()."
    return without_closed_form(name, argument, instead)


def dtype_of(function: Callable[..., Any], *args: object) -> Any:
    """Return the dtype of a function's result; arrays among the arguments count only by their dtypes."""
    return function(*(np.ones((), x.dtype) if hasattr(x, "dtype") else x for x in args)).dtype
