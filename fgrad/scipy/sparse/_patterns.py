"""Sparsity patterns: `Pattern`, which is constant under differentiation.

A pattern is a SciPy sparse array without values. Rearrangements by SciPy are applied to arrays of labels: the label
of an element is its index, which shows where the element came from.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from fgrad.typing import Array

FORMATS: dict[str, Any] = {
    "coo": scipy.sparse.coo_array,
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_array,
}
"""Formats of sparse arrays with traced elements, with SciPy's classes."""


def _own(indices: Array) -> Any:
    """Return a private copy of indices."""
    indices = np.array(indices)
    indices.flags.writeable = False
    return indices


class Pattern:
    """The positions of the elements of a matrix, in storage order.

    Args:
        matrix: a SciPy sparse array in one of `FORMATS`; its values are not used, and its indices are copied.

    Attributes:
        format: one of `FORMATS`.
        shape: the shape of the matrix.
        nnz: the number of stored elements.
        indices: SciPy's index arrays: rows and columns, or `indices` and `indptr`.
    """

    def __init__(self, matrix: Any) -> None:
        self.format: str = matrix.format
        self.shape: tuple[int, int] = tuple(map(int, matrix.shape))  # type: ignore[assignment]
        self.nnz = int(matrix.nnz)
        none = np.zeros(self.nnz, np.bool_)
        if self.format == "coo":
            self.indices = tuple(map(_own, (matrix.row, matrix.col)))
            self._matrix = FORMATS["coo"]((none, self.indices), shape=self.shape)
        else:
            self.indices = tuple(map(_own, (matrix.indices, matrix.indptr)))
            self._matrix = FORMATS[self.format]((none, *self.indices), shape=self.shape)
        self._coordinates: tuple[Any, Any] | None = None
        self._turned: Pattern | None = None
        self._origin: Callable[[], Pattern | None] = lambda: None

    def __reduce__(self) -> Any:
        return Pattern, (self._matrix,)

    def with_elements(self, elements: Array) -> Any:
        """Return the SciPy array with plain elements at these positions."""
        matrix = copy.copy(self._matrix)
        matrix.data = elements
        return matrix

    def labels(self, first: int = 1) -> Any:
        """Return the SciPy array whose elements are their numbers, counted from `first`."""
        return self.with_elements(np.arange(first, first + self.nnz))

    @property
    def coordinates(self) -> tuple[Any, Any]:
        """The row and the column of each element."""
        if self._coordinates is None:
            if self.format == "coo":
                self._coordinates = self.indices
            else:
                indices, starts = self.indices
                lines = np.repeat(np.arange(len(starts) - 1, dtype=indices.dtype), np.diff(starts))
                self._coordinates = (lines, indices) if self.format == "csr" else (indices, lines)
        return self._coordinates

    @property
    def T(self) -> Pattern:  # noqa: N802  # NumPy's name
        """The pattern of the transpose, with the same storage order."""
        origin = self._origin()
        if origin is not None:
            return origin
        if self._turned is None:
            turned = self._turned = object.__new__(Pattern)
            turned._matrix = self._matrix.transpose()
            turned.format, turned.shape, turned.nnz = turned._matrix.format, self.shape[::-1], self.nnz
            turned.indices = self.indices[::-1] if self.format == "coo" else self.indices
            turned._coordinates = self._coordinates and self._coordinates[::-1]
            turned._turned, turned._origin = None, weakref.ref(self)  # weak, to avoid a reference cycle
        return self._turned

    def sums_duplicates(self) -> Pattern | None:
        """Return the matrix of ones that sums duplicates; None if there are none."""
        if not self._may_have_duplicates():
            return None
        rows, columns = self.coordinates
        places = rows.astype(np.int64) * self.shape[1] + columns
        known, kept = np.unique(places, return_inverse=True)
        if len(known) == self.nnz:
            return None
        return Pattern(FORMATS["coo"]((np.ones(self.nnz), (kept, np.arange(self.nnz))), shape=(len(known), self.nnz)))

    def _may_have_duplicates(self) -> bool:
        """Return False if SciPy knows that there are no duplicates."""
        if self.format == "coo":
            return bool(self._matrix.tocsr().nnz < self.nnz)
        return not self._matrix.has_canonical_format

    def without_duplicates(self) -> Pattern:
        """Return the pattern without duplicates, by rows."""
        rows, columns = self.coordinates
        places = np.unique(rows.astype(np.int64) * self.shape[1] + columns)
        return placed(*np.divmod(places, max(self.shape[1], 1)), self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pattern):
            return NotImplemented
        if self is other:
            return True
        return (self.format, self.shape, self.nnz) == (other.format, other.shape, other.nnz) and all(
            np.array_equal(ours, others) for ours, others in zip(self.indices, other.indices, strict=True)
        )

    def __hash__(self) -> int:
        return hash((self.format, self.shape, self.nnz))

    def __repr__(self) -> str:
        return f"<{self.nnz} places of {self.shape[0]} x {self.shape[1]}>"


def placed(rows: Any, columns: Any, shape: tuple[int, int]) -> Pattern:
    """Return the pattern of elements with given rows and columns, in this order."""
    return Pattern(FORMATS["coo"]((np.zeros(len(rows), np.bool_), (rows, columns)), shape=shape))


def full(shape: tuple[int, int]) -> Pattern:
    """Return the pattern of a full matrix, by rows."""
    rows, columns = shape
    indices, starts = np.tile(np.arange(columns), rows), np.arange(rows + 1) * columns
    return Pattern(FORMATS["csr"]((np.zeros(rows * columns, np.bool_), indices, starts), shape=shape))
