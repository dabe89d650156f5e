"""Sparse arrays."""

from fgrad.scipy.sparse.arrays import SparseArray as SparseArray
from fgrad.scipy.sparse.arrays import coo_array as coo_array
from fgrad.scipy.sparse.arrays import csc_array as csc_array
from fgrad.scipy.sparse.arrays import csr_array as csr_array
from fgrad.scipy.sparse.arrays import as_sparse as as_sparse
from fgrad.scipy.sparse.arrays import is_sparse as is_sparse
from fgrad.scipy.sparse.construction import block_array as block_array
from fgrad.scipy.sparse.construction import block_diag as block_diag
from fgrad.scipy.sparse.construction import diags_array as diags_array
from fgrad.scipy.sparse.construction import eye_array as eye_array
from fgrad.scipy.sparse.construction import hstack as hstack
from fgrad.scipy.sparse.construction import kron as kron
from fgrad.scipy.sparse.construction import tril as tril
from fgrad.scipy.sparse.construction import triu as triu
from fgrad.scipy.sparse.construction import vstack as vstack
