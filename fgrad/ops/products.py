"""Products made of `matmul` and `multiply`: products of vectors along an axis, Kronecker and cross products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.core.masked import Masked
from fgrad.core.primitive import ZERO, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import aligned
from fgrad.ops.families import answers, answers_form, plain_axis, register, sample
from fgrad.ops.matrices import conjugated
from fgrad.ops.patterns import as_einsum
from fgrad.ops.rearranging import axis_index
from fgrad.ops.shaping import reshape, reshaped
from fgrad.typing import Array, ArrayLike, Operand

CORES = {"matmul": (2, 2, 2), "vecdot": (1, 1, 0), "matvec": (2, 1, 1), "vecmat": (1, 2, 1)}
"""Numbers of core axes of the arguments and the result of NumPy's generalized ufuncs."""


def _core_last(name: str, x: Operand, y: Array, axes: Any) -> tuple[Any, Any, Any]:
    """Return arguments with their core axes, given by `axes`, moved last, and the core axes of the result."""
    arrays: list[Any] = [as_array(each) for each in (x, y)]
    counts = CORES[name]
    for place, (each, count) in enumerate(zip(arrays, counts[:2], strict=True)):
        if each.ndim < count:
            raise ValueError(
                f"{name}: Input operand {place} does not have enough dimensions (has {each.ndim}, "
                f"gufunc core requires {count})"
            )
    if axes is None:
        return *arrays, None
    named = [(each,) if np.ndim(each) == 0 else tuple(each) for each in axes]
    named += [tuple(range(-count, 0)) for count in counts[len(named) :]]
    moved = (np.moveaxis(each, own, range(-len(own), 0)) for each, own in zip(arrays, named[:2], strict=True))
    return *moved, named[2]


def _placed(result: Any, axes: Any) -> Any:
    """Return a result with its core axes moved to the requested positions."""
    return np.moveaxis(result, range(-len(axes), 0), axes) if axes else result


def vecdot(x1: Any, x2: Any, /, *, axis: object = None, axes: object = None, keepdims: bool = False) -> Any:
    """Return the products of vectors along an axis, the first one conjugated."""
    axis = None if axis is None else plain_axis(axis)
    x, y, own = _core_last("vecdot", x1, x2, axes if axis is None else [axis, axis, axis])
    product = np.matmul(conjugated(x)[..., None, :], y[..., :, None])
    if not keepdims:
        return reshaped(product, product.shape[:-2])  # of vectors a number, and no view
    return _placed(reshape(product, product.shape[:-1]), own)


def matvec(x1: Any, x2: Any, /, *, axes: object = None) -> Any:
    """Return the products of matrices with vectors."""
    x, y, own = _core_last("matvec", x1, x2, axes)
    product = np.matmul(x, y[..., :, None])
    return _placed(reshape(product, product.shape[:-1]), own)


def vecmat(x1: Any, x2: Any, /, *, axes: object = None) -> Any:
    """Return the products of conjugated vectors with matrices."""
    x, y, own = _core_last("vecmat", x1, x2, axes)
    product = np.matmul(conjugated(x)[..., None, :], y)
    return _placed(reshape(product, (*product.shape[:-2], product.shape[-1])), own)


for _answer in (vecdot, matvec, vecmat):
    answers(getattr(np, _answer.__name__))(_answer)


@answers_form(np.matmul, "keywords")
def matmul_with_keywords(x1: Any, x2: Any, /, *, axes: object = None) -> Any:
    """Return the matrix product; `axes` gives the positions of the matrix axes."""
    x, y, own = _core_last("matmul", x1, x2, axes)
    return _placed(np.matmul(x, y), own)


@answers(np.kron)
def kron(a: ArrayLike, b: ArrayLike) -> Any:
    """Return the Kronecker product: each element of `a` times all of `b`."""
    a, b = as_array(a), as_array(b)
    ndim = max(a.ndim, b.ndim)
    a_shape = (1,) * (ndim - a.ndim) + tuple(a.shape)
    b_shape = (1,) * (ndim - b.ndim) + tuple(b.shape)
    left = reshape(a, tuple(size for each in a_shape for size in (each, 1)))
    right = reshape(b, tuple(size for each in b_shape for size in (1, each)))
    return reshape(np.multiply(left, right), tuple(m * n for m, n in zip(a_shape, b_shape, strict=True)))


_NEXT = [1, 2, 0]
_FEW = 300
"""Size up to which moving all elements is faster than computing with each component separately."""


def _crossed(a: Array, b: Array) -> Any:
    """Return the cross products of three-dimensional vectors along the last axes."""
    if max(a.size, b.size) > _FEW:
        return _by_parts(a, b)
    turned = a * np.take(b, _NEXT, -1) - np.take(a, _NEXT, -1) * b
    return np.take(turned, _NEXT, -1)


def _by_parts(a: Array, b: Array) -> Array:
    a1, a2, a3 = a[..., 0], a[..., 1], a[..., 2]
    b1, b2, b3 = b[..., 0], b[..., 1], b[..., 2]
    return np.stack((a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1), -1)


@np.errstate(all="ignore")
def _of_vectors(a: Array, b: Any) -> Any:
    """Return cross products, where one argument may be `Masked`: the mask is applied to each product of numbers."""
    return _by_parts(a, b) if Masked in (type(a), type(b)) else apply(_cross, (a, b))


def _cross_tangent(tangents: Sequence[Any], ans: Array, a: Array, b: Array) -> Any:
    ta, tb = tangents
    if ta is ZERO or tb is ZERO:
        return _of_vectors(a, tb) if ta is ZERO else _of_vectors(ta, b)
    return _of_vectors(ta, b) + _of_vectors(a, tb)


_cross: Primitive = register(
    Primitive(
        "cross",
        _crossed,
        (lambda ans, a, b: lambda ct: _of_vectors(b, ct), lambda ans, a, b: lambda ct: _of_vectors(ct, a)),
        _cross_tangent,
        lambda values, mapped, size, metadata: apply(_cross, aligned(values, mapped)),
        broadcasts=True,
        scales="both",
        samples=(
            sample((3,), (3,)),
            sample((2, 3), (3,)),
            sample((4, 1, 3), (2, 3)),
            sample((0, 3), (3,)),
            sample((3,), (102, 3)),
        ),
        pattern=as_einsum("a,b->c"),
    )
)


@answers(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """Return the cross products of two arrays of three-dimensional vectors."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = _with_axis_last(a, axisa, "axisa"), _with_axis_last(b, axisb, "axisb")
    sizes = a.shape[-1], b.shape[-1]
    if sizes != (3, 3):
        np.cross(np.zeros(sizes[0]), np.zeros(sizes[1]))  # NumPy's checks, messages and warnings
        a, b = _in_space(a), _in_space(b)
    product = apply(_cross, (a, b))
    if sizes == (2, 2):  # of vectors in the plane, the third component
        return product[..., 2]
    return product if axisc == -1 else np.moveaxis(product, -1, plain_axis(axisc))


def _with_axis_last(vectors: Any, axis: Any, name: str) -> Any:
    vectors = as_array(vectors)
    axis = axis_index(plain_axis(axis), vectors.ndim, name)
    return vectors if axis == vectors.ndim - 1 else np.moveaxis(vectors, axis, -1)


def _in_space(vectors: Any) -> Any:
    """Return vectors in the plane with a third element 0."""
    if vectors.shape[-1] == 3:
        return vectors
    return np.concatenate([vectors, np.zeros((*vectors.shape[:-1], 1), vectors.dtype)], axis=-1)


@answers(np.einsum_path)
def einsum_path(*operands: Any, **keywords: Any) -> tuple[list[Any], str]:
    """Return the best contraction order of `np.einsum`, which depends on shapes alone."""
    shown = [np.broadcast_to(0.0, x.shape) if hasattr(x, "shape") else x for x in operands]
    return np.einsum_path(*shown, **keywords)
