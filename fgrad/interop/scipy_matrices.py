"""Operators of tensors with SciPy's sparse matrices, which are converted to arrays of `fgrad.scipy.sparse`."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import FIND_PARTNER, classes_of
from fgrad.core.primitive import BOXES, UFUNCS, Primitive

_OPERATORS: dict[Any, Callable[[Any, Any], Any]] = {
    np.matmul: operator.matmul,
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.true_divide: operator.truediv,
}


def find_partner(kind: type) -> Callable[..., Any] | None:
    """Return the handler for operations of tensors with a sparse matrix type; None for other types."""
    return _computed if issubclass(kind, classes_of("scipy.sparse", "sparray", "spmatrix")) else None


def _computed(primitive: Primitive, args: Sequence[Any]) -> Any:
    """Return the result of an operation on tensors and sparse matrices."""
    sparse: Any = importlib.import_module("fgrad.scipy.sparse.arrays")
    meant = next((compute for ufunc, compute in _OPERATORS.items() if UFUNCS[ufunc] is primitive), None)
    matrix = next(x for x in args if type(x) not in BOXES and sparse.issparse(x))
    if meant is None or len(args) != 2:
        raise errors.StructureError(
            f"a tensor cannot be combined with a {type(matrix).__name__} by {primitive.name}.\n"
            f"  at {errors.users_line()}\n"
            "Sparse matrices have the operators @, +, -, * and /; and fgrad.scipy.sparse.csr_array(a) has methods for "
            "tensors, besides a.toarray()."
        )
    if meant is operator.mul and isinstance(matrix, classes_of("scipy.sparse", "spmatrix")):
        meant = operator.matmul if all(np.ndim(x) for x in args) else meant  # `*` of matrices is the matrix product
    return meant(*(sparse.as_constant(x) if sparse.issparse(x) else x for x in args))


FIND_PARTNER.append(find_partner)
