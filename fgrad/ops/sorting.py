"""Sorting, searching and sets: results that select elements have the derivatives of these.

The selection itself has no derivative. Equal elements keep their order, as in a stable sort; sets take the
first of equal elements.

    stable_order(x, axis)       the permutation that sorts
    permuted(x, order, axis)    elements in that order
    ranked(x, ranks)            the elements of given ranks, in time proportional to the size of `x`
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.core.coerce import as_array
from fgrad.core.primitive import FUNCTIONS, METHODS, Primitive
from fgrad.core.tensor import apply
from fgrad.ops.batching import Batch, all_mapped, joining_batch, one_by_one_batch, reduction_batch, rows_batch
from fgrad.ops.elementwise import in_order_of
from fgrad.ops.families import constant_in_pieces, reduced_axis, register, sample
from fgrad.ops.indexing import values_of
from fgrad.ops.patterns import moved
from fgrad.ops.tracing import answers_traced, boxed_leaves, raw_array
from fgrad.typing import Array, ArrayLike

# Orders, which are integers


def stable_order(x: Any, axis: int, descending: bool = False) -> Any:
    """Return the indices that sort along an axis; equal elements keep their order."""
    if descending:
        return _sort_backwards(x, axis, stable=True, descending=True)
    if x.size < _SMALL or x.dtype.char not in "df" or np.isnan(np.max(x)):
        return np.argsort(x, axis, kind="stable")
    return np.moveaxis(_packed_order(np.moveaxis(x, axis, -1)), -1, axis)


_SMALL = 1000
_sort_backwards: Any = np.argsort  # has `descending` since NumPy 2.5


def _packed_order(x: Array) -> Any:
    """Return the stable order along the last axis of single or double precision numbers without NaN.

    Sorting integers composed of the leading bits of a number and its index is several times as fast as sorting
    numbers with separate indices, and equal numbers stay in order. Numbers that agree only in the leading
    bits are put in order afterwards. Few arrays are allocated, because for large ones page faults take more time
    than the computation.
    """
    x = np.ascontiguousarray(x, np.float64)
    bits = max(x.shape[-1] - 1, 1).bit_length()
    index = (1 << bits) - 1
    keys = x.view(np.int64) >> 63
    keys &= np.iinfo(np.int64).max
    keys ^= x.view(np.int64)  # among negative numbers, larger bits mean a smaller number
    np.putmask(keys, keys == -1, 0)  # -0 is equal to 0
    keys &= ~index
    places = np.arange(x.shape[-1])
    keys |= places
    keys.sort(-1)
    order = np.bitwise_and(keys, index, out=places if x.ndim == 1 else None)
    keys >>= bits
    alike = np.zeros(x.shape, np.bool_)
    np.equal(keys[..., 1:], keys[..., :-1], out=alike[..., 1:])
    _mend(order, x, alike)
    return order


def _mend(order: Array, x: Array, alike: Array) -> None:
    """Sort, in place, elements whose keys equal their predecessor's by their values."""
    places = np.flatnonzero(alike)
    if not places.size:
        return
    n = x.shape[-1]
    found, numbers = order.reshape(-1), x.reshape(-1)
    starts = places - places % n  # start of each row

    def value(at: Array) -> Any:
        return numbers[starts + found[at]]

    unlike = value(places) != value(places - 1)
    if unlike.any():
        member = alike.reshape(-1).copy()
        member[places - 1] = True  # also the first of each run
        candidates = np.flatnonzero(member)
        run = np.cumsum(~alike.reshape(-1)[candidates])
        mixed = np.zeros(run[-1] + 1, np.bool_)
        mixed[run[np.searchsorted(candidates, places[unlike])]] = True
        kept = mixed[run]
        places, run = candidates[kept], run[kept]
        starts = places - places % n
        found[places] = found[places][np.lexsort((found[places], value(places), run))]


_stable_order = constant_in_pieces(
    stable_order, reduction_batch, sample((4,), axis=0), sample((2, 3), axis=0), sample((0, 3), axis=-1)
)


_argsort = constant_in_pieces(
    np.argsort,
    reduction_batch,
    sample((4,), axis=0),
    sample((2, 3), axis=-1, kind="stable"),
    name="argsorted",
    kind="position",
)
_argpartition = constant_in_pieces(
    np.argpartition,
    reduction_batch,
    sample((5,), kth=2, axis=0, kind="introselect"),
    name="argpartitioned",
    kind="position",
)


def partition_order(x: Array, kth: Any, axis: int, kind: Any) -> Any:
    """Return the permutation that reproduces the result of `np.partition` exactly."""
    order = np.argpartition(x, kth, axis, kind)
    found = np.partition(x, kth, axis, kind)
    if np.array_equal(_permuted(x, order, axis), found, equal_nan=x.dtype.kind in "fc"):
        return order
    # The two partitions order the other elements differently; matching their sorted orders gives the permutation.
    return _unpermuted(stable_order(x, axis), stable_order(found, axis), axis)


_partition_order = constant_in_pieces(partition_order, reduction_batch, sample((5,), kth=2, axis=0, kind="introselect"))


def without_derivative(
    name: str,
    implementation: Callable[..., Any],
    batch: Callable[[Primitive], Batch],
    *samples: object,
    arguments: int = 2,
    kind: str = "",
) -> Primitive:
    """Declare an operation on several arrays whose results are integers or booleans."""
    primitive = Primitive(name, implementation, (None,) * arguments, samples=samples, kind=kind)
    primitive.batch = batch(primitive)
    return register(primitive)


# Permutations, which are linear


def _permuted(x: Array, order: Any, axis: int) -> Any:
    return x[order] if x.ndim == 1 else np.take_along_axis(x, order, axis)


def _unpermuted(x: Array, order: Any, axis: int) -> Any:
    result = np.empty_like(x)
    if x.ndim == 1:
        result[order] = x
    else:
        np.put_along_axis(result, order, x, axis)
    return result


def _permutation(name: str, implementation: Callable[..., Any], transpose: str) -> Primitive:
    """Declare an operation that permutes elements, given its inverse."""

    def batch(values: Sequence[Any], mapped: Sequence[bool], size: int, metadata: Mapping[str, Any]) -> Any:
        x, order = all_mapped(values, mapped, size)
        return apply(primitive, (x, order), {"axis": metadata["axis"] % (len(x.shape) - 1) + 1})

    def rule(ans: Array, x: Array, order: Array, axis: int) -> Callable[[Any], Any]:
        return lambda ct: apply(_PERMUTATIONS[transpose], (ct, order), {"axis": axis})

    def forward(tangents: Sequence[Any], ans: Array, x: Array, order: Array, axis: int) -> Any:
        return apply(primitive, (tangents[0], order), {"axis": axis})

    samples = (
        sample((3,), constants=(np.array([2, 0, 1]),), axis=0),
        sample((2, 3), constants=(np.array([[2, 0, 1], [0, 2, 1]]),), axis=-1),
        sample((2, 3), constants=(np.array([[1, 0, 1], [0, 1, 0]]),), axis=0),
        sample((0, 3), constants=(np.zeros((0, 3), np.intp),), axis=0),
    )
    primitive = register(Primitive(name, implementation, (rule, None), forward, batch, samples=samples, pattern=moved))
    _PERMUTATIONS[name] = primitive
    return primitive


_PERMUTATIONS: dict[str, Primitive] = {}
_permute = _permutation("permute", _permuted, "unpermute")
_permutation("unpermute", _unpermuted, "permute")


def permuted(x: Array, order: Array, axis: int) -> Any:
    """Return the elements along an axis in the order of a permutation."""
    return apply(_permute, (x, order), {"axis": axis})


# Ranks

_MANY = 8
"""Number of ranks from which one sort is faster than one selection per rank."""


def rank_places(x: Array, ranks: Any) -> Array:
    """Return the positions along the last axis of the elements with given ranks, in the order of a stable sort.

    Args:
        x: of shape `(..., n)`.
        ranks: integers from 0 to n - 1 of shape `(..., r)`; other axes broadcast against those of `x`.
    """
    wanted = np.unique(ranks)
    if wanted.size > _MANY:
        return np.take_along_axis(stable_order(x, -1), ranks, -1)
    values = np.take_along_axis(np.partition(x, wanted, -1), ranks, -1)
    shape = values.shape[:-1]
    places = [
        _place(x, values[..., [each]], np.broadcast_to(ranks[..., [each]], (*shape, 1)))
        for each in range(values.shape[-1])
    ]
    return np.stack(places, -1) if places else np.zeros(values.shape, np.intp)


def _place(x: Array, value: Array, rank: Array) -> Any:
    """Return the position of the element with a rank, given its value."""
    equal = x == value
    earlier = rank - np.count_nonzero(x < value, -1, keepdims=True)  # the number of equal elements before it
    if earlier.any():
        equal = equal & (np.cumsum(equal, -1) > earlier)
    return np.argmax(equal, -1)


_rank_places = without_derivative(
    "rank_places",
    rank_places,
    rows_batch,
    sample((5,), constants=(np.array([1, 3]),), complex=False),
    sample((2, 3), constants=(np.array([[0, 0, 2]]),), complex=False),
    sample((12,), constants=(np.arange(10),), complex=False),
)


def ranked(x: Array, ranks: Array) -> Any:
    """Return the elements with given ranks along the last axis, as sorting would place them."""
    return along_last(x, apply(_rank_places, (x, ranks)))


def along_last(x: Array, places: Array) -> Any:
    """Return the elements at positions along the last axis, one row of positions for each row of `x`."""
    lead = x.shape[:-1]
    rows = [np.arange(n).reshape((n,) + (1,) * (len(lead) - axis)) for axis, n in enumerate(lead)]
    return METHODS["__getitem__"](x, (*rows, places))


# NumPy's functions


def _flat_without_axis(a: Array, axis: int | None) -> tuple[Any, int]:
    a = as_array(a)
    return (np.ravel(a), -1) if axis is None else (a, axis)


def _how(
    function: Callable[..., Any], a: Array, axis: int, kind: str | None, order: str | None, **others: object
) -> dict[str, Any]:
    """Return the keywords of a sort that were given, after NumPy's checks."""
    how = {name: value for name, value in (("kind", kind), ("order", order), *others.items()) if value is not None}
    function(np.zeros((1,) * a.ndim, a.dtype), axis, **how)
    return how


@answers_traced(np.sort)
def sort(
    a: Array,
    axis: int | None = -1,
    kind: str | None = None,
    order: str | None = None,
    *,
    stable: bool | None = None,
    **others: object,
) -> Any:
    """Return the elements in order along an axis, with their derivatives."""
    a, axis = _flat_without_axis(a, axis)
    _how(np.sort, a, axis, kind, order, stable=stable, **others)
    metadata: dict[str, Any] = {"axis": axis}
    if others.get("descending") is True:
        metadata["descending"] = True
    return in_order_of(permuted(a, apply(_stable_order, (a,), metadata), axis), a)


@answers_traced(np.argsort)
def argsort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: Any = None,
    *,
    stable: bool | None = None,
    **others: Any,
) -> Any:
    """Return the indices that sort along an axis."""
    a = as_array(a)
    a, axis = _flat_without_axis(a, reduced_axis(axis, a))
    how = _how(np.argsort, a, axis, kind, order, stable=stable, **others)
    return apply(_argsort, (a,), {"axis": axis, **how})


def _kth(kth: object) -> Any:
    return np.asarray(kth).tolist()


@answers_traced(np.partition)
def partition(a: Array, kth: object, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Any:
    """Return the elements partitioned around the k-th element in sorted order."""
    a, axis = _flat_without_axis(a, axis)
    _how(np.sort, a, axis, None, order)
    places = apply(_partition_order, (a,), {"kth": _kth(kth), "axis": axis, "kind": kind})
    return in_order_of(permuted(a, places, axis), a)


@answers_traced(np.argpartition)
def argpartition(a: Array, kth: object, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Any:
    """Return the indices of a partition."""
    a, axis = _flat_without_axis(a, axis)
    _how(np.sort, a, axis, None, order)
    return apply(_argpartition, (a,), {"kth": _kth(kth), "axis": axis, "kind": kind})


@answers_traced(np.sort_complex)
def sort_complex(a: Array) -> Any:
    """Return the elements in order along the last axis, as complex numbers."""
    ordered = sort(a)
    return as_array(ordered, np.sort_complex(np.zeros(1, ordered.dtype)).dtype)


_lexsort = register(
    Primitive(
        "lexsort",
        lambda *keys, axis: np.lexsort(keys, axis),
        defaultdict(lambda: None),  # the derivative with respect to each of any number of keys is 0
        samples=(sample((3,), (3,), axis=-1), sample((2, 3), (2, 3), axis=0)),
    )
)
_lexsort.batch = joining_batch(_lexsort)


@answers_traced(np.lexsort)
def lexsort(keys: Any, axis: int = -1) -> Any:
    """Return the indices that sort by the last key, then by the one before it, and so on."""
    return apply(_lexsort, [as_array(key) for key in keys], {"axis": axis})


_searchsorted = without_derivative(
    "searchsorted",
    lambda a, v, side="left": np.searchsorted(a, v, side),
    one_by_one_batch(0),
    sample((4,), (3,)),
    sample((4,), (2, 3), side="right"),
    kind="position",
)


@answers_traced(np.searchsorted)
def searchsorted(a: ArrayLike, v: ArrayLike, side: Any = "left", sorter: Array | None = None) -> Any:
    """Return the indices at which elements would be inserted into a sorted array."""
    a, v = as_array(a), as_array(v)
    np.searchsorted(np.zeros(0), np.zeros(0), side)
    if sorter is not None:
        a = FUNCTIONS[np.take](a, sorter)
    return apply(_searchsorted, (a, v), {"side": side})


@answers_traced(np.digitize)
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Any:
    """Return the numbers of the bins that elements are in."""
    x, bins = as_array(x), as_array(bins)
    edges = values_of(bins, "np.digitize")
    np.digitize(np.zeros(0, x.dtype), edges)  # NumPy's checks
    side = "left" if right else "right"
    if edges.size and edges[0] > edges[-1]:
        return len(edges) - searchsorted(bins[::-1], x, side)
    return searchsorted(bins, x, side)


_isin = without_derivative(
    "isin",
    lambda element, test_elements, **how: np.isin(element, test_elements, **how),
    one_by_one_batch(1),
    sample((2, 3), (2,)),
)


@answers_traced(np.isin)
def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: object = None,
) -> Any:
    """Return which elements are contained in another array."""
    how = {"assume_unique": assume_unique, "invert": invert, "kind": kind}
    return apply(_isin, (as_array(element), as_array(test_elements)), how)


def _extremum_without_nan(function: Callable[..., Any], stand_in: float) -> None:
    """Make `nanargmax` or `nanargmin` from `argmax` or `argmin` with NaNs replaced."""

    @answers_traced(function)
    def answer(a: ArrayLike, axis: Any = None, out: object = None, *, keepdims: bool = False) -> Any:
        a = as_array(a)
        if a.dtype.kind in "fc":
            missing = np.isnan(a)
            if a.size and np.any(raw_array(np.all(missing, axis=axis))):
                raise ValueError("All-NaN slice encountered")
            a = np.where(missing, stand_in, a)
        return FUNCTIONS[np.argmax if stand_in < 0 else np.argmin](a, axis, keepdims=keepdims)


_extremum_without_nan(np.nanargmax, -np.inf)
_extremum_without_nan(np.nanargmin, np.inf)


# Sets: the selection depends on concrete values


@answers_traced(np.unique)
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    **how: Any,
) -> Any:
    """Return the distinct elements, or slices along an axis; of equal ones the first is taken."""
    ar = as_array(ar)
    value = values_of(ar, "np.unique")
    asked = return_index, return_inverse, return_counts
    unique_of: Any = np.unique
    found = unique_of(value, *asked, axis, **how)
    first = _first_places(value, found[0] if any(asked) else found, axis, how)
    picked = np.take(np.ravel(ar) if axis is None else ar, first, axis or 0)
    return (picked, *boxed_leaves(found[1:])) if any(asked) else picked


def _first_places(value: Array, found: Array, axis: int | None, how: dict[str, Any]) -> Any:
    """Return the first position of each element that `unique` found."""
    how = {name: setting for name, setting in how.items() if name != "sorted"}
    unique_of: Any = np.unique
    ordered, first = unique_of(value, return_index=True, axis=axis, **how)
    if axis is None and value.size and not np.array_equal(ordered, found, equal_nan=value.dtype.kind in "fc"):
        return first[np.searchsorted(ordered, found)]  # found by hashing, hence unordered
    return first


@answers_traced(np.unique_values)
def unique_values(x: Array) -> Any:
    """Return the distinct elements, in NumPy's order."""
    x = as_array(x)
    value = values_of(x, "np.unique_values")
    return np.take(np.ravel(x), _first_places(value, np.unique_values(value), None, {"equal_nan": False}))


def _unique_with_more(function: Callable[..., Any]) -> None:
    """Make `unique_counts` and its kin, with derivatives in the field `values`."""

    @answers_traced(function)
    def answer(x: Array) -> Any:
        x = as_array(x)
        value = values_of(x, f"np.{function.__name__}")
        found = function(value)
        values = np.take(np.ravel(x), _first_places(value, found.values, None, {"equal_nan": False}))
        return boxed_leaves(found)._replace(values=values)


for _function in (np.unique_counts, np.unique_inverse, np.unique_all):
    _unique_with_more(_function)


@answers_traced(np.intersect1d)
def intersect1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """Return the common elements of two arrays, in order; they are taken from the first array."""
    ar1, ar2 = as_array(ar1), as_array(ar2)
    values = [values_of(x, "np.intersect1d") for x in (ar1, ar2)]
    _, first, second = np.intersect1d(values[0], values[1], assume_unique, return_indices=True)
    picked = np.take(as_array(ar1, np.result_type(ar1.dtype, ar2.dtype)), first)
    return (picked, *boxed_leaves((first, second))) if return_indices else picked


@answers_traced(np.union1d)
def union1d(ar1: Array, ar2: ArrayLike) -> Any:
    """Return the elements of either array, in order."""
    return unique(np.concatenate([as_array(ar1), as_array(ar2)], axis=None))


def _picked_first(ar: ArrayLike, assume_unique: bool) -> Any:
    return np.ravel(as_array(ar)) if assume_unique else unique(ar)


@answers_traced(np.setdiff1d)
def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """Return the elements of the first array that the second one does not have."""
    ar1 = _picked_first(ar1, assume_unique)
    kept = np.isin(values_of(ar1, "np.setdiff1d"), values_of(ar2, "np.setdiff1d"), invert=True)
    return np.take(ar1, np.flatnonzero(kept))


@answers_traced(np.setxor1d)
def setxor1d(ar1: Array, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """Return the elements that occur in exactly one of two arrays, in order."""
    joined = np.concatenate([_picked_first(ar, assume_unique) for ar in (ar1, ar2)])
    order = stable_order(values_of(joined, "np.setxor1d"), 0)
    ordered = np.take(joined, order)
    value = values_of(ordered, "np.setxor1d")
    changes = np.concatenate([[True], value[1:] != value[:-1], [True]]) if value.size else np.zeros(1, np.bool_)
    return np.take(ordered, np.flatnonzero(changes[1:] & changes[:-1]))
