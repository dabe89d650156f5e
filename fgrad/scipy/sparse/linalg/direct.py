"""Direct solvers: `spsolve`, `splu`, `factorized`.

A matrix is factored once for its values, and the factors serve derivatives of every order: a transposed system is
solved with the factors of the matrix itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse.linalg

from fgrad.core.tensor import Tensor, strip_ended
from fgrad.ops.matrices import conjugated
from fgrad.ops.tracing import raw_array
from fgrad.scipy._plain import differentiates
from fgrad.scipy.linalg._arguments import lapack_dtype, numbers
from fgrad.scipy.sparse.linalg._systems import as_matrix, on_plain, solution, system
from fgrad.typing import Array, ArrayLike

_SCIPY: Any = scipy.sparse.linalg


class Factors:
    """Solver with LU factors; those of the last matrix are cached, but not those of batches.

    Args:
        warns: whether a singular matrix gives NaN and a warning rather than an error.
        options: SciPy's options for `splu`.
    """

    def __init__(self, warns: bool, **options: object) -> None:
        self._warns, self._options = warns, options
        self._known: tuple[Any, Any] | None = None

    def solve(self, matrix: Any, b: Any, of_transpose: bool) -> Any:
        """Return the solution; see `Solver`."""
        factors = self.of(matrix)
        if factors is None:
            return np.full(b.shape, np.nan, np.result_type(matrix.dtype, b))
        trans = "T" if of_transpose else "N"
        if np.iscomplexobj(b) and not np.iscomplexobj(matrix.data):
            return factors.solve(np.array(b.real), trans) + 1j * factors.solve(np.array(b.imag), trans)
        return factors.solve(np.asarray(b, matrix.dtype), trans)

    def of(self, matrix: Any) -> Any:
        """Return SciPy's factorization; None for a singular matrix, if this is a warning."""
        known = self._known
        if known is not None and _is_same(known[0], matrix.data):
            return known[1]
        factors = self._factors(matrix)
        self._known = np.array(matrix.data), factors
        return factors

    def _factors(self, matrix: Any) -> Any:
        columns = matrix.tocsc(copy=True)
        columns.sum_duplicates()
        if not self._warns:
            return _SCIPY.splu(columns, **self._options)
        try:
            return _SCIPY.splu(columns, **self._options)
        except RuntimeError:
            warnings.warn("Matrix is exactly singular", _SCIPY.MatrixRankWarning, stacklevel=2)
            return None

    def for_derivatives(self) -> Factors:
        """Return the solver itself: the factors serve the transpose, too."""
        return self

    def __repr__(self) -> str:
        return "SuperLU"


def _is_same(known: Array, data: Array) -> bool:
    return bool(known.dtype == data.dtype and np.array_equal(known, data))


@differentiates(on_plain(_SCIPY.spsolve))
def spsolve(A: Any, b: ArrayLike, permc_spec: str | None = None, use_umfpack: bool = True) -> Any:  # noqa: N803
    """Solve the equation `A @ x = b` for sparse square `A`.

    Args:
        A: a sparse array, SciPy's or fgrad's, of shape (n, n).
        b: of shape (n,) or (n, k); dense, if something is traced.
        permc_spec: the column ordering of SuperLU; see `scipy.sparse.linalg.spsolve`.
        use_umfpack: accepted, and ignored if something is traced: SuperLU is used.

    Returns:
        The solution, of shape (n,) or (n, k); for one column of shape (n,), as in SciPy. For a singular matrix it is
        NaN, with SciPy's warning.

    Raises:
        ValueError: the shapes are incompatible.
        StructureError: a TypeError; an argument is traced, and `b` is sparse.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> from fgrad.scipy import sparse
        >>> places, b = (np.array([0, 1, 1]), np.array([0, 0, 1])), np.array([2.0, 9.0])
        >>> def second(data):
        ...     return spsolve(sparse.csc_array((data, places)), b)[1]
        >>> fg.grad(second)(np.array([2.0, 1.0, 4.0]))
        Tensor([ 0.125, -0.25 , -0.5  ])
    """
    matrix, b = system(A, b, "spsolve")
    x = solution(matrix, b, Factors(True, permc_spec=permc_spec))
    return x[:, 0] if x.ndim == 2 and x.shape[1] == 1 else x


class SuperLU:
    """The factorization of a matrix that may be traced, as returned by `splu`, with SciPy's interface.

    Attributes:
        shape: the shape of the matrix.
        nnz: the number of elements in both factors.

    Example:
        >>> import numpy as np, fgrad as fg, fgrad.scipy.sparse
        >>> places = np.array([0, 1, 1]), np.array([0, 0, 1])
        >>> def second(data):
        ...     return splu(fgrad.scipy.sparse.csc_array((data, places))).solve(np.array([2.0, 9.0]))[1]
        >>> fg.grad(second)(np.array([2.0, 1.0, 4.0]))
        Tensor([ 0.125, -0.25 , -0.5  ])
    """

    def __init__(self, matrix: Any, factors: Factors) -> None:
        self._matrix, self._factors = matrix, factors
        self.shape: tuple[int, int] = matrix.shape

    def solve(self, rhs: ArrayLike, trans: str = "N") -> Any:
        """Return the solution of a system with the matrix.

        Args:
            rhs: of shape (n,) or (n, k).
            trans: "N" for `A @ x = rhs`, "T" for the transpose, "H" for its conjugate.

        Raises:
            ValueError: the shapes are incompatible, or `trans` is invalid.
        """
        if trans not in ("N", "T", "H"):
            raise ValueError("trans must be N, T, or H")
        matrix, b = system(self._matrix, rhs, "splu")
        if trans == "H":
            return conjugated(solution(matrix, conjugated(b), self._factors, True))
        return solution(matrix, b, self._factors, trans == "T")

    @property
    def nnz(self) -> int:
        """The number of elements in both factors."""
        return int(self._factors.of(self._matrix.pattern.with_elements(raw_array(self._matrix.data))).nnz)

    def __repr__(self) -> str:
        return f"<SuperLU of {self.shape[0]} x {self.shape[1]}, differentiated>"


def splu(
    A: object,  # noqa: N803
    permc_spec: str | None = None,
    diag_pivot_thresh: float | None = None,
    relax: int | None = None,
    panel_size: int | None = None,
    options: dict[str, Any] | None = None,
) -> SuperLU:
    """Factor a sparse square matrix, to solve many systems with it.

    Args:
        A: a sparse array, SciPy's or fgrad's, of shape (n, n).
        permc_spec, diag_pivot_thresh, relax, panel_size, options: as in `scipy.sparse.linalg.splu`.

    Returns:
        An object with the method `solve(rhs, trans="N")`, which accepts traced right-hand sides, too.

    Raises:
        RuntimeError: the matrix is singular.
        ValueError: it is not square.

    Example:
        >>> import numpy as np, fgrad as fg, scipy.sparse
        >>> factors = splu(scipy.sparse.csc_array([[2.0, 0.0], [1.0, 4.0]]))
        >>> fg.grad(lambda b: factors.solve(b)[1])(np.array([2.0, 9.0]))
        Tensor([-0.125,  0.25 ])
    """
    matrix = as_matrix(A, "splu")
    (data,) = numbers(matrix.data, check_finite=False)
    factors = Factors(
        False,
        permc_spec=permc_spec,
        diag_pivot_thresh=diag_pivot_thresh,
        relax=relax,
        panel_size=panel_size,
        options=options or {},
    )
    matrix = matrix.with_data(data)
    if type(strip_ended(data)) is not Tensor or raw_array(data).shape == data.shape:
        factors.of(matrix.pattern.with_elements(np.asarray(raw_array(data), lapack_dtype(data))))
    return SuperLU(matrix, factors)


def factorized(A: object) -> Callable[[ArrayLike], Any]:  # noqa: N803
    """Return a function that solves `A @ x = b` for fixed `A`, which is factored once.

    Args:
        A: a sparse array, SciPy's or fgrad's, of shape (n, n).

    Returns:
        A function of a right-hand side of shape (n,) or (n, k).

    Raises:
        RuntimeError: the matrix is singular.
        ValueError: it is not square.

    Example:
        >>> import numpy as np, fgrad as fg, scipy.sparse
        >>> solve = factorized(scipy.sparse.csc_array([[2.0, 0.0], [1.0, 4.0]]))
        >>> fg.jacobian(solve)(np.array([2.0, 9.0])) + 0.0
        Tensor([[ 0.5  ,  0.   ],
                [-0.125,  0.25 ]])
    """
    solve = splu(A).solve

    def solve_for(b: ArrayLike) -> Any:
        """Return the solution of the factored system."""
        return solve(b)

    return solve_for
