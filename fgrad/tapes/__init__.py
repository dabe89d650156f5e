"""Contexts for differentiation in a `with` block: the gradient tape and the forward accumulator."""
