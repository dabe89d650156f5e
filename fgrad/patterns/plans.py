"""The plan of a sparse derivative: where its elements are, by which directions they are found, and where to read them.

    plan_of(pattern, mode)     the plan for a pattern, with as few directions as are found
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.patterns import coloring
from fgrad.patterns.trace import sparse_library


@dataclass(eq=False)
class Plan:
    """How a sparse matrix of derivatives is found.

    Attributes:
        pattern: where it may have elements: a boolean `scipy.sparse.csr_array`.
        mode: "forward", "reverse", or "symmetric" for second derivatives.
        colors: of the columns, or in reverse mode of the rows: those of one color are found together.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> plan = fg.sparse_jacobian(lambda x: x[1:] - x[:-1] ** 2).plan(np.ones(6))
        >>> plan
        <plan of 5 x 6 with 10 elements: 2 colors, forward mode>
        >>> plan.colors
        array([0, 1, 0, 1, 0, 1])
    """

    pattern: Any
    mode: str
    colors: Any
    _places: Any = field(init=False, repr=False)
    _check: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.pattern.indptr))
        columns = self.pattern.indices
        if self.mode == "reverse":
            line, place = self.colors[rows], columns
        else:
            line, place = self.colors[columns], rows
        if self.mode == "symmetric":  # what shares its color in this row is alone with its own in the other
            shared = np.bincount(line.astype(np.int64) * self.shape[0] + rows, minlength=1)
            is_alone = shared[line.astype(np.int64) * self.shape[0] + rows] == 1
            line, place = np.where(is_alone, line, self.colors[rows]), np.where(is_alone, rows, columns)
        self._places = line, place
        self._check = np.random.default_rng(0).normal(size=len(self.colors))

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        return self.pattern.shape  # type: ignore[no-any-return]

    @property
    def count(self) -> int:
        """The number of colors."""
        return int(self.colors.max(initial=-1)) + 1

    def __repr__(self) -> str:
        rows, columns = self.shape
        return (
            f"<plan of {rows} x {columns} with {self.pattern.nnz} elements: {self.count} "
            f"color{'s' * (self.count != 1)}, {self.mode} mode>"
        )

    def directions(self) -> Any:
        """Return a direction for each color, and last one at random by which the result is checked."""
        rows = np.zeros((self.count + 1, len(self.colors)))
        rows[self.colors, np.arange(len(self.colors))] = 1
        rows[-1] = self._check
        return rows

    def elements(self, found: Any) -> Any:
        """Return the elements in the order of the pattern, from what was found along the directions."""
        return found[self._places]

    def agrees(self, found: Any) -> bool:
        """Return whether the matrix, times the random direction, is what was found along it; of plain numbers.

        An element that is missing, or is in the place of another one, makes a difference almost surely.
        """
        if found.shape[0] != self.count + 1 or found.shape[1] != self.shape[int(self.mode == "reverse")]:
            return False
        matrix = self.matrix(self.elements(found))
        matrix = matrix.T if self.mode == "reverse" else matrix
        rounding = np.finfo(found.dtype).eps
        with np.errstate(all="ignore"):
            expected, scale = matrix @ self._check, abs(matrix) @ np.abs(self._check)
            finite = np.isfinite(expected) & np.isfinite(found[-1])
            slack = np.sqrt(rounding) * scale + 1e3 * rounding * np.max(scale[finite], initial=0)
            far = np.abs(found[-1] - expected) > slack
        return bool(np.all(np.isfinite(expected) == np.isfinite(found[-1])) and not np.any(far & finite))

    def matrix(self, elements: Any) -> Any:
        """Return the sparse array of SciPy's with plain elements at the places of the pattern."""
        csr_array = sparse_library().csr_array
        return csr_array((elements, self.pattern.indices, self.pattern.indptr), shape=self.shape)


def plan_of(pattern: Any, mode: str) -> Plan:
    """Return the plan for a pattern.

    Args:
        pattern: a boolean `csr_array` with sorted indices, each of which is there once.
        mode: as of a plan; "auto" is forward or reverse mode, whichever needs fewer directions.
    """
    if mode == "symmetric":
        both = pattern + pattern.T
        both.sort_indices()
        return Plan(both, mode, coloring.symmetric(both))
    if mode != "auto":
        return Plan(pattern, mode, coloring.columns(pattern if mode == "forward" else pattern.T.tocsr()))
    turned = pattern.T.tocsr()
    sides = [("forward", pattern), ("reverse", turned)]
    sides.sort(key=lambda side: np.diff(side[1].indptr).max(initial=0))  # no side needs fewer than this
    (first, matrix), (second, other) = sides
    colors = coloring.columns(matrix)
    if np.diff(other.indptr).max(initial=0) < colors.max(initial=-1) + (second == "forward"):
        others = coloring.columns(other)
        if others.max(initial=-1) < colors.max(initial=-1) + (second == "forward"):
            return Plan(pattern, second, others)
    return Plan(pattern, first, colors)


def as_pattern(given: Any, what: str) -> Any:
    """Return a matrix that was given as a pattern: a boolean `csr_array`; numbers that are stored count, also zeros.

    Raises:
        ShapeError: it is no matrix.
    """
    library = sparse_library()
    if not library.issparse(given) and hasattr(given, "pattern"):  # an array of `fgrad.scipy.sparse`
        given = given.pattern.labels()
    if not library.issparse(given) and np.ndim(given) != 2:
        raise errors.ShapeError(
            f"sparsity of {what} must be a matrix with a row for each result and a column for each input, and it has "
            f"shape {np.shape(given)}."
        )
    matrix = library.csr_array(given) if library.issparse(given) else library.csr_array(np.asarray(given) != 0)
    pattern = library.csr_array((np.ones(matrix.nnz, np.bool_), matrix.indices, matrix.indptr), shape=matrix.shape)
    pattern.sum_duplicates()
    return pattern


def parts(matrix: Any, sizes: Sequence[int], axis: int) -> list[Any]:
    """Return the stretches of rows or columns of a sparse array."""
    ends = np.cumsum([0, *sizes])
    pairs = zip(ends[:-1], ends[1:], strict=True)
    return [matrix[a:b] if axis == 0 else matrix[:, a:b] for a, b in pairs]
