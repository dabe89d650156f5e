"""Choosing elements by conditions and indices, writing them in place, and functions over slices."""

import io

import numpy as np
import pytest
from rows import arrays, check_row, identified

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import errors
from fgrad.core.tensor import Tensor
from fgrad.testing import check_grads

RNG = np.random.default_rng(3)
V = RNG.uniform(0.3, 1.5, 5)
W = RNG.uniform(0.3, 1.5, 5)
M = RNG.uniform(0.3, 1.5, (3, 4))
Z = V + 1j * W
ORDER = np.argsort(M, axis=1)
MASK = np.array([True, False, True, True, False])
NUMBERS = np.array([0, 1, 1, 0, 2])

ROWS = [
    ("select", lambda x, y: np.select([x > 1.2, x > 0.6], [x * x, y], default=-x), V, W),
    ("select numbers", lambda x: np.select([x > 0.9, x > 0.5], [x, 2], 1), V),
    ("select broadcast", lambda x: np.select([x > 0.9], [x[0]], x), M),
    ("choose", lambda x, y: np.choose(NUMBERS, [x, y, x * y]), V, W),
    ("choose broadcast", lambda x: np.choose(NUMBERS, [x, 2.0, x[0]]), V),
    ("choose wrap", lambda x, y: np.choose(NUMBERS + 3, [x, y], mode="wrap"), V, W),
    ("choose clip", lambda x, y: np.choose(NUMBERS - 1, [x, y], mode="clip"), V, W),
    ("choose from an array", lambda x: np.choose([2, 0, 1, 0], x), M),
    ("piecewise", lambda x: np.piecewise(x, [x < 0.6, x > 1.0], [np.square, lambda t: 3 * t]), V),
    ("piecewise otherwise", lambda x: np.piecewise(x, [x < 0.6, x > 1.0], [np.sin, 2.0, np.exp]), V),
    ("piecewise of one condition", lambda x: np.piecewise(x, x > 0.9, [lambda t, a: a * t, 0.5], 3.0), V),
    ("piecewise of a number", lambda x: np.piecewise(x, [x > 0.5, x <= 0.5], [np.square, 0.0]), np.array(0.7)),
    ("piecewise matrix", lambda x: np.piecewise(x, [x > 0.9], [np.log]), M),
    ("compress", lambda x: np.compress(MASK, x), V),
    ("compress axis", lambda x: np.compress([True, False, True], x, axis=1), M),
    ("extract", lambda x: np.extract(MASK, x), V),
    ("take negative axis", lambda x: np.take(x, [[0, -1]], axis=-1), M),
    ("take_along_axis", lambda x: np.take_along_axis(x, ORDER, axis=1), M),
    ("take_along_axis broadcast", lambda x: np.take_along_axis(x, np.array([[2], [0], [0]]), axis=-1), M),
    ("take_along_axis flat", lambda x: np.take_along_axis(x, np.array([3, 3, 0]), axis=None), M),
    ("take_along_axis of an order", lambda x: np.take_along_axis(x, np.argsort(x), axis=0), V),
    ("apply_along_axis", lambda x: np.apply_along_axis(lambda v: np.cumsum(v) * v[0], 0, x), M),
    ("apply_along_axis to numbers", lambda x: np.apply_along_axis(np.sum, 1, x), M),
    ("apply_along_axis to matrices", lambda x: np.apply_along_axis(np.outer, -1, x, x[0]), M),
    ("apply_over_axes", lambda x: np.apply_over_axes(np.sum, x, [0, -1]), M),
    ("apply_over_axes kept", lambda x: np.apply_over_axes(np.cumsum, x, 1), M),
    ("complex numbers", lambda x: np.choose(NUMBERS % 2, [x, x * x]) + np.select([MASK], [x], 1j), Z),
]


@pytest.mark.parametrize("row", [pytest.param(row[1:], id=row[0]) for row in ROWS])
def test_values_and_derivatives(row):
    check_row(*row)


def test_rows_have_names_of_their_own():
    assert len(identified(ROWS)) == len(ROWS)


def test_a_mapped_condition():
    """A mask that differs between the examples has no shape to select by; what chooses by shape works."""

    def f(x, i):
        return np.piecewise(x, [x > 0.9], [np.square, np.sin]) + np.select([x > 1.0], [x], 0.0) + np.choose(i, [x, -x])

    x, i = np.stack([V, W]), np.stack([NUMBERS, NUMBERS[::-1]]) % 2
    expected = np.stack([arrays(f(*each))[0] for each in zip(x, i, strict=True)])
    np.testing.assert_allclose(fg.vmap(f)(x, i), expected)
    for name, call in [
        ("np.compress", lambda x: np.compress(x > 0.5, x)),
        ("np.argwhere", lambda x: np.argwhere(x)),
        ("np.flatnonzero", lambda x: np.flatnonzero(x)),
        ("np.nonzero", lambda x: np.nonzero(x)),
    ]:
        with pytest.raises(errors.ConcretizationError, match=f"{name} needs a value"):
            fg.vmap(call)(x)


def test_what_is_not_chosen_contributes_exactly_zero():
    x = np.array([0.0, 4.0])
    with np.errstate(all="ignore"):
        for f in (
            lambda x: np.select([x > 0], [np.sqrt(x)], 0.0),
            lambda x: np.choose((x > 0) * 1, [0.0 * x, np.sqrt(x)]),
            lambda x: np.piecewise(x, [x > 0], [np.sqrt]),
            lambda x: np.tril(np.stack([np.sqrt(x)] * 2))[1] * [0, 1],
            lambda x: np.take_along_axis(np.sqrt(x), np.array([1]), 0),
            lambda x: np.compress([False, True], np.sqrt(x)),
            lambda x: np.delete(np.sqrt(x), 0),
            lambda x: np.trim_zeros(np.sqrt(x)),
        ):
            assert fg.grad(lambda x: np.sum(f(x)))(x).tolist() == [0.0, 0.25]


def test_indices_are_constants():
    def f(x):
        rows, columns = np.nonzero(x > 0.9)
        assert np.argwhere(x > 0.9).shape == (len(rows), 2)
        places = np.flatnonzero(x > 0.9)
        assert np.ravel_multi_index((rows, columns), x.shape).tolist() == places.tolist()
        assert np.unravel_index(np.argmax(x), x.shape) == np.unravel_index(np.argmax(M), M.shape)
        return np.sum(x[rows, columns]) + np.sum(np.ravel(x)[places])

    np.testing.assert_array_equal(fg.grad(f)(M), 2.0 * (M > 0.9))
    assert np.packbits(Tensor([1, 0, 1])).tolist() == [160]
    assert np.unpackbits(Tensor(np.array([160], np.uint8))).tolist() == [1, 0, 1, 0, 0, 0, 0, 0]


WRITES = [
    ("put", lambda np, y, v: np.put(y, [0, 2, 2], v)),
    ("put one value", lambda np, y, v: np.put(y, [7, -1], v[0])),
    ("put wrap", lambda np, y, v: np.put(y, [13, 25], v, mode="wrap")),
    ("put clip", lambda np, y, v: np.put(y, [130, -25], v, mode="clip")),
    ("place", lambda np, y, v: np.place(y, M > 0.7, v)),
    ("place one value", lambda np, y, v: np.place(y, M > 0.7, [0.5])),
    ("putmask", lambda np, y, v: np.putmask(y, M > 0.7, v)),
    ("putmask of a whole", lambda np, y, v: np.putmask(y, M > 0.7, M * 2)),
    ("putmask of no values", lambda np, y, v: np.putmask(y, M > 0.7, v[:0])),
    ("put_along_axis", lambda np, y, v: np.put_along_axis(y, ORDER[:, :1], v[0], axis=1)),
    ("put_along_axis values", lambda np, y, v: np.put_along_axis(y, ORDER[:1] % 3, v[:4], axis=0)),
    ("put_along_axis flat", lambda np, y, v: np.put_along_axis(y, np.array([3, 1, 3]), v[:3], axis=None)),
    ("fill_diagonal", lambda np, y, v: np.fill_diagonal(y, v[1])),
    ("fill_diagonal values", lambda np, y, v: np.fill_diagonal(y, v[:2])),
    ("copyto", lambda np, y, v: np.copyto(y, v[:4])),
    ("copyto where", lambda np, y, v: np.copyto(y, v[:4], where=M > 0.7)),
]


@pytest.mark.parametrize(("name", "write"), WRITES, ids=[name for name, _ in WRITES])
def test_writing_in_place(name, write):
    def f(x, v):
        y = x * 1.0
        before = y.copy()
        write(np, y, v)
        return y + 0 * before

    np.testing.assert_array_equal(f(Tensor(M), Tensor(V)), f(M, V))
    check_grads(f, (M, V))
    check_grads(fg.vmap(f), (np.stack([M, M[::-1]]), np.stack([V, W])), order=1)
    if name.endswith(("one value", "whole")):
        return  # nothing traced is written
    with pytest.raises((errors.InPlaceError, errors.ArrayConversionError), match=rf"np\.{name.split()[0]}|np\.array"):
        fg.grad(lambda v: write(np, M.copy(), v))(V)


def test_a_tall_matrix_is_filled_again():
    for wrap in (False, True):
        expected = np.zeros((7, 2))
        np.fill_diagonal(expected, 2.0, wrap=wrap)
        found = fnp.zeros((7, 2))
        np.fill_diagonal(found, 2.0, wrap=wrap)
        np.testing.assert_array_equal(found, expected)
    cube, expected = fnp.zeros((2, 2, 2)), np.zeros((2, 2, 2))
    np.fill_diagonal(cube, [1.0, 2.0])
    np.fill_diagonal(expected, [1.0, 2.0])
    np.testing.assert_array_equal(cube, expected)


def test_untraced_values_are_written_into_arrays():
    x = np.zeros(4)
    np.put(x, Tensor([1]), Tensor([2.0]))
    np.place(x, Tensor([True, False, False, False]), Tensor([3.0]))
    np.putmask(x, Tensor([False, False, True, False]), Tensor(4.0))
    np.put_along_axis(x, np.array([3]), Tensor([5.0]), 0)
    assert x.tolist() == [3.0, 2.0, 4.0, 5.0]
    out = np.zeros(2)
    assert np.compress([True, False, True], Tensor([1.0, 2.0, 3.0]), out=out) is out
    assert out.tolist() == [1.0, 3.0]


REFUSED = [
    lambda x: np.select([x > 1], [x, x]), lambda x: np.select([], []), lambda x: np.select([x], [x]),
    lambda x: np.choose(np.array([7, 0, 0, 0, 0]), [x, x]), lambda x: np.choose(np.array([-1, 0, 0, 0, 0]), [x, x]),
    lambda x: np.piecewise(x, [x > 1], [1, 2, 3]), lambda x: np.compress([[True]], x),
    lambda x: np.take_along_axis(x, np.array([[0]]), 0), lambda x: np.take_along_axis(x, np.array([0.5]), 0),
    lambda x: np.take(x, [9]), lambda x: np.take(x, 0, axis=3),
    lambda x: np.apply_along_axis(np.sum, 4, x), lambda x: np.apply_over_axes(lambda a, axis: a[0, ...][0], x[None], 0),
    lambda x: np.fill_diagonal(x, 1.0), lambda x: np.place(x, x > 0, []), lambda x: np.put(x, [99], 1.0),
]  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_what_numpy_refuses(call):
    with pytest.raises((ValueError, TypeError, IndexError)) as numpys:
        call(V.copy())
    with pytest.raises(type(numpys.value)) as ours:
        fg.vjp(call, V)
    assert str(ours.value)[:15] == str(numpys.value)[:15]


def test_a_number_that_depends_on_the_argument_chooses_nothing_from_the_end():
    with pytest.raises(IndexError, match="out of bounds"):
        fg.grad(lambda x: np.sum(np.choose(np.argmax(x) - 9, [x, x])))(V)


def test_saving_and_showing():
    file = io.BytesIO()

    def f(x):
        file.seek(0)
        np.save(file, x)
        assert np.array_repr(x).startswith("Tensor([")
        assert np.array_str(x) == np.array_str(V)
        assert np.array2string(x, precision=2) == np.array2string(V, precision=2)
        return np.sum(x)

    assert fg.grad(f)(V).tolist() == [1.0] * 5
    file.seek(0)
    np.testing.assert_array_equal(np.load(file), V)
    file = io.BytesIO()
    np.savez(file, a=Tensor(V), b=M)
    file.seek(0)
    np.testing.assert_array_equal(np.load(file)["a"], V)


def test_the_gradient_of_an_index_sums_what_occurs_twice():
    for key in ([0, 0, 2], np.array([[0, 1], [0, 0]]), (np.array([0, 0]), np.array([1, 1])), (slice(None), [1, 1, 0])):
        x = M if isinstance(key, tuple) else V
        weights = RNG.uniform(size=x[key].shape)
        expected = np.zeros_like(x)
        np.add.at(expected, key, weights)
        np.testing.assert_allclose(fg.vjp(lambda x: x[key], x)[1](weights)[0], expected)
        check_row(lambda x: x[key], x)


def test_the_gradient_of_many_indices():
    """Of many elements the sum is taken over a flat array, whatever the layout of what comes in."""
    x = RNG.normal(size=(60, 50))
    rows, columns = RNG.integers(0, 60, 20_000), RNG.integers(-50, 50, 20_000)
    for key in ((rows, columns), rows[:2000], (slice(None, None, -1), columns[:2000]), (None, rows.reshape(2, -1), 3)):
        weights = np.asfortranarray(RNG.normal(size=x[key].shape))
        expected = np.zeros_like(x)
        np.add.at(expected, key, weights)
        np.testing.assert_allclose(fg.vjp(lambda x: x[key], x)[1](weights)[0], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda y: np.place(y, np.array([True] * 3), np.array([1.0])), ValueError, "mask and data must be"),
        (lambda y: np.place(y, np.array([True, False]), np.array([])), ValueError, "Cannot insert from an empty array"),
        (lambda y: np.put(y[:0], [0], 1.0), IndexError, "cannot replace elements of an empty array"),
    ],
)
def test_writing_what_does_not_fit_is_numpys_error(call, kind, text):
    with pytest.raises(kind, match=text):
        call(np.zeros(2))
    with pytest.raises(kind, match=text):
        fg.vjp(lambda x: call(x * 1.0), np.zeros(2))


TRUTH = [True, False, np.True_, np.array(True), np.array(False), (np.array(True), 0), (0, True), (slice(None), False),
         (True, [1, 0]), (None, True, Ellipsis), (Ellipsis, True), (True, np.array([True, False])),
         ([1, 0], True, None)]  # fmt: skip


@pytest.mark.parametrize("key", TRUTH, ids=str)
@pytest.mark.parametrize("shape", [(2,), (2, 3)])
def test_truth_values_without_axes_as_indices(key, shape):
    x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    plain, weights = x[key], np.arange(1.0, 1 + x[key].size).reshape(x[key].shape)
    slope = np.zeros(shape)
    np.add.at(slope, key, weights)

    def read(x):
        return x[key]

    def written(x):
        y = x * 1.0
        y[key] = y[key] * 2.0
        return y

    for function, value, expected in ((read, plain, slope), (written, np.where(slope, 2 * x, x), None)):
        for found in (fg.vjp(function, x)[0], fg.vmap(function)(np.stack([x, x]))[1], fg.compile(function)(x)):
            np.testing.assert_array_equal(found, value)
        if expected is not None:
            np.testing.assert_array_equal(fg.vjp(function, x)[1](weights)[0], expected)
            batched = fg.vmap(lambda x, f=function: fg.vjp(f, x)[1](weights)[0])(np.stack([x, x]))
            np.testing.assert_array_equal(batched[1], expected)


def test_a_truth_value_that_differs_between_examples_is_refused_as_an_index():
    with pytest.raises(fg.errors.ConcretizationError):
        fg.vmap(lambda x: x[x[0] > 0])(np.ones((2, 3)))


def test_select_takes_pythons_integers_as_numpy_does():
    """An integer among unsigned ones would be cut off without a word: it is NumPy's error, also as a traced one."""
    x = np.array([0, 44, 255], np.uint8)
    for choice in (lambda x, k: np.select([x > 100, x < 1], [x, k], 0), lambda x, k: np.select([x > 1], [k], x)):
        with pytest.raises(TypeError, match="according to the rule 'same_kind'"):
            choice(x, 300)
        for run in (choice, fg.vmap(choice, (0, None)), fg.trace(choice), fg.compile(choice)):
            with pytest.raises(TypeError, match="according to the rule 'same_kind'"):
                run(fg.constant(x), 300)
        signed = x.astype(np.int16)
        np.testing.assert_array_equal(choice(fg.constant(signed), 3), choice(signed, 3), strict=True)
    np.testing.assert_array_equal(np.select([fg.constant(x) > 1], [x], 3), np.select([x > 1], [x], 3))
