"""The primitives, one file for each area of NumPy. Importing the package fills the table."""

from fgrad.ops import creation, elementwise, indexing, linalg, reductions, shaping

__all__ = ["creation", "elementwise", "indexing", "linalg", "reductions", "shaping"]
