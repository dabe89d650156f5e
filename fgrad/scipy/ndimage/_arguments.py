"""What the functions of `scipy.ndimage` have in common: axes, modes, and the precision of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import astype

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
"""What lies around an image that is filtered, with NumPy's name for it."""


def padding_of(mode: str) -> str:
    """Return NumPy's name of a mode.

    Raises:
        RuntimeError: there is no such mode; SciPy's.
    """
    if mode not in _MODES:
        raise RuntimeError(f"boundary mode not supported: {mode!r}; it is one of {', '.join(_MODES)}")
    return _MODES[mode]


def image_of(x: Any, output: Any, function: str) -> Any:
    """Return an image in the dtype of the result, which SciPy computes in double precision in any case.

    Args:
        x: the image.
        output: a dtype, or None for the image's own.
        function: for messages.

    Raises:
        UnsupportedError: a NotImplementedError; `output` is an array.
        DtypeError: a TypeError; the result would be whole numbers, which have no derivative.
    """
    x = as_array(x)
    if not isinstance(output, (type, str, np.dtype, type(None))):
        raise errors.UnsupportedError(
            f"scipy.ndimage.{function} does not write into `output` what is differentiated.\n"
            f"  at {errors.users_line()}\nTake what it returns; `output` may be a dtype."
        )
    dtype = np.dtype(output) if output is not None else x.dtype
    if dtype.kind not in "fc":
        raise errors.DtypeError(
            f"scipy.ndimage.{function} returns whole numbers for an image of dtype {dtype}, without a derivative.\n"
            f"  at {errors.users_line()}\nPass image.astype(float)."
        )
    return astype(x, np.promote_types(dtype, np.complex64) if x.dtype.kind == "c" else dtype)


def axes_of(axes: Any, ndim: int) -> tuple[int, ...]:
    """Return axes as numbers from 0 on; None stands for all.

    Raises:
        AxisError: NumPy's; there is no such axis.
    """
    if axes is None:
        return tuple(range(ndim))
    return tuple(np.lib.array_utils.normalize_axis_index(int(axis), ndim) for axis in np.atleast_1d(axes))


def array_of(values: Any) -> Any:
    """Return an array, also of numbers in lists of which some are traced."""
    return np.stack([array_of(value) for value in values]) if isinstance(values, (list, tuple)) else as_array(values)


def one_each(value: Any, count: int, name: str) -> Sequence[Any]:
    """Return a value for each of several axes, of one for all or of as many.

    Raises:
        RuntimeError: there are others; SciPy's.
    """
    if isinstance(value, str) or np.ndim(value) == 0:
        return [value] * count
    if len(value) != count:
        raise RuntimeError(
            f"sequence argument must have length equal to input rank: {name} has {len(value)} values for {count} axes"
        )
    return list(value)
