"""Linear algebra, as in `scipy.linalg`: the same names and signatures, with derivatives.

    >>> import numpy as np, fgrad as fg
    >>> from fgrad.scipy import linalg
    >>> fg.grad(lambda a: linalg.expm(a)[0, 0])(np.zeros((2, 2)))
    Tensor([[1., 0.],
            [0., 0.]])

If nothing is traced, these are SciPy's functions. Otherwise:

- the part of a matrix that SciPy does not read, such as one triangle of a symmetric matrix, has the derivative 0;
- for stacks of matrices several results are a tuple, where SciPy returns a list;
- `overwrite_a` and its kin are accepted and ignored.

SciPy names that are missing here are those of constant matrices (`hilbert`), of LAPACK (`get_lapack_funcs`), and
functions whose derivative is not implemented yet.
"""

import typing as _typing

from fgrad.scipy._absent import absent as _absent

# fmt: off
# isort: off
from fgrad.scipy.linalg.banded import solve_banded, solveh_banded
from fgrad.scipy.linalg.equations import det, inv, lstsq, norm, pinv, pinvh, solve, solve_triangular
from fgrad.scipy.linalg.factorizations import cho_factor, cho_solve, cholesky, lu, lu_factor, lu_solve, qr
from fgrad.scipy.linalg.functions import (
    coshm, cosm, expm, expm_frechet, fractional_matrix_power, logm, sinhm, sinm, sqrtm, tanhm, tanm,
)
from fgrad.scipy.linalg.hermitian import funm
from fgrad.scipy.linalg.matrix_equations import (
    solve_continuous_are, solve_continuous_lyapunov, solve_discrete_are, solve_discrete_lyapunov, solve_lyapunov,
    solve_sylvester,
)
from fgrad.scipy.linalg.special_matrices import (
    block_diag, circulant, companion, convolution_matrix, fiedler, fiedler_companion, hankel, khatri_rao, leslie,
    matmul_toeplitz, solve_circulant, solve_toeplitz, toeplitz,
)
from fgrad.scipy.linalg.spectra import (
    eig, eigh, eigvals, eigvalsh, null_space, orth, orthogonal_procrustes, polar, schur, svd, svdvals,
)
# isort: on

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion", "convolution_matrix", "coshm",
    "cosm", "det", "eig", "eigh", "eigvals", "eigvalsh", "expm", "expm_frechet", "fiedler", "fiedler_companion",
    "fractional_matrix_power", "funm", "hankel", "inv", "khatri_rao", "leslie", "logm", "lstsq", "lu", "lu_factor",
    "lu_solve", "matmul_toeplitz", "norm", "null_space", "orth", "orthogonal_procrustes", "pinv", "pinvh", "polar",
    "qr", "schur", "sinhm", "sinm", "solve", "solve_banded", "solve_circulant", "solve_continuous_are",
    "solve_continuous_lyapunov", "solve_discrete_are", "solve_discrete_lyapunov", "solve_lyapunov",
    "solve_sylvester", "solve_toeplitz", "solve_triangular", "solveh_banded", "sqrtm", "svd", "svdvals", "tanhm",
    "tanm", "toeplitz",
]
# fmt: on

__dir__ = __all__.copy

if not _typing.TYPE_CHECKING:  # so that type checkers still report undefined attributes
    __getattr__ = _absent(__name__)
