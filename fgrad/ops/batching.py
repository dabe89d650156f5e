"""Batching rules by family: from the rule for one example to the rule for a batch.

Examples do not mix, so the batching rule of a family also implies its sparsity pattern, unless another is declared.

A rule is `batch(values, mapped, size, metadata)`: the arguments, which of them hold `size` examples
along their first axis, and the metadata. It returns the results, each with its examples in front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from fgrad.core.primitive import Primitive
from fgrad.core.tensor import apply
from fgrad.ops import patterns

Batch = Callable[[Sequence[Any], Sequence[bool], int, Mapping[str, Any]], Any]


def ndim_of(value: Any, is_mapped: bool) -> int:
    """Return the number of axes of one example."""
    try:
        return len(value.shape) - is_mapped
    except AttributeError:  # a Python number, or a list of Python numbers
        return np.ndim(value) - is_mapped


def aligned(values: Sequence[Any], mapped: Sequence[bool], at_least: int = 0) -> list[Any]:
    """Return arguments that broadcast as single examples do: the examples' axis in front of all others."""
    ndims = list(map(ndim_of, values, mapped))
    ndim = max(at_least, *ndims) if ndims else at_least
    if ndims.count(ndim) == len(ndims):
        return list(values)
    return [
        np.reshape(v, (v.shape[0], *(1,) * (ndim - own), *v.shape[1:])) if m and own < ndim else v
        for v, m, own in zip(values, mapped, ndims, strict=True)
    ]


def all_mapped(values: Sequence[Any], mapped: Sequence[bool], size: int) -> list[Any]:
    """Return arguments that all have the batch axis; unmapped ones are repeated where needed."""
    return [v if m else np.broadcast_to(v, (size, *np.shape(v))) for v, m in zip(values, mapped, strict=True)]


def elementwise_batch(primitive: Primitive) -> Batch:
    """Return the rule of operations that broadcast."""
    if primitive.pattern is None:
        primitive.pattern = patterns.elementwise

    def batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
        return apply(primitive, aligned(values, mapped) if len(values) > 1 else values, metadata)

    return batch


def reduction_batch(primitive: Primitive) -> Batch:
    """Return the rule of operations on one array that reduce it over `axis`."""
    if primitive.pattern is None:
        primitive.pattern = patterns.along_axis

    def batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
        (x,) = values
        axis = metadata.get("axis")
        ndim = len(x.shape) - 1
        if axis is None:
            axis = tuple(range(1, ndim + 1))
        elif isinstance(axis, int):
            axis = normalize_axis_index(axis, ndim) + 1
        else:
            axis = tuple(normalize_axis_index(each, ndim) + 1 for each in axis)
        return apply(primitive, (x,), {**metadata, "axis": axis})

    return batch


def along_axis_batch(primitive: Primitive) -> Batch:
    """Return the rule of operations on one array along `axis`, an integer or a tuple of them, which they keep."""
    if primitive.pattern is None:
        primitive.pattern = patterns.along_axis

    def batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
        axis = metadata["axis"]
        axis = tuple(map(_after_examples, axis)) if isinstance(axis, tuple) else _after_examples(axis)
        return apply(primitive, values, {**metadata, "axis": axis})

    return batch


def _after_examples(axis: int) -> int:
    """Return an axis of one example as an axis of the batch; one that is counted from the end keeps its number."""
    return axis + 1 if axis >= 0 else axis


def index_of_extremum_batch(primitive: Primitive) -> Batch:
    """Return the rule of `argmax` and `argmin`, which without an axis count through all elements."""
    along_axis = reduction_batch(primitive)

    def batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
        (x,) = values
        if metadata.get("axis") is not None:
            return along_axis(values, mapped, size, metadata)
        found = apply(primitive, (np.reshape(x, (size, -1)),), {"axis": 1})
        kept = (1,) * (len(x.shape) - 1) if metadata.get("keepdims") else ()
        return np.reshape(found, (size, *kept))

    return batch


def joining_batch(primitive: Primitive) -> Batch:
    """Return the rule of operations that join arrays along, or at, `axis` of the result."""

    def batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
        return apply(primitive, all_mapped(values, mapped, size), {"axis": _after_examples(metadata["axis"])})

    return batch


def rows_batch(primitive: Primitive) -> Batch:
    """Return the rule of operations on the rows of several arrays; their leading axes are broadcast."""

    def batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
        rows = [v if m else np.expand_dims(v, 0) for v, m in zip(values, mapped, strict=True)]
        return apply(primitive, rows, metadata)

    return batch


def one_by_one_batch(place: int) -> Callable[[Primitive], Batch]:
    """Return the rule of operations that take a single array at `place`: if examples have their own, in a loop."""

    def family(primitive: Primitive) -> Batch:
        def batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
            if not mapped[place]:
                return apply(primitive, values, metadata)
            examples = [[v[i] if m else v for v, m in zip(values, mapped, strict=True)] for i in range(size)]
            return np.stack([apply(primitive, example, metadata) for example in examples])

        return batch

    return family


def trailing_batch(primitive: Primitive) -> Batch:
    """Return the rule of operations on the last axes of one array; leading axes are arbitrary."""

    def batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
        return apply(primitive, values, metadata)

    return batch
