"""Rules for sums: reductions, recurrences, contractions, convolutions, and sums in which exact zeros win."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.engines.jax.elements import scaled
from fgrad.engines.jax.indices import sliding_windows
from fgrad.engines.jax.library import cast, is_known, jnp, lax
from fgrad.engines.jax.table import lowers, refuses, rule_of
from fgrad.typing import Array


def _position(name: str) -> Callable[..., Any]:
    def rule(x: Array, axis: object = None, keepdims: bool = False) -> Any:
        if x.dtype.kind == "c":
            raise NotImplementedError("complex numbers are not ordered in JAX")
        return getattr(jnp, name)(x, axis=axis, keepdims=keepdims)

    return rule


lowers("argmax")(_position("argmax"))
lowers("argmin")(_position("argmin"))


def _summed(name: str) -> Callable[..., Any]:
    def rule(x: Array, **metadata: object) -> Any:
        ans = getattr(jnp, name)(x, **metadata)
        if ans.size != x.size or ans.dtype.kind not in "fc":
            return ans
        # NumPy's sum of one element begins at 0.0, which makes 0.0 of -0.0. XLA would leave out a constant 0.0.
        return ans + lax.stop_gradient(jnp.where(ans == 0, -ans, 0))

    return rule


lowers("sum")(_summed("sum"))
lowers("mean")(_summed("mean"))


def _extremum(name: str) -> Callable[..., Any]:
    """Return the rule of an extremum along axes, which is NaN where an element is; JAX drops complex NaN."""

    def rule(x: Array, axis: Any = None, keepdims: bool = False) -> Any:
        ans = getattr(jnp, name)(x, axis=axis, keepdims=keepdims)
        if ans.dtype.kind != "c":
            return ans
        return jnp.where(jnp.any(jnp.isnan(x), axis=axis, keepdims=keepdims), jnp.asarray(jnp.nan, ans.dtype), ans)

    return rule


lowers("max")(_extremum("max"))
lowers("min")(_extremum("min"))


@lowers("segment_sums")
def segment_sums(x: Array, starts: Sequence[int], axis: int) -> Any:
    """Return the sums from each start to the next one; if that is not larger, the element at the start."""
    moved = jnp.moveaxis(x, axis, 0)
    ends = [*starts[1:], len(moved)]
    parts = [moved[a : max(a + 1, b)].sum(0) for a, b in zip(starts, ends, strict=True)]
    return jnp.moveaxis(jnp.stack(parts), 0, axis)


@lowers("tally")
def tally(weights: Array, places: object, length: int) -> Any:
    """Return for each bin the sum of its weights."""
    return jnp.zeros(length, weights.dtype).at[places].add(weights)


@refuses("tally")
def has_no_place(ans: Array, weights: Array, places: Any, length: int) -> Any:
    """Return whether an index is out of range."""
    return None if is_known(places) else jnp.any((places < 0) | (places >= length))


@lowers("recurrence")
def recurrence(a: Array, b: Array, axis: int, backwards: bool) -> Any:
    """Return y with y[k] = a[k] y[k - 1] + b[k], computed sequentially; where y is exactly 0, a is ignored."""
    a, b = jnp.broadcast_arrays(jnp.moveaxis(a, axis, 0), jnp.moveaxis(b, axis, 0))
    if not b.shape[0]:
        return jnp.moveaxis(b, 0, axis)
    if backwards:
        a, b = jnp.concatenate([a[:1], a[:0:-1]]), b[::-1]

    def iteration(y: Array, pair: Any) -> tuple[Any, Any]:
        y = scaled(y, pair[0]) + pair[1]
        return y, y

    _, rest = lax.scan(iteration, b[0], (a[1:], b[1:]))
    solved = jnp.concatenate([b[:1], rest])
    return jnp.moveaxis(solved[::-1] if backwards else solved, 0, axis)


# Contractions


@lowers("einsum")
def contracted(*operands: object, subscripts: str, optimize: object = False) -> Any:
    """Return the sum of products given by subscripts."""
    return jnp.einsum(subscripts, *operands)


@lowers("convolve")
def convolved(a: Array, v: Array, start: int, length: int) -> Any:
    """Return a window of the full convolution over the last axes."""
    return convolved_along(a, v, (start,), (length,))


@lowers("convolve_axes")
def convolved_along(a: Array, v: Array, start: tuple[int, ...], length: tuple[int, ...], method: str = "direct") -> Any:
    """Return a window of the full convolution over several last axes; leading axes are broadcast."""
    ndim = len(start)
    if math.prod(a.shape[a.ndim - ndim :]) < math.prod(v.shape[v.ndim - ndim :]):
        a, v = v, a
    sizes = v.shape[v.ndim - ndim :]
    if 0 in (*sizes, *length):
        lead = jnp.broadcast_shapes(a.shape[: a.ndim - ndim], v.shape[: v.ndim - ndim])
        return jnp.zeros((*lead, *length), jnp.result_type(a, v))
    for axis, (first, size, count) in enumerate(zip(start, sizes, length, strict=True), a.ndim - ndim):
        a = _cut(a, axis, first - size + 1, count + size - 1)
    labels = "abcdefghijkl"[:ndim]
    windows = sliding_windows(a, sizes, tuple(range(a.ndim - ndim, a.ndim)))
    turned = jnp.flip(v, tuple(range(v.ndim - ndim, v.ndim)))
    inner = labels.upper()
    return jnp.einsum(f"...{inner}{labels},...{labels}->...{inner}", windows, turned)


def _cut(x: Array, axis: int, start: int, length: int) -> Any:
    """Return a slice along an axis, zero-padded out of range."""
    size = x.shape[axis]
    kept = lax.slice_in_dim(x, min(max(start, 0), size), min(max(start + length, 0), size), axis=axis)
    before = min(max(-start, 0), length)
    widths = [(0, 0)] * x.ndim
    widths[axis] = before, length - before - kept.shape[axis]
    return jnp.pad(kept, widths)


# Sums of products in which exact zeros of one argument win over infinities


def _guarded(name: str) -> Callable[..., Any]:
    def rule(*args: object, guard: int, **metadata: object) -> Any:
        operation = rule_of(name)
        assert operation is not None

        def function(*each: object) -> Any:
            return operation(*each, **metadata)

        args = tuple(map(jnp.asarray, args))
        ans = function(*args)
        is_plain = jnp.all(jnp.isfinite(ans)) | jnp.all(args[guard] != 0)
        return lax.cond(is_plain, lambda: ans, lambda: cast(_by_counting(function, ans, args, guard), ans.dtype))

    return rule


for _name in ("matmul", "einsum", "convolve", "convolve_axes"):
    lowers(f"{_name}_guarded")(_guarded(_name))


def _by_counting(function: Callable[..., Any], ans: Array, args: Sequence[Any], guard: int) -> Any:
    """Return sums of products: finite if all factors in use are finite, otherwise an infinity or NaN.

    If the number of infinite products equals the absolute sum of their signs, all have one sign; otherwise it is NaN.
    """
    finite = [jnp.isfinite(x) for x in args]
    total = function(*(jnp.where(are, x, 0) for are, x in zip(finite, args, strict=True)))
    used = [x != 0 if place == guard else jnp.ones(x.shape, bool) for place, x in enumerate(args)]
    count = _beyond_finite(function, used, finite)
    if jnp.iscomplexobj(ans):
        return jnp.where(count == 0, total, ans)
    balance = _beyond_finite(function, [jnp.where(jnp.isnan(x), 0, jnp.sign(x)) for x in args], finite)
    infinity = jnp.where(count == jnp.abs(balance), jnp.copysign(jnp.inf, balance), jnp.nan)
    return jnp.where(count == 0, total, total + infinity)


def _beyond_finite(function: Callable[..., Any], weights: Sequence[Any], finite: Sequence[Any]) -> Any:
    """Return the sums of products with all weights, minus those of the weights whose other factors are all finite."""
    dtype = np.float64 if any(x.dtype.itemsize > 4 for x in weights) else np.float32
    weights = [cast(jnp.real(weight), dtype) for weight in weights]
    of_finite = function(*(weight * are for weight, are in zip(weights, finite, strict=True)))
    return jnp.rint(function(*weights) - of_finite)
