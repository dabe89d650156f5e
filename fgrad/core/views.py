"""Views: tensors that see the memory of another one, as slices, transposes and reshaped arrays do in NumPy.

    view(primitive, x, metadata)    the result of an operation, as a view of `x`
    origin(x)                       the tensor that is written to where `x` is, and the steps from there to `x`
    outdate(root)                   its views look again, when they are asked for next
    apart(x, root)                  a tensor to read from while `root` is written to
    writing(root)                   a block in which arrays that nobody else holds are written to in place

The value of a tensor is never changed: a write makes another one, which its root stands for from then on. So whatever
was recorded stays what it was. A view knows the steps that lead to it, and takes them again after a write. Only arrays
that no one but the root refers to are written to in place, which nobody can see, and saves the copy.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from typing_extensions import override

from fgrad.core.payloads import Objects
from fgrad.core.primitive import Primitive
from fgrad.core.tensor import Tensor, apply, box, own_handle, settle
from fgrad.core.trace import Trace, is_seen

# Plain tuples, since a view is made by each slice, and named ones take five times as long to make.

Step = tuple[Primitive, Mapping[str, Any], tuple[int, ...]]
"""An operation whose result is a view of its argument: the primitive, its metadata, and the shape of the result."""

Path = tuple[Step, ...]

View = tuple[Tensor, Path]
"""What a view remembers: the tensor that it sees, and the steps from there."""


class Family:
    """What a tensor remembers that others are views of.

    Attributes:
        views: references to them; some of the views may be gone.
        room: the number of references at which those to views that are gone are dropped.
        copies: how often all of the memory had to be copied for a write, because it was referred to elsewhere. If that
            was more than once, records keep hold of views, and these get copies of what they see.
    """

    __slots__ = ("views", "room", "copies")

    def __init__(self) -> None:
        self.views: list[weakref.ref[Tensor]] = []
        self.room, self.copies = 16, 0

    def forget_dead(self) -> None:
        self.views = [each for each in self.views if each() is not None]
        self.room = 2 * len(self.views) + 16


class Outdated(Trace):
    """The trace of views whose root was written to; it comes before all others, and looks again."""

    outdated = True

    def __init__(self) -> None:
        super().__init__()
        self.level = sys.maxsize

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        return apply(primitive, [self.renewed(x) if type(x) is Tensor else x for x in args], metadata)

    @override
    def renewed(self, tensor: Any) -> Tensor:
        if tensor.tracing is not self:
            return tensor  # type: ignore[no-any-return]
        root, path = tensor.memory
        value: Any = root
        for primitive, metadata, _ in path:
            value = apply(primitive, (value,), metadata)
        if is_seen():
            return value  # type: ignore[no-any-return]  # what is in place of the root now will not be so for ever
        if root.memory.copies > 1:
            _copy_views(value)
        tensor.become(value)
        return tensor  # type: ignore[no-any-return]

    @override
    def shape_of(self, tensor: Any) -> tuple[int, ...]:
        return tensor.memory[1][-1][2]  # type: ignore[no-any-return]


OUTDATED = Outdated()


def view(primitive: Primitive, x: Any, metadata: Mapping[str, Any]) -> Any:
    """Return the result of an operation on `x`, which sees the memory of `x` if that is a tensor."""
    return seen(apply(primitive, (x,), metadata), x, primitive, metadata)


def seen(result: Any, x: Any, primitive: Primitive, metadata: Mapping[str, Any]) -> Any:
    """Let a tensor be a view of `x`: the result of an operation that reads nothing else."""
    if type(x) is not Tensor or type(result) is not Tensor or not (shape := result.tracing.shape_of(result)):
        return result
    if not x.tracing.shape_of(x):  # a number, of which NumPy makes a new array
        return result
    root, path = origin(x)
    family: Family = root.memory or _family_of(root)
    if len(family.views) >= family.room:
        family.forget_dead()
    family.views.append(weakref.ref(result))
    result.memory = root, (*path, (primitive, metadata, shape))
    if family.copies > 1:
        _copy_views(result)
    return result


def _family_of(root: Tensor) -> Family:
    if root.memory is None:
        root.memory = Family()
    return root.memory  # type: ignore[no-any-return]


def origin(x: Tensor) -> View:
    """Return the tensor that is written to where `x` is, and the steps that lead from there to `x`."""
    return x.memory if type(x.memory) is tuple else (x, ())


def outdate(root: Tensor) -> None:
    """Let the views of a tensor look again when they are asked for; until then they hold nothing."""
    for reference in () if root.memory is None else root.memory.views:
        if (each := reference()) is not None:
            each.payload, each.tracing, each.mark = None, OUTDATED, None


def is_shared(x: Tensor) -> bool:
    """Return whether `x` is a view, or something else is a view of it."""
    if type(x.memory) is tuple:
        return True
    return x.memory is not None and any(each() is not None for each in x.memory.views)


def apart(x: Any, root: Tensor) -> Any:
    """Return `x`, or in place of a tensor that shares the memory of `root` a copy of it."""
    if type(x) is not Tensor or origin(x)[0] is not root:
        return x
    copy = own_handle(x.tracing.renewed(x))
    _copy_views(copy)
    return copy


def in_memory_of_its_own(x: Any) -> Any:
    """Return an array, or a tensor on a handle that nobody else has, that sees no other memory."""
    if type(x) is Tensor:
        _copy_views(x)
        return x
    return x.copy() if type(x) is np.ndarray else x


def _copy_views(tensor: Tensor) -> None:
    """Put copies in place of arrays that are views, in all layers: nobody can see the difference."""
    for name in ("payload", "mark"):
        inner = getattr(tensor, name)
        if type(inner) is Tensor:
            _copy_views(inner)
        elif type(inner) is np.ndarray and not _is_owner(inner):
            setattr(tensor, name, inner.copy(order="K"))


def layout(x: Any) -> Any:
    """Return a plain array that lies in memory as the value of `x` would in a run without traces.

    Examples of batches are in front, so it may have more axes.
    """
    if type(x) is not Tensor:
        return x
    root, path = origin(x)
    array = _plain(root)
    lead = array.ndim - len(root.shape)
    for primitive, metadata, _ in path:
        assert primitive.view is not None
        array = primitive.view(array, lead, **metadata)
    return array


def _plain(x: Any) -> Any:
    x = settle(x)
    while type(x) is Tensor:
        x = x.payload
    return x


# Writing in place


class Writing(threading.local):
    """The arrays that may be written to in this thread just now."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []

    def own(self, array: Any) -> Any:
        """Return an array to write into: the one that is given, or a copy."""
        for each in self.arrays:
            if each is array:
                return array
        return _copy_by_examples(array)

    def keep(self, x: Any) -> None:
        """Let the arrays of a value, in all its layers, be left as they are."""
        if type(x) is Tensor:
            self.keep(x.payload)
            self.keep(x.mark)
        elif type(x) is np.ndarray:
            self.arrays = [each for each in self.arrays if each is not x]


now_written = Writing()


def _copy_by_examples(array: Any) -> Any:
    """Return a copy that lies in memory as the array does, where examples of a batch are one example repeated."""
    if 0 not in array.strides:
        return np.array(array, subok=type(array) is Objects)
    order = sorted(range(array.ndim), key=lambda axis: -(abs(array.strides[axis]) or sys.maxsize))
    return np.transpose(np.array(np.transpose(array, order), order="C"), np.argsort(order))


@contextmanager
def writing(root: Tensor) -> Iterator[None]:
    """Let operations in a block write into the arrays of a tensor, as far as nobody else refers to them."""
    arrays: list[Any] = []
    if not is_seen():  # an observer may keep what it sees
        _collect(root, arrays)
    if not arrays:
        _family_of(root).copies += 1
    before, now_written.arrays = now_written.arrays, arrays
    try:
        yield
    finally:
        now_written.arrays = before


def _collect(tensor: Tensor, arrays: list[Any]) -> None:
    """Find the arrays to which only a tensor refers, in all its layers, values and tangents alike."""
    for name in ("payload", "mark"):
        inner = getattr(tensor, name)
        if _references(inner) > _ALONE:
            continue
        if type(inner) is Tensor:
            _collect(inner, arrays)
        elif type(inner) is np.ndarray and _is_owner(inner):
            arrays.append(inner)


def _references(x: Any) -> int:
    return sys.getrefcount(x)


def _is_owner(array: Any) -> bool:
    return array.base is None and array.flags.owndata and array.flags.writeable


def _references_of_one_owner() -> int:
    """Return how many references are counted where one attribute and one variable hold an object."""
    tensor = box(np.empty(1), OUTDATED, None)
    inner = getattr(tensor, "payload")  # noqa: B009  # as in `_collect`
    return _references(inner)


_ALONE = _references_of_one_owner()
