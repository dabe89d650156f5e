"""Layers of PyTorch in NumPy, for any number of axes: windows, convolutions, pools, changes of size, norms, losses.

    windows             the pieces of an array that a kernel sees, of which convolutions, pools and `unfold` are made
    conv, conv_transpose
    max_pool, average_pool, adaptive_average_pool
    resized             `interpolate`: each axis times a matrix
    standardized        what all norms of layers do
    weighed             the reductions of losses

Arguments have the names and the order that PyTorch gives them, since the samples are passed by them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fgrad.scipy.special as special

Sizes = int | Sequence[int]


def each(value: Any, axes: int) -> tuple[Any, ...]:
    """Return one value for each axis."""
    return tuple(value) * (axes // len(value)) if isinstance(value, (tuple, list)) else (value,) * axes


def steps(length: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """Return how often a kernel fits along an axis."""
    room = length + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    # A window that would start in the padding on the right is none.
    return count - 1 if ceil_mode and (count - 1) * stride >= length + padding else count


def windows(
    x: Any, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes = 1, ceil_mode: bool = False, fill: float = 0
) -> Any:
    """Return the pieces of the last axes that a kernel sees: first the axes of places, then those within a kernel."""
    axes = len(kernel)
    lengths = x.shape[-axes:]
    settings = list(zip(kernel, each(stride, axes), each(padding, axes), each(dilation, axes), strict=True))
    places = [
        np.arange(steps(length, k, s, p, d, ceil_mode))[:, None] * s + np.arange(k) * d
        for length, (k, s, p, d) in zip(lengths, settings, strict=True)
    ]
    widths = [
        (p, max(0, int(np.max(at, initial=0)) + 1 - length - p))
        for length, at, (_, _, p, _) in zip(lengths, places, settings, strict=True)
    ]
    wide = np.pad(x, [(0, 0)] * (x.ndim - axes) + widths, constant_values=fill)
    turned = []
    for axis, at in enumerate(places):
        shape = [1] * (2 * axes)
        shape[axis], shape[axes + axis] = at.shape
        turned.append(at.reshape(shape))
    return wide[(..., *turned)]


def cropped(x: Any, pairs: Sequence[tuple[int, int]]) -> Any:
    """Return an array without so many elements at both ends of axes as negative numbers say."""
    return x[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, pairs, strict=True))]


def padded(x: Any, pairs: Sequence[tuple[int, int]], **options: Any) -> Any:
    """Return an array with more elements at both ends of axes, or, by negative numbers, with less."""
    wide = np.pad(x, [(max(a, 0), max(b, 0)) for a, b in pairs], **options)
    return cropped(wide, pairs)


def batched(x: Any, axes: int) -> tuple[Any, bool]:
    """Return an array with an axis of examples, and whether it had one."""
    return (x, True) if x.ndim == axes + 2 else (x[None], False)


def conv(axes: int) -> Callable[..., Any]:
    """Make a convolution of so many axes."""

    def call(
        x: Any, w: Any, b: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
    ) -> Any:
        x, had = batched(x, axes)
        kernel = w.shape[2:]
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(each(dilation, axes), kernel, strict=True)]
            x = np.pad(x, [(0, 0), (0, 0), *((n // 2, n - n // 2) for n in total)])
        if isinstance(padding, str):
            padding = 0
        seen = windows(x, kernel, stride, padding, dilation)
        n, c = seen.shape[:2]
        places = seen.shape[2 : 2 + axes]
        seen = seen.reshape(n, groups, c // groups, *places, *kernel)
        w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
        at, within = "xyz"[:axes], "klm"[:axes]
        out = np.einsum(f"ngc{at}{within},goc{within}->ngo{at}", seen, w).reshape(n, -1, *places)
        out = out if b is None else out + b.reshape(-1, *(1,) * axes)
        return out if had else out[0]

    return call


def conv_transpose(axes: int) -> Callable[..., Any]:
    """Make a transposed convolution: zeros between the elements, then a convolution with the kernel turned round."""

    def call(
        x: Any,
        w: Any,
        b: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        x, had = batched(x, axes)
        kernel = w.shape[2:]
        stride, padding, extra, dilation = (each(v, axes) for v in (stride, padding, output_padding, dilation))
        lengths = ((n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True))
        wide = np.zeros_like(x, shape=(*x.shape[:2], *lengths))
        wide[(..., *(slice(None, None, s) for s in stride))] = x
        reach = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
        wide = padded(wide, [(0, 0), (0, 0), *((r, r + e) for r, e in zip(reach, extra, strict=True))])
        w = np.flip(w, tuple(range(2, 2 + axes))).reshape(groups, w.shape[0] // groups, w.shape[1], *kernel)
        w = np.swapaxes(w, 1, 2).reshape(-1, w.shape[1], *kernel)
        out = conv(axes)(wide, w, b, 1, 0, dilation, groups)
        return out if had else out[0]

    return call


def max_pool(axes: int) -> Callable[..., Any]:
    """Make a pool of the largest numbers, with their places in each plane where they are asked for."""

    def call(
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        kernel = each(kernel_size, axes)
        stride = kernel if stride is None else stride
        settings = (kernel, stride, padding, dilation, ceil_mode)
        within = tuple(range(-axes, 0))
        seen = windows(x, *settings, fill=-np.inf)
        if not return_indices:
            return np.max(seen, within)
        plane = x.shape[-axes:]
        places = windows(np.arange(np.prod(plane)).reshape(plane), *settings, fill=-1)
        size = int(np.prod(kernel))
        rows = seen.reshape(*seen.shape[:-axes], size)
        best = np.argmax(rows, -1)[..., None]
        found = np.broadcast_to(places.reshape(*places.shape[:axes], size), rows.shape)
        return np.take_along_axis(rows, best, -1)[..., 0], np.take_along_axis(found, best, -1)[..., 0]

    return call


def max_unpool(axes: int) -> Callable[..., Any]:
    """Make the way back from a pool of the largest numbers to their places."""

    def call(
        x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Any:
        batch, plane = x.shape[:-axes], tuple(output_size[-axes:])
        out = np.zeros_like(x, shape=(*batch, int(np.prod(plane))))
        np.put_along_axis(out, indices.reshape(*batch, -1), x.reshape(*batch, -1), -1)
        return out.reshape(*batch, *plane)

    return call


def average_pool(axes: int) -> Callable[..., Any]:
    """Make a pool of means."""

    def call(
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        kernel = each(kernel_size, axes)
        stride = stride or kernel
        within = tuple(range(-axes, 0))
        seen = np.sum(windows(x, kernel, stride, padding, 1, ceil_mode), within)
        if divisor_override is not None:
            return seen / divisor_override
        inside = np.ones(x.shape[-axes:])
        if count_include_pad:
            inside = np.pad(inside, [(p, p) for p in each(padding, axes)], constant_values=1)
            return seen / np.sum(windows(inside, kernel, stride, 0, 1, ceil_mode), within)
        return seen / np.sum(windows(inside, kernel, stride, padding, 1, ceil_mode), within)

    return call


def by_axes(x: Any, matrices: Sequence[Any]) -> Any:
    """Return an array whose last axes are multiplied by one matrix each."""
    for axis, matrix in zip(range(-len(matrices), 0), matrices, strict=True):
        x = np.moveaxis(np.moveaxis(x, axis, -1) @ matrix.T, -1, axis)
    return x


def averages(old: int, new: int) -> Any:
    """Return the matrix of means of pieces that are as equal as they can be."""
    matrix = np.zeros((new, old))
    for row in range(new):
        start, stop = row * old // new, -(-(row + 1) * old // new)
        matrix[row, start:stop] = 1 / (stop - start)
    return matrix


def adaptive_average_pool(axes: int) -> Callable[..., Any]:
    """Make a pool of means to a given size."""

    def call(x: Any, output_size: Any) -> Any:
        lengths = x.shape[-axes:]
        sizes = zip(lengths, each(output_size, axes), strict=True)
        return by_axes(x, [averages(n, n if m is None else m) for n, m in sizes])

    return call


def adaptive_max_pool(axes: int) -> Callable[..., Any]:
    """Make a pool of the largest numbers to a given size, with their places in each plane where they are asked for."""

    def call(x: Any, output_size: Any, return_indices: bool = False) -> Any:
        lengths = x.shape[-axes:]
        plane = np.broadcast_to(np.arange(int(np.prod(lengths))).reshape(lengths), x.shape)
        sizes = [n if m is None else m for n, m in zip(lengths, each(output_size, axes), strict=True)]
        values, places = [], []
        for at in itertools.product(*map(range, sizes)):
            piece = tuple(slice(i * n // m, -(-(i + 1) * n // m)) for i, n, m in zip(at, lengths, sizes, strict=True))
            rows, at = (y[(..., *piece)].reshape(*x.shape[:-axes], -1) for y in (x, plane))
            values.append(np.max(rows, -1))
            places.append(np.take_along_axis(at, np.argmax(rows, -1)[..., None], -1)[..., 0])
        shape = (*x.shape[:-axes], *sizes)
        values, places = (np.stack(found, -1).reshape(shape) for found in (values, places))
        return (values, places) if return_indices else values

    return call


def _cubic(x: Any) -> Any:
    """Return the weights of the four neighbours of a point between the second and the third."""
    a = -0.75

    def near(t: Any) -> Any:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    def far(t: Any) -> Any:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    return [far(x + 1), near(x), near(1 - x), far(2 - x)]


def _interpolation(old: int, new: int, scale: float | None, mode: str, align_corners: bool) -> Any:
    """Return the matrix that takes an axis to another length."""
    ratio = old / new if scale is None else 1 / scale
    matrix = np.zeros((new, old))
    rows = np.arange(new)
    if mode.startswith("nearest"):
        at = np.floor((rows + (0.5 if mode == "nearest-exact" else 0)) * ratio).astype(int)
        matrix[rows, np.minimum(at, old - 1)] = 1
        return matrix
    if align_corners:
        at = rows * ((old - 1) / (new - 1) if new > 1 else 0.0)
    else:
        at = (rows + 0.5) * ratio - 0.5
    if mode == "bicubic":
        first, weights = np.floor(at).astype(int) - 1, _cubic(at - np.floor(at))
    else:
        at = np.maximum(at, 0)
        first, rest = np.floor(at).astype(int), at - np.floor(at)
        weights = [1 - rest, rest]
    for step, weight in enumerate(weights):
        np.add.at(matrix, (rows, np.clip(first + step, 0, old - 1)), weight)
    return matrix


def resized(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = False,
    recompute_scale_factor: bool | None = None,
) -> Any:
    """Return the last axes of an array with other lengths."""
    axes = x.ndim - 2
    lengths = x.shape[2:]
    scales = (None,) * axes if scale_factor is None else each(scale_factor, axes)
    sizes = each(size, axes) if size is not None else [int(n * s) for n, s in zip(lengths, scales, strict=True)]
    if mode == "area":
        return by_axes(x, [averages(*pair) for pair in zip(lengths, sizes, strict=True)])
    if recompute_scale_factor:
        scales = (None,) * axes
    rows = zip(lengths, sizes, scales, strict=True)
    return by_axes(x, [_interpolation(n, m, s, mode, bool(align_corners)) for n, m, s in rows])


def standardized(x: Any, axes: Any, eps: float, mean: Any = None, var: Any = None) -> Any:
    """Return numbers less their mean, over their spread."""
    mean = np.mean(x, axes, keepdims=True) if mean is None else mean
    var = np.var(x, axes, keepdims=True) if var is None else var
    return (x - mean) / np.sqrt(var + eps)


def scaled(x: Any, weight: Any, bias: Any, shape: Any) -> Any:
    """Return numbers times weights plus biases, where there are some."""
    x = x if weight is None else x * np.reshape(weight, shape)
    return x if bias is None else x + np.reshape(bias, shape)


def batch_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Return a batch standardized by channel."""
    shape = (1, -1) + (1,) * (x.ndim - 2)
    axes = (0, *range(2, x.ndim))
    known = () if training else (running_mean.reshape(shape), running_var.reshape(shape))
    return scaled(standardized(x, axes, eps, *known), weight, bias, shape).reshape(x.shape)


def instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Return examples standardized by channel."""
    shape = (1, -1) + (1,) * (x.ndim - 2)
    return scaled(standardized(x, tuple(range(2, x.ndim)), eps), weight, bias, shape)


def group_norm(x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Return examples standardized by groups of channels."""
    grouped = x.reshape(x.shape[0], num_groups, x[:1].size // num_groups if len(x) else 0)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    return scaled(standardized(grouped, -1, eps).reshape(x.shape), weight, bias, shape)


def layer_norm(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Return numbers standardized over the last axes."""
    axes = tuple(range(-len(normalized_shape), 0))
    return scaled(standardized(x, axes, eps), weight, bias, normalized_shape)


def rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """Return numbers over the root of the mean of their squares."""
    axes = tuple(range(-len(normalized_shape), 0))
    eps = np.finfo(float).eps if eps is None else eps
    return scaled(x / np.sqrt(np.mean(x * x, axes, keepdims=True) + eps), weight, None, normalized_shape)


def local_response_norm(x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    """Return numbers over what their neighbours in other channels are."""
    squares = np.pad(x * x, [(0, 0), (size // 2, (size - 1) // 2)] + [(0, 0)] * (x.ndim - 2))
    means = np.mean(np.lib.stride_tricks.sliding_window_view(squares, size, 1), -1)
    return x / (k + alpha * means) ** beta


def weighed(loss: Any, reduction: str = "mean") -> Any:
    """Return the losses of elements as one number, or as they are."""
    return {"none": lambda x: x, "sum": np.sum, "mean": np.mean}[reduction](loss)


def nll_loss(
    logs: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", smoothing: float = 0
) -> Any:
    """Return the negative logarithm of what was said of the classes that came."""
    classes = 1 if logs.ndim > 1 else 0
    logs = np.moveaxis(logs, classes, -1)
    counted = target != ignore_index
    target = np.where(counted, target, 0)
    weight = np.ones(logs.shape[-1]) if weight is None else weight
    weights = np.where(counted, weight[target], 0)
    losses = -np.take_along_axis(logs, target[..., None], -1)[..., 0] * weights
    if smoothing:
        spread = np.where(counted, -np.sum(logs * weight, -1), 0) / logs.shape[-1]
        losses = (1 - smoothing) * losses + smoothing * spread
    return np.sum(losses) / np.sum(weights) if reduction == "mean" else weighed(losses, reduction)


def cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Return the loss of scores for classes, or for probabilities of classes."""
    axis = 1 if x.ndim > 1 else 0
    logs = special.log_softmax(x, axis)
    if np.issubdtype(target.dtype, np.integer):
        return nll_loss(logs, target, weight, ignore_index, reduction, label_smoothing)
    classes = x.shape[axis]
    target = target * (1 - label_smoothing) + label_smoothing / classes
    scaled_logs = logs if weight is None else logs * np.reshape(weight, (-1,) + (1,) * (x.ndim - axis - 1))
    losses = -np.sum(scaled_logs * target, axis)
    return np.sum(losses) / (x.size // classes) if reduction == "mean" else weighed(losses, reduction)


def multilabel_margin(x: Any, target: Any, reduction: str = "mean") -> Any:
    """Return how far other classes come near each right one; the right ones stand before the first -1."""
    rows, targets = np.atleast_2d(x), np.atleast_2d(target)
    losses = []
    for row, labels in zip(rows, targets, strict=True):
        right = labels[: np.argmax(np.append(labels, -1) == -1)]
        others = np.setdiff1d(np.arange(len(row)), right)
        losses.append(np.sum(np.maximum(1 - row[right][:, None] + row[others], 0)) / len(row))
    return weighed(np.reshape(np.stack(losses), x.shape[:-1]), reduction)


def linear_cross_entropy(
    x: Any, w: Any, target: Any, *, linear_bias: Any = None, options: Any = None, **rest: Any
) -> Any:
    """Return the loss of scores that are linear in an example."""
    scores = np.tensordot(x, w, [[-1], [-1]])
    return cross_entropy(scores if linear_bias is None else scores + linear_bias, target, **rest)


def observing(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Return values by how much their keys are like the queries."""
    if enable_gqa:
        key, value = (np.repeat(x, query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scores = query @ np.swapaxes(key, -1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = np.tri(query.shape[-2], key.shape[-2], dtype=bool)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    return special.softmax(scores, -1) @ value
