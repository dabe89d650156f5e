"""Contractions: `matmul`, and functions made of it and `einsum`: `dot`, `inner`, `outer`, `tensordot`."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.tensor import apply
from fgrad.ops import einsums
from fgrad.ops.batching import aligned, ndim_of
from fgrad.ops.contractions import contract, multilinear
from fgrad.ops.elementwise import in_c_order
from fgrad.ops.families import answers, plain_axis, sample
from fgrad.ops.indexing import written
from fgrad.ops.matrices import transposed
from fgrad.ops.patterns import Chain, Step, as_einsum
from fgrad.typing import Array, ArrayLike


def _ndims(x: object, y: object) -> tuple[int, int]:
    return getattr(x, "ndim", 0), getattr(y, "ndim", 0)


Shapes = tuple[tuple[int, ...], tuple[int, ...]]


@lru_cache(maxsize=4096)
def _pulled(argnum: int, shapes: Shapes) -> str:
    """Return the `einsum` subscripts for an argument's cotangent, from the cotangent and the other argument.

    Broadcast axes of size 1 are summed over.
    """
    stacks = [shape[:-2] for shape in shapes]
    labels = string.ascii_letters[: max(map(len, stacks))]
    rows, columns = "X" * (len(shapes[0]) > 1), "Z" * (len(shapes[1]) > 1)
    own = rows + "Y", "Y" + columns
    terms = [labels[len(labels) - len(stack) :] + each for stack, each in zip(stacks, own, strict=True)]
    kept = "".join(label for label, size in zip(terms[argnum], shapes[argnum], strict=True) if size != 1)
    return f"{labels}{rows}{columns},{terms[1 - argnum]}->{kept}"


def _stacked(argnum: int, ct: Any, other: Array, shapes: Shapes) -> Any:
    """Return the cotangent of a broadcast argument, or of vectors: one sum over all products."""
    return contract(einsums.primitive, (ct, other), {"subscripts": _pulled(argnum, shapes)}).reshape(shapes[argnum])


def _are_pairs(x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> bool:
    """Return whether both sides have the same number of matrices, so that no cotangents are summed."""
    return len(x_shape) > 1 and len(y_shape) > 1 and x_shape[:-2] == y_shape[:-2]


def _left_rule(ans: Array, x: Array, y: Any) -> Callable[[Any], Any]:
    ndims = _ndims(x, y)
    if ndims == (2, 2):
        return lambda ct: ct @ y.T
    if ndims == (1, 1):
        return lambda ct: ct * y
    if ndims == (2, 1):
        return lambda ct: ct[:, None] * y
    if ndims == (1, 2):
        return lambda ct: y @ ct
    shapes = np.shape(x), np.shape(y)
    if _are_pairs(*shapes):
        return lambda ct: ct @ transposed(y)
    return lambda ct: _stacked(0, ct, y, shapes)


def _right_rule(ans: Array, x: Any, y: Array) -> Callable[[Any], Any]:
    ndims = _ndims(x, y)
    if ndims == (2, 2):
        return lambda ct: x.T @ ct
    if ndims == (1, 1):
        return lambda ct: x * ct
    if ndims == (2, 1):
        return lambda ct: ct @ x
    if ndims == (1, 2):
        return lambda ct: x[:, None] * ct
    shapes = np.shape(x), np.shape(y)
    if _are_pairs(*shapes) or (ndims[0] == 2 < ndims[1]):
        return lambda ct: transposed(x) @ ct
    return lambda ct: _stacked(1, ct, x, shapes)


def _matmul_pattern(step: Step) -> Chain:
    x, y = (len(np.shape(arg)) > 1 for arg in step.args)
    return as_einsum(f"{'i' * x}k,k{'j' * y}->{'i' * x}{'j' * y}")(step)


_matmul = multilinear(
    np.matmul,
    (_left_rule, _right_rule),
    sample((3,), (3,)),
    sample((2, 3), (3,)),
    sample((3,), (3, 2)),
    sample((2, 3), (3, 4)),
    sample((5, 2, 3), (3, 4)),
    sample((2, 3), (5, 3, 4)),
    sample((2, 1, 2, 3), (5, 3, 4)),
    sample((3,), (5, 3, 4)),
    sample((5, 2, 3), (3,)),
    sample((0, 3), (3, 2)),
    sample((2, 0), (0, 3)),
    pattern=_matmul_pattern,
)


def _batched_matmul(values: Sequence[Any], mapped: Sequence[Any], size: int, metadata: Mapping[str, Any]) -> Any:
    (x, y), (x_mapped, y_mapped) = values, mapped
    ndims = ndim_of(x, x_mapped), ndim_of(y, y_mapped)
    # One product with all examples as rows is much faster than one product per example.
    if not y_mapped and ndims == (1, 2):
        return x @ y
    if not x_mapped and ndims == (2, 1):
        return y @ transposed(x)
    if not y_mapped and ndims == (2, 2):
        rows = x.reshape((size * x.shape[1], x.shape[2]))
        return (rows @ y).reshape((size, x.shape[1], y.shape[1]))
    x_is_vector, y_is_vector = ndims[0] == 1, ndims[1] == 1
    x = np.expand_dims(x, -2) if x_is_vector else x
    y = np.expand_dims(y, -1) if y_is_vector else y
    x, y = aligned((x, y), mapped, 2)
    product = x @ y
    product = np.squeeze(product, -1) if y_is_vector else product
    return np.squeeze(product, -1 if y_is_vector else -2) if x_is_vector else product


_matmul.batch = _batched_matmul


@answers(np.dot)
def dot(a: Array, b: ArrayLike, out: Array | None = None) -> Any:
    """Return the dot product: over the last axis of `a` and the last but one axis of `b`."""
    a, b = as_array(a), as_array(b)
    if a.ndim == 0 or b.ndim == 0:
        product = _scaled(a, b)
    elif a.ndim <= 2 and b.ndim <= 2:
        product = np.matmul(a, b)
    else:
        product = tensordot(a, b, ((-1,), (-2 if b.ndim > 1 else -1,)))
    return written("np.dot", out, in_c_order(product))


def _scaled(a: Array, b: Array) -> Any:
    """Return an array times a number. BLAS adds products to zeros, which changes -0.0 to 0.0."""
    product = np.multiply(a, b)
    is_for_blas = product.dtype.char in "fdFD" and product.ndim <= 2 and product.size != 1
    return product + 0 if is_for_blas else product


def _flat(x: Array) -> Array:
    x = as_array(x)
    return x if x.ndim == 1 else np.ravel(x)


@answers(np.vdot)
def vdot(a: Array, b: Array, /) -> Any:
    """Return the dot product of the flattened arrays, the first one conjugated."""
    a, b = _flat(a), _flat(b)
    return np.matmul(np.conjugate(a) if a.dtype.kind == "c" else a, b)


@answers(np.inner)
def inner(a: Array, b: ArrayLike, /) -> Any:
    """Return the products summed over the last axes."""
    a, b = as_array(a), as_array(b)
    if a.ndim == 0 or b.ndim == 0:
        return _scaled(a, b)
    if a.ndim == 1 and b.ndim == 1:
        return np.matmul(a, b)
    return tensordot(a, b, ((-1,), (-1,)))


@answers(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Return all products of an element of one flattened array and an element of the other."""
    product = np.multiply(_flat(a)[:, None], _flat(b))
    return written("np.outer", out, product)


@answers(np.tensordot)
def tensordot(a: ArrayLike, b: ArrayLike, axes: Any = 2) -> Any:
    """Return the products summed over pairs of axes."""
    a, b = as_array(a), as_array(b)
    if not isinstance(axes, (tuple, list)):
        axes = plain_axis(axes)
        axes = (range(-axes, 0), range(axes))
    a_axes, b_axes = (
        np.lib.array_utils.normalize_axis_tuple(np.atleast_1d(plain_axis(axis)).tolist(), x.ndim, allow_duplicate=True)
        for x, axis in zip((a, b), axes, strict=True)
    )
    a_shape, b_shape = a.shape, b.shape
    if [a_shape[i] for i in a_axes] != [b_shape[i] for i in b_axes]:
        raise ValueError("shape-mismatch for sum")
    product = apply(einsums.primitive, (a, b), {"subscripts": _summed_over(a.ndim, b.ndim, a_axes, b_axes)})
    return in_c_order(product)


@lru_cache(maxsize=4096)
def _summed_over(a_ndim: int, b_ndim: int, a_axes: tuple[int, ...], b_axes: tuple[int, ...]) -> str:
    """Return subscripts of a sum over pairs of axes; the other axes of `a` come first in the result."""
    if a_ndim + b_ndim - len(b_axes) > len(string.ascii_letters):
        raise errors.ParameterError(
            f"np.tensordot of arrays with {a_ndim} and {b_ndim} axes: more than {len(string.ascii_letters)} different "
            "axes are not supported.\nReshape the arrays to matrices and multiply these."
        )
    letters = iter(string.ascii_letters)
    a_term = "".join(next(letters) for _ in range(a_ndim))
    pairs = dict(zip(b_axes, a_axes, strict=True))
    b_term = "".join(a_term[pairs[i]] if i in pairs else next(letters) for i in range(b_ndim))
    output = [a_term[i] for i in range(a_ndim) if i not in a_axes]
    output += [b_term[i] for i in range(b_ndim) if i not in b_axes]
    return f"{a_term},{b_term}->{''.join(output)}"
