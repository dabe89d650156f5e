"""The arguments of a generator's methods.

signature("loc=0.0 scale=1.0 size=None")    a signature from a short text
is_involved(arguments)                      whether there are tensors among them
check_constant(name, **parameters)          raises if a derivative would be lost
shape_of(...)                               the shape of the result, or NumPy's own error
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.layers import layers
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import strip_ended
from fgrad.core.tree import flatten
from fgrad.ops.tracing import concrete_value, first_example

_PLAIN = {int, float, bool, str, type(None), type, np.ndarray, np.dtype}


def signature(words: str) -> inspect.Signature:
    """Return the signature of a method, from names with defaults."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parts = [each.partition("=") for each in words.split()]
    return inspect.Signature(
        [
            inspect.Parameter(name, kind, default=ast.literal_eval(default) if default else inspect.Parameter.empty)
            for name, _, default in parts
        ]
    )


def is_involved(arguments: Iterable[Any]) -> bool:
    """Return whether there are tensors or variables, also in lists."""
    others = [each for each in arguments if type(each) not in _PLAIN]  # usually empty, which is fastest
    return bool(others) and any(type(leaf) in BOXES for leaf in flatten(others)[0])


def is_of_program(parameters: Iterable[Any]) -> bool:
    """Return whether a parameter belongs to a recorded program."""
    return any(layer._trace.is_program for x in parameters for layer in layers(strip_ended(x)))


def check_has_value(method: str, parameters: Iterable[Any]) -> None:
    """Raise if a parameter belongs to a program that is being recorded."""
    if is_of_program(parameters):
        raise errors.ConcretizationError(
            f"rng.{method}",
            errors.users_line(),
            "Random numbers are not part of a program. Draw numbers that do not depend on its inputs before, and pass "
            "them as arguments: loc + scale * noise; for a loop, in `xs` of fg.scan.",
        )


def check_constant(method: str, parameters: dict[str, Any]) -> None:
    """Raise if a parameter of a discrete distribution is differentiated."""
    for name, x in parameters.items():
        if (
            type(x) in BOXES
            and x.dtype.kind in "fc"
            and any(each._trace.differentiates for each in layers(strip_ended(x)))
        ):
            raise errors.NoDerivativeError(
                f"rng.{method} has no derivative with respect to {name!r}, which is differentiated: its draws are "
                f"discontinuous.\n  at {errors.users_line()}\n"
                f"Draw with fg.stop_gradient({name}). For the derivative of an expectation, use the probability "
                "of the draw: fg.score_function(cost, log_probability)."
            )


def sizes_in(size: Any) -> tuple[Any, ...]:
    """Return the argument `size` of a method as a tuple."""
    if size is None:
        return ()
    return tuple(size) if np.iterable(size) else (size,)


def shape_of(numpys: Callable[..., Any], parameters: Sequence[Any], size: object) -> tuple[int, ...]:
    """Return the shape of the result of a NumPy method for parameters that broadcast, and a size.

    Raises:
        ValueError: the shapes do not match; the message is NumPy's.
    """
    shapes = [np.shape(x) for x in parameters]
    if size is None:
        return np.broadcast_shapes(*shapes)
    wanted = sizes_in(size)
    if not _fits(wanted, shapes):
        numpys(_ASIDE, *map(first_example, parameters), size=size)  # to raise NumPy's error
    return wanted


def _fits(wanted: tuple[Any, ...], shapes: list[tuple[int, ...]]) -> bool:
    try:
        return np.broadcast_shapes(wanted, *shapes) == wanted
    except (TypeError, ValueError):
        return False


def check_values(numpys: Callable[..., Any], parameters: Sequence[Any]) -> None:
    """Raise NumPy's error for invalid parameters, such as a negative scale.

    NumPy's bounds are lower bounds, so the smallest elements suffice.
    """
    arrays = [concrete_value(x) for x in parameters]
    if all(array is not None and np.size(array) for array in arrays):
        numpys(_ASIDE, *(np.min(array) for array in arrays))


_ASIDE = np.random.Generator(np.random.PCG64(0))
"""A generator whose draws are discarded."""
