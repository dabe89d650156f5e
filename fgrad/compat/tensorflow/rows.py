"""Functions of the rows of tensors, one after the other: `tf.map_fn`, `tf.scan`, `tf.foldl` and `tf.foldr`.

How many rows there are must be known before a run: the function is called once for each, also in a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fgrad import errors
from fgrad.compat.deferred.graph import Convertible
from fgrad.compat.tensorflow.arrays import convert_to_tensor, stack, unstack
from fgrad.core.tree import flatten, tree_map, unflatten

Rows = list[Any]


def _rows_of(elems: Any, name: str) -> Rows:
    """Return the rows of tensors in a container, each in the same container."""
    leaves, treedef = flatten(elems)
    tensors = [convert_to_tensor(leaf) for leaf in leaves]
    counts = {None if getattr(x.shape, "ndims", len(x.shape)) in (None, 0) else x.shape[0] for x in tensors}
    if len(counts) != 1 or None in counts:
        raise errors.ShapeError(
            f"{name} needs tensors with a known, equal number of rows, but they have the shapes "
            f"{', '.join(str(x.shape) for x in tensors)}.\nFor rows that are counted in a run, use tf.while_loop."
        )
    rows = zip(*(unstack(x) for x in tensors), strict=True)
    return [unflatten(treedef, row) for row in rows]


def _like(found: Any, wanted: Any, name: str) -> Any:
    """Return a result as tensors, after a check that it has the structure and the dtypes of another one."""
    leaves, treedef = flatten(found)
    others, structure = flatten(wanted)
    if treedef != structure:
        raise errors.StructureError(
            f"the function of {name} must return the same structure every time, {structure}, but returned {treedef}."
        )
    tensors = [convert_to_tensor(x, dtype_hint=other.dtype) for x, other in zip(leaves, others, strict=True)]
    for x, other in zip(tensors, others, strict=True):
        are_known = x.dtype is not None and other.dtype is not None  # NumPy's float64 is equal to None
        if are_known and x.dtype != other.dtype:
            raise errors.DtypeError(
                f"the function of {name} must return the same dtype every time, {other.dtype}, but returned {x.dtype}; "
                "use tf.cast."
            )
    return unflatten(treedef, tensors)


def _stacked(results: Sequence[Any]) -> Any:
    """Return results as one container, with a leading axis for the rows."""
    return tree_map(lambda *column: stack(column), *results)


def _begun(elems: Any, initializer: Any, name: str, reverse: bool) -> tuple[Any, Rows]:
    """Return the first accumulated value, and the rows that follow."""
    rows = _rows_of(elems, name)
    rows = rows[::-1] if reverse else rows
    if initializer is not None:
        return tree_map(convert_to_tensor, initializer), rows
    if not rows:
        raise errors.ParameterError(f"{name} has no rows to begin with; pass an initializer.")
    return rows[0], rows[1:]


def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """Return the results of a function for each row, stacked; see `tf.vectorized_map`, which takes all rows at once.

    Args:
        fn: takes a row, or a container of rows with the structure of `elems`; returns a tensor or a container.
        elems: a tensor, or a container of tensors with equal numbers of rows.
        dtype, fn_output_signature: ignored: the results have the dtypes that `fn` returns.
        parallel_iterations, back_prop, swap_memory, infer_shape, name: ignored.

    Raises:
        ShapeError: a ValueError; the number of rows is not known, or not equal.
        ParameterError: a ValueError; there are no rows.
        StructureError, DtypeError: a TypeError; results differ in structure or dtype.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> tf.map_fn(lambda row: tf.reduce_sum(row * row), tf.constant([[1.0, 2.0], [3.0, 4.0]]))
        Tensor([ 5., 25.], dtype=float32)
    """
    rows = _rows_of(elems, "map_fn")
    if not rows:
        raise errors.ParameterError("map_fn has no rows: the shape of its results is not known.")
    first = tree_map(convert_to_tensor, fn(rows[0]))
    return _stacked([first, *(_like(fn(row), first, "map_fn") for row in rows[1:])])


def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Return all values that a function accumulates over rows, stacked; see `fgrad.scan`.

    Args:
        fn: takes the accumulated value and a row, and returns the next value.
        elems: a tensor, or a container of tensors with equal numbers of rows.
        initializer: the first accumulated value, which is not among the results; by default the first row, which is.
        reverse: whether to begin with the last row; results stay at the places of their rows.
        parallel_iterations, back_prop, swap_memory, infer_shape, name: ignored.

    Raises:
        ShapeError: a ValueError; the number of rows is not known, or not equal.
        ParameterError: a ValueError; there are no rows.
        StructureError, DtypeError: a TypeError; the next value has another structure or dtype.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> tf.scan(lambda total, x: total + x, tf.constant([1.0, 2.0, 3.0]))
        Tensor([1., 3., 6.], dtype=float32)
    """
    value, rows = _begun(elems, initializer, "scan", reverse)
    results = [] if initializer is not None else [value]
    for row in rows:
        value = _like(fn(value, row), value, "scan")
        results.append(value)
    if not results:
        raise errors.ParameterError("scan has no rows, and nothing to return.")
    return _stacked(results[::-1] if reverse else results)


def _folded(fn: Callable[[Any, Any], Any], elems: Any, initializer: Any, name: str, reverse: bool) -> Any:
    value, rows = _begun(elems, initializer, name, reverse)
    for row in rows:
        value = _like(fn(value, row), value, name)
    return value


def foldl(
    fn: Callable[[Any, Any], Any],
    elems: Convertible,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Return the last value that a function accumulates over rows; see `scan`.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> tf.foldl(lambda total, x: 10.0 * total + x, tf.constant([1.0, 2.0, 3.0]))
        Tensor(123., dtype=float32)
    """
    return _folded(fn, elems, initializer, "foldl", False)


def foldr(
    fn: Callable[[Any, Any], Any],
    elems: Convertible,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Return the last value that a function accumulates over rows from the end; see `foldl`."""
    return _folded(fn, elems, initializer, "foldr", True)
