"""Loop invariants of trees: the structure, and the shape and dtype of each leaf.

    Form("the carry", "step", init).fitted(tree)    the tree itself, or an error that names the leaf that has changed
    own(tree)                                       a copy of the tree, which a function may modify in place
    combined(one, other, choose, names)             a tree of selections from each pair of leaves of two trees

Python numbers take the dtype of the other operand, as in NumPy: a carry that starts as 0.0 may become an array of shape
() and any dtype, and keeps that dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, boxed, own_handle, strip_ended
from fgrad.core.tree import flatten, outline, paths, unflatten
from fgrad.graphs.equations import PYTHONS
from fgrad.transforms.calls import name_of
from fgrad.typing import DTypeLike

Kind = tuple[tuple[int, ...], Any]
"""A shape and a dtype, which is WEAK for a Python number."""

WEAK: Any = object()
"""Not None, since NumPy's default dtype compares equal to None."""

_LEAF = flatten(0.0)[1]
_KINDS: dict[type, Kind] = {
    **dict.fromkeys(PYTHONS, ((), WEAK)),
    **{kind: ((), np.dtype(kind)) for kind in (np.float64, np.float32, np.int64, np.bool_, np.complex128)},
}
"""The shapes and dtypes of numbers, by type."""
_OF_DTYPES = {kind[1]: kind for kind in _KINDS.values() if kind[1] is not WEAK}


def kind_of(leaf: Any) -> Kind | None:
    """Return the shape and dtype of a leaf; None if it is neither a number nor an array."""
    kind = type(leaf)
    if kind in PYTHONS or (kind is Tensor and leaf._trace.is_weak(leaf)):
        return (), WEAK
    if kind not in BOXES and not isinstance(leaf, (np.ndarray, np.generic)):
        return None
    return _OF_DTYPES.get(leaf.dtype, ((), leaf.dtype)) if leaf.shape == () else (leaf.shape, leaf.dtype)


def _is_alike(leaf: object, kind: Kind, trace: object) -> bool:
    """Return whether a leaf has a given shape and dtype, by a quick test that may miss matches.

    Args:
        leaf: a leaf of a tree.
        kind: the expected shape and dtype.
        trace: a trace whose tensors have the shape and dtype of their payloads.
    """
    if type(leaf) is Tensor:
        if leaf._trace is not trace:
            return False
        leaf = leaf._payload
    if type(leaf) is np.ndarray:
        return leaf.dtype is kind[1] and leaf.shape == kind[0]
    known = _KINDS.get(type(leaf))
    return known is kind or known == kind


class Form:
    """The structure of a tree, and the shapes and dtypes of its leaves, in all iterations of a loop.

    Args:
        what: the name of the tree in messages, such as "the carry"; the last word names it in the path of a leaf.
        function: the user's function, which returns the tree.
        tree: the tree before the first iteration.

    Raises:
        StructureError: a TypeError; a leaf is neither a number nor an array.
    """

    def __init__(self, what: str, function: Callable[..., Any], tree: object) -> None:
        self._what, self._function = what, function
        self.leaves, self.treedef = flatten(tree)
        self._outline = outline(tree)
        self.kinds = [self._kind(leaf, index, tree) for index, leaf in enumerate(self.leaves)]
        self.began_weak = [kind[1] is WEAK for kind in self.kinds]
        self._is_leaf = self.treedef == _LEAF
        self._is_tuple = type(tree) is tuple and all(child == _LEAF for child in self.treedef.children())
        self._trace: Any = None  # of a previous leaf, if its tensors have the shape and dtype of their payloads

    def fitted(self, tree: object) -> Any:
        """Return the tree of an iteration, with Python numbers converted to the earlier dtype.

        Raises:
            StructureError: a TypeError; it has another structure, or a leaf is neither a number nor an array.
            ShapeError: a ValueError; a leaf has another shape.
            DtypeError: a TypeError; a leaf has another dtype.
        """
        # Fast path for the commonest trees, three times as fast.
        if self._is_leaf and _is_alike(tree, self.kinds[0], self._trace):
            self.leaves = [tree]
            return tree
        if self._is_tuple and self._is_fitting(tree):
            return tree
        leaves, treedef = flatten(tree)
        if treedef != self.treedef:
            raise errors.StructureError(
                f"{self._what} that {name_of(self._function)} returns has the structure {outline(tree)}, and before it "
                f"had {self._outline}.\nReturn the same containers in each iteration; None is a container "
                "without leaves."
            )
        self.leaves = leaves
        self._trace = next((x._trace for x in leaves if type(x) is Tensor and _shows_its_value(x._trace)), None)
        if [kind_of(leaf) for leaf in leaves] == self.kinds:
            return tree
        self.leaves = [self._adapted(leaf, index, tree) for index, leaf in enumerate(leaves)]
        return unflatten(treedef, self.leaves)

    def _is_fitting(self, tree: object) -> bool:
        """Return whether a tree is a plain tuple with the expected leaves, by a quick test that may miss matches."""
        if type(tree) is not tuple or len(tree) != len(self.kinds):
            return False
        for leaf, kind in zip(tree, self.kinds, strict=True):
            if not _is_alike(leaf, kind, self._trace):
                return False
        self.leaves = list(tree)
        return True

    def _adapted(self, leaf: object, index: int, tree: object) -> Any:
        """Return a leaf in the earlier dtype; if that was a Python number, the leaf's dtype is used from now on."""
        kind, before = self._kind(leaf, index, tree), self.kinds[index]
        if kind[0] != before[0]:
            raise errors.ShapeError(
                f"{self._path(index, tree)} had shape {before[0]}, and {name_of(self._function)} returns shape "
                f"{kind[0]} for it.\nThe shapes of {self._what} must be the same in all iterations"
                + (f": start with the later one, such as np.zeros({kind[0]})." if self._what == "the carry" else ".")
            )
        if before[1] is WEAK:
            self.kinds[index] = kind
        elif kind[1] is WEAK and holds(before[1], leaf):
            return strong(leaf, before[1])
        elif kind[1] != before[1]:
            returned = _dtype_text(leaf, kind[1])
            raise errors.DtypeError(
                f"{self._path(index, tree)} had dtype {before[1]}, and {name_of(self._function)} returns {returned} "
                f"for it.\nReturn x.astype({before[1]}), or start with {returned}; float32 is preserved in operations "
                "with float32 arrays and Python numbers."
            )
        return leaf

    def _kind(self, leaf: object, index: int, tree: object) -> Kind:
        kind = kind_of(leaf)
        if kind is None:
            raise errors.StructureError(
                f"{self._path(index, tree)} is {leaf!r:.100} of type {type(leaf).__name__}, which is neither a number "
                "nor an array.\nA function can close over it instead."
            )
        return kind

    def _path(self, index: int, tree: object) -> str:
        return self._what.rpartition(" ")[2] + paths(tree)[index]


def _shows_its_value(trace: Any) -> bool:
    """Return whether tensors of a trace have the shape and dtype of their payloads, and are not weak."""
    return not trace.is_map and not trace.is_program


def holds(dtype: Any, number: Any) -> bool:
    """Return whether a Python number, or a weak tensor, is promoted to a dtype by an array of that dtype."""
    example = number.dtype.type(0).item() if type(number) is Tensor else number
    return bool(np.result_type(dtype, example) == dtype)


def strong(leaf: Any, dtype: DTypeLike) -> Any:
    """Convert a Python number, or a weak tensor, to a dtype; return other leaves unchanged."""
    if type(leaf) in PYTHONS:
        return np.asarray(leaf, dtype)[()]
    # A subtraction, since it preserves the sign of 0 and values that are not finite.
    return np.subtract(leaf, np.zeros((), dtype)[()]) if kind_of(leaf) == ((), WEAK) else leaf


def own(tree: object, keeps_variables: bool = False) -> Any:
    """Return a copy of a tree that a function may modify in place, without changing the user's arrays and tensors.

    Args:
        tree: the tree.
        keeps_variables: whether variables are returned unchanged, for a function that may assign to them; by default
            their values are returned.
    """
    leaves, treedef = flatten(tree)
    return unflatten(treedef, [_own_leaf(leaf, keeps_variables) for leaf in leaves])


def _own_leaf(leaf: object, keeps_variables: bool) -> Any:
    if type(leaf) is np.ndarray:
        return leaf.copy()
    if type(leaf) not in BOXES or (keeps_variables and type(leaf) is not Tensor):
        return leaf
    value = strip_ended(leaf)
    return own_handle(value) if type(value) is Tensor else boxed(np.array(value)[()])


def combined(one: object, other: Any, choose: Callable[[Any, Any], Any], names: tuple[str, str]) -> Any:
    """Return the tree of selections from each pair of leaves, in their common dtype.

    Args:
        one, other: trees.
        choose: a function of a pair of leaves.
        names: the names, in messages, of the functions that returned the trees.

    Raises:
        StructureError, DtypeError: TypeErrors; the structures or the dtypes differ.
        ShapeError: a ValueError; the shapes differ.
    """
    leaves, treedef = flatten(one)
    others, other_treedef = flatten(other)
    if treedef != other_treedef:
        raise errors.StructureError(
            f"a result of {names[0]} or {names[1]} is selected per example, so both must return the same containers: "
            f"{names[0]} returns {outline(one)}, and {names[1]} returns {outline(other)}."
        )
    pairs = list(zip(leaves, others, strict=True))
    for index, (x, y) in enumerate(pairs):
        _check_alike(x, y, lambda index=index: "result" + paths(one)[index], names)  # type: ignore[misc]
    return unflatten(treedef, [x if _is_same(x, y) else choose(x, y) for x, y in pairs])


def _is_same(x: Any, y: Any) -> bool:
    """Return whether no selection is needed: both leaves are the same value, or plain and equal bit for bit.

    Functions receive new tensor objects and copies, so the values are compared.
    """
    if x is y:
        return True
    if type(x) is np.ndarray is type(y):
        return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
    x, y = (strip_ended(each) if type(each) in BOXES else None for each in (x, y))
    if type(x) is not Tensor or type(y) is not Tensor:
        return type(x) is np.ndarray and x is y
    return x._payload is y._payload and x._trace is y._trace and x._mark is y._mark


def _check_alike(x: Any, y: Any, path: Callable[[], str], names: tuple[str, str]) -> None:
    kind, other_kind = kind_of(x), kind_of(y)
    if x is y or kind == other_kind is not None:
        return
    if kind is None or other_kind is None:
        raise errors.StructureError(
            f"{path()} is {x!r:.100} of {names[0]} and {y!r:.100} of {names[1]}; only numbers and arrays can be "
            "selected for each example."
        )
    (shape, dtype), (other_shape, other_dtype) = kind, other_kind
    if shape != other_shape:
        raise errors.ShapeError(
            f"{path()} has shape {shape} from {names[0]} and {other_shape} from {names[1]}, but one of them is "
            "selected for each example.\nReturn arrays of one shape, such as np.zeros_like(x) in place of 0.0."
        )
    if (dtype is WEAK and holds(other_dtype, x)) or (other_dtype is WEAK and holds(dtype, y)):
        return
    raise errors.DtypeError(
        f"{path()} is {_dtype_text(x, dtype)} from {names[0]} and {_dtype_text(y, other_dtype)} from {names[1]}, but "
        "one of them is selected for each example.\nReturn one dtype, by x.astype(...)."
    )


def _dtype_text(leaf: object, dtype: DTypeLike) -> str:
    return f"a Python {type(leaf).__name__}" if dtype is WEAK else str(dtype)
