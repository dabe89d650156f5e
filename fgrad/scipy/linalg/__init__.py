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
from fgrad.scipy.linalg.banded import solve_banded as solve_banded
from fgrad.scipy.linalg.banded import solveh_banded as solveh_banded
from fgrad.scipy.linalg.equations import det as det
from fgrad.scipy.linalg.equations import inv as inv
from fgrad.scipy.linalg.equations import lstsq as lstsq
from fgrad.scipy.linalg.equations import norm as norm
from fgrad.scipy.linalg.equations import pinv as pinv
from fgrad.scipy.linalg.equations import pinvh as pinvh
from fgrad.scipy.linalg.equations import solve as solve
from fgrad.scipy.linalg.equations import solve_triangular as solve_triangular
from fgrad.scipy.linalg.factorizations import cho_factor as cho_factor
from fgrad.scipy.linalg.factorizations import cho_solve as cho_solve
from fgrad.scipy.linalg.factorizations import cholesky as cholesky
from fgrad.scipy.linalg.factorizations import lu as lu
from fgrad.scipy.linalg.factorizations import lu_factor as lu_factor
from fgrad.scipy.linalg.factorizations import lu_solve as lu_solve
from fgrad.scipy.linalg.factorizations import qr as qr
from fgrad.scipy.linalg.functions import coshm as coshm
from fgrad.scipy.linalg.functions import cosm as cosm
from fgrad.scipy.linalg.functions import expm as expm
from fgrad.scipy.linalg.functions import expm_frechet as expm_frechet
from fgrad.scipy.linalg.functions import fractional_matrix_power as fractional_matrix_power
from fgrad.scipy.linalg.functions import logm as logm
from fgrad.scipy.linalg.functions import sinhm as sinhm
from fgrad.scipy.linalg.functions import sinm as sinm
from fgrad.scipy.linalg.functions import sqrtm as sqrtm
from fgrad.scipy.linalg.functions import tanhm as tanhm
from fgrad.scipy.linalg.functions import tanm as tanm
from fgrad.scipy.linalg.hermitian import funm as funm
from fgrad.scipy.linalg.matrix_equations import solve_continuous_are as solve_continuous_are
from fgrad.scipy.linalg.matrix_equations import solve_continuous_lyapunov as solve_continuous_lyapunov
from fgrad.scipy.linalg.matrix_equations import solve_discrete_are as solve_discrete_are
from fgrad.scipy.linalg.matrix_equations import solve_discrete_lyapunov as solve_discrete_lyapunov
from fgrad.scipy.linalg.matrix_equations import solve_lyapunov as solve_lyapunov
from fgrad.scipy.linalg.matrix_equations import solve_sylvester as solve_sylvester
from fgrad.scipy.linalg.special_matrices import block_diag as block_diag
from fgrad.scipy.linalg.special_matrices import circulant as circulant
from fgrad.scipy.linalg.special_matrices import companion as companion
from fgrad.scipy.linalg.special_matrices import convolution_matrix as convolution_matrix
from fgrad.scipy.linalg.special_matrices import fiedler as fiedler
from fgrad.scipy.linalg.special_matrices import fiedler_companion as fiedler_companion
from fgrad.scipy.linalg.special_matrices import hankel as hankel
from fgrad.scipy.linalg.special_matrices import khatri_rao as khatri_rao
from fgrad.scipy.linalg.special_matrices import leslie as leslie
from fgrad.scipy.linalg.special_matrices import matmul_toeplitz as matmul_toeplitz
from fgrad.scipy.linalg.special_matrices import solve_circulant as solve_circulant
from fgrad.scipy.linalg.special_matrices import solve_toeplitz as solve_toeplitz
from fgrad.scipy.linalg.special_matrices import toeplitz as toeplitz
from fgrad.scipy.linalg.spectra import eig as eig
from fgrad.scipy.linalg.spectra import eigh as eigh
from fgrad.scipy.linalg.spectra import eigvals as eigvals
from fgrad.scipy.linalg.spectra import eigvalsh as eigvalsh
from fgrad.scipy.linalg.spectra import null_space as null_space
from fgrad.scipy.linalg.spectra import orth as orth
from fgrad.scipy.linalg.spectra import orthogonal_procrustes as orthogonal_procrustes
from fgrad.scipy.linalg.spectra import polar as polar
from fgrad.scipy.linalg.spectra import schur as schur
from fgrad.scipy.linalg.spectra import svd as svd
from fgrad.scipy.linalg.spectra import svdvals as svdvals

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion", "convolution_matrix", "coshm",
    "cosm", "det", "eig", "eigh", "eigvals", "eigvalsh", "expm", "expm_frechet", "fiedler", "fiedler_companion",
    "fractional_matrix_power", "funm", "hankel", "inv", "khatri_rao", "leslie", "logm", "lstsq", "lu", "lu_factor",
    "lu_solve", "matmul_toeplitz", "norm", "null_space", "orth", "orthogonal_procrustes", "pinv", "pinvh", "polar",
    "qr", "schur", "sinhm", "sinm", "solve", "solve_banded", "solve_circulant", "solve_continuous_are",
    "solve_continuous_lyapunov", "solve_discrete_are", "solve_discrete_lyapunov", "solve_lyapunov",
    "solve_sylvester", "solve_toeplitz", "solve_triangular", "solveh_banded", "sqrtm", "svd", "svdvals", "tanhm",
    "tanm", "toeplitz",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


if not _typing.TYPE_CHECKING:  # so that type checkers still report undefined attributes
    __getattr__ = _absent(__name__)
