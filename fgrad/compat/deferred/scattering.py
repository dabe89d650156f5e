"""Writes to elements of a variable, at indices that are tensors.

Scatters         the methods `scatter_nd_update(indices, updates)` and `scatter_update(slices)`, and similar ones
IndexedSlices    rows and their numbers, the arguments of `scatter_update` and similar methods
scattered(...)   the values of a variable with updates at indices
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from fgrad import errors
from fgrad.core.tensor import Tensor
from fgrad.typing import Array


class IndexedSlices(NamedTuple):
    """Rows of a variable, and their numbers.

    Attributes:
        values: the rows.
        indices: their numbers along the first axis of the variable.
        dense_shape: the variable's shape, which is ignored.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> v = tf.Variable([1.0, 2.0, 3.0], name="v")
        >>> v.scatter_add(tf.IndexedSlices([10.0, 20.0], [0, 2]))
        Variable([11.,  2., 23.], name='v:0', dtype=float32)
    """

    values: Any
    indices: Any
    dense_shape: Any = None


Writer = Callable[[Any, Any, Any], Any]
"""Functions that write updates to an array: `writer(array, places, updates)`."""


def _put(array: Any, places: tuple[Any, ...], updates: Any) -> None:
    array[places] = updates


WRITERS: dict[str, Writer] = {
    "Update": _put,
    "Add": np.add.at,
    "Sub": np.subtract.at,
    "Mul": np.multiply.at,
    "Div": np.divide.at,
    "Max": np.maximum.at,
    "Min": np.minimum.at,
}


def scattered(kind: str, by_rows: bool, old: Array, updates: Array, indices: Any, name: str) -> Any:
    """Return the values of a variable with updates at indices; updates at the same index are applied in order.

    Args:
        kind: a key of `WRITERS`.
        by_rows: whether the indices are row numbers; otherwise each index is a row along their last axis.
        old: the current values, an array or a recorded tensor.
        updates: for each index an element, or a block, as an array or tensor; by rows, a single number is broadcast.
        indices: an array of integers.
        name: the name of the variable.
    """
    changed = old.copy() if type(old) is Tensor else np.array(old)
    if indices.dtype.kind not in "iu" or not np.can_cast(updates.dtype, changed.dtype, "same_kind"):
        raise errors.DtypeError(
            f"variable {name!r} has dtype {changed.dtype}: updates of dtype {updates.dtype} at indices of dtype "
            f"{indices.dtype} cannot be written to it; use tf.cast."
        )
    indices = indices[..., None] if by_rows else indices
    depth = indices.shape[-1]
    if depth > changed.ndim:
        raise errors.ShapeError(f"an index has {depth} numbers, and variable {name!r} has the shape {changed.shape}.")
    wanted = (*indices.shape[:-1], *changed.shape[depth:])
    if updates.shape != wanted and not (by_rows and not updates.shape):
        raise errors.ShapeError(
            f"updates of variable {name!r} must have the shape {wanted}, and they have {updates.shape}."
        )
    wrong = indices[(indices < 0) | (indices >= changed.shape[:depth])]
    if wrong.size:
        raise errors.InvalidArgumentError(
            f"indices holds {wrong[0]}, which is out of bounds of variable {name!r} with the shape {changed.shape}."
        )
    WRITERS[kind](changed, tuple(np.moveaxis(indices, -1, 0)), updates.astype(changed.dtype))
    return changed


class Scatters:
    """Methods of variables that write to elements at indices: immediately, or in a graph by evaluation."""

    def _scatter(self, kind: str, by_rows: bool, updates: object, indices: object, name: str | None) -> Any:
        raise NotImplementedError(type(self).__name__)

    def _scatter_rows(self, kind: str, slices: IndexedSlices, name: str | None) -> Any:
        if not isinstance(slices, IndexedSlices):
            _refuse_rows(kind, slices)
        return self._scatter(kind, True, slices.values, slices.indices, name)

    def scatter_nd_update(self, indices: object, updates: object, name: str | None = None) -> Any:
        """Replace elements.

        Args:
            indices: each index is a row along the last axis.
            updates: for each index an element, or a block if the index is shorter than the shape.

        Returns:
            The variable; in a graph, a tensor whose evaluation writes.

        Raises:
            InvalidArgumentError: a ValueError; an index is negative or too large.
            ShapeError: a ValueError; the shape of the updates does not match the indices.
            DtypeError: a TypeError; the variable cannot hold the updates.

        Example:
            >>> import fgrad.compat.tensorflow as tf
            >>> v = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="v")
            >>> v.scatter_nd_update([[0, 1], [1, 0]], [20.0, 30.0])
            Variable([[ 1., 20.],
                      [30.,  4.]], name='v:0', dtype=float32)
        """
        return self._scatter("Update", False, updates, indices, name)

    def scatter_nd_add(self, indices: object, updates: object, name: str | None = None) -> Any:
        """Add to elements; see `scatter_nd_update`."""
        return self._scatter("Add", False, updates, indices, name)

    def scatter_nd_sub(self, indices: object, updates: object, name: str | None = None) -> Any:
        """Subtract from elements; see `scatter_nd_update`."""
        return self._scatter("Sub", False, updates, indices, name)

    def scatter_nd_max(self, indices: object, updates: object, name: str | None = None) -> Any:
        """Replace elements by their maximum with updates; see `scatter_nd_update`."""
        return self._scatter("Max", False, updates, indices, name)

    def scatter_nd_min(self, indices: object, updates: object, name: str | None = None) -> Any:
        """Replace elements by their minimum with updates; see `scatter_nd_update`."""
        return self._scatter("Min", False, updates, indices, name)

    def scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Replace rows.

        Args:
            sparse_delta: the rows and their numbers, an `IndexedSlices`.
            use_locking: ignored.

        Returns:
            The variable; in a graph, a tensor whose evaluation writes.

        Raises:
            StructureError: a TypeError; `sparse_delta` is not an `IndexedSlices`.
            InvalidArgumentError: a ValueError; a number is negative or too large.
            ShapeError: a ValueError; the shape of the rows differs from that of the variable's rows.
            DtypeError: a TypeError; the variable cannot hold the rows.
        """
        return self._scatter_rows("Update", sparse_delta, name)

    def scatter_add(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Any:
        """Add to rows; see `scatter_update`."""
        return self._scatter_rows("Add", sparse_delta, name)

    def scatter_sub(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Subtract from rows; see `scatter_update`."""
        return self._scatter_rows("Sub", sparse_delta, name)

    def scatter_mul(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Multiply rows; see `scatter_update`."""
        return self._scatter_rows("Mul", sparse_delta, name)

    def scatter_div(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Divide rows of floating-point numbers; see `scatter_update`."""
        return self._scatter_rows("Div", sparse_delta, name)

    def scatter_max(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Replace elements of rows by their maximum with updates; see `scatter_update`."""
        return self._scatter_rows("Max", sparse_delta, name)

    def scatter_min(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Replace elements of rows by their minimum with updates; see `scatter_update`."""
        return self._scatter_rows("Min", sparse_delta, name)


def _refuse_rows(kind: str, slices: Array) -> NoReturn:
    raise errors.StructureError(
        f"scatter_{kind.lower()} takes tf.IndexedSlices(values, indices), and it is given {slices!r:.100} of type "
        f"{type(slices).__name__}."
    )
