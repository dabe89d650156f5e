"""Taylor series and derivatives of any order.

taylor(f, order)(x, direction)           the coefficients of t -> f(x + t * direction)
taylor(f, order)(x, first, second, ...)  the coefficients of t -> f(x + t * first + t**2 * second + ...)
derivatives(f, n)(x, direction)          the value and the first n derivatives of t -> f(x + t * direction)
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, overload

import numpy as np

from fgrad import errors
from fgrad.core.primitive import ZERO
from fgrad.core.tensor import boxed
from fgrad.core.tree import flatten, outline_of, paths, tree_map, unflatten
from fgrad.transforms.calls import decorator, name_of
from fgrad.transforms.forward import input_along, refuse_no_numbers
from fgrad.transforms.running import run_connected, untraced
from fgrad.transforms.series import SeriesTrace
from fgrad.typing import Array

_ONES = object()
"""Sentinel: no direction given."""


@overload
def taylor(function: Callable[..., Any], order: int) -> Callable[..., Any]: ...
@overload
def taylor(function: None = None, *, order: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
def taylor(function: Any = None, order: Any = None) -> Any:
    """Return a function that expands `function` into a Taylor series along a direction, or along a curve.

    All coefficients come from one run of the function. The cost grows with the square of the order for most programs,
    and at most about with its cube, whereas nested derivatives cost two to three times more for each order.
    Determinants and quantiles with two parameters also cost that, up to the order of the result, since each of their
    derivatives is another function.

    Args:
        function: takes one number, array or container of them; returns numbers, arrays or containers of them.
        order: the number of the last coefficient, at least 0.

    Returns:
        A function of `(x, direction=None)`. It returns the results of `function`, each array with an additional first
        axis of size `order + 1`: coefficient k is the k-th derivative of `t -> function(x + t * direction)` at 0,
        divided by k!. The direction has the structure and shapes of `x`; None means 1 for each number. After the
        direction there may be further coefficients of a curve through `x`: of t squared, and so on.

    Raises:
        ParameterError: a ValueError; `order` is not an integer of at least 0, or, raised by a call, exceeds what
            Python's recursion limit allows, which for inverses is about 160.
        TangentError: a ValueError; `x` and the direction differ in structure or shape.
        IntegerInputError: a TypeError; `x` holds integers.
        NoResultError: a ValueError; `function` returns None.

    Example:
        >>> taylor(np.exp, 3)(0.0)
        Tensor([1.        , 1.        , 0.5       , 0.16666667])
        >>> taylor(lambda x: np.sum(x**2), 2)(np.array([1.0, 2.0]), np.array([0.0, 1.0]))
        Tensor([5., 4., 1.])
        >>> taylor(np.exp, 2)(0.0, 0.0, 1.0)
        Tensor([1., 0., 1.])
    """
    _check_order("taylor", "order", order)
    return decorator(_run_taylor, function, order=order)


@overload
def derivatives(function: Callable[..., Any], n: int) -> Callable[..., Any]: ...
@overload
def derivatives(function: None = None, *, n: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
def derivatives(function: Any = None, n: Any = None) -> Any:
    """Return a function that computes the value of `function` and its first `n` derivatives along a direction.

    They are the coefficients of `taylor`, multiplied with factorials.

    Args:
        function: takes one number, array or container of them; returns numbers, arrays or containers of them.
        n: the order of the last derivative, from 0 to 170.

    Returns:
        A function of `(x, direction=None)`, which returns the results of `function`, each array with an additional
        first axis of size `n + 1`. For an elementwise function of an array these are the derivatives of each element.

    Raises:
        ParameterError: a ValueError; `n` is not an integer from 0 to 170, beyond which factorials overflow; or, in
            single precision, to 34.

    Example:
        >>> derivatives(lambda x: x**3, 3)(2.0)
        Tensor([ 8., 12., 12.,  6.])
    """
    _check_order("derivatives", "n", n)
    _check_factorial(n, np.dtype(np.float64))
    return decorator(_run_derivatives, function, n=n)


def _check_order(transform: str, name: str, order: object) -> None:
    if isinstance(order, bool) or not isinstance(order, (int, np.integer)) or order < 0:
        raise errors.ParameterError(
            f"{name} of {transform} must be an integer of at least 0; it is {order!r}.\n"
            f"Pass the point in a second call: fg.{transform}(f, {name})(x)."
        )


def _check_factorial(n: int, dtype: np.dtype[Any]) -> None:
    if n > _last_factorial(dtype):
        raise errors.ParameterError(
            f"n of derivatives is {n}, and its factorial is too large for {dtype}; the largest possible n is "
            f"{_last_factorial(dtype)}.\nfg.taylor gives the coefficients without factorials."
        )


@functools.cache
def _last_factorial(dtype: np.dtype[Any]) -> int:
    """Return the largest integer whose factorial can be represented in a dtype."""
    largest = int(np.finfo(dtype).max)
    return next(k for k in itertools.count() if math.factorial(k + 1) > largest)


def _run_taylor(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], order: int) -> Any:
    return _expanded("taylor", function, *_curve(args, keywords, order, "the result of taylor"), order)


def _run_derivatives(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], n: int) -> Any:
    coefficients = _expanded("derivatives", function, *_curve(args, keywords, 1, "the result of derivatives"), n)
    factorials = [math.factorial(k) for k in range(n + 1)]
    return tree_map(lambda x: x * _column(factorials, x), coefficients)


def _column(factors: list[int], like: Any) -> Array:
    """Return factorials along the first axis, in the dtype of an array."""
    dtype = like.dtype if like.dtype.kind in "fc" else None
    if dtype:
        _check_factorial(len(factors) - 1, dtype)
    return np.array([float(x) for x in factors] if dtype else factors, dtype).reshape(-1, *(1 for _ in like.shape[1:]))


def _curve(args: tuple[Any, ...], keywords: dict[str, Any], last: int, what: str) -> tuple[Any, list[Any]]:
    """Return the point of a call, and the direction with further coefficients.

    Args:
        args, keywords: the call.
        last: the number of the last coefficient allowed.
        what: the name of the function in messages.

    Raises:
        ParameterError: there are other arguments.
    """
    given = dict(zip(("x", "direction"), args, strict=False))
    if (
        "x" in given | keywords
        and keywords.keys() <= {"x", "direction"} - given.keys()
        and len(args) <= max(last, 1) + 1
    ):
        given |= keywords
        direction = given.get("direction")
        return given["x"], [_ONES if direction is None else direction, *args[2:]]
    raise errors.ParameterError(
        f"{what} takes (x, direction=None), a point and a direction"
        + (", and further coefficients of a curve up to the order.\n" if last > 1 else ".\n")
        + "Fix other arguments with a lambda, or put them into a container."
    )


def _expanded(transform: str, function: Callable[..., Any], x: Any, curve: list[Any], order: int) -> Any:
    """Return the coefficients of a function along a curve through a point."""
    leaves, treedef = flatten(x)
    along = [_inputs(transform, function, x, each, name) for each, name in zip(curve, _names(), strict=False)]
    coefficients = [[each[place] for each in along] for place in range(len(leaves))]
    trace = SeriesTrace(int(order))
    inputs = []
    for leaf, pairs in zip(leaves, coefficients, strict=True):
        is_number = pairs[0] is not None
        held = trace.held(pairs[0][0], name_of(function)) if is_number else leaf
        inputs.append(trace.root(held, *(pair[1] for pair in pairs)) if is_number else leaf)
    outputs, out_treedef, _ = run_connected(trace, function, lambda: ((unflatten(treedef, inputs),), {}))
    return unflatten(out_treedef, [untraced(boxed(_stacked(trace, leaf))) for leaf in outputs])


def _names() -> Iterator[str]:
    """Yield the names of the coefficients of a curve in messages."""
    yield "direction"
    for k in itertools.count(2):
        yield f"coefficient {k} of the curve"


def _inputs(transform: str, function: Callable[..., Any], x: Any, coefficient: object, name: str) -> list[Any]:
    """Return each leaf of a point with its part of a coefficient, as arrays or tensors; None if it is not a number."""
    leaves, treedef = flatten(x)
    given, given_treedef = ([None] * len(leaves), treedef) if coefficient is _ONES else flatten(coefficient)
    if given_treedef != treedef:
        raise errors.TangentError(
            f"the point of {transform} has the structure {outline_of(treedef)}, and the {name} "
            f"{outline_of(given_treedef)}; they must be equal."
        )
    calls = {"primals": "x", "tangents": name}
    found = [
        input_along(transform, function, lambda what, place=place: calls[what] + paths(x)[place], leaf, tangent)  # type: ignore[misc]
        for place, (leaf, tangent) in enumerate(zip(leaves, given, strict=True))
    ]
    refuse_no_numbers(transform, function, "x", leaves, found)
    return found


def _stacked(trace: SeriesTrace, leaf: Any) -> Array:
    """Return the coefficients of a result along a new first axis."""
    if not trace.follows(leaf):
        value = np.asarray(leaf) if not hasattr(leaf, "dtype") else leaf
        return np.stack([value, *(np.zeros_like(value) for _ in range(trace.order))])
    series = leaf._mark
    coefficients = [series[k] for k in range(trace.order + 1)]
    return np.stack([np.zeros_like(series[0]) if c is ZERO else c for c in coefficients])
