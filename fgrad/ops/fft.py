"""Fourier transforms: all of `numpy.fft`.

`fft`, `ifft`, `rfft` and `irfft` along one axis are primitives; transforms of several axes and of Hermitian signals
are composed of them, as in NumPy. A transform is linear, so its tangent is the transform of the tangent, and its
cotangent is again a transform of the cotangent:

    fft, ifft      symmetric matrices, hence their own transposes
    rfft           back through `hfft`, with the frequencies that stand for two halved
    irfft          back through `ihfft`, with those frequencies doubled

`fftfreq` and `rfftfreq` are NumPy's: they accept a traced sample spacing without changes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from fgrad.core.reverse import conform
from fgrad.core.tensor import apply
from fgrad.ops.batching import along_axis_batch
from fgrad.ops.families import linear, sample
from fgrad.ops.indexing import cut
from fgrad.ops.tracing import answers_traced
from fgrad.typing import Array


def _resized(x: Array, size: int, axis: int) -> Any:
    """Return `x` truncated or zero-padded to a size along an axis; the transpose has the same form."""
    missing = size - x.shape[axis]
    if missing == 0:
        return x
    if missing < 0:
        return cut(x, axis, None, size)
    shape = list(x.shape)
    shape[axis] = missing
    return np.concatenate([x, np.zeros_like(x, shape=tuple(shape))], axis=axis)


def _multiplicities(n: int, axis: int, like: Array) -> Array:
    """Return how often each frequency of a real signal of `n` points occurs in its full spectrum.

    All but the first, and for even `n` the last, also represent their conjugates at negative frequencies.
    """
    counts = np.full(n // 2 + 1, 2, like.real.dtype)
    counts[0] = 1
    if n % 2 == 0:
        counts[-1] = 1
    return counts.reshape((-1,) + (1,) * (like.ndim - 1 - axis % like.ndim))


def _symmetric_rule(transform: Callable[..., Any]) -> Callable[..., Any]:
    """Return the reverse rule of a transform whose matrix is symmetric."""

    def rule(ans: Array, x: Array, n: int, axis: int, norm: str | None) -> Callable[[Any], Any]:
        size = x.shape[axis]
        return lambda ct: _resized(transform(ct, n, axis, norm), size, axis)

    return rule


def _rfft_rule(ans: Array, x: Array, n: int, axis: int, norm: Any) -> Callable[[Any], Any]:
    size = x.shape[axis]

    def pullback(ct: Array) -> Any:
        return _resized(np.fft.hfft(ct * (1 / _multiplicities(n, axis, ct)), n, axis, norm), size, axis)

    return pullback


def _irfft_rule(ans: Array, x: Array, n: int, axis: int, norm: Any) -> Callable[[Any], Any]:
    shape, dtype = x.shape, x.dtype

    def pullback(ct: Array) -> Any:
        spectrum = np.fft.ihfft(ct, n, axis, norm) * _multiplicities(n, axis, ct)
        return conform(_resized(spectrum, shape[axis], axis), shape, dtype)

    return pullback


def _transform(
    function: Callable[..., Any], rule: Callable[..., Any], default_size: Callable[[int], int], *samples: Any
) -> None:
    """Declare a transform along one axis, and register it for NumPy's function."""
    primitive = linear(
        lambda x, n, axis, norm: function(x, n, axis, norm),
        rule,
        *samples,
        name=function.__name__,
        batch=along_axis_batch,
    )

    @answers_traced(function)
    def transform(a: Array, n: int | None = None, axis: int = -1, norm: str | None = None, out: object = None) -> Any:
        axis = index(axis)
        n = default_size(a.shape[axis]) if n is None else index(n)
        axis = np.lib.array_utils.normalize_axis_index(axis, a.ndim)
        return apply(primitive, (a,), {"n": n, "axis": axis, "norm": norm})


def _same_size(size: int) -> int:
    return size


def _size_of_signal(size: int) -> int:
    """Return the even number of points of a real signal that has this number of frequencies."""
    return 2 * (size - 1)


def _samples(default_size: Callable[[int], int], complex: bool = True) -> tuple[Any, ...]:
    """Return samples with even and odd sizes, truncated and padded, for every axis and norm."""
    calls: tuple[tuple[tuple[int, ...], int, int, str | None], ...] = (
        ((4,), default_size(4), -1, None), ((5,), 5, 0, "ortho"), ((2, 3), 5, -1, "forward"),
        ((5, 2), 2, 0, "backward"), ((2, 3, 2), 4, 1, None), ((2, 4), 3, -1, "ortho"), ((3,), 1, 0, None),
        ((0, 3), 3, -1, None),
    )  # fmt: skip
    return tuple(sample(shape, n=n, axis=axis, norm=norm, complex=complex) for shape, n, axis, norm in calls)


_transform(np.fft.fft, _symmetric_rule(np.fft.fft), _same_size, *_samples(_same_size))
_transform(np.fft.ifft, _symmetric_rule(np.fft.ifft), _same_size, *_samples(_same_size))
_transform(np.fft.rfft, _rfft_rule, _same_size, *_samples(_same_size, complex=False))
_transform(np.fft.irfft, _irfft_rule, _size_of_signal, *_samples(_size_of_signal))

_OPPOSITE = {None: "forward", "backward": "forward", "forward": "backward"}


@answers_traced(np.fft.hfft)
def hfft(a: Array, n: int | None = None, axis: int = -1, norm: Any = None, out: object = None) -> Array:
    """Return the real spectrum of a signal with Hermitian symmetry."""
    return np.fft.irfft(np.conjugate(a), n, axis, _OPPOSITE.get(norm, norm))


@answers_traced(np.fft.ihfft)
def ihfft(a: Array, n: Any = None, axis: int = -1, norm: Any = None, out: object = None) -> Array:
    """Return the signal with Hermitian symmetry that has a real spectrum."""
    return np.conjugate(np.fft.rfft(a, n, axis, _OPPOSITE.get(norm, norm)))


# Several axes


def _sizes_and_axes(a: Array, s: tuple[int, ...] | None, axes: Any) -> tuple[list[int | None], list[int]]:
    """Return one size for each axis of a transform; None is the default of the transform along it.

    NumPy has deprecated two forms; the same warnings are given here.
    """
    if axes is None and s is not None:
        _warn_of("`s` without `axes`", "name the axes, too: axes=tuple(range(-len(s), 0))")
    if s is not None and any(size is None for size in s):
        _warn_of("None as a size in `s`", "give the size, or leave `s` out")
    if axes is None:
        axes = range(-(len(a.shape) if s is None else len(s)), 0)
    axes = [index(axis) for axis in axes]
    if s is None:
        return [a.shape[axis] for axis in axes], axes
    if len(s) != len(axes):
        raise ValueError(f"s has {len(s)} sizes for {len(axes)} axes")
    sizes = [None if size is None else index(size) for size in s]
    return [a.shape[axis] if size == -1 else size for size, axis in zip(sizes, axes, strict=True)], axes


def _warn_of(form: str, remedy: str) -> None:
    warnings.warn(f"a transform with {form} is deprecated in NumPy: {remedy}", DeprecationWarning, stacklevel=7)


def _in_turn(
    a: Array, sizes: Sequence[Any], axes: Sequence[int], transform: Callable[..., Any], norm: str | None
) -> Any:
    """Transform along one axis after the other, starting with the first."""
    for size, axis in zip(sizes, axes, strict=True):
        a = transform(a, size, axis, norm)
    return a


def _of_axes(function: Callable[..., Any], default: tuple[int, ...] | None, transform: Callable[..., Any]) -> None:
    """Make a transform of several axes, by default of the given ones, from one that has the size of each axis."""

    @answers_traced(function)
    def answer(a: Array, s: Any = None, axes: Any = default, norm: str | None = None, out: object = None) -> Any:
        return transform(a, s, *_sizes_and_axes(a, s, axes), norm)


def _complex(along_axis: Callable[..., Any]) -> Callable[..., Any]:
    """Return a transform of several axes, the last one first."""
    return lambda a, s, sizes, axes, norm: _in_turn(a, sizes[::-1], axes[::-1], along_axis, norm)


def _real(a: Array, s: Any, sizes: Sequence[Any], axes: Sequence[int], norm: Any) -> Any:
    """Transform real signals: `rfft` of the last axis, then `fft` of the others."""
    return _in_turn(np.fft.rfft(a, sizes[-1], axes[-1], norm), sizes[-2::-1], axes[-2::-1], np.fft.fft, norm)


def _inverse_real(a: Array, s: Any, sizes: Sequence[Any], axes: Sequence[int], norm: Any) -> Any:
    """Transform to real signals: `ifft` of all axes but the last, then `irfft` of the last, with its own default."""
    spectrum = _in_turn(a, sizes[:-1], axes[:-1], np.fft.ifft, norm)
    return np.fft.irfft(spectrum, None if s is None else sizes[-1], axes[-1], norm)


_PLANE = (-2, -1)

_of_axes(np.fft.fftn, None, _complex(np.fft.fft))
_of_axes(np.fft.fft2, _PLANE, _complex(np.fft.fft))
_of_axes(np.fft.ifftn, None, _complex(np.fft.ifft))
_of_axes(np.fft.ifft2, _PLANE, _complex(np.fft.ifft))
_of_axes(np.fft.rfftn, None, _real)
_of_axes(np.fft.rfft2, _PLANE, _real)
_of_axes(np.fft.irfftn, None, _inverse_real)
_of_axes(np.fft.irfft2, _PLANE, _inverse_real)


# Order of frequencies


def _middle(x: Array, axes: int | Sequence[int] | None) -> tuple[list[int], list[int]]:
    """Return the axes of the shift, by default all, and half the size of each."""
    axes = list(np.lib.array_utils.normalize_axis_tuple(range(x.ndim) if axes is None else axes, x.ndim))
    return axes, [x.shape[axis] // 2 for axis in axes]


@answers_traced(np.fft.fftshift)
def fftshift(x: Array, axes: int | Sequence[int] | None = None) -> Any:
    """Return a spectrum with the frequency 0 in the middle."""
    axes, halves = _middle(x, axes)
    return np.roll(x, halves, axes)


@answers_traced(np.fft.ifftshift)
def ifftshift(x: Array, axes: int | Sequence[int] | None = None) -> Any:
    """Undo `fftshift`."""
    axes, halves = _middle(x, axes)
    return np.roll(x, [-half for half in halves], axes)
