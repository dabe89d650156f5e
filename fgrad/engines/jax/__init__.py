"""Recorded programs as JAX's, which run on what JAX finds: CPU, GPU, TPU.

    table.py          how each primitive is computed: mostly the same name in JAX
    elements.py, indices.py, sums.py, matrices.py, orders.py     rules for those that are not
    programs.py       a program, its loops, and what NumPy would have refused
    executable.py     what `fg.compile(f, backend="jax")` runs
    functions.py      `fg.to_jax(f)`
    exporting.py      `graph.export()`

JAX is imported when a program is to run, and not before.
"""
