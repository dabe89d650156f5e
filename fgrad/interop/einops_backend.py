"""Tensors for einops, whose functions look for what knows the type of an array.

register_einops()    from then on `einops.rearrange(t, "a b -> b a")` and its kin take tensors
"""

from __future__ import annotations

import functools
from typing import Any

from fgrad.core.tensor import TensorLike
from fgrad.interop.imported import load
from fgrad.ops.creation import constant


@functools.cache
def register_einops() -> None:
    """Let the functions of einops take tensors, traced ones among them.

    einops asks the subclasses of its class of backends which of them knows a type; this enters one. The functions of
    `einops.array_api` take tensors without it.

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
        """What einops does to arrays of NumPy, by NumPy's functions, which are differentiated."""

        framework_name = "fgrad"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, TensorLike)

        def from_numpy(self, x: Any) -> Any:
            return constant(x)

        def to_numpy(self, x: Any) -> Any:
            return x.numpy()

    _backends.append(Backend)


_backends: list[type] = []
"""The class that was entered: einops finds it among the subclasses of its own, which do not keep it alive."""
