"""The vector spaces of arrays."""

from fgrad.compat.autograd.vspaces import ArrayVSpace, ComplexArrayVSpace, VSpace

__all__ = ["ArrayVSpace", "ComplexArrayVSpace", "VSpace"]
