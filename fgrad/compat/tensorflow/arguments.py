"""Conversion of arguments: shapes, axes, indices, and TensorFlow 1's forms.

convert, operands               conversion to tensors
chosen(name, value, old, ...)   an argument, or the value of its old name
sizes(shape), axes(axis)        Python integers, also from tensors and lists with tensors
at(x, axis, key)                elements along one axis
order(x, axis, descending)      the indices that sort, and `along` to take elements at them
on_diagonal(x)                  diagonal matrices
turned(x, transpose, adjoint)   transposed matrices
plain(x)                        the value of a tensor, for operations without a derivative
check_within(indices, size)     rejects negative indices, which NumPy counts from the end
check_each_axis(name, given, x) rejects arguments without one element for each axis
is_version_1()                  whether the call is from TensorFlow 1's namespace
known_size(x, axis)             a size that determines the number of results
several(function, count, name)  make an operation with several results
with_unknown_size(x, axis)      a graph tensor with a size that depends on values
with_facts_of(x, result)        a tensor with the shape and dtype of another
with_facts_by(look_alike)       a tensor with those of another function's result
with_facts_at_zeros             a tensor with those of the elements at the indices 0
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.compat.deferred import mode
from fgrad.compat.deferred.convert import convert as convert
from fgrad.compat.deferred.convert import operands as operands
from fgrad.compat.deferred.graph import Call, Convertible, GraphTensor, Symbol, holds_symbol, operation
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import strip_ended
from fgrad.transforms.reverse import stop_gradient
from fgrad.typing import Array, Operand


def sizes(shape: Any) -> tuple[int, ...]:
    """Return a shape as Python integers.

    Args:
        shape: an integer, a list of integers and tensors without axes, or a tensor.
    """
    each = list(shape) if np.iterable(shape) else [shape]
    if any(size is None for size in each):
        raise errors.ShapeError(
            f"the shape {tuple(each)} has a size that is unknown before a run; use tf.shape(x) in place of x.shape."
        )
    return tuple(index(size) for size in each)


def axes(axis: Any) -> Any:
    """Return an axis, or a tuple of them, as Python integers; None stays None."""
    if axis is None:
        return None
    return tuple(index(each) for each in axis) if np.iterable(axis) else index(axis)


def chosen(name: str, value: object, old_name: str, old_value: object) -> Any:
    """Return the value of an argument that has another name in TensorFlow 1."""
    if value is not None and old_value is not None:
        raise errors.ParameterError(f"{old_name} is the old name of {name}; pass one of them.")
    return value if old_value is None else old_value


def at(x: Any, axis: int, key: Any) -> Any:
    """Return the elements at a key along one axis."""
    return x[(slice(None),) * (axis % x.ndim) + (key,)]


def on_diagonal(x: Any) -> Any:
    """Return matrices with the last axis of `x` on their diagonals."""
    return np.where(np.eye(x.shape[-1], dtype=np.bool_), np.expand_dims(x, -2), np.zeros((), x.dtype))


def order(x: Convertible, axis: int, descending: bool) -> Any:
    """Return the indices that sort along an axis; equal elements keep their order."""
    values = plain(stop_gradient(x))
    if not descending:
        return np.argsort(values, axis, kind="stable")
    # Sorting backwards from the end keeps the order of equal elements, also for unsigned integers.
    found = np.argsort(np.flip(values, axis), axis, kind="stable")
    return np.flip(values.shape[axis] - 1 - found, axis)


def along(x: Any, places: Any, axis: int) -> Any:
    """Return the elements at indices that differ from row to row, as `np.take_along_axis` does."""
    axis = axis % x.ndim
    own = np.indices(places.shape, sparse=True)
    return x[(*own[:axis], places, *own[axis + 1 :])]


def plain(x: Any) -> Any:
    """Return the value of a tensor as an array; the tensor must be of integers or booleans, or not traced."""
    is_tensor = type(x) in BOXES
    return np.asarray(stop_gradient(x) if is_tensor and x.dtype.kind not in "fc" else strip_ended(x))


def check_within(indices: Convertible, size: int, name: str = "indices") -> None:
    """Raise unless indices are integers, at least 0 and less than a size."""
    values = plain(indices)
    check_integers(values, name)
    wrong = values[(values < 0) | (values >= size)]
    if wrong.size:
        raise errors.InvalidArgumentError(f"{name} holds {wrong.flat[0]}, which is not in [0, {size}).")


def check_integers(values: Array, name: str = "indices") -> None:
    """Raise unless indices are integers; an empty list is."""
    if values.dtype.kind not in "iu" and values.size:
        raise errors.DtypeError(f"{name} must be integers, and their dtype is {values.dtype}; use tf.cast.")


def check_each_axis(name: str, given: Sequence[Any], x: Array) -> None:
    """Raise unless an argument has an element for each axis of a tensor."""
    if len(given) != x.ndim:
        raise errors.ShapeError(
            f"{name} must have an element for each axis of a tensor of shape {x.shape}, and has {len(given)}."
        )


def is_version_1() -> bool:
    """Return whether a call is from TensorFlow 1's namespace, or version 2's behaviour is disabled."""
    return mode.current() is mode.TENSORFLOW_1 or not mode.current().eager


def is_deferred(*arguments: object) -> bool:
    """Return whether an operation with these arguments becomes a node."""
    return mode.is_deferring() or holds_symbol(arguments)


def known_size(x: Any, axis: int, name: str) -> int:
    """Return the size of an axis that determines the number of results."""
    shape = x.shape
    if getattr(shape, "ndims", 0) is None or shape[axis] is None:
        raise errors.ShapeError(
            f"the number of results is the size of axis {axis}, which is not known before a run; pass {name}."
        )
    return int(shape[axis])


def several(function: Callable[..., Any], count: int, name: str) -> Callable[..., tuple[Any, ...]]:
    """Make a deferrable function from one with several results.

    A node has one value, so in a graph each result is a node that computes all results and selects one.
    """

    @operation(name)
    def one(place: int, *args: Operand, **keywords: object) -> Any:
        return function(*args, **keywords)[place]

    def call(*args: object, name: str | None = None, **keywords: object) -> tuple[Any, ...]:
        if is_deferred(*args, *keywords.values()):
            return tuple(one(place, *args, name=name, **keywords) for place in range(count))
        return tuple(function(*args, **keywords))

    return call


def is_known(x: Convertible) -> bool:
    """Return whether all sizes of a tensor are known before a run."""
    return not isinstance(x, Symbol) or x.shape.is_fully_defined()  # type: ignore[attr-defined]


def with_unknown_size(x: Convertible, axis: int | None) -> Any:
    """Return a tensor; in a graph, the size of an axis (or the whole shape) is marked as dependent on values."""
    if isinstance(x, GraphTensor):
        shape, dtype = x.facts()
        if shape is not None:
            shape = None if axis is None else [None if place == axis else size for place, size in enumerate(shape)]
        x._static = (shape, dtype)
    return x


def with_sizes_known_of(x: Convertible, result: Convertible, places: Sequence[int]) -> Any:
    """Return a tensor; in a graph, sizes of axes are marked as known only if those of another tensor are."""
    if isinstance(x, Symbol):
        shape = x.shape  # type: ignore[attr-defined]
        for place in places:
            if shape.ndims is None or shape[place] is None:
                result = with_unknown_size(result, place)
    return result


def with_facts_of(x: Convertible, result: Convertible) -> Any:
    """Return a tensor with the shape and dtype of another one, also in a graph that cannot infer them."""
    if isinstance(x, GraphTensor) and isinstance(result, GraphTensor):
        result._static = x.facts()
    return result


def with_facts_by(look_alike: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return a decorator for operations that fail for the trial values of a graph, as `inv` does for ones.

    Args:
        look_alike: takes the same arguments; its result has the same shape and dtype.
    """

    def decorate(deferrable: Callable[..., Any]) -> Any:
        @functools.wraps(deferrable)
        def call(*args: object, **keywords: object) -> Any:
            result = deferrable(*args, **keywords)
            if isinstance(result, Call):
                function, result.function = result.function, look_alike
                result.facts()  # computed once and cached
                result.function = function
            return result

        return call

    return decorate


def with_facts_at_zeros(deferrable: Any) -> Any:
    """Decorate an operation at indices, whose trial values in a graph may be too large."""

    def look_alike(params: Convertible, indices: Convertible, *options: object, **keywords: object) -> Any:
        return deferrable.__wrapped__(params, np.zeros_like(convert(indices)), *options, **keywords)

    return with_facts_by(look_alike)(deferrable)


def turned(x: Convertible, transpose: bool, adjoint: bool) -> Any:
    """Return matrices, optionally transposed, or conjugated and transposed for the adjoint."""
    if transpose and adjoint:
        raise errors.ParameterError("a matrix is either transposed or its adjoint is taken; pass one of the two.")
    if not (transpose or adjoint):
        return x
    x = np.swapaxes(x, -1, -2)
    return np.conjugate(x) if adjoint and x.dtype.kind == "c" else x
