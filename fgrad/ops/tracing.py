"""What the functions of this package may ask of the arguments they were handed.

answers_traced(np.median)    the decorated function answers where a trace follows an argument;
                             elsewhere NumPy's own function does, with its speed, warnings and errors
run(f, answer, ...)          the same choice for one call
is_plainly_traced(arguments) whether that choice is clear without a closer look
raw_array(x)                the plain array, for checks and warnings alone
concrete_value(x)               the same, or None where there is none
is_always_zero(x)            whether it is 0, also where it is differentiated
first_example(x)               of a batch, that of the first example
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from fgrad import errors
from fgrad.core.foreign import FOREIGN
from fgrad.core.layers import below, is_program
from fgrad.core.primitive import BOXES, FUNCTIONS
from fgrad.core.tensor import Tensor, boxed, strip_ended
from fgrad.core.tree import flatten, unflatten
from fgrad.ops.indexing import written

F = TypeVar("F", bound=Callable[..., Any])


def answers_traced(function: Any) -> Callable[[F], F]:
    """Let a function answer calls of NumPy's in which a running trace follows an argument; it needs no `out`."""

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
    """Call the answer if something is traced; else the function itself, on arrays that it cannot change."""
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


def is_plainly_traced(arguments: Any) -> bool:
    """Return whether there are tensors, all followed by running traces, and otherwise numbers and the like alone."""
    found = False
    for argument in arguments:
        if type(argument) is Tensor and argument._trace.level:
            found = True
        elif type(argument) not in _PLAIN:
            return False
    return found


_PLAIN = {int, float, bool, str, type(None), np.ndarray}


def _read_only(value: Any) -> Any:
    if FOREIGN[type(value)]:
        return value
    view = np.asarray(value).view()
    view.flags.writeable = False
    return view


def boxed_leaves(tree: Any) -> Any:
    """Return containers with every plain array in them as a Tensor."""

    def box_of(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray) or FOREIGN[type(leaf)]:
            return boxed(leaf[()])
        return boxed(leaf) if isinstance(leaf, np.generic) else leaf

    leaves, treedef = flatten(tree)
    return unflatten(treedef, map(box_of, leaves))


def no_out(name: str, out: Any) -> None:
    """Refuse to write a result into anything.

    Raises:
        InPlaceError: a TypeError; `out` is given.
    """
    if out is not None:
        raise errors.InPlaceError(f"np.{name}", errors.users_line())


def raw_array(x: Any) -> Any:
    """Return the plain array in a tensor, for checks: under `vmap` the examples of the whole batch."""
    return below(strip_ended(x))


def concrete_value(x: Any) -> Any:
    """Return the plain array in a tensor, under `vmap` of all examples; None where it stands for other values, too."""
    value = below(strip_ended(x), is_program)
    return None if type(value) is Tensor else value


def is_always_zero(x: Any) -> bool:
    """Return whether a cotangent is exactly 0, and will stay so: one that is differentiated may be 0 only here."""
    value = below(strip_ended(x), lambda trace: trace.differentiates or trace.is_program)
    return type(value) is not Tensor and not np.any(value)


def first_example(leaf: Any) -> Any:
    """Return a plain array in the form that a leaf shows: in a batch, the first of the examples."""
    example, shape = raw_array(leaf), np.shape(leaf)
    batches = len(np.shape(example)) - len(shape)  # whose axes come in front
    if not batches:
        return example
    return example[(0,) * batches] if 0 not in example.shape[:batches] else np.ones(shape, example.dtype)
