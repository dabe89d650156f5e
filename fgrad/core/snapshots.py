"""Snapshots of plain arrays: the user may overwrite an array that a pullback refers to.

    snapshot(array, copies)    a copy, for a pullback to refer to
    is_large(array)            whether an array is too large to copy
    Locks                      large arrays that are read-only while a transform runs
    ChecksumGuard(pullback, ..)  refuses to run if large arrays have been overwritten
    debug_overwrites()         a block that also finds writes through views of large arrays

A work buffer, a mask or a mini-batch is often overwritten after use, before the backward pass. So a pullback gets a
copy of a plain array. For a large one a copy would take more memory than the user expects, so the pullback gets the
array itself. If the record ends with the call of a transform, the array is read-only while it runs, so that a write is
an error where it happens. A record that outlives the call must not leave a user's array locked: its pullbacks compare
checksums, and refuse to run if an array was overwritten.
"""

from __future__ import annotations

import functools
import mmap
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from fgrad import errors
from fgrad._locks import Lock
from fgrad.typing import Array

LARGE = 1 << 20
"""Size in bytes above which an array is not copied."""
SMALL = 1 << 15
"""Size in bytes up to which copying an array again is faster than testing whether it has changed."""
_WIDTH = 1 << 10


Copies = dict[int, tuple["weakref.ref[Any]", "weakref.ref[Any]"]]
"""Copies made by a trace, by the id of the array: the array and its copy, which only pullbacks keep alive."""


_ours: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""The copies of arrays that are not small, by id: a copy needs no further copy."""


def is_large(array: Any) -> bool:
    """Return whether an array is too large to copy."""
    return array.nbytes > LARGE and array.dtype.kind != "O" and any(array.strides)


def is_read_only(array: Any) -> bool:
    """Return whether an array, and the memory it is a view of, can only be read."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return array is None or type(array) is bytes


def snapshot(array: Any, copies: Copies) -> Any:
    """Return a copy of an array that is never written to; a copy made by this function is returned itself."""
    if array.nbytes <= SMALL or array.dtype.kind == "O":
        return array.copy("K")
    if not any(array.strides):
        return np.broadcast_to(array[(0,) * array.ndim], array.shape)  # as in the cotangent of a sum
    if _ours.get(id(array)) is array:
        return array
    known, kept = copies.get(id(array), (None, None))
    copy = None if kept is None or known is None or known() is not array else kept()
    if copy is None or not are_same(array, copy):
        copy = array.copy("K")
        _ours[id(copy)] = copy
        copy.flags.writeable = False
        copies[id(array)] = weakref.ref(array), weakref.ref(copy)
    return copy


def are_same(array: Any, copy: Any) -> bool:
    """Return whether two arrays have equal bits: NaN equals NaN, and 0.0 differs from -0.0."""
    if array.shape != copy.shape or array.dtype != copy.dtype:
        return False
    word = np.uint8 if array.nbytes % 8 else np.uint64
    return bool(np.array_equal(_bits(array).view(word), _bits(copy).view(word)))


def _bits(array: Any) -> Any:
    return np.ascontiguousarray(array).view(np.uint8).reshape(-1)


# Read-only while a transform runs

_debugging: ContextVar[bool] = ContextVar("debug_overwrites", default=False)


@contextmanager
def debug_overwrites() -> Iterator[None]:
    """Find every write to a large plain array between its use and the backward pass, in a block.

    Plain arrays of up to 1 MiB are copied when they are used, so a later write to them has no effect. A larger one is
    read-only while a transform such as `fg.grad` runs, and a write to it is an error. A write through a view that was
    made earlier goes undetected: the view stays writable. In the block, a checksum of each large array is compared
    before the backward pass, which takes longer than a product with the array. `fg.check` does so, too.

    Returns:
        The block's context manager. It applies to the thread, or asynchronous task, that opens it.

    Raises:
        OverwrittenError: a RuntimeError, from the backward pass; an array was overwritten.

    Example:
        >>> import numpy as np, fgrad as fg
        >>> weights = np.ones((1000, 1000))
        >>> first_row = weights[0]
        >>> def f(x):
        ...     total = np.sum(weights * x)
        ...     first_row[:] = 7.0
        ...     return total
        >>> with fg.debug_overwrites():
        ...     fg.grad(f)(2.0)
        Traceback (most recent call last):
        fgrad.errors.OverwrittenError: ...
    """
    token = _debugging.set(True)
    try:
        yield
    finally:
        _debugging.reset(token)


_locked: dict[int, tuple[Any, dict[int, int], list[Any]]] = {}
"""By the id of an array that owns memory: the array, the threads of its locks by their ids, and the arrays that they
have made read-only."""
_locking = Lock()


def _lineage(array: Any) -> list[Any]:
    """Return an array and its bases, up to the array that owns the memory."""
    arrays = [array]
    while isinstance(base := arrays[-1].base, np.ndarray):
        arrays.append(base)
    return arrays


def _can_be_locked(array: Array) -> bool:
    """Return whether the memory belongs to NumPy: otherwise the array could not be made writable again."""
    root = _lineage(array)[-1]
    return (root.base is None and root.flags.owndata) or isinstance(root.base, mmap.mmap)


class Locks:
    """The large arrays that are read-only for one record, until `release` is called.

    Several records, also of other threads, may lock an array: it is writable again when all have released it.
    """

    def __init__(self) -> None:
        self._uses: dict[int, tuple[Any, str, tuple[str, int], Any]] = {}
        self._owners: list[Any] = []

    def hold(self, array: Array, name: str) -> bool:
        """Make an array and its bases read-only.

        Args:
            array: an array that an operation uses.
            name: the name of the operation.

        Returns:
            False if the array could not be made writable again, such as memory of another library.
        """
        if id(array) in self._uses:
            return True
        if not _can_be_locked(array):
            return False
        before = fingerprint(array) if _debugging.get() else None
        self._uses[id(array)] = array, name, errors.users_place(), before
        arrays = _lineage(array)
        with _locking:
            self._owners.append(arrays[-1])  # in this order, an interrupt leaves nothing locked
            _, holders, locked = _locked.setdefault(id(arrays[-1]), (arrays[-1], {}, []))
            holders[id(self)] = threading.get_ident()
            for each in arrays:
                if each.flags.writeable:
                    locked.append(each)
                    each.flags.writeable = False
        return True

    def check(self) -> None:
        """Raise if a locked array has been written to.

        Raises:
            OverwrittenError: a RuntimeError; an array was made writable, or has changed within `debug_overwrites`.
        """
        for array, name, place, before in self._uses.values():
            what = "made writable" if array.flags.writeable else ""
            if before is not None and fingerprint(array) != before:
                what = "overwritten"
            if what:
                raise errors.OverwrittenError(name, array.shape, errors.line_at(place), what)

    def explain(self, error: BaseException) -> None:
        """Raise an error that names the use of an array, in place of NumPy's for a write to a read-only array.

        Raises:
            OverwrittenError: a RuntimeError; `error` is NumPy's, and an array is locked here.
        """
        if self._uses and isinstance(error, ValueError) and "read-only" in str(error):
            array, name, place, _ = [*self._uses.values()][-1]
            raise errors.OverwrittenError(
                name, array.shape, errors.line_at(place), "written to", errors.line_of(error), len(self._uses)
            ) from error

    def release(self) -> None:
        """Make arrays writable again that no other record has locked.

        If an interrupt ends it, another call continues.
        """
        while self._owners:
            with _locking:
                owner = id(self._owners[-1])
                _, holders, _ = _locked.get(owner, (None, {}, []))
                holders.pop(id(self), None)
                _unlock_unless_held(owner)
                self._owners.pop()
        self._uses.clear()

    def __del__(self) -> None:
        if getattr(self, "_owners", None):  # an interrupt has kept the call from releasing them
            self.release()


def _unlock_unless_held(owner: int) -> None:
    """Make the arrays of an owner of memory writable if it has no locks left."""
    _, holders, locked = _locked.get(owner, (None, {}, []))
    if not holders:
        for each in sorted(locked, key=lambda array: len(_lineage(array))):
            each.flags.writeable = True  # the owner before its views, as NumPy requires
        _locked.pop(owner, None)


def _release_others() -> None:
    """Release, in a forked child, the locks of threads that do not exist in it."""
    for owner, (_, holders, _) in list(_locked.items()):
        for number in [each for each, thread in holders.items() if thread != threading.get_ident()]:
            del holders[number]
        _unlock_unless_held(owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_others)


class ChecksumGuard:
    """A pullback that refers to large arrays, and raises if they have been overwritten.

    Read-only arrays need no checksum; it raises if they have become writable.
    """

    __slots__ = ("pullback", "arrays", "prints", "name", "place")

    def __init__(self, pullback: Callable[[Any], Any], arrays: list[Any], name: str) -> None:
        self.pullback, self.arrays, self.name = pullback, arrays, name
        self.prints = [None if is_read_only(array) else fingerprint(array) for array in arrays]
        self.place = errors.users_place()

    def __call__(self, cotangent: Any) -> Any:
        for array, before in zip(self.arrays, self.prints, strict=True):
            if before is None and not is_read_only(array):
                raise errors.OverwrittenError(self.name, array.shape, errors.line_at(self.place), "made writable")
            if before is not None and fingerprint(array) != before:
                raise errors.OverwrittenError(self.name, array.shape, errors.line_at(self.place))
        return self.pullback(cotangent)


def fingerprint(array: Any) -> tuple[int, ...]:
    """Return a checksum of an array: of its bits, laid out as a matrix of words.

    It consists of the row sums and the column sums, each with random weights, so it also detects elements that change
    places. A write goes undetected only if it preserves the sums of all rows and of all columns.
    """
    bits = _bits(array)
    rest = bits.size % (8 * _WIDTH)
    blocks = bits[: bits.size - rest].view(np.uint64).reshape(-1, _WIDTH)
    weights = _weights(max(_WIDTH, len(blocks)))
    rows, columns = np.add.reduce(blocks, axis=1), np.add.reduce(blocks, axis=0)
    return int(rows @ weights[: len(rows)]), int(columns @ weights[:_WIDTH]), hash(bits[bits.size - rest :].tobytes())


@functools.lru_cache(maxsize=4)
def _weights(count: int) -> Array:
    return np.random.default_rng(0).integers(0, 2**64, count, np.uint64, endpoint=False) | np.uint64(1)
