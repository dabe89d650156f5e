"""Sparse arrays."""

from fgrad.scipy.sparse.arrays import SparseArray as SparseArray
from fgrad.scipy.sparse.arrays import coo_array as coo_array
from fgrad.scipy.sparse.arrays import csc_array as csc_array
from fgrad.scipy.sparse.arrays import csr_array as csr_array
from fgrad.scipy.sparse.arrays import as_sparse as as_sparse
from fgrad.scipy.sparse.arrays import is_sparse as is_sparse
