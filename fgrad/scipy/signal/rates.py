"""Changes of the sampling rate, by a filter between upsampling and downsampling."""

from __future__ import annotations

from math import gcd
from operator import index
from typing import Any

import numpy as np
import scipy.signal

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.ops.elementwise import astype
from fgrad.ops.padding import pad
from fgrad.scipy._plain import differentiates
from fgrad.scipy.signal.convolutions import window
from fgrad.typing import Array

_scipys: Any = scipy.signal


def _filtered(h: Array, x: Array, up: int, down: int) -> Any:
    """Return signals along the last axis, upsampled with zeros, filtered, and downsampled.

    Each phase of the filter is convolved with the signal itself, so that no zero in between is multiplied.
    """
    phases = np.reshape(pad(h, [(0, -len(h) % up)]), (-1, up)).T
    size = x.shape[-1] + phases.shape[-1] - 1
    found = window(x[..., None, :], phases, (0,), (size,))
    return np.reshape(np.swapaxes(found, -1, -2), (*x.shape[:-1], size * up))[..., ::down]


@differentiates(scipy.signal.upfirdn)
def upfirdn(h: Any, x: Any, up: int = 1, down: int = 1, axis: int = -1, mode: str = "constant", cval: float = 0) -> Any:
    """Return a signal at another rate: upsampled with zeros, filtered, and downsampled.

    Args:
        h: the filter, which is differentiated, too.
        x: the signal, or several; traced ones are differentiated.
        up: the upsampling factor.
        down: the downsampling factor.
        axis: the axis of time.
        mode, cval: the extension of the signal: only "constant" with 0, if something is traced.

    Returns:
        The signal, as from `scipy.signal.upfirdn`.

    Raises:
        ValueError: SciPy's; a rate or the filter is invalid.
        UnsupportedError: a NotImplementedError; another mode.

    Example:
        >>> import fgrad as fg
        >>> fg.jacobian(lambda x: upfirdn([1.0, 0.5], x, up=2))(np.zeros(2))
        Tensor([[1. , 0. ],
                [0.5, 0. ],
                [0. , 1. ],
                [0. , 0.5]])
    """
    h, x = as_array(h), as_array(x)
    _scipys.upfirdn(np.ones(h.shape), np.zeros(x.shape), up, down, axis, mode, cval)  # raises SciPy's errors
    _refuse_mode(mode, cval)
    found = _filtered(h, np.moveaxis(x, axis, -1), index(up), index(down))
    size = (x.shape[axis] - 1) * up + h.shape[0]
    return np.moveaxis(found[..., : -(-size // down)], -1, axis)


def _refuse_mode(mode: str, cval: float) -> None:
    if mode not in ("constant", "zero") or cval != 0:
        raise errors.UnsupportedError(
            f"scipy.signal.upfirdn is not differentiable with mode={mode!r} and cval={cval!r}.\n"
            f"  at {errors.users_line()}\nExtend the signal by np.pad."
        )


_LEVELS: dict[str, Any] = {"mean": np.mean, "median": np.median, "minimum": np.min, "maximum": np.max}


def _level(x: Array, padtype: str) -> Any:
    """Return the level that is subtracted from signals before filtering, and added again."""
    if padtype == "constant":
        return 0
    if padtype in _LEVELS:
        return _LEVELS[padtype](x, axis=-1, keepdims=True)
    raise errors.UnsupportedError(
        f"scipy.signal.resample_poly is not differentiable with padtype={padtype!r}.\n  at {errors.users_line()}\n"
        f"The differentiable ones are 'constant', {', '.join(map(repr, _LEVELS))}."
    )


def _is_filter(window: object) -> bool:
    return not isinstance(window, (str, tuple, float, int))


def _low_pass(window: Any, up: int, down: int, dtype: np.dtype[Any]) -> tuple[Any, int]:
    """Return the filter, and the number of its points before its center."""
    if _is_filter(window):
        h = as_array(window)
        return h * up, (h.shape[0] - 1) // 2
    half = 10 * max(up, down)
    return _scipys.firwin(2 * half + 1, 1 / max(up, down), window=window).astype(dtype) * up, half


@differentiates(scipy.signal.resample_poly)
def resample_poly(
    x: Any,
    up: int,
    down: int,
    axis: int = 0,
    window: Any = ("kaiser", 5.0),
    padtype: str = "constant",
    cval: Any = None,
) -> Any:
    """Return a signal at `up / down` times its rate, with an anti-aliasing filter.

    Args:
        x: the signal, or several; traced ones are differentiated.
        up, down: the numerator and the denominator of the new rate.
        axis: the axis of time.
        window: the window of the filter, or the filter itself.
        padtype: the extension of the signal: "constant" for zeros, or the "mean", "median", "minimum" or "maximum"
            of it.
        cval: a number in place of zeros for the extension.

    Returns:
        The signal, as from `scipy.signal.resample_poly`.

    Raises:
        ValueError: SciPy's; a rate or an option is invalid.
        UnsupportedError: a NotImplementedError; a `padtype` other than those above.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: resample_poly(x, 2, 1)[1])(np.zeros(2)).round(3)
        Tensor([0.633, 0.633])
    """
    x = as_array(x)
    plain = np.ones(np.shape(window)) if _is_filter(window) else window
    _scipys.resample_poly(np.zeros(x.shape, x.dtype), up, down, axis, plain, padtype)
    common = gcd(up, down)
    up, down = index(up) // common, index(down) // common
    if up == down == 1:
        return x + 0
    moved = np.moveaxis(x, axis, -1)
    size = moved.shape[-1]
    wanted = -(-size * up // down)
    dtype = moved.real.dtype if moved.dtype.kind in "fc" else np.dtype(np.float64)
    h, half = _low_pass(window, up, down, dtype)
    level = _level(moved, padtype)
    before = down - half % down  # so that a point of the result is at the center of the filter
    skipped = (half + before) // down
    h = np.concatenate([np.zeros(before, h.dtype), h])
    reach = (wanted + skipped) * down - ((size - 1) * up + h.shape[0])
    if padtype == "constant" and cval is not None:  # as far as the filter reaches
        around = -(-h.shape[0] // up)
        around += -around % down
        moved = astype(moved, np.result_type(moved.dtype, h.dtype))  # which `cval` has, too
        moved = pad(moved, [(0, 0)] * (moved.ndim - 1) + [(around, around)], constant_values=cval)
        skipped, size = skipped + around * up // down, moved.shape[-1]
    h = np.concatenate([h, np.zeros(max(0, reach), h.dtype)])
    found = _filtered(h, moved - level, up, down)[..., skipped : skipped + wanted]
    return np.moveaxis(found + level, -1, axis)
