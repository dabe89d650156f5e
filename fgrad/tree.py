"""Containers of arrays: nested tuples, lists, dicts, named tuples and registered classes.

    map(f, tree, *rest)                     `f` of matching leaves, in a container like the first
    leaves(tree), structure(tree)           the leaves, and the structure
    flatten(tree), unflatten(treedef, leaves)
    ravel(tree)                             one vector of all numbers, and a function that converts a vector back

    >>> from fgrad import tree
    >>> tree.map(lambda x, y: x + y, {"a": 1, "b": (2, 3)}, {"a": 10, "b": (20, 30)})
    {'a': 11, 'b': (22, 33)}

A leaf is any object that is not a container. None is a container without leaves. `fg.register_pytree_node` and
`fg.register_dataclass` register classes as containers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

import fgrad.core  # noqa: F401  # first, so that threads import it in one order
from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.tree import flatten as _flatten
from fgrad.core.tree import paths
from fgrad.core.tree import tree_leaves as leaves
from fgrad.core.tree import tree_map as map
from fgrad.core.tree import unflatten as _unflatten
from fgrad.errors import hints
from fgrad.typing import Array

if TYPE_CHECKING:
    import optree

__all__ = ["flatten", "leaves", "map", "ravel", "structure", "unflatten"]

__dir__ = __all__.copy

if not TYPE_CHECKING:  # keep mypy's errors for undefined names

    def __getattr__(name):
        raise hints.missing_name(__name__, name)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Return the leaves of a tree, and its structure.

    Args:
        tree: nested containers.

    Returns:
        The leaves, those of dicts in the order of their sorted keys; and an object for `unflatten`, which compares
        equal to that of any tree with the same structure.

    Raises:
        DtypeError: a TypeError; a leaf is an array of objects that are not numbers.

    Example:
        >>> flatten({"b": (2, 3), "a": 1})[0]
        [1, 2, 3]
    """
    return _flatten(tree)


def unflatten(treedef: optree.PyTreeSpec, leaves: Iterable[Any]) -> Any:
    """Return a tree with a given structure and leaves.

    Args:
        treedef: the structure, from `flatten` or `structure`.
        leaves: the leaves in order, as many as the structure has.

    Returns:
        The tree.

    Raises:
        ValueError: the number of leaves differs.

    Example:
        >>> unflatten(structure({"b": (2, 3), "a": 1}), "xyz")
        {'b': ('y', 'z'), 'a': 'x'}
    """
    return _unflatten(treedef, leaves)


def structure(tree: Any) -> Any:
    """Return the structure of a tree.

    Args:
        tree: nested containers.

    Returns:
        An object for `unflatten`, which compares equal to that of any tree with the same structure.

    Raises:
        DtypeError: a TypeError; a leaf is an array of objects that are not numbers.

    Example:
        >>> structure({"a": 1, "b": (2, 3)}) == structure({"a": 10, "b": (20, 30)})
        True
    """
    return _flatten(tree)[1]


def ravel(tree: object) -> tuple[Any, Callable[[Any], Any]]:
    """Return all numbers of a tree as one vector, and a function that converts a vector back to a tree.

    Both are differentiable, so that a function of containers can be passed to a solver for vectors.

    Args:
        tree: nested containers of numbers and arrays.

    Returns:
        A vector of a floating-point or complex dtype that can represent all leaves; and a function of a vector of this
        length, of any dtype, which returns a tree of the same structure and shapes. Its leaves have their original
        dtypes, except that integers become floating-point numbers; real leaves take the real part.

    Raises:
        NonNumericInputError: a TypeError; a leaf is not a number or an array of numbers.
        ShapeError: a ValueError, from the function; the vector has another shape.

    Example:
        >>> import numpy as np
        >>> vector, unravel = ravel({"slope": np.ones(2), "offset": 3.0})
        >>> vector
        array([3., 1., 1.])
        >>> unravel(vector * 2)
        {'slope': array([2., 2.]), 'offset': np.float64(6.0)}
    """
    found, treedef = _flatten(tree)
    arrays = [_numbers(leaf, path) for leaf, path in zip(found, paths(tree), strict=True)]
    forms = [(x.shape, np.dtype(float) if x.dtype.kind in "biu" else x.dtype) for x in arrays]
    dtype = np.result_type(*(dtype for _, dtype in forms)) if forms else np.dtype(float)
    parts = [np.reshape(x, -1).astype(dtype) for x in arrays]
    vector = np.concatenate(parts) if parts else np.zeros(0)

    def unravel(vector: Array) -> Any:
        vector = as_array(vector)
        if vector.shape != (size,):
            raise errors.ShapeError(
                f"the tree has {size} numbers in total, and it was given an array of shape {vector.shape}.\n"
                f"Pass a vector of shape ({size},)."
            )
        pieces = np.split(vector, ends)
        return _unflatten(treedef, [_in_form(x, *form) for x, form in zip(pieces, forms, strict=False)])

    size = int(vector.shape[0])
    ends = np.cumsum([x.size for x in arrays])[:-1].tolist()
    return vector, unravel


def _numbers(leaf: Any, path: str) -> Any:
    x = as_array(leaf)
    if x.dtype.kind not in "biufc":
        raise errors.NonNumericInputError(
            f"ravel takes numbers and arrays of them, and tree{path} is {leaf!r:.80} of type {type(leaf).__name__}.\n"
            "Remove it from the tree, or make it a static field of a class (fg.register_dataclass)."
        )
    return x


def _in_form(x: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return part of a vector in the shape and dtype of a leaf."""
    x = np.real(x) if dtype.kind != "c" else x
    return np.reshape(x if x.dtype == dtype else x.astype(dtype), shape)[()]
