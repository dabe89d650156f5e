"""Loops and branches as functions, with the meaning that JAX's `lax` gives to their names.

They run as Python's own loops and branches do, so every transform sees what they do. Where a condition has no value,
under `vmap` or in a recording, both ways are computed, and one is chosen.
"""
