"""The primitives, one file for each area of NumPy. Importing the package fills the table."""

from fgrad.ops import elementwise, indexing, linalg, reductions, shaping

__all__ = ["elementwise", "indexing", "linalg", "reductions", "shaping"]
