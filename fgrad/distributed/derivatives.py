"""Derivatives of sums over partitions.

value_and_grad(loss, client=client)(params, partitions)
hvp(loss, client=client)(params, v, partitions)
VariableGradients(loss, client)      value and gradients of a loss that reads variables, as `run` needs them
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.reverse import ReverseTrace
from fgrad.core.tensor import boxed
from fgrad.core.tree import flatten, outline, unflatten
from fgrad.core.variable import Variable
from fgrad.distributed.partitions import checked_client
from fgrad.distributed.programs import Program
from fgrad.distributed.totals import Totals
from fgrad.tapes.tape import GradientTape, gradient_of
from fgrad.transforms import jacobians, reverse
from fgrad.transforms.calls import Transformed
from fgrad.transforms.linearization import Input, refuse_integers

# The work of a worker for one part


def _gradient(
    function: Callable[..., Any], trees: list[Any], part: object, chosen: list[Variable], has_aux: bool
) -> Any:
    slopes: Any = reverse.value_and_grad(function, has_aux=has_aux)
    value, gradient = slopes(trees[0], part)
    number, aux = value if has_aux else (value, None)
    return [number, *flatten(gradient)[0]], aux


def _product(function: Callable[..., Any], trees: list[Any], part: object, chosen: list[Variable]) -> Any:
    return flatten(jacobians.hvp(function)(trees[0], trees[1], part))[0], None


def _variable_gradients(function: Callable[..., Any], trees: list[Any], part: object, chosen: list[Variable]) -> Any:
    with GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(chosen)
        number = function(part)
        if isinstance(number, Variable):
            number = number.value()  # reads it
    if np.shape(number) != ():
        raise errors.NonScalarError(
            f"run needs a loss that is one number, but it has shape {np.shape(number)}.\nReturn a sum."
        )
    return [number, *gradient_of(tape, number, chosen)], None


# The transforms


def _run_value_and_grad(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], totals: Totals, has_aux: bool
) -> Any:
    params, partitions = _arguments("value_and_grad", ("params", "partitions"), args, keywords)
    refuse_integers("value_and_grad", function, {0: Input(ReverseTrace(), params)})
    work = functools.partial(_gradient, has_aux=has_aux)
    terms, aux = totals.total(Program(work, function, [params], has_aux=has_aux), [params], partitions)
    number, *gradients = map(boxed, terms)
    return (number, aux) if has_aux else number, unflatten(flatten(params)[1], gradients)


def _run_hvp(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], totals: Totals) -> Any:
    params, v, partitions = _arguments("hvp", ("params", "v", "partitions"), args, keywords)
    refuse_integers("hvp", function, {0: Input(ReverseTrace(), params)})
    leaves, treedef = flatten(params)
    tangents, same = flatten(v)
    if treedef != same or list(map(np.shape, leaves)) != list(map(np.shape, tangents)):
        raise errors.TangentError(
            f"hvp needs a vector with the structure and shapes of params: params are "
            f"{outline(params)} of shapes {[*map(np.shape, leaves)]}, and v is {outline(v)} of shapes "
            f"{[*map(np.shape, tangents)]}.\nThe order is hvp(loss, client=client)(params, v, partitions)."
        )
    terms, _ = totals.total(Program(_product, function, [params, v]), [params, v], partitions)
    return unflatten(treedef, map(boxed, terms))


def _arguments(name: str, wanted: Sequence[str], args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
    """Return the arguments of a call, in order."""
    given = dict(zip(wanted, args, strict=False)) | keywords
    if len(args) > len(wanted) or len(args) + len(keywords) != len(wanted) or set(given) != set(wanted):
        raise errors.ParameterError(
            f"{name} was called with {len(args)} arguments{f' and {sorted(keywords)}' if keywords else ''}.\n"
            f"Write {name}(loss, client=client)({', '.join(wanted)}); the loss takes params and one part."
        )
    return [given[each] for each in wanted]


def value_and_grad(loss: Callable[..., Any], *, client: Any = None, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the sum of a loss over partitions, and the gradient of the sum.

    Args:
        loss: takes params, a container of floating-point arrays, and one part of the data; returns a number. The values
            it closes over are sent to the workers with it, and sent again after a change. Add terms that occur only
            once, such as a penalty, to the result, or divide them by the number of parts inside the loss. For a mean,
            divide the sum by the number of rows of all parts, inside the loss or afterwards.
        client: a `distributed.Client` of the cluster; None computes here, one part after another, with the same
            result.
        has_aux: `loss` returns `(number, aux)`; the aux values of all parts are returned as a list, in order.

    Returns:
        `g(params, partitions)`, which returns `(value, gradient)`, the gradient with the dtypes, shapes and structure
        of params; with `has_aux` the value is `(number, list of aux)`. It is the same to the last bit for any number
        of workers on machines of one kind. `partitions` are `Partitions`, or a list with the same contents: the
        arrays of a list are sent at the first call, and again in a later call if they have changed.

    Raises:
        PartitionError: a RuntimeError; the loss failed for a part, or the part is lost. The original exception
            is its cause.
        IntegerInputError: a TypeError; params hold integers or booleans.
        ExportError: a TypeError; params, or values that the loss closes over, are traced: the result of a cluster is
            not differentiable.
        ParameterError: a ValueError; the arguments are invalid, or there are no partitions.
        NotCallableError: a TypeError; `loss` is not a function.

    Example:
        >>> def loss(p, part):
        ...     return np.sum((p["a"] * part + p["b"]) ** 2)
        >>> value_and_grad(loss)({"a": 1.0, "b": 1.0}, [np.array([1.0, 2.0]), np.array([3.0])])
        (Tensor(29.), {'a': Tensor(40.), 'b': Tensor(18.)})
    """
    options = {"totals": Totals(checked_client(client)), "has_aux": has_aux}
    return Transformed(_run_value_and_grad, loss, options)


def hvp(loss: Callable[..., Any], *, client: Any = None) -> Callable[..., Any]:
    """Return a function that multiplies the Hessian of the sum of a loss over partitions by a vector.

    Args:
        loss, client: as for `value_and_grad`.

    Returns:
        `product(params, v, partitions)`, where `v` and the result have the structure of params. With
        `args=(partitions,)` it is a valid `hessp` of `scipy.optimize.minimize`.

    Raises:
        TangentError: a ValueError; `params` and `v` differ in structure or shape.
        PartitionError, IntegerInputError, ExportError, ParameterError, NotCallableError: as for `value_and_grad`.

    Example:
        >>> product = hvp(lambda p, part: np.sum(p**2 * part))
        >>> product(np.array([1.0, 2.0]), np.array([1.0, 10.0]), [np.array([1.0, 2.0]), np.array([3.0, 4.0])])
        Tensor([  8., 120.])
    """
    return Transformed(_run_hvp, loss, {"totals": Totals(checked_client(client))})


class VariableGradients:
    """The sum of a loss that reads variables, and its gradients."""

    def __init__(self, loss: Callable[[Any], Any], client: Any) -> None:
        self._loss, self._totals = loss, Totals(checked_client(client))

    def __call__(self, variables: list[Variable], partitions: Any) -> tuple[Any, list[Any]]:
        """Return the value, and a gradient for each variable: None if no part depends on it."""
        terms, _ = self._totals.total(Program(_variable_gradients, self._loss, [], variables), [], partitions)
        number, *gradients = (None if term is None else boxed(term) for term in terms)
        return number, gradients
