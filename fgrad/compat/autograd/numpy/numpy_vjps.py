"""Helpers for user-defined reverse rules: cotangents of broadcast arguments, and of real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.compat.autograd.numpy.numpy_wrapper import metadata
from fgrad.compat.autograd.sparse import SparseObject
from fgrad.typing import ArrayLike

__all__ = [
    "balanced_eq", "match_complex", "repeat_to_match_shape", "replace_zero", "unbroadcast", "unbroadcast_f", "untake",
]  # fmt: skip

Meta = tuple[tuple[int, ...], int, Any, bool]


def unbroadcast(x: ArrayLike, target_meta: Meta, broadcast_idx: int = 0) -> Any:
    """Return a cotangent summed over the axes along which its argument was broadcast.

    Args:
        x: the cotangent.
        target_meta: the metadata of the argument, from `numpy_wrapper.metadata`.
        broadcast_idx: the position of the axes that the argument lacks: 0 in front, -1 at the end.
    """
    shape, ndim, _, is_complex = target_meta
    new = max(np.ndim(x) - ndim, 0)
    start = broadcast_idx if broadcast_idx >= 0 else np.ndim(x) - new
    x = np.sum(x, axis=tuple(range(start, start + new))) if new else x
    repeated = tuple(axis for axis, size in enumerate(shape) if size == 1 != np.shape(x)[axis])
    x = np.sum(x, axis=repeated, keepdims=True) if repeated else x
    return np.real(x) if np.iscomplexobj(x) and not is_complex else x


def unbroadcast_f(target: Any, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a pullback whose cotangents are summed over the axes along which `target` was broadcast."""
    meta = metadata(target)
    return lambda g: unbroadcast(f(g), meta)


def match_complex(target: Any, x: Any) -> Any:
    """Return `x` as a real or complex array, like `target`."""
    if np.iscomplexobj(target) == np.iscomplexobj(x):
        return x
    return x + 0j if np.iscomplexobj(target) else np.real(x)


def replace_zero(x: ArrayLike, val: Any) -> Any:
    """Return `x` with zeros replaced."""
    return np.where(x != 0, x, val)


def balanced_eq(x: ArrayLike, z: ArrayLike, y: ArrayLike) -> Any:
    """Return the weight of `x` in the choice `z` of `x` or `y`: 1, or 1/2 where they are equal."""
    return (x == z) / (1.0 + (x == y))


def repeat_to_match_shape(
    g: ArrayLike, shape: tuple[int, ...], dtype: Any, axis: Any, keepdims: bool
) -> tuple[Any, int]:
    """Return the cotangent of a sum broadcast to its argument, and the number of elements in each sum."""
    if shape == ():
        return g, 1
    axes = tuple(range(len(shape))) if axis is None else np.atleast_1d(axis) % len(shape)
    kept = tuple(1 if place in axes else size for place, size in enumerate(shape))
    count = int(np.prod([shape[place] for place in axes]))
    return np.broadcast_to(np.reshape(g, kept), shape) + np.zeros(shape, dtype), count


def untake(x: ArrayLike, idx: Any, vs: object) -> SparseObject:
    """Return zeros with a cotangent added to the elements at an index."""

    def mut_add(array: Any) -> Any:
        np.add.at(array, idx, x)
        return array

    return SparseObject(vs, mut_add)
