"""What `test_torch_samples.py` runs: functions of PyTorch by their names in its list of operations, in NumPy.

CALLS       the same in NumPy or SciPy, by name, or by name and variant; arguments are PyTorch's, arrays for tensors
LEFT_OUT    the operations that are not run, by reason
COMPARED    what is compared of results that are not unique, on both sides
PREPARED    what is done before to arguments of which a function reads a part, on both sides
ROUNDED     where PyTorch computes in single precision
DIFFERS     where PyTorch's derivative is another, and differences say that fgrad's is right
REFUSED     where fgrad says that there is none
NO_SECOND   where there is no second derivative
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.signal
import torch_samples_calls as c
import torch_samples_layers as layers
from torch_samples_calls import masked, masked_line, masked_spread, reduction, spread
from torch_samples_layers import weighed

import fgrad.scipy.integrate as integrate
import fgrad.scipy.linalg as linalg
import fgrad.scipy.special as special
from fgrad.errors import ConcretizationError, NoDerivativeError

Calls = dict[str, Callable[..., Any]]

_UFUNCS: Calls = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "angle": np.angle,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "conj": np.conj,
    "conj_physical": np.conjugate,
    "copysign": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "deg2rad": np.deg2rad,
    "eq": np.equal,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "float_power": np.float_power,
    "floor": np.floor,
    "floor_divide": np.floor_divide,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "frexp": np.frexp,
    "ge": np.greater_equal,
    "gt": np.greater,
    "heaviside": np.heaviside,
    "hypot": np.hypot,
    "imag": np.imag,
    "isclose": np.isclose,
    "isfinite": np.isfinite,
    "isin": np.isin,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "isneginf": np.isneginf,
    "isposinf": np.isposinf,
    "isreal": np.isreal,
    "le": np.less_equal,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "logaddexp": c.logaddexp,
    "logaddexp2": np.logaddexp2,
    "logical_and": np.logical_and,
    "logical_not": np.logical_not,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "lt": np.less,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "max/binary": np.maximum,
    "min/binary": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "nextafter": np.nextafter,
    "positive": np.positive,
    "pow": np.power,
    "rad2deg": np.rad2deg,
    "real": np.real,
    "reciprocal": np.reciprocal,
    "remainder": np.remainder,
    "sgn": np.sign,
    "sign": np.sign,
    "signbit": np.signbit,
    "sin": np.sin,
    "sinc": np.sinc,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "true_divide": np.true_divide,
    "trunc": np.trunc,
}

_ARITHMETIC: Calls = {
    "__radd__": lambda x, y: y + x,
    "__rdiv__": lambda x, y: y / x,
    "__rmatmul__": lambda x, y: y @ x,
    "__rmod__": lambda x, y: y % x,
    "__rmul__": lambda x, y: y * x,
    "__rpow__": lambda x, y: y**x,
    "__rsub__": lambda x, y: y - x,
    "add": lambda x, y, alpha=1: x + alpha * y,
    "addbmm": lambda x, a, b, alpha=1, beta=1: beta * x + alpha * np.sum(a @ b, 0),
    "addcdiv": lambda x, a, b, value=1: x + value * (a / b),
    "addcmul": lambda x, a, b, value=1: x + value * a * b,
    "addmm": lambda x, a, b, alpha=1, beta=1: beta * x + alpha * (a @ b),
    "addmv": lambda x, a, b, alpha=1, beta=1: beta * x + alpha * (a @ b),
    "addr": lambda x, a, b, alpha=1, beta=1: beta * x + alpha * np.outer(a, b),
    "allclose": np.allclose,
    "baddbmm": lambda x, a, b, alpha=1, beta=1: beta * x + alpha * (a @ b),
    "bmm": np.matmul,
    "clamp": lambda x, low=None, high=None: np.clip(x, low, high),
    "clamp_max": np.minimum,
    "clamp_min": np.maximum,
    "complex": lambda x, y: x + 1j * y,
    "div/floor_rounding": lambda x, y, rounding_mode: np.floor_divide(x, y),
    "div/no_rounding_mode": np.divide,
    "div/trunc_rounding": lambda x, y, rounding_mode: np.trunc(x / y),
    "dot": np.dot,
    "equal": np.array_equal,
    "frac": lambda x: x - np.trunc(x),
    "inner": np.inner,
    "kron": np.kron,
    "ldexp": lambda x, y: x * 2.0**y,
    "lerp": lambda x, y, weight: x + weight * (y - x),
    "matmul": np.matmul,
    "mm": np.matmul,
    "mv": np.matmul,
    "nan_to_num": lambda x: np.nan_to_num(x),
    "outer": np.outer,
    "polar": lambda x, y: x * np.exp(1j * y),
    "round": lambda x, decimals=0: np.round(x, decimals),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rsub": lambda x, y, alpha=1: y - alpha * x,
    "sub": lambda x, y, alpha=1: x - alpha * y,
    "tensordot": c.tensordot,
    "vdot": np.vdot,
    "view_as_complex": lambda x: x[..., 0] + 1j * x[..., 1],
    "view_as_real": lambda x: np.stack([x.real, x.imag], -1),
}

_REDUCTIONS: Calls = {
    "all": reduction(np.all),
    "amax": reduction(np.max),
    "amin": reduction(np.min),
    "aminmax": lambda x, *, dim=None, keepdim=False: [reduction(f)(x, dim, keepdim) for f in (np.min, np.max)],
    "any": reduction(np.any),
    "argmax": reduction(np.argmax),
    "argmin": reduction(np.argmin),
    "count_nonzero": reduction(np.count_nonzero),
    "cov": c.covariance,
    "corrcoef": np.corrcoef,
    "cummax": c.running_extreme(np.maximum),
    "cummin": c.running_extreme(np.minimum),
    "cumprod": c.lined(lambda x, dim, dtype=None: np.cumprod(c.cast(x, dtype), dim)),
    "cumsum": c.lined(lambda x, dim, dtype=None: np.cumsum(c.cast(x, dtype), dim)),
    "cumulative_trapezoid": lambda y, x=None, *, dx=1.0, dim=-1: integrate.cumulative_trapezoid(y, x, dx, dim),
    "diff": c.difference,
    "dist": lambda x, y, p=2: np.linalg.vector_norm(x - y, ord=p),
    "gradient": c.gradient,
    "logcumsumexp": c.lined(c.logcumsumexp),
    "logsumexp": lambda x, dim, keepdim=False: special.logsumexp(
        np.atleast_1d(x), c.axes_of(dim), keepdims=keepdim and x.ndim > 0
    ),
    "max/reduction_no_dim": np.max,
    "max/reduction_with_dim": c.extreme(np.max, np.argmax),
    "mean": reduction(np.mean),
    "median": c.lined(c.median),
    "min/reduction_no_dim": np.min,
    "min/reduction_with_dim": c.extreme(np.min, np.argmin),
    "mode": c.lined(c.mode),
    "nanmean": reduction(np.nanmean),
    "nanmedian": c.lined(c.nanmedian),
    "nanquantile": c.quantile(np.nanquantile),
    "nansum": reduction(np.nansum),
    "norm": c.old_norm,
    "prod": reduction(np.prod),
    "quantile": c.quantile(np.quantile),
    "std": spread(np.std),
    "std_mean": lambda x, *args, **options: [spread(np.std)(x, *args, **options), _mean(x, *args, **options)],
    "sum": reduction(np.sum),
    "trace": np.trace,
    "trapezoid": lambda y, x=None, *, dx=1.0, dim=-1: np.trapezoid(y, x, dx, dim),
    "trapz": lambda y, x=None, *, dx=1.0, dim=-1: np.trapezoid(y, x, dx, dim),
    "var": spread(np.var),
    "var_mean": lambda x, *args, **options: [spread(np.var)(x, *args, **options), _mean(x, *args, **options)],
}


def _mean(x: Any, dim: Any = None, unbiased: Any = True, keepdim: bool = False, correction: Any = None) -> Any:
    return np.mean(x, None if isinstance(dim, bool) else c.axes_of(dim), keepdims=keepdim)


_SHAPES: Calls = {
    "H": lambda x: np.conj(x.T),
    "T": lambda x: x.T,
    "alias_copy": np.copy,
    "atleast_1d": lambda *xs: _each(np.atleast_1d, xs),
    "atleast_2d": lambda *xs: _each(np.atleast_2d, xs),
    "atleast_3d": lambda *xs: _each(np.atleast_3d, xs),
    "block_diag": lambda *xs: linalg.block_diag(*xs),
    "broadcast_tensors": np.broadcast_arrays,
    "broadcast_to": np.broadcast_to,
    "cartesian_prod": lambda *xs: np.stack([x.ravel() for x in c.grids(*xs)], -1) if len(xs) > 1 else xs[0],
    "cat": lambda xs, dim=0: np.concatenate([x for x in xs if x.shape != (0,)] or xs, dim),
    "chunk": c.chunks,
    "clone": np.copy,
    "column_stack": np.column_stack,
    "combinations": c.combinations,
    "constant_pad_nd": lambda x, pad, value=0: _pad(x, pad, "constant", value),
    "contiguous": np.copy,
    "cross": c.cross,
    "diag": np.diag,
    "diag_embed": c.diag_embed,
    "diagflat": lambda x, offset=0: np.diagflat(x, offset),
    "diagonal": lambda x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2),
    "diagonal_copy": lambda x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2),
    "diagonal_scatter": c.diagonal_scatter,
    "dsplit": np.dsplit,
    "dstack": np.dstack,
    "einsum": c.einsum,
    "expand": lambda x, *shape: _expand(x, *shape),
    "expand_as": lambda x, y: np.broadcast_to(x, y.shape),
    "expand_copy": lambda x, *shape: _expand(x, *shape),
    "flatten": lambda x, start_dim=0, end_dim=-1: _flatten(x, start_dim, end_dim),
    "flip": lambda x, dims: np.flip(x, dims),
    "fliplr": np.fliplr,
    "flipud": np.flipud,
    "hsplit": np.hsplit,
    "hstack": np.hstack,
    "mH": lambda x: np.conj(x.mT),
    "mT": lambda x: x.mT,
    "meshgrid": c.grids,
    "movedim": np.moveaxis,
    "narrow": lambda x, dim, start, length: c.cut(x, dim, slice(int(start), int(start) + length)),
    "narrow_copy": lambda x, dim, start, length: c.cut(x, dim, slice(start, start + length)),
    "nn.functional.channel_shuffle": lambda x, n: np.swapaxes(_grouped(x, n), 1, 2).reshape(x.shape),
    "nn.functional.pad": lambda x, pad, mode="constant", value=0: _pad(x, pad, mode, value),
    "nn.functional.pixel_shuffle": lambda x, upscale_factor: _shuffled(x, upscale_factor),
    "nn.functional.pixel_unshuffle": lambda x, downscale_factor: _unshuffled(x, downscale_factor),
    "permute": lambda x, dims: np.transpose(x, dims),
    "permute_copy": lambda x, dims: np.transpose(x, dims),
    "ravel": np.ravel,
    "repeat": lambda x, *reps: np.tile(x, reps[0] if reps and isinstance(reps[0], tuple) else reps),
    "repeat_interleave": lambda x, repeats, dim=None, output_size=None: np.repeat(x, repeats, dim),
    "reshape": lambda x, shape: x.reshape(shape),
    "reshape_as": lambda x, y: x.reshape(y.shape),
    "resolve_conj": np.copy,
    "resolve_neg": np.copy,
    "roll": lambda x, shifts, dims=None: np.roll(x, shifts, dims if dims != () else None),
    "rot90": lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims),
    "select": lambda x, dim, index: c.cut(x, dim, index),
    "select_scatter": lambda x, src, dim, index: c.replaced(x, dim, index, src),
    "slice": lambda x, dim=0, start=None, end=None, step=1: c.cut(x, dim, slice(start, end, step)),
    "slice_scatter": lambda x, src, dim=0, start=None, end=None, step=1: c.replaced(
        x, dim, slice(start, end, step), src
    ),
    "split": c.pieces,
    "split_with_sizes": c.pieces,
    "split_with_sizes_copy": c.pieces,
    "squeeze": lambda x, dim=None: _squeeze(x, dim),
    "squeeze_copy": lambda x, dim=None: _squeeze(x, dim),
    "stack": lambda xs, dim=0: np.stack(xs, dim),
    "sum_to_size": c.summed_to,
    "t": lambda x: x.T,
    "t_copy": lambda x: x.T,
    "tensor_split": c.tensor_split,
    "tile": np.tile,
    "transpose": lambda x, dim0, dim1: np.swapaxes(x, dim0, dim1) if x.ndim else x,
    "transpose_copy": lambda x, dim0, dim1: np.swapaxes(x, dim0, dim1) if x.ndim else x,
    "tril": np.tril,
    "triu": np.triu,
    "unbind": lambda x, dim=0: list(np.moveaxis(x, dim, 0)),
    "unbind_copy": lambda x, dim=0: list(np.moveaxis(x, dim, 0)),
    "unflatten": lambda x, dim, sizes: x.reshape(x.shape[:dim] + tuple(sizes) + x.shape[dim % x.ndim + 1 :]),
    "unfold": c.unfold,
    "unfold_copy": c.unfold,
    "unsafe_chunk": c.chunks,
    "unsafe_split": c.pieces,
    "unsqueeze": np.expand_dims,
    "unsqueeze_copy": np.expand_dims,
    "view": lambda x, shape: x.reshape(shape),
    "view_as": lambda x, y: x.reshape(y.shape),
    "view_copy": lambda x, shape: x.reshape(shape),
    "vsplit": np.vsplit,
    "vstack": np.vstack,
}


def _each(f: Callable[..., Any], xs: Any) -> Any:
    if isinstance(xs[0], (tuple, list)):
        xs = xs[0]
    return [f(x) for x in xs]


def _expand(x: Any, *shape: Any) -> Any:
    """Repeat an array along axes of one; -1 leaves an axis as it is."""
    shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    wide = (1,) * (len(shape) - x.ndim) + x.shape
    return np.broadcast_to(x, [old if new == -1 else new for new, old in zip(shape, wide, strict=True)])


def _flatten(x: Any, start: int, end: int) -> Any:
    if x.ndim == 0:
        return x.reshape(1)
    start, end = start % x.ndim, end % x.ndim
    return x.reshape(*x.shape[:start], int(np.prod(x.shape[start : end + 1])), *x.shape[end + 1 :])


def _squeeze(x: Any, dim: Any) -> Any:
    dims = range(x.ndim) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    return np.squeeze(x, tuple(d for d in dims if x.ndim and x.shape[d] == 1))


def _pad(x: Any, pad: Any, mode: str, value: Any = 0) -> Any:
    """Pad the last axes first."""
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    if mode == "circular":  # what is cut off does not come round
        return layers.padded(layers.cropped(x, pairs), [(max(a, 0), max(b, 0)) for a, b in pairs], mode="wrap")
    if mode == "constant":
        return layers.padded(x, pairs, constant_values=0 if value is None else value)
    return layers.padded(x, pairs, mode={"reflect": "reflect", "replicate": "edge"}[mode])


def _grouped(x: Any, groups: int) -> Any:
    return x.reshape(x.shape[0], groups, -1, *x.shape[2:])


def _shuffled(x: Any, r: int) -> Any:
    *batch, channels, height, width = x.shape
    x = x.reshape(*batch, channels // r**2, r, r, height, width)
    return np.moveaxis(x, (-4, -3), (-3, -1)).reshape(*batch, channels // r**2, height * r, width * r)


def _unshuffled(x: Any, r: int) -> Any:
    *batch, channels, height, width = x.shape
    x = x.reshape(*batch, channels, height // r, r, width // r, r)
    return np.moveaxis(x, (-3, -1), (-4, -3)).reshape(*batch, channels * r**2, height // r, width // r)


_INDEXING: Calls = {
    "__getitem__": lambda x, key: x[key],
    "argsort": c.lined(lambda x, dim=-1, descending=False, stable=False: c.sorted_with_places(x, dim, descending)[1]),
    "argwhere": np.argwhere,
    "as_strided": lambda x, *args, **options: x.ravel()[c.strided(x, *args, **options)],
    "as_strided_copy": lambda x, *args, **options: x.ravel()[c.strided(x, *args, **options)],
    "as_strided_scatter": c.strided_scatter,
    "bucketize": lambda x, at, out_int32=False, right=False: np.searchsorted(at, x, "right" if right else "left"),
    "fill": lambda x, value: np.full_like(x, value),
    "gather": c.gather,
    "histc": lambda x, bins=100, min=0, max=0: np.histogram(x, bins, None if min == max else (min, max))[0].astype(
        x.dtype
    ),
    "histogram": lambda x, bins, range=None, weight=None, density=False: np.histogram(x, bins, range, density, weight),
    "item": lambda x: x.item(),
    "index_add": lambda x, dim, at, src, alpha=1: c.replaced(x, dim, at, alpha * src, add=True),
    "index_copy": c.replaced,
    "index_fill": lambda x, dim, at, value: c.replaced(x, dim, at, value),
    "index_put": c.index_put,
    "index_reduce": c.scatter_reduce,
    "index_select": c.lined(lambda x, dim, at: np.take(x, at, dim)),
    "kthvalue": c.lined(c.kthvalue),
    "masked_fill": lambda x, mask, value: np.where(mask, value, x),
    "masked_scatter": c.masked_scatter,
    "masked_select": lambda x, mask: (lambda shape: np.broadcast_to(x, shape)[np.broadcast_to(mask, shape)])(
        np.broadcast_shapes(x.shape, mask.shape)
    ),
    "msort": lambda x: np.sort(x, 0),
    "nonzero": lambda x, as_tuple=False: np.nonzero(np.atleast_1d(x)) if as_tuple else np.argwhere(x),
    "put": c.put,
    "scatter": c.scatter,
    "scatter_add": lambda x, dim, index, src: c.scatter(x, dim, index, src, "add"),
    "scatter_reduce": c.scatter_reduce,
    "searchsorted": c.searchsorted,
    "sort": c.lined(c.sorted_with_places),
    "take": lambda x, at: np.take(x, at),
    "take_along_dim": lambda x, at, dim=None: np.take_along_axis(x, at.ravel() if dim is None else at, dim),
    "topk": c.lined(c.topk),
    "unique": c.unique,
    "unique_consecutive": c.unique_neighbours,
    "where": lambda x, mask, y: np.where(mask, x, y),
}

_CREATION: Calls = {
    "arange": lambda *args, end=None, dtype=None: np.arange(*args, *([] if end is None else [end]), dtype=dtype),
    "eye": lambda n, m=None, *, dtype=None: np.eye(n, m, dtype=dtype),
    "full": lambda shape, value, *, dtype=None: np.full(shape, value, dtype),
    "full_like": lambda x, value, *, dtype=None: np.full_like(x, value, dtype),
    "linspace": lambda start, end, steps, *, dtype=None: np.linspace(
        c.double(start), c.double(end), steps, dtype=dtype
    ),
    "logspace": lambda start, end, steps, base=10, *, dtype=None: np.logspace(
        c.double(start), c.double(end), steps, base=base, dtype=dtype
    ),
    "new_full": lambda x, shape, value, *, dtype=None: np.full_like(x, value, dtype, shape=shape),
    "new_ones": lambda x, shape, *, dtype=None: np.ones_like(x, dtype, shape=shape),
    "new_zeros": lambda x, shape, *, dtype=None: np.zeros_like(x, dtype, shape=shape),
    "ones": lambda *shape, dtype=None: np.ones(shape[0] if isinstance(shape[0], tuple) else shape, dtype),
    "ones_like": lambda x, *, dtype=None: np.ones_like(x, dtype),
    "scalar_tensor": lambda value, *, dtype=None: np.array(value, dtype),
    "to": lambda x, *args: c.cast(
        x, next(getattr(y, "dtype", y) for y in args if isinstance(y, np.dtype) or hasattr(y, "dtype"))
    ),
    "zero_": np.zeros_like,
    "zeros": lambda *shape, dtype=None: np.zeros(shape[0] if isinstance(shape[0], tuple) else shape, dtype),
    "zeros_like": lambda x, *, dtype=None: np.zeros_like(x, dtype),
    **{
        name: (lambda kind: lambda x: c.cast(x, kind))(kind)
        for name, kind in {
            "bool": np.bool_,
            "byte": np.uint8,
            "cdouble": np.complex128,
            "cfloat": np.complex64,
            "char": np.int8,
            "double": np.float64,
            "float": np.float32,
            "half": np.float16,
            "int": np.int32,
            "long": np.int64,
            "short": np.int16,
        }.items()
    },
}

_LINALG: Calls = {
    "cdist": lambda x, y, p=2.0, mode=None: np.linalg.vector_norm(
        x[..., :, None, :] - y[..., None, :, :], ord=p, axis=-1
    ),
    "cholesky_inverse": lambda a, upper=False: np.linalg.inv(_gram(a, upper)),
    "cholesky_solve": lambda b, a, upper=False: np.linalg.solve(_gram(a, upper), b),
    "linalg.cholesky": lambda a, upper=False: np.linalg.cholesky(a, upper=upper),
    "linalg.cholesky_ex": lambda a, upper=False: [np.linalg.cholesky(a, upper=upper), _well(a)],
    "linalg.cond": lambda a, p=None: np.linalg.cond(a, p),
    "linalg.cross": lambda x, y, *, dim=-1: np.cross(x, y, axis=dim),
    "linalg.det": np.linalg.det,
    "linalg.diagonal": lambda a, *, offset=0, dim1=-2, dim2=-1: np.diagonal(a, offset, dim1, dim2),
    "linalg.eig": np.linalg.eig,
    "linalg.eigh": np.linalg.eigh,
    "linalg.eigvals": np.linalg.eigvals,
    "linalg.eigvalsh": np.linalg.eigvalsh,
    "linalg.householder_product": lambda v, tau: c.reflections(v, tau)[..., : v.shape[-1]],
    "linalg.inv": np.linalg.inv,
    "linalg.inv_ex": lambda a: [np.linalg.inv(a), _well(a)],
    "linalg.lstsq": lambda a, b, driver=None: [np.linalg.lstsq(a, b)[0] if a.ndim == 2 else np.linalg.pinv(a) @ b],
    "linalg.lu": lambda a, *, pivot=True: linalg.lu(a) if a.size else c.lu_parts(*c.lu_factor(a)),
    "linalg.lu_factor": c.lu_factor,
    "linalg.lu_factor_ex": lambda a, pivot=True: [*c.lu_factor(a), _well(a)],
    "linalg.lu_solve": c.lu_solve,
    "linalg.matrix_norm": lambda a, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None: np.linalg.norm(
        c.cast(a, dtype), ord, tuple(dim), keepdim
    ),
    "linalg.matrix_power": np.linalg.matrix_power,
    "linalg.matrix_rank": c.matrix_rank,
    "linalg.multi_dot": lambda xs: np.linalg.multi_dot(xs),
    "linalg.norm": c.norm,
    "linalg.pinv": lambda a, rcond=None, *, rtol=None, atol=None, hermitian=False: np.linalg.pinv(
        a, rtol=rtol, hermitian=hermitian
    ),
    "linalg.pinv/singular": lambda a, b: np.linalg.pinv(a @ b.mT),
    "linalg.qr": lambda a, mode="reduced": np.linalg.qr(a, mode),
    "linalg.slogdet": np.linalg.slogdet,
    "linalg.solve": c.solve,
    "linalg.solve_ex": lambda a, b, left=True: [c.solve(a, b, left=left), _well(a)],
    "linalg.solve_triangular": c.solve_triangular,
    "linalg.svd": lambda a, full_matrices=True: np.linalg.svd(a, full_matrices),
    "linalg.svdvals": np.linalg.svdvals,
    "linalg.tensorinv": lambda a, ind=2: np.linalg.tensorinv(a, ind),
    "linalg.tensorsolve": lambda a, b, dims=None: np.linalg.tensorsolve(a, b, dims),
    "linalg.vander": lambda x, *, N=None: np.atleast_1d(x)[..., None] ** np.arange(x.shape[-1] if N is None else N),
    "linalg.matrix_sqrth": linalg.sqrtm,
    "linalg.polar": linalg.polar,
    "linalg.vecdot": lambda x, y, *, dim=-1: np.vecdot(x, y, axis=dim),
    "linalg.vector_norm": c.vector_norm,
    "logdet": lambda a: np.log(np.linalg.det(a)),
    "lu": lambda a, pivot=True, get_infos=False: (
        *c.lu_factor(a),
        *([np.zeros(a.shape[:-2], int)] if get_infos else []),
    ),
    "lu_solve": lambda b, lu, pivots: c.lu_solve(lu, pivots, b),
    "lu_unpack": c.lu_parts,
    "matrix_exp": linalg.expm,
    "ormqr": c.ormqr,
    "pinverse": np.linalg.pinv,
    "renorm": c.renorm,
    "svd": lambda a, some=True: np.linalg.svd(a, not some),
    "triangular_solve": lambda b, a, upper=True, transpose=False, unitriangular=False: [
        c.solve_triangular(a, b, upper=upper, transpose=transpose, unitriangular=unitriangular),
        np.copy(a),
    ],
}


def _well(a: Any) -> Any:
    """Return the codes that say that nothing went wrong."""
    return np.zeros(a.shape[:-2], int)


def _gram(a: Any, upper: bool) -> Any:
    """Return the matrix of a factor."""
    a = c.triangle(upper)(a)
    return np.conj(a.mT) @ a if upper else a @ np.conj(a.mT)


_FFT: Calls = {
    "fft.fftshift": lambda x, dim=None: np.fft.fftshift(x, dim),
    "fft.ifftshift": lambda x, dim=None: np.fft.ifftshift(x, dim),
    "fft.hfft2": c.fftn(c.hfftn, (-2, -1)),
    "fft.hfftn": c.fftn(c.hfftn),
    "fft.ihfft2": c.fftn(c.ihfftn, (-2, -1)),
    "fft.ihfftn": c.fftn(c.ihfftn),
    **{f"fft.{name}": c.fft(getattr(np.fft, name)) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{f"fft.{name}": c.fftn(getattr(np.fft, name), (-2, -1)) for name in ("fft2", "ifft2", "rfft2", "irfft2")},
    **{f"fft.{name}": c.fftn(getattr(np.fft, name)) for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    "istft": c.istft,
    "stft": c.stft,
}

_SPECIAL: Calls = {
    "digamma": special.digamma,
    "erf": special.erf,
    "erfc": special.erfc,
    "erfinv": special.erfinv,
    "i0": np.i0,
    "igamma": special.gammainc,
    "igammac": special.gammaincc,
    "lgamma": special.gammaln,
    "log_softmax": lambda x, dim, *, dtype=None: c.softmax(x, dim, dtype, special.log_softmax),
    "logit": c.logit,
    "mvlgamma": special.multigammaln,
    "nn.functional.softmin": lambda x, dim, *, dtype=None: c.softmax(-x, dim, dtype),
    "polygamma": lambda x, n: special.polygamma(n, x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)) if np.iscomplexobj(x) else special.expit(x),
    "_softmax_backward_data": lambda ct, shares, dim, dtype: shares * (ct - np.sum(ct * shares, dim, keepdims=True)),
    "softmax": lambda x, dim, *, dtype=None: c.softmax(x, dim, dtype),
    "special.airy_ai": lambda x: special.airy(x)[0],
    "special.bessel_j0": special.j0,
    "special.bessel_j1": special.j1,
    "special.bessel_y0": special.y0,
    "special.bessel_y1": special.y1,
    "special.entr": special.entr,
    "special.erfcx": special.erfcx,
    "special.i0e": special.i0e,
    "special.i1": special.i1,
    "special.i1e": special.i1e,
    "special.log_ndtr": special.log_ndtr,
    "special.modified_bessel_i0": special.i0,
    "special.modified_bessel_i1": special.i1,
    "special.modified_bessel_k0": special.k0,
    "special.modified_bessel_k1": special.k1,
    "special.ndtr": special.ndtr,
    "special.ndtri": special.ndtri,
    "special.polygamma": lambda x, n: special.polygamma(n, x),
    "special.scaled_modified_bessel_k0": special.k0e,
    "special.scaled_modified_bessel_k1": special.k1e,
    "special.spherical_bessel_j0": lambda x: np.sinc(x / np.pi),
    "special.xlog1py": special.xlog1py,
    "special.zeta": special.zeta,
    "xlogy": special.xlogy,
    # PyTorch cuts the degree to a whole number.
    **{
        f"special.{name}": (lambda f: lambda x, n: np.where(n <= -1, 0, f(np.maximum(n, 0).astype(int), x)))(f)
        for name, f in {
            "chebyshev_polynomial_t": special.eval_chebyt,
            "chebyshev_polynomial_u": special.eval_chebyu,
            "chebyshev_polynomial_v": lambda n, x: special.eval_chebyu(n, x) - special.eval_chebyu(n - 1, x),
            "chebyshev_polynomial_w": lambda n, x: special.eval_chebyu(n, x) + special.eval_chebyu(n - 1, x),
            "hermite_polynomial_h": special.eval_hermite,
            "hermite_polynomial_he": special.eval_hermitenorm,
            "laguerre_polynomial_l": special.eval_laguerre,
            "legendre_polynomial_p": special.eval_legendre,
            "shifted_chebyshev_polynomial_t": special.eval_sh_chebyt,
            "shifted_chebyshev_polynomial_u": special.eval_sh_chebyu,
            "shifted_chebyshev_polynomial_v": lambda n, x: (
                special.eval_sh_chebyu(n, x) - special.eval_sh_chebyu(n - 1, x)
            ),
            "shifted_chebyshev_polynomial_w": lambda n, x: (
                special.eval_sh_chebyu(n, x) + special.eval_sh_chebyu(n - 1, x)
            ),
        }.items()
    },
}

_ACTIVATIONS: Calls = {
    "nn.functional.celu": lambda x, alpha=1.0: np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0),
    "nn.functional.elu": lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    "nn.functional.gelu": lambda x, *, approximate="none": (
        x * special.ndtr(x)
        if approximate == "none"
        else 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    ),
    "nn.functional.glu": lambda x, dim=-1: (lambda a, b: a * special.expit(b))(*np.split(x, 2, dim)),
    "nn.functional.hardshrink": lambda x, lambd=0.5: np.where((x >= -lambd) & (x <= lambd), 0, x),
    "nn.functional.hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "nn.functional.hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "nn.functional.hardtanh": lambda x, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val),
    "nn.functional.leaky_relu": lambda x, negative_slope=0.01: np.where(x > 0, x, negative_slope * x),
    "nn.functional.logsigmoid": special.log_expit,
    "nn.functional.mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "nn.functional.prelu": lambda x, weight: np.where(
        x > 0, x, x * (weight.reshape(()) if weight.size == 1 else weight.reshape((-1,) + (1,) * (x.ndim - 2)))
    ),
    "nn.functional.relu": lambda x: np.maximum(x, 0),
    "nn.functional.relu6": lambda x: np.clip(x, 0, 6),
    "nn.functional.selu": lambda x: (
        1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))
    ),
    "nn.functional.silu": lambda x: x / (1 + np.exp(-x)),
    "nn.functional.softplus": lambda x, beta=1, threshold=20: np.where(
        x * beta > threshold, x, np.logaddexp(beta * x, 0) / beta
    ),
    "nn.functional.softshrink": lambda x, lambd=0.5: x - np.clip(x, -lambd, lambd),
    "nn.functional.softsign": lambda x: x / (1 + np.abs(x)),
    "nn.functional.tanhshrink": lambda x: x - np.tanh(x),
    "nn.functional.threshold": lambda x, threshold, value: np.where(x > threshold, x, value),
}

_LAYERS: Calls = {
    "nn.functional.batch_norm": layers.batch_norm,
    "nn.functional.bilinear": lambda x, y, w, b=None: (
        np.einsum("...i,oij,...j->...o", x, w, y) + (0 if b is None else b)
    ),
    "nn.functional.embedding": lambda table, at: table[at],
    "nn.functional.embedding_bag": c.embedding_bag,
    "native_dropout_backward": lambda x, mask, scale: x * mask * scale,
    "nn.functional.feature_alpha_dropout/without_train": lambda x, p=0.5, training=False: np.copy(x),
    "nn.functional.group_norm": layers.group_norm,
    "nn.functional.instance_norm": layers.instance_norm,
    "nn.functional.interpolate": layers.resized,
    "nn.functional.layer_norm": layers.layer_norm,
    "nn.functional.linear": lambda x, w, b=None: x @ w.T + (0 if b is None else b),
    "nn.functional.local_response_norm": layers.local_response_norm,
    "nn.functional.normalize": c.normalized,
    "nn.functional.rms_norm": layers.rms_norm,
    "nn.functional.scaled_dot_product_attention": layers.observing,
    "nn.functional.unfold": lambda x, kernel_size, dilation=1, padding=0, stride=1: _columns(
        x, layers.each(kernel_size, 2), stride, padding, dilation
    ),
    "nn.functional.upsample_bilinear": lambda x, size=None, scale_factor=None: layers.resized(
        x, size, scale_factor, "bilinear", True, True
    ),
    "nn.functional.upsample_nearest": lambda x, size=None, scale_factor=None: layers.resized(x, size, scale_factor),
}
for _n in (1, 2, 3):
    _LAYERS[f"nn.functional.conv{_n}d"] = layers.conv(_n)
    _LAYERS[f"nn.functional.conv_transpose{_n}d"] = layers.conv_transpose(_n)
    _LAYERS[f"nn.functional.max_pool{_n}d"] = layers.max_pool(_n)
    _LAYERS[f"nn.functional.max_unpool{_n}d"] = layers.max_unpool(_n)
    _LAYERS[f"nn.functional.avg_pool{_n}d"] = layers.average_pool(_n)
    _LAYERS[f"nn.functional.adaptive_avg_pool{_n}d"] = layers.adaptive_average_pool(_n)
    _LAYERS[f"nn.functional.adaptive_max_pool{_n}d"] = layers.adaptive_max_pool(_n)


def _columns(x: Any, kernel: Any, *settings: Any) -> Any:
    """Return the pieces that a kernel sees as columns."""
    seen = np.moveaxis(layers.windows(x, kernel, *settings), (-4, -3), (-2, -1))
    rows = x.shape[-3] * int(np.prod(kernel))
    return seen.reshape(*x.shape[:-3], rows, int(np.prod(seen.shape[-2:])))


_LOSSES: Calls = {
    "nn.functional.binary_cross_entropy": lambda x, y, weight=1, reduction="mean": weighed(
        -weight * (y * np.maximum(np.log(x), -100) + (1 - y) * np.maximum(np.log1p(-x), -100)), reduction
    ),
    "nn.functional.binary_cross_entropy_with_logits": lambda x, y, weight=1, reduction="mean", pos_weight=1: weighed(
        -weight * (pos_weight * y * special.log_expit(x) + (1 - y) * special.log_expit(-x)), reduction
    ),
    "nn.functional.cosine_embedding_loss": lambda x, y, sign, margin=0, reduction="mean": weighed(
        np.where(sign == 1, 1 - _cosines(x, y), np.where(sign == -1, np.maximum(_cosines(x, y) - margin, 0), 0)),
        reduction,
    ),
    "nn.functional.cosine_similarity": c.cosine_similarity,
    "nn.functional.cross_entropy": layers.cross_entropy,
    "nn.functional.gaussian_nll_loss": c.gaussian_nll,
    "nn.functional.hinge_embedding_loss": lambda x, y, margin=1.0, reduction="mean": weighed(
        np.where(y != -1, x, 0) + np.where(y != 1, np.maximum(margin - x, 0), 0), reduction
    ),
    "nn.functional.huber_loss": lambda x, y, reduction="mean", delta=1.0: weighed(
        special.huber(delta, x - y), reduction
    ),
    "nn.functional.kl_div": lambda x, y, reduction="mean", log_target=False: _divergence(x, y, reduction, log_target),
    "nn.functional.l1_loss": lambda x, y, reduction="mean": weighed(np.abs(x - y), reduction),
    "nn.functional.linear_cross_entropy": layers.linear_cross_entropy,
    "nn.functional.margin_ranking_loss": lambda x, y, sign, margin=0, reduction="mean": weighed(
        np.maximum(-sign * (x - y) + margin, 0), reduction
    ),
    "nn.functional.mse_loss": lambda x, y, reduction="mean": weighed((x - y) ** 2, reduction),
    "nn.functional.multi_margin_loss": lambda x, y, p=1, margin=1.0, weight=None, reduction="mean": _margins(
        x, y, p, margin, weight, reduction
    ),
    "nn.functional.multilabel_margin_loss": layers.multilabel_margin,
    "nn.functional.multilabel_soft_margin_loss": lambda x, y, weight=1, reduction="mean": weighed(
        np.mean(-weight * (y * special.log_expit(x) + (1 - y) * special.log_expit(-x)), -1), reduction
    ),
    "nn.functional.nll_loss": layers.nll_loss,
    "nn.functional.pairwise_distance": c.pairwise,
    "nn.functional.pdist": lambda x, p=2.0: (lambda i, j: np.linalg.vector_norm(x[i] - x[j], ord=p, axis=-1))(
        *np.triu_indices(len(x), 1)
    ),
    "nn.functional.poisson_nll_loss": lambda x, y, log_input=True, full=False, eps=1e-8, reduction="mean": weighed(
        (np.exp(x) - y * x if log_input else x - y * np.log(x + eps))
        + full * np.where(y > 1, y * np.log(y) - y + 0.5 * np.log(2 * np.pi * y), 0),
        reduction,
    ),
    "nn.functional.smooth_l1_loss": lambda x, y, reduction="mean", beta=1.0: weighed(
        special.huber(beta, x - y) / beta if beta else np.abs(x - y), reduction
    ),
    "nn.functional.soft_margin_loss": lambda x, y, reduction="mean": weighed(np.logaddexp(-y * x, 0), reduction),
    "nn.functional.triplet_margin_loss": c.triplet_loss,
    "nn.functional.triplet_margin_with_distance_loss": lambda a, p, n, *, distance_function=None, **options: (
        c.triplet_loss(a, p, n, **options)
    ),
}


def _cosines(x: Any, y: Any) -> Any:
    """Return the cosines of rows, with the small number that PyTorch adds to squares."""
    return np.sum(x * y, -1) / np.sqrt((np.sum(x * x, -1) + 1e-12) * (np.sum(y * y, -1) + 1e-12))


def _divergence(x: Any, y: Any, reduction: str, log_target: bool) -> Any:
    loss = np.exp(y) * (y - x) if log_target else special.xlogy(y, y) - y * x
    return np.sum(loss) / len(x) if reduction == "batchmean" else weighed(loss, reduction)


def _margins(x: Any, y: Any, p: int, margin: float, weight: Any, reduction: str) -> Any:
    """Return how far other classes come near the right one."""
    x, y = np.atleast_2d(x), np.atleast_1d(y)
    right = np.take_along_axis(x, y[:, None], 1)
    weights = 1 if weight is None else weight[y][:, None]
    terms = np.where(np.arange(x.shape[1]) == y[:, None], 0, weights * np.maximum(margin - right + x, 0) ** p)
    losses = np.sum(terms, 1) / x.shape[1]
    return weighed(losses, reduction)


_MASKED: Calls = {
    "masked.amax": masked(np.max, initial=-np.inf),
    "masked.amin": masked(np.min, initial=np.inf),
    "masked.argmax": c.masked_place(np.argmax, -np.inf),
    "masked.argmin": c.masked_place(np.argmin, np.inf),
    "masked.cumprod": c.lined(masked_line(np.cumprod, 1.0)),
    "masked.cumsum": c.lined(masked_line(np.cumsum, 0.0)),
    "masked.log_softmax": masked_line(lambda x, dim: c.softmax(x, dim, None, special.log_softmax), -np.inf),
    "masked.logaddexp": lambda x, y, *, input_mask=None, other_mask=None: np.logaddexp(
        _shown(x, input_mask), _shown(y, other_mask)
    ),
    "masked.logsumexp": c.masked_logsumexp,
    "masked.mean": masked(np.mean),
    "masked.median": lambda x, dim, keepdim=False, *, mask=None: c.lined(c.nanmedian)(
        x if mask is None else np.where(mask, x, np.nan), dim, keepdim
    )[0],
    "masked.norm": c.masked_norm,
    "masked.normalize": lambda x, ord, dim, *, eps=1e-12, mask=None: c.normalized(
        x if mask is None else np.where(mask, x, 0), ord, dim, eps
    ),
    "masked.prod": masked(np.prod),
    "masked.softmax": masked_line(c.softmax, -np.inf),
    "masked.softmin": masked_line(lambda x, dim: c.softmax(-x, dim), np.inf),
    "masked.std": masked_spread(np.std),
    "masked.sum": masked(np.sum),
    "masked.var": masked_spread(np.var),
}


def _shown(x: Any, mask: Any) -> Any:
    return x if mask is None else np.where(mask, x, -np.inf)


_WINDOWS: Calls = {
    f"signal.windows.{name}": (lambda f: lambda n, *, dtype=None, **options: f(n, **options).astype(dtype))(
        getattr(scipy.signal.windows, name)
    )
    for name in ("bartlett", "blackman", "cosine", "gaussian", "general_cosine", "general_hamming", "hamming", "hann")
} | {
    "signal.windows.exponential": lambda n, *, tau=1.0, sym=True, center=None, dtype=None: (
        scipy.signal.windows.exponential(n, center, tau, sym)
    ),
    "signal.windows.kaiser": lambda n, *, beta=12.0, sym=True, dtype=None: scipy.signal.windows.kaiser(
        n, beta, sym=sym
    ),
    "signal.windows.nuttall": lambda n, *, sym=True, dtype=None: scipy.signal.windows.general_cosine(
        n, [0.3635819, 0.4891775, 0.1365995, 0.0106411], sym
    ),
}

CALLS: Calls = {
    **_UFUNCS,
    **_ARITHMETIC,
    **_REDUCTIONS,
    **_SHAPES,
    **_INDEXING,
    **_CREATION,
    **_LINALG,
    **_FFT,
    **_SPECIAL,
    **_ACTIVATIONS,
    **_LAYERS,
    **_LOSSES,
    **_MASKED,
    **_WINDOWS,
}


def _common(s: Any) -> slice:
    return slice(s.shape[-1])


COMPARED: Calls = {
    "linalg.eig": lambda w, v: (w, abs(v)),
    "linalg.eigh": lambda w, v: (w, abs(v)),
    "linalg.svd": lambda u, s, vh: (abs(u[..., :, _common(s)]), s, abs(vh[..., _common(s), :])),
    "svd": lambda u, s, v: (abs(u[..., :, _common(s)]), s),
    "linalg.lstsq": lambda x, *rest: (x,),
}

LEFT_OUT: dict[str, str] = {
    "edges in no order, which NumPy refuses": """
        histogramdd""",
    "random": """
        bernoulli cauchy exponential geometric log_normal multinomial nn.functional.alpha_dropout
        nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d
        nn.functional.feature_alpha_dropout/with_train nn.functional.fractional_max_pool2d
        nn.functional.fractional_max_pool3d nn.functional.multi_head_attention_forward nn.functional.rrelu
        normal normal/in_place normal/number_mean pca_lowrank rand_like randint randint_like randn randn_like
        svd_lowrank uniform""",
    "memory without values": """
        empty empty_like empty_permuted empty_strided new_empty new_empty_strided""",
    "in place, with other sizes of what is there": """
        as_strided/partial_views resize_ resize_as_""",
    "no samples of double precision": """
        __rand__ __ror__ __rxor__ bincount bitwise_and bitwise_left_shift bitwise_not bitwise_or
        bitwise_right_shift bitwise_xor broadcast_shapes gcd lcm nn.functional.one_hot torch._scaled_mm
        torch._scaled_mm_v2 torch.ops.aten._efficient_attention_forward torch.ops.aten._flash_attention_forward
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu tril_indices triu_indices unravel_index""",
    "for other devices": """
        bmm/triton_optimized jiterator_2inputs_2outputs jiterator_4inputs_with_extra_args jiterator_binary
        jiterator_binary_return_by_ref jiterator_unary nn.functional.batch_norm/without_cudnn""",
    "an inner form of what is run by another name": """
        _batch_norm_with_update _chunk_cat _native_batch_norm_legit _segment_reduce/lengths
        _segment_reduce/offsets _unsafe_masked_index _unsafe_masked_index_put_accumulate
        max_pool2d_with_indices_backward native_batch_norm native_group_norm native_layer_norm
        torch.ops.aten._safe_softmax.default""",
    "types of numbers that NumPy has not": """
        bfloat16 chalf""",
    "sparse arrays": """
        sparse.mm/reduce sparse.sampled_addmm to_sparse""",
    "no counterpart in NumPy or SciPy": """
        _upsample_bilinear2d_aa geqrf grid_sampler_2d grid_sampler_3d hash_tensor linalg.ldl_factor
        linalg.ldl_factor_ex linalg.ldl_solve nn.functional.ctc_loss nn.functional.grid_sample nonzero_static""",
}


def hermitian(a: Any) -> Any:
    """Return what a function of a Hermitian matrix is to read, wherever it reads it."""
    return (a + a.mT.conj()) / 2


_OF_HERMITIAN = ("cholesky", "cholesky_ex", "eigh", "eigvalsh", "matrix_sqrth", "pinv/hermitian")
PREPARED: Calls = {f"linalg.{name}": hermitian for name in _OF_HERMITIAN}


class Refused(NamedTuple):
    """The error with which fgrad refuses, and why that is right."""

    error: type[Exception]
    reason: str


ROUNDED: dict[str, str] = {
    "cov": "weights of single precision are multiplied as such",
    **dict.fromkeys(
        [f"special.bessel_{name}" for name in ("j0", "j1", "y1")], "polynomials with seven digits near the roots"
    ),
}

_TRIANGLE = "PyTorch's gradient is also in the triangle that is not read"

DIFFERS: dict[str, str] = {
    "as_strided_scatter": "PyTorch's gradient is also in an element that was replaced, if that is the only one",
    "cholesky_inverse": _TRIANGLE,
    "cholesky_solve": _TRIANGLE,
    "masked.logaddexp": "PyTorch's second derivative is nan where one of two is -inf",
    **dict.fromkeys(
        [f"nn.functional.linear_cross_entropy/{name}" for name in ("chunked", "chunked_none")],
        "PyTorch's gradient is a constant to the next pass",
    ),
    **dict.fromkeys(
        [f"nn.functional.max_unpool{n}d" for n in (1, 2, 3)],
        "of elements that go to one place the last one stays; PyTorch's gradient is all of theirs",
    ),
    "linalg.norm/subgradients_at_zero": "of the subgradients at zero fgrad takes the smallest",
}

_VALUES = "what Python decides by needs values"

REFUSED: dict[str, Refused] = {
    "allclose": Refused(ConcretizationError, _VALUES),
    "argwhere": Refused(ConcretizationError, "the shape depends on values"),
    "equal": Refused(ConcretizationError, _VALUES),
    "item": Refused(ConcretizationError, _VALUES),
    "unique": Refused(ConcretizationError, "the shape depends on values"),
    "unique_consecutive": Refused(ConcretizationError, "the shape depends on values"),
    "nonzero": Refused(ConcretizationError, "the shape depends on values"),
    "linalg.matrix_rank": Refused(ConcretizationError, "a tolerance decides by its value"),
    "linalg.pinv": Refused(
        NoDerivativeError, "the derivative in PyTorch leaves out what singular values that are dropped do"
    ),
}

NO_SECOND: dict[str, str] = {"linalg.norm/subgradients_at_zero": "there is none at a kink"}
