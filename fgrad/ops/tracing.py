"""Helpers of this package that inspect whether and how arguments are traced.

answers_traced(np.median)    register an implementation for traced arguments;
    otherwise NumPy's function runs, with its speed, warnings and errors
run(f, answer, ...)          the same choice for one call
is_plainly_traced(arguments) whether that choice is clear from a quick check
raw_array(x)                 the plain array, for checks and warnings alone
raw_arrays(x, y)             those of several tensors, so that batches broadcast
concrete_value(x)            the same, or None where there is none
is_always_zero(x)            whether it is 0, also under further differentiation
first_example(x)             of a batch, the array of the first example
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from fgrad import errors
from fgrad.core.foreign import FOREIGN
from fgrad.core.layers import below, is_program, layers
from fgrad.core.primitive import BOXES, FUNCTIONS
from fgrad.core.tensor import Tensor, boxed, strip_ended
from fgrad.core.tree import flatten, unflatten
from fgrad.ops.indexing import written
from fgrad.typing import Array, Operand

F = TypeVar("F", bound=Callable[..., Any])


def answers_traced(function: Callable[..., Any]) -> Callable[[F], F]:
    """Register an implementation of NumPy functions for traced arguments; it needs no `out` parameter."""

    def enter(answer: F) -> F:
        parameters = list(inspect.signature(answer).parameters)
        place = parameters.index("out") if "out" in parameters else len(parameters)

        @functools.wraps(answer)
        def choose(*args: Any, **keywords: Any) -> Any:
            out = keywords.pop("out", None)
            if place < len(args):
                out, args = args[place], (*args[:place], None, *args[place + 1 :])
            result = run(function, answer, args, keywords)
            return result if out is None else written(f"np.{function.__name__}", out, result)

        FUNCTIONS[function] = choose
        return answer

    return enter


def run(function: Any, answer: Any, args: Any, keywords: dict[str, Any]) -> Any:
    """Call the implementation if something is traced; otherwise the function itself, on read-only arrays."""
    if is_plainly_traced((*args, *keywords.values())):
        return answer(*args, **keywords)
    leaves, treedef = flatten((args, keywords))
    settled = [strip_ended(leaf) for leaf in leaves]
    if Tensor in map(type, settled):
        args, keywords = unflatten(treedef, settled)
        return answer(*args, **keywords)
    ours = [type(leaf) in BOXES for leaf in leaves]
    plain = [_read_only(value) if is_ours else value for value, is_ours in zip(settled, ours, strict=True)]
    args, keywords = unflatten(treedef, plain)
    result = function(*args, **keywords)
    return boxed_leaves(result) if any(ours) else result


def is_plainly_traced(arguments: tuple[Any, ...]) -> bool:
    """Return whether there are tensors, all with running traces, and all other arguments are of plain types."""
    found = False
    for argument in arguments:
        if type(argument) is Tensor and argument._trace.level:
            found = True
        elif type(argument) not in _PLAIN:
            return False
    return found


_PLAIN = {int, float, bool, str, type(None), np.ndarray}


def _read_only(value: Array) -> Array:
    if FOREIGN[type(value)]:
        return value
    view = np.asarray(value).view()
    view.flags.writeable = False
    return view


def boxed_leaves(tree: object) -> Any:
    """Return containers with every plain array converted to a Tensor."""

    def box_of(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray) or FOREIGN[type(leaf)]:
            return boxed(leaf[()])
        return boxed(leaf) if isinstance(leaf, np.generic) else leaf

    leaves, treedef = flatten(tree)
    return unflatten(treedef, map(box_of, leaves))


def no_out(name: str, out: object) -> None:
    """Reject `out`.

    Raises:
        InPlaceError: a TypeError; `out` is given.
    """
    if out is not None:
        raise errors.InPlaceError(f"np.{name}", errors.users_line())


def raw_array(x: Any) -> Any:
    """Return the plain array in a tensor, for checks: under `vmap` that of the whole batch."""
    return below(strip_ended(x))


def raw_arrays(*xs: Any) -> list[Any]:
    """Return the plain arrays in tensors; each `vmap` that batches one of them has an axis in all, which come first.

    In a second derivative under `vmap`, the cotangents are a batch of batches, and the values are one batch. The axis
    of what is the same for all examples has length 1.
    """
    batches = [[layer._trace for layer in layers(strip_ended(x)) if layer._trace.is_map] for x in xs]
    together = sorted({trace for own in batches for trace in own}, key=lambda trace: trace.rank)
    arrays = []
    for x, own in zip(xs, batches, strict=True):
        absent = tuple(place for place, trace in enumerate(together) if trace not in own)
        arrays.append(np.expand_dims(raw_array(x), absent) if absent else raw_array(x))
    return arrays


def concrete_value(x: Operand) -> Any:
    """Return the plain array in a tensor, under `vmap` that of the whole batch; None if it is not concrete."""
    value = below(strip_ended(x), is_program)
    return None if type(value) is Tensor else value


def is_always_zero(x: Array) -> bool:
    """Return whether a cotangent is identically 0; one that is differentiated again may be 0 only at this point."""
    value = below(strip_ended(x), lambda trace: trace.differentiates or trace.is_program)
    return type(value) is not Tensor and not np.any(value)


def first_example(leaf: Any) -> Any:
    """Return a plain array in the shape of its leaf: in a batch, the first example."""
    example, shape = raw_array(leaf), np.shape(leaf)
    batches = len(np.shape(example)) - len(shape)  # the batch axes come first
    if not batches:
        return example
    return example[(0,) * batches] if 0 not in example.shape[:batches] else np.ones(shape, example.dtype)
