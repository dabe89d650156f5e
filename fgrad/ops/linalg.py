"""Contractions: matmul, einsum, and what is made of them."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.core.operands import as_array
from fgrad.core.reverse import conform
from fgrad.core.tensor import apply
from fgrad.core.views import seen
from fgrad.ops.batching import aligned, ndim_of
from fgrad.ops.contractions import contract, multilinear
from fgrad.ops.elementwise import astype
from fgrad.ops.families import ForEach, answers, plain_axis, sample
from fgrad.ops.indexing import written


def _matrix(x: Any, vector_axis: int) -> Any:
    """Return `x` with at least two axes; a vector becomes a row (-2) or a column (-1)."""
    x = x if hasattr(x, "ndim") else np.asarray(x)
    return np.expand_dims(x, vector_axis) if x.ndim == 1 else x


def _is_vector(x: Any) -> bool:
    return (x.ndim if hasattr(x, "ndim") else np.ndim(x)) == 1


def _transposed(x: Any) -> Any:
    return x.T if x.ndim == 2 else np.swapaxes(x, -1, -2)


def _as_product(ct: Any, x_is_vector: bool, y_is_vector: bool) -> Any:
    """Put back the axes that a vector's product has lost."""
    ct = ct.reshape((*ct.shape, 1)) if y_is_vector else ct
    return np.expand_dims(ct, -2) if x_is_vector else ct


def _ndims(x: Any, y: Any) -> tuple[int, int]:
    return getattr(x, "ndim", 0), getattr(y, "ndim", 0)


def _left_rule(ans: Any, x: Any, y: Any) -> Callable[[Any], Any]:
    ndims = _ndims(x, y)
    if ndims == (2, 2):
        return lambda ct: ct @ y.T
    if ndims == (2, 1):
        return lambda ct: ct[:, None] * y
    if ndims == (1, 2):
        return lambda ct: y @ ct
    shape, x_is_vector, y_is_vector = x.shape, x.ndim == 1, np.ndim(y) == 1

    def pullback(ct: Any) -> Any:
        product = _as_product(ct, x_is_vector, y_is_vector) @ _transposed(_matrix(y, -1))
        return conform(np.squeeze(product, -2) if x_is_vector else product, shape, ct.dtype)

    return pullback


def _right_rule(ans: Any, x: Any, y: Any) -> Callable[[Any], Any]:
    ndims = _ndims(x, y)
    if ndims == (2, 2):
        return lambda ct: x.T @ ct
    if ndims == (2, 1):
        return lambda ct: ct @ x
    if ndims == (1, 2):
        return lambda ct: x[:, None] * ct
    shape, x_is_vector, y_is_vector = y.shape, np.ndim(x) == 1, y.ndim == 1

    def pullback(ct: Any) -> Any:
        product = _transposed(_matrix(x, -2)) @ _as_product(ct, x_is_vector, y_is_vector)
        return conform(np.squeeze(product, -1) if y_is_vector else product, shape, ct.dtype)

    return pullback


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
)


def _batched_matmul(values: Any, mapped: Any, size: int, metadata: Any) -> Any:
    (x, y), (x_mapped, y_mapped) = values, mapped
    ndims = ndim_of(x, x_mapped), ndim_of(y, y_mapped)
    # One product with all examples as its rows is much faster than a product for each of them.
    if not y_mapped and ndims == (1, 2):
        return x @ y
    if not x_mapped and ndims == (2, 1):
        return y @ _transposed(x)
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
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Return the dot product: over the last axis of `a` and the last but one of `b`."""
    a, b = as_array(a), as_array(b)
    if a.ndim == 0 or b.ndim == 0:
        product = np.multiply(a, b)
    elif a.ndim <= 2 and b.ndim <= 2:
        product = np.matmul(a, b)
    else:
        product = tensordot(a, b, ((-1,), (-2 if b.ndim > 1 else -1,)))
    return written("np.dot", out, product)


@answers(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """Return the dot product of the flattened arrays, the first one conjugated."""
    a = np.ravel(as_array(a))
    return np.matmul(np.conjugate(a) if a.dtype.kind == "c" else a, np.ravel(as_array(b)))


@answers(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    """Return the products summed over the last axes."""
    a, b = as_array(a), as_array(b)
    if a.ndim == 0 or b.ndim == 0:
        return np.multiply(a, b)
    return tensordot(a, b, ((-1,), (-1,)))


@answers(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Return all products of two elements of the flattened arrays."""
    product = np.multiply(np.reshape(as_array(a), (-1, 1)), np.reshape(as_array(b), (1, -1)))
    return written("np.outer", out, product)


@answers(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Return the products summed over pairs of axes: one matmul between reshapes."""
    a, b = as_array(a), as_array(b)
    if not isinstance(axes, (tuple, list)):
        axes = plain_axis(axes)
        axes = (range(-axes, 0), range(axes))
    a_axes, b_axes = (
        [i % np.ndim(x) for i in np.atleast_1d(plain_axis(axis)).tolist()] for x, axis in zip((a, b), axes, strict=True)
    )
    a_shape, b_shape = np.shape(a), np.shape(b)
    if [a_shape[i] for i in a_axes] != [b_shape[i] for i in b_axes]:
        raise ValueError("shape-mismatch for sum")
    a_free = [i for i in range(len(a_shape)) if i not in a_axes]
    b_free = [i for i in range(len(b_shape)) if i not in b_axes]
    summed = int(np.prod([a_shape[i] for i in a_axes], dtype=int))
    a_rows = int(np.prod([a_shape[i] for i in a_free], dtype=int))
    b_columns = int(np.prod([b_shape[i] for i in b_free], dtype=int))
    left = np.reshape(np.transpose(a, a_free + a_axes), (a_rows, summed))
    right = np.reshape(np.transpose(b, b_axes + b_free), (summed, b_columns))
    return np.reshape(np.matmul(left, right), [a_shape[i] for i in a_free] + [b_shape[i] for i in b_free])


def _einsum_rule(argnum: int, ans: Any, *operands: Any, subscripts: str, optimize: Any = False) -> Callable[[Any], Any]:
    """The cotangent is an einsum of the result's cotangent with the other operands.

    A label that only this operand has was summed: its axis is repeated afterwards. A label that this
    operand has twice picks a diagonal: the identity matrix is one more operand.
    """
    inputs, output = subscripts.split("->")
    terms = inputs.split(",")
    shape, labels = operands[argnum].shape, terms[argnum]
    others = [x for i, x in enumerate(operands) if i != argnum]
    other_terms = [term for i, term in enumerate(terms) if i != argnum]
    unused = (letter for letter in string.ascii_letters if letter not in subscripts)
    sizes = dict(zip(labels, shape, strict=True))
    target = ""
    identities = []
    for label in labels:
        if label in target:
            twin = next(unused)
            identities.append((label + twin, sizes[label]))
            target += twin
        else:
            target += label
    known = set(output).union(*other_terms, *(term for term, _ in identities))
    kept = "".join(label for label in target if label in known)
    places = tuple(slice(None) if label in known else None for label in target)
    backward = ",".join([output, *other_terms, *(term for term, _ in identities)]) + "->" + kept

    def pullback(ct: Any) -> Any:
        eyes = [np.eye(size, dtype=ct.dtype) for _, size in identities]
        # A path that the user names is one for the product itself, not for this one.
        spread = contract(_einsum, (ct, *others, *eyes), {"subscripts": backward, "optimize": bool(optimize)})[places]
        # Sizes of 1 that were broadcast against another operand are summed by the trace.
        return np.broadcast_to(spread, tuple(map(max, spread.shape, shape)))

    return pullback


_einsum = multilinear(
    lambda *operands, subscripts, optimize=False: np.einsum(subscripts, *operands, optimize=optimize),
    ForEach(_einsum_rule),
    sample((2, 3), (3, 4), subscripts="ij,jk->ik"),
    sample((2, 3), subscripts="ij->"),
    sample((2, 3), subscripts="ij->j"),
    sample((3, 3), subscripts="ii->i"),
    sample((3, 3), subscripts="ii->"),
    sample((3,), (4,), subscripts="i,j->"),
    sample((5, 2, 3), (5, 3, 2), subscripts="bij,bjk->bik"),
    sample((2, 3), (3,), (2,), subscripts="ij,j,i->ij"),
    sample((2, 2, 2), (2,), subscripts="iij,i->j"),
    sample((), (3,), subscripts=",i->i"),
    sample((1, 2, 3), (4, 3, 2), subscripts="bij,bjk->bik"),
    sample((2, 3), (3, 4), (4, 2), subscripts="ij,jk,kl->il", optimize=True),
    name="einsum",
    broadcasts=True,
)


def _batched_einsum(values: Any, mapped: Any, size: int, metadata: Any) -> Any:
    inputs, output = metadata["subscripts"].split("->")
    label = next(letter for letter in string.ascii_letters if letter not in metadata["subscripts"])
    terms = [label + term if m else term for term, m in zip(inputs.split(","), mapped, strict=True)]
    return contract(_einsum, values, {**metadata, "subscripts": ",".join(terms) + "->" + label + output})


_einsum.batch = _batched_einsum


@answers(np.einsum)
def einsum(
    *arguments: Any,
    out: Any = None,
    optimize: Any = False,
    dtype: Any = None,
    order: Any = "K",
    casting: Any = "safe",
) -> Any:
    """Return the sum of products that a string of subscripts describes."""
    if isinstance(arguments[0], str):
        subscripts, operands = arguments[0], arguments[1:]
    else:
        subscripts, operands = _from_sublists(arguments)
    arrays = [as_array(x) for x in operands]
    if dtype is not None:
        arrays = [astype(x, dtype, casting=casting) for x in arrays]
    metadata: dict[str, Any] = {"subscripts": _explicit(subscripts, [len(x.shape) for x in arrays])}
    if optimize is not False:
        metadata["optimize"] = optimize
    result = apply(_einsum, arrays, metadata)
    if out is None and len(arrays) == 1 and _keeps_all(metadata["subscripts"]):
        return seen(result, arrays[0], _einsum, metadata)
    return written("np.einsum", out, result)


def _keeps_all(subscripts: str) -> bool:
    """Return whether nothing is summed, so that the result is a view: a transpose or a diagonal."""
    inputs, output = subscripts.split("->")
    return set(inputs) == set(output)


def _einsum_view(x: Any, lead: int, subscripts: str, optimize: Any = False) -> Any:
    inputs, output = subscripts.split("->")
    return np.einsum(f"...{inputs}->...{output}", x)


_einsum.view = _einsum_view


def _from_sublists(arguments: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Turn the form `einsum(a, [0, 1], b, [1, 2], [0, 2])` into a string and operands."""

    def text(labels: Any) -> str:
        return "".join("..." if i is Ellipsis else string.ascii_letters[i] for i in labels)

    count = len(arguments) // 2
    subscripts = ",".join(text(labels) for labels in arguments[1 : 2 * count : 2])
    if len(arguments) % 2:
        subscripts += "->" + text(arguments[-1])
    return subscripts, arguments[: 2 * count : 2]


def _explicit(subscripts: str, ndims: list[int]) -> str:
    """Return subscripts with an output and with letters in place of each ellipsis."""
    subscripts = subscripts.replace(" ", "")
    inputs, arrow, output = subscripts.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"einsum has {len(ndims)} operands and {len(terms)} terms in {subscripts!r}")
    unused = [letter for letter in string.ascii_letters if letter not in subscripts]
    broad = [
        ndim - len(term.replace("...", "")) if "..." in term else 0 for term, ndim in zip(terms, ndims, strict=True)
    ]
    letters = "".join(unused[: max(broad, default=0)])
    terms = [term.replace("...", letters[len(letters) - n :]) for term, n in zip(terms, broad, strict=True)]
    if arrow:
        output = output.replace("...", letters)
    else:
        joined = "".join(terms)
        output = letters + "".join(sorted(c for c in set(joined) - set(letters) if joined.count(c) == 1))
    return ",".join(terms) + "->" + output
