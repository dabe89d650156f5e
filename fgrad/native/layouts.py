"""Keys of arguments in containers, made in about a third of the time that flattening takes.

    layout_of(args, keywords)      a key, and the leaves in the order of `core.tree.flatten`
    inside(tree)                   of any containers, what a function sees and `core.tree.flatten` does not tell apart

A compiled call of small arrays takes a few microseconds, so finding its program must take no more. Calls with the same
key have the same containers around leaves of the same shapes and dtypes, dicts with the same keys in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import optree

from fgrad.core.tensor import Tensor
from fgrad.core.tree import FLATTENED, NAMESPACE
from fgrad.native.static_arguments import Static
from fgrad.typing import Array


def form_of(x: Any) -> Any:
    """Return the part of a plain leaf of the usual kinds that a program depends on, and None for other leaves."""
    kind = type(x)
    if kind is np.ndarray or kind is np.float64:
        return x.shape, x.dtype
    if kind is Tensor:
        return None if x._trace.level or x._trace.outdated else (x._payload.shape, x._payload.dtype)
    return kind if kind is float else None


def layout_of(args: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[tuple[Any, ...] | None, list[Any]]:
    """Return the key of arguments, and their leaves; None in place of the key of what is out of the ordinary."""
    key: list[Any] = [bool(keywords)]
    leaves: list[Any] = []
    try:
        if _enter((args, keywords) if keywords else args, key, leaves):
            hash(found := tuple(key))
            return found, leaves
    except TypeError:  # names without an order, or what no key can hold
        pass
    return None, leaves


def _enter(trees: Iterable[Any], key: list[Any], leaves: list[Any]) -> bool:
    """Add trees to a key, and their leaves to others; False: one of them is out of the ordinary.

    The key says of each container how many trees it holds, so that it cannot be that of other trees.
    """
    for x in trees:
        kind = type(x)
        if kind is np.ndarray or kind is np.float64:  # as in `form_of`, whose call would take as long as all of this
            key += x.shape, x.dtype
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
    """Add None, a named tuple, or an object of a registered class; False: it is none of them."""
    if x is None:
        key.append(None)
        return True
    kind = type(x)
    if kind not in FLATTENED and not _is_container(kind):
        return False
    flattened = FLATTENED[kind]
    children, metadata = flattened(x)[:2]
    children = tuple(children)
    key += kind, *_besides(metadata), len(children)
    return _enter(children, key, leaves)


_SORTED: dict[tuple[Any, ...], list[Any]] = {}
"""The keys of dicts in the order of leaves, by those in the order in which a function meets them; texts alone."""
_MOST_SORTED = 4096
_TEXTS = {str}
"""A text of another class, such as NumPy's, is equal to one of this and has the same hash."""


def _in_order(names: tuple[Any, ...], key: list[Any]) -> list[Any]:
    """Return the keys of a dict in the order of leaves, and add the types of keys that are not all plain texts.

    Raises:
        TypeError: they have no order.
    """
    order = sorted(names)
    if not all(type(name) is str for name in names):
        key.append(tuple(map(type, names)))
    elif len(_SORTED) < _MOST_SORTED:
        _SORTED[names] = order
    return order


def _besides(metadata: object) -> tuple[Static, ...]:
    """Return what tells metadata apart: nothing if there are none, as mostly."""
    return () if metadata is None or (type(metadata) is tuple and not metadata) else (Static(metadata),)


def inside(tree: Any) -> tuple[Any, ...]:
    """Return the keys of all dicts in their order, and what objects of registered classes are besides children."""
    found: list[Any] = []

    def note(x: Any) -> bool:
        kind = type(x)
        if isinstance(x, dict):
            found.append((tuple(x), tuple(map(type, x))))
        elif kind in FLATTENED or _is_container(kind):
            found.extend(_besides(FLATTENED[kind](x)[1]))
        return False

    optree.tree_structure(tree, is_leaf=note, namespace=NAMESPACE)
    return tuple(found)


def _is_container(kind: type) -> bool:
    """Return whether the objects of a class are containers, and if so, note how they are flattened."""
    node: Any = optree.register_pytree_node.get(kind, namespace=NAMESPACE)
    if optree.is_namedtuple_class(kind):
        FLATTENED[kind] = lambda x: (x, None)
    elif node is not None and node.kind is optree.PyTreeKind.CUSTOM:
        FLATTENED[kind] = node.flatten_func
    return kind in FLATTENED
