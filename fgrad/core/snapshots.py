"""Plain arrays as they were when an operation used them: what a pullback refers to may be overwritten by the user.

    snapshot(array, copies)    a copy, by which a pullback refers to an array
    is_large(array)            whether an array is kept itself
    Locks                      large arrays that are read-only while a transform runs
    Checked(pullback, ...)     refuses to run where large arrays have been overwritten
    debug_overwrites()         a block in which writes to large arrays are found that nothing else finds

A work buffer, a mask, a mini-batch is used, and then written to again, before the backward pass. So a pullback gets a
copy of a plain array. Of a large one, for which a copy would take more memory than the user expects, it gets the array
itself. While a transform runs whose record ends with the call, such an array is read-only, so that a write is an error
where it happens. A record that outlives the call must not leave a user's array locked: its pullbacks compare
fingerprints, and refuse to run where an array was overwritten.
"""

from __future__ import annotations

import functools
import mmap
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from fgrad import errors

LARGE = 1 << 20
"""Bytes above which an array is not copied."""
SMALL = 1 << 15
"""Bytes up to which it takes less time to copy an array again than to see whether it is the same."""
_WIDTH = 1 << 10


Copies = dict[int, tuple["weakref.ref[Any]", "weakref.ref[Any]"]]
"""What a trace has copied, by the id of the array: the array and its copy, which the pullbacks alone keep alive."""


_ours: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""The copies that were made of arrays that are not small, by id: whoever is handed one needs no copy of it."""


def is_large(array: Any) -> bool:
    """Return whether an array is too large for a copy."""
    return array.nbytes > LARGE and array.dtype.kind != "O" and any(array.strides)


def is_read_only(array: Any) -> bool:
    """Return whether an array can only be read, and so can the memory of which it is a view."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return array is None or type(array) is bytes


def snapshot(array: Any, copies: Copies) -> Any:
    """Return an array as it is now, which nobody writes to; a copy that was made here is one already."""
    if array.nbytes <= SMALL or array.dtype.kind == "O":
        return array.copy()
    if not any(array.strides):
        return np.broadcast_to(array[(0,) * array.ndim], array.shape)  # one number, as in the cotangent of a sum
    if _ours.get(id(array)) is array:
        return array
    known, kept = copies.get(id(array), (None, None))
    copy = None if kept is None or known is None or known() is not array else kept()
    if copy is None or not are_same(array, copy):
        copy = array.copy()
        _ours[id(copy)] = copy
        copy.flags.writeable = False
        copies[id(array)] = weakref.ref(array), weakref.ref(copy)
    return copy


def are_same(array: Any, copy: Any) -> bool:
    """Return whether two arrays of one shape and dtype hold the same, where NaN is NaN and 0.0 is not -0.0."""
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
    """Find every write to a large plain array that comes between its use and the backward pass, in a block.

    Plain arrays of up to 1 MiB are copied when they are used, so a write to them does no harm. A larger one is
    read-only while a transform such as `fg.grad` runs, and a write to it is an error. A write that goes through a view
    which was made before is not seen: the view stays writable. In the block, each large array is compared before the
    backward pass with what it was, which takes longer than a product with the array. `fg.check` does so, too.

    Returns:
        The block's context manager. It holds for the thread, or asynchronous task, that opens it.

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


_locked: dict[int, tuple[Any, int, list[Any]]] = {}
"""By the id of an array that owns memory: the array, the number of locks, and what they have made read-only."""
_counting = threading.Lock()


def _lineage(array: Any) -> list[Any]:
    """Return an array and those of which it is a view, up to the one that owns the memory."""
    arrays = [array]
    while isinstance(base := arrays[-1].base, np.ndarray):
        arrays.append(base)
    return arrays


def _can_be_locked(array: Any) -> bool:
    """Return whether a view of nothing but NumPy's memory: else it could not be made writable again."""
    root = _lineage(array)[-1]
    return (root.base is None and root.flags.owndata) or isinstance(root.base, mmap.mmap)


class Locks:
    """The large arrays that are read-only for one record, until `release`.

    Several records, also of other threads, may lock one array: it is writable again when all have released it.
    """

    def __init__(self) -> None:
        self._uses: dict[int, tuple[Any, str, tuple[str, int], Any]] = {}
        self._owners: list[Any] = []

    def hold(self, array: Any, name: str) -> bool:
        """Make an array read-only, and those of which it is a view.

        Args:
            array: that an operation uses.
            name: of the operation.

        Returns:
            False where the array could not be made writable again, as memory of another library.
        """
        if id(array) in self._uses:
            return True
        if not _can_be_locked(array):
            return False
        before = fingerprint(array) if _debugging.get() else None
        self._uses[id(array)] = array, name, errors.users_place(), before
        arrays = _lineage(array)
        with _counting:
            self._owners.append(arrays[-1])  # in an order in which an interrupt leaves nothing locked
            _, count, locked = _locked.get(id(arrays[-1]), (None, 0, []))
            _locked[id(arrays[-1])] = arrays[-1], count + 1, locked
            for each in arrays:
                if each.flags.writeable:
                    locked.append(each)
                    each.flags.writeable = False
        return True

    def check(self) -> None:
        """Refuse to go on where an array has been written to.

        Raises:
            OverwrittenError: a RuntimeError; an array was made writable, or is another one in `debug_overwrites`.
        """
        for array, name, place, before in self._uses.values():
            what = "made writable" if array.flags.writeable else ""
            if before is not None and fingerprint(array) != before:
                what = "overwritten"
            if what:
                raise errors.OverwrittenError(name, array.shape, errors.line_at(place), what)

    def explain(self, error: BaseException) -> None:
        """Raise an error that names the use of an array, in place of NumPy's for a write to one that is read-only.

        Raises:
            OverwrittenError: a RuntimeError; `error` is NumPy's, and an array is locked here.
        """
        if self._uses and isinstance(error, ValueError) and "read-only" in str(error):
            array, name, place, _ = [*self._uses.values()][-1]
            raise errors.OverwrittenError(
                name, array.shape, errors.line_at(place), "written to", errors.line_of(error), len(self._uses)
            ) from error

    def release(self) -> None:
        """Make the arrays writable again that no other record needs."""
        while self._owners:
            with _counting:
                owner, count, locked = _locked.pop(id(self._owners[-1]), (None, 1, []))
                if count > 1:
                    _locked[id(owner)] = owner, count - 1, locked
                else:
                    for each in sorted(locked, key=lambda array: len(_lineage(array))):
                        each.flags.writeable = True  # the owner before its views, as NumPy wants it
                self._owners.pop()
        self._uses.clear()


class ChecksumGuard:
    """A pullback that refers to large arrays, and refuses to run if they have been overwritten.

    Of arrays that can only be read it takes no fingerprints, and refuses to run if they can be written to now.
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
    """Return numbers that tell an array from what it is after a write: of its bits, laid out as a matrix of words.

    They are the sums of its rows, and of its columns, with random weights. So elements that trade places are told, too:
    a write that is not has to leave the sums of all rows and of all columns as they were.
    """
    bits = _bits(array)
    rest = bits.size % (8 * _WIDTH)
    blocks = bits[: bits.size - rest].view(np.uint64).reshape(-1, _WIDTH)
    weights = _weights(max(_WIDTH, len(blocks)))
    rows, columns = np.add.reduce(blocks, axis=1), np.add.reduce(blocks, axis=0)
    return int(rows @ weights[: len(rows)]), int(columns @ weights[:_WIDTH]), hash(bits[bits.size - rest :].tobytes())


@functools.lru_cache(maxsize=4)
def _weights(count: int) -> Any:
    return np.random.default_rng(0).integers(0, 2**64, count, np.uint64, endpoint=False) | np.uint64(1)
