"""Declarations of families of special functions, in addition to `elementwise`.

rule_of(slope)                 the rule of an argument from the derivative with respect to it
along_last(jv, slope, "v")     a function with a derivative with respect to its last argument only
several(airy, slopes)          a ufunc with several results
in_halves(jve, parts)          a function of complex numbers without a complex derivative
order("jv", "v", 0)            the rule of an argument without a closed form
power_series(x, coefficients)  the sum of a series, where another formula would be inaccurate
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.core.primitive import ZERO, Primitive, Rule
from fgrad.ops.batching import elementwise_batch
from fgrad.ops.elementwise import astype
from fgrad.ops.families import SHAPES, Domain, elementwise, register, sample, scale, without_closed_form
from fgrad.typing import Array, ArrayLike, Operand

Slopes = Callable[..., Sequence[Any]]
"""A function of the results and the arguments; it returns one derivative for each result."""


def order(function: str, argument: str, place: int, instead: str = "") -> Rule:
    """Return the rule of an argument without a closed form: an error, unless the argument is an integer.

    Args:
        function: a function of `scipy.special`.
        argument: its name in the documentation of the function.
        place: its index.
        instead: a sentence with the alternative.
    """
    refuse = without_closed_form(f"scipy.special.{function}", argument, instead)

    def rule(ans: ArrayLike, *args: Any) -> Any:
        return refuse(ans, *args) if args[place].dtype.kind in "fc" else None

    return rule


def orders(function: str, arguments: str) -> tuple[Rule, ...]:
    """Return the rules of leading arguments without a closed form, by name."""
    return tuple(order(function, argument, place) for place, argument in enumerate(arguments.split()))


def arrays_of(args: Sequence[Any]) -> list[Any]:
    """Return arguments, with lists converted to arrays; Python numbers still adapt to the dtype of others."""
    return [x if hasattr(x, "dtype") or isinstance(x, (int, float, complex)) else np.asarray(x) for x in args]


def fitting(slope: Array, wanted: np.dtype[Any]) -> Any:
    """Return a slope in the precision of the result's dtype, independent of constants in its formula."""
    if slope.dtype.kind != wanted.kind:
        wanted = np.result_type(wanted, np.complex64) if slope.dtype.kind == "c" else np.zeros((), wanted).real.dtype
    return slope if slope.dtype == wanted else astype(slope, wanted)


def rule_of(slope: Callable[..., Any], keeps_ans: bool = False) -> Rule:
    """Return the reverse rule that multiplies by a slope, a function of the arguments, optionally with the result."""

    def rule(ans: Array, *args: Operand) -> Any:
        dtype = ans.dtype
        if keeps_ans:
            return lambda ct: ct * fitting(slope(ans, *arrays_of(args)), dtype)
        return lambda ct: ct * fitting(slope(*arrays_of(args)), dtype)

    return rule


def along_last(
    function: Callable[..., Any], slope: Callable[..., Any], constants: str = "", keeps_ans: bool = False, **facts: Any
) -> Primitive:
    """Declare an elementwise function with a derivative with respect to its last argument only.

    Args:
        function: a ufunc, or a function that broadcasts.
        slope: takes the arguments, returns the derivative.
        constants: names of the leading arguments, for which there is no closed form.
        keeps_ans: whether `slope` takes the result before the arguments, which keeps it in memory.
        facts: further arguments of `elementwise`.
    """
    name = facts.get("name") or function.__name__
    return elementwise(function, *orders(name, constants), rule_of(slope, keeps_ans), **facts)


def several(
    ufunc: np.ufunc,
    *slopes: Slopes,
    constants: str = "",
    domain: Domain | tuple[Domain, ...] = (-2.0, 2.0),
    complex: bool = True,
    leading: tuple[Any, ...] = (),
) -> Primitive:
    """Declare an elementwise ufunc with several results.

    Args:
        ufunc: of `scipy.special`.
        slopes: for each argument the derivatives of all results with respect to it. A pair (a, b) means
            dz -> a dz + b conj(dz).
        constants: names of the leading arguments, for which there is no closed form.
        domain, complex, leading: as for `elementwise`.
    """
    refusals = orders(ufunc.__name__, constants)

    def reverse(slopes: Slopes) -> Rule:
        def rule(ans: tuple[Any, ...], *args: Operand) -> Any:
            def pullback(cts: Any) -> Any:
                found = enumerate(slopes(ans, *arrays_of(args)))
                parts = [_backward(cts[i], slope, ans[i]) for i, slope in found]
                return sum(parts[1:], parts[0])

            return pullback

        return rule

    def forward(tangents: Sequence[Any], ans: tuple[Any, ...], *args: Operand) -> Any:
        results: list[Any] = [ZERO] * ufunc.nout
        for place, t in enumerate(tangents):
            if t is ZERO:
                continue
            if place < len(refusals):
                refusals[place](ans, *args)
                continue
            with np.errstate(all="ignore"):
                found = slopes[place - len(refusals)](ans, *arrays_of(args))
                parts = [_forward(t, *pair) for pair in zip(found, ans, strict=True)]
            results = [part if total is ZERO else total + part for part, total in zip(parts, results, strict=True)]
        return tuple(results)

    primitive = Primitive(
        ufunc.__name__,
        ufunc,
        (*refusals, *map(reverse, slopes)),
        forward,
        samples=tuple(
            sample(*each, domain=domain, complex=complex, leading=leading) for each in SHAPES[ufunc.nin - len(leading)]
        ),
    )
    primitive.batch = elementwise_batch(primitive)
    return register(primitive)


def _backward(ct: Array, slope: Any, ans: Array) -> Any:
    """Return a cotangent pulled back through a slope, or a pair of slopes."""
    if not isinstance(slope, tuple):
        return scale(ct, fitting(slope, ans.dtype))
    along, against = (fitting(each, ans.dtype) for each in slope)
    return scale(ct, along) + np.conjugate(scale(ct, against))


def _forward(t: Array, slope: Any, ans: Array) -> Any:
    if not isinstance(slope, tuple):
        return scale(t, fitting(slope, ans.dtype))
    along, against = (fitting(each, ans.dtype) for each in slope)
    return scale(t, along) + scale(np.conjugate(t), against)


def in_halves(ufunc: np.ufunc, slope: Callable[..., Any], constants: str = "", **facts: Any) -> Primitive:
    """Declare an elementwise ufunc with the differential a dz + b conj(dz) in its last argument.

    Args:
        ufunc: of `scipy.special`.
        slope: takes the result and the arguments; returns the pair, or their sum for real numbers.
        constants: names of the leading arguments, for which there is no closed form.
        facts: further arguments of `elementwise`.
    """
    refusals = orders(ufunc.__name__, constants)

    def rule(ans: Array, *args: Operand) -> Any:
        return lambda ct: _backward(ct, slope(ans, *arrays_of(args)), ans)

    def forward(tangents: Sequence[Any], ans: Array, *args: Operand) -> Any:
        *first, t = tangents
        for refusal, each in zip(refusals, first, strict=True):
            if each is not ZERO:
                refusal(ans, *args)
        if t is ZERO:
            return ZERO
        with np.errstate(all="ignore"):
            return _forward(t, slope(ans, *arrays_of(args)), ans)

    return elementwise(ufunc, *refusals, rule, jvp=forward, scales="", **facts)


def power_series(x: Array, coefficients: Sequence[Any]) -> Any:
    """Return the sum of `coefficients[k] * x**k`."""
    total: Any = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def near(x: Array, is_near: Array) -> Array:
    """Return `x` where it is near 0, and 0 elsewhere, for a series that is only used near 0."""
    return np.where(is_near, x, 0)


def far(x: Array, is_near: Array) -> Array:
    """Return `x` where it is not near 0, and 1 elsewhere, for a formula with a pole at 0."""
    return np.where(is_near, 1, x)
