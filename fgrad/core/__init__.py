"""The tracer: tensors, traces and the table of primitives. The README here says how to read it."""

# ruff: noqa: F401  # imported to fill the tables of this package

import fgrad.debugging.showing
import fgrad.interop.dask_blocks
import fgrad.interop.interchange
import fgrad.interop.pandas_columns
import fgrad.interop.scipy_matrices
import fgrad.interop.scipy_names
import fgrad.ops
from fgrad.core.heap import keep_freed_memory as _keep_freed_memory

_keep_freed_memory()
