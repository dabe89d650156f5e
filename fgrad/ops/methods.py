"""The less common forms of ufunc calls, and array methods that the tensor class does not define itself.

np.add(x, y, out=z, where=mask, dtype=...)      call_ufunc
np.subtract.reduce(x), .accumulate, .reduceat   folds, for every binary ufunc
np.multiply.outer(x, y)                         broadcasting
np.add.at(x, key, v)                            a functional update of the handle `x`
x.diagonal(), x.sort(), x.flat, x.fill(0)       found by attribute lookup of tensors
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.core.coerce import as_array
from fgrad.core.layers import below, is_undecided
from fgrad.core.primitive import BOXES, FUNCTIONS, METHODS, UFUNC_FORMS, UFUNCS
from fgrad.core.shapes import broadcast_shapes
from fgrad.core.tensor import Tensor, apply, call_without_rule, numpys_name, strip_ended
from fgrad.core.views import is_shared, layout_of_one
from fgrad.ops.batching import reduction_batch
from fgrad.ops.elementwise import astype, in_order_of
from fgrad.ops.families import answers_member, linear, plain_axis, reduced_axis, sample
from fgrad.ops.indexing import getitem, scatter_add, setitem, traced, values_of, written
from fgrad.ops.patterns import added
from fgrad.ops.reductions import as_start, masked
from fgrad.ops.shaping import flattened, unstack
from fgrad.typing import Array, ArrayLike, DTypeLike, Operand

ASSOCIATIVE = {
    np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logaddexp, np.logaddexp2, np.hypot,
    np.logical_and, np.logical_or, np.logical_xor, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.gcd, np.lcm,
}  # fmt: skip
"""Associative ufuncs, which can be reduced by halves."""

TOTALS: dict[np.ufunc, tuple[Any, Any]] = {
    np.subtract: (np.sum, np.cumsum),
    np.true_divide: (np.prod, np.cumprod),
}
"""Inner ufuncs of left folds: a - b - c = a - (b + c) and a / b / c = a / (b * c)."""


NEUTRAL = {np.subtract: 0, np.true_divide: 1, np.power: 1}
"""Right identities, which need not be left identities."""


OTHERS_UFUNCS: list[Callable[[np.ufunc], bool]] = []
"""Hook that registers a rule for a ufunc that has no public name in NumPy; it returns whether there is one."""


def _enter_clip(ufunc: np.ufunc) -> bool:
    """Register the ufunc that the method `clip` of arrays calls, which has no public name."""
    if (ufunc.__name__, ufunc.nin) != ("clip", 3):
        return False
    UFUNC_FORMS[ufunc, "__call__"] = FUNCTIONS[np.clip]
    return True


OTHERS_UFUNCS.append(_enter_clip)


@answers_member("called_by_ufunc")
def call_ufunc(ufunc: np.ufunc, method: str, inputs: Any, keywords: dict[str, Any]) -> Any:
    """Implement the less common forms of a ufunc: its methods, and `out`, `where`, `dtype` and `casting`."""
    answer = UFUNC_FORMS.get((ufunc, "__call__"))
    if ufunc not in UFUNCS and answer is None:
        if any(enter(ufunc) for enter in OTHERS_UFUNCS):
            return call_ufunc(ufunc, method, inputs, keywords)
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        suffix = "" if method == "__call__" else f".{method}"
        return call_without_rule(function, f"{numpys_name(ufunc)}{suffix}", inputs, keywords)
    if method != "__call__":
        return _call_method(ufunc, method, inputs, keywords)
    out, where = keywords.pop("out", None), keywords.pop("where", True)
    if where is not True and out is None:
        raise errors.InPlaceError(f"{numpys_name(ufunc)} with `where` but without `out`", errors.users_line())
    if where is not True and not keywords and all(x is not None for x in out) and not _is_batched(where):
        return _where_chosen(ufunc, inputs, out, where)
    loop = {name: keywords.pop(name) for name in _OF_LOOP & keywords.keys()}
    inputs = _converted(ufunc, inputs, **loop) if loop else inputs
    if keywords:
        answer = UFUNC_FORMS.get((ufunc, "keywords"), answer)
    result = apply(UFUNCS[ufunc], inputs) if answer is None else answer(*inputs, **keywords)
    if out is None:
        return result
    results = result if isinstance(result, tuple) else (result,)
    targets = tuple(_write(ufunc, *pair, where) for pair in zip(out, results, strict=True))
    return targets if isinstance(result, tuple) else targets[0]


def _is_batched(where: Array) -> bool:
    """Return whether a mask differs between examples, or between runs of a program."""
    return type(below(strip_ended(where), is_undecided)) is Tensor


def _where_chosen(ufunc: np.ufunc, inputs: tuple[Any, ...], out: tuple[Any, ...], where: Array) -> Any:
    """Compute and write only the elements that a mask selects."""
    arrays = [as_array(x) for x in inputs]
    shape = broadcast_shapes(np.shape(where), *(x.shape for x in arrays), *(x.shape for x in out))
    chosen = np.broadcast_to(values_of(where, "the mask of a ufunc"), shape)
    results = ufunc(*(np.broadcast_to(x, shape)[chosen] for x in arrays))
    results = results if isinstance(results, tuple) else (results,)
    for target, result in zip(out, results, strict=True):
        if type(target) is Tensor:
            target[chosen] = result
        elif traced(result) and result.dtype.kind in "fc":
            raise errors.InPlaceError(numpys_name(ufunc), errors.users_line())
        else:
            target[chosen] = np.asarray(result)
    return out if len(out) > 1 else out[0]


def _write(ufunc: np.ufunc, out: Array, result: Array, where: Any) -> Any:
    """Return a result, or write it into `out`."""
    if out is not None and where is not True:
        result = np.where(where, result, out)
    return written(numpys_name(ufunc), out, result)


_OF_LOOP = {"dtype", "casting", "signature", "sig", "order", "subok"}
"""Keywords of all ufuncs that choose the inner loop, and with it the dtypes of the arguments."""


def _converted(
    ufunc: np.ufunc,
    inputs: Any,
    dtype: Any = None,
    casting: Any = "same_kind",
    signature: Any = None,
    sig: Any = None,
    order: Any = "K",
    subok: bool = True,
) -> list[Any]:
    """Return the arguments converted to the dtypes of the loop that NumPy would choose."""
    wanted = dtype if dtype is not None else signature if signature is not None else sig
    if wanted is not None and not isinstance(wanted, (str, tuple)):
        wanted = (None,) * ufunc.nin + (np.dtype(wanted),) * ufunc.nout
    elif dtype is not None:
        wanted = (None,) * ufunc.nin + (np.dtype(dtype),) * ufunc.nout
    given = [type(x) if type(x) in (int, float, complex) else as_array(x).dtype for x in inputs]
    request = {} if wanted is None else {"signature": wanted}
    loop = ufunc.resolve_dtypes((*given, *(None,) * ufunc.nout), casting=casting, **request)
    return [astype(as_array(x), kind) for x, kind in zip(inputs, loop[: ufunc.nin], strict=True)]


# The methods of ufuncs


def _call_method(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Run a method of a ufunc; the result may be written into `out`."""
    name = f"{numpys_name(ufunc)}.{method}"
    if method == "at":
        return _at(name, ufunc, *inputs)
    (out,) = keywords.pop("out", None) or (None,)
    own = UFUNC_FORMS.get((ufunc, method))
    if own is None or (ufunc is np.logaddexp and keywords.keys() & {"where", "initial"}):
        return written(name, out, _METHODS[method](ufunc, *inputs, **keywords))
    return written(name, out, own(*inputs, **keywords))


def _reduce(
    ufunc: np.ufunc,
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """Combine the elements along axes, one after the other."""
    axis = plain_axis(axis)
    a = as_array(a)
    one = np.ones((1,) * a.ndim, a.dtype)
    options: dict[str, Any] = {} if where is True or initial is not None else {"where": one > 0}
    made = ufunc.reduce(one, axis=axis, dtype=dtype, **options).dtype  # with NumPy's checks and messages
    if dtype is not None:
        a = astype(a, dtype)
    if where is not True:
        a = masked(a, where, _neutral(ufunc, initial))
    axes = {i % a.ndim for i in (range(a.ndim) if axis is None else np.atleast_1d(axis).tolist())} if a.ndim else set()
    kept = [i for i in range(a.ndim) if i not in axes]
    shape = tuple(1 if i in axes else size for i, size in enumerate(a.shape)) if keepdims else None
    rows = np.transpose(a, [*sorted(axes), *kept])
    rows = np.reshape(rows, (int(np.prod([a.shape[i] for i in axes], dtype=int)), *(a.shape[i] for i in kept)))
    if initial is not None:
        first = np.broadcast_to(as_start(initial, made), (1, *rows.shape[1:]))
        rows = np.concatenate([first, astype(rows, made)])
    is_start = initial is not None and len(rows) == 1
    result = astype(rows[0] if is_start else _folded(ufunc, rows), made)
    return result if shape is None else np.reshape(result, shape)


def _neutral(ufunc: np.ufunc, initial: object) -> Any:
    """Return the identity of a ufunc."""
    if ufunc.identity is not None:
        return ufunc.identity
    if ufunc in (np.fmax, np.fmin):
        return initial
    if ufunc not in NEUTRAL:
        raise errors.MissingRuleError(f"{numpys_name(ufunc)}.reduce with `where`", errors.users_line())
    return NEUTRAL[ufunc]


_FROM_ZERO = (np.hypot, np.gcd)
"""Ufuncs whose `reduce` begins at 0 in NumPy, unlike their `reduceat`."""


def _folded(ufunc: np.ufunc, rows: Any) -> Any:
    """Combine the rows: ((first, second), third) and so on, associative ones by halves."""
    count = rows.shape[0]
    if count == 0:
        return ufunc.reduce(np.zeros(rows.shape, rows.dtype))
    if count == 1 and ufunc in _FROM_ZERO:
        return ufunc(0, rows[0])  # which takes the sign
    if count == 1 and ufunc in ASSOCIATIVE:
        return np.not_equal(rows[0], 0) if ufunc.__name__.startswith("logical_") else rows[0]
    if ufunc in TOTALS and count > 1:
        return ufunc(rows[0], TOTALS[ufunc][0](rows[1:], axis=0))
    if ufunc in ASSOCIATIVE:
        while rows.shape[0] > 1:
            half = rows.shape[0] // 2
            pairs = ufunc(rows[:half], rows[half : 2 * half])
            rows = np.concatenate([pairs, rows[2 * half :]]) if rows.shape[0] % 2 else pairs
        return rows[0]
    return _all_folds(ufunc, rows)[-1]


def _all_folds(ufunc: np.ufunc, rows: Any) -> list[Any]:
    first, *others = unstack(rows)
    folds = [first]
    for other in others:
        folds.append(ufunc(folds[-1], other))
    return folds


def _accumulate(ufunc: np.ufunc, a: Any, axis: int = 0, dtype: DTypeLike | None = None) -> Any:
    """Accumulate the elements along an axis.

    For associative operations the number of elements that each result covers doubles in every step (Hillis and
    Steele, https://doi.org/10.1145/7902.7903).
    """
    a = as_array(a)
    axis = np.lib.array_utils.normalize_axis_index(plain_axis(axis), a.ndim)
    made = ufunc.accumulate(np.ones(1, a.dtype), dtype=dtype).dtype
    if dtype is not None:
        a = astype(a, dtype)
    rows = np.moveaxis(a, axis, 0)
    if rows.shape[0] <= 1:
        return astype(a, made)
    if ufunc in TOTALS:
        rows = np.concatenate([rows[:1], ufunc(rows[0], TOTALS[ufunc][1](rows[1:], axis=0))])
    elif ufunc in ASSOCIATIVE:
        covered = 1
        while covered < rows.shape[0]:
            rows = np.concatenate([rows[:covered], ufunc(rows[:-covered], rows[covered:])])
            covered *= 2
    else:
        rows = np.stack(_all_folds(ufunc, rows))
    return in_order_of(astype(np.moveaxis(rows, 0, axis), made), a)


_segment_sums = linear(
    lambda x, starts, axis: np.add.reduceat(x, starts, axis),
    lambda ans, x, starts, axis: _spread_segments(starts, axis, x.shape[axis]),
    sample((5,), starts=(0, 2, 3), axis=0),
    sample((2, 4), starts=(0, 1), axis=-1),
    name="segment_sums",
    batch=reduction_batch,
    pattern=lambda step: added(
        step, _spread_segments(step.metadata["starts"], axis := step.metadata["axis"], step.shape[axis])
    ),
)


def _spread_segments(starts: tuple[int, ...], axis: int, size: int) -> Callable[[Any], Any]:
    lengths = np.diff([*starts, size])
    return lambda ct: np.repeat(ct, lengths, axis)


def _reduceat(ufunc: np.ufunc, a: Any, indices: Any, axis: int = 0, dtype: Any = None) -> Any:
    """Reduce slices, each from its index up to the next."""
    a = as_array(a)
    axis = np.lib.array_utils.normalize_axis_index(plain_axis(axis), a.ndim)
    starts = np.asarray(values_of(indices, "the indices of reduceat"), np.intp)
    # With NumPy's checks and messages
    made = ufunc.reduceat(np.ones(a.shape[axis], a.dtype), starts, dtype=dtype).dtype
    if dtype is not None:
        a = astype(a, dtype)
    ends = np.maximum(np.append(starts[1:], a.shape[axis]), starts + 1)
    if not starts.size:
        return np.take(a, starts, axis)
    lengths = ends - starts
    if ufunc is np.add:
        firsts = np.append(0, np.cumsum(lengths)[:-1])
        places = np.repeat(starts - firsts, lengths) + np.arange(lengths.sum())
        return apply(_segment_sums, (np.take(a, places, axis),), {"starts": tuple(firsts.tolist()), "axis": axis})
    return _reduced_by_length(ufunc, a, starts, lengths, axis, made)


def _reduced_by_length(ufunc: np.ufunc, a: Any, starts: Array, lengths: Array, axis: int, made: np.dtype[Any]) -> Any:
    """Reduce segments along an axis: those of each length together, as the rows of one array."""
    groups = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
    results = []
    for group in groups:
        pieces = np.take(a, starts[group, None] + np.arange(lengths[group[0]]), axis)
        if ufunc in _FROM_ZERO and pieces.shape[axis + 1] == 1:
            results.append(astype(np.squeeze(pieces, axis + 1), made))
        else:
            results.append(ufunc.reduce(pieces, axis=axis + 1))
    if len(groups) == 1:
        return results[0]
    return np.take(np.concatenate(results, axis), np.argsort(np.concatenate(groups)), axis)


def _outer(ufunc: np.ufunc, a: Array, b: Array, **keywords: object) -> Any:
    """Apply a ufunc to each pair of an element of `a` and an element of `b`."""
    a, b = as_array(a), as_array(b)
    return ufunc(np.reshape(a, (*a.shape, *(1,) * b.ndim)), b, **keywords)


_METHODS: dict[str, Any] = {"reduce": _reduce, "accumulate": _accumulate, "reduceat": _reduceat, "outer": _outer}


def _accumulated_by(function: Callable[..., Any]) -> Callable[..., Any]:
    def accumulate(a: Operand, axis: int = 0, dtype: object = None) -> Any:
        if reduced_axis(axis, a) is None:
            raise TypeError("cannot accumulate on a scalar")  # NumPy's message; the functions accept scalars
        return function(a, axis, dtype)

    return accumulate


UFUNC_FORMS[np.add, "accumulate"] = _accumulated_by(np.cumsum)
UFUNC_FORMS[np.multiply, "accumulate"] = _accumulated_by(np.cumprod)


def _at(name: str, ufunc: np.ufunc, a: Any, indices: Any, *second: Any) -> None:
    """Apply a ufunc at the elements of a key, repeatedly where an element occurs more than once."""
    if type(a) not in BOXES:
        if traced(*second, indices):
            raise errors.InPlaceError(name, errors.users_line())
        ufunc.at(a, strip_ended(indices), *map(strip_ended, second))
        return
    if ufunc in (np.add, np.subtract):
        (b,) = second
        found = getitem(np.broadcast_to(np.zeros((), a.dtype), a.shape), indices)
        b = np.broadcast_to(as_array(b), found.shape)
        a[...] = ufunc(a, scatter_add(b, indices, a.shape))
        return
    key = tuple(map(_plain, indices)) if type(indices) is tuple else _plain(indices)
    places = np.arange(a.size).reshape(a.shape)[key]
    others = [np.ravel(np.broadcast_to(as_array(b), places.shape)) for b in second]
    flat = flattened(a)
    for chosen in _rounds(places.ravel()):
        where = places.ravel()[chosen]
        flat = setitem(flat, where, ufunc(flat[where], *(b[chosen] for b in others)))
    a[...] = np.reshape(flat, a.shape)


def _plain(item: Array) -> Any:
    return values_of(item, "an index of a ufunc's `at`") if type(item) in BOXES else item


def _rounds(places: Array) -> Iterator[Any]:
    """Yield sets of positions without repeated places: the first occurrences, the second ones, and so on."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    turn = np.arange(places.size) - np.searchsorted(ordered, ordered)
    for number in range(turn.max(initial=-1) + 1):
        yield order[turn == number]


# Array methods that are NumPy functions, or composed of them


for _name in ("argpartition", "argsort", "choose", "diagonal", "nonzero", "put", "repeat", "searchsorted", "trace"):
    METHODS[_name] = getattr(np, _name)


@answers_member("compress")
def compress(x: ArrayLike, condition: Any, axis: Any = None, out: Any = None) -> Any:
    """Return the elements, or the slices along an axis, where a condition holds."""
    return np.compress(condition, x, axis, out)


@answers_member("flatten")
def flatten(x: Array, order: str = "C") -> Any:
    """Return the elements in one dimension."""
    return flattened(x, order)


@answers_member("view")
def view_of(x: Any, *dtype_and_type: object, **keywords: object) -> Any:
    """Return a view of the whole tensor; a view as another dtype contains the values only and has no derivative."""
    if dtype_and_type or keywords:
        return call_without_rule(np.ndarray.view, "ndarray.view", (x, *dtype_and_type), keywords)
    return x[...]


@answers_member("sort")
def sort(x: Any, axis: int = -1, kind: Any = None, order: Any = None, **others: Any) -> None:
    """Sort the tensor of this handle in place along an axis."""
    x[...] = np.sort(x, axis, kind, order, **others)


@answers_member("partition")
def partition(x: Any, kth: Any, axis: int = -1, kind: Any = "introselect", order: Any = None) -> None:
    """Partition the tensor of this handle in place around the element `kth`."""
    x[...] = np.partition(x, kth, axis, kind, order)


@answers_member("fill")
def fill(x: Any, value: Any) -> None:
    """Set every element of the tensor of this handle."""
    x[...] = value


@answers_member("resize")
def resize(x: Any, *shape: Any, refcheck: bool = True) -> None:
    """Resize the tensor of this handle in place; new elements are zeros."""
    if type(x) is not Tensor:
        x[...] = x  # raises the error with the remedy
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    count = int(np.prod(sizes, dtype=int))
    missing = np.zeros(max(count - x.size, 0), x.dtype)
    if is_shared(x):
        raise ValueError("cannot resize an array that references or is referenced\nby another array in this way.")
    of_one = layout_of_one(x)
    order: Any = "F" if of_one.flags.f_contiguous and not of_one.flags.c_contiguous else "C"
    x._assign(np.reshape(np.concatenate([np.ravel(x, order)[:count], missing]), sizes, order=order))


@answers_member("nbytes")
def nbytes(x: Any) -> int:
    """Return the number of bytes of all elements."""
    return x.size * x.dtype.itemsize  # type: ignore[no-any-return]


@answers_member("itemsize")
def itemsize(x: Any) -> int:
    """Return the number of bytes of one element."""
    return x.dtype.itemsize  # type: ignore[no-any-return]


def _value_method(name: str) -> None:
    """Make a method that stores or shows values; a trace records that concrete values were used."""

    @answers_member(name)
    def method(x: Operand, *args: object, **keywords: object) -> Any:
        return getattr(values_of(x, f"ndarray.{name}"), name)(*args, **keywords)


for _name in ("tobytes", "tofile", "dump", "dumps"):
    _value_method(_name)


@answers_member("flat")
class Flat:
    """The flattened elements of a tensor, as `x.flat`: reading, writing and iteration.

    Args:
        tensor: its handle refers to another value after an element is written.
    """

    def __init__(self, tensor: Any) -> None:
        self.base = tensor

    def __getitem__(self, key: Any) -> Any:
        return flattened(self.base)[key]

    def __setitem__(self, key: Any, value: ArrayLike) -> None:
        flat = flattened(self.base)
        value = as_array(value)
        count = np.arange(flat.size)[key].size  # values that are too short are repeated
        value = value if value.ndim == 0 else np.resize(value, count)
        self.base[...] = np.reshape(setitem(flat, key, value), self.base.shape)

    def __iter__(self) -> Iterator[Any]:
        return iter(flattened(self.base))

    def __len__(self) -> int:
        return self.base.size  # type: ignore[no-any-return]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(np.ravel(self.base), dtype, copy=copy)


if hasattr(np.ndarray, "device"):

    @answers_member("device")
    def device(x: ArrayLike) -> str:
        """Return the device, for the array API."""
        return "cpu"

    @answers_member("to_device")
    def to_device(x: ArrayLike, device: str, /, *, stream: object = None) -> Any:
        """Return the tensor itself: "cpu" is the only device."""
        if device != "cpu":
            raise ValueError(f'Unsupported device: {device}. Only "cpu" is accepted.')
        return x
