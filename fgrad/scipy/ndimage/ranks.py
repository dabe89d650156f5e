"""Rank filters: the largest of the neighbours, the smallest, the median."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.ndimage

from fgrad import errors
from fgrad.scipy._plain import differentiates, family
from fgrad.scipy.ndimage._arguments import ALONG_AXES, OF_AN_IMAGE, axes_of, image_of, one_each
from fgrad.scipy.ndimage.filters import extended
from fgrad.typing import Array, ArrayLike, Operand


def _neighbours(
    function: str,
    input: ArrayLike,
    size: object,
    footprint: ArrayLike | None,
    output: object,
    mode: object,
    cval: Operand,
    origin: object,
    axes: Any,
) -> Array:
    """Return the neighbours of each element of an image, along a last axis."""
    image = image_of(input, output, function)
    axes = axes_of(axes, image.ndim)
    if image.dtype.kind == "c":
        raise errors.DtypeError(f"Complex type not supported: scipy.ndimage.{function} compares numbers")
    if footprint is None:
        if size is None:
            raise RuntimeError("no footprint or filter size provided")
        footprint = np.ones([int(each) for each in one_each(size, len(axes), "size")], dtype=bool)
    footprint = np.asarray(footprint, dtype=bool)
    if footprint.ndim != len(axes) or not footprint.any():
        raise RuntimeError(f"footprint.ndim ({footprint.ndim}) must match len(axes) ({len(axes)}), and have an element")
    whole = extended(image, axes, footprint.shape, mode, cval, one_each(origin, len(axes), "origin"))
    pieces = []
    for place in np.argwhere(footprint):
        begins = dict(zip(axes, place, strict=True))
        pieces.append(whole[tuple(slice(begins.get(k, 0), begins.get(k, 0) + n) for k, n in enumerate(image.shape))])
    return np.stack(pieces, -1)


_OF_NEIGHBOURS = """
Args:
    size: the number of neighbours, along all axes or along each.
    footprint: in place of `size`, a boolean array that marks the neighbours.

Raises:
    RuntimeError, ValueError: SciPy's; the size or the footprint is invalid.
    DtypeError: a TypeError; the result would have an integer dtype, or the image is complex.
"""


@family(scipy.ndimage, _OF_NEIGHBOURS, ALONG_AXES, OF_AN_IMAGE)
def _rank_filter(
    rank: Callable[[Any], Any],
    /,
    input: ArrayLike,
    size: object = None,
    footprint: ArrayLike | None = None,
    output: object = None,
    mode: object = "reflect",
    cval: Operand = 0.0,
    origin: object = 0,
    *,
    axes: object = None,
) -> Any:
    """Apply a function to the neighbours of each element, which are along the last axis."""
    return rank(_neighbours(rank.__name__, input, size, footprint, output, mode, cval, origin, axes))


@_rank_filter
def maximum_filter(neighbours: ArrayLike) -> Any:
    """Return the largest of the neighbours of each element; ties share the derivative.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: np.sum(maximum_filter(x, 3)))(np.array([1.0, 3.0, 2.0]))
        Tensor([0., 3., 0.])
    """
    return np.max(neighbours, -1)


@_rank_filter
def minimum_filter(neighbours: ArrayLike) -> Any:
    """Return the smallest of the neighbours of each element.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: np.sum(minimum_filter(x, 3)))(np.array([1.0, 3.0, 2.0]))
        Tensor([2., 0., 1.])
    """
    return np.min(neighbours, -1)


@_rank_filter
def median_filter(neighbours: Any) -> Any:
    """Return the median of the neighbours of each element; for even numbers the upper one, as in SciPy.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: np.sum(median_filter(x, 3)))(np.array([1.0, 3.0, 2.0]))
        Tensor([1., 0., 2.])
    """
    return np.sort(neighbours, -1)[..., neighbours.shape[-1] // 2]


@differentiates(scipy.ndimage.percentile_filter, _OF_NEIGHBOURS, ALONG_AXES, OF_AN_IMAGE)
def percentile_filter(
    input: Any,
    percentile: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: object = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Return a percentile of the neighbours of each element.

    Args:
        percentile: the percentage, counted from the largest if it is negative; it has no derivative.

    Raises:
        RuntimeError: SciPy's; the percentile is invalid.
        DtypeError: a TypeError; the result would have an integer dtype, or the image is complex.

    Example:
        >>> import fgrad as fg
        >>> fg.grad(lambda x: np.sum(percentile_filter(x, 100, 3)))(np.array([1.0, 3.0, 2.0]))
        Tensor([0., 3., 0.])
    """
    percent = float(percentile) + (100 if percentile < 0 else 0)
    if not 0 <= percent <= 100:
        raise RuntimeError("invalid percentile")
    ordered = np.sort(_neighbours("percentile_filter", input, size, footprint, output, mode, cval, origin, axes), -1)
    count = ordered.shape[-1]
    return ordered[..., count - 1 if percent == 100 else int(count * percent / 100)]
