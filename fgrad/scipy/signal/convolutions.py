"""Convolution and correlation of arrays with any number of axes.

    convolve, correlate         direct or by Fourier transforms, over all axes
    fftconvolve, oaconvolve     by Fourier transforms of the whole or of blocks, over chosen axes
    convolve2d, correlate2d     of images, with a choice of boundary conditions
    window(a, v, ...)           the common primitive: a window of the full convolution

The transpose of a window of a convolution is a window of another convolution, so all derivatives are convolutions
by the same method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import scipy.signal

from fgrad.core.coerce import as_array
from fgrad.core.tensor import apply
from fgrad.ops.batching import aligned
from fgrad.ops.contractions import contract, multilinear
from fgrad.ops.elementwise import astype
from fgrad.ops.families import sample
from fgrad.ops.indexing import getitem
from fgrad.ops.padding import pad
from fgrad.ops.patterns import Chain, Step, windowed
from fgrad.scipy._plain import differentiates
from fgrad.typing import Array, ArrayLike, Operand

Sizes = tuple[int, ...]

_BY_TRANSFORMS = {"fft": scipy.signal.fftconvolve, "oa": scipy.signal.oaconvolve}

_LARGE = 1 << 22
"""Limit on the number of products up to which the windows of an array are copied side by side."""


# The primitive


def _cut(x: Array, start: Sequence[int], length: Sequence[int]) -> Any:
    """Return the elements `start` to `start + length` along the last axes, zero-padded out of range."""
    sizes = x.shape[x.ndim - len(start) :]
    spans = [(max(0, first), max(0, min(first + n, size))) for first, n, size in zip(start, length, sizes, strict=True)]
    spans = [(min(first, last), last) for first, last in spans]
    kept = x[(..., *(slice(*span) for span in spans))]
    widths = []
    for (first, last), begin, n in zip(spans, start, length, strict=True):
        before = min(n, max(0, -begin)) if last > first else 0
        widths.append((before, n - before - (last - first)))
    if not any(map(any, widths)):
        return kept
    return np.pad(kept, [(0, 0)] * (x.ndim - len(widths)) + widths)


def _slid(kept: Array, v: Array, length: Sizes) -> Any:
    """Return the sums over all positions of the reversed `v` within an array, along the last axes."""
    ndim = len(length)
    sizes = v.shape[v.ndim - ndim :]
    last = tuple(range(-ndim, 0))
    reverse = np.flip(v, last)
    lead = kept.shape[: kept.ndim - ndim]
    if prod(lead) * prod(length) * prod(sizes) <= _LARGE:
        pieces = np.lib.stride_tricks.sliding_window_view(kept, sizes, axis=last)
        rows = pieces.reshape((*lead, prod(length), prod(sizes)))
        columns = reverse.reshape((*v.shape[: v.ndim - ndim], prod(sizes), 1))
        found = np.matmul(rows, columns)[..., 0]
        return found.reshape((*found.shape[:-1], *length))
    if prod(length) < prod(sizes):
        sums = [np.sum(piece * reverse, last) for piece in _shifts(kept, length, sizes)]
        return np.stack(sums, -1).reshape((*sums[0].shape, *length))
    weights = reverse.reshape((*v.shape[: v.ndim - ndim], prod(sizes)))
    parts = zip(_shifts(kept, sizes, length), np.moveaxis(weights, -1, 0), strict=True)
    total: Any = 0
    for piece, weight in parts:
        total = total + piece * weight.reshape((*weight.shape, *(1,) * ndim))
    return total


def _by_elements(a: Array, v: Array) -> Any:
    """Return the full convolution over the last axis, in which the zeros around `a` are not multiplied.

    NaN and infinities of `v` reach only the results that they belong to.
    """
    size, count = a.shape[-1], v.shape[-1]
    lead = np.broadcast_shapes(a.shape[:-1], v.shape[:-1])
    whole = np.zeros((*lead, size + count - 1), np.result_type(a, v))
    for place in range(count):
        whole[..., place : place + size] += a * v[..., place : place + 1]
    return whole


def _shifts(x: Array, places: Sizes, sizes: Sizes) -> Iterator[Any]:
    """Return the windows of given sizes that begin at each of the first positions, along the last axes."""
    for place in np.ndindex(places):
        yield x[(..., *(slice(begin, begin + size) for begin, size in zip(place, sizes, strict=True)))]


def _convolved(a: Array, v: Array, start: Sizes, length: Sizes, method: str) -> Any:
    """Return a window of the full convolution over the last axes; leading axes are broadcast."""
    ndim = len(start)
    if prod(a.shape[a.ndim - ndim :]) < prod(v.shape[v.ndim - ndim :]):
        a, v = v, a
    sizes = v.shape[v.ndim - ndim :]
    if 0 in (*sizes, *length):
        lead = np.broadcast_shapes(a.shape[: a.ndim - ndim], v.shape[: v.ndim - ndim])
        return np.zeros((*lead, *length), np.result_type(a, v))
    if method == "direct" and ndim == 1 and v.dtype.kind in "fc" and not np.isfinite(v).all():
        return _cut(_by_elements(a, v), start, length)
    if method == "direct":
        needed = [first - size + 1 for first, size in zip(start, sizes, strict=True)]
        kept = _cut(a, needed, [n + size - 1 for n, size in zip(length, sizes, strict=True)])
        return np.convolve(kept, v, "valid") if a.ndim == v.ndim == 1 else _slid(kept, v, length)
    several = max(a.ndim, v.ndim)
    a, v = (np.reshape(x, (1,) * (several - x.ndim) + x.shape) for x in (a, v))
    full = _BY_TRANSFORMS[method](a, v, "full", axes=tuple(range(-ndim, 0)))
    return _cut(full, start, length).astype(np.result_type(a, v), copy=False)


def _operand_rule(other: Any, sizes: Sizes, start: Sizes, method: str) -> Callable[[Any], Any]:
    """Return the pullback to an operand of given sizes: the convolution with the reversed other one."""
    last = tuple(range(-len(start), 0))
    begin = tuple(size - 1 - first for size, first in zip(other.shape[other.ndim - len(start) :], start, strict=True))
    return lambda ct: contract(_convolve, (ct, np.flip(other, last)), _metadata(begin, sizes, method))


def _metadata(start: Sizes, length: Sizes, method: str) -> dict[str, Any]:
    return {"start": start, "length": length, "method": method}


def _sizes(x: Array, ndim: int) -> Sizes:
    return tuple(x.shape[x.ndim - ndim :])


def _pattern(step: Step) -> Chain:
    start = step.metadata["start"]
    pairs = zip(start, _sizes(step.args[1 - step.argnum], len(start)), strict=True)
    offsets = [range(first - other + 1, first + 1) for first, other in pairs]
    return windowed(step, dict(enumerate(offsets, -len(start))))


_convolve = multilinear(
    _convolved,
    (
        lambda ans, a, v, start, length, method: _operand_rule(v, _sizes(a, len(start)), start, method),
        lambda ans, a, v, start, length, method: _operand_rule(a, _sizes(v, len(start)), start, method),
    ),
    *(
        sample(*shapes, **_metadata(start, length, method))
        for method in ("direct", "fft", "oa")
        for shapes, start, length in (
            (((5,), (3,)), (0,), (7,)),
            (((2,), (5,)), (1,), (3,)),
            (((3, 4), (2, 3)), (0, 0), (4, 6)),
            (((3, 4), (2, 3)), (1, 2), (2, 2)),
            (((3, 2), (2, 4)), (1, 0), (2, 4)),
            (((2, 3, 4), (3, 2)), (1, 1), (4, 2)),
            (((2, 1, 3), (3, 2)), (-1,), (6,)),
            (((2, 3, 1), (1, 3)), (0,), (1,)),
            (((2, 0), (3,)), (0,), (4,)),
            (((3, 2), (2,)), (1,), (0,)),
        )
    ),
    name="convolve_axes",
    broadcasts=True,
    pattern=_pattern,
)
_convolve.batch = lambda values, mapped, size, metadata: contract(
    _convolve, aligned(values, mapped, len(metadata["start"])), metadata
)


def window(a: ArrayLike, v: ArrayLike, start: Sizes, length: Sizes, method: str = "direct") -> Any:
    """Return a window of the full convolution of two arrays over their last axes.

    Args:
        a, v: as many axes as `start` has numbers are convolved; leading axes are broadcast.
        start: where the window begins in the full convolution, which is zero-padded on both sides.
        length: the sizes of the window.
        method: "direct", "fft" or "oa".

    Example:
        >>> window(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0]), start=(1,), length=(2,))
        array([12., 23.])
    """
    return apply(_convolve, (a, v), _metadata(start, length, method))


# The functions of SciPy


def _part(first: Sizes, second: Sizes, mode: str) -> tuple[Sizes, Sizes]:
    """Return the start of a mode's result in the full convolution, and its sizes."""
    pairs = list(zip(first, second, strict=True))
    if mode == "full":
        return (0,) * len(pairs), tuple(n + m - 1 for n, m in pairs)
    if mode == "same":
        return tuple((m - 1) // 2 for _, m in pairs), first
    return tuple(min(pair) - 1 for pair in pairs), tuple(abs(n - m) + 1 for n, m in pairs)


def _fit(a: Array, v: Array, mode: object, axes: Sequence[int]) -> bool:
    """Return whether the arrays, the convolved axes and the mode are valid for SciPy."""
    if a.ndim != v.ndim or 0 in (a.size, v.size) or mode not in ("full", "same", "valid"):
        return False
    pairs = [(a.shape[axis], v.shape[axis]) for axis in axes]
    return mode != "valid" or all(n >= m for n, m in pairs) or all(n <= m for n, m in pairs)


def _nothing(function: Callable[..., Any], a: Array, v: Array, *how: object) -> Any:
    """Return SciPy's result for arrays of these shapes: its error, or the empty array."""
    return function(np.zeros(a.shape, a.dtype), np.zeros(v.shape, v.dtype), *how)


def _over_all_axes(function: Callable[..., Any], a: Array, v: Array, mode: Any, method: Any) -> Any:
    """Convolve as SciPy's `function`; for `correlate` the second array is already reversed."""
    if a.ndim == v.ndim == 0:
        return a * v
    if not _fit(a, v, mode, range(a.ndim)) or method not in ("auto", "direct", "fft"):
        return _nothing(function, a, v, mode, method)
    if method == "auto":  # the choice depends on shapes and dtypes
        first, second = (np.broadcast_to(np.zeros((), x.dtype), x.shape) for x in (a, v))
        method = scipy.signal.choose_conv_method(first, second, mode)
    return window(a, v, *_part(a.shape, v.shape, mode), method)


def _reversed(x: Array) -> Array:
    """Return a reversed and conjugated array."""
    return np.flip(np.conjugate(x) if x.dtype.kind == "c" else x)


_OF_ARRAYS = """
Args:
    in1, in2: arrays with the same number of axes; traced ones are differentiated.
    mode: "full", "same" (of the size of `in1`) or "valid" (without zero padding).
    method: "direct", "fft", or "auto" for the one that SciPy estimates to be faster.
    axes: the axes of the convolution, by default all; others are broadcast.

Returns:
    The sums of products, as from SciPy's function.

Raises:
    ValueError: SciPy's; an array or an option is invalid.
"""


@differentiates(scipy.signal.convolve, _OF_ARRAYS)
def convolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> Any:
    """Return the convolution of two arrays with the same number of axes, over all of them.

    Example:
        >>> import fgrad as fg
        >>> signal, filter = np.array([1.0, 2.0, 4.0]), np.array([1.0, -1.0])
        >>> fg.grad(lambda filter: np.sum(convolve(signal, filter) ** 2))(filter)
        Tensor([ 22., -22.])
    """
    return _over_all_axes(scipy.signal.convolve, as_array(in1), as_array(in2), mode, method)


@differentiates(scipy.signal.correlate, _OF_ARRAYS)
def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> Any:
    """Return the cross-correlation of two arrays with the same number of axes, over all of them.

    Args:
        in1, in2: the arrays, the second of which is conjugated; traced ones are differentiated.

    Example:
        >>> import fgrad as fg
        >>> pattern = np.array([1.0, 3.0])
        >>> fg.jacobian(lambda x: correlate(x, pattern, mode="valid"))(np.zeros(3))
        Tensor([[1., 3., 0.],
                [0., 1., 3.]])
    """
    return _over_all_axes(scipy.signal.correlate, as_array(in1), _reversed(as_array(in2)), mode, method)


def _over_axes(function: Callable[..., Any], in1: Array, in2: ArrayLike, mode: Any, axes: Any, method: str) -> Any:
    a, v = (astype(x, np.float32) if x.dtype == np.float16 else x for x in map(as_array, (in1, in2)))
    if a.dtype.kind in "biu" or v.dtype.kind in "biu":  # in which precision SciPy computes depends on its version
        dtype = function(np.zeros(2, a.dtype), np.zeros(2, v.dtype)).dtype
        a, v = astype(a, np.result_type(a.dtype, dtype)), astype(v, np.result_type(v.dtype, dtype))
    if a.ndim == v.ndim == 0:
        return a * v
    if a.ndim != v.ndim or 0 in (a.size, v.size):
        return _nothing(function, a, v, mode, axes)
    chosen = range(a.ndim) if axes is None else np.lib.array_utils.normalize_axis_tuple(axes, a.ndim)
    free = [axis for axis in range(a.ndim) if axis not in chosen]
    broadcast = all(1 in (a.shape[axis], v.shape[axis]) or a.shape[axis] == v.shape[axis] for axis in free)
    long = [axis for axis in chosen if 1 not in (a.shape[axis], v.shape[axis])]
    if not chosen or not broadcast or not _fit(a, v, mode, long):
        return _nothing(function, a, v, mode, axes)
    order = [*free, *chosen]
    first, second = (np.transpose(x, order) for x in (a, v))
    found = window(first, second, *_part(_sizes(first, len(chosen)), _sizes(second, len(chosen)), mode), method)
    if mode == "same" and found.shape != first.shape:  # the central part, also where `in2` is longer
        starts = [(size - n) // 2 for size, n in zip(found.shape, first.shape, strict=True)]
        found = found[tuple(slice(start, start + n) for start, n in zip(starts, first.shape, strict=True))]
    return np.transpose(found, np.argsort(order))


@differentiates(scipy.signal.fftconvolve, _OF_ARRAYS)
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """Return the convolution of two arrays by Fourier transforms.

    Example:
        >>> import fgrad as fg
        >>> rows, filter = np.eye(2), np.array([[1.0, 2.0]])
        >>> fg.grad(lambda filter: fftconvolve(rows, filter, axes=1)[1, 1])(filter).round(3)
        Tensor([[1., 0.]])
    """
    return _over_axes(scipy.signal.fftconvolve, in1, in2, mode, axes, "fft")


@differentiates(scipy.signal.oaconvolve, _OF_ARRAYS)
def oaconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """Return the convolution of a long array with a short one by Fourier transforms of blocks (overlap-add).

    Example:
        >>> import fgrad as fg
        >>> signal = np.arange(100.0)
        >>> fg.grad(lambda filter: oaconvolve(signal, filter)[50])(np.array([1.0, 0.5])).round(3)
        Tensor([50., 49.])
    """
    return _over_axes(scipy.signal.oaconvolve, in1, in2, mode, axes, "oa")


# Images


def _surrounded(image: Array, sizes: Sizes, boundary: str, fillvalue: Operand) -> Any:
    """Return an image extended by as much as an array of given sizes can reach."""
    widths = [(size - 1, size - 1) for size in sizes]
    if boundary in ("fill", "pad"):
        return pad(image, widths, constant_values=as_array(fillvalue))
    for axis, pair in enumerate(widths):
        mode: Any = "wrap" if boundary in ("wrap", "circular") else "symmetric"
        places = np.pad(np.arange(image.shape[axis]), pair, mode)
        image = getitem(image, (slice(None),) * axis + (places,))
    return image


_BOUNDARIES = ("fill", "pad", "wrap", "circular", "symm", "symmetric")


def _on_plane(image: Array, v: Array, start: Sizes, length: Sizes, boundary: str, fillvalue: Operand) -> Any:
    """Return a window of the full convolution of two images, the first one extended beyond its edges."""
    if boundary in ("fill", "pad") and type(fillvalue) in (int, float) and fillvalue == 0:
        return window(image, v, start, length)
    sizes = v.shape
    beyond = tuple(first + size - 1 for first, size in zip(start, sizes, strict=True))
    image = astype(image, np.result_type(image.dtype, v.dtype))  # which `fillvalue` has, too
    return window(_surrounded(image, sizes, boundary, fillvalue), v, beyond, length)


_OF_IMAGES = """
Args:
    in1, in2: arrays with two axes; traced ones are differentiated.
    mode: "full", "same" (of the size of `in1`) or "valid" (without zero padding).
    boundary: the extension of `in1`: "fill" with a number, "wrap" for periodic, "symm" for its reflection.
    fillvalue: that number; a traced one is differentiated.

Returns:
    The sums of products, as from SciPy's function.

Raises:
    ValueError: SciPy's; an array or an option is invalid.
"""


@differentiates(scipy.signal.convolve2d, _OF_IMAGES)
def convolve2d(in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    """Return the convolution of two images.

    Example:
        >>> import fgrad as fg
        >>> image = np.arange(9.0).reshape(3, 3)
        >>> fg.grad(lambda edge: np.sum(convolve2d(image, edge, mode="valid")))(np.ones((2, 2)))
        Tensor([[24., 20.],
                [12.,  8.]])
    """
    image, v = as_array(in1), as_array(in2)
    if not _is_plane(image, v, mode, boundary):
        return _nothing(scipy.signal.convolve2d, image, v, mode, boundary)
    start, length = _part(image.shape, v.shape, mode)
    if mode == "valid":
        return window(image, v, start, length)
    return _on_plane(image, v, start, length, boundary, fillvalue)


@differentiates(scipy.signal.correlate2d, _OF_IMAGES)
def correlate2d(in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    """Return the cross-correlation of two images.

    Args:
        in1, in2: arrays with two axes, the second of which is conjugated; traced ones are differentiated.

    Example:
        >>> import fgrad as fg
        >>> image = np.arange(9.0).reshape(3, 3)
        >>> fg.grad(lambda edge: np.sum(correlate2d(image, edge, mode="valid")))(np.ones((2, 2)))
        Tensor([[ 8., 12.],
                [20., 24.]])
    """
    image, v = as_array(in1), as_array(in2)
    if not _is_plane(image, v, mode, boundary):
        return _nothing(scipy.signal.correlate2d, image, v, mode, boundary)
    if mode == "valid":
        # SciPy swaps the arrays if the second one is larger, and then conjugates the first one.
        if image.shape[0] < v.shape[0] or image.shape[1] < v.shape[1]:
            return np.flip(window(v, _reversed(image), *_part(v.shape, image.shape, mode)))
        return window(image, _reversed(v), *_part(image.shape, v.shape, mode))
    start, length = _part(image.shape, v.shape, mode)
    if mode == "same":
        start = tuple(size // 2 for size in v.shape)
    return _on_plane(image, _reversed(v), start, length, boundary, fillvalue)


def _is_plane(a: Array, v: Array, mode: object, boundary: object) -> bool:
    """Return whether the images and options are valid for SciPy; an empty image has surroundings, too."""
    if boundary in ("fill", "pad") and mode in ("full", "same") and v.size and not a.size:
        return len(a.shape) == len(v.shape) == 2
    return boundary in _BOUNDARIES and len(a.shape) == 2 and _fit(a, v, mode, (0, 1))
