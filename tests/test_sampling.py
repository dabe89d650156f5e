"""Convolution, interpolation, differences, integrals, phases and the functions of sampled signals."""

import itertools
import re
import warnings
from math import factorial

import numpy as np
import pytest
import scipy.special
from helpers import grouped, naming
from rows import check_row, identified

import fgrad as fg
from fgrad import errors
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.tensor import Tensor, apply
from fgrad.testing import check_grads

RNG = np.random.default_rng(4)
V = RNG.normal(size=5)
W = RNG.normal(size=3)
U = RNG.normal(size=4)
M = RNG.normal(size=(3, 4))
C = RNG.normal(size=(3, 4, 5))
Z = RNG.normal(size=4) + 1j * RNG.normal(size=4)
Y = RNG.normal(size=3) + 1j * RNG.normal(size=3)
NUMBER = np.array(1.3)

POINTS = np.array([-1.0, -0.2, 0.5, 2.0])
VALUES = np.array([0.3, 1.2, -0.7, 0.4])
INSIDE = np.array([-0.9, 0.1, 1.1, 0.3, -0.5])
OUTSIDE = np.array([-1.5, 0.1, 2.5, 7.3])
ANGLES = np.array([0.5, 1.4, 2.8, 4.1, 5.9])
SPACINGS = np.array([0.0, 0.4, 1.5, 1.9])
PHASES = np.array([0.0, 2.0, -2.3, 1.1, 4.8, -4.1])

PAIRS = [
    (V, W), (W, V), (V, V), (U, U), (V, U), (U, V), (V[:1], W), (V, W[:2]), (W[:2], V), (V[:1], W[:1]),
    (V, Y), (Y, V), (Z, Y), (Y, Z),
]  # fmt: skip


def called(name, mode):
    return lambda a, v: getattr(np, name)(a, v, mode)


ROWS = [
    *(
        (f"{name} {len(a)}{a.dtype.char} with {len(v)}{v.dtype.char}, {mode}", called(name, mode), a, v)
        for name in ("convolve", "correlate")
        for mode in ("full", "same", "valid")
        for a, v in PAIRS
    ),
    ("convolve with a number", lambda a, v: np.convolve(a, v), V, NUMBER),
    ("convolve with a list", lambda a: np.convolve(a, [1.0, 2.0, 0.5], "same"), V),
    ("interp", np.interp, INSIDE, POINTS, VALUES),
    ("interp of a number", np.interp, NUMBER, POINTS, VALUES),
    ("interp of a matrix", np.interp, M / 4, POINTS, VALUES),
    ("interp beyond the ends", np.interp, OUTSIDE, POINTS, VALUES),
    ("interp left and right", lambda x, xp, fp: np.interp(x, xp, fp, left=-3.0, right=x[0]), OUTSIDE, POINTS, VALUES),
    ("interp right", lambda x, fp: np.interp(x, POINTS, fp, right=9.0), OUTSIDE, VALUES),
    ("interp of complex values", np.interp, INSIDE, POINTS, Z),
    ("interp with a period", lambda x, xp, fp: np.interp(x, xp, fp, period=3.5), OUTSIDE, ANGLES, V),
    ("interp with a negative period", lambda x, fp: np.interp(x, ANGLES, fp, period=-3.5), OUTSIDE, V),
    ("interp by the period", lambda d, fp: np.interp(OUTSIDE + 0 * d, ANGLES, fp, period=d), np.array(3.45), V),
    ("interp of one point", lambda x, xp, fp: np.interp(x, xp, fp) * x, INSIDE, POINTS[:1], VALUES[:1]),
    ("interp in lists", lambda x: np.interp(x, [-1, 0, 1, 2], [x[1], 2.0, x[0] * x[1], 0.3]), INSIDE),
    ("interp of nothing", lambda x, fp: np.interp(x, POINTS, fp), np.zeros(0), VALUES),
    ("gradient", lambda f: np.gradient(f), V),
    ("gradient of second order at the edges", lambda f: np.gradient(f, edge_order=2), V),
    ("gradient by two points", lambda f: np.gradient(f), V[:2]),
    ("gradient by three points", lambda f: np.gradient(f, 0.5, edge_order=2), W),
    ("gradient along all axes", lambda f: np.gradient(f), C),
    ("gradient along one axis", lambda f: np.gradient(f, 0.7, axis=-2), C),
    ("gradient along two axes", lambda f: np.gradient(f, 0.7, [0.0, 0.1, 0.5], axis=(1, 0), edge_order=2), C),
    ("gradient by spacing", lambda f, d: np.gradient(f, d), V, NUMBER),
    ("gradient by spacings", lambda f, d, e: np.gradient(f, d, e), M, NUMBER, np.array(0.4)),
    ("gradient by coordinates", lambda f, x: np.gradient(f, x, axis=1), M, SPACINGS),
    ("gradient by coordinates, order 2", lambda f, x: np.gradient(f, x, axis=1, edge_order=2), M, SPACINGS),
    ("gradient by even coordinates", lambda f: np.gradient(f, [0, 2, 4, 6]), U),
    ("gradient by integer coordinates", lambda f: np.gradient(f, np.array([0, 2, 3, 6], np.uint8)), U),
    ("gradient of complex values", lambda f: np.gradient(f, 0.5, edge_order=2), Z),
    ("trapezoid", lambda y: np.trapezoid(y), V),
    ("trapezoid dx", lambda y, dx: np.trapezoid(y, dx=dx, axis=0), M, NUMBER),
    ("trapezoid x", lambda y, x: np.trapezoid(y, x), M, SPACINGS),
    ("trapezoid x axis", lambda y, x: np.trapezoid(y, x, axis=1), C, SPACINGS),
    ("trapezoid x first axis", lambda y, x: np.trapezoid(y, x, axis=0), C, W),
    ("trapezoid x of each row", lambda y, x: np.trapezoid(y, x, axis=0), M, M[::-1] ** 2),
    ("trapezoid x of the last axes", lambda y, x: np.trapezoid(y, x), C, C[0] ** 2),
    ("trapezoid of complex values", lambda y: np.trapezoid(y, SPACINGS), Z),
    ("unwrap", lambda p: np.unwrap(p), PHASES),
    ("unwrap axis", lambda p: np.unwrap(p, axis=0) * p, 3 * M),
    ("unwrap discont", lambda p: np.unwrap(p, 4.0) ** 2, PHASES),
    ("unwrap period", lambda p: np.unwrap(p, period=3.0), PHASES),
    ("unwrap by the period", lambda p, period: np.unwrap(p + 0 * period, period=period), PHASES, np.array(3.0)),
    ("sinc", np.sinc, M),
    ("sinc near 0", np.sinc, np.array([0.0, 1e-9, -1e-3, 0.01, 0.3])),
    ("sinc of complex numbers", np.sinc, Z),
    ("sinc of a number", np.sinc, NUMBER),
    ("i0", np.i0, np.array([-9.0, -0.3, 0.0, 1e-9, 2.0, 7.9, 8.1])),
    ("i0 of a matrix", np.i0, M),
    ("i0 far away", lambda x: np.log(np.i0(x)), np.array([29.0, 31.0, 90.0])),
]  # fmt: skip


@pytest.mark.parametrize("cases", grouped(identified(ROWS), lambda name: re.match(r"\w+", name)[0]))
def test_value_and_derivatives(cases):
    for name, f, *points in cases:
        with naming(name):
            check_row(f, *points)


# Convolution


@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_batches_of_signals_and_of_kernels(name, mode):
    """A loop agrees whichever of the two is mapped, also twice, and no loop is run."""
    f = called(name, mode)
    signals, kernels = RNG.normal(size=(3, 6)), RNG.normal(size=(3, 4))
    with warnings.catch_warnings(action="error", category=errors.LoopWarning):
        for axes in ((0, None), (None, 0), (0, 0)):
            a = signals if axes[0] == 0 else signals[0]
            v = kernels if axes[1] == 0 else kernels[0]
            rows = [f(a[i] if axes[0] == 0 else a, v[i] if axes[1] == 0 else v) for i in range(3)]
            np.testing.assert_allclose(fg.vmap(f, in_axes=axes)(a, v), rows, rtol=1e-12, atol=1e-13)
        table = fg.vmap(lambda a: fg.vmap(lambda v: f(a, v))(kernels))(signals)
    np.testing.assert_allclose(table, [[f(a, v) for v in kernels] for a in signals], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("n", "m"), list(itertools.product(range(1, 6), repeat=2)))
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_jacobians_of_convolutions_of_all_sizes(mode, n, m):
    """By both modes, and again for the convolution that is the derivative's derivative."""
    a, v = RNG.normal(size=n), RNG.normal(size=m)
    for name in ("convolve", "correlate"):
        f = called(name, mode)
        for argnum in (0, 1):
            backward, forward = fg.jacrev(f, argnum)(a, v), fg.jacfwd(f, argnum)(a, v)
            np.testing.assert_allclose(backward, forward, rtol=1e-13, atol=1e-14)
            pulled = [f(e, v) if argnum == 0 else f(a, e) for e in np.eye(n if argnum == 0 else m)]
            np.testing.assert_allclose(forward, np.transpose(pulled), rtol=1e-13, atol=1e-14)
        mixed = fg.jacobian(fg.jacrev(f, 0), 1)(a, v)
        np.testing.assert_allclose(mixed, fg.jacfwd(fg.jacfwd(f, 0), 1)(a, v), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize(
    ("a", "v", "message"),
    [
        (np.zeros(0), V, "empty"), (V, np.zeros(0), "empty"), (M, V, "object too deep|maximum number of dimension"),
    ],
)  # fmt: skip
def test_what_convolutions_refuse(name, a, v, message):
    f = getattr(np, name)
    with pytest.raises(ValueError, match=message):
        f(a, v)
    with pytest.raises(ValueError, match=message):
        fg.vjp(f, a, v)
    with pytest.raises(ValueError, match="mode must be one of 'valid', 'same', or 'full'"):
        fg.vjp(lambda a: f(a, W, "other"), V)


# Interpolation


def test_slopes_at_sample_points_are_those_on_the_right():
    x = np.array([0.0, 1.0, 2.0, 3.0, -1.0])
    slopes = fg.gradients_function(lambda x: np.interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 5.0]))(x)[0]
    assert slopes.tolist() == [1.0, 4.0, 4.0, 0.0, 0.0]
    _, tangent = fg.jvp(lambda x: np.interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 5.0]), (x,), (np.ones(5),))
    assert tangent.tolist() == [1.0, 4.0, 4.0, 0.0, 0.0]


def test_a_jump_has_the_slopes_beside_it():
    """Where two sample points are the same, the line is not followed: it would be infinitely steep."""
    xp, fp = np.array([0.0, 1.0, 1.0, 2.0, 2.0]), np.array([0.0, 1.0, 5.0, 6.0, 9.0])
    x = np.array([1.0, 2.0, 0.5])
    f = fg.gradients_function(lambda x, fp: np.interp(x, xp, fp))
    assert np.interp(x, xp, fp).tolist() == [5.0, 9.0, 0.5]
    slopes, values = f(x, fp)
    assert slopes.tolist() == [1.0, 0.0, 1.0]
    assert values.tolist() == [0.5, 0.5, 1.0, 0.0, 1.0]
    hessian = fg.jacobian(lambda x: f(x, fp)[0])(x)
    assert hessian.tolist() == np.zeros((3, 3)).tolist()


def test_values_that_are_not_used_contribute_nothing():
    def f(x):
        return np.sum(np.interp([2.0, 2.5, 9.0], [0.0, 1.0, 2.0, 3.0], np.log(x)))

    x = np.array([0.0, 0.0, 1.0, 2.0])
    with np.errstate(divide="ignore"):
        assert fg.grad(f)(x).tolist() == [0.0, 0.0, 1.5, 0.75]
        assert np.diag(fg.hessian(f)(x).numpy()).tolist() == [0.0, 0.0, -1.5, -0.375]


def test_left_and_right_have_derivatives():
    def f(left, right):
        return np.interp(fg.constant(OUTSIDE) + 0 * left, POINTS, VALUES, left=left, right=right)

    assert fg.gradients_function(f)(1.0, 2.0)[0].item() == 1.0
    assert fg.gradients_function(f)(1.0, 2.0)[1].item() == 2.0


@pytest.mark.parametrize("axes", [axes for axes in itertools.product((0, None), repeat=3) if 0 in axes])
def test_batches_of_tables(axes):
    x, fp = np.stack([INSIDE, OUTSIDE[[0, 1, 2, 3, 1]]]), np.stack([VALUES, VALUES[::-1]])
    xp = np.stack([POINTS, POINTS * 1.1])
    args = [each if axis == 0 else each[0] for each, axis in zip((x, xp, fp), axes, strict=True)]

    def rows(f):
        return [f(*(a[i] if axis == 0 else a for a, axis in zip(args, axes, strict=True))) for i in range(2)]

    def gradients(x, xp, fp):
        return np.concatenate(fg.vjp(np.interp, x, xp, fp)[1](np.arange(1.0, 6.0)))

    for f in (np.interp, gradients):
        with warnings.catch_warnings(action="error", category=errors.LoopWarning):
            found = fg.vmap(f, in_axes=axes)(*args)
        np.testing.assert_allclose(found, [np.asarray(row) for row in rows(f)], rtol=1e-13, atol=1e-14)


def test_what_interp_refuses():
    for x, xp, fp, keywords, message in (
        (V, POINTS, VALUES[:3], {}, "fp and xp are not of the same length"),
        (V, POINTS[:0], VALUES[:0], {}, "array of sample points is empty"),
        (V, M, M, {}, "too deep"),
        (V, POINTS, VALUES, {"period": 0}, "period must be a non-zero value"),
    ):
        with pytest.raises(ValueError, match=message):
            np.interp(x, xp, fp, **keywords)
        with pytest.raises(ValueError, match=message):
            fg.vjp(lambda x, xp=xp, fp=fp, keywords=keywords: np.interp(x, xp, fp, **keywords), x)


@pytest.mark.parametrize("number", [0, 1])
def test_interp_refuses_complex_places_as_numpy_does(number):
    points = [np.array([0.5, 1.5]), np.array([0.0, 1.0, 2.0])]
    points[number] = points[number] + 0.1j
    with pytest.raises(TypeError, match="Cannot cast array data from"):
        fg.vjp(lambda *points: np.interp(*points, np.array([1.0, 3.0, 2.0])), *points)


# Differences and integrals


def test_coordinates_that_happen_to_be_even_keep_their_derivatives():
    """NumPy takes a shorter formula there, in which only the first distance occurs."""
    even = np.arange(4.0)
    for order in (1, 2):
        f = fg.jacobian(lambda x, order=order: np.gradient(U, x, edge_order=order))
        uneven = f(even + np.array([0, 1e-7, -1e-7, 2e-7]))
        np.testing.assert_allclose(f(even), uneven, rtol=1e-5, atol=1e-5)


def test_a_gradient_keeps_its_dtype_whatever_the_spacing():
    f = U.astype(np.float32)
    assert np.gradient(f, SPACINGS).dtype == np.float32
    value, pullback = fg.vjp(lambda f, x: np.gradient(f, x), f, SPACINGS)
    assert value.dtype == np.float32
    assert [each.dtype for each in pullback(np.ones(4, np.float32))] == [np.float32, np.float64]


def test_what_gradient_refuses():
    for args, keywords, kind, message in (
        ((V, 1.0, 2.0), {}, TypeError, "invalid number of arguments"),
        ((V, V[:2]), {}, ValueError, "when 1d, distances must match"),
        ((M, M, M), {}, ValueError, "distances must be either scalars or 1d"),
        ((V,), {"edge_order": 3}, ValueError, "'edge_order' greater than 2 not supported"),
        ((V[:1],), {}, ValueError, "Shape of array too small"),
        ((V[:2],), {"edge_order": 2}, ValueError, "Shape of array too small"),
        ((V,), {"axis": 1}, ValueError, "axis 1 is out of bounds"),
    ):
        with pytest.raises(kind, match=message):
            np.gradient(*args, **keywords)
        with pytest.raises(kind, match=message):
            fg.vjp(lambda f, args=args, keywords=keywords: np.gradient(f, *args[1:], **keywords), args[0])


def test_unwrapping_does_not_change_slopes():
    """What is added is a number of periods: the Jacobian is the identity, exactly, and that by the period counts."""
    assert fg.jacobian(np.unwrap)(PHASES).tolist() == np.eye(6).tolist()
    turns = np.unwrap(PHASES, period=3.0) - PHASES
    by_period = fg.jacobian(lambda period: np.unwrap(PHASES + 0 * period, period=period))(3.0)
    np.testing.assert_allclose(by_period, turns / 3.0, rtol=1e-13)


def test_unwrapping_jumps_of_exactly_half_a_period():
    p = np.array([0.0, np.pi, 0.0, -np.pi, 0.0])
    np.testing.assert_array_equal(fg.vjp(np.unwrap, p)[0], np.unwrap(p))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32])
@pytest.mark.parametrize("period", [4, 5, 4.0])
def test_unwrapping_integers(dtype, period):
    p = np.array([0, 3, 1, 2, -2, 5, 7, 3], dtype)
    expected = np.unwrap(p, period=period)
    found = fg.vmap(lambda p: np.unwrap(p, period=period))(p[None])
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found[0], expected)


# Bessel functions


def test_sinc_has_every_derivative_at_zero():
    """Its series is sum (-1)^k (pi x)^2k / (2k + 1)!"""
    f, found = np.sinc, []
    for _ in range(7):
        found.append(f(fg.constant(0.0)).item())
        f = fg.grad(f)
    assert found == pytest.approx([1, 0, -(np.pi**2) / 3, 0, np.pi**4 / 5, 0, -(np.pi**6) / 7], rel=1e-14)


def test_sinc_loses_no_digits_near_zero():
    x = np.array([1e-12, 1e-6, 1e-3, 0.1])
    slopes = fg.gradients_function(np.sinc)(x)[0]
    series = sum((-1) ** k * 2 * k * np.pi ** (2 * k) * x ** (2 * k - 1) / factorial(2 * k + 1) for k in range(1, 9))
    np.testing.assert_allclose(slopes, series, rtol=1e-14)


@pytest.mark.parametrize("n", range(7))
def test_bessel_functions_agree_with_scipy(n):
    x = np.concatenate([np.linspace(-40, 40, 1001), [1e-8, 1e-3, n + 0.99, n + 1.01]])
    found = apply(PRIMITIVES["spherical_bessel"], (x,), {"n": n})
    parity = np.where(x < 0, (-1.0) ** n, 1.0)
    np.testing.assert_allclose(found, parity * scipy.special.spherical_jn(n, np.abs(x)), rtol=1e-12, atol=1e-15)
    x = np.concatenate([np.linspace(-700, 700, 2001), np.linspace(-32, 32, 501), [1e-8]])
    found = apply(PRIMITIVES["modified_bessel"], (x,), {"n": n})
    np.testing.assert_allclose(found, scipy.special.iv(n, x), rtol=2e-14)


def test_i0_has_every_derivative_at_zero():
    """Its series is sum (x / 2)^2k / k!^2."""
    f, found = np.i0, []
    for _ in range(5):
        found.append(f(fg.constant(0.0)).item())
        f = fg.grad(f)
    assert found == pytest.approx([1, 0, 1 / 2, 0, 3 / 8], rel=1e-14)


def test_i0_refuses_complex_numbers():
    with pytest.raises(TypeError, match="i0 not supported for complex values"):
        fg.vjp(np.i0, Z)


def test_tensors_that_nothing_follows():
    for name, args in (("convolve", (V, W)), ("interp", (INSIDE, POINTS, VALUES)), ("sinc", (V,)), ("unwrap", (V,))):
        found = getattr(np, name)(*map(Tensor, args))
        assert type(found) is Tensor
        np.testing.assert_array_equal(found, getattr(np, name)(*args))


def test_a_convolution_of_a_network_learns():
    """A kernel is found again from what it made of a signal: gradients of the right size and sign."""
    signal, kernel = RNG.normal(size=50), np.array([0.5, -1.0, 2.0])
    target = np.convolve(signal, kernel, "same")
    found = np.zeros(3)
    loss = fg.grad(lambda v: np.mean((np.convolve(signal, v, "same") - target) ** 2))
    for _ in range(200):
        found = found - 0.2 * loss(found).numpy()
    np.testing.assert_allclose(found, kernel, rtol=1e-6)


def test_third_order():
    check_grads(lambda a, v: np.sum(np.convolve(a, v, "same") ** 2), (V, W[:2]), order=3)
    check_grads(lambda x, fp: np.sum(np.interp(x, POINTS, fp) ** 3), (INSIDE, VALUES), order=3)
