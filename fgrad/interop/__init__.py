"""How the data and functions of other libraries meet tensors.

from_jax(f)          a function of JAX, as one operation here
from_torch(f)        a function of PyTorch, as one operation here
register_einops()    lets the functions of einops take tensors
to_torch(f)          a function of arrays, as one operation of PyTorch
"""

import fgrad.core  # noqa: F401  # whose tables are filled before a module of this room is loaded
from fgrad.interop.einops_backend import register_einops as register_einops
from fgrad.interop.jax_functions import from_jax as from_jax
from fgrad.interop.torch_export import to_torch as to_torch
from fgrad.interop.torch_functions import from_torch as from_torch

__all__ = ["from_jax", "from_torch", "register_einops", "to_torch"]


def __dir__() -> list[str]:
    return __all__
