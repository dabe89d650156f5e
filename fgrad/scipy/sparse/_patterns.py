"""Where the elements of a sparse array lie: `Pattern`, which is fixed while derivatives are taken.

A pattern is a sparse array of SciPy without numbers. What SciPy does to patterns it does to arrays of labels: an
element that is labelled with its place tells after any rearrangement where it has come from.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

FORMATS: dict[str, Any] = {
    "coo": scipy.sparse.coo_array,
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_array,
}
"""The formats that sparse arrays with traced elements have, and SciPy's classes of them."""


def _own(indices: Any) -> Any:
    """Return a copy of indices that nobody writes to."""
    indices = np.array(indices)
    indices.flags.writeable = False
    return indices


def _nothing() -> None:
    return None


class Pattern:
    """The places of the elements of a matrix, in the order in which the elements are stored.

    Args:
        matrix: a sparse array of SciPy in one of `FORMATS`; its numbers do not count, and its indices are copied.

    Attributes:
        format: one of `FORMATS`.
        shape: of the matrix.
        nnz: how many elements are stored.
        indices: what SciPy's format has: rows and columns, or `indices` and `indptr`.
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
        self._origin: Callable[[], Pattern | None] = _nothing

    def __reduce__(self) -> Any:
        return Pattern, (self._matrix,)

    def with_elements(self, elements: Any) -> Any:
        """Return the array of SciPy's that has plain elements at these places."""
        matrix = copy.copy(self._matrix)
        matrix.data = elements
        return matrix

    def labels(self, first: int = 1) -> Any:
        """Return the array of SciPy's in which each element is its number, counted from `first`."""
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
        """The pattern of the transpose, whose elements are stored in the same order."""
        origin = self._origin()
        if origin is not None:
            return origin
        if self._turned is None:
            turned = self._turned = object.__new__(Pattern)
            turned._matrix = self._matrix.transpose()
            turned.format, turned.shape, turned.nnz = turned._matrix.format, self.shape[::-1], self.nnz
            turned.indices = self.indices[::-1] if self.format == "coo" else self.indices
            turned._coordinates = self._coordinates and self._coordinates[::-1]
            turned._turned, turned._origin = None, weakref.ref(self)  # weak, so that no cycle keeps them
        return self._turned

    def sums_duplicates(self) -> Pattern | None:
        """Return the matrix of ones that sums elements of the same place; None if each place is there once."""
        if not self._may_have_duplicates():
            return None
        rows, columns = self.coordinates
        places = rows.astype(np.int64) * self.shape[1] + columns
        known, kept = np.unique(places, return_inverse=True)
        if len(known) == self.nnz:
            return None
        return Pattern(FORMATS["coo"]((np.ones(self.nnz), (kept, np.arange(self.nnz))), shape=(len(known), self.nnz)))

    def _may_have_duplicates(self) -> bool:
        """Return false where SciPy knows soon that each place is there once."""
        if self.format == "coo":
            return bool(self._matrix.tocsr().nnz < self.nnz)
        return not self._matrix.has_canonical_format

    def without_duplicates(self) -> Pattern:
        """Return the pattern that has each place once, by rows."""
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
    """Return the pattern of elements with these rows and columns, in this order."""
    return Pattern(FORMATS["coo"]((np.zeros(len(rows), np.bool_), (rows, columns)), shape=shape))


def full(shape: tuple[int, int]) -> Pattern:
    """Return the pattern of a matrix that has an element everywhere, by rows."""
    rows, columns = shape
    indices, starts = np.tile(np.arange(columns), rows), np.arange(rows + 1) * columns
    return Pattern(FORMATS["csr"]((np.zeros(rows * columns, np.bool_), indices, starts), shape=shape))
