"""Clipping: values, norms, and derivatives through them."""

import re

import numpy as np
import pytest
from helpers import plain

import fgrad as fg
from fgrad import errors


@pytest.mark.parametrize(
    ("values", "low", "high", "expected"),
    [
        ([-3.0, 0.5, 3.0], -1.0, 1.0, [-1.0, 0.5, 1.0]),
        ([-3.0, 0.5, 3.0], [0.0, 0.0, 0.0], [1.0, 0.25, 5.0], [0.0, 0.25, 3.0]),
        ([1.0, 2.0], 3.0, -3.0, [3.0, 3.0]),  # the lower bound wins
        ([[1.0], [5.0]], 2.0, 4.0, [[2.0], [4.0]]),
        (5.0, 0.0, 1.0, 1.0),
        ([np.inf, -np.inf], -1.0, 1.0, [1.0, -1.0]),
    ],
)
def test_clip_by_value(values, low, high, expected):
    for make in (list, np.array, fg.constant, fg.Variable):
        if make is list and not isinstance(values, list):
            continue
        result = fg.clip_by_value(make(values), low, high)
        assert type(result) is fg.Tensor
        assert plain(result) == expected


def test_clip_by_value_keeps_nan_and_dtype():
    result = fg.clip_by_value(np.float32([np.nan, 5]), -1.0, 1.0)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(result), np.float32([np.nan, 1]))


def test_the_derivative_of_clip_by_value():
    gradient = fg.grad(lambda x: np.sum(fg.clip_by_value(x, -1.0, 1.0) * np.array([1.0, 10.0, 100.0])))
    assert plain(gradient(np.array([-3.0, 0.5, 3.0]))) == [0.0, 10.0, 0.0]
    # At the bounds the derivative is shared between the value and the bound.
    assert plain(gradient(np.array([-1.0, 0.5, 1.0]))) == [0.5, 10.0, 50.0]
    assert plain(fg.grad(lambda high: np.sum(fg.clip_by_value(np.array([0.0, 5.0, 7.0]), -1.0, high)))(1.0)) == 2.0


@pytest.mark.parametrize(
    ("values", "norm", "axes", "expected"),
    [
        ([3.0, 4.0], 1.0, None, [0.6, 0.8]),
        ([3.0, 4.0], 10.0, None, [3.0, 4.0]),
        ([3.0, 4.0], 5.0, None, [3.0, 4.0]),
        ([0.0, 0.0], 1.0, None, [0.0, 0.0]),
        ([3.0, 4.0], 0.0, None, [0.0, 0.0]),
        ([3.0, 4.0], 0, None, [0.0, 0.0]),
        ([0.0, 0.0], 0.0, None, [0.0, 0.0]),
        ([[3.0, 4.0], [0.3, 0.4]], 1.0, [1], [[0.6, 0.8], [0.3, 0.4]]),
        ([[3.0, 4.0], [0.3, 0.4]], 1.0, 1, [[0.6, 0.8], [0.3, 0.4]]),
        ([[3.0, 0.3], [4.0, 0.4]], 1.0, (0,), [[0.6, 0.3], [0.8, 0.4]]),
        ([[3.0, 0.0], [0.0, 4.0]], 1.0, [0, 1], [[0.6, 0.0], [0.0, 0.8]]),
        ([3.0 + 4.0j], 1.0, None, [0.6 + 0.8j]),
        (-5.0, 1.0, None, -1.0),
    ],
)
def test_clip_by_norm(values, norm, axes, expected):
    for make in (np.array, fg.constant):
        result = fg.clip_by_norm(make(values), norm, axes)
        assert type(result) is fg.Tensor
        np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-15)
        assert result.shape == np.shape(values)


def test_clip_by_norm_keeps_the_dtype():
    assert fg.clip_by_norm(np.float32([3, 4]), 1.0).dtype == np.float32


def test_clip_by_norm_of_an_infinite_element():
    with np.errstate(invalid="ignore"):  # inf / inf, of which NumPy warns as anywhere
        np.testing.assert_array_equal(np.asarray(fg.clip_by_norm([np.inf, 1.0], 1.0)), [np.nan, 0.0])


def _jacobian(f, x):
    _, pullback = fg.vjp(f, x)
    return np.stack([np.asarray(pullback(row)[0]) for row in np.eye(len(x))])


def test_the_derivative_of_clip_by_norm():
    clipped = lambda x: fg.clip_by_norm(x, 1.0)  # noqa: E731
    np.testing.assert_allclose(_jacobian(clipped, np.array([3.0, 4.0])), [[0.128, -0.096], [-0.096, 0.072]], atol=1e-15)
    np.testing.assert_array_equal(_jacobian(clipped, np.zeros(2)), np.eye(2))
    np.testing.assert_array_equal(_jacobian(clipped, np.array([0.3, 0.4])), np.eye(2))


@pytest.mark.parametrize("norm", [-1.0, [1.0, -1.0]])
def test_a_negative_norm(norm):
    with pytest.raises(ValueError, match="clip_norm must not be negative"):
        fg.clip_by_norm([3.0, 4.0], norm)
    with pytest.raises(ValueError, match="clip_norm must not be negative"):
        fg.clip_by_global_norm([[3.0, 4.0]], norm)


def test_global_norm():
    assert plain(fg.global_norm([[3.0], [4.0], None])) == 5.0
    assert plain(fg.global_norm([fg.constant([3.0]), np.array(4.0)])) == 5.0
    assert plain(fg.global_norm(g for g in ([3.0], [4.0]))) == 5.0
    assert plain(fg.global_norm([])) == 0.0
    assert plain(fg.global_norm([None])) == 0.0
    assert plain(fg.global_norm([[3.0 + 4.0j]])) == 5.0
    assert type(fg.global_norm([])) is fg.Tensor
    for one in (fg.constant([3.0, 4.0]), np.array([3.0, 4.0]), fg.Variable([3.0, 4.0])):
        with pytest.raises(TypeError, match=r"t_list must be a list of arrays, and it is one array of shape \(2,\)"):
            fg.global_norm(one)
        with pytest.raises(TypeError, match="t_list must be a list of arrays"):
            fg.clip_by_global_norm(one, 1.0)


def test_the_derivative_of_global_norm():
    norm = lambda a, b: fg.global_norm([a, b])  # noqa: E731
    np.testing.assert_allclose(np.asarray(fg.gradients_function(norm)(3.0, 4.0)), [0.6, 0.8], rtol=1e-15)
    assert plain(fg.gradients_function(norm)(0.0, 0.0)) == [0.0, 0.0]


def test_clip_by_global_norm():
    clipped, norm = fg.clip_by_global_norm([[3.0], None, fg.constant([4.0])], 1.0)
    assert type(clipped) is list
    assert clipped[1] is None
    np.testing.assert_allclose([clipped[0].item(), clipped[2].item()], [0.6, 0.8], rtol=1e-15)
    assert norm.item() == 5.0
    clipped, norm = fg.clip_by_global_norm([[3.0], [4.0]], 10.0)
    assert (plain(clipped), norm.item()) == ([[3.0], [4.0]], 5.0)
    clipped, norm = fg.clip_by_global_norm([[0.0], [0.0]], 1.0)
    assert (plain(clipped), norm.item()) == ([[0.0], [0.0]], 0.0)
    clipped, norm = fg.clip_by_global_norm([[0.0], [0.0]], 0.0)
    assert plain(clipped) == [[0.0], [0.0]]
    clipped, norm = fg.clip_by_global_norm([], 1.0)
    assert (clipped, norm.item()) == ([], 0.0)


def test_clip_by_global_norm_with_a_norm_that_is_known():
    clipped, norm = fg.clip_by_global_norm([[3.0], [4.0]], 1.0, use_norm=10.0)
    np.testing.assert_allclose(np.asarray(clipped), [[0.3], [0.4]], rtol=1e-15)
    assert norm.item() == 10.0


@pytest.mark.parametrize("bad", [np.inf, np.nan, -np.inf])
def test_a_norm_that_is_not_finite_spoils_everything(bad):
    clipped, norm = fg.clip_by_global_norm([[bad, 1.0], [2.0]], 1.0)
    assert np.isnan(np.asarray(clipped[0])).all()
    assert np.isnan(np.asarray(clipped[1])).all()
    assert not np.isfinite(np.asarray(norm))


def test_clip_by_global_norm_keeps_the_dtypes():
    clipped, _ = fg.clip_by_global_norm([np.float32([3]), np.array([4.0])], 1.0)
    assert [c.dtype for c in clipped] == [np.float32, np.float64]


def test_the_derivative_of_clip_by_global_norm():
    def f(a, b):
        (a, b), _ = fg.clip_by_global_norm([a, b], 1.0)
        return a, b

    _, pullback = fg.vjp(f, 3.0, 4.0)
    np.testing.assert_allclose(np.asarray(pullback((1.0, 0.0))), [0.128, -0.096], rtol=1e-13)
    np.testing.assert_allclose(np.asarray(pullback((0.0, 1.0))), [-0.096, 0.072], rtol=1e-13)
    _, pullback = fg.vjp(f, 0.3, 0.4)
    np.testing.assert_allclose(np.asarray(pullback((1.0, 0.0))), [1.0, 0.0], atol=1e-15)


@pytest.mark.parametrize(
    ("clip", "text"),
    [
        (lambda x: fg.clip_by_value(x, np.zeros((2, 1)), 1.0), "clip_value_min of shape (2, 1)"),
        (lambda x: fg.clip_by_value(x, 0.0, np.ones((3, 2))), "clip_value_max of shape (3, 2)"),
        (lambda x: fg.clip_by_value(x[0], 0.0, np.ones(1)), "shape ()"),
        (lambda x: fg.clip_by_norm(x, np.ones((2, 1))), "clip_norm of shape (2, 1)"),
    ],
)
def test_limits_do_not_broadcast_what_is_clipped(clip, text):
    x = np.array([3.0, 4.0])
    for call in (lambda: clip(x), lambda: fg.vjp(clip, x), lambda: fg.vmap(clip)(np.stack([x, x]))):
        with pytest.raises(errors.ShapeError, match=re.escape(text)):
            call()


def test_limits_that_fit_are_broadcast():
    x = np.array([[3.0, 4.0], [0.3, 0.4]])
    np.testing.assert_array_equal(fg.clip_by_value(x, [[0.0], [0.35]], [1.0, 2.0]), [[1.0, 2.0], [0.35, 0.4]])
    np.testing.assert_allclose(fg.clip_by_norm(x, [[1.0], [2.0]], axes=1), [[0.6, 0.8], [0.3, 0.4]])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64])
def test_norms_whose_squares_overflow_in_the_dtype(dtype):
    size = 100.0 if dtype == np.float16 else 1e25
    x = np.array([3 * size, 4 * size], dtype)
    for clipped in (fg.clip_by_norm(x, 1.0), fg.clip_by_global_norm([x], 1.0)[0][0]):
        assert clipped.dtype == dtype
        np.testing.assert_allclose(np.asarray(clipped), [0.6, 0.8], rtol=1e-3)
    norm = fg.global_norm([x, x])
    assert norm.dtype == np.real(x).dtype
    np.testing.assert_allclose(np.asarray(norm, float), 5 * size * np.sqrt(2), rtol=1e-3)
    small = np.array([3.0, 4.0], dtype) * dtype(1e-3)
    np.testing.assert_array_equal(fg.clip_by_norm(small, 1.0), small)


def test_clip_by_norm_of_nan_is_nan_everywhere():
    np.testing.assert_array_equal(fg.clip_by_norm([[np.nan, 5.0], [3.0, 4.0]], 1.0, axes=[1])[0], [np.nan, np.nan])
    np.testing.assert_allclose(fg.clip_by_norm([[np.nan, 5.0], [3.0, 4.0]], 1.0, axes=[1])[1], [0.6, 0.8])


def test_an_infinite_limit_clips_nothing():
    x = np.array([3.0, 4.0])
    assert fg.clip_by_norm(x, np.inf).tolist() == [3.0, 4.0]
    (clipped,), norm = fg.clip_by_global_norm([x], np.inf)
    assert (clipped.tolist(), float(norm)) == ([3.0, 4.0], 5.0)
    assert fg.grad(lambda x: np.sum(fg.clip_by_global_norm([x], np.inf)[0][0]))(x).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("size", [1e300, 1.0, 1e-300])
def test_norms_neither_overflow_nor_vanish(size):
    t = size * np.array([3.0, 4.0])
    limit = size / 2
    np.testing.assert_allclose(fg.clip_by_norm(t, limit), t / 10, rtol=1e-15)
    (clipped,), norm = fg.clip_by_global_norm([t], limit)
    np.testing.assert_allclose(norm, 5 * size, rtol=1e-15)
    np.testing.assert_allclose(clipped, t / 10, rtol=1e-15)
    slope = fg.grad(lambda t: fg.clip_by_norm(t, limit)[0])
    np.testing.assert_allclose(slope(t), [0.064, -0.048], rtol=1e-12)
    np.testing.assert_allclose(fg.compile(slope)(t), [0.064, -0.048], rtol=1e-12)
    np.testing.assert_allclose(fg.grad(lambda t: fg.global_norm([t]))(t), [0.6, 0.8])
