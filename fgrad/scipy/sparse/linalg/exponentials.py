"""The product of the exponential of a matrix with a vector: `expm_multiply`.

It is `exp(A / s)` applied `s` times, by its series, with steps so short that a fixed number of terms has
full precision; before that the mean of the diagonal is subtracted (A. H. Al-Mohy and N. J. Higham, "Computing the
action of the matrix exponential" (2011), https://doi.org/10.1137/100788860). It consists of products with `A`, so the
derivatives are those of products: as accurate, and never with a dense matrix.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse.linalg

from fgrad import errors
from fgrad.ops.tracing import raw_array
from fgrad.scipy._plain import differentiates
from fgrad.scipy.sparse._products import product
from fgrad.scipy.sparse.linalg._systems import on_plain, system
from fgrad.typing import ArrayLike

_LONGEST_STEP = 3.5
_TERMS = 32
"""Number of terms: 3.5**32 / 32! is 1e-18, which leaves a margin for derivatives of the series."""


def _norm(matrix: Any) -> float:
    """Return the 1-norm; for a batch, the largest of all."""
    data = np.abs(raw_array(matrix.data)).reshape(-1, matrix.nnz)
    sums = [matrix.pattern.with_elements(row).sum(axis=0) for row in data]
    return float(np.max(sums, initial=0))


@differentiates(on_plain(scipy.sparse.linalg.expm_multiply))
def expm_multiply(
    A: Any,  # noqa: N803
    B: ArrayLike,  # noqa: N803
    start: float | None = None,
    stop: float | None = None,
    num: int | None = None,
    endpoint: bool | None = None,
    traceA: Any = None,  # noqa: N803
) -> Any:
    """Return the product of the exponential of a matrix with a vector or with columns.

    Args:
        A: of shape (n, n), sparse or dense.
        B: of shape (n,) or (n, k).
        start, stop, num, endpoint: must be None, if something is traced; multiply `A` by a time instead.
        traceA: accepted, and ignored if something is traced.

    Returns:
        `expm(A) @ B`, of the shape of `B`.

    Raises:
        UnsupportedError: a NotImplementedError; something is traced, and several times are given.
        ValueError: the shapes are incompatible.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> from fgrad.scipy import sparse
        >>> def decay(rates):
        ...     return np.sum(expm_multiply(sparse.diags_array(-rates), np.ones(2)))
        >>> fg.grad(decay)(np.array([0.0, 1.0])) + np.exp([0.0, -1.0]) < 1e-15
        Tensor([ True,  True])
    """
    if any(each is not None for each in (start, stop, num, endpoint)):
        raise errors.UnsupportedError(
            "expm_multiply was called with several times and a traced argument; only one time is supported.\n"
            f"  at {errors.users_line()}\nCall expm_multiply(A * t, B) for each time t."
        )
    matrix, b = system(A, B, "expm_multiply")
    columns = b[:, None] if b.ndim == 1 else b
    mean = matrix.trace() / max(matrix.shape[0], 1)
    moved = _norm(matrix) + float(np.max(np.abs(raw_array(mean))))
    steps = max(1, math.ceil(moved / _LONGEST_STEP))
    for _ in range(steps):
        term = columns
        for k in range(1, _TERMS + 1):
            term = (product(matrix.data, term, matrix.pattern) - mean * term) / (k * steps)
            columns = columns + term
        columns = columns * np.exp(mean / steps)
    return columns[:, 0] if b.ndim == 1 else columns
