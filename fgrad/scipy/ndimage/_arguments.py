"""Common code for `scipy.ndimage`: axes, modes, and the precision of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import astype
from fgrad.typing import ArrayLike

# What filters are documented with

OF_AN_IMAGE = """
Args:
    input: the image; traced ones are differentiated.
    output: the dtype of the result, by default that of the image.
    cval: the value of the extension in the mode "constant"; it is differentiated, too.

Returns:
    An array of the shape of the image.

Raises:
    RuntimeError, ValueError: SciPy's; an option is invalid.
    DtypeError: a TypeError; the result would have an integer dtype.
"""

ALONG_AN_AXIS = """
Args:
    weights: an array with one axis, which is differentiated, too; complex ones are conjugated.
    size: the number of neighbours.
    axis: the axis of the filter.
    mode: the extension of the image: "reflect", "constant", "nearest", "mirror", "wrap", or a "grid-" form.
    origin: the shift of the weights.
"""

ALONG_AXES = """
Args:
    weights: an array with as many axes as `axes`, which is differentiated, too; complex ones are conjugated.
    size: the number of neighbours, along all axes or along each.
    mode: the extension of the image, for all axes or for each: "reflect", "constant", "nearest", "mirror", "wrap",
        or a "grid-" form.
    origin: the shift of the weights, for all axes or for each.
    axes: the axes of the filter, by default all.
"""

# Axes, modes and precision

_MODES = {
    "reflect": "symmetric",
    "grid-mirror": "symmetric",
    "mirror": "reflect",
    "nearest": "edge",
    "wrap": "wrap",
    "grid-wrap": "wrap",
    "constant": "constant",
    "grid-constant": "constant",
}
"""Modes of extension of a filtered image, with NumPy's names."""


def padding_of(mode: str) -> str:
    """Return NumPy's name of a mode.

    Raises:
        RuntimeError: SciPy's; the mode is unknown.
    """
    if mode not in _MODES:
        raise RuntimeError(f"boundary mode not supported: {mode!r}; it is one of {', '.join(_MODES)}")
    return _MODES[mode]


def image_of(x: ArrayLike, output: object, function: str) -> Any:
    """Return an image converted to the dtype of the result; SciPy computes in double precision internally.

    Args:
        x: the image.
        output: a dtype, or None for the image's own.
        function: the name in messages.

    Raises:
        UnsupportedError: a NotImplementedError; `output` is an array.
        DtypeError: a TypeError; the result would be integers, which have no derivative.
    """
    x = as_array(x)
    if not isinstance(output, (type, str, np.dtype, type(None))):
        raise errors.UnsupportedError(
            f"scipy.ndimage.{function} does not write differentiated results into `output`.\n"
            f"  at {errors.users_line()}\nUse the return value; `output` may be a dtype."
        )
    dtype = np.dtype(output) if output is not None else x.dtype
    if dtype.kind not in "fc":
        raise errors.DtypeError(
            f"scipy.ndimage.{function} returns integers for an image of dtype {dtype}, which have no derivative.\n"
            f"  at {errors.users_line()}\nPass image.astype(float)."
        )
    return astype(x, np.promote_types(dtype, np.complex64) if x.dtype.kind == "c" else dtype)


def axes_of(axes: Any, ndim: int) -> tuple[int, ...]:
    """Return axes as nonnegative integers; None means all.

    Raises:
        AxisError: NumPy's; an axis does not exist.
    """
    if axes is None:
        return tuple(range(ndim))
    return tuple(np.lib.array_utils.normalize_axis_index(int(axis), ndim) for axis in np.atleast_1d(axes))


def array_of(values: ArrayLike) -> Any:
    """Return an array, also from nested lists with traced numbers."""
    return np.stack([array_of(value) for value in values]) if isinstance(values, (list, tuple)) else as_array(values)


def one_each(value: Any, count: int, name: str) -> Sequence[Any]:
    """Return a value for each of several axes, from a single one or as many.

    Raises:
        RuntimeError: SciPy's; their number is wrong.
    """
    if isinstance(value, str) or np.ndim(value) == 0:
        return [value] * count
    if len(value) != count:
        raise RuntimeError(
            f"sequence argument must have length equal to input rank: {name} has {len(value)} values for {count} axes"
        )
    return list(value)
