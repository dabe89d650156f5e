"""Linear algebra of sparse matrices, as in `scipy.sparse.linalg`: the same names and signatures, with derivatives.

    >>> import numpy as np, fgrad as fg
    >>> from fgrad.scipy import sparse
    >>> def first(conductivity):
    ...     return sparse.linalg.spsolve(sparse.diags_array(conductivity, format="csc"), np.array([1.0, 2.0]))[0]
    >>> fg.grad(first)(np.array([2.0, 3.0])) + 0.0
    Tensor([-0.25,  0.  ])

A matrix is a sparse array, SciPy's or fgrad's, or a dense one. Derivatives are solutions of systems, too: `spsolve`,
`splu` and `factorized` factor a matrix once for all of them, iterative methods iterate again. Derivatives never form a
dense matrix: the cotangent of a matrix has only the stored elements.

If nothing is traced, these are SciPy's functions.
"""

from typing import Any

from fgrad.scipy._absent import absent as _absent
from fgrad.scipy.sparse._instead import INSTEAD as _INSTEAD
from fgrad.scipy.sparse.linalg.direct import SuperLU, factorized, splu, spsolve
from fgrad.scipy.sparse.linalg.eigen import eigsh
from fgrad.scipy.sparse.linalg.exponentials import expm_multiply
from fgrad.scipy.sparse.linalg.iterative import bicgstab, cg, gmres, minres

__all__ = ["SuperLU", "bicgstab", "cg", "eigsh", "expm_multiply", "factorized", "gmres", "minres", "splu", "spsolve"]

__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    """Raise an error with alternatives for a missing name."""
    return _absent(__name__, _INSTEAD)(name)
