"""Recorded programs as JAX programs, which run on JAX's devices: CPU, GPU, TPU.

    table.py          the JAX function of each primitive: mostly the same name
    elements.py, indices.py, sums.py, matrices.py, orders.py     rules for primitives without one
    programs.py       a program, its loops, and the detection of NumPy's errors
    executable.py     the program of `fg.compile(f, backend="jax")`
    functions.py      `fg.to_jax(f)`
    exporting.py      `graph.export()`

JAX is imported when the first program runs.
"""
