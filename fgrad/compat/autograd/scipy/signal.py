"""`scipy.signal`, with the derivatives of `fgrad.scipy.signal`, and convolutions along selected axes."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.signal

import fgrad.scipy.signal
from fgrad.compat.autograd.namespaces import members
from fgrad.errors import ParameterError, ShapeError
from fgrad.typing import Array

__getattr__, __dir__ = members(__name__, fgrad.scipy.signal, scipy.signal)

Axes = Sequence[Sequence[int]]


def convolve(
    A: Any,  # noqa: N803  # Autograd's name
    B: Any,  # noqa: N803
    axes: Axes | None = None,
    dot_axes: Axes = ((), ()),
    mode: str = "full",
) -> Any:
    """Return the convolution of two arrays along some axes, and their product along others.

    Args:
        A, B: the arrays.
        axes: the axes of `A` and of `B` of the convolution; by default all.
        dot_axes: the axes of `A` and of `B` over which products are summed.
        mode: "full", "valid" or "same", as in SciPy; "same" is the size of `A`.

    Returns:
        An array with the remaining axes of `A`, those of `B`, and those of the convolution.
    """
    if mode not in ("full", "valid", "same"):
        raise ParameterError(f"mode must be 'full', 'valid' or 'same', but it is {mode!r}.")
    along_a, along_b = _positive(A, B, [range(np.ndim(A))] * 2 if axes is None else axes)
    dot_a, dot_b = _positive(A, B, dot_axes)
    sizes = [(A.shape[i], B.shape[k]) for i, k in zip(along_a, along_b, strict=True)]
    names = iter(string.ascii_letters)
    letters_a, letters_b = [next(names) for _ in A.shape], [next(names) for _ in B.shape]
    for i, k in zip(dot_a, dot_b, strict=True):
        letters_b[k] = letters_a[i]
    rest_a = [name for i, name in enumerate(letters_a) if i not in (*along_a, *dot_a)]
    rest_b = [name for k, name in enumerate(letters_b) if k not in (*along_b, *dot_b)]
    if _slides_over_second(sizes, mode):
        A, B, along_a, along_b, letters_a, letters_b = B, A, along_b, along_a, letters_b, letters_a  # noqa: N806
        sizes = [(b, a) for a, b in sizes]
    padded = np.pad(A, _padding(np.ndim(A), along_a, sizes, mode))
    windows = np.lib.stride_tricks.sliding_window_view(padded, [b for _, b in sizes], tuple(along_a))
    flipped = np.flip(B, tuple(along_b))
    subscripts = [*letters_a, *(letters_b[k] for k in along_b)]
    result = [*rest_a, *rest_b, *(letters_a[i] for i in along_a)]
    return np.einsum(f"{''.join(subscripts)},{''.join(letters_b)}->{''.join(result)}", windows, flipped, optimize=True)


def _positive(A: Array, B: Array, axes: Axes) -> list[list[int]]:  # noqa: N803
    """Return axes of two arrays as nonnegative integers."""
    return [[axis % np.ndim(x) for axis in each] for x, each in zip((A, B), axes, strict=True)]


def _slides_over_second(sizes: list[tuple[int, int]], mode: str) -> bool:
    """Return whether the first array is the smaller one, so that it is the filter."""
    is_smaller = any(a < b for a, b in sizes)
    if mode == "valid" and is_smaller and any(a > b for a, b in sizes):
        raise ShapeError("in mode 'valid' one array must be at least as large as the other along all axes.")
    return is_smaller and mode != "same"


def _padding(ndim: int, along: list[int], sizes: list[tuple[int, int]], mode: str) -> list[tuple[int, int]]:
    """Return the zero padding before and after an array for convolution with another one."""
    padding = [(0, 0)] * ndim
    for axis, (_, size) in zip(along, sizes, strict=True):
        after = {"full": size - 1, "same": (size - 1) // 2, "valid": 0}[mode]
        padding[axis] = (after if mode != "same" else size - 1 - after, after)
    return padding
