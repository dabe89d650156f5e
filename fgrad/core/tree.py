"""Containers: tuples, lists, dicts, named tuples and registered classes, nested, with leaves.

`optree` does the work. A leaf is any object that is not a container; None is a container without leaves.

    leaves, treedef = flatten(tree)      the leaves and the structure
    unflatten(treedef, leaves)           the same containers with other leaves
    tree_map(f, tree, *rest)             apply f to matching leaves
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import optree

from fgrad.core.coerce import collected
from fgrad.core.foreign import OBJECT
from fgrad.core.overrides import as_leaf

NAMESPACE = "fgrad"

LEAVES: set[type] = {float, int, np.float64}
"""Types that are always leaves and used unchanged: a fast path for the commonest trees."""

_OF_USERS: set[type] = set()
"""Classes that users have made containers, and may make ones again."""

FLATTENED: dict[type, Callable[[Any], Any]] = {}
"""What makes children and metadata of an object, by its class: those that compiled functions have met."""

_NUMBER: Any = 0.0
_LEAF = optree.tree_structure(_NUMBER)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Return the leaves of a tree, in order, and its structure.

    Columns of numbers become arrays, and arrays of traced numbers become tensors.
    """
    if type(tree) in LEAVES:
        return [tree], _LEAF
    if type(tree) is np.ndarray:
        return [tree if tree.dtype is not OBJECT else collected(tree)], _LEAF
    leaves, treedef = optree.tree_flatten(tree, namespace=NAMESPACE)
    return [
        leaf if (kind := type(leaf)) in LEAVES or (kind is np.ndarray and leaf.dtype is not OBJECT) else as_leaf(leaf)
        for leaf in leaves
    ], treedef


def leaves_and_nones(tree: Any) -> list[Any]:
    """Return the leaves of a tree, with None counted as a leaf."""
    return optree.tree_leaves(tree, none_is_leaf=True, namespace=NAMESPACE)


def unflatten(treedef: optree.PyTreeSpec, leaves: Iterable[Any]) -> Any:
    """Put leaves into a structure returned by `flatten`."""
    if treedef is _LEAF:
        (leaf,) = leaves
        return leaf
    return optree.tree_unflatten(treedef, leaves)


def paths(tree: Any) -> list[str]:
    """Return the path to each leaf, in Python syntax: `['w'][0]`."""
    return [accessor.codify("") for accessor in optree.tree_accessors(tree, namespace=NAMESPACE)]


def outline(tree: object) -> str:
    """Return the nesting of a tree, with a star for each leaf."""
    return outline_of(flatten(tree)[1])


def outline_of(treedef: object) -> str:
    """Return the nesting of a structure returned by `flatten`, with a star for each leaf."""
    return re.sub(r"^PyTreeSpec\((.*?)(, namespace='[^']*')?\)$", r"\1", str(treedef), flags=re.DOTALL)


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply `f` to every leaf of `tree`, with the matching leaves of further trees.

    Args:
        f: a function of one leaf of each tree.
        tree: nested tuples, lists, dicts, named tuples or registered classes.
        rest: trees of the same structure.

    Returns:
        A tree of the structure of `tree` that holds the results of `f`.

    Raises:
        ValueError: the structures differ.

    Example:
        >>> tree_map(lambda x, y: x + y, {"a": 1, "b": (2, 3)}, {"a": 10, "b": (20, 30)})
        {'a': 11, 'b': (22, 33)}
    """
    return optree.tree_map(f, tree, *rest, namespace=NAMESPACE)


def tree_leaves(tree: object) -> list[Any]:
    """Return the leaves of a tree as a list.

    Args:
        tree: nested containers; None contains no leaves.

    Returns:
        The leaves; those of a dict in the order of its sorted keys.

    Example:
        >>> tree_leaves({"b": (2, 3), "a": 1})
        [1, 2, 3]
    """
    return flatten(tree)[0]


def register_pytree_node(
    cls: type,
    flatten_node: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_node: Callable[[Any, Any], Any],
) -> None:
    """Register a class as a container, whose children all transforms traverse.

    A class that is registered again, as by a cell of a notebook that runs again, has the new functions from then on.

    Args:
        cls: the class.
        flatten_node: maps an instance to `(children, metadata)`; the metadata must be comparable with `==`.
        unflatten_node: maps `(metadata, children)` to an instance.

    Raises:
        ValueError: the class is already a container and not one of the user's, such as dict.

    Example:
        >>> class Point:
        ...     def __init__(self, x, y):
        ...         self.x, self.y = x, y
        >>> register_pytree_node(Point, lambda p: ((p.x, p.y), None), lambda _, xy: Point(*xy))
        >>> tree_leaves([Point(1, 2), 3])
        [1, 2, 3]
    """
    if cls in _OF_USERS:
        optree.unregister_pytree_node(cls, namespace=NAMESPACE)
        FLATTENED.pop(cls, None)
    optree.register_pytree_node(cls, flatten_node, unflatten_node, namespace=NAMESPACE)
    if cls.__module__.partition(".")[0] != __name__.partition(".")[0]:
        _OF_USERS.add(cls)
