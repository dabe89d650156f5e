"""Construction of sparse arrays from diagonals and other arrays: `diags_array`, `block_array`, `kron` and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from fgrad.core.coerce import as_array
from fgrad.scipy._docstrings import completed_by
from fgrad.scipy.sparse._patterns import placed
from fgrad.scipy.sparse.arrays import as_sparse, coo_array, issparse, made, rearranged
from fgrad.typing import Shape

_SCIPY: Any = scipy.sparse


def diags_array(
    diagonals: Any, /, *, offsets: Any = 0, shape: tuple[int, int] | None = None, format: Any = None, dtype: Any = None
) -> Any:
    """Return the sparse array with given diagonals.

    Args:
        diagonals: a sequence of vectors, or one vector; those of length 1 are repeated.
        offsets: the numbers of the diagonals; those above the main one are positive.
        shape: the numbers of rows and columns; by default the smallest square matrix.
        format: "csr", "csc" or "coo"; by default "csr". SciPy's default, "dia", is not supported.
        dtype: the dtype of the elements.

    Returns:
        A sparse array; elements outside of the diagonals are not stored.

    Raises:
        ValueError: lengths, offsets and shape are incompatible.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> def product(x):
        ...     return diags_array([x, -x[1:]], offsets=[0, 1]) @ np.array([1.0, 2.0, 3.0])
        >>> fg.jacobian(product)(np.ones(3)) + 0.0
        Tensor([[ 1., -2.,  0.],
                [ 0.,  2., -3.],
                [ 0.,  0.,  3.]])
    """
    if np.ndim(offsets) == 0:
        one = as_array(diagonals)
        parts, places = [one if one.ndim == 1 else one[0]], [int(offsets)]
    else:
        parts, places = [as_array(each) for each in diagonals], [int(each) for each in np.asarray(offsets)]
    parts = [np.reshape(each, (-1,)) for each in parts]
    shape, lengths = _checked_diagonals(parts, places, shape)
    whole = [part if len(part) == n else np.broadcast_to(part, (n,)) for part, n in zip(parts, lengths, strict=True)]
    steps = [np.arange(n) for n in lengths]
    rows = np.concatenate([each + max(-k, 0) for each, k in zip(steps, places, strict=True)])
    columns = np.concatenate([each + max(k, 0) for each, k in zip(steps, places, strict=True)])
    data = whole[0] if len(whole) == 1 else np.concatenate(whole)
    found = made(placed(rows, columns, shape), data).asformat(format or "csr")
    return found if dtype is None else found.astype(dtype)


def _checked_diagonals(parts: list[Any], offsets: list[int], shape: Shape | None) -> tuple[tuple[int, int], list[int]]:
    """Return the shape, and the length of each diagonal; invalid ones raise SciPy's error."""
    stand_ins = [np.ones(part.shape[0]) for part in parts]
    found = _SCIPY.diags_array(stand_ins, offsets=offsets, shape=shape)
    m, n = map(int, found.shape)
    return (m, n), [max(0, min(m + min(k, 0), n - max(k, 0))) for k in offsets]


def eye_array(m: int, n: int | None = None, *, k: int = 0, dtype: object = float, format: Any = None) -> Any:
    """Return the sparse array with ones on a diagonal.

    Args:
        m, n: the numbers of rows and columns; by default as many columns as rows.
        k: the number of the diagonal; those above the main one are positive.
        dtype: the dtype of the elements.
        format: "csr", "csc" or "coo"; by default "csr".

    Returns:
        A sparse array of plain elements.

    Raises:
        ValueError: a size is negative.

    Example:
        >>> eye_array(2).toarray()
        array([[1., 0.],
               [0., 1.]])
    """
    return as_sparse(_SCIPY.eye_array(m, n, k=k, dtype=dtype, format="csr")).asformat(format)


def block_array(blocks: Any, *, format: str | None = None, dtype: Any = None) -> Any:
    """Return the sparse array made of blocks.

    Args:
        blocks: rows of blocks, which are sparse arrays, dense matrices or None for zeros.
        format: "csr", "csc" or "coo"; by default "coo".
        dtype: the dtype of the elements.

    Returns:
        A sparse array.

    Raises:
        ValueError: the sizes of blocks are incompatible.

    Example:
        >>> block_array([[eye_array(1), None], [None, eye_array(1) * 2.0]]).toarray()
        array([[1., 0.],
               [0., 2.]])
    """
    rows = [[None if each is None else _block(each) for each in row] for row in blocks]
    arrays = [each for row in rows for each in row if each is not None]

    def arranged(*labelled: object) -> Any:
        rest = iter(labelled)
        labels = [[None if each is None else next(rest) for each in row] for row in rows]
        return _SCIPY.block_array(labels, format=format or "coo")

    found = rearranged(arranged, *arrays)
    return found if dtype is None else found.astype(dtype)


def _block(x: Any) -> Any:
    """Return a block as a sparse array without duplicates."""
    if issparse(x):
        found = as_sparse(x)
        return found.tocsr() if found.format == "coo" else found
    x = as_array(x)
    rows, columns = np.indices(x.shape).reshape(2, -1)
    return coo_array((np.reshape(x, (-1,)), (rows, columns)), shape=x.shape)


_OF_BLOCKS = """
Args:
    A: a sparse array or dense matrix.
    format: the format of the result: "csr", "csc" or "coo".
    dtype: the dtype of the elements.

Returns:
    A sparse array.

Raises:
    UnsupportedError: a NotImplementedError; the format is not supported.
"""


@completed_by(_OF_BLOCKS)
def hstack(blocks: Sequence[Any], format: str | None = None, dtype: Any = None) -> Any:
    """Return sparse arrays joined horizontally; see `block_array`.

    Args:
        blocks: sparse arrays or dense matrices with equal numbers of rows.

    Raises:
        ValueError: the numbers of rows differ.

    Example:
        >>> hstack([eye_array(1), eye_array(1)]).toarray()
        array([[1., 1.]])
    """
    return block_array([list(blocks)], format=format, dtype=dtype)


@completed_by(_OF_BLOCKS)
def vstack(blocks: Sequence[Any], format: str | None = None, dtype: Any = None) -> Any:
    """Return sparse arrays joined vertically; see `block_array`.

    Args:
        blocks: sparse arrays or dense matrices with equal numbers of columns.

    Raises:
        ValueError: the numbers of columns differ.

    Example:
        >>> vstack([eye_array(1), eye_array(1)]).shape
        (2, 1)
    """
    return block_array([[each] for each in blocks], format=format, dtype=dtype)


@completed_by(_OF_BLOCKS)
def block_diag(mats: Sequence[Any], format: str | None = None, dtype: Any = None) -> Any:
    """Return the sparse array with blocks on its diagonal.

    Args:
        mats: sparse arrays or dense matrices.

    Returns:
        A block-diagonal sparse array.

    Example:
        >>> block_diag([eye_array(1), eye_array(2)]).shape
        (3, 3)
    """
    arrays = [_block(each) for each in mats]
    found = rearranged(lambda *labelled: _SCIPY.block_diag(labelled, format=format or "coo"), *arrays)
    return found if dtype is None else found.astype(dtype)


@completed_by(_OF_BLOCKS)
def kron(A: object, B: object, format: str | None = None) -> Any:  # noqa: N803
    """Return the Kronecker product of sparse arrays.

    Args:
        A, B: sparse arrays or dense matrices.
        format: "csr", "csc" or "coo"; by default "coo".

    Example:
        >>> kron(eye_array(2), eye_array(3)).shape
        (6, 6)
    """
    a, b = _block(A), _block(B)
    (m, n), (p, q) = a.shape, b.shape
    rows, columns = (
        (ours.astype(np.int64)[:, None] * size + others).reshape(-1)
        for ours, others, size in zip(a.coords, b.coords, (p, q), strict=True)
    )
    data = np.reshape(a.data[:, None] * b.data, (-1,))
    return made(placed(rows, columns, (m * p, n * q)), data).asformat(format)


@completed_by(_OF_BLOCKS)
def tril(A: object, k: int = 0, format: Any = None) -> Any:  # noqa: N803
    """Return the lower triangle of a sparse array.

    Args:
        k: the highest diagonal that is kept.

    Returns:
        A sparse array; other elements are not stored.

    Example:
        >>> tril(eye_array(2), k=-1).nnz
        0
    """
    return rearranged(lambda labelled: _SCIPY.tril(labelled, k=k), _block(A)).asformat(format)


@completed_by(_OF_BLOCKS)
def triu(A: object, k: int = 0, format: str | None = None) -> Any:  # noqa: N803
    """Return the upper triangle of a sparse array.

    Args:
        k: the lowest diagonal that is kept.

    Returns:
        A sparse array; other elements are not stored.

    Example:
        >>> triu(eye_array(2), k=1).nnz
        0
    """
    return rearranged(lambda labelled: _SCIPY.triu(labelled, k=k), _block(A)).asformat(format)
