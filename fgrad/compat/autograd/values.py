"""Values in Autograd's form: plain NumPy arrays if nothing is traced, and tensors otherwise.

plain(tree)         untraced tensors become NumPy arrays and numbers
getval(x)           the plain value of one traced tensor
as_point(tree)      integers become floating-point numbers, which have a derivative
is_complex(x)       whether a value is complex
conjugate(tree)     conversion between the two conventions of complex gradients
fitted(x, like)     a cotangent or tangent in the shape and dtype of its primal
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import Tensor, Variable, is_traced, stop_gradient, tree_map
from fgrad.compat.autograd.boxes import BOXED, ZERO_ELEMENT, as_array, opened, unboxed, zeros_of
from fgrad.core.foreign import OBJECT
from fgrad.typing import ArrayLike

_INEXACT = (float, complex, np.inexact)
_TENSORS = (Tensor, Variable)


def plain(tree: Any) -> Any:
    """Return a tree with untraced tensors converted to NumPy arrays and numbers, and elements to values and boxes."""
    kind = type(tree)
    if kind is np.ndarray or kind is np.float64 or kind is float:
        return tree
    if BOXED:
        return tree_map(lambda leaf: opened(_plain_leaf(leaf)), tree)
    if kind is Tensor:
        return tree if is_traced(tree) else tree.numpy()
    return _plain_leaf(tree) if isinstance(tree, _TENSORS) else tree_map(_plain_leaf, tree)


def _plain_leaf(leaf: object) -> Any:
    return leaf.numpy() if isinstance(leaf, _TENSORS) and not is_traced(leaf) else leaf


def getval(x: object) -> Any:
    """Return the plain value of a traced tensor or box, and other objects unchanged."""
    x = unboxed(x)
    return plain(stop_gradient(x).numpy()) if isinstance(x, _TENSORS) else x


def as_point(tree: object) -> Any:
    """Return differentiated arguments with integers converted to floating-point numbers."""
    if type(tree) is np.ndarray and tree.dtype.kind in "fc":  # common case
        return tree
    return tree if isinstance(tree, (float, Tensor)) else tree_map(_as_floats, tree)


def _as_floats(leaf: object) -> Any:
    if isinstance(leaf, (int, np.integer)) and not isinstance(leaf, bool):
        return float(leaf)
    return leaf.astype(float) if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iu" else as_array(leaf)


def with_boxes(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of one argument that gets and returns boxes, as a function of tensors."""
    if not BOXED:
        return fun

    @functools.wraps(fun)
    def run(x: object) -> Any:
        return tree_map(as_array, fun(plain(x)))

    return run


def as_gradients(found: object, x: object) -> Any:
    """Return derivatives with respect to an argument in Autograd's form: conjugated, as plain values."""
    gradients = plain(conjugate(found))
    if not BOXED:
        return gradients
    return tree_map(lambda x, g: zeros_of(getval(x)) if type(getval(x)) in BOXED and _is_zero(g) else g, x, gradients)


def _is_zero(gradient: object) -> bool:
    return isinstance(gradient, (int, np.ndarray)) and not np.any(gradient)


def is_number(x: object) -> bool:
    """Return whether an object is an array, tensor or number that can have a derivative."""
    if type(x) is np.ndarray:  # common case
        return x.dtype.kind in "fc"
    return isinstance(x, _INEXACT) or getattr(getattr(x, "dtype", None), "kind", "") in ("f", "c")


def is_complex(x: ArrayLike) -> bool:
    """Return whether a number, array or tensor is complex."""
    return isinstance(x, complex) or getattr(getattr(x, "dtype", None), "kind", "") == "c"


def conjugate(tree: object) -> Any:
    """Return a tree with its complex leaves conjugated."""
    return mapped(lambda x: np.conjugate(x) if is_complex(x) else x, tree)


def mapped(function: Callable[..., Any], tree: object, *rest: object) -> Any:
    """Apply a function to the leaves of a tree, most often a single one."""
    if isinstance(tree, (np.ndarray, Tensor, float)):
        return function(tree, *rest)
    return tree_map(function, tree, *rest)


def zeros_like(x: ArrayLike) -> Any:
    """Return zeros like an array or number; None if it has no derivative."""
    if BOXED and type(getval(x)) in BOXED:
        return zeros_of(getval(x))
    return np.zeros(np.shape(x), x.dtype if hasattr(x, "dtype") else type(x))[()] if is_number(x) else None


def fitted(x: Any, like: Any) -> Any:
    """Return a cotangent or tangent in the shape and dtype of `like`: broadcast, and its real part, if necessary.

    None means zeros.
    """
    if type(x) is type(like) is np.ndarray and x.dtype is like.dtype and x.shape == like.shape:  # common case
        return x
    dtype = like.dtype if hasattr(like, "dtype") else np.result_type(like)
    if dtype is OBJECT:
        return ZERO_ELEMENT if x is None else as_array(x)
    if x is None:
        return zeros_like(like)
    x = x if hasattr(x, "dtype") else np.asarray(x)
    shape = np.shape(like)
    if x.shape != shape:
        x = np.reshape(x, shape) if x.size == np.size(like) else np.broadcast_to(x, shape)
    if x.dtype is dtype or x.dtype == dtype or dtype.kind not in "fc":
        return x
    return (np.real(x) if x.dtype.kind == "c" and dtype.kind == "f" else x).astype(dtype)
