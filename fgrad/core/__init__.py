"""The tracer: tensors, traces and the table of primitives. The README here says how to read it."""
