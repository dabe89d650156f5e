"""Sums, extrema and sums of exponentials: what their derivatives cost, and that they are none the less exact.

Operations are counted in forward over reverse mode, where every step of a pullback is one of the outer trace.
"""

import numpy as np
import pytest

import fgrad as fg
from fgrad.core.forward import ForwardTrace
from fgrad.ops import rows, shaping
from fgrad.ops.reductions import logsumexp
from fgrad.ops.rows import reduced
from fgrad.ops.softmaxes import log_softmax, softmax
from fgrad.testing import check_grads

RNG = np.random.default_rng(7)
X = RNG.normal(size=(4, 3))
TIED = np.array([[1.0, 2.0, 2.0], [0.0, 1.0, 3.0]])


@pytest.fixture
def operations(monkeypatch):
    """Return a function that runs the gradient of a sum in forward mode, and returns the names of the operations."""
    names = []
    process = ForwardTrace.process

    def noting(self, primitive, args, metadata):
        names.append(primitive.name)
        return process(self, primitive, args, metadata)

    def run(f, x):
        names.clear()
        fg.jvp(fg.grad(lambda x: np.sum(f(x))), (x,), (np.ones_like(x),))
        return list(names)

    monkeypatch.setattr(ForwardTrace, "process", noting)
    return run


# Extrema


@pytest.mark.parametrize("reduction", [np.max, np.min, np.nanmax, np.nanmin])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_an_extremum_is_shared_only_at_a_tie(operations, reduction, axis):
    assert not {"divide", "maximum"} & set(operations(lambda x: reduction(x, axis) ** 2, X))
    tied = TIED if reduction in (np.max, np.nanmax) else -TIED
    assert "divide" in operations(lambda x: reduction(x, -1) ** 2, tied)


@pytest.mark.parametrize("choose", [np.maximum, np.minimum, np.fmax, np.fmin])
def test_a_choice_of_two_is_halved_only_at_a_tie(operations, choose):
    assert operations(lambda x: choose(x, 0.0) ** 2, X).count("where") == 1
    assert operations(lambda x: choose(x, 2.0) ** 2, TIED).count("where") == 2


def test_what_was_not_chosen_gets_an_exact_zero_of_an_infinite_cotangent():
    for f, expected in (
        (lambda x: np.max(x, axis=1), [[0, 0, 1], [0, 0, 1]]),
        (lambda x: np.max(np.maximum(x, 2.5), axis=1), [[0, 0, 0], [0, 0, 1]]),
    ):
        x = np.array([[1.0, 2.0, 2.1], [0.0, 1.0, 3.0]])
        (found,) = fg.vjp(f, x)[1](np.array([np.inf, np.inf]))
        np.testing.assert_array_equal(np.asarray(found) == np.inf, np.array(expected) == 1)
        np.testing.assert_array_equal(np.asarray(found)[np.array(expected) == 0], 0.0)


def test_extrema_of_batches_with_and_without_ties():
    """The mask is batched, the cotangent alone, or both."""
    both = np.stack([TIED, X[:2]])

    def gradient(x):
        return fg.grad(lambda x: np.sum(np.max(x, axis=1) ** 2))(x)

    np.testing.assert_allclose(fg.vmap(gradient)(both), [gradient(each) for each in both])
    for x in both:
        np.testing.assert_array_equal(*(jac(lambda x: np.max(x, axis=1))(x) for jac in (fg.jacrev, fg.jacfwd)))


@pytest.mark.parametrize("kind", ["f", "d"])
def test_extrema_keep_the_dtype(kind):
    for x in (TIED.astype(kind), X.astype(kind)):
        for f in (np.max, np.min):
            g = fg.grad(lambda x, f=f: np.sum(f(x, axis=1)))
            assert g(x).dtype == kind
            assert fg.jvp(g, (x,), (x,))[1].dtype == kind
            assert fg.jvp(lambda x, f=f: f(x, axis=1), (x,), (x,))[1].dtype == kind


# Short rows


@pytest.mark.parametrize("kind", "fd")
@pytest.mark.parametrize("length", [2, 3, 5, 7, 8, 9, 10, 15, 16, 20, 32, 33])
def test_short_rows_are_reduced_as_numpy_does_to_the_last_bit(kind, length):
    """Numbers of many sizes, so that the order of additions shows; rows of -0.0, of infinities and with nan."""
    for count in (1, 64 * length - 1, 64 * length, 4096, 4097, 9000):
        x = (RNG.normal(size=(count, length)) * 10.0 ** RNG.integers(-3, 3, (count, length))).astype(kind)
        x[0], x[count // 2], x[-1, 0] = -0.0, np.inf, np.nan
        for ufunc in (np.add, np.maximum, np.minimum):
            for keepdims in (False, True):
                found, expected = reduced(ufunc, x, -1, keepdims), ufunc.reduce(x, -1, keepdims=keepdims)
                np.testing.assert_array_equal(found, expected, strict=True)
            np.testing.assert_array_equal(np.signbit(reduced(np.add, x, 1, False)), np.signbit(np.add.reduce(x, 1)))


def test_short_rows_are_reduced_by_columns(monkeypatch):
    """Of a contiguous array of many rows; all else is NumPy's."""
    lengths = []
    combined = rows._combined
    monkeypatch.setattr(rows, "_combined", lambda ufunc, each: lengths.append(len(each)) or combined(ufunc, each))
    x = RNG.normal(size=(100, 10, 3))
    for f in (np.sum, np.mean, np.max, np.min, logsumexp, softmax, log_softmax):
        lengths.clear()
        fg.vjp(lambda x, f=f: f(x, axis=2), x)
        assert set(lengths) == {3}
    lengths.clear()
    for f in (np.sum, np.mean, np.max, np.min):
        for other in (x.astype("g"), x[:2], x + 1j):
            fg.vjp(lambda x, f=f: f(x, axis=2), other)
        fg.vjp(lambda x, f=f: f(x[::2], axis=2), x)
        for axis in (0, 1, None, (1, 2)):
            fg.vjp(lambda x, f=f, axis=axis: f(x, axis=axis), x)
    assert not lengths


# Sums of tangents


@pytest.mark.parametrize("kind", "fdFDg")
@pytest.mark.parametrize("length", [1, 2, 10, 128, 129])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.slow
def test_a_sum_of_many_rows_forward(kind, length, keepdims):
    """The value is NumPy's to the last bit; the tangent is as accurate."""
    x, t = (RNG.normal(size=(30, 40, length)).astype(kind) for _ in range(2))
    for axis in (-1, 2, 1, (1, 2), None):
        for source, direction in ((x, t), (x[:, ::2], t[:, ::2]), (x, np.broadcast_to(t[:1], t.shape))):
            value, tangent = fg.jvp(lambda x, a=axis: np.sum(x, a, keepdims=keepdims), (source,), (direction,))
            np.testing.assert_array_equal(value, np.sum(source, axis, keepdims=keepdims))
            expected = np.sum(direction, axis, keepdims=keepdims)
            size = np.sum(np.abs(direction), axis, keepdims=keepdims)
            assert tangent.shape == expected.shape
            assert tangent.dtype == expected.dtype
            assert np.all(np.abs(np.asarray(tangent) - expected) <= 40 * np.finfo(kind).eps * size)


def test_equal_rows_have_equal_sums():
    """So that ties stay ties: two equal centers share the points that are nearest to both."""
    points = RNG.normal(size=(200, 3))
    centers = np.array([[0.1, 0.2, 0.3], [9.0, 9.0, 9.0], [0.1, 0.2, 0.3]])

    def cost(centers):
        return np.sum(np.min(np.sum((points[:, None] - centers) ** 2, axis=2), axis=1))

    found = np.asarray(fg.grad(cost)(centers))
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_allclose(found[0], np.sum(centers[0] - points, axis=0))
    np.testing.assert_allclose(fg.hvp(cost)(centers, np.ones((3, 3))), [[200.0] * 3, [0.0] * 3, [200.0] * 3])


def test_a_zero_of_a_mask_stays_exact_in_a_sum_of_tangents():
    x = np.zeros((300, 2))
    x[:, 1] = 4.0
    with np.errstate(all="ignore"):
        found = fg.jvp(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0), axis=1), (x,), (np.ones_like(x),))[1]
    np.testing.assert_array_equal(found, np.full(300, 0.25))


# Sums of exponentials


@pytest.mark.parametrize(
    "f", [lambda x: logsumexp(x, 1), lambda x: np.logaddexp(x, 0.5), lambda x: np.logaddexp2(x, x)]
)
def test_a_share_is_one_operation(operations, f):
    names = operations(f, X)
    assert not {"exp", "exp2", "minimum", "maximum", "where", "equal"} & set(names)
    assert any(name.startswith("share") for name in names)


@pytest.mark.parametrize("f", [softmax, log_softmax])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_shares_are_one_operation_with_derivatives_to_second_order(operations, f, axis):
    assert operations(lambda x: f(x, axis), X).count(f.__name__) == 1
    assert "exp" not in operations(lambda x: softmax(x, axis), X)
    check_grads(lambda x: f(x, axis) * X, (X,))
    check_grads(lambda x: f(x, axis) * X, (X + 0.3j * X[::-1],))


@pytest.mark.parametrize("f", [softmax, log_softmax])
def test_shares_of_other_layouts_and_dtypes(f):
    def plain(x, axis):
        shares = np.exp(x) / np.sum(np.exp(x), axis=axis, keepdims=True)
        return shares if f is softmax else np.log(shares)

    for x in (X.T, X[::2, ::-1], X.astype("f"), X[:0], np.arange(6).reshape(2, 3), np.float64(0.3)):
        for axis in (None, -1) if x.ndim else (None,):
            if x.shape[:1] == (0,) and axis is None:
                continue  # there is no largest element
            found = f(x, axis)
            np.testing.assert_allclose(found, plain(x, axis), rtol=1e-5 if x.dtype == "f" else 1e-12, atol=1e-12)
            assert found.dtype == plain(x, axis).dtype
            if x.dtype.kind == "f":
                assert fg.grad(lambda x, a=axis: np.sum(f(x, a) ** 2))(x).dtype == x.dtype


def test_the_users_array_is_not_written_to():
    before = X.copy()
    for f in (softmax, log_softmax, logsumexp, lambda x: np.logaddexp(x, X), lambda x: np.max(x, 1)):
        value, pull = fg.vjp(f, X)
        cotangent = np.ones(value.shape)
        first = pull(cotangent)[0].numpy()
        np.testing.assert_array_equal(cotangent, 1.0)
        np.testing.assert_array_equal(pull(cotangent)[0], first)
        np.testing.assert_array_equal(X, before)


# Other shapes


def test_a_block_of_memory_is_reshaped_without_a_look_at_it(monkeypatch):
    def refused(*args):
        raise AssertionError(args)

    monkeypatch.setattr(np, "may_share_memory", refused)

    def f(x):
        return np.sum(x.reshape(2, -1) ** 2) + np.sum(np.ravel(x * 2.0) ** 2)

    np.testing.assert_allclose(fg.grad(f)(X), 10 * X)
    np.testing.assert_allclose(fg.hvp(f)(X, X), 10 * X)
    with pytest.raises(AssertionError):
        fg.grad(lambda x: np.sum(x.T.reshape(-1)))(X)


def test_rules_reshape_without_views(monkeypatch):
    """A view is known to what it is a view of, which takes time, and nobody writes to a cotangent."""
    seen, count = shaping.seen, []
    monkeypatch.setattr(shaping, "seen", lambda *args: count.append(args) or seen(*args))
    for f in (lambda x: np.sum(x, axis=1) ** 2, lambda x: np.mean(x, axis=0) ** 2, lambda x: np.max(x, axis=1) ** 2):
        fg.jvp(fg.grad(lambda x, f=f: np.sum(f(x))), (X,), (X,))
    assert not count


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((20, 900, 3), (1,)), ((9000, 2), (0,)), ((300, 40, 5), (0, 1)), ((40, 20, 30), (0,)), ((5, 6), (0,))],
)
def test_what_undoes_a_broadcast_is_a_sum(shape, axes, dtype):
    """Of many short rows it is a product with ones, in blocks; infinities and NaN stay in their columns."""
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    small = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    for weights in (x, np.where(np.arange(x.size).reshape(shape) == 7, np.inf, x), np.where(x == x.flat[3], np.nan, x)):
        found = fg.vjp(lambda y: np.broadcast_to(x, shape) + y, np.zeros(small, dtype))[1](weights.astype(dtype))[0]
        assert found.dtype == dtype
        with np.errstate(invalid="ignore"):
            expected = np.add.reduce(weights, axis=axes, keepdims=True)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


WITHOUT_AXES = [
    np.sum, np.prod, np.max, np.min, np.mean, np.std, np.any, np.all, np.argmax, np.argmin, np.ptp, np.count_nonzero,
    np.nansum, np.nanmax, np.nanmean, np.nanstd, np.cumsum, np.cumprod, np.nancumsum, np.sort, np.argsort,
    np.add.reduce, np.multiply.reduce, np.maximum.reduce, np.logaddexp.reduce, np.add.accumulate,
    np.multiply.accumulate,
    lambda x, axis: np.repeat(x, 2, axis), lambda x, axis: np.take(x, 0, axis), lambda x, axis: x.sum(axis),
]  # fmt: skip


@pytest.mark.parametrize("axis", [0, -1, np.int64(0), None, 1])
@pytest.mark.parametrize("f", WITHOUT_AXES)
@pytest.mark.slow
def test_numbers_are_reduced_along_the_axes_that_numpy_takes(f, axis):
    x = np.array(3.0)

    def found(call):
        try:
            return np.asarray(call()).tolist()
        except (TypeError, ValueError, IndexError) as error:
            return type(error)

    plain = found(lambda: f(x, axis=axis))
    assert found(lambda: fg.vjp(lambda x: f(x, axis=axis), x)[0]) == plain
    assert found(lambda: fg.jvp(lambda x: f(x, axis=axis), (x,), (1.0,))[0]) == plain
    assert found(lambda: fg.vmap(lambda x: f(x, axis=axis))(np.stack([x, x]))[0]) == plain
    assert found(lambda: fg.compile(lambda x: f(x, axis=axis))(x)) == plain


@pytest.mark.parametrize("f", [np.sum, np.max, np.cumsum, np.logaddexp.reduce, lambda x, axis: x * np.prod(x, axis)])
def test_derivatives_of_numbers_that_are_reduced_along_axis_0(f):
    expected = 6.0 if f not in (np.sum, np.max, np.cumsum, np.logaddexp.reduce) else 1.0
    assert fg.grad(lambda x: np.sum(f(x, axis=0)))(3.0) == expected
    assert np.sum(fg.jvp(lambda x: f(x, axis=0), (3.0,), (1.0,))[1]) == expected
    assert fg.vmap(fg.grad(lambda x: np.sum(f(x, axis=0))))(np.array([3.0, 3.0])).tolist() == [expected] * 2


@pytest.mark.parametrize("f", [np.sum, np.max, np.prod, np.argmax, np.any, np.mean, np.std, np.cumsum, np.transpose])
def test_axes_that_one_example_does_not_have_are_refused_under_vmap(f):
    axis = (0, 3) if f is np.transpose else 2
    for call in (
        lambda: fg.vmap(lambda x: f(x, axis))(np.ones((2, 3, 4))),
        lambda: f(fg.constant(np.ones((3, 4))), axis),
    ):
        with pytest.raises(np.exceptions.AxisError, match="out of bounds for array of dimension 2"):
            call()


def test_the_deviation_of_one_element_is_0_to_any_order():
    tangents = fg.jvp(lambda x, v: fg.jvp(np.std, (x,), (v,))[1], (3.5, -0.5), (1.0, 1.0))
    assert tangents == (0.0, 0.0)
    assert fg.hessian(lambda x: np.sum(np.std(x, axis=1)))(np.ones((2, 1))).tolist() == np.zeros((2, 1, 2, 1)).tolist()
    assert np.std(fg.constant(1 + 2j)).dtype == np.float64


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float16, np.bool_, np.complex64])
@pytest.mark.parametrize("f", [np.max, np.min])
def test_extrema_of_masked_elements_of_any_dtype(f, dtype):
    x, mask = np.array([[3, 1, 0], [0, 1, 1]], dtype), np.array([[True, False, True], [False, False, False]])
    expected = f(x, axis=1, initial=1, where=mask)
    found = fg.compile(lambda x: f(x, axis=1, initial=1, where=mask))(x)
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(("f", "limit"), [(np.max, -np.inf), (np.min, np.inf)])
def test_excluded_complex_numbers_are_beyond_all_others(f, limit):
    """They are ordered by the real, then by the imaginary part."""
    last = complex(limit, np.copysign(0.5, limit))
    x, mask = np.array([0.0, 1.0, last]), np.array([False, False, True])
    found = fg.vjp(lambda x: f(x, initial=complex(limit, limit), where=mask), x)[0]
    assert found == last == f(x, initial=complex(limit, limit), where=mask)


@pytest.mark.parametrize("where", [True, np.array([True, False, True])])
def test_a_mean_of_a_requested_dtype(where):
    for dtype in (np.int64, np.float32, np.complex128):
        x = np.array([1.5, -2.75, 0.5])
        found = fg.compile(lambda x, dtype=dtype: np.mean(x, dtype=dtype, where=where))(x)
        expected = np.mean(x, dtype=dtype, where=where)
        assert found.dtype == expected.dtype
        assert found == expected
