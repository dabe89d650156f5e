"""Reading and writing by index: `x[key]`, `x[key] = v`, and functions built on them.

A key has two parts: its arrays, which are arguments of the primitive, and a template of the other entries
(integers, slices, None, Ellipsis), in which `ARRAY` marks the position of each array.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fgrad import errors
from fgrad.core.coerce import as_array, is_of_objects
from fgrad.core.foreign import FOREIGN, is_at_hand
from fgrad.core.layers import concrete
from fgrad.core.lazy_sum import GATHERING, Gathered, finished
from fgrad.core.primitive import BOXES, METHODS, UFUNCS, ZERO, Primitive, Rule
from fgrad.core.reverse import conform
from fgrad.core.tensor import Tensor, apply, as_now, boxed, is_weak, own_handle, strip_ended
from fgrad.core.trace import is_seen, observing
from fgrad.core.views import (
    VIEWS,
    Path,
    along,
    apart,
    hidden_value,
    in_memory_of_its_own,
    layout,
    now_written,
    origin,
    part_of,
    rewrite,
    seen,
    stand_for,
)
from fgrad.ops.batching import aligned, all_mapped, ndim_of
from fgrad.ops.families import answers, answers_member, register, sample
from fgrad.ops.patterns import Chain, Step, added, moved, whole
from fgrad.ops.selected import Selected, is_open, over_elements, refuse, select, values_where
from fgrad.typing import Array, ArrayLike, Operand

ARRAY = object()
"""Marks the position of an array in a template."""


def _parted(key: object) -> tuple[Any, list[Any]]:
    """Split a key into template and arrays."""
    items = key if type(key) is tuple else (key,)
    if all([_is_plain(item) for item in items]):  # noqa: C419  # a generator takes twice the time
        return items, []
    template: list[Any] = []
    arrays = []
    for item in items:
        if type(item) is np.ndarray or type(item) in BOXES:
            template.append(ARRAY)
            arrays.append(item)
        elif isinstance(item, (np.ndarray, list, tuple)):
            template.append(ARRAY)
            arrays.append(_index_array(item))
        elif isinstance(item, slice):
            template.append(_plain_slice(item))
        elif _is_like_array(item):  # a column of another library, a range, ...
            template.append(ARRAY)
            arrays.append(_index_array(item))
        else:  # NumPy rejects invalid indices
            template.append(item)
    return tuple(template), arrays


def _is_like_array(item: Any) -> bool:
    """Return whether NumPy converts a non-array index to an array of integers or booleans."""
    if item is None or item is Ellipsis or isinstance(item, (bool, np.generic, str)) or FOREIGN[type(item)]:
        return False
    try:
        operator.index(item)
    except TypeError:
        array = np.asarray(item)
        return array.dtype.kind in "biu" or not array.size
    return False


_BOUNDS = {int, type(None)}


def _is_plain(item: Any) -> bool:
    """Return whether an item of a key is an integer, a slice between integers, `None` or `...`."""
    kind = type(item)
    if kind is slice:
        return type(item.start) in _BOUNDS and type(item.stop) in _BOUNDS and type(item.step) in _BOUNDS
    return kind in _BOUNDS or item is Ellipsis


def _index_array(item: object) -> Any:
    if type(item) in BOXES or isinstance(item, np.ndarray):
        return item
    array = np.asarray(item)
    return array if array.size else array.astype(np.intp)  # an empty list is a list of integers


def _plain_slice(item: slice) -> slice:
    """Return a slice with plain integer bounds; integer tensors are converted."""
    bounds = (item.start, item.stop, item.step)
    return slice(*(None if bound is None else bound.__index__() for bound in bounds))


def _joined(template: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Insert the arrays into the template again."""
    rest = iter(arrays)
    return tuple([next(rest) if item is ARRAY else item for item in template])


class _First:
    """Reverse rules for the leading arguments; the remaining arguments are arrays of the key."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules

    def __getitem__(self, argnum: int) -> Rule | None:
        return self.rules[argnum] if argnum < len(self.rules) else None


def _mask() -> Array:
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


def _index_rule(ans: Array, x: Array, *arrays: Array, template: tuple[Any, ...]) -> Callable[[Any], Any]:
    shape = x.shape
    return lambda ct: _scattering(ct, arrays, template, shape)


def _scattering(ct: Array, arrays: tuple[Any, ...], template: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Return zeros with a cotangent added at a key; large zeros are delayed until more cotangents are added."""
    is_plain = type(ct) in _PLAIN and not (arrays and Tensor in map(type, arrays))
    if math.prod(shape) >= _FEW and (is_plain or _are_masks(arrays)):
        return Gathered(part=_Part(ct, arrays, template, shape))
    if is_plain:
        if arrays:
            return _scattered(ct, *arrays, template=template, shape=shape)
        whole = np.zeros(shape, ct.dtype)
        whole[template] = ct
        return whole
    return apply(_scatter, (ct, *arrays), {"template": template, "shape": shape})


class _Part(NamedTuple):
    """The cotangent of the elements that a key selects from an array of a given shape."""

    values: Any
    arrays: tuple[Any, ...]
    template: tuple[Any, ...]
    shape: tuple[int, ...]

    def alone(self) -> Any:
        """Return the part padded with zeros to the full shape."""
        whole = apply(_scatter, (self.values, *self.arrays), {"template": self.template, "shape": self.shape})
        return as_now(whole)

    def add_to(self, array: Any) -> Any:
        """Return an array with the part added at its place; in place, unless the part is traced."""
        if Tensor not in map(type, (array, self.values, *self.arrays)):
            _add_at(array, self.values, self.arrays, self.template)
        elif _are_masks(self.arrays):
            array = boxed(array)
            array[_joined(self.template, self.arrays)] += self.values
        else:
            array = array + self.alone()
        return array


_index: Primitive = register(
    Primitive(
        "index",
        lambda x, *arrays, template: x[_joined(template, arrays) if arrays else template],
        _First(_index_rule),
        lambda tangents, ans, x, *arrays, template: apply(_index, (tangents[0], *arrays), {"template": template}),
        masks="both",
        samples=_samples(lambda shape, key: (shape,)),
        pattern=moved,
    )
)


def _are_masks(arrays: tuple[Any, ...]) -> bool:
    """Return whether a key has no integer array, the only kind in which an index could occur twice."""
    for array in arrays:  # noqa: SIM110  # all() takes four times as long
        if array.dtype.kind != "b":
            return False
    return True


def _scattered(values: Array, *arrays: Array, template: tuple[Any, ...], shape: tuple[int, ...]) -> Array:
    """Return zeros of `shape` to which `values` are added at a key."""
    if type(values) in _PLAIN:  # zeros of plain arrays are made faster
        result = np.zeros(shape, values.dtype)
    else:
        result = np.zeros_like(values, shape=shape, order="C")
    if not is_at_hand(values) and None in template:  # not every library can write to such a key
        template = tuple(item for item in template if item is not None)
        values = values.reshape(np.broadcast_to(False, shape)[_joined(template, arrays)].shape)
    if _are_masks(arrays):
        result[_joined(template, arrays) if arrays else template] = values
    else:
        _add_at(result, values, arrays, template)
    return result


def _add_at(array: Any, values: Any, arrays: tuple[Any, ...], template: tuple[Any, ...]) -> None:
    """Add values to an array at a key, in which an integer may occur more than once."""
    key = _joined(template, arrays) if arrays else template
    if _are_masks(arrays):
        array[key] += values
    elif array.ndim == 1 or values.size < max(_FEW, array.size // 8):
        np.add.at(array, key, values)
    else:  # NumPy is much faster on a flat array, which outweighs the cost of flattening
        places = np.arange(array.size).reshape(array.shape)[key]
        sums = np.zeros(array.size, array.dtype)
        np.add.at(sums, places.reshape(-1), values.reshape(-1))
        array += sums.reshape(array.shape)


_PLAIN = {np.ndarray, np.float64}

_FEW = 10_000
"""Below this size neither specialized sums nor delayed zeros are worthwhile."""


def _scatter_pattern(step: Step) -> Chain:
    if not all(map(step.is_known, range(1, len(step.args)))):
        return whole(step)
    key = _joined(step.metadata["template"], tuple(step.args[1:]))
    return added(step, lambda places: places[key])


_scatter: Primitive = register(
    Primitive(
        "scatter",
        _scattered,
        _First(
            lambda ans, values, *arrays, template, shape: (
                lambda ct: apply(_index, (ct, *arrays), {"template": template})
            )
        ),
        lambda tangents, ans, values, *arrays, template, shape: apply(
            _scatter, (tangents[0], *arrays), {"template": template, "shape": shape}
        ),
        masks="tangent",
        samples=tuple(
            sample(np.empty(shape)[key].shape, constants=tuple(_parted(key)[1]), template=_parted(key)[0], shape=shape)
            for shape, key in _KEYS
        ),
        pattern=_scatter_pattern,
    )
)


def _through(x: Array, path: Path, lead: int) -> Any:
    """Return the view of `x` after a series of steps; batch axes come first."""
    for primitive, metadata, _ in path:
        x = VIEWS[primitive](x, lead, **metadata)
    return x


def _replaced(
    x: Array, value: Array | float, *arrays: object, template: tuple[Any, ...], path: Path = (), lead: int = 0
) -> Any:
    """Return `x` with `value` written at a key of one of its views."""
    return _assigned(now_written.own(x), value, _joined(template, arrays), path, lead)


def _assigned(array: Any, value: Operand, key: tuple[Any, ...], path: Path, lead: int) -> Any:
    """Write into a view of an array, and return the array.

    A view of a primal need not be a view of its tangent or cotangent, whose axes can have another
    order in memory. In this case a contiguous copy is written to instead.
    """
    if not path:
        array[key] = value
        return array
    for order in ("K", "C", "F"):
        result = array if order == "K" else np.array(array, order=order)
        view = _through(result, path, lead)
        if np.may_share_memory(view, result):
            view[key] = value
            return result
    moves = tuple(step for step in path if step[0].name not in _PARTS)
    places = _through(np.arange(array.size).reshape(array.shape), moves, lead)[key]
    chosen = array.flat[places]
    for primitive, *_ in path:
        if primitive.name in _PARTS:
            setattr(chosen, primitive.name, value)
            value = chosen
    array.flat[places] = np.broadcast_to(value, places.shape)
    return array


_PARTS = ("real", "imag")


def _cleared(ct: Any, arrays: tuple[Any, ...], metadata: dict[str, Any]) -> Any:
    """Return a cotangent with zeros at the overwritten elements."""
    if type(ct) is not Gathered:
        ct = Gathered(own_handle(ct) if type(ct) is Tensor else np.array(ct))
    whole = ct.finished()
    if type(whole) is not Tensor and Tensor in map(type, arrays):
        whole = boxed(whole)
    if type(whole) is Tensor:
        rewrite(whole, _replace, (0, *arrays), metadata)
        ct.array = whole
    else:
        key = _joined(metadata["template"], arrays)
        ct.array = _assigned(whole, 0, key, metadata.get("path", ()), metadata.get("lead", 0))
    return ct


def _value_rule(ans: Array, x: Array, value: Array, *arrays: object, **metadata: Any) -> Callable[[Any], Any]:
    ndim = np.ndim(value)
    return _as_written(np.shape(value), ans.dtype, lambda ct: _where_written(finished(ct), arrays, ndim, **metadata))


def _is_mask(template: tuple[Any, ...], arrays: Sequence[Any]) -> bool:
    """Return whether a key is just a mask over the first axes."""
    return template == (ARRAY,) and arrays[0].dtype.kind == "b"


def _as_written(shape: tuple[int, ...], dtype: np.dtype[Any], pull: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda ct: conform(pull(ct), shape, dtype)


def _where_written(
    ct: Array, arrays: tuple[Any, ...], ndim: int, template: tuple[Any, ...], path: Path = (), lead: int = 0
) -> Any:
    """Return the cotangents of the written values that were not overwritten again: an index may occur twice."""
    view = _through(ct, path, lead)
    if any(primitive.name == "imag" for primitive, *_ in path):
        view = -view  # the transpose of v -> i v
    if _is_mask(template, arrays) and ndim <= view.ndim - arrays[0].ndim:  # one value for all
        return np.where(over_elements(arrays[0], view.shape), view, 0)
    found = apply(_index, (view, *arrays), {"template": template})
    if _are_masks(arrays):
        return in_memory_of_its_own(found)  # the cotangent array itself may be overwritten next
    order = np.arange(found.size).reshape(found.shape)
    last = apply(_replace, (np.zeros(view.shape, order.dtype), order, *arrays), {"template": template})
    return np.where(np.equal(apply(_index, (last, *arrays), {"template": template}), order), found, 0)


def _replaced_tangent(
    tangents: Sequence[Any], ans: Array, x: Array, value: Array, *arrays: Array, **metadata: object
) -> Any:
    into = np.zeros_like(ans) if tangents[0] is ZERO else tangents[0]
    into = into if into.dtype == ans.dtype else into.astype(ans.dtype)
    written = 0 if tangents[1] is ZERO else tangents[1]
    return apply(_replace, (into, written, *arrays), metadata)


def _replace_pattern(step: Step) -> Chain:
    path = step.metadata.get("path", ())
    moves = tuple(each for each in path if each[0].name not in _PARTS)
    is_known = all(map(step.is_known, range(2, len(step.args))))
    if step.argnum == 0 and not (is_known and moves == path):
        return ()  # the array that is written to may keep its old elements, or some of them
    return moved(replace(step, metadata={**step.metadata, "path": moves}))


_replace: Primitive = register(
    Primitive(
        "replace",
        _replaced,
        _First(lambda ans, x, value, *arrays, **metadata: lambda ct: _cleared(ct, arrays, metadata), _value_rule),
        _replaced_tangent,
        masks="both",
        samples=(
            *_samples(lambda shape, key: (shape, np.empty(shape)[key].shape)),
            *_samples(lambda shape, key: (shape, ())),
        ),
        pattern=_replace_pattern,
    )
)


# Batching: the example number is one more index array, before all others


class _BatchedKey:
    """A key for batched arrays, or for batched index arrays.

    NumPy places the axes of index arrays at the position of the first one, or in front if they are
    not adjacent. With the example index in front they are always in front, and are moved afterwards.

    Args:
        template, arrays: the key of one example.
        mapped: which of the arrays are batched.
        size: the number of examples.
        ndim: the number of axes of one example.
        with_examples: whether the examples are indexed, too.
    """

    def __init__(
        self,
        template: tuple[Any, ...],
        arrays: Sequence[Any],
        mapped: list[Any],
        size: int,
        ndim: int,
        with_examples: bool,
    ) -> None:
        template, arrays, mapped = _without_masks(template, list(arrays), list(mapped))
        if not arrays:
            self.template, self.arrays = (slice(None), *template), []
            self._count = self._place = 0
            return
        items = _without_ellipsis(template, ndim)
        advanced = [place for place, item in enumerate(items) if item is ARRAY or _is_integer(item)]
        apart = advanced[-1] - advanced[0] >= len(advanced)
        self._count = max(ndim_of(a, m) for a, m in zip(arrays, mapped, strict=True))
        self._place = 0 if apart else advanced[0]
        self.template, self.arrays = items, aligned(arrays, mapped, self._count)
        if with_examples:
            self.template = (ARRAY, *items)
            self.arrays = [np.arange(size).reshape((size,) + (1,) * self._count), *self.arrays]

    def in_order(self, found: Any) -> Any:
        """Return the selected elements with axes in the order of one example, batch axis first."""
        if not self._place or not self._count:
            return found
        return np.moveaxis(found, range(1, 1 + self._count), range(1 + self._place, 1 + self._place + self._count))

    def as_found(self, values: Any) -> Any:
        """Undo `in_order`."""
        if not self._place or not self._count:
            return values
        return np.moveaxis(values, range(1 + self._place, 1 + self._place + self._count), range(1, 1 + self._count))

    def examples_first(self, found: Any) -> Any:
        """Return the selected elements of an unbatched array, batch axis first."""
        return np.moveaxis(found, self._place, 0) if self._place else found


def _is_integer(item: slice) -> bool:
    return isinstance(item, (int, np.integer))


def _without_masks(
    template: tuple[Any, ...], arrays: list[Any], mapped: list[bool]
) -> tuple[Any, list[Any], list[bool]]:
    """Return a key with masks replaced by the indices of their true elements."""
    items: list[Any] = []
    indices: list[Any] = []
    differ: list[bool] = []
    rest = iter(zip(arrays, mapped, strict=True))
    for item in template:
        if item is not ARRAY:
            items.append(item)
            continue
        array, is_mapped = next(rest)
        if array.dtype == np.bool_ and is_mapped:
            raise errors.ConcretizationError("indexing with a mask", errors.users_line())
        parts = np.nonzero(array) if array.dtype == np.bool_ else [array]
        items += [ARRAY] * len(parts)
        indices += parts
        differ += [is_mapped] * len(parts)
    return tuple(items), indices, differ


def _without_ellipsis(template: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """Return an equivalent template that covers every axis."""
    named = sum(item is not None and item is not Ellipsis for item in template)
    place = next((i for i, item in enumerate(template) if item is Ellipsis), len(template))
    return (*template[:place], *(slice(None),) * (ndim - named), *template[place + 1 :])


def _batched_index(values: Sequence[Any], mapped: list[Any], size: int, metadata: dict[str, Any]) -> Any:
    x, *arrays = values
    key = _BatchedKey(metadata["template"], arrays, mapped[1:], size, ndim_of(x, mapped[0]), mapped[0])
    found = apply(_index, (x, *key.arrays), {"template": key.template})
    return key.in_order(found) if mapped[0] else key.examples_first(found)


def _batched_scatter(values: Sequence[Any], mapped: list[Any], size: int, metadata: dict[str, Any]) -> Any:
    cotangent, *arrays = values
    shape = metadata["shape"]
    key = _BatchedKey(metadata["template"], arrays, mapped[1:], size, len(shape), True)
    (cotangent,) = all_mapped((cotangent,), mapped[:1], size)
    return apply(_scatter, (key.as_found(cotangent), *key.arrays), {"template": key.template, "shape": (size, *shape)})


def _batched_replace(values: Any, mapped: Any, size: int, metadata: Any) -> Any:
    x, value, *arrays = values
    path, lead = metadata.get("path", ()), metadata.get("lead", 0)
    (x,) = all_mapped((x,), mapped[:1], size)
    is_choice = _is_mask(metadata["template"], arrays) and not path and not mapped[2]
    if is_choice and ndim_of(value, mapped[1]) < x.ndim - arrays[0].ndim:
        return _batched_choice(x, value, mapped[1], arrays[0])
    shape = x.shape if not path else (*x.shape[: lead + 1], *path[-1][2])
    key = _BatchedKey(metadata["template"], arrays, mapped[2:], size, len(shape) - 1, True)
    found = key.in_order(apply(_index, (np.broadcast_to(0, shape), *key.arrays), {"template": key.template}))
    own = np.shape(value)[int(mapped[1]) :]
    if len(own) > len(found.shape) - 1:  # it would be taken for one value for each example
        raise ValueError(f"could not broadcast input array from shape {own} into shape {found.shape[1:]}")
    (value,) = aligned((value,), mapped[1:2], len(found.shape) - 1)
    value = key.as_found(np.broadcast_to(value, found.shape))
    through = {"path": path, "lead": lead + 1} if path else {}
    return apply(_replace, (x, value, *key.arrays), {"template": key.template, **through})


def _batched_choice(x: Any, value: Any, is_mapped: bool, mask: Array) -> Any:
    """Return examples of `x` with one value for each where a mask is true, which is the same for all examples."""
    if is_mapped:
        (value,) = aligned((value,), (True,), x.ndim - 1 - mask.ndim)
        value = np.reshape(value, (len(x), *(1,) * mask.ndim, *value.shape[1:]))
    found = np.where(over_elements(mask, x.shape[1:]), value, x)
    return found if found.dtype == x.dtype else found.astype(x.dtype)


SELECTING = {_index, _scatter}
"""Operations in which a mask argument determines the shape of the result, or of another argument."""
GATHERING.add(_replace)
VIEWS[_index] = lambda x, lead, template: x[(slice(None),) * lead + template]
_index.batch, _scatter.batch, _replace.batch = _batched_index, _batched_scatter, _batched_replace


# Writing into an argument: the handle of a tensor then refers to another value


def values_of(x: ArrayLike, what: str) -> Any:
    """Return the values as a plain array, for an operation that needs concrete values.

    Raises:
        ConcretizationError: under `vmap` and while recording there is no value.
    """
    return np.asarray(concrete(strip_ended(x), what))


def traced(*values: Array) -> bool:
    """Return whether any of the values is traced."""
    return any(type(strip_ended(x)) is Tensor for x in values)


def written(name: str, out: Any, result: Any) -> Any:
    """Return a result for writing into `out`: a tensor, or an array if nothing is traced.

    Raises:
        InPlaceError: a TypeError; a traced result cannot be written into a plain array.
    """
    if out is None:
        return result
    if type(out) in BOXES:
        out[...] = result
    elif type(out) is Selected:
        refuse(out.mask)
    elif is_of_objects(out):
        for place in np.ndindex(out.shape):  # an array of traced numbers
            out[place] = np.broadcast_to(result, out.shape)[place]
    elif traced(result) and result.dtype.kind in "fc":
        raise errors.InPlaceError(name, errors.users_line())
    else:
        out[...] = np.asarray(result)
    return out


def cut(x: Array, axis: int, start: int | None, stop: int | None, step: int | None = None) -> Any:
    """Return a slice along one axis."""
    return x[(slice(None),) * np.lib.array_utils.normalize_axis_index(axis, x.ndim) + (slice(start, stop, step),)]


def scatter_add(values: Array, key: object, shape: tuple[int, ...]) -> Any:
    """Return zeros of `shape` with values added at a key; values at repeated indices are summed."""
    template, arrays = _parted(key)
    return apply(_scatter, (values, *arrays), {"template": template, "shape": shape})


@answers_member("__getitem__")
def getitem(x: Array, key: Any) -> Any:
    """Return the elements at a key of any kind that NumPy supports."""
    is_simple = type(key) is int or (type(key) is slice and _is_plain(key))
    template, arrays = ((key,), []) if is_simple else _parted(key)
    if not is_simple and _names_truth(template, arrays):
        axes, key = _with_axes_for_truth(key)
        return getitem(getitem(x, axes), key)
    if arrays and (mask := _open_mask(template, arrays)) is not None:
        return select(_before_mask(x, template, mask), mask)
    if type(x) is Tensor and x._trace.outdated and not (observing and is_seen()):
        return _of_written(x, template, arrays)
    result = apply(_index, (x, *arrays), {"template": template})
    if arrays or type(x) is not Tensor or type(result._payload) is np.float64:
        return result  # a copy, or a number
    return seen(result, x, _index, {"template": template})


def _open_mask(template: tuple[Any, ...], arrays: Sequence[Any]) -> Any:
    """Return the mask at the beginning of a key, if it has no value and there are no other arrays; else None."""
    is_alone = len(arrays) == 1 and template[0] is ARRAY and arrays[0].dtype.kind == "b"
    return arrays[0] if is_alone and is_open(arrays[0]) else None


def _before_mask(x: Array, template: tuple[Any, ...], mask: Array) -> Any:
    """Return the view of `x` from which a mask at the beginning of a key chooses, given the rest of the key."""
    return x if len(template) == 1 else getitem(x, ((slice(None),) * mask.ndim + template[1:]))


def _of_written(x: Tensor, template: tuple[Any, ...], arrays: Sequence[Any]) -> Any:
    """Return elements of a modified tensor: a small part is copied, so that pending writes stay pending."""
    metadata = {"template": template}
    root, path = origin(x)
    hidden = hidden_value(root)
    found = apply(_index, (x if hidden is None else along(hidden, path), *arrays), metadata)
    if arrays:
        return in_memory_of_its_own(found)
    return seen(found if hidden is None else part_of(root, found), x, _index, metadata)


def sliced(part: Array, x: Array, key: tuple[Any, ...]) -> Any:
    """Mark a tensor as the view of `x` at a key of slices and integers, where it was computed differently."""
    return seen(part, x, _index, {"template": key})


def _names_truth(template: tuple[Any, ...], arrays: list[Any]) -> bool:
    """Return whether a key contains a scalar boolean, or a mask without axes."""
    for array in arrays:  # any() takes three times as long
        if array.dtype.kind == "b" and not array.ndim:
            return True
    for item in template:  # noqa: SIM110
        if type(item) is bool or type(item) is np.bool_:
            return True
    return False


def _with_axes_for_truth(key: object) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return two keys in place of one with scalar booleans: each is the index 0, or none, along a new axis."""
    axes: list[Any] = []
    rest: list[Any] = []
    for item in key if type(key) is tuple else (key,):
        array = item if hasattr(item, "dtype") else np.asarray(item) if isinstance(item, (bool, list)) else None
        if array is None:
            rest.append(item)
            axes += [] if item is None else [item if item is Ellipsis else slice(None)]
        elif array.dtype == np.bool_ and not array.ndim:
            rest.append(np.arange(int(bool(values_of(array, "indexing with a truth value")))))
            axes.append(None)
        else:
            rest.append(item)
            axes += [slice(None)] * (array.ndim if array.dtype == np.bool_ else 1)
    return tuple(axes), tuple(rest)


@answers_member("__setitem__")
def write(x: Any, key: Any, value: Any) -> None:
    """Write a value at a key into the memory of `x`, so that all its views change.

    Raises:
        DtypeError: a TypeError; the value cannot be cast to the dtype of the tensor under `same_kind` rules.
        ValueError: `x` is a read-only view, or the shape of the value cannot be broadcast to that of the part.
    """
    template, arrays = _parted(key)
    has_truth = _names_truth(template, arrays)
    if not x.shape and key is not Ellipsis and not (type(key) is tuple and not key) and not has_truth:
        raise TypeError("a tensor of shape () is a number, and does not support item assignment")
    if arrays and (mask := _open_mask(template, arrays)) is not None:
        part = _before_mask(x, template, mask)
        values = values_where(value, mask, part.ndim)
        if values is not None:
            copyto(part, values, where=over_elements(mask, part.shape))
            return
    value = to_write(value, x.dtype)
    _check_kind(x, value)
    if has_truth and not x.shape:  # where `x[None]` may be a copy
        write(x, ..., setitem(x, key, value))
        return
    if has_truth:
        axes, key = _with_axes_for_truth(key)
        write(getitem(x, axes), key, value)
        return
    value = _without_leading_axes(value, x.shape, template, arrays)
    root, path = origin(x)
    if not arrays and _is_there(value, root, path, template):
        return
    if template == (Ellipsis,) and not path and _is_alike(x, value):
        stand_for(root, value)
        return
    value, *arrays = (apart(each, root) for each in (value, *arrays))
    rewrite(root, _replace, (value, *arrays), {"template": template, "path": path} if path else {"template": template})


def setitem(x: Array, key: Any, value: Array) -> Any:
    """Return a tensor like `x` with `value` at a key."""
    value = to_write(value, x.dtype)
    _check_kind(x, value)
    template, arrays = _parted(key)
    if _names_truth(template, arrays):
        axes, key = _with_axes_for_truth(key)
        return np.reshape(setitem(getitem(x, axes), key, value), x.shape)
    value = _without_leading_axes(value, x.shape, template, arrays)
    return apply(_replace, (x, value, *arrays), {"template": template})


def _without_leading_axes(
    value: Array, shape: tuple[int, ...], template: tuple[Any, ...], arrays: Sequence[Any]
) -> Any:
    """Return a value without those leading axes of size 1 that the part it is written to does not have."""
    if not value.shape or value.shape[0] != 1 or 0 in shape:
        return value
    places = [np.zeros(each.shape, bool if each.dtype.kind == "b" else int) for each in arrays]
    extra = value.ndim - np.broadcast_to(False, shape)[_joined(template, tuple(places))].ndim
    return value.reshape(value.shape[extra:]) if extra > 0 and value.shape[:extra] == (1,) * extra else value


def to_write(value: ArrayLike, dtype: np.dtype[Any]) -> Any:
    """Return a value as an array of the dtype that it is written into.

    A Python integer out of the dtype's range is NumPy's error, also if a program receives it later.
    """
    if type(value) is Selected:
        refuse(value.mask)
    if dtype.kind not in "iu":
        value = as_array(value)
        return value.astype(dtype) if type(value) is np.ndarray and value.dtype.kind in "SU" else value
    is_pythons = type(value) is int or (type(value) is Tensor and value.dtype.kind == "i" and is_weak(value))
    return np.add(dtype.type(0), value) if is_pythons else as_array(value)


def _check_kind(x: Array, value: Array) -> None:
    if value.dtype.kind in "fc" and not np.can_cast(value.dtype, x.dtype, "same_kind"):
        raise errors.DtypeError(
            f"x[...] = value would round a value of dtype {value.dtype} to the tensor's dtype {x.dtype} and "
            f"lose its derivative.\n  at {errors.users_line()}\n"
            f"Create the tensor with a dtype that holds it, for instance fgrad.numpy.zeros(n, {str(value.dtype)!r})."
        )


def _is_there(value: Array, root: Array, path: Path, template: tuple[Any, ...]) -> bool:
    """Return whether a value is the view that it is written to, as after `x[key] += y`."""
    if type(value) is not Tensor or origin(value)[0] is not root:
        return False
    steps = origin(value)[1]
    if steps == path:
        return bool(template == (Ellipsis,))
    if not steps:
        return False
    primitive, metadata, _ = steps[-1]
    return steps[:-1] == path and primitive is _index and metadata["template"] == template


def _is_alike(x: Array, value: Array) -> bool:
    """Return whether a tensor can replace another one: same shape, dtype and order in memory."""
    return (
        type(value) is Tensor
        and origin(value)[0] is value
        and value.dtype == x.dtype
        and value.shape == x.shape
        and layout(value).strides == layout(x).strides
    )


@answers_member("computed_in_place")
def compute_in_place(x: Array, ufunc: np.ufunc, other: Any) -> None:
    """Write the result of an operation on `x` into `x`, as `x += other` does."""
    result = apply(UFUNCS[ufunc], (x, other))
    if result.shape != x.shape or result.dtype != x.dtype:
        ones = np.ones(x.shape, x.dtype)
        right = other if type(other) in (int, float, complex) else np.ones(np.shape(other), np.result_type(other))
        ufunc(ones, right, out=ones)  # NumPy's checks and messages
        result = METHODS["astype"](result, x.dtype)
    write(x, ..., result)


@answers(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Write into a tensor, as `dst[...] = src` does; only tensors are accepted."""
    if type(dst) not in BOXES and type(strip_ended(src)) is not Tensor:
        np.copyto(dst, strip_ended(src), casting, strip_ended(where))  # type: ignore[arg-type]
        return
    if type(dst) not in BOXES:
        raise errors.InPlaceError("np.copyto (which np.full and np.full_like use)", errors.users_line())
    dst[...] = src if where is True else np.where(where, to_write(src, dst.dtype), dst)
