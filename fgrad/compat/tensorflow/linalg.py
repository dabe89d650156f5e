"""`tf.linalg`: matrices, and batches of matrices.

matmul, matvec, tensordot, einsum, cross        products
diag, diag_part, set_diag, band_part, trace     parts of matrices
norm, global_norm, l2_normalize                 norms
inv, solve, lstsq, pinv, cholesky ...           equations
det, slogdet, logdet, eigh, svd, qr             determinants and factorizations
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.compat.deferred.graph import Convertible, operation
from fgrad.compat.tensorflow.arguments import axes, chosen, convert, operands, several, turned, with_facts_by
from fgrad.compat.tensorflow.arrays import diag as _tensor_diag
from fgrad.compat.tensorflow.arrays import eye, transpose
from fgrad.compat.tensorflow.formulas import euclidean_norm
from fgrad.compat.tensorflow.math import einsum, global_norm, l2_normalize, matmul, tensordot
from fgrad.compat.tensorflow.missing import missing
from fgrad.core.tensor import boxed
from fgrad.transforms.reverse import stop_gradient
from fgrad.typing import Array, Operand

__all__ = [
    "adjoint", "band_part", "cholesky", "cholesky_solve", "cross", "det", "diag", "diag_part", "eigh", "eigvalsh",
    "einsum", "eye", "global_norm", "inv", "l2_normalize", "logdet", "lstsq", "matmul", "matrix_band_part",
    "matrix_determinant", "matrix_diag", "matrix_diag_part", "matrix_inverse", "matrix_set_diag", "matrix_solve",
    "matrix_solve_ls", "matrix_transpose", "matrix_triangular_solve", "matvec", "norm", "pinv", "qr",
    "self_adjoint_eig", "self_adjoint_eigvals", "set_diag", "slogdet", "solve", "svd", "tensordot", "trace",
    "transpose", "triangular_solve",
]  # fmt: skip

__dir__ = __all__.copy

# Products


@operation("MatVec")
def matvec(
    a: Convertible,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
) -> Any:
    """Return matrices times vectors.

    Args:
        a: matrices.
        b: vectors, with the same leading axes.
        transpose_a, adjoint_a: whether to transpose `a` first, and to conjugate it.
        a_is_sparse, b_is_sparse: ignored.
    """
    a, b = operands(a, b)
    return np.matmul(turned(a, transpose_a, adjoint_a), b[..., None])[..., 0]


@operation()
def cross(a: Any, b: Any) -> Any:
    """Return the cross product of three-dimensional vectors along the last axis."""
    a, b = operands(a, b)
    return a[..., [1, 2, 0]] * b[..., [2, 0, 1]] - a[..., [2, 0, 1]] * b[..., [1, 2, 0]]


# Parts of matrices


@operation("matrix_transpose")
def matrix_transpose(a: Convertible, conjugate: bool = False) -> Any:
    """Exchange the last two axes."""
    return turned(convert(a), not conjugate, conjugate)


@operation("adjoint")
def adjoint(matrix: Convertible) -> Any:
    """Exchange the last two axes, and conjugate."""
    return turned(convert(matrix), False, True)


tensor_diag = _tensor_diag


class _Band:
    """A band of diagonals of a matrix, stored in the rows of another array, the highest one first.

    Args:
        k: the diagonal: 0 for the main one, positive above it; or the lowest and the highest one.
        align: the alignment of a diagonal that is shorter than the longest one in its row: the first word is for those
            above the main diagonal, the second for those below.
        rows, columns: the sizes of the matrix.

    Attributes:
        lowest, highest: the diagonals.
        length: the length of the longest one.
    """

    def __init__(self, k: Any, align: str, rows: int, columns: int) -> None:
        self.lowest, self.highest = diagonals = _limits(k)
        self.rows, self.columns = rows, columns
        self._above, self._below = _alignment(align)
        if not all(-rows < each < columns or each == 0 for each in diagonals):
            raise errors.InvalidArgumentError(f"k is {k}, but a matrix of {rows} x {columns} has no such diagonal.")
        self.length = int(np.max(self._lengths(np.arange(self.lowest, self.highest + 1))))

    def _lengths(self, diagonal: Array) -> Any:
        return np.minimum(self.rows + np.minimum(diagonal, 0), self.columns - np.maximum(diagonal, 0))

    def _starts(self, diagonal: Array) -> Any:
        """Return the start of each diagonal in its row."""
        is_left = ((diagonal >= 0) & (self._above == "LEFT")) | ((diagonal <= 0) & (self._below == "LEFT"))
        return np.where(is_left, 0, self.length - self._lengths(diagonal))

    def gathered(self, matrices: Array, padding: Operand) -> Any:
        """Return the diagonals of matrices; for a single one, without an axis for diagonals."""
        diagonal = np.arange(self.highest, self.lowest - 1, -1)[:, None]
        along = np.arange(self.length) - self._starts(diagonal)
        is_inside = (along >= 0) & (along < self._lengths(diagonal))
        along = np.where(is_inside, along, 0)
        found = matrices[..., along + np.maximum(-diagonal, 0), along + np.maximum(diagonal, 0)]
        found = found if np.all(is_inside) else np.where(is_inside, found, padding)
        return found[..., 0, :] if self.lowest == self.highest else found

    def scattered(self, values: Array, others: Array) -> Array:
        """Return matrices with given diagonals, and other values elsewhere."""
        if self.lowest == self.highest:
            values = values[..., None, :]
        wanted = (self.highest - self.lowest + 1, self.length)
        if values.shape[-2:] != wanted:
            raise errors.InvalidArgumentError(
                f"the diagonals from {self.lowest} to {self.highest} of matrices of {self.rows} x {self.columns} are "
                f"an array of {wanted}, but the given diagonals have shape {values.shape}."
            )
        row, column = np.indices((self.rows, self.columns), sparse=True)
        diagonal = column - row
        is_inside = (diagonal >= self.lowest) & (diagonal <= self.highest)
        place = np.where(is_inside, self.highest - diagonal, 0)
        along = np.where(is_inside, np.minimum(row, column) + self._starts(diagonal), 0)
        return np.where(is_inside, values[..., place, along], others)


def _limits(k: Any) -> tuple[int, int]:
    """Return the lowest and the highest diagonal."""
    each = [int(i) for i in k] if np.iterable(k) else [int(k)]
    if len(each) not in (1, 2) or each[0] > each[-1]:
        raise errors.InvalidArgumentError(f"k is {k}; use one diagonal, or the lowest and the highest one.")
    return each[0], each[-1]


def _alignment(align: str) -> tuple[str, str]:
    above, _, below = align.partition("_")
    if not {above, below} <= {"LEFT", "RIGHT"}:
        raise errors.ParameterError(
            f"align is {align!r}; use 'RIGHT_LEFT', 'LEFT_RIGHT', 'LEFT_LEFT' or 'RIGHT_RIGHT'."
        )
    return above, below


@operation("MatrixDiag")
def diag(
    diagonal: Convertible,
    k: Any = 0,
    padding_value: Any = 0,
    num_rows: int = -1,
    num_cols: int = -1,
    align: str = "RIGHT_LEFT",
) -> Any:
    """Return matrices with given diagonals.

    Args:
        diagonal: the diagonals along the last axis; if `k` is a band, the axis before it has one row for
            each, the highest first.
        k: the diagonal: 0 for the main one, positive above it; or the lowest and the highest of a band.
        padding_value: the value of all other elements.
        num_rows, num_cols: the sizes of the matrices, by default the smallest; square if neither is given.
        align: the alignment of shorter diagonals in their rows: 'RIGHT_LEFT' is at the end for
            those above the main one, and at the beginning for those below.

    Raises:
        InvalidArgumentError: a ValueError; the diagonals do not fit into the matrices.
        ParameterError: a ValueError; `align` is unknown.

    Example:
        >>> import fgrad.compat.tensorflow as tf
        >>> tf.linalg.diag([[0.0, 8.0, 9.0], [1.0, 2.0, 3.0], [4.0, 5.0, 0.0]], k=(-1, 1))
        Tensor([[1., 8., 0.],
                [4., 2., 9.],
                [0., 5., 3.]], dtype=float32)
    """
    x = convert(diagonal)
    lowest, highest = _limits(k)
    least = x.shape[-1] - min(highest, 0), x.shape[-1] + max(lowest, 0)
    given = int(num_rows), int(num_cols)
    smallest = (max(least), max(least)) if given == (-1, -1) else least
    rows, columns = (size if wish == -1 else wish for size, wish in zip(smallest, given, strict=True))
    return _Band(k, align, rows, columns).scattered(x, convert(padding_value, hint=x.dtype))


@operation("MatrixDiagPart")
def diag_part(input: Convertible, k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT") -> Any:
    """Return diagonals of matrices; see `diag`.

    Args:
        input: matrices.
        k: the diagonal, or the lowest and the highest of a band.
        padding_value: the padding of shorter diagonals.
        align: their alignment in the rows.

    Raises:
        InvalidArgumentError: a ValueError; there is no such diagonal.
        ParameterError: a ValueError; `align` is unknown.
    """
    x = convert(input)
    return _Band(k, align, *x.shape[-2:]).gathered(x, convert(padding_value, hint=x.dtype))


@operation("MatrixSetDiag")
def set_diag(input: Convertible, diagonal: Convertible, k: Any = 0, align: str = "RIGHT_LEFT") -> Any:
    """Return matrices with diagonals replaced; see `diag`.

    Args:
        input: matrices.
        diagonal: the values, as returned by `diag_part`.
        k: the diagonal, or the lowest and the highest of a band.
        align: the alignment of shorter diagonals in their rows.

    Raises:
        InvalidArgumentError: a ValueError; the values do not fit, or there is no such diagonal.
        ParameterError: a ValueError; `align` is unknown.
    """
    x, values = operands(input, diagonal)
    return _Band(k, align, *x.shape[-2:]).scattered(values, x)


@operation("MatrixBandPart")
def band_part(input: Convertible, num_lower: Any, num_upper: Any) -> Any:
    """Return matrices with zeros outside of a band around the diagonal.

    Args:
        input: matrices.
        num_lower, num_upper: the numbers of diagonals to keep below and above the main one; all if negative.
    """
    x = convert(input)
    rows, columns = np.indices(x.shape[-2:], sparse=True)
    below, above = int(num_lower), int(num_upper)
    is_kept = ((below < 0) | (rows - columns <= below)) & ((above < 0) | (columns - rows <= above))
    return np.where(is_kept, x, np.zeros((), x.dtype))


@operation("Trace")
def trace(x: Convertible) -> Any:
    """Return the sum of the diagonal."""
    return np.trace(convert(x), axis1=-2, axis2=-1)


# Norms


@operation("norm")
def norm(
    tensor: Convertible, ord: Any = "euclidean", axis: Any = None, keepdims: Any = None, keep_dims: bool | None = None
) -> Any:
    """Return the norm of vectors or matrices; where it is 0, so is its derivative.

    Args:
        tensor: a tensor of any shape.
        ord: "euclidean", a positive number or infinity; for matrices "euclidean", "fro", 1, 2 or infinity.
        axis: the axis of vectors, or the two axes of matrices; by default all elements are one vector.
        keepdims: whether to keep these axes with size 1.
        keep_dims: the old name of `keepdims`.

    Raises:
        ParameterError: a ValueError; `ord` is not a norm, or not a norm of matrices.
    """
    x, axis = convert(tensor), axes(axis)
    keepdims = bool(chosen("keepdims", keepdims, "keep_dims", keep_dims))
    is_matrix = isinstance(axis, tuple) and len(axis) == 2
    if ord == "euclidean" or (ord == "fro" and is_matrix) or (ord == 2 and not is_matrix):
        return euclidean_norm(x, axis, keepdims)
    if isinstance(ord, str) or not ord > 0 or (is_matrix and ord not in (1, 2, np.inf)):
        kind = "matrices" if is_matrix else "vectors"
        raise errors.ParameterError(f"ord is {ord!r}, which is not a supported norm of {kind}.")
    return _matrix_norm(x, ord, axis, keepdims) if is_matrix else _vector_norm(x, ord, axis, keepdims)


def _vector_norm(x: Array, order: float, axis: int | None, keepdims: bool) -> Any:
    lengths = np.abs(x)
    if order == np.inf:
        return np.max(lengths, axis=axis, keepdims=keepdims)
    if order == 1:
        return np.sum(lengths, axis=axis, keepdims=keepdims)
    total = np.sum(lengths**order, axis=axis, keepdims=keepdims)
    positive = total > 0
    return np.where(positive, np.where(positive, total, 1) ** (1 / order), total)


def _matrix_norm(x: Array, order: float, axis: tuple[int, int], keepdims: bool) -> Any:
    if order == 2:
        return boxed(np.linalg.norm(x, 2, axis, keepdims))
    summed, compared = axis if order == 1 else axis[::-1]
    sums = np.sum(np.abs(x), axis=summed, keepdims=True)
    largest = np.max(sums, axis=compared, keepdims=True)
    return largest if keepdims else np.squeeze(largest, axis)


# Equations. In a graph the shape of the results is that of a product, which is also defined for singular matrices


def _solution_like(matrix: Array, rhs: Array, *options: object, **named: Any) -> Any:
    a, b = operands(matrix, rhs)
    return np.matmul(np.swapaxes(a, -1, -2), b)


def _matrix_like(input: Array, *options: object, **named: object) -> Any:
    return convert(input)


def _number_like(input: Array) -> Any:
    return convert(input)[..., 0, 0]


@with_facts_by(_matrix_like)
@operation("MatrixInverse")
def inv(input: Convertible, adjoint: bool = False) -> Any:
    """Return the inverses of matrices, or of their adjoints."""
    return boxed(np.linalg.inv(turned(convert(input), False, adjoint)))


@with_facts_by(_solution_like)
@operation("MatrixSolve")
def solve(matrix: Convertible, rhs: Convertible, adjoint: bool = False) -> Any:
    """Return `x` with `matrix @ x = rhs`, or with the adjoint of the matrix; `rhs` is a matrix, too."""
    a, b = operands(matrix, rhs)
    return boxed(np.linalg.solve(turned(a, False, adjoint), b))


@with_facts_by(_solution_like)
@operation("MatrixTriangularSolve")
def triangular_solve(matrix: Convertible, rhs: Convertible, lower: bool = True, adjoint: bool = False) -> Any:
    """Return `x` with `matrix @ x = rhs`, where only one triangle of the matrix is read.

    Args:
        matrix: square matrices.
        rhs: matrices.
        lower: whether it is the lower triangle.
        adjoint: whether to solve with the adjoint of that triangle.
    """
    a, b = operands(matrix, rhs)
    return boxed(np.linalg.solve(turned(_triangle(a, lower), False, adjoint), b))


def _triangle(x: Array, lower: bool) -> Array:
    return np.tril(x) if lower else np.triu(x)


@with_facts_by(_matrix_like)
@operation()
def cholesky(input: Convertible) -> Any:
    """Return the lower triangular `L` with `L @ L.T` equal to a positive definite matrix.

    Only the lower triangle is read; the derivative is symmetric, as if both were.
    """
    return _factor(convert(input))


def _factor(x: Any) -> Any:
    mean = (x + turned(x, False, True)) / 2
    return boxed(np.linalg.cholesky(stop_gradient(x) + (mean - stop_gradient(mean))))


@with_facts_by(_solution_like)
@operation("cholesky_solve")
def cholesky_solve(chol: Convertible, rhs: Convertible) -> Any:
    """Return `x` with `A @ x = rhs`, given `chol = cholesky(A)`."""
    factor, b = operands(chol, rhs)
    factor = _triangle(factor, lower=True)
    return boxed(np.linalg.solve(turned(factor, False, True), np.linalg.solve(factor, b)))


@with_facts_by(_solution_like)
@operation("matrix_solve_ls")
def lstsq(matrix: Any, rhs: Any, l2_regularizer: Any = 0.0, fast: bool = True) -> Any:
    """Return the least-squares solution `x` of `matrix @ x = rhs`.

    Args:
        matrix, rhs: matrices with the same number of rows.
        l2_regularizer: the weight of the squared norm of `x`; requires `fast`.
        fast: whether to use the normal equations, for matrices of full rank, rather than singular values.
    """
    a, b = operands(matrix, rhs)
    if not fast:
        return boxed(np.matmul(boxed(np.linalg.pinv(a)), b))
    transposed = turned(a, False, True)
    is_tall = a.shape[-2] >= a.shape[-1]
    square = np.matmul(transposed, a) if is_tall else np.matmul(a, transposed)
    square = square + convert(l2_regularizer, hint=a.dtype) * np.eye(square.shape[-1], dtype=a.dtype)
    if is_tall:
        return boxed(np.linalg.solve(square, np.matmul(transposed, b)))
    return np.matmul(transposed, boxed(np.linalg.solve(square, b)))


@operation("pinv")
def pinv(a: Convertible, rcond: Any = None) -> Any:
    """Return the pseudo-inverses; singular values below `rcond` times the largest one count as 0."""
    x = convert(a)
    cutoff = 10 * max(x.shape[-2:]) * float(np.finfo(x.dtype).eps) if rcond is None else rcond
    return boxed(np.linalg.pinv(x, cutoff))


# Determinants and factorizations


@with_facts_by(_number_like)
@operation("MatrixDeterminant")
def det(input: Convertible) -> Any:
    """Return the determinants of matrices."""
    return boxed(np.linalg.det(convert(input)))


def _all(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """Convert the results of a NumPy function to tensors."""
    return lambda x, **keywords: tuple(boxed(each) for each in function(convert(x), **keywords))


_slogdet = several(_all(np.linalg.slogdet), 2, "LogMatrixDeterminant")
_eigh = several(_all(np.linalg.eigh), 2, "SelfAdjointEigV2")
_qr = several(_all(np.linalg.qr), 2, "Qr")


def _singular(x: Array, full_matrices: bool) -> tuple[Any, ...]:
    u, s, vh = (boxed(each) for each in np.linalg.svd(convert(x), full_matrices))
    return s, u, turned(vh, False, True)


_svd = several(_singular, 3, "Svd")


def slogdet(input: Convertible, name: str | None = None) -> tuple[Any, ...]:
    """Return the signs of determinants, and the logarithms of their absolute values."""
    return _slogdet(input, name=name)


@with_facts_by(_number_like)
@operation("logdet")
def logdet(matrix: Convertible) -> Any:
    """Return the logarithms of the determinants of positive definite matrices."""
    return 2 * np.sum(np.log(np.real(np.diagonal(_factor(convert(matrix)), axis1=-2, axis2=-1))), axis=-1)


def eigh(tensor: Convertible, name: str | None = None) -> tuple[Any, ...]:
    """Return the eigenvalues of symmetric matrices in increasing order, and their vectors as columns."""
    return _eigh(tensor, name=name)


@operation("SelfAdjointEigV2")
def eigvalsh(tensor: Convertible) -> Any:
    """Return the eigenvalues of symmetric matrices in increasing order."""
    return boxed(np.linalg.eigvalsh(convert(tensor)))


def svd(tensor: Convertible, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Return singular values, the largest one first, and singular vectors.

    Args:
        tensor: matrices.
        full_matrices: whether the vectors are completed to square matrices.
        compute_uv: whether to return the vectors, too.

    Returns:
        `s`, or `s, u, v` with `tensor` equal to `u @ diag(s) @ v.T`.
    """
    return _svd(tensor, full_matrices, name=name) if compute_uv else _singular_values(tensor, name=name)


@operation("Svd")
def _singular_values(x: Array) -> Any:
    return boxed(np.linalg.svd(convert(x), compute_uv=False))


def qr(input: object, full_matrices: bool = False, name: str | None = None) -> tuple[Any, ...]:
    """Return `q` with orthonormal columns and an upper triangular `r`, whose product is the matrix."""
    return _qr(input, mode="complete" if full_matrices else "reduced", name=name)


# TensorFlow 1's names at the top level

matrix_inverse = inv
matrix_determinant = det
matrix_solve = solve
matrix_triangular_solve = triangular_solve
matrix_diag = diag
matrix_diag_part = diag_part
matrix_set_diag = set_diag
matrix_band_part = band_part
matrix_solve_ls = lstsq
self_adjoint_eig = eigh
self_adjoint_eigvals = eigvalsh

__getattr__ = missing(__name__)
