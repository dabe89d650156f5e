"""Keys of arguments in containers, built in about a third of the time of flattening.

    layout_of(args, keywords)      a key, and the leaves in the order of `core.tree.flatten`
    shape_in_memory(array)         the shape, and the order of the axes if that is not C order
    inside(tree)                   differences between containers that `core.tree.flatten` ignores

A compiled call on small arrays takes a few microseconds, so finding its program must not take longer. Calls with the
same key have the same containers, leaves of the same shapes, memory orders and dtypes, and dicts with the same keys in
the same order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import optree

from fgrad.core.tensor import Tensor
from fgrad.core.tree import FLATTENED, NAMESPACE
from fgrad.native.static_arguments import Static
from fgrad.typing import Array

NUMBER = "a number"
"""In place of the shape of a number: NumPy's numbers and tensors of no axes are immutable, arrays are not."""
_FLOAT64 = NUMBER, np.dtype(np.float64)


def shape_in_memory(array: Any) -> tuple[Any, ...]:
    """Return the shape of an array; if it is not in C order, also what decides whether a reshaped array is a view.

    That is the order of the axes in memory, and which of them are adjacent there.
    """
    shape: tuple[int, ...] = array.shape
    if len(shape) < 2 or not isinstance(array, np.ndarray) or array.flags.c_contiguous:
        return shape
    strides = array.strides
    axes = sorted(range(len(shape)), key=lambda axis: -abs(strides[axis]))
    adjacent = (strides[outer] == strides[inner] * shape[inner] for outer, inner in itertools.pairwise(axes))
    return shape, tuple(axes), tuple(adjacent)


def form_of(x: Any) -> Any:
    """Return the shape in memory and the dtype of an array, or `float`; None for a leaf of another kind."""
    kind = type(x)
    if kind is np.ndarray:
        return (x.shape if x.ndim < 2 else shape_in_memory(x)), x.dtype
    if kind is np.float64:
        return _FLOAT64
    if kind is Tensor:
        if x._trace.level or x._trace.outdated:
            return None
        payload = x._payload
        return (shape_in_memory(payload) if payload.shape else NUMBER), payload.dtype
    return kind if kind is float else None


def layout_of(args: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[tuple[Any, ...] | None, list[Any]]:
    """Return the key of arguments, and their leaves; the key is None for arguments of other kinds."""
    key: list[Any] = [bool(keywords)]
    leaves: list[Any] = []
    try:
        if _enter((args, keywords) if keywords else args, key, leaves):
            hash(found := tuple(key))
            return found, leaves
    except TypeError:  # unordered dict keys, or unhashable metadata
        pass
    return None, leaves


def _enter(trees: Iterable[Any], key: list[Any], leaves: list[Any]) -> bool:
    """Add trees to a key, and their leaves to a list; return whether all are of known kinds.

    The key contains the number of children of each container, so it is unambiguous.
    """
    for x in trees:
        kind = type(x)
        if kind is np.ndarray:  # inlined from `form_of`, for speed
            key += (x.shape if x.ndim < 2 else shape_in_memory(x)), x.dtype
            leaves.append(x)
        elif kind is list or kind is tuple:
            key += kind, len(x)
            if not _enter(x, key, leaves):
                return False
        elif kind is dict:
            key += kind, (names := tuple(x))
            if not _TEXTS.issuperset(map(type, names)) or (order := _SORTED.get(names)) is None:
                order = _in_order(names, key)
            if not _enter(map(x.__getitem__, order), key, leaves):
                return False
        elif (form := form_of(x)) is not None:
            key.append(form)
            leaves.append(x)
        elif not _enter_registered(x, key, leaves):
            return False
    return True


def _enter_registered(x: Array, key: list[Any], leaves: list[Any]) -> bool:
    """Add None, a named tuple, or an object of a registered class; return False for any other object."""
    if x is None:
        key.append(None)
        return True
    kind = type(x)
    if kind not in FLATTENED and not _is_container(kind):
        return False
    flattened = FLATTENED[kind]
    children, metadata = flattened(x)[:2]
    children = tuple(children)
    key += kind, *_metadata_key(metadata), len(children)
    return _enter(children, key, leaves)


_SORTED: dict[tuple[Any, ...], list[Any]] = {}
"""Dict keys in the order of leaves, by dict keys in insertion order; only for string keys."""
_MOST_SORTED = 4096
_TEXTS = {str}
"""A string of a subclass, such as NumPy's, compares equal to a plain one and has the same hash."""


def _in_order(names: tuple[Any, ...], key: list[Any]) -> list[Any]:
    """Return the keys of a dict in the order of leaves, and add the types of keys unless all are plain strings.

    Raises:
        TypeError: the keys cannot be sorted.
    """
    order = sorted(names)
    if not all(type(name) is str for name in names):
        key.append(tuple(map(type, names)))
    elif len(_SORTED) < _MOST_SORTED:
        _SORTED[names] = order
    return order


def _metadata_key(metadata: object) -> tuple[Static, ...]:
    """Return the key of metadata; empty if there is none, the usual case."""
    return () if metadata is None or (type(metadata) is tuple and not metadata) else (Static(metadata),)


def inside(tree: Any) -> tuple[Any, ...]:
    """Return the keys of all dicts in insertion order, and the metadata of objects of registered classes."""
    found: list[Any] = []

    def note(x: Any) -> bool:
        kind = type(x)
        if isinstance(x, dict):
            found.append((tuple(x), tuple(map(type, x))))
        elif kind in FLATTENED or _is_container(kind):
            found.extend(_metadata_key(FLATTENED[kind](x)[1]))
        return False

    optree.tree_structure(tree, is_leaf=note, namespace=NAMESPACE)
    return tuple(found)


def _is_container(kind: type) -> bool:
    """Return whether the objects of a class are containers; if so, register how to flatten them."""
    node: Any = optree.register_pytree_node.get(kind, namespace=NAMESPACE)
    if optree.is_namedtuple_class(kind):
        FLATTENED[kind] = lambda x: (x, None)
    elif node is not None and node.kind is optree.PyTreeKind.CUSTOM:
        FLATTENED[kind] = node.flatten_func
    return kind in FLATTENED
