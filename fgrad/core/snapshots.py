"""Plain arrays as they were when an operation used them: what a pullback refers to may be overwritten by the user.

    snapshot(array, copies)    a copy, by which a pullback refers to an array
    is_watched(array)          whether an array is kept itself, and looked at before it is used
    Checked(pullback, ...)     refuses to run where large arrays have been overwritten
    captures(rule, place)      whether the pullback of a rule refers to an argument

A work buffer, a mask, a mini-batch is used, and then written to again, before the backward pass. So a pullback gets a
copy of a plain array. Of a large one, for which a copy would take more memory than the user expects, it gets the array
itself, and a fingerprint that is compared before it is used: an array that was overwritten is an error then. Of a large
one that can only be read nothing is compared: it is an error if it can be written to then.
"""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import Callable
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


def is_watched(array: Any) -> bool:
    """Return whether an array is too large for a copy."""
    return array.nbytes > LARGE and array.dtype.kind != "O" and any(array.strides)


def _is_read_only(array: Any) -> bool:
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


class Checked:
    """A pullback that refers to large arrays, and refuses to run if they have been overwritten.

    Of arrays that can only be read it takes no fingerprints, and refuses to run if they can be written to now.
    """

    __slots__ = ("pullback", "arrays", "prints", "name", "place")

    def __init__(self, pullback: Callable[[Any], Any], arrays: list[Any], name: str) -> None:
        self.pullback, self.arrays, self.name = pullback, arrays, name
        self.prints = [None if _is_read_only(array) else fingerprint(array) for array in arrays]
        self.place = errors.users_place()

    def __call__(self, cotangent: Any) -> Any:
        for array, before in zip(self.arrays, self.prints, strict=True):
            if before is None and not _is_read_only(array):
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


_captures: dict[Any, tuple[tuple[bool, ...], bool]] = {}
"""By rule: of each array that it names, and of the others, whether its pullback may refer to it."""


def captures(rule: Any, place: int) -> bool:
    """Return whether the pullback of a reverse rule may refer to the argument at a place."""
    try:
        named, others = _captures[rule]
    except KeyError:
        named, others = _captures[rule] = _captured(rule)
    return named[place] if place < len(named) else others


def _captured(rule: Any) -> tuple[tuple[bool, ...], bool]:
    """Return which arguments are cells of a rule: what the functions inside of it mention."""
    if not isinstance(rule, types.FunctionType):
        return (), True
    code = rule.__code__
    names = code.co_varnames[1 : code.co_argcount]  # without `ans`
    stars = sum(bool(code.co_flags & flag) for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS))
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]
    if not {*arguments}.issuperset(code.co_cellvars):  # what was made of an argument
        return (), True
    return tuple(name in code.co_cellvars for name in names), bool(code.co_flags & inspect.CO_VARARGS)
