"""Tensors for einops: a backend for its lookup by array type.

register_einops()    afterwards `einops.rearrange(t, "a b -> b a")` and its kin accept tensors
"""

from __future__ import annotations

import functools
from typing import Any

from fgrad.core.tensor import TensorLike
from fgrad.interop.imported import load
from fgrad.ops.creation import constant
from fgrad.typing import Array


@functools.cache
def register_einops() -> None:
    """Make the functions of einops accept tensors, including traced ones.

    einops searches the subclasses of its backend class for one that supports a type; this function adds one. The
    functions of `einops.array_api` accept tensors without it.

    Raises:
        MissingExtraError: an ImportError; einops is not installed.

    Example:
        >>> import einops, numpy as np, fgrad as fg
        >>> register_einops()
        >>> fg.grad(lambda x: np.sum(einops.reduce(x, "a b -> a", "mean") ** 2))(np.ones((2, 4)))
        Tensor([[0.5, 0.5, 0.5, 0.5],
                [0.5, 0.5, 0.5, 0.5]])
    """
    of_numpy: Any = load("einops", install="einops")._backends.NumpyBackend

    class Backend(of_numpy):  # type: ignore[misc]  # of a library without types
        """The einops backend for tensors, based on NumPy functions, which are differentiable."""

        framework_name = "fgrad"

        def is_appropriate_type(self, tensor: object) -> bool:
            return isinstance(tensor, TensorLike)

        def from_numpy(self, x: Any) -> Array:
            return constant(x)

        def to_numpy(self, x: Any) -> Any:
            return x.numpy()

    _backends.append(Backend)


_backends: list[type] = []
"""The registered class. einops finds it among the subclasses of its own class, which are weak references."""
