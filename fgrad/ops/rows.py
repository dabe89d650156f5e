"""Reductions of plain arrays along their last axis where that is short: column by column, which NumPy does row by row.

A row of three elements takes NumPy twenty times as long as its three additions, since each row starts a loop of its
own. Columns are added in the order in which NumPy adds the elements of a row, so results are the same to the last bit.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fgrad.core.foreign import reduced_by

_LONGEST: dict[Any, int] = {np.add: 15, np.maximum: 32, np.minimum: 32}
"""Up to which length of rows columns are faster; from 16 on NumPy adds in another order."""
_ROWS_FOR_EACH = 64
"""How many rows make up for the time that it takes to begin a column."""
_BLOCK = 4096
"""Rows that are taken at once, so that their columns are read from the cache."""


def reduced(ufunc: np.ufunc, x: Any, axis: Any, keepdims: bool) -> Any:
    """Return `ufunc.reduce(x, axis=axis, keepdims=keepdims)`."""
    if not _is_of_short_rows(ufunc, x, axis):
        reduce = ufunc.reduce if type(x) is np.ndarray else functools.partial(reduced_by, ufunc)
        return reduce(x, axis=axis, keepdims=keepdims)
    length = x.shape[-1]
    rows = x.reshape(-1, length)
    result = np.empty(len(rows), x.dtype)
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        result[start : start + _BLOCK] = _combined(ufunc, [block[:, place] for place in range(length)])
    return result.reshape((*x.shape[:-1], 1) if keepdims else x.shape[:-1])


def _is_of_short_rows(ufunc: np.ufunc, x: Any, axis: Any) -> bool:
    return (
        type(x) is np.ndarray
        and x.size >= 4 * _ROWS_FOR_EACH  # which small arrays are not
        and axis is not None
        and x.ndim > 1
        and (axis == -1 or axis == x.ndim - 1)
        and 1 < (length := x.shape[-1]) <= _LONGEST.get(ufunc, 0)
        and x.size >= length * length * _ROWS_FOR_EACH
        and x.dtype.char in "fd"
        and x.flags.c_contiguous
    )


def _combined(ufunc: np.ufunc, columns: list[Any]) -> Any:
    if ufunc is not np.add:
        return functools.reduce(ufunc, columns)
    # Pairwise summation, as NumPy has it: https://github.com/numpy/numpy/pull/3685. It begins with 0, which is not -0.
    halves = 8 if len(columns) >= 8 else 1
    return functools.reduce(np.add, columns[halves:], _by_halves(columns[:halves])) + 0


def _by_halves(columns: list[Any]) -> Any:
    middle = len(columns) // 2
    return _by_halves(columns[:middle]) + _by_halves(columns[middle:]) if middle else columns[0]
