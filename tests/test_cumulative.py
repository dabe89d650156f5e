"""Cumulative sums, products and differences of NumPy, by the checks of `test_sorting.py`."""

import numpy as np
import pytest
from test_sorting import C, M, V, Z, check_call, check_value, compare, named

import fgrad as fg
from fgrad.core.tensor import Tensor
from fgrad.ops.cumulative import _SHORT, _WIDE, recurrence
from fgrad.testing import check_grads

RNG = np.random.default_rng(1)

ROWS = [
    ("cumsum", lambda x: np.cumsum(x), M),
    ("cumsum axis", lambda x: np.cumsum(x, axis=-1), C),
    ("cumprod", lambda x: np.cumprod(x), M),
    ("cumprod axis", lambda x: np.cumprod(x, axis=0), C),
    ("cumprod complex", lambda x: np.cumprod(x), Z / 2),
    ("cumprod of many", lambda x: np.cumprod(x), RNG.uniform(0.8, 1.2, 2 * _SHORT + 1)),
    ("nancumsum", lambda x: np.nancumsum(x, axis=1), M),
    ("nancumprod", lambda x: np.nancumprod(x), M),
    ("cumulative_sum", lambda x: np.cumulative_sum(x), V),
    ("cumulative_sum with start", lambda x: np.cumulative_sum(x, axis=-1, include_initial=True), C),
    ("cumulative_prod", lambda x: np.cumulative_prod(x, axis=0), M),
    ("cumulative_prod with start", lambda x: np.cumulative_prod(x, include_initial=True), V),
    ("add.accumulate", lambda x: np.add.accumulate(x), M),
    ("multiply.accumulate", lambda x: np.multiply.accumulate(x, axis=1), M),
    ("diff", lambda x: np.diff(x), C),
    ("diff n", lambda x: np.diff(x, 2, axis=1), C),
    ("diff with edges", lambda x: np.diff(x, prepend=0, append=x[..., :1], axis=2), C),
    ("diff with a column", lambda x: np.diff(x, axis=0, prepend=x[:1] * 2), M),
    ("diff complex", lambda x: np.diff(x), Z),
    ("diff of nothing left", lambda x: np.diff(x, n=9), V),
    ("diff 0", lambda x: np.diff(x * 1, n=0), V),
    ("ediff1d", lambda x: np.ediff1d(x), M),
    ("ediff1d with edges", lambda x: np.ediff1d(x, to_end=[1, 2], to_begin=x[0, 0]), M),
]


@pytest.mark.parametrize(("f", "x"), named(ROWS))
def test_values_and_derivatives(f, x):
    check_call(f, x)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "nancumsum", "nancumprod"])
def test_dtype(name):
    check_value(lambda x: getattr(np, name)(x, dtype=np.complex64), M)
    check_value(lambda x: getattr(np, name)(x, axis=0, dtype=np.float64), M.astype(np.float32))
    integers = np.array([1, 2, 3])
    compare(getattr(np, name)(Tensor(integers), dtype=np.int32), getattr(np, name)(integers, dtype=np.int32))


@pytest.mark.parametrize("name", ["nancumsum", "nancumprod"])
def test_nan_is_skipped_to_second_order(name):
    x = np.array([1.5, np.nan, 2.0, 0.5])
    f = getattr(np, name)
    gradient = fg.grad(lambda x: np.sum(f(x) ** 2))
    assert gradient(x).numpy()[1] == 0
    others = np.array([0, 2, 3])
    expected = fg.grad(lambda y: np.sum(f(np.concatenate([y[:1], y[:1] * 0 + neutral(name), y[1:]])) ** 2))(x[others])
    np.testing.assert_allclose(gradient(x).numpy()[others], expected)
    second = fg.grad(lambda x: np.sum(gradient(x) ** 2))(x).numpy()
    assert second[1] == 0
    assert np.all(np.isfinite(second))


def neutral(name):
    return 0.0 if name == "nancumsum" else 1.0


def by_hand(a, b, backwards):
    y = np.array(b)
    order = range(len(b) - 2, -1, -1) if backwards else range(1, len(b))
    for k in order:
        y[k] += a[k + 1] * y[k + 1] if backwards else a[k] * y[k - 1]
    return y


@pytest.mark.parametrize("backwards", [False, True])
def test_recurrences_of_every_length(backwards):
    for n in (*range(_SHORT * 5), 1000, 1023):
        for lanes in ((), (2,), (_WIDE,)) if n < 40 else ((),):
            a, b = RNG.uniform(-1.2, 1.2, (n, *lanes)), RNG.standard_normal((n, *lanes))
            expected = by_hand(a, b, backwards)
            scale = np.max(np.abs(expected), initial=1.0)
            np.testing.assert_allclose(recurrence(a, b, 0, backwards), expected, rtol=1e-12, atol=1e-13 * scale)


@pytest.mark.parametrize("zeros", [[], [0], [3], [2, 5], [0, 1, 2, 3, 4, 5, 6, 7]])
def test_cumprod_through_zeros_in_every_order(zeros):
    x = RNG.uniform(0.5, 1.5, 8)
    x[zeros] = 0
    weights = RNG.standard_normal(8)

    def slow(x):
        total, result = 1.0, []
        for each in x:
            total = total * each
            result.append(total)
        return np.sum(np.stack(result) * weights)

    def fast(x):
        return np.sum(np.cumprod(x) * weights)

    np.testing.assert_allclose(fg.grad(fast)(x), fg.grad(slow)(x), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(fg.hessian(fast)(x), fg.hessian(slow)(x), rtol=1e-12, atol=1e-15)
    check_grads(np.cumprod, (x,), order=3)


def test_an_unused_infinity_contributes_nothing():
    x = np.array([2.0, 3.0, np.inf, np.inf])
    assert fg.grad(lambda x: np.cumprod(x)[1])(x).tolist() == [3.0, 2.0, 0.0, 0.0]
    assert fg.jvp(lambda x: np.cumprod(x)[1], (x,), (np.array([1.0, 0.0, 0.0, 0.0]),))[1] == 3.0


def test_a_long_product_takes_memory_in_proportion():
    """Doubling stretches would have kept log2(n) arrays of the size of the input; the rule keeps two."""
    x = RNG.uniform(0.99, 1.01, 1 << 12)
    value, pullback = fg.vjp(np.cumprod, x)
    np.testing.assert_allclose(pullback(np.ones_like(x))[0] * x, np.cumsum(value.numpy()[::-1])[::-1], rtol=1e-10)
    assert fg.trace(lambda x: np.cumprod(x, axis=0))(x).counts() == {"cumprod": 1}


def test_numpys_own_errors():
    for f, x, error, message in (
        (lambda x: np.cumulative_sum(x), M, ValueError, "``axis`` argument is required"),
        (lambda x: np.diff(x, n=-1), V, ValueError, "order must be non-negative but got -1"),
        (lambda x: np.diff(x, axis=2), M, np.exceptions.AxisError, "axis 2 is out of bounds for array of dimension 2"),
        (lambda x: np.diff(x[0]), V, ValueError, "diff requires input that is at least one dimensional"),
        (lambda x: np.ediff1d(x, to_end=[1j]), V, TypeError, "dtype of `to_end` must be compatible with input `ary`"),
        (lambda x: np.cumsum(x, axis=3), M, np.exceptions.AxisError, "axis 3 is out of bounds for array of dim"),
    ):
        with pytest.raises(error, match=message):
            f(x)
        with pytest.raises(error, match=message):
            fg.vjp(f, x)


def test_results_are_written_into_tensors_alone():
    for name in ("cumsum", "cumprod", "nancumsum", "cumulative_sum"):
        result = fg.constant(np.zeros(5))
        f = getattr(np, name)
        assert f(Tensor(V), out=result) is result
        np.testing.assert_allclose(result, f(V))
        with pytest.raises(fg.errors.InPlaceError, match=f"np.{name} would write a tensor into a plain NumPy array"):
            fg.grad(lambda x: np.sum(f(x, out=np.zeros(5))))(V)


def test_booleans():
    compare(fg.vjp(lambda x: np.diff(x > 0.6) * x[1:], V)[0], np.diff(V > 0.6) * V[1:])
