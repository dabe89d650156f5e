"""Clipping of values and gradients; each function is differentiable."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import fgrad.core  # noqa: F401  # first, so that threads import it in one order
from fgrad import errors
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import boxed, strip_ended
from fgrad.ops.elementwise import stop_gradient_of
from fgrad.typing import Array, ArrayLike, Operand


def _array(x: Array) -> Any:
    """Return a number, array or tensor as an array or tensor."""
    if type(x) in BOXES:
        return x
    try:
        if x is not None and not isinstance(x, dict):
            return np.asarray(x)
    except ValueError:  # arrays of different shapes in a list
        pass
    found = "None" if x is None else f"a {type(x).__name__} of several"
    raise errors.StructureError(
        f"the argument to clip must be one array, and it is {found}.\n"
        "Clip several arrays together with clip_by_global_norm([...], clip_norm), or separately, without those that "
        "are None: [clip_by_norm(g, clip_norm) for g in gradients if g is not None]."
    )


def _wide(t: Any) -> Any:
    """Return an array of half or single precision in double precision, in which its squares do not overflow."""
    wide = np.promote_types(t.dtype, np.float64) if t.dtype.kind in "fc" else t.dtype
    return t if t.dtype == wide else t.astype(wide)


def _unit(arrays: Sequence[Any], **over: Any) -> Any:
    """Return a power of 2 near the largest magnitude: squares of elements in this unit do not overflow or vanish.

    It is constant for derivatives. Division by it does not round, and narrow floats do not need it in `_wide`.
    """
    if all(x.dtype.kind not in "fc" or x.dtype.itemsize < (8 if x.dtype.kind == "f" else 16) for x in arrays):
        return np.float64(1)
    sizes = [np.max(np.abs(stop_gradient_of(x)), initial=0, **over) for x in arrays]
    largest = functools.reduce(np.maximum, sizes)
    usual = np.logical_and(largest > 0, np.isfinite(largest))
    return np.exp2(np.floor(np.log2(np.where(usual, largest, 1))))


def _narrow(result: Any, t: Array) -> Any:
    """Return a result in the dtype of what was clipped, if that is not of integers."""
    return result.astype(t.dtype) if t.dtype.kind in "fc" and result.dtype != t.dtype else result


def _tensor(x: Any) -> Any:
    return boxed(strip_ended(x))


def in_shape(result: ArrayLike, t: ArrayLike, **limits: Any) -> Any:
    """Return a clipped array, after a check that its limits have not broadcast the original, `t`, to another shape."""
    if np.shape(result) != np.shape(t):
        shapes = " and ".join(f"{name} of shape {np.shape(limit)}" for name, limit in limits.items())
        raise errors.ShapeError(
            f"an array of shape {np.shape(t)} is clipped to {shapes}, which would give the shape {np.shape(result)}.\n"
            "A limit is a number, or an array that can be broadcast to the shape of the clipped array."
        )
    return result


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any) -> Any:
    """Limit every element to an interval.

    Args:
        t: array or tensor of any shape.
        clip_value_min, clip_value_max: the bounds, numbers or arrays that can be broadcast to the shape of `t`. If the
            lower bound exceeds the upper one, the lower one is used.

    Returns:
        A Tensor of the shape of `t`; NaN is preserved.

    Raises:
        StructureError: a TypeError; `t` is None, or holds several arrays.
        ShapeError: a ValueError; the bounds have more elements than `t`.

    Example:
        >>> clip_by_value([-3.0, 0.5, 3.0], -1.0, 1.0)
        Tensor([-1. ,  0.5,  1. ])
    """
    t = _array(t)
    clipped = np.maximum(np.minimum(t, clip_value_max), clip_value_min)
    return _tensor(in_shape(clipped, t, clip_value_min=clip_value_min, clip_value_max=clip_value_max))


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None) -> Any:
    """Scale an array down so that its Euclidean norm is at most `clip_norm`.

    Args:
        t: array or tensor of any shape.
        clip_norm: the maximal norm, not negative.
        axes: the axes of a vector, where each vector is scaled separately; by default all.

    Returns:
        A Tensor of the shape of `t`, unchanged if the norm is at most `clip_norm`. If the norm is NaN, every element
        is NaN, as a visible sign.

    Raises:
        ParameterError: a ValueError; `clip_norm` is negative.
        StructureError: a TypeError; `t` is None, or holds several arrays.
        ShapeError: a ValueError; `clip_norm` has more elements than there are vectors.

    Example:
        >>> clip_by_norm([3.0, 4.0], 1.0)
        Tensor([0.6, 0.8])
    """
    _check_norm(clip_norm)
    t = _array(t)
    axes = tuple(axes) if isinstance(axes, list) else axes
    wide, unit = _wide(t), _unit([t], axis=axes, keepdims=True)
    scaled = wide / unit
    squares = np.sum(np.square(np.abs(scaled)), axis=axes, keepdims=True)
    too_long = np.logical_not(squares <= np.square(clip_norm / unit))
    norm = np.sqrt(np.where(too_long, squares, 1))
    clipped = np.where(too_long, scaled * clip_norm / norm, wide)
    return _tensor(in_shape(_narrow(clipped, t), t, clip_norm=clip_norm))


def global_norm(t_list: Iterable[Any]) -> Any:
    """Return the Euclidean norm of several arrays, concatenated to one vector.

    Args:
        t_list: a list of arrays or tensors; None is ignored.

    Returns:
        A scalar Tensor, 0 for an empty list.

    Raises:
        StructureError: a TypeError; `t_list` is one array, or a dict.

    Example:
        >>> global_norm([[3.0], [4.0], None])
        Tensor(5.)
    """
    arrays = [_array(t) for t in _list(t_list) if t is not None]
    if not arrays:
        return _tensor(np.float64(0))
    unit = _unit(arrays)
    squares = [np.sum(np.square(np.abs(_wide(t) / unit))) for t in arrays]
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    nonzero = total > 0  # at 0 the norm has a kink, with the derivative 0
    norm = np.where(nonzero, np.sqrt(np.where(nonzero, total, 1)) * unit, total)
    dtype = np.result_type(*(np.real(np.empty(0, t.dtype)).dtype for t in arrays))
    return _tensor(norm.astype(dtype) if dtype.kind == "f" else norm)


def clip_by_global_norm(t_list: Iterable[Any], clip_norm: Any, use_norm: Any = None) -> tuple[list[Any], Any]:
    """Scale several arrays jointly so that their global norm is at most `clip_norm`.

    Args:
        t_list: a list of arrays or tensors; None is returned as None.
        clip_norm: the maximal norm, not negative.
        use_norm: the global norm, if it is already known.

    Returns:
        The list of Tensors, and the global norm before clipping. If that norm is not finite, every element is NaN, as a
        visible sign.

    Raises:
        ParameterError: a ValueError; `clip_norm` is negative.
        StructureError: a TypeError; `t_list` is one array, or a dict.

    Example:
        >>> clip_by_global_norm([[3.0], None, [4.0]], 1.0)
        ([Tensor([0.6]), None, Tensor([0.8])], Tensor(5.))
    """
    _check_norm(clip_norm)
    t_list = _list(t_list)
    norm = global_norm(t_list) if use_norm is None else _tensor(_array(use_norm))
    too_long = norm > clip_norm
    scale = np.where(too_long, clip_norm / np.where(too_long, norm, 1), 1)
    scale = np.where(np.isfinite(norm), scale, np.nan)
    return [None if t is None else _scaled(_array(t), scale) for t in t_list], norm


def _scaled(t: Array, scale: Array) -> Any:
    return _tensor((t * scale).astype(t.dtype) if t.dtype.kind in "fc" else t * scale)


def _check_norm(clip_norm: Operand) -> None:
    if not np.all(np.asarray(clip_norm) >= 0):
        raise errors.ParameterError(f"clip_norm must not be negative, and it is {clip_norm}.")


def _list(t_list: Any) -> list[Any]:
    if isinstance(t_list, dict):
        raise errors.StructureError(
            "t_list must be a list of arrays, and it is a dict.\n"
            "Clip its values, list(gradients.values()), and put them back: dict(zip(gradients, clipped))."
        )
    if isinstance(t_list, np.ndarray) or type(t_list) in BOXES:
        raise errors.StructureError(
            f"t_list must be a list of arrays, and it is one array of shape {t_list.shape}; pass [t] for one."
        )
    return list(t_list)
