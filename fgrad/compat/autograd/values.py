"""Values as Autograd's users see them: plain arrays of NumPy where nothing is traced, tensors otherwise.

plain(tree)         tensors that nothing follows become NumPy's arrays and numbers
getval(x)           the plain value of one traced tensor
as_point(tree)      integers become floating-point numbers, so that there is a derivative
is_complex(x)       whether a value is complex
conjugate(tree)     between the two conventions for complex gradients, each the conjugate of the other
fitted(x, like)     a cotangent or tangent in the shape and kind of what it belongs to
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import Tensor, Variable, is_traced, stop_gradient, tree_map

_INEXACT = (float, complex, np.inexact)
_TENSORS = (Tensor, Variable)


def plain(tree: Any) -> Any:
    """Return a tree in which tensors that nothing follows are arrays and numbers of NumPy's."""
    kind = type(tree)
    if kind is np.ndarray or kind is np.float64 or kind is float:
        return tree
    if kind is Tensor:
        return tree if is_traced(tree) else tree.numpy()
    return _plain_leaf(tree) if isinstance(tree, _TENSORS) else tree_map(_plain_leaf, tree)


def _plain_leaf(leaf: Any) -> Any:
    return leaf.numpy() if isinstance(leaf, _TENSORS) and not is_traced(leaf) else leaf


def getval(x: Any) -> Any:
    """Return the plain value of a traced tensor, and anything else as it is."""
    return stop_gradient(x).numpy() if isinstance(x, _TENSORS) else x


def as_point(tree: Any) -> Any:
    """Return arguments that are to be differentiated: integers as floating-point numbers."""
    return tree if isinstance(tree, (float, Tensor)) else tree_map(_as_floats, tree)


def _as_floats(leaf: Any) -> Any:
    if isinstance(leaf, (int, np.integer)) and not isinstance(leaf, bool):
        return float(leaf)
    return leaf.astype(float) if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iu" else leaf


def is_number(x: Any) -> bool:
    """Return whether something is an array, tensor or number that can have a derivative."""
    if type(x) is np.ndarray:  # as most are
        return x.dtype.kind in "fc"
    return isinstance(x, _INEXACT) or getattr(getattr(x, "dtype", None), "kind", "") in ("f", "c")


def is_complex(x: Any) -> bool:
    """Return whether a number, array or tensor is complex."""
    return isinstance(x, complex) or getattr(getattr(x, "dtype", None), "kind", "") == "c"


def conjugate(tree: Any) -> Any:
    """Return a tree with the conjugate of what is complex in it."""
    return mapped(lambda x: np.conjugate(x) if is_complex(x) else x, tree)


def mapped(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Return what a function makes of the leaves of a tree, most often a single one."""
    if isinstance(tree, (np.ndarray, Tensor, float)):
        return function(tree, *rest)
    return tree_map(function, tree, *rest)


def zeros_like(x: Any) -> Any:
    """Return zeros in the form of an array or number; None for what has no derivative."""
    return np.zeros(np.shape(x), x.dtype if hasattr(x, "dtype") else type(x))[()] if is_number(x) else None


def fitted(x: Any, like: Any) -> Any:
    """Return a cotangent or tangent in the shape and dtype of `like`: broadcast, and its real part, if need be."""
    if type(x) is type(like) is np.ndarray and x.dtype is like.dtype and x.shape == like.shape:  # as most are
        return x
    x = x if hasattr(x, "dtype") else np.asarray(x)
    shape = np.shape(like)
    if x.shape != shape:
        x = np.reshape(x, shape) if x.size == np.size(like) else np.broadcast_to(x, shape)
    dtype = like.dtype if hasattr(like, "dtype") else np.result_type(like)
    if x.dtype is dtype or x.dtype == dtype or dtype.kind not in "fc":
        return x
    return (np.real(x) if x.dtype.kind == "c" and dtype.kind == "f" else x).astype(dtype)
