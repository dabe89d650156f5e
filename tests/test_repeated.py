"""What a broadcast has repeated gets its cotangent as one sum of products, which are never in memory."""

import tracemalloc

import numpy as np
import pytest

import fgrad as fg
from fgrad.testing import check_grads

SHAPES = (
    ((40, 30), ()),
    ((40, 30), (1, 1)),
    ((40, 30), (30,)),
    ((40, 30), (40, 1)),
    ((40, 30), (1, 30)),
    ((6, 10, 12), (6, 1, 12)),
    ((6, 10, 12), (6, 10, 1)),
    ((6, 10, 12), (10, 1)),
    ((6, 10, 12), (1, 12)),
    ((1500,), ()),
    ((1500,), (1,)),
    ((0, 3), (3,)),
    ((0, 3), ()),
)


def _arrays(whole, part, dtype=np.float64):
    rng = np.random.default_rng(0)
    return rng.uniform(0.5, 2.0, whole).astype(dtype), rng.uniform(0.5, 2.0, part).astype(dtype)


def _summed_to(x, shape):
    """Undo a broadcast, the plain way."""
    x = x.sum(tuple(range(x.ndim - len(shape))))
    return x.sum(tuple(axis for axis, size in enumerate(shape) if size != x.shape[axis]), keepdims=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("whole", "part"), SHAPES)
def test_factors_divisors_and_subtrahends_that_are_repeated(whole, part, dtype):
    x, y = _arrays(whole, part, dtype)
    weights = _arrays(whole, (), dtype)[0] - dtype(1)
    slopes = {
        np.multiply: x,
        np.true_divide: -x / (y * y),
        np.subtract: -np.ones_like(x),
        lambda x, y: np.multiply(y, x): x,
    }
    for operation, slope in slopes.items():
        _, pullback = fg.vjp(lambda y, operation=operation: operation(x, y), y)
        (found,) = pullback(weights)
        expected = _summed_to(weights.astype(np.float64) * slope, part)
        assert found.shape == part
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=1e-10 if dtype is np.float64 else 1e-4, atol=1e-4)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("whole", "part"), SHAPES[:9])
def test_they_may_lie_in_any_order_and_be_repeated_themselves(whole, part, order):
    x, y = _arrays(whole, part)
    x = np.asarray(x, order=order)[..., ::-1]
    by_sum = fg.grad(lambda y: np.sum(x * y))(y)  # whose cotangent is one number, repeated
    np.testing.assert_allclose(by_sum, _summed_to(x, part), rtol=1e-12)
    both = fg.grad(lambda x, y: np.sum(np.sin(x * y) / y - y), (0, 1))(x, y)
    slope = np.cos(x * y) * x / y - np.sin(x * y) / (y * y) - 1
    np.testing.assert_allclose(both[0], np.cos(x * y), rtol=1e-12)
    np.testing.assert_allclose(both[1], _summed_to(slope, part), rtol=1e-10)


@pytest.mark.parametrize(("whole", "part"), [((20, 15), ()), ((20, 15), (15,)), ((20, 15), (20, 1))])
def test_second_derivatives_go_through_the_sums(whole, part):
    x, y = _arrays(whole, part)
    check_grads(lambda y: np.sum(np.sin(x * y)) + np.sum(np.exp(-x / y)) + np.sum((x - y) ** 2), (y,), order=2)


@pytest.mark.parametrize("size", [5, 2000])
def test_exact_zeros_of_a_mask_win_over_infinities_in_the_sums(size):
    x = np.ones(size)
    x[1] = np.inf

    def of_factor(s):
        return np.sum(np.where(np.isfinite(x), s * x, 0.0))

    def of_divisor(s):
        return np.sum(np.where(np.isfinite(x), x / s, 0.0))

    assert fg.grad(of_factor)(2.0) == size - 1
    assert fg.grad(of_divisor)(2.0) == -(size - 1) / 4


def test_true_infinities_stay_in_the_sums():
    x = np.ones(2000)
    x[1] = np.inf
    assert fg.grad(lambda s: np.sum(s * x))(2.0) == np.inf
    assert fg.grad(lambda s: np.sum(x / s))(2.0) == -np.inf


@pytest.mark.parametrize("size", [50_000, 400_000])  # of which the pullback gets a copy, or the array itself
def test_the_products_are_not_in_memory(size):
    x = np.ones(size)
    weights = np.linspace(0.0, 1.0, size)
    _, pullback = fg.vjp(lambda s: s * x, 2.0)
    pullback(weights)
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        pullback(weights)
        # The weights are copied, since they may come out as a gradient. The products would be another array.
        assert tracemalloc.get_traced_memory()[1] - start < 1.5 * x.nbytes
    finally:
        tracemalloc.stop()
