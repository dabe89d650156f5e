"""Sorting, searching and sets of NumPy: values, derivatives in both modes and to second order, batches.

`check_call` is what a row of a table must stand; the tables of the other files on order statistics use it.
"""

import itertools

import numpy as np
import pytest

import fgrad as fg
from fgrad import errors
from fgrad.core.tensor import Tensor
from fgrad.ops.sorting import _MANY, _SMALL, partition_order, rank_places, stable_order
from fgrad.testing import check_grads

RNG = np.random.default_rng(0)
V = np.array([0.3, 1.4, 0.9, 0.5, 1.1])
M = RNG.permutation(6).reshape(2, 3) / 4 + 0.3
C = RNG.permutation(24).reshape(2, 3, 4) / 9 + 0.2
Z = np.array([3.0, 1.2, 4.0, 2.0]) + 1j * np.array([0.5, -1.0, 0.2, 2.0])
TIED = np.array([1.0, 0.0, 1.0, 0.0, 1.0])

TOLERANCE = {"e": 1e-2, "f": 1e-5, "F": 1e-5, "d": 1e-12, "D": 1e-12}


def compare(found, expected, rtol=0.0):
    """Check that results have the form of NumPy's and equal them up to rounding."""
    found, expected = fg.tree_leaves(found), fg.tree_leaves(expected)
    for ours, numpys in zip(found, expected, strict=True):
        numpys = np.asarray(numpys)
        assert (ours.shape, ours.dtype) == (numpys.shape, numpys.dtype)
        tolerance = max(rtol, TOLERANCE.get(numpys.dtype.char, 0))
        np.testing.assert_allclose(np.asarray(ours), numpys, rtol=tolerance, atol=1e-14)


def check_value(f, *arrays, rtol=0.0):
    """Check traced calls and calls on tensors that nothing follows."""
    expected = f(*arrays)
    compare(fg.vjp(f, *arrays)[0], expected, rtol)
    compare(f(*map(Tensor, arrays)), expected)


def check_single(f, *arrays):
    """Check that single precision stays single, in the gradient too."""
    single = [x.astype({"f": np.float32, "c": np.complex64}[x.dtype.kind]) for x in arrays]
    check_value(f, *single, rtol=TOLERANCE["f"])  # NumPy adds up in single precision what then becomes double
    value, pullback = fg.vjp(f, *single)
    gradients = pullback(fg.tree_map(lambda x: np.ones(x.shape, x.dtype), value))
    assert [g.dtype for g in gradients] == [x.dtype for x in single]


def check_batch(f, *arrays):
    """Check `vmap` against a loop, whichever arguments are mapped."""
    for mapped in itertools.product((0, None), repeat=len(arrays)):
        if 0 not in mapped:
            continue
        several = [np.stack([x, x * 0.9, x * 0.8]) if axis == 0 else x for x, axis in zip(arrays, mapped, strict=True)]
        rows = [f(*(x[i] if axis == 0 else x for x, axis in zip(several, mapped, strict=True))) for i in range(3)]
        expected = [np.stack(each) for each in zip(*map(fg.tree_leaves, rows), strict=True)]
        compare(fg.tree_leaves(fg.vmap(f, in_axes=mapped)(*several)), expected)


def check_call(f, *arrays, batched=True):
    check_value(f, *arrays)
    check_grads(f, arrays, order=2)
    check_single(f, *arrays)
    if batched:
        check_batch(f, *arrays)


ROWS = [
    ("sort", lambda x: np.sort(x), C),
    ("sort axis", lambda x: np.sort(x, axis=0), C),
    ("sort None", lambda x: np.sort(x, axis=None), C),
    ("sort stable", lambda x: np.sort(x, stable=True), M),
    ("sort kind", lambda x: np.sort(x, 1, "heapsort"), C),
    ("sort complex", lambda x: np.sort(x), Z),
    ("sort_complex", lambda x: np.sort_complex(x), Z),
    ("sort_complex of real numbers", lambda x: np.sort_complex(x), M),
    ("sort by argsort", lambda x: x[np.argsort(x)] * x, V),
    ("partition", lambda x: np.partition(x, 1), C),
    ("partition axis", lambda x: np.partition(x, (0, -1), axis=1), C),
    ("partition None", lambda x: np.partition(x, 5, axis=None), C),
]
SETS = [
    ("unique", lambda x: np.unique(x), V),
    ("unique flat", lambda x: np.unique(x), M),
    ("unique axis", lambda x: np.unique(x, axis=1), M),
    ("unique with all", lambda x: np.unique(x, True, True, True)[0], V),
    ("unique_values", lambda x: np.unique_values(x), V),
    ("unique_counts", lambda x: np.unique_counts(x).values, V),
    ("unique_inverse", lambda x: np.unique_inverse(x).values, V),
    ("unique_all", lambda x: np.unique_all(x).values, V),
    ("union1d", lambda x: np.union1d(x, [7.0, 0.6]), V),
    ("setdiff1d", lambda x: np.setdiff1d(x, [0.4]), V),
    ("setdiff1d assume_unique", lambda x: np.setdiff1d(x, [0.4], assume_unique=True), V),
    ("setxor1d", lambda x: np.setxor1d(x, [0.4, 7.0]), V),
]
CONSTANT = [
    ("argsort", lambda x: np.argsort(x, axis=0), C),
    ("argsort None", lambda x: np.argsort(x, axis=None, stable=True), C),
    ("argpartition", lambda x: np.argpartition(x, 1), C),
    ("argpartition None", lambda x: np.argpartition(x, [1, 3], axis=None), C),
    ("lexsort", lambda x: np.lexsort((x, V)), V[::-1]),
    ("lexsort array", lambda x: np.lexsort(x), M),
    ("lexsort axis", lambda x: np.lexsort((x, -x), axis=0), M),
    ("searchsorted", lambda x: np.searchsorted(np.sort(V), x, side="right"), M),
    ("searchsorted in what is traced", lambda x: np.searchsorted(np.sort(x), [0.4, 1.0]), V),
    ("searchsorted sorter", lambda x: np.searchsorted(x, x, sorter=np.argsort(x)), V),
    ("digitize", lambda x: np.digitize(x, [0.4, 0.8, 1.2]), M),
    ("digitize downwards", lambda x: np.digitize(x, [1.2, 0.8], right=True), M),
    ("isin", lambda x: np.isin(x, [0.3, 0.9]), V),
    ("isin invert", lambda x: np.isin([0.3, 7.0], x, invert=True), V),
    ("nanargmax", lambda x: np.nanargmax(x, axis=1), M),
    ("nanargmin", lambda x: np.nanargmin(x), M),
    ("nanargmax keepdims", lambda x: np.nanargmax(np.where(x > 1, np.nan, x), axis=1, keepdims=True), M),
    ("count_nonzero", lambda x: np.count_nonzero(x > 0.6, axis=0, keepdims=True), M),
    ("count_nonzero of all", lambda x: np.count_nonzero(x), M),
]


def named(rows):
    return [pytest.param(*row[1:], id=row[0]) for row in rows]


@pytest.mark.parametrize(("f", "x"), named(ROWS))
def test_what_moves_elements(f, x):
    check_call(f, x)


@pytest.mark.parametrize(("f", "x"), named(SETS))
def test_what_picks_elements(f, x):
    check_call(f, x, batched=False)


@pytest.mark.parametrize(("f", "x"), named(CONSTANT))
def test_answers_have_the_derivative_zero(f, x):
    check_value(f, x)
    check_batch(f, x)
    np.testing.assert_array_equal(fg.grad(lambda x: np.sum(f(x) * 1.0) + np.sum(x))(x), np.ones_like(x))


@pytest.mark.parametrize("shape", [(), (3, 0), (0,)])
def test_sort_of_nothing_and_of_a_number(shape):
    x = np.ones(shape)
    if shape:
        check_value(np.sort, x)
        assert fg.vjp(np.sort, x)[1](x)[0].shape == shape
    else:
        with pytest.raises(np.exceptions.AxisError, match="axis -1 is out of bounds for array of dimension 0"):
            fg.vjp(np.sort, x)
        check_value(lambda x: np.sort(x, axis=None), x)


def test_equal_elements_keep_their_order():
    weights = np.arange(1.0, 6.0)
    for function in (np.sort, np.sort_complex):
        _, pullback = fg.vjp(function, TIED)
        np.testing.assert_array_equal(pullback(weights)[0], [3.0, 1.0, 4.0, 2.0, 5.0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("shape", "axis"), [((5000,), 0), ((50, 70), 0), ((50, 70), -1), ((1, 2000), 0), ((1500, 1), 1)]
)
def test_the_fast_order_is_the_stable_one(shape, axis, dtype):
    count = int(np.prod(shape))
    numbers = [
        RNG.standard_normal(count),
        np.round(RNG.standard_normal(count), 1),
        1 + 1e-12 * RNG.integers(0, 900, count),  # alike in the leading bits
        RNG.choice([0.0, -0.0, np.inf, -np.inf, 5e-324, -5e-324, 1.0], count),
        RNG.choice([np.nan, 1.0, -np.nan, -1.0], count),
        -np.exp(15 * RNG.standard_normal(count)),
        1e-310 * RNG.standard_normal(count),
    ]
    assert count > _SMALL
    for x in numbers:
        x = x.astype(dtype).reshape(shape)
        for laid_out in (x, np.asfortranarray(x)):
            np.testing.assert_array_equal(stable_order(laid_out, axis), np.argsort(x, axis, kind="stable"))


def test_descending():
    if np.lib.NumpyVersion(np.__version__) < "2.5.0":  # which brought it
        with pytest.raises(TypeError, match="unexpected keyword argument 'descending'"):
            fg.vjp(lambda x: np.sort(x, descending=True), V)
        return
    check_call(lambda x: np.sort(x, descending=True), C)
    check_value(lambda x: np.argsort(x, axis=0, descending=True), C)
    _, pullback = fg.vjp(lambda x: np.sort(x, descending=True), TIED)
    np.testing.assert_array_equal(pullback(np.arange(1.0, 6.0))[0], [1.0, 4.0, 2.0, 5.0, 3.0])


def test_partition_returns_what_numpy_does():
    for count in (3, 17, 400):
        for kth in (0, count // 2, [1, -1]):
            for x in (RNG.standard_normal(count), np.round(RNG.standard_normal(count), 0)):
                order = partition_order(x, kth, 0, "introselect")
                np.testing.assert_array_equal(x[order], np.partition(x, kth))
                assert sorted(order.tolist()) == list(range(count))


@pytest.mark.parametrize("count", [1, _MANY, _MANY + 4])
def test_places_of_ranks_are_those_of_a_stable_sort(count):
    for x in (RNG.standard_normal((4, 30)), RNG.integers(0, 5, (4, 30)) * 1.0):
        ranks = RNG.integers(0, 30, (1, count))
        expected = np.take_along_axis(np.argsort(x, kind="stable"), np.broadcast_to(ranks, (4, count)), -1)
        np.testing.assert_array_equal(rank_places(x, ranks), expected)


def test_the_first_of_equal_elements_has_the_derivative():
    weights = np.array([5.0, 7.0])
    for f in (np.unique, lambda x: np.unique(x, return_counts=True)[0], lambda x: np.unique_all(x).values):
        _, pullback = fg.vjp(f, TIED)
        np.testing.assert_array_equal(pullback(weights)[0], [7.0, 5.0, 0.0, 0.0, 0.0])
    other = np.array([9.0, 1.0])
    _, pullback = fg.vjp(np.intersect1d, TIED, other)
    assert [g.tolist() for g in pullback(np.array([3.0]))] == [[3.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0]]
    _, pullback = fg.vjp(np.union1d, TIED, other)
    assert [g.tolist() for g in pullback(np.array([1.0, 2.0, 3.0]))] == [[2.0, 1.0, 0.0, 0.0, 0.0], [3.0, 0.0]]
    _, pullback = fg.vjp(np.setxor1d, TIED, other)
    assert [g.tolist() for g in pullback(np.array([1.0, 2.0]))] == [[0.0, 1.0, 0.0, 0.0, 0.0], [2.0, 0.0]]


@pytest.mark.parametrize("how", [{}, {"equal_nan": False}, {"return_inverse": True}])
def test_unique_with_nan(how):
    check_value(lambda x: np.unique(x, **how), np.array([np.nan, 2.0, np.nan, 1.0, 1.0]))
    check_value(np.unique_all, np.array([np.nan, 2.0, np.nan, 1.0, 1.0]))


def test_unique_rows_and_complex_numbers():
    rows = M[[0, 1, 0]]
    check_value(lambda x: np.unique(x, axis=0, return_index=True, return_inverse=True), rows)
    assert fg.grad(lambda x: np.sum(np.unique(x, axis=0)))(rows).tolist() == [[1.0] * 3, [1.0] * 3, [0.0] * 3]
    check_value(np.unique, Z)


def test_sets_with_indices_and_mixed_dtypes():
    check_value(lambda x: np.intersect1d(x, [0.9, 0.3], return_indices=True), V)
    check_value(lambda x: np.intersect1d(x, [0.9, 0.3], assume_unique=True), V)
    check_value(lambda x: np.setxor1d(x, [0.9, 7.0], assume_unique=True), V)
    check_value(lambda x: np.setxor1d(x, []), V[:0])
    check_value(lambda x: np.intersect1d(x, np.array([1, 2])), np.array([2.0, 1.0, 5.0]))
    check_value(lambda x: np.setdiff1d([0.3, 8.0], x), V)
    for kept in (np.unique_counts, np.unique_inverse, np.unique_all):
        assert type(fg.vjp(kept, V)[0]) is type(kept(V))


def test_what_depends_on_values_asks_for_them():
    for f in (np.unique, np.unique_values, lambda x: np.union1d(x, x), lambda x: np.setdiff1d(x, [1.0])):
        with pytest.raises(errors.ConcretizationError, match=r"np\.\w+ needs a value"):
            fg.vmap(f)(M)


def test_numpys_own_errors():
    for f, error, message in (
        (lambda x: np.sort(x, axis=3), np.exceptions.AxisError, "axis 3 is out of bounds for array of dimension 1"),
        (lambda x: np.sort(x, kind="quick", stable=True), ValueError, "kind"),
        (lambda x: np.sort(x, order="a"), ValueError, "Cannot specify order when the array has no fields"),
        (lambda x: np.partition(x, 9), ValueError, r"kth\(=9\) out of bounds \(5\)"),
        (lambda x: np.digitize(x, [1.0, 3.0, 2.0]), ValueError, "bins must be monotonically increasing or decreasing"),
        (lambda x: np.searchsorted(x, x, side="up"), ValueError, "search side must be"),
        (lambda x: np.nanargmax(x * np.nan), ValueError, "All-NaN slice encountered"),
    ):
        with pytest.raises(error, match=message):
            fg.vjp(f, V)
        with pytest.raises(error, match=message):
            f(V)


def test_a_tensor_that_nothing_follows_is_not_changed():
    x = Tensor(V)
    assert np.sort(x).tolist() == np.sort(V).tolist()
    assert x.tolist() == V.tolist()
    assert type(np.sort(V)) is np.ndarray


def test_a_graph_sorts_other_values():
    graph = fg.trace(lambda x: np.sort(x) * np.argsort(x))(V)
    np.testing.assert_allclose(graph(V[::-1]), np.sort(V) * np.argsort(V[::-1]))
