"""The tracer: tensors, traces and the table of primitives. The README here says how to read it."""

# ruff: noqa: F401  # what is imported for the tables of this room that it fills

import fgrad.debugging.showing
import fgrad.interop.blocks
import fgrad.interop.columns
import fgrad.interop.interchange
import fgrad.interop.matrices
import fgrad.interop.twins
import fgrad.interop.ufuncs
import fgrad.ops
from fgrad.core.heap import keep_freed_memory as _keep_freed_memory

_keep_freed_memory()
