"""Distances of arguments from a kink or jump of an operation: `distance` of a primitive."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fgrad.core.primitive import PRIMITIVES
from fgrad.ops import elementwise as elementwise
from fgrad.ops import lengths as lengths
from fgrad.ops import reductions as reductions
from fgrad.typing import Operand


def _apart(metadata: Mapping[str, Any], x: Operand, y: Operand) -> float:
    """Return how close two arguments are, relative to their size."""
    scale = np.maximum(np.maximum(np.abs(x), np.abs(y)), 1e-300)
    apart = np.abs(np.subtract(x, y, dtype=np.float64)) / np.where(scale > 1, scale, 1)
    return float(np.nanmin(apart, initial=math.inf))


def _from_zero(metadata: Mapping[str, Any], x: Operand) -> float:
    return float(np.nanmin(np.abs(x), initial=math.inf))


def _from_integer(metadata: Mapping[str, Any], x: Operand, *others: object) -> float:
    return float(np.nanmin(np.abs(x - np.rint(x)), initial=math.inf))


def _from_other_integer(metadata: Mapping[str, Any], x: Operand) -> float:
    """Return how close a number is to a jump of its conversion to an integer, which truncates."""
    return _from_integer(metadata, x) if metadata["dtype"].kind in "iu" else math.inf


def _from_half(metadata: Mapping[str, Any], x: Operand) -> float:
    x = x * 10.0 ** metadata.get("decimals", 0)
    return float(np.nanmin(np.abs(x - np.floor(x) - 0.5), initial=math.inf))


def _from_tie(metadata: Mapping[str, Any], x: Any) -> float:
    """Return how close the two best candidates of a maximum or minimum are."""
    axis = metadata.get("axis")
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    rows = np.moveaxis(x, axes, range(-len(axes), 0))
    rows = np.sort(rows.reshape((*rows.shape[: x.ndim - len(axes)], -1)), axis=-1)
    if rows.shape[-1] < 2 or not rows.size:
        return math.inf
    return min(_apart(metadata, rows[..., 0], rows[..., 1]), _apart(metadata, rows[..., -1], rows[..., -2]))


_MEASURES: dict[Callable[..., float], tuple[str, ...]] = {
    _apart: ("maximum", "minimum", "fmax", "fmin", "less", "less_equal", "greater", "greater_equal"),
    _from_zero: ("abs", "fabs", "sign"),
    _from_integer: ("floor", "ceil", "trunc"),
    _from_half: ("rint", "round"),
    _from_other_integer: ("astype",),
    _from_tie: ("max", "min"),
}
DISTANCES = {PRIMITIVES[name]: measure for measure, names in _MEASURES.items() for name in names}
"""Distances of plain arrays from a kink or jump: `distance(metadata, *args)`."""
