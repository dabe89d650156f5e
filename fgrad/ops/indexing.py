"""Reading and writing by index: `x[key]`, `x[key] = v`, and what is made of them.

A key has two parts: its arrays, which are arguments of the primitive, and a template of the rest
(integers, slices, None, Ellipsis) in which `ARRAY` stands where an array goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.primitive import ZERO, Primitive, Rule
from fgrad.core.tensor import BOXES, Tensor, apply, settle
from fgrad.core.trace import conform
from fgrad.ops.families import answers, register, sample

ARRAY = object()
"""Stands in a template for an array of the key."""


def _parted(key: Any) -> tuple[Any, list[Any]]:
    """Part a key into template and arrays."""
    items = key if type(key) is tuple else (key,)
    template: list[Any] = []
    arrays = []
    for item in items:
        if type(item) in BOXES or isinstance(item, (np.ndarray, list, tuple)):
            template.append(ARRAY)
            arrays.append(_index_array(item))
        else:  # NumPy refuses what is no index
            template.append(_plain_slice(item) if isinstance(item, slice) else item)
    return tuple(template), arrays


def _index_array(item: Any) -> Any:
    if type(item) in BOXES or isinstance(item, np.ndarray):
        return item
    array = np.asarray(item)
    return array if array.size else array.astype(np.intp)  # an empty list is a list of integers


def _plain_slice(item: slice) -> slice:
    """Return a slice whose bounds are plain integers, also where they were integer tensors."""
    bounds = (item.start, item.stop, item.step)
    return slice(*(None if bound is None else bound.__index__() for bound in bounds))


def _joined(template: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Put arrays and template together again."""
    rest = iter(arrays)
    return tuple(next(rest) if item is ARRAY else item for item in template)


class _First:
    """Reverse rules for the leading arguments; those that follow are arrays of the key."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules

    def __getitem__(self, argnum: int) -> Rule | None:
        return self.rules[argnum] if argnum < len(self.rules) else None


def _mask() -> Any:
    return np.array([True, False, True])


_KEYS: tuple[tuple[tuple[int, ...], Any], ...] = (
    ((3,), 1), ((3,), -1), ((4, 3), (slice(None, None, 2), None, -1)), ((2, 3, 2), (Ellipsis, 0)),
    ((3,), np.array([0, 2, 0])), ((3, 2), np.array([[0, 1], [1, 1]])), ((3,), _mask()),
    ((3, 2), (_mask(), 1)), ((2, 3, 2), (slice(None), np.array([0, 2]), slice(1, None))),
    ((2, 3, 2), (np.array([0, 1]), slice(None), np.array([1, 1]))), ((2, 3), (slice(1, 1),)),
    ((4,), slice(None, None, -1)), ((2, 2), np.array([[True, False], [False, True]])), ((), None),
    ((3,), np.array([], np.intp)),
)  # fmt: skip


def _samples(with_value: Callable[[tuple[int, ...], Any], tuple[tuple[int, ...], ...]]) -> tuple[Any, ...]:
    return tuple(
        sample(*with_value(shape, key), constants=tuple(_parted(key)[1]), template=_parted(key)[0])
        for shape, key in _KEYS
    )


def _index_rule(ans: Any, x: Any, *arrays: Any, template: tuple[Any, ...]) -> Callable[[Any], Any]:
    shape = x.shape
    return lambda ct: apply(_scatter, (ct, *arrays), {"template": template, "shape": shape})


_index: Primitive = register(
    Primitive(
        "index",
        lambda x, *arrays, template: x[_joined(template, arrays)],
        _First(_index_rule),
        lambda tangents, ans, x, *arrays, template: apply(
            _index, (tangents[0], *arrays), {"template": template}
        ),
        masks=True,
        samples=_samples(lambda shape, key: (shape,)),
    )
)


def _scattered(values: Any, *arrays: Any, template: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Return zeros of `shape` to which `values` are added at a key."""
    result = np.zeros_like(values, shape=shape)
    key = _joined(template, arrays)
    if all(array.dtype == np.bool_ for array in arrays):
        result[key] = values
    else:
        np.add.at(result, key, values)  # an integer may occur more than once
    return result


_scatter: Primitive = register(
    Primitive(
        "scatter",
        _scattered,
        _First(
            lambda ans, values, *arrays, template, shape: lambda ct: apply(
                _index, (ct, *arrays), {"template": template}
            )
        ),
        lambda tangents, ans, values, *arrays, template, shape: apply(
            _scatter, (tangents[0], *arrays), {"template": template, "shape": shape}
        ),
        samples=tuple(
            sample(np.empty(shape)[key].shape, constants=tuple(_parted(key)[1]), template=_parted(key)[0], shape=shape)
            for shape, key in _KEYS
        ),
    )
)


def _replaced(x: Any, value: Any, *arrays: Any, template: tuple[Any, ...]) -> Any:
    """Return a copy of `x` with `value` at a key."""
    result = np.array(x)
    result[_joined(template, arrays)] = value
    return result


def _replaced_rule(ans: Any, x: Any, value: Any, *arrays: Any, template: Any) -> Callable[[Any], Any]:
    return lambda ct: apply(_replace, (ct, 0, *arrays), {"template": template})


def _value_rule(ans: Any, x: Any, value: Any, *arrays: Any, template: Any) -> Callable[[Any], Any]:
    shape, value_shape, dtype = ans.shape, np.shape(value), ans.dtype
    key = _joined(template, arrays)
    return lambda ct: conform(_where_written(ct[key], shape, arrays, key), value_shape, dtype)


def _where_written(ct: Any, shape: tuple[int, ...], arrays: Any, key: Any) -> Any:
    """Drop the cotangents of values that were overwritten because an index occurs twice."""
    if all(array.dtype == np.bool_ for array in arrays):
        return ct
    order = np.arange(ct.size).reshape(ct.shape)
    last = np.empty(shape, order.dtype)
    last[key] = order
    return np.where(last[key] == order, ct, 0)


def _replaced_tangent(tangents: Any, ans: Any, x: Any, value: Any, *arrays: Any, template: Any) -> Any:
    into = np.zeros_like(ans) if tangents[0] is ZERO else tangents[0].astype(ans.dtype)
    written = 0 if tangents[1] is ZERO else tangents[1]
    return apply(_replace, (into, written, *arrays), {"template": template})


_replace = register(
    Primitive(
        "replace",
        _replaced,
        _First(_replaced_rule, _value_rule),
        _replaced_tangent,
        masks=True,
        samples=(
            *_samples(lambda shape, key: (shape, np.empty(shape)[key].shape)),
            *_samples(lambda shape, key: (shape, ())),
        ),
    )
)


@answers(np.ndarray.__getitem__)
def getitem(x: Any, key: Any) -> Any:
    """Return the elements at a key of any kind that NumPy has."""
    if type(key) is int:
        return apply(_index, (x,), {"template": (key,)})
    template, arrays = _parted(key)
    return apply(_index, (x, *arrays), {"template": template})


@answers(np.ndarray.__setitem__)
def setitem(x: Any, key: Any, value: Any) -> Any:
    """Return a tensor like `x` with `value` at a key."""
    value = value if type(value) in BOXES else np.asarray(value)
    if value.dtype.kind in "fc" and not np.can_cast(value.dtype, x.dtype, "same_kind"):
        raise errors.DtypeError(
            f"x[...] = value would round a value of dtype {value.dtype} to the tensor's dtype {x.dtype} and "
            f"lose its derivative.\n  at {errors.users_line()}\n"
            f"Create the tensor with a dtype that holds it, for instance fgrad.numpy.zeros(n, {str(value.dtype)!r})."
        )
    template, arrays = _parted(key)
    return apply(_replace, (x, value, *arrays), {"template": template})


@answers(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Write into a tensor, as `dst[...] = src` does, and into none but a tensor."""
    if type(dst) is not Tensor and type(settle(src)) is not Tensor:
        np.copyto(dst, settle(src), casting, settle(where))  # type: ignore[arg-type]
        return
    if type(dst) is not Tensor:
        raise errors.InPlaceError("np.copyto (which np.full and np.full_like use)", errors.users_line())
    dst[...] = src if where is True else np.where(where, src, dst)


@answers(np.take)
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    """Return the elements at integer indices along an axis, by default of the flattened array."""
    if out is not None:
        raise errors.InPlaceError("np.take", errors.users_line())
    if axis is None:
        a, axis = np.ravel(a), 0
    indices = indices if type(indices) in BOXES else np.asarray(indices)
    if mode == "wrap":
        indices = np.remainder(indices, a.shape[axis])
    elif mode == "clip":
        indices = np.clip(indices, 0, a.shape[axis] - 1)
    return getitem(a, (slice(None),) * (axis % a.ndim) + (indices,))
