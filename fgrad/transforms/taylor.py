"""Taylor series and derivatives of any order.

taylor(f, order)(x, direction)    the coefficients of t -> f(x + t * direction)
derivatives(f, n)(x, direction)   the value and the first n derivatives of it
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from fgrad import errors
from fgrad.core.primitive import ZERO
from fgrad.core.reverse import may_hold_zeros
from fgrad.core.tree import flatten, paths, tree_map, unflatten
from fgrad.transforms.calls import decorator
from fgrad.transforms.cuts import warn_of_losses
from fgrad.transforms.forward import input_along
from fgrad.transforms.linearization import check_detached
from fgrad.transforms.running import check_result, run, untraced
from fgrad.transforms.series import SeriesTrace

LARGEST_FACTORIAL = 170
"""That of 171 is not a number in double precision."""


@overload
def taylor(function: Callable[..., Any], order: int) -> Callable[..., Any]: ...
@overload
def taylor(function: None = None, *, order: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
def taylor(function: Any = None, order: Any = None) -> Any:
    """Return a function that expands `function` into a Taylor series along a direction.

    All coefficients come from one run of the function. The cost grows with the square of the order for most programs,
    and at most about with its cube; nested derivatives cost two to three times more for each order.

    Args:
        function: takes one number, array or container of them; returns numbers, arrays or containers of them.
        order: the number of the last coefficient, from 0 on.

    Returns:
        A function of `(x, direction=None)`. It returns what `function` returns, with one axis more in front of each
        array, of size `order + 1`: the coefficient k is the k-th derivative of `t -> function(x + t * direction)` at
        0, divided by k!. The direction is nested as `x`, of its shapes; None is 1 for each number.

    Raises:
        ParameterError: a ValueError; `order` is not an integer from 0 on.
        TangentError: a ValueError; `x` and the direction differ in structure or shape.
        IntegerInputError: a TypeError; `x` holds integers.
        NoResultError: a ValueError; `function` returns None.

    Example:
        >>> taylor(np.exp, 3)(0.0)
        Tensor([1.        , 1.        , 0.5       , 0.16666667])
        >>> taylor(lambda x: np.sum(x**2), 2)(np.array([1.0, 2.0]), np.array([0.0, 1.0]))
        Tensor([5., 4., 1.])
    """
    _check_order("taylor", "order", order)
    return decorator(_run_taylor, function, order=order)


@overload
def derivatives(function: Callable[..., Any], n: int) -> Callable[..., Any]: ...
@overload
def derivatives(function: None = None, *, n: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
def derivatives(function: Any = None, n: Any = None) -> Any:
    """Return a function that computes the value of `function` and its first `n` derivatives along a direction.

    They are the coefficients of `taylor`, times the factorials.

    Args:
        function: takes one number, array or container of them; returns numbers, arrays or containers of them.
        n: the order of the last derivative, from 0 to 170.

    Returns:
        A function of `(x, direction=None)`, which returns what `function` returns, with one axis more in front of each
        array, of size `n + 1`. Of an elementwise function of an array these are the derivatives of each element.

    Raises:
        ParameterError: a ValueError; `n` is not an integer from 0 to 170, beyond which factorials overflow.

    Example:
        >>> derivatives(lambda x: x**3, 3)(2.0)
        Tensor([ 8., 12., 12.,  6.])
    """
    _check_order("derivatives", "n", n)
    if n > LARGEST_FACTORIAL:
        raise errors.ParameterError(
            f"n of derivatives is {n}, and the factorial of that is too large for a number: the last is that of "
            f"{LARGEST_FACTORIAL}.\nfg.taylor gives the coefficients without it."
        )
    return decorator(_run_derivatives, function, n=n)


def _check_order(transform: str, name: str, order: Any) -> None:
    if isinstance(order, bool) or not isinstance(order, (int, np.integer)) or order < 0:
        raise errors.ParameterError(
            f"{name} of {transform} must be an integer from 0 on, and it is {order!r}.\n"
            f"The point comes in a call of its own: fg.{transform}(f, {name})(x)."
        )


def _run_taylor(function: Any, args: tuple[Any, ...], keywords: dict[str, Any], order: int) -> Any:
    return _expanded("taylor", function, *_point("taylor", *args, **keywords), order)


def _run_derivatives(function: Any, args: tuple[Any, ...], keywords: dict[str, Any], n: int) -> Any:
    coefficients = _expanded("derivatives", function, *_point("derivatives", *args, **keywords), n)
    factorials = [math.factorial(k) for k in range(n + 1)]
    return tree_map(lambda x: x * _column(factorials, x), coefficients)


def _column(factors: list[int], like: Any) -> Any:
    """Return factors along the first axis of an array."""
    dtype = like.dtype if like.dtype.kind in "fc" else None
    return np.array([float(x) for x in factors] if dtype else factors, dtype).reshape(-1, *(1 for _ in like.shape[1:]))


def _point(transform: str, *args: Any, **keywords: Any) -> tuple[Any, Any]:
    """Return the point and the direction of a call.

    Raises:
        ParameterError: there are other arguments.
    """
    given = dict(zip(("x", "direction"), args, strict=False))
    if len(args) <= 2 and keywords.keys() <= {"x", "direction"} - given.keys() and "x" in given | keywords:
        return (given | keywords)["x"], (given | keywords).get("direction")
    raise errors.ParameterError(
        f"what {transform} returns takes (x, direction=None): a point and along what the function is expanded.\n"
        "Fix other arguments with a lambda, or put them into a container."
    )


def _expanded(transform: str, function: Any, x: Any, direction: Any, order: int) -> Any:
    """Return the coefficients of a function at a point along a direction."""
    leaves, treedef = flatten(x)
    along = _directions(transform, function, x, leaves, treedef, direction)
    trace = SeriesTrace(int(order), guarded=any(may_hold_zeros(pair[1]) for pair in along if pair is not None))
    inputs = [leaf if pair is None else trace.root(*pair) for leaf, pair in zip(leaves, along, strict=True)]
    result, outputs, out_treedef, _ = run(trace, function, lambda: ((unflatten(treedef, inputs),), {}))
    check_result(function, result, outputs)
    if not any(map(trace.follows, outputs)):
        check_detached(function, trace)
    warn_of_losses(trace.losses)
    return unflatten(out_treedef, [untraced(_stacked(trace, leaf)) for leaf in outputs])


def _directions(transform: str, function: Any, x: Any, leaves: list[Any], treedef: Any, direction: Any) -> list[Any]:
    """Return each leaf of a point, as it is traced, with its direction; None for what is no number."""
    if direction is None:
        given: list[Any] = [None] * len(leaves)
    else:
        given, direction_treedef = flatten(direction)
        if direction_treedef != treedef:
            raise errors.TangentError(
                f"the point of {transform} is nested as {treedef}, and the direction as {direction_treedef}; they must "
                "match."
            )
    places = None

    def name(place: int, what: str) -> str:
        nonlocal places
        places = places or paths(x)
        return {"primals": "x", "tangents": "direction"}[what] + places[place]

    return [
        input_along(transform, function, lambda what, place=place: name(place, what), leaf, tangent)  # type: ignore[misc]
        for place, (leaf, tangent) in enumerate(zip(leaves, given, strict=True))
    ]


def _stacked(trace: SeriesTrace, leaf: Any) -> Any:
    """Return the coefficients of a result along a new first axis."""
    if not trace.follows(leaf):
        value = np.asarray(leaf) if not hasattr(leaf, "dtype") else leaf
        return np.stack([value, *(np.zeros_like(value) for _ in range(trace.order))])
    series = leaf.mark
    coefficients = [series[k] for k in range(trace.order + 1)]
    return np.stack([np.zeros_like(series[0]) if c is ZERO else c for c in coefficients])
