"""Common code of this package: arguments and results as arrays and in real form, and rules of derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate

from fgrad.core.coerce import collected
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, boxed, strip_ended
from fgrad.ops.creation import array
from fgrad.rules.closures import followers
from fgrad.rules.rule import Leaves, Rule, apply_rule
from fgrad.scipy.integrate._callback import has_tensors, seen
from fgrad.typing import Array, ArrayLike

SCIPYS: Any = scipy.integrate
"""SciPy's functions, whose type annotations are narrower than their actual arguments."""


def array_of(x: ArrayLike) -> Any:
    """Return a user's argument as an array: from numbers, arrays, tensors, or lists of them."""
    x = collected(x)
    if type(x) in BOXES:
        return seen(strip_ended(x))
    if has_tensors(x):
        return strip_ended(array(x))
    return x if isinstance(x, np.ndarray) else np.asarray(x)


def slope_of(result: ArrayLike, state: Array) -> Array:
    """Return the result of a right-hand side as a vector like the state; a single number is repeated."""
    slope = np.reshape(array_of(result), -1)
    if slope.shape != state.shape:
        slope = np.broadcast_to(slope, state.shape)
    return slope.astype(state.dtype)


def floating(x: Array) -> Any:
    """Return an array in the precision of SciPy's computation."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def real_form(x: Array) -> Array:
    """Return complex vectors along the last axis as real vectors; real ones are returned unchanged."""
    return np.concatenate([np.real(x), np.imag(x)], axis=-1) if x.dtype.kind == "c" else x


def complex_form(x: Array) -> Any:
    """Undo `real_form` for complex numbers."""
    half = x.shape[-1] // 2
    return x[..., :half] + 1j * x[..., half:]


def key_of(leaves: Leaves) -> bytes:
    """Return a hashable key for plain leaves."""
    return b"|".join(np.asarray(leaf).tobytes() for leaf in leaves)


def is_moving(x: Array) -> bool:
    """Return whether a derivative with respect to a value is or may be taken."""
    return any(not trace.is_map for trace in followers([x]))


def as_result(x: Array) -> Any:
    """Return an array of a result as a tensor."""
    x = strip_ended(x)
    return x if type(x) is Tensor else boxed(np.asarray(x)[()])  # also for a number


def followed(
    function: Callable[..., Any],
    compute: Callable[[Leaves], Leaves],
    linear: Callable[[Leaves, Leaves], Any],
    leaves: Leaves,
) -> Leaves:
    """Return results that are computed from plain leaves, traced.

    Args:
        function: the user's function, for messages.
        compute: maps leaves to the results.
        linear: maps leaves and the results, which are traced, to the pullback of cotangents and the pushforward of
            tangents.
        leaves: the values on which the results depend.
    """

    def linearize(leaves: Leaves) -> Any:
        found = apply_rule(rule, leaves)
        pull, push = linear(leaves, found)
        return found, lambda cotangents, variables: pull(cotangents), lambda tangents, variables: push(tangents)

    rule = Rule(function, compute, linearize)
    return apply_rule(rule, leaves)
