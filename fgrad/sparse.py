"""Sparse derivatives: sparsity patterns, and Jacobians and Hessians computed with few products.

    sparsity(f)(x)              which elements of the result depend on which of the argument, as a boolean matrix
    sparse_jacobian(f)(x)       the Jacobian, as an array of `scipy.sparse`
    sparse_hessian(f)(x)        the Hessian

The same names are available in `fgrad`.
"""

from __future__ import annotations

import fgrad.core  # noqa: F401  # first, so that threads import it in one order
from fgrad.patterns.matrices import sparse_hessian, sparse_jacobian, sparsity
from fgrad.patterns.plans import SparsePlan

__all__ = ["SparsePlan", "sparse_hessian", "sparse_jacobian", "sparsity"]

__dir__ = __all__.copy
