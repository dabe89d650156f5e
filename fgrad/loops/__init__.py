"""Loops and branches as functions, with the meaning that JAX's `lax` gives to their names.

They run as Python's own loops and branches do, so every transform sees what they do. In a recording a loop is one
equation, of which one turn is recorded. Where a branch has no value to decide by, under `vmap` or in a recording, both
ways are computed, and one is chosen.
"""
