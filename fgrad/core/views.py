"""Views: tensors that share the memory of another one, as slices, transposes and reshaped arrays do in NumPy.

    view(primitive, x, metadata)    the result of an operation, as a view of `x`
    origin(x)                       the root of which `x` is a view, and the steps from the root to `x`
    rewrite(root, primitive, ...)   a write: `root` takes the result of an operation, and its views become outdated
    mark_as_array(x)                a tensor of shape `()` stands for an array, into which `x += y` writes
    stands_for_array(x)             whether it does; views of shape `()` do, as those of `x[..., 0]`
    like_argument(x, argument)      the tensor of an argument, marked as an array if the argument is one
    as_number(x)                    a view of shape `()` as a number; other values unchanged
    apart(x, root)                  a copy of `x` if it aliases `root`, to be read while `root` is written to
    hidden_value(x), part_of(x, y)  a written value that has not been read since, and a part that keeps it hidden

The value of a tensor is immutable: a write makes a new value, which its root holds from then on. So whatever was
recorded stays valid. A view stores the steps that lead to it, and repeats them after a write.

A write allocates an array, which the root owns until someone reads it: its value is hidden, and the next write goes
into the same array, without a copy. A read of the root itself uncovers the value, and the next write allocates a new
array. A read of a small part, by a view or an index, returns a copy of the part, and the rest stays hidden.
"""

from __future__ import annotations

import math
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from fgrad import errors
from fgrad.core.foreign import Objects
from fgrad.core.layers import below
from fgrad.core.masked import Masked, unmasked
from fgrad.core.primitive import METHODS, Primitive
from fgrad.core.tensor import Tensor, apply, box, own_handle, strip_ended
from fgrad.core.trace import Trace, is_seen, observing
from fgrad.typing import Array

# Plain tuples: each slice makes a view, and named tuples take five times as long to make.

Step = tuple[Primitive, Mapping[str, Any], tuple[int, ...]]
"""An operation whose result is a view of its argument: the primitive, its metadata, and the shape of the result."""

Path = tuple[Step, ...]

View = tuple[Tensor, Path]
"""Data of a view: its root, and the steps from there."""

VIEWS: dict[Primitive, Callable[..., Any]] = {}
"""By operations whose results are views: `view(x, lead, **metadata)` does the same for an array with `lead` more
leading axes, as a view of its memory."""


class Family:
    """Data of a tensor that has views, or was written to.

    Attributes:
        views: references to views; some of them may be dead.
        room: the number of references at which dead ones are dropped.
        hidden: the value of the tensor if it has not been read since the last write, else None. The tensor itself is
            outdated then.
        owned: the arrays in it that writes have allocated.
        lent: references to arrays of its elements that NumPy was given, which do not see writes, and the user's lines
            where that was.
        is_array: whether a tensor of shape `()` stands for an array, into which `x += y` writes.
    """

    __slots__ = ("views", "room", "hidden", "owned", "lent", "is_array")

    def __init__(self) -> None:
        self.lent: list[tuple[weakref.ref[Any], tuple[str, int]]] = []
        self.views: list[weakref.ref[Tensor]] = []
        self.room = 16
        self.hidden: Tensor | None = None
        self.owned: list[Any] = []
        self.is_array = False

    def forget_dead(self) -> None:
        self.views = [each for each in self.views if each() is not None]
        self.room = 2 * len(self.views) + 16


class Outdated(Trace):
    """The trace of outdated tensors; it ranks above all others, and renews them before an operation.

    These are views whose root was written to, and roots whose value is hidden.
    """

    outdated = True

    def __init__(self) -> None:
        super().__init__()
        self.level = sys.maxsize

    @override
    def process(self, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> Any:
        return apply(primitive, [self.renewed(x) if type(x) is Tensor else x for x in args], metadata)

    @override
    def renewed(self, tensor: Any) -> Tensor:
        if tensor._trace is not self:
            return tensor  # type: ignore[no-any-return]
        if type(tensor._alias) is Family:
            return _uncovered(tensor)
        root, path = tensor._alias
        is_observed = is_seen()
        hidden = None if is_observed else hidden_value(root)
        value = along(root if hidden is None else hidden, path)
        if is_observed:
            # not stored: the substitute for the root is only valid inside the observer's block
            return value  # type: ignore[no-any-return]
        tensor._rebind(value if hidden is None else part_of(root, value))
        return tensor  # type: ignore[no-any-return]

    @override
    def shape_of(self, tensor: Any) -> tuple[int, ...]:
        if type(tensor._alias) is tuple:
            return tensor._alias[1][-1][2]  # type: ignore[no-any-return]
        hidden = hidden_value(tensor)  # None if another thread has just read the tensor
        return tensor.shape if hidden is None else hidden.shape

    def dtype_of(self, tensor: Any) -> np.dtype[Any]:
        """Return the dtype of an outdated tensor."""
        hidden = hidden_value(tensor)
        return (self.renewed(tensor) if hidden is None else hidden).dtype


OUTDATED = Outdated()


def hidden_value(x: Tensor) -> Tensor | None:
    """Return the value of a tensor if it has not been read since the last write, otherwise None."""
    return x._alias.hidden if x._trace is OUTDATED and type(x._alias) is Family else None


def _uncovered(root: Tensor) -> Tensor:
    """Make a tensor hold its hidden value; from then on the arrays may be shared."""
    family: Family = root._alias
    hidden = family.hidden
    if hidden is not None:  # else another thread has just read the tensor
        root._rebind(hidden)
        family.hidden, family.owned = None, []
    return root


def part_of(root: Tensor, part: Tensor) -> Tensor:
    """Return part of a hidden value, as a copy. For a large part the value is uncovered instead.

    One copy of the whole, at the next write, takes less time than copies of several large parts.
    """
    if 2 * math.prod(part.shape) > math.prod(root.shape):
        _uncovered(root)
    else:
        _copy_views(part)
    return part


def view(primitive: Primitive, x: Array, metadata: Mapping[str, Any]) -> Any:
    """Return the result of an operation on `x`, as a view of `x` if that is a tensor."""
    if type(x) is Tensor and hidden_value(origin(x)[0]) is not None and not is_seen():
        found = later(primitive, x, metadata)
        if found is not None:
            return found
    return seen(apply(primitive, (x,), metadata), x, primitive, metadata)


def later(primitive: Primitive, x: Tensor, metadata: Mapping[str, Any]) -> Tensor | None:
    """Return a lazy view, evaluated when it is read; it may also only be written to. None if its shape is `()`."""
    array = layout(x)
    lead = array.ndim - len(x.shape)
    shape = VIEWS[primitive](array, lead, **metadata).shape[lead:]
    return seen(box(None, OUTDATED, None), x, primitive, metadata, shape) if shape else None


def seen(
    result: Array, x: Array, primitive: Primitive, metadata: Mapping[str, Any], shape: tuple[int, ...] | None = None
) -> Any:
    """Make a tensor a view of `x`: the result of an operation on `x` alone.

    Args:
        result: the result; if it is not a tensor, or an element of `x`, it does not become a view.
        x, primitive, metadata: the argument, the operation.
        shape: the shape of the result, if it is lazy.
    """
    if type(x) is not Tensor or type(result) is not Tensor:
        return result
    shape = shape or result._trace.shape_of(result)
    if not shape and _is_element(metadata):
        return result
    if not x._trace.shape_of(x) and not stands_for_array(x):  # NumPy copies a number into a new array
        return result
    root, path = origin(x)
    family = _family_of(root)
    if len(family.views) >= family.room:
        family.forget_dead()
    family.views.append(weakref.ref(result))
    result._alias = root, (*path, (primitive, metadata, shape))
    return result


def _is_element(metadata: Mapping[str, Any]) -> bool:
    """Return whether an operation whose result has the shape `()` is an index without an ellipsis.

    It gives a number, and not an array, as do `x[..., 0]`, `x.squeeze()` and `x.reshape(())`.
    """
    return Ellipsis not in metadata.get("template", (Ellipsis,))


def become_view(x: Tensor, look: Callable[[Tensor], Tensor]) -> None:
    """Make a tensor a view of its former self, along with all its views.

    Args:
        x: the tensor.
        look: a function that makes the view.
    """
    x._trace.renewed(x)
    before = own_handle(x)
    before._alias = x._alias
    if type(x._alias) is Family:
        for each in (reference() for reference in x._alias.views):
            if each is not None:
                each._alias = before, each._alias[1]
    view_of_it = look(before)
    x._assign(view_of_it)
    x._alias = view_of_it._alias
    if type(x._alias) is tuple:
        _family_of(x._alias[0]).views.append(weakref.ref(x))


def _family_of(root: Tensor) -> Family:
    if root._alias is None:
        root._alias = Family()
    return root._alias  # type: ignore[no-any-return]


def mark_as_array(x: Tensor) -> None:
    """Let a tensor of shape `()` stand for an array, and not for a number, where a function writes into it."""
    if type(x._alias) is not tuple:  # a view is one anyway
        _family_of(x).is_array = True


def stands_for_array(x: Tensor) -> bool:
    """Return whether a tensor of shape `()` stands for an array: it is a view, or was marked as one."""
    return type(x._alias) is tuple or (x._alias is not None and x._alias.is_array)


METHODS["stands_for_array"] = stands_for_array


def like_argument(x: Tensor, argument: Any) -> Tensor:
    """Return the tensor of an argument, which stands for an array if the argument is one."""
    is_array = type(argument) is np.ndarray or (type(argument) is Tensor and stands_for_array(argument))
    if is_array and not argument.shape:
        mark_as_array(x)
    return x


def as_number(x: Any) -> Any:
    """Return a view of shape `()` as a number, as `x[()]` does in NumPy; return other values unchanged."""
    return own_handle(x) if type(x) is Tensor and type(x._alias) is tuple and not x.shape else x


def origin(x: Tensor) -> View:
    """Return the root of which `x` is a view, and the steps that lead from there to `x`."""
    return x._alias if type(x._alias) is tuple else (x, ())


def along(x: Array, path: Path) -> Any:
    """Return the view of `x` to which steps lead."""
    for primitive, metadata, _ in path:
        x = apply(primitive, (x,), metadata)
    return x


def outdate(root: Tensor) -> None:
    """Mark the views of a tensor as outdated; until they are read they hold nothing."""
    for reference in () if root._alias is None else root._alias.views:
        if (each := reference()) is not None:
            each._trace, each._payload, each._mark = OUTDATED, None, None


def stand_for(root: Tensor, value: Tensor) -> None:
    """Make a tensor hold another value, and mark its views as outdated."""
    if type(root._alias) is Family:
        _refuse_if_lent(root._alias)
    if now_written.check is not None:
        now_written.check(root)
    value = value._trace.renewed(value)
    outdate(root)
    if type(root._alias) is Family:
        root._alias.hidden, root._alias.owned = None, []
    root._assign(value)


def is_shared(x: Tensor) -> bool:
    """Return whether `x` is a view, or has views."""
    if type(x._alias) is tuple:
        return True
    return x._alias is not None and any(each() is not None for each in x._alias.views)


def apart(x: Array, root: Tensor) -> Any:
    """Return a copy of `x` if it aliases `root`, otherwise `x`."""
    if type(x) is not Tensor or origin(x)[0] is not root:
        return x
    copy = own_handle(x._trace.renewed(x))
    _copy_views(copy)
    return copy


def in_memory_of_its_own(x: Array) -> Array:
    """Return an array, or a new tensor object, that shares no memory with others."""
    if type(x) is Tensor:
        _copy_views(x)
        return x
    return x.copy("K") if type(x) is np.ndarray else x


def _copy_views(tensor: Tensor) -> None:
    """Replace arrays that are views by copies, in all layers; values are unchanged."""
    before = tensor._payload
    for name in ("_payload", "_mark"):
        held = getattr(tensor, name)
        inner = unmasked(held)
        if type(inner) is Tensor:
            _copy_views(inner)
        elif type(inner) is np.ndarray and not _is_owner(inner):
            copy = inner.copy(order="K")
            setattr(tensor, name, copy if held is inner else Masked(copy))
    if tensor._payload is not before:
        tensor._mark = tensor._trace.mark_of_copy(tensor._mark, tensor._payload)


def layout(x: Any) -> Any:
    """Return a plain array with the memory layout that the value of `x` would have without traces.

    It may have leading axes for batches of examples.
    """
    if type(x) is not Tensor:
        return x
    root, path = origin(x)
    hidden = hidden_value(root)
    array = _plain(root if hidden is None else hidden)
    lead = array.ndim - len(root.shape)
    for primitive, metadata, _ in path:
        array = VIEWS[primitive](array, lead, **metadata)
    return array


def layout_of_one(x: Any) -> Any:
    """Return `layout(x)` without the axes of batches: that of one example."""
    array = layout(x)
    lead = np.ndim(array) - len(x.shape)
    return array[(0,) * lead] if lead and isinstance(array, np.ndarray) and array.size else array


def is_one_block(x: Any) -> bool:
    """Return whether a tensor is no view and its array is in C order, the common case."""
    if type(x) is not Tensor or is_seen() or type(x._alias) is tuple:
        return False
    array = below(x)
    return type(array) is np.ndarray and array.flags.c_contiguous


def _plain(x: Array) -> Any:
    return below(strip_ended(x))


# Writing


class Writing(threading.local):
    """The arrays that a write in this thread may overwrite, and the copies made of other arrays.

    Attributes:
        check: is called before a write with the root that is written to, and may raise.
    """

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self.copies: list[Any] = []
        self.check: Callable[[Tensor], None] | None = None

    def own(self, array: Array) -> Any:
        """Return an array to write into: `array` itself if it may be overwritten, otherwise a copy."""
        for each in self.arrays:
            if each is array:
                return array
        copy = _copy_by_examples(array)
        self.copies.append(copy)
        return copy

    def keep(self, x: Any) -> None:
        """Protect the arrays of a value, in all its layers, from being overwritten."""
        if type(x) is Tensor:
            self.keep(x._payload)
            self.keep(unmasked(x._mark))
        elif type(x) is np.ndarray:
            self.arrays = [each for each in self.arrays if each is not x]


now_written = Writing()


@contextmanager
def checking_writes(check: Callable[[Tensor], None]) -> Iterator[None]:
    """Call a function before each write in a block of this thread, with the root that is written to; it may raise."""
    around, now_written.check = now_written.check, check
    try:
        yield
    finally:
        now_written.check = around


def _copy_by_examples(array: Any) -> Any:
    """Return a copy with the memory layout of the array, also where a batch repeats one example."""
    if 0 not in array.strides:
        return np.array(array, subok=type(array) is Objects)
    order = sorted(range(array.ndim), key=lambda axis: -(abs(array.strides[axis]) or sys.maxsize))
    return np.transpose(np.array(np.transpose(array, order), order="C"), np.argsort(order))


def rewrite(root: Tensor, primitive: Primitive, args: Sequence[Any], metadata: Mapping[str, Any]) -> None:
    """Make a tensor hold the result of an operation that writes into a copy of it.

    No copy is made if the value of the tensor is hidden.

    Args:
        root: the tensor, which is not a view.
        primitive: the operation; its implementation writes into `now_written.own(array)`.
        args: the further arguments; they do not share its memory (`apart`).
        metadata: the keywords.
    """
    family = _family_of(root)
    _refuse_if_lent(family)
    if now_written.check is not None:
        now_written.check(root)
    if family.views:
        outdate(root)
    if observing and is_seen():  # an observer may keep the values
        root._assign(apply(primitive, (root, *args), metadata))
        return
    hidden = hidden_value(root)
    before = now_written.arrays, now_written.copies
    now_written.arrays, now_written.copies = family.owned if hidden is not None else [], []
    try:
        result = apply(primitive, (root if hidden is None else hidden, *args), metadata)
        copies = now_written.copies
    finally:
        now_written.arrays, now_written.copies = before
    if hidden is not None and not copies:
        family.hidden = result
    elif copies and result.shape:
        _hide(root, result, [*family.owned, *copies])
    else:
        root._rebind(result)


def lend(x: Tensor, array: npt.NDArray[Any]) -> None:
    """Note that a plain array of the elements of a tensor is in use: from then on a write would not show in it."""
    family = _family_of(origin(x)[0])
    family.lent = [each for each in family.lent if each[0]() is not None]
    family.lent.append((weakref.ref(array), errors.users_place()))


METHODS["lend"] = lend


def _refuse_if_lent(family: Family) -> None:
    """Raise before a write that an array which NumPy was given would not see."""
    for array, place in family.lent:
        if array() is not None:
            raise errors.InPlaceError.of_lent(errors.line_at(place), errors.users_line())


def _hide(root: Tensor, value: Tensor, made: list[Any]) -> None:
    """Hide the value of a tensor that has been written to, if it holds arrays that writes have allocated."""
    family: Family = root._alias
    family.owned = [array for array in _arrays(value) if any(array is each for each in made)]
    if family.owned:
        family.hidden = value
        root._trace, root._payload, root._mark, root._squared = OUTDATED, None, None, None
    else:
        family.hidden = None
        root._rebind(value)


def _arrays(tensor: Any) -> list[Any]:
    """Return the arrays in all layers of a tensor, values and tangents, that own their memory."""
    if type(tensor) is Tensor:
        return [*_arrays(tensor._payload), *_arrays(unmasked(tensor._mark))]
    return [tensor] if type(tensor) is np.ndarray and _is_owner(tensor) else []


def _is_owner(array: Any) -> bool:
    return array.base is None and array.flags.owndata and array.flags.writeable
