"""LAPACK for single matrices, where SciPy is installed, and loops over stacks of matrices.

NumPy does not return factors, and solves triangular equations as general ones. SciPy is imported when a
LAPACK function is first requested.

    lapack("trtrs", "d")         a LAPACK function for a dtype; None without SciPy
    in_stacks(f, a, b)           apply a function of single matrices to each matrix of a stack
    fixed("lu", f)               the operation without a derivative that computes `f`, such as a factorization
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.core.primitive import Primitive
from fgrad.core.tensor import apply, strip_ended
from fgrad.ops.matrices import stacked_batch
from fgrad.typing import Array, ArrayLike


@functools.cache
def scipys() -> Any:
    """Return the module `scipy.linalg`, or None where SciPy is not installed."""
    return importlib.import_module("scipy.linalg") if importlib.util.find_spec("scipy") else None


@functools.cache
def lapack(name: str, char: str) -> Any:
    """Return a LAPACK function for a dtype, given by NumPy's letter; None without SciPy."""
    return None if scipys() is None else scipys().get_lapack_funcs((name,), dtype=np.dtype(char))[0]


def in_stacks(function: Callable[..., Any], *arrays: Array) -> Any:
    """Apply a function of matrices to each matrix of a stack; stacks are broadcast.

    Args:
        function: takes and returns plain matrices, or returns a tuple of them.
        arrays: plain; the last two axes are those of the matrices.
    """
    if all(x.ndim == 2 for x in arrays):
        return function(*arrays)
    stack = np.broadcast_shapes(*(x.shape[:-2] for x in arrays))
    if 0 in stack:
        result = function(*(np.eye(*x.shape[-2:], dtype=x.dtype) for x in arrays))
        return _for_all(lambda x: np.zeros((*stack, *x.shape), x.dtype), result)
    wide = [np.broadcast_to(x, (*stack, *x.shape[-2:])) for x in arrays]
    results = [function(*(x[index] for x in wide)) for index in np.ndindex(*stack)]
    if type(results[0]) is tuple:
        return tuple(_joined(each, stack) for each in zip(*results, strict=True))
    return _joined(results, stack)


def _joined(results: Sequence[Any], stack: tuple[int, ...]) -> Array:
    joined = np.stack(results)
    return joined.reshape((*stack, *joined.shape[1:]))


def _for_all(function: Callable[[Any], Any], result: ArrayLike) -> Any:
    return tuple(map(function, result)) if type(result) is tuple else function(result)


def fixed(name: str, implementation: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operation on matrices without a derivative.

    Args:
        name: the name in graphs.
        implementation: takes and returns stacks of matrices, or returns a tuple of them.
    """
    primitive = Primitive(name, implementation)
    primitive.batch = stacked_batch(primitive)

    def compute(*arrays: Array, **metadata: Any) -> Any:
        return _for_all(strip_ended, apply(primitive, arrays, metadata))

    return compute
