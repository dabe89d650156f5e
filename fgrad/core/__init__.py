"""The tracer: tensors, traces and the table of primitives. The README here says how to read it."""

from fgrad.core.heap import keep_freed_memory as _keep_freed_memory

_keep_freed_memory()
