"""Loops and branches as functions, with the meaning that JAX's `lax` gives to their names.

They run as Python's own loops and branches do, so every transform sees what they do. In a recording a loop is one
equation, of which one turn is recorded, and each way of a choice is a loop of at most one turn. Where examples of a
`vmap` go different ways, all ways are computed, and for each example one is chosen.
"""
