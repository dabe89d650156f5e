"""Sparse arrays, as in `scipy.sparse`: the same names, operators and methods, with elements that may be traced.

    >>> import numpy as np, fgrad as fg
    >>> from fgrad.scipy import sparse
    >>> places = np.array([0, 1, 1]), np.array([0, 0, 1])
    >>> def loss(values):
    ...     return np.sum(sparse.csr_array((values, places)) @ np.array([3.0, 4.0]))
    >>> fg.grad(loss)(np.ones(3))
    Tensor([3., 3., 4.])

The sparsity pattern is fixed, and elements that are not stored stay 0. An array is a container with the leaf `data`,
so `grad` and optimizers accept and return it. Constant sparse arrays and matrices of SciPy need not be converted: in
`a @ x`, `x @ a`, `x * a`, `a + x` and `a / x` they accept a traced `x`.

Arrays have two axes, and the formats "coo", "csr" and "csc"; SciPy's other formats are converted to "csr".
`fgrad.scipy.sparse.linalg` solves equations.
"""

import importlib as _importlib
from typing import Any

from fgrad.scipy._absent import absent as _absent
from fgrad.scipy.sparse._instead import INSTEAD as _INSTEAD

# fmt: off
# isort: off
from fgrad.scipy.sparse.arrays import SparseArray, coo_array, csc_array, csr_array, issparse
from fgrad.scipy.sparse.construction import (
    block_array, block_diag, diags_array, eye_array, hstack, kron, tril, triu, vstack,
)
# isort: on

__all__ = [
    "SparseArray", "block_array", "block_diag", "coo_array", "csc_array", "csr_array", "diags_array", "eye_array",
    "hstack", "issparse", "kron", "tril", "triu", "vstack",
]
# fmt: on

__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    """Return the module `linalg`, or raise an error with alternatives to other names."""
    if name == "linalg":
        return _importlib.import_module(f"{__name__}.linalg")
    return _absent(__name__, _INSTEAD)(name)
