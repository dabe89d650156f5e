"""Conversions of arguments and results: to arrays, and between complex and real form."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.core.coerce import collected
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, boxed, strip_ended
from fgrad.ops.creation import array
from fgrad.rules.closures import followers
from fgrad.rules.rule import Leaves
from fgrad.scipy.integrate._callback import has_tensors, seen
from fgrad.typing import Array, ArrayLike


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
