"""Values in Autograd's form: plain NumPy arrays if nothing is traced, and tensors otherwise.

plain(tree)         untraced tensors become NumPy arrays and numbers
getval(x)           the plain value of one traced tensor
as_point(tree)      integers become floating-point numbers, which have a derivative
is_complex(x)       whether a value is complex
conjugate(tree)     conversion between the two conventions of complex gradients
fitted(x, like)     a cotangent or tangent in the shape and dtype of its primal
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import Tensor, Variable, is_traced, stop_gradient, tree_map

_INEXACT = (float, complex, np.inexact)
_TENSORS = (Tensor, Variable)


def plain(tree: Any) -> Any:
    """Return a tree with untraced tensors converted to NumPy arrays and numbers."""
    kind = type(tree)
    if kind is np.ndarray or kind is np.float64 or kind is float:
        return tree
    if kind is Tensor:
        return tree if is_traced(tree) else tree.numpy()
    return _plain_leaf(tree) if isinstance(tree, _TENSORS) else tree_map(_plain_leaf, tree)


def _plain_leaf(leaf: Any) -> Any:
    return leaf.numpy() if isinstance(leaf, _TENSORS) and not is_traced(leaf) else leaf


def getval(x: Any) -> Any:
    """Return the plain value of a traced tensor, and other objects unchanged."""
    return stop_gradient(x).numpy() if isinstance(x, _TENSORS) else x


def as_point(tree: Any) -> Any:
    """Return differentiated arguments with integers converted to floating-point numbers."""
    return tree if isinstance(tree, (float, Tensor)) else tree_map(_as_floats, tree)


def _as_floats(leaf: Any) -> Any:
    if isinstance(leaf, (int, np.integer)) and not isinstance(leaf, bool):
        return float(leaf)
    return leaf.astype(float) if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iu" else leaf


def is_number(x: Any) -> bool:
    """Return whether an object is an array, tensor or number that can have a derivative."""
    if type(x) is np.ndarray:  # common case
        return x.dtype.kind in "fc"
    return isinstance(x, _INEXACT) or getattr(getattr(x, "dtype", None), "kind", "") in ("f", "c")


def is_complex(x: Any) -> bool:
    """Return whether a number, array or tensor is complex."""
    return isinstance(x, complex) or getattr(getattr(x, "dtype", None), "kind", "") == "c"


def conjugate(tree: Any) -> Any:
    """Return a tree with its complex leaves conjugated."""
    return mapped(lambda x: np.conjugate(x) if is_complex(x) else x, tree)


def mapped(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply a function to the leaves of a tree, most often a single one."""
    if isinstance(tree, (np.ndarray, Tensor, float)):
        return function(tree, *rest)
    return tree_map(function, tree, *rest)


def zeros_like(x: Any) -> Any:
    """Return zeros like an array or number; None if it has no derivative."""
    return np.zeros(np.shape(x), x.dtype if hasattr(x, "dtype") else type(x))[()] if is_number(x) else None


def fitted(x: Any, like: Any) -> Any:
    """Return a cotangent or tangent in the shape and dtype of `like`: broadcast, and its real part, if necessary."""
    if type(x) is type(like) is np.ndarray and x.dtype is like.dtype and x.shape == like.shape:  # common case
        return x
    x = x if hasattr(x, "dtype") else np.asarray(x)
    shape = np.shape(like)
    if x.shape != shape:
        x = np.reshape(x, shape) if x.size == np.size(like) else np.broadcast_to(x, shape)
    dtype = like.dtype if hasattr(like, "dtype") else np.result_type(like)
    if x.dtype is dtype or x.dtype == dtype or dtype.kind not in "fc":
        return x
    return (np.real(x) if x.dtype.kind == "c" and dtype.kind == "f" else x).astype(dtype)
