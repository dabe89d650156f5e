"""Plans of sparse derivatives: the positions of elements, the directions that compute them, and where to read them.

plan_of(pattern, mode)     the plan for a pattern, with few directions
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.patterns import coloring
from fgrad.patterns.trace import sparse_library
from fgrad.typing import ArrayLike

_LITTLE = 1e-5
"""A fraction of the largest row, used as the minimal scale of all rows."""


@dataclass(eq=False)
class SparsePlan:
    """How a sparse matrix of derivatives is found.

    Attributes:
        pattern: the positions of possible elements: a boolean `scipy.sparse.csr_array`.
        mode: "forward", "reverse", or "symmetric" for second derivatives.
        colors: the colors of the columns, or in reverse mode of the rows: those of one color are computed together.
        rounding: the tolerance of the check by a product along a random direction.

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
    rounding: float = field(init=False, repr=False, default=0.0)
    _check: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.pattern.indptr))
        columns = self.pattern.indices.astype(np.int64)
        if self.mode == "reverse":
            line, place = self.colors[rows], columns
        else:
            line, place = self.colors[columns], rows
        if self.mode == "symmetric":  # a color that is not unique in a row is so at the transposed position
            cells = line * self.shape[0] + rows
            is_alone = np.bincount(cells, minlength=1)[cells] == 1
            line, place = np.where(is_alone, line, self.colors[rows]), np.where(is_alone, rows, columns)
        self._places = line * self.shape[1 if self.mode == "reverse" else 0] + place
        rng = np.random.default_rng(0)
        size = len(self.colors)
        # Numbers that are exact in half precision
        self._check = rng.choice([-1.0, 1.0], size) * rng.integers(64, 256, size) / 64

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

    def directions(self) -> list[Any]:
        """Return a direction for each color, and finally a random one that checks the result."""
        return [*(np.equal(self.colors, color) for color in range(self.count)), self._check]

    def elements(self, found: ArrayLike) -> Any:
        """Return the elements in the order of the pattern, from the results along the directions."""
        return np.take(np.reshape(found, -1), self._places)

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Return whether the results along the directions have the expected shape."""
        return shape == (self.count + 1, self.shape[1 if self.mode == "reverse" else 0])

    def disagreement(self, matrix: Any, found: Any, tolerance: float) -> float:
        """Return the difference of the matrix times the random direction from the result along it; for plain numbers.

        A missing or misplaced element almost surely makes a difference. It is relative to the sum of absolute values in
        a row, with a small fraction of the largest row as a minimum; within the tolerance it is 0.
        """
        matrix = matrix.T if self.mode == "reverse" else matrix
        with np.errstate(all="ignore"):
            expected = matrix @ self._check
            far = np.abs(found - expected)
            if np.max(far, initial=0) <= tolerance * _LITTLE * np.max(np.abs(expected), initial=0):
                return 0.0
            known = np.isfinite(expected)
            if np.any(known != np.isfinite(found)):
                return np.inf
            scale = (abs(matrix) @ np.abs(self._check))[known]
            return float(np.max(far[known] / (scale + _LITTLE * np.max(scale, initial=0)), initial=0))

    def matrix(self, elements: Any) -> Any:
        """Return SciPy's sparse array with plain elements at the positions of the pattern."""
        if elements.dtype == np.float16:  # not supported by SciPy's sparse arrays
            elements = elements.astype(np.float32)
        places = self.pattern.indices.copy(), self.pattern.indptr.copy()  # which the user may modify
        matrix = sparse_library().csr_array((elements, *places), shape=self.shape)
        matrix.has_canonical_format = True
        return matrix


def plan_of(pattern: Any, mode: str) -> SparsePlan:
    """Return the plan for a pattern.

    Args:
        pattern: a boolean `csr_array` with sorted indices without duplicates.
        mode: the mode of the plan; "auto" is forward or reverse mode, the one that needs fewer directions.
    """
    if mode == "symmetric":
        both = pattern + pattern.T
        both.sort_indices()
        return SparsePlan(both, mode, coloring.symmetric(both))
    if mode != "auto":
        return SparsePlan(pattern, mode, coloring.columns(pattern if mode == "forward" else pattern.T.tocsr()))
    turned = pattern.T.tocsr()
    sides = [("forward", pattern), ("reverse", turned)]
    sides.sort(key=lambda side: np.diff(side[1].indptr).max(initial=0))  # a lower bound for each side
    (first, matrix), (second, other) = sides
    colors = coloring.columns(matrix)
    if np.diff(other.indptr).max(initial=0) < colors.max(initial=-1) + (second == "forward"):
        others = coloring.columns(other)
        if others.max(initial=-1) < colors.max(initial=-1) + (second == "forward"):
            return SparsePlan(pattern, second, others)
    return SparsePlan(pattern, first, colors)


def as_pattern(given: Any, what: str) -> Any:
    """Return a given matrix as a pattern: a boolean `csr_array`; stored elements count, even zeros.

    Raises:
        ShapeError: it is not a matrix.
    """
    library = sparse_library()
    if not library.issparse(given) and hasattr(given, "pattern"):  # an array of `fgrad.scipy.sparse`
        given = given.pattern.labels()
    if not library.issparse(given) and np.ndim(given) != 2:
        raise errors.ShapeError(
            f"sparsity of {what} must be a matrix with a row for each result and a column for each input; it has "
            f"shape {np.shape(given)}."
        )
    matrix = library.csr_array(given) if library.issparse(given) else library.csr_array(np.asarray(given) != 0)
    pattern = library.csr_array((np.ones(matrix.nnz, np.bool_), matrix.indices, matrix.indptr), shape=matrix.shape)
    pattern.sum_duplicates()
    return pattern


def parts(matrix: Any, sizes: Sequence[int], axis: int) -> list[Any]:
    """Return the blocks of rows or columns of a sparse array."""
    ends = np.cumsum([0, *sizes])
    return [matrix[a:b] if axis == 0 else matrix[:, a:b] for a, b in pairwise(ends)]
