"""What stays the same from iteration to iteration: how a tree is nested, and the shape and dtype of each of its leaves.

    Form("the carry", "step", init).fitted(tree)    the tree again, or an error that names the leaf that has changed
    own(tree)                                       the same values; what is written into them is not in the tree
    combined(one, other, choose)                    a tree of what is chosen from each two leaves of two trees

Python's numbers take the dtype of what they meet, as they do in NumPy: a carry that begins as 0.0 may go on as an array
of shape () and any dtype, and keeps that one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.primitive import BOXES
from fgrad.core.tensor import Tensor, boxed, own_handle, strip_ended
from fgrad.core.tree import flatten, outline, paths, unflatten
from fgrad.transforms.calls import name_of

Kind = tuple[tuple[int, ...], Any]
"""A shape and a dtype, which is WEAK for a number of Python's."""

WEAK: Any = object()
"""Not None, to which NumPy's dtype of double precision is equal."""

_LEAF = flatten(0.0)[1]
_PYTHONS = {int, float, complex, bool}
_KINDS: dict[type, Kind] = {
    **dict.fromkeys(_PYTHONS, ((), WEAK)),
    **{kind: ((), np.dtype(kind)) for kind in (np.float64, np.float32, np.int64, np.bool_, np.complex128)},
}
"""The kinds of numbers, by their types."""
_OF_DTYPES = {kind[1]: kind for kind in _KINDS.values() if kind[1] is not WEAK}


def kind_of(leaf: Any) -> Kind | None:
    """Return the shape and dtype of a leaf, or None if it is neither a number nor an array."""
    kind = type(leaf)
    if kind in _PYTHONS or (kind is Tensor and leaf._trace.is_weak(leaf)):
        return (), WEAK
    if kind not in BOXES and not isinstance(leaf, (np.ndarray, np.generic)):
        return None
    return _OF_DTYPES.get(leaf.dtype, ((), leaf.dtype)) if leaf.shape == () else (leaf.shape, leaf.dtype)


def _is_alike(leaf: Any, kind: Kind, trace: Any) -> bool:
    """Return whether a leaf is of a kind, as far as that can be told at once.

    Args:
        leaf: of a tree.
        kind: as it should be.
        trace: one whose tensors have the shape and dtype of their values.
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
    """How a tree is nested, and what its leaves are, in all iterations of a loop.

    Args:
        what: a message calls the tree by, such as "the carry"; the last word names it in the path of a leaf.
        function: the user's, which returns the tree.
        tree: as it is before the first iteration.

    Raises:
        StructureError: a TypeError; a leaf is neither a number nor an array.
    """

    def __init__(self, what: str, function: Callable[..., Any], tree: Any) -> None:
        self._what, self._function = what, function
        self.leaves, self.treedef = flatten(tree)
        self._outline = outline(tree)
        self.kinds = [self._kind(leaf, place, tree) for place, leaf in enumerate(self.leaves)]
        self.began_weak = [kind[1] is WEAK for kind in self.kinds]
        self._is_leaf = self.treedef == _LEAF
        self._is_tuple = type(tree) is tuple and all(child == _LEAF for child in self.treedef.children())
        self._trace: Any = None  # that of a leaf before, if its tensors are what their values are

    def fitted(self, tree: Any) -> Any:
        """Return a tree that the function has returned, with Python's numbers in the dtype that there was.

        Raises:
            StructureError: a TypeError; it is nested otherwise, or a leaf is neither a number nor an array.
            ShapeError: a ValueError; a leaf has another shape.
            DtypeError: a TypeError; a leaf has another dtype.
        """
        # The commonest trees need no look inside, and take a third of the time.
        if self._is_leaf and _is_alike(tree, self.kinds[0], self._trace):
            self.leaves = [tree]
            return tree
        if self._is_tuple and self._is_fitting(tree):
            return tree
        leaves, treedef = flatten(tree)
        if treedef != self.treedef:
            raise errors.StructureError(
                f"{self._what} that {name_of(self._function)} returns is nested as {outline(tree)}, and before it was "
                f"nested as {self._outline}.\nReturn the same containers in each iteration; None is a container "
                "without leaves."
            )
        self.leaves = leaves
        self._trace = next((x._trace for x in leaves if type(x) is Tensor and _shows_its_value(x._trace)), None)
        if [kind_of(leaf) for leaf in leaves] == self.kinds:
            return tree
        self.leaves = [self._adapted(leaf, place, tree) for place, leaf in enumerate(leaves)]
        return unflatten(treedef, self.leaves)

    def _is_fitting(self, tree: Any) -> bool:
        """Return whether a tree is a plain tuple as it should be, if that can be told at once."""
        if type(tree) is not tuple or len(tree) != len(self.kinds):
            return False
        for leaf, kind in zip(tree, self.kinds, strict=True):
            if not _is_alike(leaf, kind, self._trace):
                return False
        self.leaves = list(tree)
        return True

    def _adapted(self, leaf: Any, place: int, tree: Any) -> Any:
        """Return a leaf in the dtype that there was; what was a number of Python's has from now on that of the leaf."""
        kind, before = self._kind(leaf, place, tree), self.kinds[place]
        if kind[0] != before[0]:
            raise errors.ShapeError(
                f"{self._path(place, tree)} had shape {before[0]}, and {name_of(self._function)} returns shape "
                f"{kind[0]} for it.\n{self._what[0].upper()}{self._what[1:]} keeps its shapes in all iterations"
                + (f": begin with the later one, such as np.zeros({kind[0]})." if self._what == "the carry" else ".")
            )
        if before[1] is WEAK:
            self.kinds[place] = kind
        elif kind[1] is WEAK and holds(before[1], leaf):
            return strong(leaf, before[1])
        elif kind[1] != before[1]:
            returned = _dtype_text(leaf, kind[1])
            raise errors.DtypeError(
                f"{self._path(place, tree)} had dtype {before[1]}, and {name_of(self._function)} returns {returned} "
                f"for it.\nReturn x.astype({before[1]}), or begin with {returned}; a float32 number stays one beside "
                "float32 arrays and Python's numbers."
            )
        return leaf

    def _kind(self, leaf: Any, place: int, tree: Any) -> Kind:
        kind = kind_of(leaf)
        if kind is None:
            raise errors.StructureError(
                f"{self._path(place, tree)} is {leaf!r:.100} of type {type(leaf).__name__}, which is neither a number "
                "nor an array.\nA function can use it without being handed it: close over it."
            )
        return kind

    def _path(self, place: int, tree: Any) -> str:
        return self._what.rpartition(" ")[2] + paths(tree)[place]


def _shows_its_value(trace: Any) -> bool:
    """Return whether tensors of a trace have the shape and dtype of their values, and are no numbers of Python's."""
    return not trace.is_map and not trace.is_program


def holds(dtype: Any, number: Any) -> bool:
    """Return whether a number of Python's, or what stands for one, is of a dtype when it meets an array of it."""
    example = number.dtype.type(0).item() if type(number) is Tensor else number
    return bool(np.result_type(dtype, example) == dtype)


def strong(leaf: Any, dtype: Any) -> Any:
    """Return a leaf of a dtype in place of a number of Python's, or of what stands for one; others as they are."""
    if type(leaf) in _PYTHONS:
        return np.asarray(leaf, dtype)[()]
    # A difference, since it keeps the sign of 0, and what is not finite.
    return np.subtract(leaf, np.zeros((), dtype)[()]) if kind_of(leaf) == ((), WEAK) else leaf


def own(tree: Any) -> Any:
    """Return a tree on which a function may work in place: what it writes is not in the user's arrays and tensors."""
    leaves, treedef = flatten(tree)
    return unflatten(treedef, map(_own_leaf, leaves))


def _own_leaf(leaf: Any) -> Any:
    if type(leaf) is np.ndarray:
        return leaf.copy()
    if type(leaf) not in BOXES:
        return leaf
    value = strip_ended(leaf)
    return own_handle(value) if type(value) is Tensor else boxed(np.array(value)[()])


def combined(one: Any, other: Any, choose: Callable[[Any, Any], Any], names: tuple[str, str]) -> Any:
    """Return the tree of what is chosen from each two leaves, in the dtype of both.

    Args:
        one, other: trees.
        choose: a function of a leaf of each.
        names: what messages call the functions that have returned the trees.

    Raises:
        StructureError, DtypeError: TypeErrors; the trees are nested otherwise, or the dtypes differ.
        ShapeError: a ValueError; the shapes differ.
    """
    leaves, treedef = flatten(one)
    others, other_treedef = flatten(other)
    if treedef != other_treedef:
        raise errors.StructureError(
            f"one of {names[0]} and {names[1]} is chosen for each example, so they must return the same containers: "
            f"{names[0]} returns {outline(one)}, and {names[1]} returns {outline(other)}."
        )
    pairs = list(zip(leaves, others, strict=True))
    for place, (x, y) in enumerate(pairs):
        _check_alike(x, y, lambda place=place: "result" + paths(one)[place], names)  # type: ignore[misc]
    return unflatten(treedef, [x if _is_same(x, y) else choose(x, y) for x, y in pairs])


def _is_same(x: Any, y: Any) -> bool:
    """Return whether there is nothing to choose: both are what was handed on unchanged, or plain and equal bit for bit.

    Functions get handles and copies of their own, so it is the values that are the same.
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
            f"{path()} is {x!r:.100} of {names[0]} and {y!r:.100} of {names[1]}, and only numbers and arrays can be "
            "chosen between for each example."
        )
    (shape, dtype), (other_shape, other_dtype) = kind, other_kind
    if shape != other_shape:
        raise errors.ShapeError(
            f"{path()} has shape {shape} from {names[0]} and {other_shape} from {names[1]}, and one of them is chosen "
            "for each example.\nReturn arrays of one shape, such as np.zeros_like(x) in place of 0.0."
        )
    if (dtype is WEAK and holds(other_dtype, x)) or (other_dtype is WEAK and holds(dtype, y)):
        return
    raise errors.DtypeError(
        f"{path()} is {_dtype_text(x, dtype)} from {names[0]} and {_dtype_text(y, other_dtype)} from {names[1]}, and "
        "one of them is chosen for each example.\nReturn one dtype, by x.astype(...)."
    )


def _dtype_text(leaf: Any, dtype: Any) -> str:
    return f"a Python {type(leaf).__name__}" if dtype is WEAK else str(dtype)
