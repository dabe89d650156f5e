"""The Laplacian, in forward mode, without the Hessian.

laplacian(f)(x)    the sum over all inputs of the second derivative with respect to that input
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad import errors
from fgrad.core.foreign import INEXACT
from fgrad.core.masked import Masked
from fgrad.core.primitive import UFUNCS, ZERO, Primitive
from fgrad.core.tensor import Tensor, apply, apply_call, box, boxed, strip_ended
from fgrad.core.trace import Call, Trace
from fgrad.core.tree import flatten, paths, unflatten
from fgrad.ops.contractions import contract
from fgrad.ops.families import scale
from fgrad.transforms.batch import BatchTrace
from fgrad.transforms.calls import closed_over, decorator, name_of
from fgrad.transforms.forward import input_along, refuse_no_numbers
from fgrad.transforms.jacobians import unit_directions
from fgrad.transforms.running import run_connected, untraced
from fgrad.transforms.series import SeriesTrace


class LaplacianTrace(Trace):
    """Carries with every value y its derivatives with respect to all inputs, and the sum of the second derivatives.

    An operation on values u changes the sum by its slope along the sums of u, and by its curvature along the
    derivatives of u, for each input. A linear operation has no curvature, so that only the sum of the second
    derivatives needs to be carried (Li et al. 2024, https://doi.org/10.1038/s42256-024-00794-x).

    Args:
        size: the number of inputs.
    """

    differentiates = True
    wants_python = True
    takes_calls = True

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def root(self, value: Any, rows: Any, total: Any) -> Tensor:
        """Return a tensor from a value, its derivatives along a first axis, and the sum of the second derivatives."""
        return box(value, self, (rows, total))

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        values = [x._payload if self.follows(x) else x for x in args]
        ans = apply(primitive, values, metadata)
        if primitive.jvp is None:
            return boxed(ans)
        with np.errstate(all="ignore"):  # NumPy has warned about the value
            return self._moved(primitive, args, values, ans, metadata)

    def _moved(
        self, primitive: Primitive, args: Sequence[Any], values: list[Any], ans: Any, metadata: Mapping[str, Any]
    ) -> Any:
        """Return the result of an operation with its derivatives, by the kind of the operation."""
        moving = [place for place, x in enumerate(args) if self.follows(x)]
        if len(moving) == 1 and (own := args[moving[0]]._mark):
            if primitive.linear and not primitive.parted and type(ans) is not tuple and ans.dtype.kind in INEXACT:
                return self._linear(ans, partial(_in_place_of, primitive, values, moving[0], metadata), *own)
            if _has_slopes(primitive, values[moving[0]], ans):
                return self._elementwise(primitive, values, moving[0], own, metadata)
        several = type(ans) is tuple

        def operation(*args: object) -> Any:
            results = apply(primitive, args, metadata)
            return results if several else (results,)

        results = self._followed(operation, args, 1 if primitive.linear == "together" else 2)
        return tuple(results) if several else results[0]

    @override
    def process_call(self, call: Call, leaves: Sequence[Any]) -> list[Any]:
        results = self._followed(lambda *leaves: apply_call(call, leaves), leaves, 2)
        if any(self.follows(part) for x in results if self.follows(x) for part in (x._payload, *x._mark)):
            raise closed_over(call.name)
        return results

    def _linear(self, ans: Any, function: Callable[[Any], Any], rows: Any, total: Any) -> Tensor:
        """Return the result of an operation that is linear in its traced argument, computed by `function`."""
        with (batch := BatchTrace(self.size)):
            rows = _in_shape(function(batch.root(rows)), ans.shape)._payload
        return self.root(ans, rows, total if total is ZERO else _in_shape(function(total), ans.shape))

    def _elementwise(
        self, primitive: Primitive, values: list[Any], place: int, mark: Any, metadata: Mapping[str, Any]
    ) -> Any:
        """Return the result of y = f(u), where slope and curvature have one number for each element.

        Its derivatives are f'(u) u_i, and the sum of the second ones is f''(u) (u_1 u_1 + ...) + f'(u) (u_11 + ...).
        """
        (rows, total), times = mark, _times_mask if primitive.masks else scale
        along = [np.ones_like(x) if own == place else ZERO for own, x in enumerate(values)]
        ((value, slope, half),) = _expanded(lambda *args: [apply(primitive, args, metadata)], values, along, 2)
        if slope is ZERO:
            return boxed(value)
        curved = ZERO if half is ZERO else times(np.einsum("i...,i...->...", rows, rows), 2 * half)
        return self.root(value, times(rows, slope), curved if total is ZERO else _sum(curved, times(total, slope)))

    def _followed(self, function: Callable[..., Any], args: Sequence[Any], order: int) -> list[Any]:
        """Return the results of an operation or call; its curvature is zero if the order is 1."""
        marks = [x._mark if self.follows(x) else (ZERO, ZERO) for x in args]
        values = [x._payload if self.follows(x) else x for x in args]
        with (batch := BatchTrace(self.size)):
            rows = [row if row is ZERO else batch.root(row) for row, _ in marks]
            results = [self._of_rows(batch, *each) for each in _expanded(function, values, rows, order)]
        totals = [total for _, total in marks]
        if any(total is not ZERO for total in totals):
            along = [slope for _, slope, _ in _expanded(function, values, totals, 1)]
            results = [(x, row, _sum(total, more)) for (x, row, total), more in zip(results, along, strict=True)]
        return [boxed(x) if row is ZERO and total is ZERO else self.root(x, row, total) for x, row, total in results]

    def _of_rows(self, batch: BatchTrace, value: Any, row: Any, half: Any) -> tuple[Any, Any, Any]:
        """Return a value, its derivatives, and twice the sum of its second-order coefficients."""
        value = value._payload[0] if batch.follows(value) else value
        if row is not ZERO:
            row = row._payload if batch.follows(row) else np.broadcast_to(row, (self.size, *row.shape))
        if half is not ZERO:
            half = 2 * np.sum(half._payload, axis=0) if batch.follows(half) else half  # 0, the same for all inputs
        return value, row, half


def _in_place_of(primitive: Primitive, values: Sequence[Any], place: int, metadata: Mapping[str, Any], x: Any) -> Any:
    """Return an operation that is linear in one of its arrays, with `x` in its place; exact zeros of `x` win."""
    if primitive.linear == "together" and len(values) == 2:  # a sum or difference
        return x if place == 0 or primitive is UFUNCS[np.add] else -x
    if primitive is UFUNCS[np.multiply]:
        return scale(x, values[1 - place])
    is_guarded = len(values) > 1 and primitive.kind != "guard"
    args = [(Masked(x) if is_guarded else x) if own == place else y for own, y in enumerate(values)]
    return contract(primitive, args, metadata)


def _in_shape(x: Any, shape: tuple[int, ...]) -> Any:
    return x if x.shape == shape else np.broadcast_to(x, shape)


def _times_mask(x: Any, slope: Any) -> Any:
    """Return a product with slopes whose zeros mean "not used", whatever the array holds there."""
    return scale(slope, x)


def _has_slopes(primitive: Primitive, x: Any, ans: Any) -> bool:
    """Return whether an operation has one real derivative for each element of a real array that is not broadcast."""
    if not primitive.is_elementwise or type(ans) is tuple:
        return False
    return bool(x.dtype.kind == "f" and x.dtype == ans.dtype and x.shape == ans.shape)


def _sum(one: object, other: Any) -> Any:
    if one is ZERO or other is ZERO:
        return other if one is ZERO else one
    return one + other


def _expanded(
    function: Callable[..., Any], values: Sequence[Any], firsts: Sequence[Any], order: int
) -> list[tuple[Any, Any, Any]]:
    """Return the value and the coefficients of first and second order for each result; ZERO above `order`."""
    trace = SeriesTrace(order)
    with trace:
        results = function(*(x if t is ZERO else trace.root(x, t) for x, t in zip(values, firsts, strict=True)))
    expanded = []
    for x in results:
        if trace.follows(x):
            expanded.append((x._mark[0], x._mark[1], x._mark[2] if order > 1 else ZERO))
        else:
            expanded.append((strip_ended(x), ZERO, ZERO))
    return expanded


def laplacian(function: Callable[..., Any] | None = None) -> Any:
    """Return a function that computes the Laplacian of `function`: the trace of its Hessian.

    The Hessian is not computed. In forward mode, values, their derivatives with respect to all n inputs, and one sum of
    second derivatives are propagated together.

    Args:
        function: takes one floating-point number, array or container of them; returns numbers, arrays or containers of
            them.

    Returns:
        A function of `x` whose result has the structure of that of `function`, with the Laplacian in place of each
        number.

    Raises:
        IntegerInputError: a TypeError; `x` holds integers.
        NoResultError: a ValueError; `function` returns None.

    Example:
        >>> laplacian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
        Tensor(18.)
    """
    return decorator(_run_laplacian, function)


def _run_laplacian(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    if len(args) != 1 or keywords:
        raise errors.ParameterError(
            f"the function returned by laplacian takes one argument, and {len(args) + len(keywords)} were given.\n"
            "Fix other arguments with a lambda, or put several inputs into a container."
        )
    leaves, treedef = flatten(args[0])
    values = _inputs(function, args[0], leaves)
    numbers = [x for x in values if x is not None]
    trace = LaplacianTrace(sum(x.size for x in numbers))
    rows = iter(unit_directions(numbers))
    name = name_of(function)
    inputs = [
        leaf if x is None else trace.root(trace.held(x, name), next(rows), ZERO)
        for leaf, x in zip(leaves, values, strict=True)
    ]
    outputs, out_treedef, _ = run_connected(trace, function, lambda: ((unflatten(treedef, inputs),), {}))
    return unflatten(out_treedef, [untraced(_total(trace, leaf)) for leaf in outputs])


def _inputs(function: Callable[..., Any], tree: object, leaves: list[Any]) -> list[Any]:
    """Return each leaf of the point as an array or tensor, and None for a leaf that is not a number.

    Raises:
        ParameterError: a leaf is complex.
    """
    found = [
        input_along("laplacian", function, lambda what, place=place: f"x{paths(tree)[place]}", leaf, None)  # type: ignore[misc]
        for place, leaf in enumerate(leaves)
    ]
    refuse_no_numbers("laplacian", function, "x", leaves, found)
    values = [None if pair is None else pair[0] for pair in found]
    if any(x is not None and x.dtype.kind == "c" for x in values):
        raise errors.ParameterError(
            f"the Laplacian of {name_of(function)} with respect to complex numbers is not supported.\n"
            "Take their real and imaginary parts as inputs: lambda x, y: f(x + 1j * y)."
        )
    return values


def _total(trace: LaplacianTrace, leaf: Any) -> Any:
    """Return the sum of second derivatives of a result."""
    if trace.follows(leaf) and leaf._mark[1] is not ZERO:
        return boxed(leaf._mark[1])
    return boxed(np.zeros_like(leaf._payload if trace.follows(leaf) else leaf))
