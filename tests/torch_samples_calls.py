"""Functions of PyTorch in NumPy, as far as they take more than a line: what `torch_samples_table.py` puts together.

Arguments have the names and the order that PyTorch gives them, since the samples are passed by them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from torch_samples_layers import weighed

import fgrad.scipy.linalg as linalg
import fgrad.scipy.special as special


def axes_of(dim: Any) -> Any:
    """Return an axis or axes as NumPy takes them; none at all are all of them."""
    if isinstance(dim, (tuple, list)):
        return tuple(dim) or None
    return dim


def cast(x: Any, dtype: Any) -> Any:
    """Return numbers of a type, without a word on imaginary parts that are lost."""
    if dtype is None:
        return x
    return (x.real if np.iscomplexobj(x) and np.dtype(dtype).kind != "c" else x).astype(dtype)


def lined(f: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function along an axis take a number, as a line of one."""

    def call(x: Any, *args: Any, **options: Any) -> Any:
        if x.ndim:
            return f(x, *args, **options)
        found = f(x[None], *args, **options)
        return tuple(y[0] if y.ndim else y for y in found) if isinstance(found, tuple) else found.reshape(())

    return call


def reduction(f: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    """Make a reduction with PyTorch's names."""

    def call(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        x = cast(x, dtype)
        if x.ndim == 0 and dim is not None:
            return f(x[None], axis=0, **more)
        return f(x, axis=axes_of(dim), keepdims=keepdim, **more)

    return call


def masked(f: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    """Make a reduction of the elements that a mask lets pass."""

    def call(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, mask: Any = None) -> Any:
        where = True if mask is None else np.broadcast_to(mask, x.shape)
        if x.ndim == 0 and dim is not None:
            return f(x[None], axis=0, where=where if mask is None else where[None], **more)
        return f(cast(x, dtype), axis=axes_of(dim), keepdims=keepdim, where=where, **more)

    return call


def spread(f: Callable[..., Any]) -> Callable[..., Any]:
    """Make a variance or the like."""

    def call(x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, correction: Any = None) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        return f(x, axis=axes_of(dim), ddof=int(unbiased) if correction is None else correction, keepdims=keepdim)

    return call


def masked_spread(f: Callable[..., Any]) -> Callable[..., Any]:
    """Make a variance or the like of the elements that a mask lets pass."""

    def call(
        x: Any,
        dim: Any = None,
        unbiased: bool = True,
        keepdim: bool = False,
        correction: Any = None,
        dtype: Any = None,
        mask: Any = None,
    ) -> Any:
        where = True if mask is None else np.broadcast_to(mask, x.shape)
        ddof = int(unbiased) if correction is None else correction
        return f(x, axis=axes_of(dim), ddof=ddof, keepdims=keepdim, where=where)

    return call


def extreme(f: Callable[..., Any], where: Callable[..., Any]) -> Callable[..., Any]:
    """Make the largest or the smallest: of all, along an axis with its place, or of two arrays."""

    def call(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            return f(x)
        found = f(x, axis=dim, keepdims=keepdim)
        place = where(x, axis=dim, keepdims=keepdim)
        return found, place

    return lined(call)


def running_extreme(f: Any) -> Callable[..., Any]:
    """Make the largest or the smallest so far, with its last place."""

    def call(x: Any, dim: int) -> Any:
        found = f.accumulate(x, axis=dim)
        shape = [1] * x.ndim
        shape[dim] = -1
        places = np.arange(x.shape[dim]).reshape(shape)
        return found, np.maximum.accumulate(np.where(x == found, places, 0), axis=dim)

    return lined(call)


def cut(x: Any, dim: int, key: Any) -> Any:
    """Return an array indexed along one axis."""
    return x[(slice(None),) * (dim % x.ndim) + (key,)]


def replaced(x: Any, dim: int, key: Any, src: Any, add: bool = False) -> Any:
    """Return an array with other elements along one axis, or with more."""
    out = np.atleast_1d(x).copy()
    view = np.moveaxis(out, dim, 0)
    if x.ndim and np.ndim(src) and (np.ndim(key) or isinstance(key, slice)):
        src = np.moveaxis(src, dim, 0)
    if add:
        np.add.at(view, key, src)
    else:
        view[key] = src
    return out.reshape(x.shape)


def pieces(x: Any, sizes: Any, dim: int = 0) -> list[Any]:
    """Return an array in pieces of given sizes."""
    if isinstance(sizes, int):
        sizes = [min(sizes, x.shape[dim] - start) for start in range(0, x.shape[dim], sizes)]
    return np.split(x, np.cumsum(sizes)[:-1], dim)


def chunks(x: Any, count: int, dim: int = 0) -> list[Any]:
    """Return an array in as many pieces of one size, but for the last."""
    return pieces(x, -(-x.shape[dim] // count), dim)


def tensor_split(x: Any, parts: Any, dim: int = 0) -> list[Any]:
    """Return an array in pieces that are as equal as they can be, or cut where it is said."""
    return np.array_split(x, parts if isinstance(parts, int) else np.asarray(parts).tolist(), dim)


def summed_to(x: Any, *size: Any) -> Any:
    """Return the sums over all that another shape would repeat."""
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    wide = (1,) * (x.ndim - len(size)) + size
    axes = tuple(i for i, (n, m) in enumerate(zip(x.shape, wide, strict=True)) if n != m)
    return np.sum(x, axes, keepdims=True).reshape(size)


def sorted_with_places(x: Any, dim: int = -1, descending: bool = False, stable: bool | None = False) -> Any:
    """Return the elements in order, and where they were."""
    places = np.argsort(-x if descending else x, dim, kind="stable")
    values = np.sort(x, dim)
    return (np.flip(values, dim) if descending else values), places


def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Return the first elements in order, and where they were."""
    return tuple(cut(y, dim, slice(k)) for y in sorted_with_places(x, dim, largest))


def ranked(x: Any, rank: Any, dim: int, keepdim: bool) -> Any:
    """Return the element of a rank, and where it was."""
    key = slice(rank, rank + 1) if keepdim else rank
    return tuple(cut(y, dim, key) for y in sorted_with_places(x, dim))


def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the element of a rank, and where it was."""
    return ranked(x, k - 1, dim, keepdim)


def median(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the lower one of the two in the middle, by an axis with its place."""
    if dim is None:
        return np.sort(x, axis=None)[(x.size - 1) // 2]
    return ranked(x, (x.shape[dim] - 1) // 2, dim, keepdim)


def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Return matrices with given diagonals."""
    size = x.shape[-1] + abs(offset)
    at = np.arange(x.shape[-1])
    out = np.zeros_like(x, shape=(*x.shape[:-1], size, size))
    out[..., at + max(-offset, 0), at + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def diagonal_scatter(x: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Return matrices with another diagonal."""
    out = x.copy()
    at = np.arange(src.shape[-1])
    np.moveaxis(out, (dim1, dim2), (-2, -1))[..., at + max(-offset, 0), at + max(offset, 0)] = src
    return out


def grid(index: Any, dim: int) -> tuple[Any, ...]:
    """Return the places that an index along an axis says."""
    places = list(np.ogrid[tuple(map(slice, index.shape))])
    places[dim] = index
    return tuple(places)


def scatter(x: Any, dim: int, index: Any, src: Any, reduce: str | None = None) -> Any:
    """Return an array with elements put where an index says, or joined to what is there."""
    if x.ndim == 0:
        return scatter(x[None], dim, index.reshape(1), np.reshape(src, 1), reduce)[0]
    out, at = x.copy(), grid(index, dim)
    src = src if np.ndim(src) == 0 else np.reshape(src, src.shape or 1)[tuple(map(slice, index.shape))]
    if reduce is None:
        out[at] = src
    else:
        {"add": np.add, "multiply": np.multiply}[reduce].at(out, at, src)
    return out


def scatter_reduce(x: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> Any:
    """Return an array with elements joined to those where an index says, or in their place."""
    if x.ndim == 0:
        return scatter_reduce(x[None], dim, index.reshape(1), np.reshape(src, 1), reduce, include_self)[0]
    if index.ndim < x.ndim or index.ndim == 1 < src.ndim:
        shape = [1] * src.ndim
        shape[dim] = -1
        index = np.broadcast_to(index.reshape(shape), src.shape)
    index = np.atleast_1d(index)
    function, neutral = {
        "sum": (np.add, 0.0),
        "mean": (np.add, 0.0),
        "prod": (np.multiply, 1.0),
        "amin": (np.minimum, np.inf),
        "amax": (np.maximum, -np.inf),
    }[reduce]
    at = grid(index, dim)
    counts = np.zeros(x.shape, int)
    np.add.at(counts, at, 1)
    out = x.copy() if include_self else np.where(counts > 0, neutral, x)
    function.at(out, at, src[tuple(map(slice, index.shape))])
    return out / np.maximum(counts + int(include_self), 1) if reduce == "mean" else out


def gather(x: Any, dim: int, index: Any, sparse_grad: bool = False) -> Any:
    """Return the elements that an index along an axis says."""
    if index.size == 0:
        return np.zeros_like(x, shape=index.shape)
    if index.ndim == 0:
        return np.take(np.atleast_1d(x), index, dim % max(x.ndim, 1))
    return np.atleast_1d(x)[grid(index.astype(int), dim)].reshape(index.shape)


def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Return an array with elements of the flat array put elsewhere, or added."""
    out = x.ravel().copy()
    if accumulate:
        np.add.at(out, index.ravel(), source.ravel())
    else:
        out[index.ravel()] = source.ravel()
    return out.reshape(x.shape)


def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Return an array with other elements, or with more."""
    out = x.copy()
    if accumulate:
        np.add.at(out, tuple(indices), values)
    else:
        out[tuple(indices)] = values
    return out


def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """Return an array with elements in their order put where a mask says."""
    x, mask = np.broadcast_arrays(x, mask)
    out = x.copy()
    out[mask] = source.ravel()[: np.count_nonzero(mask)]
    return out


def strided(x: Any, size: Any, stride: Any, storage_offset: int | None = 0) -> Any:
    """Return the places of a flat array that lie at fixed distances."""
    at = np.full((1,) * len(size), storage_offset or 0)
    for axis, (n, step) in enumerate(zip(size, stride, strict=True)):
        at = at + (np.arange(n) * step).reshape((-1,) + (1,) * (len(size) - axis - 1))
    return at


def strided_scatter(x: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = 0) -> Any:
    """Return an array with other elements at fixed distances."""
    out = x.ravel().copy()
    out[strided(x, size, stride, storage_offset)] = src
    return out.reshape(x.shape)


def unfold(x: Any, dim: int, size: int, step: int) -> Any:
    """Return the windows along an axis."""
    if x.ndim == 0:
        return x[None][:size]
    if size == 0:
        return cut(x, dim, slice(None, None, step))[..., None][..., :0]
    return cut(np.lib.stride_tricks.sliding_window_view(x, size, dim), dim, slice(None, None, step))


def gradient(x: Any, *, dim: Any = None, spacing: Any = None, edge_order: int = 1) -> Any:
    """Return differences in the middle of the neighbours."""
    count = x.ndim if dim is None else len(dim) if isinstance(dim, (tuple, list)) else 1
    spacing = [1.0] if spacing is None else list(spacing) if isinstance(spacing, (tuple, list)) else [spacing]
    spacing = spacing * count if len(spacing) == 1 else spacing
    return np.gradient(x, *spacing, axis=axes_of(dim), edge_order=edge_order)


def difference(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Return the differences of neighbours."""
    return np.diff(x, n, dim, **{k: v for k, v in {"prepend": prepend, "append": append}.items() if v is not None})


def covariance(x: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Return how rows vary with each other."""
    return np.cov(x, ddof=correction, fweights=fweights, aweights=aweights)


def cross(x: Any, y: Any, dim: int | None = None) -> Any:
    """Return products at right angles, along the first axis of three by default."""
    return np.cross(x, y, axis=x.shape.index(3) if dim is None else dim)


def combinations(x: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """Return the choices of so many elements."""
    chosen = (itertools.combinations_with_replacement if with_replacement else itertools.combinations)(range(len(x)), r)
    return x[np.array(list(chosen), int).reshape(-1, r)]


def grids(*xs: Any, indexing: str = "ij") -> Any:
    """Return coordinates as grids."""
    xs = tuple(xs[0]) if isinstance(xs[0], (tuple, list)) else xs
    return np.meshgrid(*map(np.atleast_1d, xs), indexing=indexing)


def quantile(f: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of quantiles."""

    def call(x: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear") -> Any:
        if x.ndim == 0:
            return f(x[None], q, axis=0, method=interpolation)
        return f(x, q, axis=dim, method=interpolation, keepdims=keepdim)

    return call


def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return lengths."""
    x = cast(x, dtype)
    if x.ndim == 0:
        return np.linalg.vector_norm(x[None], ord=ord)
    return np.linalg.vector_norm(x, ord=ord, axis=axes_of(dim), keepdims=keepdim)


def norm(x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return lengths of vectors or of matrices, as `np.linalg.norm` tells them apart."""
    return np.linalg.norm(cast(x, dtype), ord, axes_of(dim), keepdim)


def old_norm(x: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Return lengths of vectors, but for norms with the name of one of matrices."""
    if isinstance(p, str) and p == "nuc":
        return np.linalg.norm(x, p, tuple(dim) if dim else None, keepdim)
    return vector_norm(x, 2 if isinstance(p, str) else p, dim, keepdim, dtype=dtype)


def renorm(x: Any, p: float, dim: int, maxnorm: float) -> Any:
    """Return an array whose slices are no longer than said."""
    axes = tuple(i for i in range(x.ndim) if i != dim % x.ndim)
    lengths = np.linalg.vector_norm(x, ord=p, axis=axes, keepdims=True)
    return np.where(lengths > maxnorm, x * (maxnorm / (lengths + 1e-7)), x)


def normalized(x: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Any:
    """Return vectors of length one."""
    return x / np.maximum(vector_norm(x, p, dim, True), eps)


def triangle(upper: bool, unit: bool = False) -> Callable[..., Any]:
    """Make what is read of a triangular matrix."""

    def call(a: Any) -> Any:
        part = np.triu if upper else np.tril
        return part(a, (1 if upper else -1)) + np.eye(a.shape[-1]) if unit else part(a)

    return call


def solve_triangular(
    a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False, transpose: bool = False
) -> Any:
    """Return the solution of equations in a triangle."""
    a = triangle(upper, unitriangular)(a)
    a = a.mT if transpose else a
    return np.linalg.solve(a, b) if left else np.linalg.solve(a.mT, b.mT).mT


def logit(x: Any, eps: float | None = None) -> Any:
    """Return the logit, of arguments that are at least `eps` from 0 and 1: from 1 where they cannot be from both."""
    if eps is not None:
        x = np.where(x < eps, eps, np.where(x > 1 - eps, 1 - eps, x))
    return special.logit(x)


def matrix_rank(a: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """Return how many singular values are more than the larger of two limits."""
    if atol is None or rtol is None:
        return np.linalg.matrix_rank(a, atol, hermitian, rtol=rtol)
    return np.linalg.matrix_rank(a, np.maximum(atol, rtol * np.max(np.linalg.svdvals(a), -1, initial=0)), hermitian)


def solve(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """Return the solution of equations, for vectors or for columns."""
    vectors = b.ndim == 1 or (a.ndim - 1 == b.ndim and a.shape[:-1] == b.shape)
    b = b[..., None] if vectors else b
    found = np.linalg.solve(a, b) if left else np.linalg.solve(a.mT, b.mT).mT
    return found[..., 0] if vectors else found


def permutation(pivots: Any, size: int) -> Any:
    """Return the matrices that exchange rows as a factorization says, which counts from one."""
    out = np.broadcast_to(np.eye(size), (*pivots.shape[:-1], size, size)).copy()
    for at in np.ndindex(pivots.shape[:-1]):
        for i, j in enumerate(pivots[at]):
            out[(*at, slice(None), [i, j - 1])] = out[(*at, slice(None), [j - 1, i])]
    return out


def lu_parts(lu: Any, pivots: Any) -> Any:
    """Return the permutation and the two triangles of a factorization in one array."""
    k = min(lu.shape[-2:])
    return (
        permutation(pivots, lu.shape[-2]),
        np.tril(lu[..., :k], -1) + np.eye(lu.shape[-2], k),
        np.triu(lu[..., :k, :]),
    )


def lu_solve(lu: Any, pivots: Any, b: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """Return the solution of equations whose matrix was factorized."""
    p, lower, upper = lu_parts(lu, pivots)
    return solve(np.conj((p @ lower @ upper).mT) if adjoint else p @ lower @ upper, b, left=left)


def lu_factor(a: Any, pivot: bool = True) -> Any:
    """Return both triangles in one array, and the exchanges, counted from one."""
    if a.size == 0:  # SciPy takes no batches of none
        return a, np.zeros((*a.shape[:-2], min(a.shape[-2:])), int)
    lu, pivots = linalg.lu_factor(a)
    return lu, pivots + 1


def reflections(v: Any, tau: Any) -> Any:
    """Return the product of the reflections that columns stand for."""
    rows = v.shape[-2]
    out = np.broadcast_to(np.eye(rows), (*v.shape[:-2], rows, rows))
    for i in range(tau.shape[-1]):
        e = np.eye(rows)[i]
        w = np.where(np.arange(rows) > i, v[..., :, i], e)[..., None]
        out = out - tau[..., i, None, None] * (out @ w) @ np.conj(w.mT)
    return out


def ormqr(v: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """Return the product of an array with reflections."""
    q = reflections(v, tau)
    q = np.conj(q.mT) if transpose else q
    return q @ other if left else other @ q


def pairwise(x: Any, y: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """Return distances of rows."""
    return np.linalg.vector_norm(x - y + eps, ord=p, axis=-1, keepdims=keepdim)


def embedding_bag(
    table: Any,
    places: Any,
    offsets: Any = None,
    *,
    mode: str = "mean",
    per_sample_weights: Any = None,
    padding_idx: int | None = None,
    include_last_offset: bool = False,
    max_norm: Any = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Return rows of a table joined by bags."""
    rows = places.ravel()
    starts = (
        np.arange(len(places)) * places.shape[1] if offsets is None else offsets[: -1 if include_last_offset else None]
    )
    ends = [*starts[1:].tolist(), len(rows)]
    keep = np.ones(len(rows), bool) if padding_idx is None else rows != padding_idx % len(table)
    weights = np.ones(len(rows)) if per_sample_weights is None else per_sample_weights.ravel()
    bags = []
    for start, end in zip(starts.tolist(), ends, strict=True):
        at = np.arange(start, end)[keep[start:end]]
        found = table[rows[at]] * weights[at][:, None]
        empty = np.zeros(table.shape[1])
        bags.append({"sum": np.sum, "mean": np.mean, "max": np.max}[mode](found, 0) if len(at) else empty)
    return np.stack(bags)


def cosine_similarity(x: Any, y: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """Return the cosines between vectors."""
    x, y = (
        z / np.maximum(np.linalg.vector_norm(z, axis=dim, keepdims=True), eps)
        for z in np.broadcast_arrays(*map(np.atleast_1d, (x, y)))
    )
    return np.sum(x * y, dim)


def triplet_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
    distance_function: Any = None,
) -> Any:
    """Return how much nearer what is like is than what is not."""
    near, far = pairwise(anchor, positive, p, eps), pairwise(anchor, negative, p, eps)
    far = np.minimum(far, pairwise(positive, negative, p, eps)) if swap else far
    return weighed(np.maximum(near - far + margin, 0), reduction)


def frames(x: Any, n_fft: int, hop: int) -> Any:
    """Return the pieces of a signal, as rows."""
    return np.lib.stride_tricks.sliding_window_view(x, n_fft, -1)[..., ::hop, :]


def stft(
    x: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool = True,
) -> Any:
    """Return the spectra of the pieces of a signal."""
    if center:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)], mode=pad_mode)
    found = frames(x, n_fft, n_fft // 4 if hop_length is None else hop_length)
    if window is not None:
        left = (n_fft - len(window)) // 2
        found = found * np.pad(window, (left, n_fft - len(window) - left))
    whole = onesided is False or np.iscomplexobj(found)
    out = (np.fft.fft if whole else np.fft.rfft)(found, norm="ortho" if normalized else None)
    out = np.swapaxes(out, -1, -2)
    return out if return_complex else np.stack([out.real, out.imag], -1)


def istft(
    x: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """Return the signal whose pieces have given spectra: their sum, by that of the squares of the window."""
    hop = n_fft // 4 if hop_length is None else hop_length
    window = np.ones(n_fft if win_length is None else win_length) if window is None else window
    left = (n_fft - len(window)) // 2
    window = np.pad(window, (left, n_fft - len(window) - left))
    back = np.fft.ifft if return_complex else np.fft.irfft
    found = back(np.swapaxes(x, -1, -2), n_fft, norm="ortho" if normalized else None) * window
    starts = range(0, hop * x.shape[-1], hop)
    at = np.arange(starts[-1] + n_fft)
    places = np.stack([at[start : start + n_fft] for start in starts])
    out = np.zeros_like(found, shape=(*x.shape[:-2], len(at)))
    np.add.at(out, (..., places), found)
    weights = np.zeros_like(window, shape=len(at))
    # NumPy 2.4 adds what lies behind the values, if they have fewer axes than the places.
    np.add.at(weights, places, np.broadcast_to(window * window, places.shape))
    start = n_fft // 2 if center else 0
    stop = start + length if length is not None else len(at) - start
    cut_off = out[..., start:stop] / weights[start:stop]
    return np.pad(cut_off, [(0, 0)] * (x.ndim - 2) + [(0, (length or 0) and length - cut_off.shape[-1])])


def fft(f: Callable[..., Any]) -> Callable[..., Any]:
    """Make a transform along one axis."""
    return lambda x, n=None, dim=-1, norm=None: f(x, n, dim, norm)


def fftn(f: Callable[..., Any], dims: Any = None) -> Callable[..., Any]:
    """Make a transform along several axes, which are the last ones by default."""

    def call(x: Any, s: Any = None, dim: Any = dims, norm: str | None = None) -> Any:
        s = (s,) if isinstance(s, int) else s
        if dim is None:
            dim = range(-len(s) if s else -x.ndim, 0)
        return f(x, s, (dim,) if isinstance(dim, int) else tuple(dim), norm)

    return call


def hfftn(x: Any, s: Any, axes: Any, norm: Any) -> Any:
    """Transform spectra that are symmetric along the last axis."""
    if len(axes) > 1:
        x = np.fft.fftn(x, s[:-1] if s else None, axes[:-1], norm)
    return np.fft.hfft(x, s[-1] if s else None, axes[-1], norm)


def ihfftn(x: Any, s: Any, axes: Any, norm: Any) -> Any:
    """Transform back to spectra that are symmetric along the last axis."""
    x = np.fft.ihfft(x, s[-1] if s else None, axes[-1], norm)
    return np.fft.ifftn(x, s[:-1] if s else None, axes[:-1], norm) if len(axes) > 1 else x


def masked_norm(
    x: Any,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """Return lengths of the elements that a mask lets pass."""
    fill = np.inf if ord == -np.inf else 0.0
    return vector_norm(x if mask is None else np.where(mask, x, fill), ord, dim, keepdim, dtype=dtype)


def masked_line(f: Callable[..., Any], fill: float) -> Callable[..., Any]:
    """Make a function along an axis of the elements that a mask lets pass: the others are what changes nothing."""

    def call(x: Any, dim: Any, *, dtype: Any = None, mask: Any = None) -> Any:
        return f(cast(x if mask is None else np.where(mask, x, fill), dtype), dim)

    return call


def masked_logsumexp(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, mask: Any = None) -> Any:
    """Return the logarithm of sums of exponentials of the elements that a mask lets pass."""
    x = x if mask is None else np.where(mask, x, -np.inf)
    return special.logsumexp(x[None] if x.ndim == 0 else x, axes_of(dim), keepdims=keepdim and x.ndim > 0)


def softmax(x: Any, dim: int, dtype: Any = None, f: Callable[..., Any] = special.softmax) -> Any:
    """Return shares along an axis; SciPy takes no arrays without elements."""
    x = cast(x, dtype)
    return f(np.atleast_1d(x), dim).reshape(x.shape) if x.size else x


def einsum(xs: Any, equation: str) -> Any:
    """Return a sum of products; PyTorch also sums over axes without a letter that the result does not name."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    if arrow and "..." in left and "..." not in right:
        found = np.einsum(f"{left}->...{right}", *xs)
        return np.sum(found, tuple(range(found.ndim - len(right))))
    return np.einsum(equation, *xs)


def gaussian_nll(x: Any, y: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Any:
    """Return the negative logarithm of normal densities, with one variance for each row or each element."""
    var = np.maximum(var[..., None] if var.ndim < x.ndim else var, eps)
    loss = 0.5 * (np.log(var) + (x - y) ** 2 / var) + (0.5 * np.log(2 * np.pi) if full else 0)
    return weighed(loss, reduction)


def tensordot(x: Any, y: Any, dims: Any = 2) -> Any:
    """Return sums of products; PyTorch repeats axes of one."""
    if isinstance(dims, int):
        return np.tensordot(x, y, dims)
    for i, j in zip(*dims, strict=True):
        if x.shape[i] == 1:
            y = np.sum(y, j, keepdims=True)
        elif y.shape[j] == 1:
            x = np.sum(x, i, keepdims=True)
    return np.tensordot(x, y, dims)


def double(x: Any) -> Any:
    """Return an array in double precision, and numbers as they are."""
    return x.astype(np.float64) if hasattr(x, "dtype") else x


def logaddexp(x: Any, y: Any) -> Any:
    """Return the logarithm of the sum of exponentials, for complex numbers by that of the larger one."""
    if not np.iscomplexobj(x):
        return np.logaddexp(x, y)
    first = x.real >= y.real
    return np.where(first, x, y) + np.log1p(np.exp(np.where(first, y - x, x - y)))


def logcumsumexp(x: Any, dim: int) -> Any:
    """Return the logarithms of the sums of exponentials so far."""
    if not np.iscomplexobj(x):
        return np.logaddexp.accumulate(x, dim)
    return np.stack(list(itertools.accumulate(np.moveaxis(x, dim, 0), logaddexp)), dim) if x.size else x


def nanmedian(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the lower one of the two in the middle of what is a number, by an axis with its place."""
    if dim is None:
        return nanmedian(x.ravel(), 0)[0]
    places = np.argsort(x, dim, kind="stable")
    rank = np.maximum(np.sum(~np.isnan(x), dim, keepdims=True) - 1, 0) // 2
    found = np.take_along_axis(places, rank, dim)
    both = np.take_along_axis(x, found, dim), found
    return both if keepdim else tuple(np.squeeze(y, dim) for y in both)


def searchsorted(
    rows: Any, x: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Any = None
) -> Any:
    """Return the places of numbers in rows that are in order."""
    if sorter is not None:
        rows = np.take_along_axis(rows, sorter, -1)
    side = side or ("right" if right else "left")
    if rows.ndim == 1:
        return np.searchsorted(rows, x, side)
    found = [np.searchsorted(rows[at], x[at], side) for at in np.ndindex(rows.shape[:-1])]
    return np.reshape(np.stack(found), x.shape) if found else np.zeros(x.shape, int)


def unique(
    x: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return what there is, each once."""
    return np.unique(x, return_inverse=return_inverse, return_counts=return_counts, axis=dim)


def unique_neighbours(x: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """Return what there is without what is like the element or the slice before."""
    rows = x.ravel() if dim is None else np.moveaxis(x, dim, 0)
    changes = np.any(rows[1:] != rows[:-1], tuple(range(1, rows.ndim)))
    first = np.concatenate([np.ones(min(len(rows), 1), bool), changes])
    found = [rows[first] if dim is None else np.moveaxis(rows[first], 0, dim)]
    if return_inverse:
        places = np.cumsum(first) - 1
        found.append(places.reshape(x.shape) if dim is None else places)
    if return_counts:
        found.append(np.diff(np.append(np.flatnonzero(first), len(rows))))
    return found


def mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the smallest of the commonest elements, and where it is."""
    rows = np.moveaxis(x, dim, -1)
    counts = np.sum(rows[..., :, None] == rows[..., None, :], -1)
    places = np.argmin(np.where(counts == np.max(counts, -1, keepdims=True), rows, np.inf), -1)[..., None]
    both = np.take_along_axis(rows, places, -1), places
    return tuple(np.moveaxis(y, -1, dim) if keepdim else y[..., 0] for y in both)


def masked_place(f: Callable[..., Any], fill: float) -> Callable[..., Any]:
    """Make the place of an extreme of the elements that a mask lets pass."""

    def call(x: Any, dim: Any = None, keepdim: bool = False, *, mask: Any = None) -> Any:
        return reduction(f)(x if mask is None else np.where(mask, x, fill), dim, keepdim)

    return call
