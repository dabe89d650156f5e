"""Data and functions of other libraries together with tensors.

from_jax(f)          a JAX function, as one operation
from_torch(f)        a PyTorch function, as one operation
register_einops()    support of tensors in the functions of einops
to_torch(f)          a function of arrays, as one operation of PyTorch
"""

import fgrad.core  # noqa: F401  # whose tables are filled before a module of this package is loaded
from fgrad.interop.einops_backend import register_einops
from fgrad.interop.jax_functions import from_jax
from fgrad.interop.torch_export import to_torch
from fgrad.interop.torch_functions import from_torch

__all__ = ["from_jax", "from_torch", "register_einops", "to_torch"]

__dir__ = __all__.copy
