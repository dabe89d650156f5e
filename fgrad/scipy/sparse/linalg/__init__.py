"""Linear algebra of sparse matrices, as in `scipy.sparse.linalg`."""

from fgrad.scipy.sparse.linalg.direct import SuperLU as SuperLU
from fgrad.scipy.sparse.linalg.direct import factorized as factorized
from fgrad.scipy.sparse.linalg.direct import splu as splu
from fgrad.scipy.sparse.linalg.direct import spsolve as spsolve
from fgrad.scipy.sparse.linalg.iterative import bicgstab as bicgstab
from fgrad.scipy.sparse.linalg.iterative import cg as cg
from fgrad.scipy.sparse.linalg.iterative import gmres as gmres
from fgrad.scipy.sparse.linalg.iterative import minres as minres
from fgrad.scipy.sparse.linalg.eigen import eigsh as eigsh
from fgrad.scipy.sparse.linalg.exponentials import expm_multiply as expm_multiply
